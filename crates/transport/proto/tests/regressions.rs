//! Bugs that the swarm and other implementations found, each as its smallest case.

use std::net::IpAddr;
use std::time::Duration;

use anabranch_harness::hostile::Target;
use anabranch_harness::{Pair, Verdict, craft};
use anabranch_proto::config::InitialCwnd;
use anabranch_proto::{
    AssociationConfig, AssociationId, CloseReason, ConnectRequest, EndpointConfig, Event, IcmpKind,
    IcmpMessage, InitiationOrder, Notification, OutgoingMessage, Ppid, Reliability,
};
use anabranch_wire::{Abort, Causes, Chunk, Header, Packet, kind};

/// Long enough for everything that can happen.
const LONG: Duration = Duration::from_secs(3600);

#[test]
fn autoclose_waits_for_the_handshake_and_not_for_the_shutdown() {
    let mut config = AssociationConfig::default();
    config.timers.autoclose = Some(Duration::from_millis(50));
    let mut pair = Pair::new(1, config.clone());
    // The handshake takes longer than autoclose allows, and so does the shutdown.
    let slow = anabranch_impair::LinkConfig::new().delay(Duration::from_millis(200));
    pair.net.set_links(slow);
    pair.connect(config);
    pair.run(LONG);
    assert_eq!(pair.closed, [Some(CloseReason::Shutdown), Some(CloseReason::Shutdown)]);
}

#[test]
fn a_message_sent_in_part_comes_back_once_and_whole() {
    let mut pair = Pair::connected(1, AssociationConfig::rfc9260());
    pair.net.script(|_| Verdict::Drop);
    let message: Vec<u8> = (0..100_000_u32).map(|i| (i * 7 + i / 256) as u8).collect();
    assert!(pair.send(0, 3, message.clone()));
    pair.net.settle();
    assert!(pair.statistics(0).outstanding_bytes > 0, "a part of it is in flight");
    pair.abort(0);
    pair.take();
    let failed: Vec<_> = (pair.events[0].iter())
        .filter_map(|event| match event {
            Event::Notification(Notification::SendFailed { message, sent }) => {
                Some((message, *sent))
            }
            _ => None,
        })
        .collect();
    assert_eq!(failed.len(), 1);
    assert!(failed[0].0.data == message && failed[0].1);
}

#[test]
// test: rfc9260 8.4 "respond to the sender of the OOTB packet with a"
fn a_lost_shutdown_complete_is_made_up_for_before_the_user_lets_go() {
    let mut pair = Pair::connected(1, AssociationConfig::rfc9260());
    let mut lost = false;
    pair.net.script(move |sight| {
        let first = sight.has(kind::SHUTDOWN_COMPLETE) && !std::mem::replace(&mut lost, true);
        if first { Verdict::Drop } else { Verdict::Pass }
    });
    pair.shutdown(0);
    pair.run(Duration::from_secs(10));
    // Node 0 has ended and is not removed; node 1 repeats its SHUTDOWN ACK.
    assert_eq!(pair.closed, [Some(CloseReason::Shutdown), Some(CloseReason::Shutdown)]);
    assert!(pair.association(0).is_some());
}

#[test]
fn an_association_that_ended_makes_room_for_the_next_with_the_same_ports() {
    let mut pair = Pair::new(1, AssociationConfig::rfc9260());
    for _ in 0..3 {
        let mut request = ConnectRequest::new(pair.addresses[1].clone(), Pair::PORT);
        request.local_port = Some(4000);
        pair.connect_with(request);
        assert!(pair.run_until(LONG, |pair| pair.both_up()));
        pair.abort(0);
        assert!(pair.run_until(LONG, |pair| pair.closed.iter().all(Option::is_some)));
    }
}

#[test]
fn a_reflected_abort_ends_a_shutdown_that_was_almost_done() {
    let mut pair = Pair::connected(1, AssociationConfig::rfc9260());
    // The SHUTDOWN COMPLETE is lost, and a peer that remembers nothing answers the SHUTDOWN ACK with an ABORT.
    pair.net.script(|sight| match sight.has(kind::SHUTDOWN_COMPLETE) {
        true => Verdict::Drop,
        false => Verdict::Pass,
    });
    pair.shutdown(0);
    assert!(pair.run_until(LONG, |pair| pair.closed[0].is_some()));
    pair.net.settle();
    let reflected = Header { verification_tag: pair.header(1).verification_tag, ..pair.header(0) };
    let abort = craft::packet(reflected, |packet| {
        packet.chunk(&Chunk::Abort(Abort { tag_reflected: true, causes: Causes::new(&[]) }))
    });
    pair.inject(1, abort);
    assert_eq!(pair.closed[1], Some(CloseReason::Shutdown));
}

#[test]
fn messages_that_expire_unsent_are_reported_without_anything_else_to_do() {
    let mut config = AssociationConfig::rfc9260();
    config.congestion.initial_cwnd = InitialCwnd::Mtus(1);
    let mut pair = Pair::connected(1, config);
    pair.net.script(|_| Verdict::Drop);
    assert!(pair.send(0, 0, vec![0; 5000]), "more than cwnd");
    pair.net.settle();
    let now = pair.net.now();
    let message = OutgoingMessage {
        reliability: Reliability::Lifetime(Duration::from_millis(1)),
        ..OutgoingMessage::new(1, Ppid(0), vec![1; 10])
    };
    pair.association_mut(0).send(now, message).unwrap();
    // The first message is served before; the rest of it is sent bit by bit.
    pair.net.end_script();
    pair.run(Duration::from_secs(30));
    let failed = pair.events[0].iter().find_map(|event| match event {
        Event::Notification(Notification::SendFailed { message, sent }) => {
            Some((message.stream, *sent))
        }
        _ => None,
    });
    assert_eq!(failed, Some((1, false)));
    assert_eq!(pair.received_bytes(1).len(), 5000);
}

#[test]
fn a_restart_forgets_what_the_old_peer_was_asked() {
    let mut config = AssociationConfig::rfc9260();
    config.timers.heartbeat_interval = None;
    let mut pair = Pair::connected(1, config.clone());
    let mut request = ConnectRequest::new(pair.addresses[1].clone(), Pair::PORT);
    request.local_port = pair.association(0).map(|association| association.local_port());
    // A heartbeat is on its way when the peer loses its state, and is never answered.
    pair.net.script(|sight| match sight.has(kind::HEARTBEAT_ACK) {
        true => Verdict::Drop,
        false => Verdict::Pass,
    });
    let (now, client) = (pair.net.now(), pair.addresses[0][0]);
    pair.association_mut(1).request_heartbeat(now, client).unwrap();
    pair.run(Duration::from_millis(50));
    pair.net.end_script();
    pair.net.reboot(0, EndpointConfig::default(), [5; 32]);
    pair.connect_with(request);
    pair.run(Duration::from_secs(5));
    assert!(
        pair.events[1]
            .iter()
            .any(|event| matches!(event, Event::Notification(Notification::Restarted { .. })))
    );
    assert_eq!(pair.statistics(1).paths[0].error_count, 0);
}

#[test]
fn a_host_whose_socket_was_full_for_a_moment_has_sctp() {
    let mut pair = Pair::connected(1, AssociationConfig::default());
    let header = pair.header(0);
    let mut quoted = Vec::new();
    quoted.extend_from_slice(&header.source_port.to_be_bytes());
    quoted.extend_from_slice(&header.destination_port.to_be_bytes());
    quoted.extend_from_slice(&header.verification_tag.to_be_bytes());
    let (local, remote) = (pair.addresses[0][0], pair.addresses[1][0]);
    // Linux answers so for every packet that finds a raw socket's buffer full. The peer is heard
    // in between.
    for round in 1..6 {
        let kind = IcmpKind::ProtocolUnreachable;
        let message = IcmpMessage { local, remote, kind, quoted: &quoted };
        let now = pair.net.now();
        pair.net.node_mut(0).endpoint.handle_icmp(now, &message);
        pair.take();
        assert!(pair.send(0, 0, vec![round; 100]));
        pair.run(Duration::from_secs(3));
    }
    assert_eq!(pair.closed[0], None);
    assert_eq!(pair.received_bytes(1).len(), 500);
}

#[test]
fn a_cookie_is_used_up_when_its_association_ends() {
    let mut pair = Pair::new(1, AssociationConfig::rfc9260());
    pair.connect(AssociationConfig::rfc9260());
    assert!(pair.send(0, 0, &b"once"[..]));
    assert!(pair.run_until(LONG, |pair| !pair.received[1].is_empty()));
    let sent = pair.sent(0);
    let echo = sent.iter().find(|(_, bytes)| craft::has(bytes, kind::COOKIE_ECHO)).unwrap();
    let echo = echo.1.clone();
    pair.abort(1);
    pair.run(Duration::from_secs(1));
    // The COOKIE ECHO comes again, and with it the data would.
    let answers = pair.answers(1, echo);
    assert_eq!(craft::kinds(&answers[0]), [kind::ABORT]);
    assert_eq!(pair.net.node(1).endpoint.associations().count(), 1, "the one that has ended");
    assert_eq!(pair.received_bytes(1), b"once");
}

#[test]
fn a_little_data_in_large_batches_does_not_keep_them_all() {
    let mut config = AssociationConfig::default();
    config.receiving.receive_buffer = 256 << 10;
    let mut pair = Pair::connected(1, config);
    let header = pair.header(0);
    pair.reads[1] = false;
    let first = pair.statistics(1).counters.data_chunks_received;
    assert!(pair.send(0, 0, vec![7; 1300]));
    pair.run(Duration::from_secs(1));
    let (_, sent) = pair.sent(0).into_iter().find(|(_, p)| craft::has(p, kind::DATA)).unwrap();
    let packet = Packet::parse(&sent).unwrap();
    let chunk = packet.chunks().map(Result::unwrap).find(|c| c.kind == kind::DATA).unwrap();
    let Chunk::Data(data) = chunk.decode().unwrap() else { panic!("no DATA") };
    // One packet with data and 44 with padding arrive in one piece.
    let batch = |number: u32| {
        let data = anabranch_wire::Data {
            tsn: anabranch_wire::Tsn(data.tsn.0.wrapping_add(number)),
            ssn: anabranch_wire::Ssn(data.ssn.0.wrapping_add(number as u16)),
            ..data
        };
        let with_data = craft::packet(header, |packet| packet.data(&data));
        let padding = craft::packet(header, |packet| packet.pad_to(with_data.len()));
        let mut bytes = with_data.to_vec();
        (0..44).for_each(|_| bytes.extend_from_slice(&padding));
        (with_data.len(), bytes::Bytes::from(bytes))
    };
    let mut kept = 0;
    for number in 1..=150 {
        let (size, bytes) = batch(number);
        let received = anabranch_proto::Received {
            local: pair.addresses[1][0],
            remote: pair.addresses[0][0],
            remote_udp_port: 9899,
            ecn: None,
            segment_size: size,
        };
        let now = pair.net.now();
        pair.net.node_mut(1).endpoint.handle_batch(now, &received, bytes.clone());
        kept += if bytes.is_unique() { 0 } else { bytes.len() };
        pair.net.settle();
    }
    assert_eq!(pair.statistics(1).counters.data_chunks_received, first + 151);
    assert!(kept <= 256 << 10, "{kept} bytes are kept for 150 messages of 1,300");
}

/// Node 1 lists an address that does not answer.
fn with_a_dead_address(config: &AssociationConfig) -> Pair {
    let mut pair = Pair::new(2, config.clone());
    let (near, far) = (pair.addresses[0][1], pair.addresses[1][1]);
    pair.net.set_up(near, far, false);
    pair.net.set_up(far, near, false);
    let mut request = ConnectRequest::new(vec![pair.addresses[1][0]], Pair::PORT);
    request.config = std::sync::Arc::new(config.clone());
    pair.connect_with(request);
    assert!(pair.run_until(LONG, |pair| pair.both_up()));
    pair
}

#[test]
// test: rfc9260 5.4 "An endpoint MUST NOT send any chunks to an"
fn an_address_that_was_never_verified_gets_no_data_when_all_paths_have_failed() {
    for dormant in anabranch_proto::DormantBehaviour::ALL {
        let mut config = AssociationConfig::rfc9260();
        config.paths.dormant = *dormant;
        config.paths.path_max_retrans = 1;
        let mut pair = with_a_dead_address(&config);
        pair.run(Duration::from_secs(200));
        let paths = pair.statistics(0).paths;
        assert_eq!(paths[1].state, anabranch_proto::PathState::Inactive);
        pair.net.script(|_| Verdict::Drop);
        pair.forget();
        assert!(pair.send(0, 0, vec![7; 5000]));
        pair.run(LONG);
        assert_eq!(pair.closed[0], Some(CloseReason::Unreachable));
        let unverified = pair.addresses[1][1];
        let kept = pair.net.trace.kept().iter().filter(|(_, packet)| packet.to == unverified);
        let heartbeats_only =
            |bytes: &[u8]| craft::kinds(bytes).iter().all(|k| *k == kind::HEARTBEAT);
        assert!(kept.clone().all(|(_, packet)| heartbeats_only(&packet.bytes)), "{dormant}");
    }
}

#[test]
fn an_address_that_was_never_verified_is_tried_on_more_rarely() {
    for retry in
        [anabranch_proto::HeartbeatRetry::Interval, anabranch_proto::HeartbeatRetry::AtOnce]
    {
        let mut config = AssociationConfig::rfc9260();
        config.paths.heartbeat_retry = retry;
        let mut pair = with_a_dead_address(&config);
        pair.run(Duration::from_secs(1000));
        let asked = pair.statistics(0).paths[1];
        assert_eq!(asked.state, anabranch_proto::PathState::Inactive);
        // Six to verify it; then after 30 s, 60 s, 2 minutes, and every 4 minutes.
        assert!((9..=13).contains(&asked.heartbeats_sent), "{retry:?}: {}", asked.heartbeats_sent);
        let (near, far) = (pair.addresses[0][1], pair.addresses[1][1]);
        pair.net.set_up(near, far, true);
        pair.net.set_up(far, near, true);
        // An eighth of the rate of heartbeats.
        pair.run(Duration::from_secs(600));
        assert_eq!(
            pair.statistics(0).paths[1].state,
            anabranch_proto::PathState::Active,
            "{retry:?}"
        );
    }
}

#[test]
fn probes_for_loss_do_not_hide_that_the_peer_is_gone() {
    let mut config = AssociationConfig::rfc9260();
    config.paths.informed_failover = true;
    config.paths.change_primary_threshold = Some(2);
    config.paths.loss_probe_interval = Duration::from_millis(100);
    let mut pair = Pair::connected(2, config);
    pair.run(Duration::from_secs(5));
    pair.net.script(|_| Verdict::Drop);
    pair.run(LONG);
    assert_eq!(pair.closed[0], Some(CloseReason::Unreachable));
}

#[test]
fn a_refused_address_leaves_the_primary_path_that_the_user_chose() {
    let mut pair = Pair::new(2, AssociationConfig::rfc9260());
    pair.connect(AssociationConfig::rfc9260());
    pair.net.settle();
    let [first, second] = [0, 1].map(|path| pair.addresses[1][path]);
    pair.association_mut(0).set_primary(second).expect("the user vouches for it");
    let init = pair.sent(0)[0].1.clone();
    let init = Packet::parse(&init).unwrap();
    let Ok(Chunk::Init(chunk)) = init.chunks().next().unwrap().unwrap().decode() else {
        panic!("no INIT")
    };
    let header = Header {
        source_port: Pair::PORT,
        destination_port: init.header().source_port,
        verification_tag: chunk.initiate_tag,
    };
    pair.inject(0, craft::packet(header, |packet| packet.raw(kind::ABORT, 0, &[])));
    let left = pair.statistics(0);
    assert!(left.paths.iter().all(|path| path.remote != first));
    assert_eq!((left.primary.number(), left.active.number()), (1, 1), "the only one that is left");
    assert!(pair.run_until(LONG, |pair| pair.both_up()));
}

/// The swarm's seed 821: the association had the tag of another one, which ended.
#[test]
fn a_cookie_of_a_collision_whose_association_has_gone_elsewhere_makes_one_that_is_found() {
    let other = IpAddr::from([10, 0, 0, 3]);
    let mut target = Target::new(EndpointConfig::default(), AssociationConfig::default());
    let mut request = ConnectRequest::new(vec![Target::THERE, other], Target::PEER_PORT);
    request.local_port = Some(Target::PORT);
    let own = target.endpoint.connect(target.now, request).expect("an association");
    target.drain();
    // The peer's INIT crosses this side's, and its cookie is on its way for long.
    let cookie = target.cookie(Target::THERE, Target::header(0), &[]).expect("a cookie");
    let abort = target.draft().with(kind::ABORT, 0, []).bytes();
    target.take(Target::THERE, &abort);
    target.drain();
    let remotes: Vec<_> = target.association(own).paths().map(|(_, _, to, _)| to).collect();
    assert_eq!(remotes, [other]);
    target.take(Target::THERE, &cookie);
    target.drain();
    let late = target.connected_now().expect("an association");
    assert_ne!(late, own);
    let now = target.now;
    target.association(own).abort(now, b"");
    target.drain();
    // The association of packets from another UDP port is found by their tag alone.
    target.from_port = 20_000;
    let data = target.data(1, 3, 0, 0, b"here");
    target.take(Target::THERE, &data);
    assert!(target.sent().iter().any(|sent| sent.port == 20_000 && sent.has(kind::HEARTBEAT)));
    assert_eq!(target.read(late), 1);
    target.endpoint.check_invariants(target.now).expect("nothing is lost");
}

/// An association that sends INITs to `Target::THERE` and to this address at the same time.
fn connecting_to_two(other: IpAddr) -> (Target, AssociationId) {
    let mut target = Target::new(EndpointConfig::default(), AssociationConfig::default());
    let mut request = ConnectRequest::new(vec![Target::THERE, other], Target::PEER_PORT);
    request.local_port = Some(Target::PORT);
    let mut config = AssociationConfig::default();
    config.paths.initiation = InitiationOrder::Parallel;
    request.config = config.into();
    let own = target.endpoint.connect(target.now, request).expect("an association");
    target.drain();
    (target, own)
}

/// An INIT ACK of the peer with these parameters and a cookie.
fn init_ack(header: Header, parameters: &[u8]) -> bytes::Bytes {
    let mut value = Target::PEER_TAG.to_be_bytes().to_vec();
    value.extend([0, 1, 0, 0, 0, 10, 0, 10, 0, 0, 0, 1]);
    value.extend(parameters);
    value.extend([0, 7, 0, 8, 1, 2, 3, 4]);
    craft::packet(header, |packet| packet.raw(kind::INIT_ACK, 0, &value))
}

/// The swarm's seed 9007665: both ends begin, one of them with two addresses of the other, which does not
/// announce the private one to the global one. Leftovers of the handshake at the private address must not
/// end the association.
#[test]
fn an_init_ack_from_an_address_that_the_peer_did_not_tell_ends_nothing() {
    let global = IpAddr::from([203, 0, 113, 7]);
    let (mut target, own) = connecting_to_two(global);
    let header = Target::header(target.association(own).verification_tag());
    let init_ack = init_ack(header, &[]);
    target.take(global, &init_ack);
    assert!(target.sent().iter().any(|sent| sent.has(kind::COOKIE_ECHO)));
    target.take(Target::THERE, &init_ack);
    assert!(target.sent().iter().all(|sent| !sent.has(kind::ABORT)));
    assert!(!target.association(own).is_closed());
}

/// The swarm's sealed seed 277: an address of the peer refuses this side's INIT, the peer then lists it, and its own handshake
/// comes from there. The answer to a cookie verifies the address, so data does not wait for a heartbeat.
#[test]
fn a_cookie_from_an_address_that_had_refused_verifies_it() {
    let other = IpAddr::from([10, 0, 0, 3]);
    let (mut target, own) = connecting_to_two(other);
    let tag = target.association(own).verification_tag();
    let header = Target::header(tag);
    target.take(other, &craft::packet(header, |packet| packet.raw(kind::ABORT, 0, &[])));
    let init_ack = init_ack(header, &[0, 5, 0, 8, 10, 0, 0, 2, 0, 5, 0, 8, 10, 0, 0, 3]);
    target.take(Target::THERE, &init_ack);
    assert!(target.sent().iter().any(|sent| sent.has(kind::COOKIE_ECHO)));
    let listed = [Target::THERE, other];
    let cookie = target.cookie(other, Target::header(0), &listed).expect("a cookie");
    let now = target.now;
    let message = OutgoingMessage::new(0, Ppid(0), "at once");
    target.association(own).send(now, message).expect("room");
    target.drain();
    target.take(other, &cookie);
    let sent = target.sent();
    assert!(sent.iter().any(|sent| sent.has(kind::COOKIE_ACK)));
    assert!(sent.iter().any(|sent| sent.has(kind::DATA)));
    target.endpoint.check_invariants(target.now).expect("nothing waits without a timer");
}

/// The swarm's seed 883: both ends begin at the same time. The end that takes the other one's cookie made a new receiver
/// after the two had agreed on extensions, and took a message that was given up for a violation.
#[test]
fn what_was_agreed_on_survives_a_collision() {
    for interleaving in [false, true] {
        let config = AssociationConfig::default().with(|config| {
            config.sending.interleaving = interleaving;
            config.sending.scheduler = anabranch_proto::SchedulerKind::RoundRobin;
        });
        let mut pair = Pair::new(1, config.clone());
        let now = pair.net.now();
        for node in 0..2 {
            let mut request = ConnectRequest::new(pair.addresses[1 - node].clone(), Pair::PORT);
            request.local_port = Some(Pair::PORT);
            request.config = std::sync::Arc::new(config.clone());
            let id = pair.net.node_mut(node).endpoint.connect(now, request);
            pair.id[node] = Some(id.expect("a valid request"));
        }
        assert!(pair.run_until(LONG, |pair| pair.both_up()));
        let link = anabranch_impair::LinkConfig::new().delay(Pair::DELAY).rate(200_000);
        pair.net.set_links(link);
        for from in 0..2 {
            let now = pair.net.now();
            let mut association = pair.association_mut(from);
            for stream in 0..2 {
                // It ends while it is being sent.
                let lifetime = Duration::from_millis(200);
                let partial = OutgoingMessage::new(stream, Ppid(0), vec![7; 100_000]);
                association.send(now, partial.with_lifetime(lifetime)).unwrap();
                association.send(now, OutgoingMessage::new(stream, Ppid(0), "next")).unwrap();
            }
            drop(association);
            assert!(pair.run_until(LONG, |pair| pair.received_bytes(1 - from) == b"nextnext"));
        }
        pair.run(Duration::from_secs(5));
        assert_eq!(pair.closed, [None, None]);
    }
}
