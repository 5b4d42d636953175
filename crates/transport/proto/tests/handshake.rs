//! Setting associations up, and what must not set one up.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch_harness::{Datagram, Pair, Verdict, craft};
use anabranch_proto::{
    AssociationConfig, CloseReason, ConnectRequest, Endpoint, EndpointConfig, Event, Features,
    Instant, Notification,
};
use anabranch_wire::{
    Cause, Causes, Chunk, CookieEcho, Error, Header, Init, Packet, Parameter, Parameters,
    ShutdownComplete, Tsn, cause_code, kind,
};
use bytes::Bytes;

const LONG: Duration = Duration::from_secs(600);

fn config() -> AssociationConfig {
    let mut config = AssociationConfig::rfc9260();
    config.timers.heartbeat_interval = None;
    config.mtu.discovery = false;
    config
}

/// The chunk of this type in a packet: its flags and value.
fn chunk(packet: &[u8], kind: u8) -> Option<(u8, Vec<u8>)> {
    let packet = Packet::parse(packet).ok()?;
    let mut chunks = packet.chunks().map_while(Result::ok);
    chunks.find(|chunk| chunk.kind == kind).map(|chunk| (chunk.flags, chunk.value.to_vec()))
}

fn header(packet: &[u8]) -> Header {
    Packet::parse(packet).unwrap().header()
}

/// Codes of the error causes in an ABORT or ERROR.
fn causes(value: &[u8]) -> Vec<u16> {
    Causes::new(value).iter().map_while(Result::ok).map(|cause| cause.kind).collect()
}

/// An INIT to the listener from client port 4000, with these parameters.
fn init(tag: u32, parameters: &[u8]) -> Bytes {
    let header = Header { source_port: 4000, destination_port: Pair::PORT, verification_tag: 0 };
    let init = Init {
        initiate_tag: tag,
        a_rwnd: 100_000,
        outbound_streams: 10,
        inbound_streams: 10,
        initial_tsn: Tsn(1),
        parameters: Parameters::new(parameters),
    };
    craft::packet(header, |packet| packet.chunk(&Chunk::Init(init)))
}

/// The cookie that the listener gives for an INIT, and its tag.
fn cookie(pair: &mut Pair, init: Bytes) -> (u32, Vec<u8>) {
    let answers = pair.answers(1, init);
    assert_eq!(answers.len(), 1);
    cookie_of(&answers[0])
}

/// The tag and the cookie of an INIT ACK.
fn cookie_of(packet: &Bytes) -> (u32, Vec<u8>) {
    let (_, value) = chunk(packet, kind::INIT_ACK).expect("an INIT ACK");
    let tag = u32::from_be_bytes([value[0], value[1], value[2], value[3]]);
    let parameters = Parameters::new(&value[16..]);
    let cookie = parameters.iter().map_while(Result::ok).find_map(|raw| match raw.decode() {
        Ok(Parameter::StateCookie(cookie)) => Some(cookie.to_vec()),
        _ => None,
    });
    (tag, cookie.expect("a cookie"))
}

fn echo(tag: u32, cookie: &[u8]) -> Bytes {
    let header = Header { source_port: 4000, destination_port: Pair::PORT, verification_tag: tag };
    craft::packet(header, |packet| packet.chunk(&Chunk::CookieEcho(CookieEcho { cookie })))
}

/// An INIT that arrives twice is answered with two cookies. The second one comes when all is over, and cannot be told
/// from one for a new association.
#[test]
fn a_late_cookie_revives_an_association_until_the_peer_hears_of_it() {
    let mut pair = Pair::new(1, config());
    pair.net.script(|sight| match sight.has(kind::INIT) {
        true => Verdict::Duplicate,
        false => Verdict::Pass,
    });
    pair.connect(config());
    assert!(pair.run_until(LONG, |pair| pair.both_up()));
    let answers: Vec<_> = pair.sent(1).into_iter().map(|(_, bytes)| bytes).collect();
    let second = answers.iter().filter(|bytes| craft::has(bytes, kind::INIT_ACK)).nth(1).unwrap();
    let (tag, cookie) = cookie_of(second);
    let header = Header { verification_tag: tag, ..pair.header(0) };
    // The peer ends with SHUTDOWN COMPLETE, and this side has nothing to wait for.
    pair.shutdown(1);
    assert!(pair.run_until(LONG, |pair| pair.closed.iter().all(Option::is_some)));
    pair.net.settle();
    pair.forget();
    let echo = craft::packet(header, |packet| {
        packet.chunk(&Chunk::CookieEcho(CookieEcho { cookie: &cookie }))
    });
    pair.inject(1, echo);
    assert_eq!(pair.closed[1], None, "it is up");
    pair.shutdown(1);
    let begun = pair.net.now();
    assert!(pair.run_until(LONG, |pair| pair.closed[1].is_some()));
    assert!(pair.net.now().saturating_since(begun) < Duration::from_millis(100));
    assert!(matches!(pair.closed[1], Some(CloseReason::PeerAbort { .. })), "{:?}", pair.closed);
    assert_eq!(pair.count(0, kind::ABORT), 1);
}

#[test]
fn each_packet_of_the_handshake_may_be_lost() {
    for lost in [kind::INIT, kind::INIT_ACK, kind::COOKIE_ECHO, kind::COOKIE_ACK] {
        let mut pair = Pair::new(1, config());
        let mut gone = false;
        pair.net.script(move |sight| {
            let drop = sight.has(lost) && !std::mem::replace(&mut gone, true);
            if drop { Verdict::Drop } else { Verdict::Pass }
        });
        let begun = pair.net.now();
        pair.connect(config());
        assert!(pair.run_until(LONG, |pair| pair.both_up()), "chunk {lost}");
        let took = pair.net.now().saturating_since(begun);
        // T1 is RTO.Initial, and each repetition answers for one loss.
        assert_eq!(took, Duration::from_secs(1) + 4 * Pair::DELAY, "chunk {lost}");
        assert_eq!(pair.statistics(0).counters.handshake_retransmissions, 1, "chunk {lost}");
    }
}

#[test]
// test: rfc9260 5.1 "MUST NOT allocate any resources or keep any states"
fn an_init_leaves_nothing_behind() {
    let mut pair = Pair::new(1, config());
    for tag in 1..1000 {
        assert_eq!(pair.answers(1, init(tag, &[])).len(), 1);
    }
    assert_eq!(pair.net.node(1).endpoint.associations().count(), 0);
    assert_eq!(pair.net.node(1).endpoint.next_deadline(), None);
}

#[test]
// test: rfc9260 5.1 "MUST set the Verification Tag field to Tag_A"
fn an_init_ack_carries_the_tag_of_the_init() {
    let mut pair = Pair::new(1, config());
    let answers = pair.answers(1, init(0x1234_5678, &[]));
    assert_eq!(header(&answers[0]).verification_tag, 0x1234_5678);
    assert_eq!(craft::kinds(&answers[0]), [kind::INIT_ACK]);
}

#[test]
// test: rfc9260 8.4 "chunk MUST be the Initiate Tag of the received"
fn an_init_for_a_closed_port_is_aborted() {
    let mut pair = Pair::new(1, config());
    let init = craft::with_header(&init(77, &[]), |header| header.destination_port = 8);
    let answers = pair.answers(1, init);
    assert_eq!(answers.len(), 1);
    assert_eq!(header(&answers[0]).verification_tag, 77);
    assert_eq!(chunk(&answers[0], kind::ABORT), Some((0, vec![])));
}

#[test]
// test: rfc9260 8.5.1 "the receiver MUST silently discard the"
fn an_init_with_company_or_with_a_tag_is_discarded() {
    let mut pair = Pair::new(1, config());
    let tagged = craft::with_header(&init(7, &[]), |header| header.verification_tag = 9);
    assert!(pair.answers(1, tagged).is_empty());
    let (_, value) = chunk(&init(7, &[]), kind::INIT).unwrap();
    let company = craft::packet(header(&init(7, &[])), |packet| {
        packet.raw(kind::INIT, 0, &value)?;
        packet.raw(kind::COOKIE_ACK, 0, &[])
    });
    assert!(pair.answers(1, company).is_empty());
}

#[test]
fn inits_that_make_no_sense_are_refused() {
    let mut pair = Pair::new(1, config());
    for change in [4, 8, 10] {
        // The window, the outbound and the inbound streams in turn.
        let (_, mut value) = chunk(&init(7, &[]), kind::INIT).unwrap();
        let width = if change == 4 { 4 } else { 2 };
        value[change..change + width].fill(0);
        let packet = craft::packet(header(&init(7, &[])), |p| p.raw(kind::INIT, 0, &value));
        let answers = pair.answers(1, packet);
        let (_, value) = chunk(&answers[0], kind::ABORT).expect("an ABORT");
        assert_eq!(causes(&value), [cause_code::INVALID_MANDATORY_PARAMETER]);
        assert_eq!(header(&answers[0]).verification_tag, 7);
    }
    assert!(pair.answers(1, init(0, &[])).is_empty(), "an initiate tag of 0");
}

#[test]
fn unknown_parameters_are_treated_by_their_highest_bits() {
    let mut pair = Pair::new(1, config());
    for (kind, reported, adaptation) in [
        (0x0123_u16, false, false),
        (0x4123, true, false),
        (0x8123, false, true),
        (0xc123, true, true),
    ] {
        let mut parameters = Vec::new();
        parameters.extend_from_slice(&kind.to_be_bytes());
        parameters.extend_from_slice(&[0, 8, 1, 2, 3, 4]);
        Parameter::AdaptationLayerIndication(5).encode(&mut parameters);
        let packet = init(7, &parameters);
        let answers = pair.answers(1, packet.clone());
        let (_, value) = chunk(&answers[0], kind::INIT_ACK).expect("an INIT ACK");
        let seen = Parameters::new(&value[16..]).iter().map_while(Result::ok).any(|raw| {
            matches!(raw.decode(), Ok(Parameter::UnrecognizedParameter(bytes))
                if bytes[..2] == kind.to_be_bytes())
        });
        assert_eq!(seen, reported, "{kind:#x}");
        // Chunks after it may or may not be read.
        let mut fresh = Pair::new(1, config());
        let (tag, cookie) = cookie(&mut fresh, packet);
        fresh.inject(1, echo(tag, &cookie));
        let indicated = fresh.events[1].iter().any(|event| {
            matches!(event, Event::Notification(Notification::AdaptationIndication(5)))
        });
        assert_eq!(indicated, adaptation, "{kind:#x}");
    }
}

#[test]
// test: rfc9260 5.1.2 "the endpoint MUST immediately send an"
fn a_host_name_is_no_address() {
    let mut pair = Pair::new(1, config());
    let mut parameters = Vec::new();
    Parameter::HostNameAddress(b"example.org\0").encode(&mut parameters);
    let answers = pair.answers(1, init(7, &parameters));
    let (_, value) = chunk(&answers[0], kind::ABORT).expect("an ABORT");
    assert_eq!(causes(&value), [cause_code::UNRESOLVABLE_ADDRESS]);
}

#[test]
fn a_forged_or_foreign_cookie_is_discarded() {
    let mut pair = Pair::new(1, config());
    let (tag, cookie) = cookie(&mut pair, init(7, &[]));
    for byte in 0..cookie.len() {
        let mut forged = cookie.clone();
        forged[byte] ^= 1;
        assert!(pair.answers(1, echo(tag, &forged)).is_empty(), "byte {byte}");
    }
    assert!(pair.answers(1, echo(tag ^ 1, &cookie)).is_empty(), "another tag");
    let port = craft::with_header(&echo(tag, &cookie), |header| header.source_port = 4001);
    assert!(pair.answers(1, port).is_empty(), "another port");
    assert_eq!(pair.net.node(1).endpoint.associations().count(), 0);
    let answers = pair.answers(1, echo(tag, &cookie));
    assert_eq!(craft::kinds(&answers[0]), [kind::COOKIE_ACK]);
}

#[test]
// test: rfc9260 5.1.5 "the endpoint MUST transmit an ERROR chunk with"
fn a_stale_cookie_is_told_so() {
    let mut pair = Pair::new(1, config());
    let (tag, cookie) = cookie(&mut pair, init(7, &[]));
    pair.run(Duration::from_secs(61));
    let answers = pair.answers(1, echo(tag, &cookie));
    let (_, value) = chunk(&answers[0], kind::ERROR).expect("an ERROR");
    assert_eq!(causes(&value), [cause_code::STALE_COOKIE]);
    assert_eq!(header(&answers[0]).verification_tag, 7);
    let staleness = u32::from_be_bytes([value[4], value[5], value[6], value[7]]);
    assert_eq!(staleness, 1_000_000, "microseconds");
    assert_eq!(pair.net.node(1).endpoint.associations().count(), 0);
}

#[test]
// test: rfc9260 5.2.6 "SHOULD add no"
fn a_handshake_survives_a_stale_cookie() {
    let mut server = EndpointConfig::default();
    server.valid_cookie_life = Duration::from_millis(15);
    let addresses = [0, 1].map(|node| anabranch_harness::addresses(node, 1));
    let mut pair = Pair::with(addresses, [EndpointConfig::default(), server], config());
    pair.connect(config());
    assert!(pair.run_until(LONG, |pair| pair.both_up()), "{:?}", pair.closed);
    assert_eq!(pair.count(0, kind::INIT), 2);
    assert_eq!(pair.count(1, kind::ERROR), 1);
}

#[test]
fn a_replayed_cookie_changes_nothing() {
    let mut pair = Pair::new(1, config());
    pair.connect(config());
    assert!(pair.run_until(LONG, |pair| pair.both_up()));
    let sent = pair.sent(0);
    let echo = sent.iter().find(|(_, bytes)| craft::has(bytes, kind::COOKIE_ECHO));
    let echo = echo.expect("a COOKIE ECHO").1.clone();
    assert!(pair.send(0, 0, vec![1; 50_000]));
    pair.run(Duration::from_secs(5));
    for wait in [0, 1, 100] {
        pair.run(Duration::from_secs(wait));
        let answers = pair.answers(1, echo.clone());
        assert_eq!(craft::kinds(&answers[0]), [kind::COOKIE_ACK], "after {wait} s");
    }
    assert!(pair.send(0, 0, vec![2; 50_000]));
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.received_bytes(1).len(), 100_000);
    assert!(
        !pair.events[1]
            .iter()
            .any(|event| matches!(event, Event::Notification(Notification::Restarted { .. })))
    );
}

#[test]
// test: rfc9260 5.2.2 "the endpoint MUST respond with an ABORT chunk"
fn a_restart_must_not_bring_addresses_along() {
    let mut pair = Pair::connected(1, config());
    let client = pair.header(0).source_port;
    let mut parameters = Vec::new();
    Parameter::Ipv4Address([10, 0, 0, 99].into()).encode(&mut parameters);
    let packet = craft::with_header(&init(7, &parameters), |h| h.source_port = client);
    let answers = pair.answers(1, packet);
    assert_eq!(header(&answers[0]).verification_tag, 7);
    let (_, value) = chunk(&answers[0], kind::ABORT).expect("an ABORT");
    assert_eq!(causes(&value), [cause_code::RESTART_WITH_NEW_ADDRESSES]);
    assert_eq!(value[4..], [0, 5, 0, 8, 10, 0, 0, 99]);
    // The association is as it was.
    assert!(pair.send(0, 0, vec![1; 5000]));
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.received_bytes(1).len(), 5000);
    assert_eq!(pair.net.node(1).endpoint.associations().count(), 1);
}

#[test]
// test: rfc9260 5.2.2 "INIT ACK chunk MUST contain a new"
// test: rfc9260 5.2.2 "and the corresponding TCB MUST NOT be changed"
fn an_init_alone_restarts_nothing() {
    let mut pair = Pair::connected(1, config());
    let client = pair.header(0);
    let packet = craft::with_header(&init(7, &[]), |h| h.source_port = client.source_port);
    let answers = pair.answers(1, packet);
    let (_, value) = chunk(&answers[0], kind::INIT_ACK).expect("an INIT ACK");
    assert_ne!(value[..4], client.verification_tag.to_be_bytes());
    assert_eq!(header(&answers[0]).verification_tag, 7);
    assert!(pair.send(0, 0, vec![1; 5000]) && pair.send(1, 0, vec![1; 5000]));
    pair.run(Duration::from_secs(1));
    assert_eq!((pair.received_bytes(0).len(), pair.received_bytes(1).len()), (5000, 5000));
}

#[test]
// test: rfc9260 5.2.4 "SHOULD be sent to the ULP instead of"
// test: rfc9260 5.2.4 "related to this peer MUST be reset"
fn a_restart_keeps_the_association_and_gives_data_back() {
    let mut both = config();
    both.acknowledging.nr_sack = true;
    let mut pair = Pair::connected(2, both);
    let mut request = ConnectRequest::new(pair.addresses[1].clone(), Pair::PORT);
    request.local_port = Some(pair.header(0).source_port);
    // The new incarnation has fewer streams, and supports fewer features than the old one.
    let mut fewer = config();
    fewer.sending.outbound_streams = 5;
    request.config = Arc::new(fewer);
    assert!(pair.statistics(1).features.has(Features::NR_SACK));
    // Data grows cwnd, and some of it is outstanding when the peer goes away.
    assert!(pair.send(1, 0, vec![1; 200_000]));
    pair.run(Duration::from_secs(2));
    assert!(pair.statistics(1).paths[0].cwnd > 20_000);
    pair.net.reboot(0, EndpointConfig::default(), [9; 32]);
    assert!(pair.send(1, 3, vec![2; 1000]));
    let id = pair.id[1];
    pair.connect_with(request);
    assert!(pair.run_until(LONG, |pair| {
        pair.events[1]
            .iter()
            .any(|event| matches!(event, Event::Notification(Notification::Restarted { .. })))
    }));
    assert_eq!(pair.id[1], id, "the same association");
    let news = pair.events[1].iter().find_map(|event| match event {
        Event::Notification(Notification::Restarted { inbound_streams, features, .. }) => {
            Some((*inbound_streams, *features))
        }
        _ => None,
    });
    assert_eq!(news, Some((5, pair.statistics(1).features)));
    assert!(!pair.statistics(1).features.has(Features::NR_SACK));
    let failed = pair.events[1].iter().any(
        |event| matches!(event, Event::Notification(Notification::SendFailed { message, sent: true }) if message.stream == 3),
    );
    assert!(failed, "what was outstanding comes back");
    assert_eq!(pair.statistics(1).paths[0].cwnd, 4404);
    pair.received = [Vec::new(), Vec::new()];
    assert!(pair.run_until(LONG, |pair| pair.both_up()));
    assert!(pair.send(1, 3, vec![3; 1000]) && pair.send(0, 3, vec![4; 1000]));
    pair.run(Duration::from_secs(3));
    assert_eq!(pair.received_bytes(0), [3; 1000]);
    assert_eq!(pair.received_bytes(1), [4; 1000]);
}

#[test]
// test: rfc9260 5.2.3 "the endpoint SHOULD discard the INIT ACK"
fn a_second_init_ack_is_discarded() {
    let mut pair = Pair::new(1, config());
    pair.net.script(|sight| match sight.has(kind::INIT_ACK) {
        true => Verdict::Duplicate,
        false => Verdict::Pass,
    });
    pair.connect(config());
    assert!(pair.run_until(LONG, |pair| pair.both_up()));
    pair.run(Duration::from_secs(2));
    assert_eq!(pair.count(0, kind::COOKIE_ECHO), 1);
}

#[test]
fn a_peer_that_is_not_there_is_given_up() {
    let mut config = config();
    config.paths.max_init_retransmits = 3;
    let mut pair = Pair::new(1, config.clone());
    pair.net.script(|_| Verdict::Drop);
    pair.connect(config);
    let begun = pair.net.now();
    assert!(pair.run_until(LONG, |pair| pair.closed[0].is_some()));
    assert_eq!(pair.closed[0], Some(CloseReason::ConnectTimeout));
    assert_eq!(pair.net.now().saturating_since(begun), Duration::from_secs(1 + 2 + 4 + 8));
    assert_eq!(pair.count(0, kind::INIT), 4);
}

#[test]
// test: rfc9260 5.1 "it SHOULD respond with an ABORT"
// test: rfc9260 5.1 "It SHOULD also specify the cause of abort"
fn an_endpoint_that_is_full_refuses() {
    let mut full = EndpointConfig::default();
    full.max_associations = 1;
    // The first association exists at the INIT of the second, or only at its COOKIE ECHO.
    for (wait, cookies) in [(true, 1), (false, 2)] {
        let addresses = [0, 1].map(|node| anabranch_harness::addresses(node, 1));
        let configs = [EndpointConfig::default(), full.clone()];
        let mut pair = Pair::with(addresses, configs, config());
        pair.connect(config());
        let first = pair.id[0];
        assert!(!wait || pair.run_until(LONG, |pair| pair.both_up()));
        pair.connect(config());
        assert!(pair.run_until(LONG, |pair| pair.closed[0].is_some()));
        let refused = Some(cause_code::OUT_OF_RESOURCE);
        let closed = &pair.closed[0];
        assert!(matches!(closed, Some(CloseReason::PeerAbort { code, .. }) if *code == refused));
        assert_eq!(pair.count(1, kind::INIT_ACK), cookies);
        pair.id[0] = first;
        assert!(pair.both_up(), "the first one is as it was");
    }
}

#[test]
fn what_is_out_of_the_blue_is_answered_by_the_rules() {
    let mut pair = Pair::new(1, config());
    let header = Header { source_port: 9, destination_port: 10, verification_tag: 0xabcd };
    let packet = |kinds: &[u8]| {
        craft::packet(header, |packet| kinds.iter().try_for_each(|k| packet.raw(*k, 0, &[])))
    };
    let reflected = |answers: &[Bytes]| {
        assert_eq!(answers.len(), 1);
        let kind = craft::kinds(&answers[0])[0];
        let (flags, _) = chunk(&answers[0], kind).unwrap();
        let tag = Packet::parse(&answers[0]).unwrap().header().verification_tag;
        assert_eq!((flags & 1, tag), (1, 0xabcd), "the tag is reflected, and said to be");
        kind
    };
    // test: rfc9260 8.4 "the OOTB packet MUST fill in the Verification"
    let answers = pair.answers(1, packet(&[kind::COOKIE_ACK, kind::SHUTDOWN_ACK]));
    assert_eq!(reflected(&answers), kind::SHUTDOWN_COMPLETE, "the earlier rule decides");
    assert_eq!(reflected(&pair.answers(1, packet(&[kind::SHUTDOWN_ACK]))), kind::SHUTDOWN_COMPLETE);
    assert_eq!(reflected(&pair.answers(1, packet(&[kind::HEARTBEAT]))), kind::ABORT);
    assert_eq!(reflected(&pair.answers(1, packet(&[0x3f]))), kind::ABORT);
    // test: rfc9260 8.4 "the receiver MUST silently discard the OOTB packet"
    assert!(pair.answers(1, packet(&[kind::ABORT])).is_empty());
    assert!(pair.answers(1, packet(&[kind::HEARTBEAT, kind::ABORT])).is_empty());
    assert!(pair.answers(1, packet(&[kind::SHUTDOWN_COMPLETE])).is_empty());
    assert!(pair.answers(1, packet(&[kind::COOKIE_ACK])).is_empty());
    let mut cause = Vec::new();
    Cause::StaleCookie { staleness_us: 1 }.encode(&mut cause);
    let stale = craft::packet(header, |packet| {
        packet.chunk(&Chunk::Error(Error { causes: Causes::new(&cause) }))
    });
    assert!(pair.answers(1, stale).is_empty());
    assert!(pair.answers(1, Bytes::from_static(&[0; 11])).is_empty(), "no header");
    let mut damaged = packet(&[kind::HEARTBEAT]).to_vec();
    damaged[8] ^= 1;
    assert!(pair.answers(1, damaged.into()).is_empty(), "a bad checksum");
}

#[test]
fn only_unicast_addresses_are_answered() {
    // test: rfc9260 8.4 "receiver SHOULD silently discard the packet"
    let mut pair = Pair::new(1, config());
    for from in ["224.0.0.1", "255.255.255.255", "0.0.0.0"] {
        pair.forget();
        for bytes in [init(7, &[]), craft::with_header(&init(7, &[]), |h| h.verification_tag = 1)] {
            let from: IpAddr = from.parse().unwrap();
            let to = pair.addresses[1][0];
            let ecn = None;
            let packet = Datagram { from, to, udp_port: 9899, ecn, dont_fragment: false, bytes };
            pair.net.deliver(packet);
            pair.net.settle();
        }
        assert!(pair.sent(1).is_empty(), "{from}");
    }
}

#[test]
fn tags_are_checked() {
    let mut pair = Pair::connected(1, config());
    let right = pair.header(0);
    let peers = pair.header(1).verification_tag;
    let with = |tag: u32, kind: u8, flags: u8| {
        let header = Header { verification_tag: tag, ..right };
        craft::packet(header, |packet| packet.raw(kind, flags, &[]))
    };
    // test: rfc9260 8.5 "the receiver MUST silently discard the packet and"
    let heartbeat = with(right.verification_tag ^ 1, kind::HEARTBEAT, 0);
    assert!(pair.answers(1, heartbeat).is_empty());
    // test: rfc9260 8.5.1 "The receiver of an ABORT chunk MUST accept the"
    for (tag, flags) in
        [(right.verification_tag ^ 1, 0), (right.verification_tag, 1), (peers, 0), (peers ^ 1, 1)]
    {
        assert!(pair.answers(1, with(tag, kind::ABORT, flags)).is_empty());
        assert_eq!(pair.closed[1], None, "tag {tag:#x} flags {flags}");
    }
    // test: rfc9260 8.5.1 "An endpoint MUST ignore the SHUTDOWN COMPLETE chunk"
    let complete = craft::packet(right, |packet| {
        packet.chunk(&Chunk::ShutdownComplete(ShutdownComplete { tag_reflected: false }))
    });
    assert!(pair.answers(1, complete).is_empty());
    assert_eq!(pair.closed[1], None);
    pair.inject(1, with(peers, kind::ABORT, 1));
    assert!(matches!(pair.closed[1], Some(CloseReason::PeerAbort { code: None, .. })));
}

#[test]
fn an_abort_tells_why() {
    for node in 0..2 {
        let mut pair = Pair::connected(1, config());
        pair.forget();
        let now = pair.net.now();
        pair.association_mut(node).abort(now, b"enough");
        pair.run(Duration::from_millis(50));
        assert_eq!(pair.closed[node], Some(CloseReason::LocalAbort));
        let Some(CloseReason::PeerAbort { code, causes }) = &pair.closed[1 - node] else {
            panic!("{:?}", pair.closed);
        };
        assert_eq!(*code, Some(cause_code::USER_INITIATED_ABORT));
        assert!(causes.ends_with(b"enough") || causes.windows(6).any(|part| part == b"enough"));
        // test: rfc9260 9.1 "MUST NOT respond to any received packet that contains"
        assert!(pair.sent(1 - node).is_empty());
        assert_eq!(pair.sent(node).len(), 1);
    }
}

#[test]
fn unknown_chunks_are_treated_by_their_highest_bits() {
    for (kind, goes_on, reports) in
        [(0x3e_u8, false, false), (0x7e, false, true), (0xbe, true, false), (0xfe, true, true)]
    {
        let mut pair = Pair::connected(1, config());
        let packet = craft::packet(pair.header(0), |packet| {
            packet.raw(kind, 0, &[1, 2, 3])?;
            packet.raw(kind::HEARTBEAT, 0, &[0, 1, 0, 4])
        });
        let answers = pair.answers(1, packet);
        let kinds: Vec<u8> = answers.iter().flat_map(|packet| craft::kinds(packet)).collect();
        assert_eq!(kinds.contains(&kind::HEARTBEAT_ACK), goes_on, "{kind:#x}");
        assert_eq!(kinds.contains(&kind::ERROR), reports, "{kind:#x}");
        if reports {
            let (_, value) = answers.iter().find_map(|p| chunk(p, kind::ERROR)).unwrap();
            assert_eq!(causes(&value), [cause_code::UNRECOGNIZED_CHUNK_TYPE]);
            assert_eq!(value[4..11], [kind, 0, 0, 7, 1, 2, 3]);
        }
    }
}

#[test]
// test: rfc9260 8.5.1 "it is treated as an OOTB packet"
fn a_shutdown_ack_from_the_past_does_not_stop_a_handshake() {
    let mut pair = Pair::new(1, config());
    pair.net.script(|sight| if sight.node == 1 { Verdict::Drop } else { Verdict::Pass });
    let mut request = ConnectRequest::new(pair.addresses[1].clone(), Pair::PORT);
    request.local_port = Some(4000);
    pair.connect_with(request);
    pair.net.settle();
    let header = Header { source_port: Pair::PORT, destination_port: 4000, verification_tag: 5 };
    let ack = craft::packet(header, |packet| packet.raw(kind::SHUTDOWN_ACK, 0, &[]));
    let answers = pair.answers(0, ack);
    assert_eq!(chunk(&answers[0], kind::SHUTDOWN_COMPLETE), Some((1, vec![])));
    assert_eq!(self::header(&answers[0]).verification_tag, 5);
    pair.net.end_script();
    assert!(pair.run_until(LONG, |pair| pair.both_up()));
}

#[test]
fn a_packet_of_the_handshake_takes_little_of_a_buffer() {
    let mut endpoint = Endpoint::new(EndpointConfig::default(), [1; 32]);
    let remote = IpAddr::from([10, 0, 0, 2]);
    endpoint.set_local_addresses(Instant::ZERO, &[IpAddr::from([10, 0, 0, 1])]);
    endpoint.connect(Instant::ZERO, ConnectRequest::new(vec![remote], 5000)).unwrap();
    let mut buffer = Vec::new();
    assert!(endpoint.poll_transmit(Instant::ZERO, 1, &mut buffer).is_some());
    // A driver uses its buffer again and again, and a large one is slower.
    assert!(buffer.capacity() <= 8192, "{} bytes", buffer.capacity());
}
