//! Authenticated chunks (RFC 4895) between two endpoints, and against those who have no key.

use std::time::Duration;

use anabranch_harness::{Pair, PathMtu, craft};
use anabranch_proto::{
    AssociationConfig, AuthenticationChange, ChunkTypes, CloseReason, Event, Features,
    HmacAlgorithm, KeyError, Notification, OutgoingMessage, Ppid, SharedKeys,
};
use anabranch_wire::{
    Abort, Causes, Chunk, Data, DataFlags, Packet, Parameter, Ssn, Tsn, cause_code, kind,
};
use bytes::Bytes;

/// Options with which the peer must authenticate these chunks.
fn requiring(chunks: &[u8]) -> AssociationConfig {
    AssociationConfig::default().with(|config| {
        config.authentication.authentication = true;
        config.authentication.authenticated_chunks = ChunkTypes::of(chunks);
    })
}

fn with_secret(mut config: AssociationConfig, id: u16, secret: &[u8]) -> AssociationConfig {
    config.keys = SharedKeys::new(id, secret);
    config
}

/// Runs a transfer of `bytes` in both directions.
fn transfer(pair: &mut Pair, bytes: usize) {
    for node in [0, 1] {
        for _ in 0..bytes / 10_000 {
            assert!(pair.send(node, 0, vec![7; 10_000]));
        }
    }
    pair.run(Duration::from_secs(30));
    assert_eq!([0, 1].map(|node| pair.received_len(node)), [bytes; 2]);
}

/// Whether all packets of a node with these chunks begin with an AUTH chunk; and there are some.
fn all_authenticated(pair: &Pair, node: usize, chunks: &[u8]) -> bool {
    let packets = pair.sent(node).into_iter().map(|(_, bytes)| craft::kinds(&bytes));
    let about: Vec<Vec<u8>> =
        packets.filter(|kinds| kinds.iter().any(|kind| chunks.contains(kind))).collect();
    !about.is_empty() && about.iter().all(|kinds| kinds.first() == Some(&kind::AUTH))
}

fn change_keys(pair: &mut Pair, node: usize, change: impl FnOnce(&mut SharedKeys)) {
    let now = pair.net.now();
    let mut association = pair.association_mut(node);
    let mut config = association.config().clone();
    change(&mut config.keys);
    association.reconfigure(now, &config).unwrap();
}

fn failures(pair: &Pair, node: usize) -> (u64, u64) {
    let counters = pair.statistics(node).counters;
    (counters.authentication_failures, counters.unauthenticated_chunks)
}

fn changes(pair: &Pair, node: usize) -> Vec<(AuthenticationChange, u16)> {
    let events = pair.events[node].iter().filter_map(|event| match event {
        Event::Notification(Notification::Authentication { change, key, .. }) => {
            Some((*change, *key))
        }
        _ => None,
    });
    events.collect()
}

#[test]
// test: rfc4895 6.2 "Endpoints MUST send all requested chunks that have been"
// test: rfc4895 6.2 "To send chunks in an authenticated way, the sender MUST include these"
// test: rfc4895 6.2 "it MUST use Shared Key Identifier zero with an empty"
fn data_is_authenticated_with_and_without_a_secret() {
    for algorithm in [HmacAlgorithm::Sha256, HmacAlgorithm::Sha1] {
        for secret in [None, Some(b"a secret")] {
            let mut config = requiring(&[kind::DATA, kind::SACK]);
            config.authentication.authentication_hmac = algorithm;
            if let Some(secret) = secret {
                config = with_secret(config, 9, secret);
            }
            let mut pair = Pair::connected(1, config);
            assert!(pair.statistics(1).features.has(Features::AUTHENTICATION));
            transfer(&mut pair, 200_000);
            for node in [0, 1] {
                assert!(all_authenticated(&pair, node, &[kind::DATA, kind::SACK]));
                assert_eq!(failures(&pair, node), (0, 0));
                let sent = pair.sent(node);
                let auths = sent.iter().filter_map(|(_, bytes)| {
                    let packet = Packet::parse(bytes).unwrap();
                    match packet.chunks().next()?.ok()?.decode().ok()? {
                        Chunk::Auth(auth) => Some((auth.shared_key_id, auth.hmac_id)),
                        _ => None,
                    }
                });
                let expected = (if secret.is_some() { 9 } else { 0 }, algorithm.identifier());
                assert!(auths.into_iter().all(|auth| auth == expected));
            }
        }
    }
}

/// Data packets are as full as they can be, and none is longer than the path allows.
#[test]
fn packets_have_room_for_the_chunk() {
    let mut config = requiring(&[kind::DATA]);
    config.mtu.discovery = false;
    let plain = config.clone().with(|config| config.authentication = Default::default());
    let longest = |config: AssociationConfig| {
        let mut pair = Pair::connected(1, config);
        transfer(&mut pair, 100_000);
        let sent = pair.sent(0);
        let packets = sent.iter().filter(|(_, bytes)| craft::has(bytes, kind::DATA)).count();
        (sent.iter().map(|(_, bytes)| bytes.len()).max(), packets)
    };
    let (with, without) = (longest(config), longest(plain));
    assert_eq!(with.0, without.0);
    assert!(with.1 <= without.1 + without.1 / 20, "{with:?} {without:?}");
}

#[test]
fn what_need_not_be_authenticated_is_not() {
    let mut config = requiring(&[kind::ASCONF, kind::RE_CONFIG]);
    config.sending.stream_reconfiguration = true;
    let mut pair = Pair::connected(1, config);
    transfer(&mut pair, 100_000);
    let now = pair.net.now();
    pair.association_mut(0).reset_association(now).unwrap();
    pair.run(Duration::from_secs(1));
    assert!(all_authenticated(&pair, 0, &[kind::RE_CONFIG]));
    assert!(all_authenticated(&pair, 1, &[kind::RE_CONFIG]));
    assert!(!all_authenticated(&pair, 0, &[kind::DATA]));
    let authenticated = pair.statistics(0).counters.authenticated_packets_sent;
    assert!((1..5).contains(&authenticated), "{authenticated}");
}

/// A request that fills a packet still fits with the AUTH chunk before it, or is fragmented by the network.
#[test]
fn a_long_request_goes_with_its_auth_chunk() {
    let mut config = requiring(&[kind::RE_CONFIG]);
    config.sending.stream_reconfiguration = true;
    config.sending.outbound_streams = 2000;
    config.receiving.inbound_streams = 2000;
    for streams in 680..=740 {
        let mut pair = Pair::connected(1, config.clone());
        let now = pair.net.now();
        let streams: Vec<u16> = (0..streams).map(|stream| stream * 2).collect();
        let direction = anabranch_proto::StreamDirection::Outgoing;
        pair.association_mut(0).reset_streams(now, direction, &streams).unwrap();
        pair.run(Duration::from_secs(2));
        let done = pair.events[0]
            .iter()
            .any(|event| matches!(event, Event::Notification(Notification::StreamsReset { .. })));
        assert!(done, "{} streams", streams.len());
        assert!(all_authenticated(&pair, 0, &[kind::RE_CONFIG]));
    }
}

/// With every chunk that can be authenticated, an association begins, works on two paths and ends, also with losses.
#[test]
fn everything_authenticated() {
    let all = requiring(&(0..=255).collect::<Vec<_>>());
    for (client, server) in
        [(all.clone(), all.clone()), (all.clone(), requiring(&[])), (requiring(&[]), all)]
    {
        let mut pair = Pair::new(2, with_secret(server, 1, b"secret"));
        pair.connect(with_secret(client, 1, b"secret"));
        assert!(pair.run_until(Duration::from_secs(1), |pair| pair.both_up()));
        pair.run(Duration::from_secs(10));
        transfer(&mut pair, 100_000);
        pair.set_up(0, false);
        pair.received = Default::default();
        transfer(&mut pair, 50_000);
        pair.set_up(0, true);
        assert_eq!([0, 1].map(|node| failures(&pair, node)), [(0, 0); 2]);
        pair.shutdown(0);
        pair.run(Duration::from_secs(5));
        assert_eq!(pair.closed, [Some(CloseReason::Shutdown), Some(CloseReason::Shutdown)]);
    }
}

/// A probe of the path MTU has the probed size with an AUTH chunk as well.
#[test]
fn mtu_probes_are_authenticated() {
    let mut config = requiring(&[kind::HEARTBEAT, kind::PAD, kind::HEARTBEAT_ACK]);
    config.mtu.discovery = true;
    let mut pair = Pair::new(1, config.clone());
    let (a, b) = (pair.addresses[0][0], pair.addresses[1][0]);
    for (from, to) in [(a, b), (b, a)] {
        pair.net.set_mtu(from, to, Some(PathMtu { mtu: 1400, icmp: false }));
    }
    pair.connect(config);
    pair.run(Duration::from_secs(60));
    assert_eq!(pair.statistics(0).paths[0].mtu, 1400);
    assert_eq!(failures(&pair, 1), (0, 0));
}

/// DATA of node 0 that node 1 has not seen.
fn data(pair: &Pair) -> Data<'static> {
    let tsn = pair.association(1).unwrap().cumulative_tsn().wrapping_add(1);
    Data {
        flags: DataFlags(DataFlags::BEGIN | DataFlags::END),
        tsn: Tsn(tsn),
        stream: 0,
        ssn: Ssn(0),
        ppid: Ppid(0),
        payload: b"forged",
    }
}

#[test]
// test: rfc4895 6.3 "MUST silently discard these chunks if they"
// test: rfc4895 6.3 "calculation, all the chunks following the AUTH chunk MUST be silently"
// test: rfc4895 5.1 "The control chunk AUTH MUST NOT appear more than once"
fn who_has_no_key_forges_nothing() {
    let mut pair = Pair::connected(1, with_secret(requiring(&[kind::DATA]), 3, b"secret"));
    let header = pair.header(0);
    let data = data(&pair);
    let unauthenticated = craft::packet(header, |packet| packet.data(&data));
    assert_eq!(pair.answers(1, unauthenticated), Vec::<Bytes>::new());
    assert_eq!(failures(&pair, 1), (0, 1));
    for (key, hmac) in [(3, 3_u16), (3, 1), (0, 3), (7, 3)] {
        let tag = vec![1; if hmac == 3 { 32 } else { 20 }];
        let auth = anabranch_wire::Auth { shared_key_id: key, hmac_id: hmac, hmac: &tag };
        let forged = craft::packet(header, |packet| {
            packet.chunk(&Chunk::Auth(auth))?;
            packet.data(&data)
        });
        assert_eq!(pair.answers(1, forged), Vec::<Bytes>::new());
    }
    assert_eq!(failures(&pair, 1), (4, 1));
    assert_eq!(pair.received_len(1), 0);

    // A genuine packet, recorded and changed in every place, is not accepted either; with a second AUTH chunk only its
    // first part is.
    assert!(pair.send(0, 0, "genuine"));
    pair.net.set_up(pair.addresses[0][0], pair.addresses[1][0], false);
    pair.run(Duration::from_millis(5));
    let genuine = pair.sent(0).pop().unwrap().1;
    assert_eq!(craft::kinds(&genuine), [kind::AUTH, kind::DATA]);
    for at in 12..genuine.len() - 1 {
        let mut forged = genuine.to_vec();
        forged[at] ^= 1;
        let forged = craft::with_header(&forged_or(&genuine, forged), |_| {});
        pair.inject(1, forged);
        assert_eq!(pair.received_len(1), 0, "{at}");
    }
    pair.inject(1, genuine);
    assert_eq!(pair.received_len(1), 7);
}

/// The forged packet, or the genuine one without its last chunk if the forgery cannot be parsed.
fn forged_or(genuine: &Bytes, forged: Vec<u8>) -> Bytes {
    let whole =
        Packet::parse(&forged).is_ok_and(|packet| packet.chunks().all(|chunk| chunk.is_ok()));
    if whole { forged.into() } else { genuine.slice(..12 + 40) }
}

#[test]
// test: rfc4895 6.3 "MUST be discarded and an ERROR chunk SHOULD be sent with the error"
// test: rfc4895 6.3 "The receiver MUST use the HMAC algorithm indicated in the HMAC"
fn an_algorithm_that_was_not_asked_for_is_an_error() {
    let mut config = requiring(&[kind::DATA]);
    config.authentication.authentication_hmac = HmacAlgorithm::Sha1;
    let mut pair = Pair::connected(1, config);
    let (header, data) = (pair.header(0), data(&pair));
    for (hmac_id, length) in [(3, 32), (2, 16), (77, 0)] {
        let tag = vec![0; length];
        let auth = anabranch_wire::Auth { shared_key_id: 0, hmac_id, hmac: &tag };
        let answers = pair.answers(
            1,
            craft::packet(header, |packet| {
                packet.chunk(&Chunk::Auth(auth))?;
                packet.data(&data)
            }),
        );
        let [answer] = &answers[..] else { panic!("{answers:?}") };
        let packet = Packet::parse(answer).unwrap();
        let chunk = packet.chunks().next().unwrap().unwrap();
        let Ok(Chunk::Error(error)) = chunk.decode() else { panic!("{packet}") };
        let cause = error.causes.iter().next().unwrap().unwrap();
        assert_eq!(cause.kind, cause_code::UNSUPPORTED_HMAC_IDENTIFIER);
        assert_eq!(cause.value[..2], u16::to_be_bytes(hmac_id));
    }
    assert_eq!(pair.received_len(1), 0);
}

#[test]
fn only_who_has_the_key_ends_the_association() {
    let mut pair = Pair::connected(1, with_secret(requiring(&[kind::ABORT]), 1, b"secret"));
    let (to_server, to_client) = (pair.header(0), pair.header(1));
    let abort = |tag_reflected| Chunk::Abort(Abort { tag_reflected, causes: Causes::new(&[]) });
    pair.inject(1, craft::packet(to_server, |packet| packet.chunk(&abort(false))));
    // With the T bit the tag is that of the other direction.
    let mut reflected = to_server;
    reflected.verification_tag = to_client.verification_tag;
    pair.inject(1, craft::packet(reflected, |packet| packet.chunk(&abort(true))));
    assert!(pair.association(1).unwrap().is_established());
    pair.abort(0);
    pair.run(Duration::from_secs(1));
    assert!(matches!(pair.closed[1], Some(CloseReason::PeerAbort { .. })), "{:?}", pair.closed);
}

#[test]
// test: rfc4895 6.3 "In this situation, the receiver MUST authenticate the"
// test: rfc4895 6.3 "successful, the COOKIE-ECHO and all the chunks after the COOKIE-ECHO"
fn only_who_has_the_key_begins_an_association() {
    let server = with_secret(requiring(&[kind::COOKIE_ECHO]), 1, b"secret");
    for (client, welcome) in [
        (with_secret(requiring(&[]), 1, b"secret"), true),
        (with_secret(requiring(&[]), 1, b"another"), false),
        (with_secret(requiring(&[]), 2, b"secret"), false),
        (requiring(&[]), false),
    ] {
        let mut pair = Pair::new(1, server.clone());
        pair.connect(client);
        assert_eq!(pair.run_until(Duration::from_secs(1), |pair| pair.both_up()), welcome);
        assert_eq!(pair.id[1].is_some(), welcome);
        assert!(all_authenticated(&pair, 0, &[kind::COOKIE_ECHO]));
    }
}

#[test]
// test: rfc4895 6.3 "an STCB, it MUST process the"
fn only_who_has_the_key_restarts_an_association() {
    let config = with_secret(requiring(&[kind::COOKIE_ECHO]), 1, b"secret");
    let mut pair = Pair::new(1, config.clone());
    let mut request = anabranch_proto::ConnectRequest::new(pair.addresses[1].clone(), Pair::PORT);
    request.local_port = Some(5555);
    request.config = config.into();
    pair.connect_with(request.clone());
    assert!(pair.run_until(Duration::from_secs(1), |pair| pair.both_up()));
    // The new incarnation knows the secret, but not the random numbers of the association, so it cannot authenticate
    // with the key of that.
    pair.net.reboot(0, anabranch_proto::EndpointConfig::default(), [9; 32]);
    pair.events = Default::default();
    pair.connect_with(request);
    pair.run(Duration::from_secs(2));
    assert!(pair.association(1).unwrap().is_established());
    let restarted =
        |event: &Event| matches!(event, Event::Notification(Notification::Restarted { .. }));
    assert!(!pair.events[1].iter().any(restarted));
}

#[test]
fn a_peer_restarts_with_new_random_numbers() {
    let config = with_secret(requiring(&[kind::DATA, kind::SACK]), 1, b"secret");
    let mut pair = Pair::new(1, config.clone());
    let mut request = anabranch_proto::ConnectRequest::new(pair.addresses[1].clone(), Pair::PORT);
    request.local_port = Some(5555);
    request.config = config.into();
    pair.connect_with(request.clone());
    assert!(pair.run_until(Duration::from_secs(1), |pair| pair.both_up()));
    pair.net.reboot(0, anabranch_proto::EndpointConfig::default(), [9; 32]);
    pair.connect_with(request);
    pair.run(Duration::from_secs(2));
    assert!(pair.both_up());
    transfer(&mut pair, 50_000);
    assert_eq!([0, 1].map(|node| failures(&pair, node)), [(0, 0); 2]);
}

#[test]
fn a_peer_without_authentication_is_served_as_it_is() {
    let secured = requiring(&[kind::DATA, kind::COOKIE_ECHO]);
    for (client, server, who) in [
        (secured.clone(), AssociationConfig::default(), 0),
        (AssociationConfig::default(), secured, 1),
    ] {
        let mut pair = Pair::new(1, server);
        pair.connect(client);
        assert!(pair.run_until(Duration::from_secs(1), |pair| pair.both_up()));
        assert!(!pair.statistics(who).features.has(Features::AUTHENTICATION));
        transfer(&mut pair, 50_000);
        let expected = [(AuthenticationChange::NotSupported, 0)];
        assert_eq!(changes(&pair, who), expected[..]);
        assert_eq!(changes(&pair, 1 - who), []);
    }
}

#[test]
fn who_requires_authentication_has_no_association_without_it() {
    let required =
        requiring(&[]).with(|config| config.authentication.require_authentication = true);
    let plain = AssociationConfig::default();
    for (client, server, welcome) in [
        (required.clone(), required.clone(), true),
        (required.clone(), requiring(&[]), true),
        (required.clone(), plain.clone(), false),
        (plain, required, false),
    ] {
        let mut pair = Pair::new(1, server);
        pair.connect(client);
        assert_eq!(pair.run_until(Duration::from_secs(1), |pair| pair.both_up()), welcome);
        assert_eq!(pair.id[1].is_some(), welcome);
        match &pair.closed[0] {
            None => assert!(welcome),
            Some(CloseReason::HandshakeFailed(why)) => assert!(why.contains("authentication")),
            Some(reason) => {
                assert_eq!(reason.abort_text(), Some("authentication is required"), "{reason}");
            }
        }
    }
    let alone = AssociationConfig::default()
        .with(|config| config.authentication.require_authentication = true);
    assert!(alone.validate().is_err());
}

/// A cookie that was made before the listener required authentication is not good any more.
#[test]
fn what_is_required_counts_for_handshakes_under_way() {
    let mut pair = Pair::new(1, AssociationConfig::default());
    pair.connect(AssociationConfig::default());
    pair.run(Duration::from_millis(15));
    let required =
        requiring(&[]).with(|config| config.authentication.require_authentication = true);
    let endpoint = &mut pair.net.node_mut(1).endpoint;
    endpoint.stop_listening(Pair::PORT);
    endpoint.listen(Pair::PORT, required.into()).unwrap();
    pair.run(Duration::from_secs(2));
    assert!(pair.id[1].is_none());
}

#[test]
// test: rfc4895 6.3 "it MUST use the key specified by the Shared Key Identifier"
// test: rfc4895 6.3 "pair shared key has been configured for that Shared Key Identifier"
fn keys_change_while_data_is_in_flight() {
    let mut pair = Pair::connected(1, requiring(&[kind::DATA, kind::SACK]));
    for round in 1..20 {
        let key = 10 + round;
        for node in [0, 1] {
            change_keys(&mut pair, node, |keys| keys.set(key, &[round as u8; 16]).unwrap());
        }
        for node in [0, 1] {
            assert!(pair.send(node, 0, vec![7; 30_000]));
            pair.run(Duration::from_millis(7));
            change_keys(&mut pair, node, |keys| keys.activate(key).unwrap());
        }
    }
    pair.run(Duration::from_secs(10));
    assert_eq!([0, 1].map(|node| pair.received_len(node)), [19 * 30_000; 2]);
    assert_eq!([0, 1].map(|node| failures(&pair, node)), [(0, 0); 2]);
    let change = AuthenticationChange::NewKey;
    assert!(changes(&pair, 1).contains(&(change, 29)), "{:?}", changes(&pair, 1));

    // What is deleted is no longer accepted, and what is active stays.
    change_keys(&mut pair, 1, |keys| {
        assert_eq!(keys.delete(29), Err(KeyError::Active(29)));
        keys.set(1, b"other").unwrap();
        keys.activate(1).unwrap();
        keys.delete(29).unwrap();
    });
    assert!(pair.send(0, 0, "unheard"));
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.received_len(1), 19 * 30_000);
    assert!(failures(&pair, 1).0 > 0);
}

#[test]
fn both_sides_begin_at_the_same_time() {
    let config = with_secret(requiring(&[kind::DATA, kind::COOKIE_ECHO, kind::SACK]), 1, b"secret");
    let mut pair = Pair::new(1, config.clone());
    pair.net.node_mut(0).endpoint.listen(Pair::PORT, config.clone().into()).unwrap();
    let now = pair.net.now();
    let request = |to: usize, pair: &Pair| {
        let mut request =
            anabranch_proto::ConnectRequest::new(pair.addresses[to].clone(), Pair::PORT);
        request.local_port = Some(Pair::PORT);
        request.config = config.clone().into();
        request
    };
    let (first, second) = (request(1, &pair), request(0, &pair));
    pair.id[0] = Some(pair.net.node_mut(0).endpoint.connect(now, first).unwrap());
    pair.id[1] = Some(pair.net.node_mut(1).endpoint.connect(now, second).unwrap());
    assert!(pair.run_until(Duration::from_secs(10), |pair| pair.both_up()));
    transfer(&mut pair, 50_000);
    assert_eq!([0, 1].map(|node| failures(&pair, node)), [(0, 0); 2]);
}

#[test]
// test: rfc4895 6.1 "Number is not 32 bytes, the association MUST be aborted"
// test: rfc4895 6.1 "chunk SHOULD contain the error cause"
fn a_random_number_of_another_length_is_refused() {
    for (config, refused) in [(requiring(&[]), true), (AssociationConfig::default(), false)] {
        let mut pair = Pair::new(1, config);
        pair.connect(AssociationConfig::default());
        let init = pair.sent(0);
        pair.take();
        let init =
            init.first().map_or_else(|| pair.sent(0)[0].1.clone(), |(_, bytes)| bytes.clone());
        let packet = Packet::parse(&init).unwrap();
        let chunk = packet.chunks().next().unwrap().unwrap();
        let mut value = chunk.value.to_vec();
        value.resize(value.len().next_multiple_of(4), 0);
        Parameter::Random(&[1; 31]).encode(&mut value);
        value.pop();
        let mut header = packet.header();
        header.source_port += 1;
        let answers =
            pair.answers(1, craft::packet(header, |packet| packet.raw(kind::INIT, 0, &value)));
        let kinds: Vec<Vec<u8>> = answers.iter().map(|bytes| craft::kinds(bytes)).collect();
        let expected = if refused { kind::ABORT } else { kind::INIT_ACK };
        assert_eq!(kinds, [[expected]]);
    }
}

#[test]
fn messages_of_any_size_and_lifetime_pass() {
    let mut config =
        requiring(&[kind::DATA, kind::FORWARD_TSN, kind::SACK, kind::I_DATA, kind::I_FORWARD_TSN]);
    config.sending.partial_reliability = true;
    for interleaving in [false, true] {
        config.sending.interleaving = interleaving;
        let mut pair = Pair::connected(1, config.clone());
        let now = pair.net.now();
        pair.set_up(0, false);
        for size in (1..3000).step_by(37) {
            let message = OutgoingMessage::new(1, Ppid(0), vec![1; size])
                .with_lifetime(Duration::from_millis(100));
            pair.association_mut(0).send(now, message).unwrap();
        }
        pair.run(Duration::from_millis(400));
        pair.set_up(0, true);
        let mut total = 0;
        for size in (1..5000).step_by(97) {
            assert!(pair.send(0, 0, vec![2; size]));
            total += size;
        }
        pair.run(Duration::from_secs(20));
        let ordered: usize = (pair.received[1].iter())
            .filter(|message| message.stream == 0)
            .map(|message| message.payload.len())
            .sum();
        assert_eq!(ordered, total);
        assert_eq!([0, 1].map(|node| failures(&pair, node)), [(0, 0); 2]);
    }
}
