//! A peer with several addresses, and paths that change (RFC 9260 sections 5.4, 6.4 and 7.3).

use std::net::IpAddr;
use std::time::Duration;

use anabranch_proto::{AssociationId, OutgoingMessage, PathState, Ppid};
use anabranch_wire::{Chunk, Packet, Parameter, kind};

use crate::victim::{HERE, PEER, THERE, Victim, data_of, init, parameter};

const SECOND: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 1, 0, 2));

/// Connected to a peer that lists its own address, a second one, and one of IPv6.
fn connected() -> (Victim, AssociationId) {
    let (mut victim, id) = Victim::connecting();
    let mut parameters = parameter(Parameter::StateCookie(b"biscuit"));
    for address in [
        Parameter::Ipv4Address([10, 0, 0, 2].into()),
        Parameter::Ipv4Address([10, 1, 0, 2].into()),
        Parameter::Ipv6Address("2001:db8::2".parse().unwrap()),
    ] {
        parameters.extend_from_slice(&parameter(address));
    }
    victim.chunk(&Chunk::InitAck(init(PEER, 100_000, &parameters)));
    assert_eq!(victim.kinds(), [[kind::COOKIE_ECHO]]);
    victim.chunk(&Chunk::CookieAck);
    (victim, id)
}

fn send(victim: &mut Victim, id: AssociationId, len: usize) {
    let now = victim.now;
    let message = OutgoingMessage::new(0, Ppid(0), vec![1; len]);
    victim.association(id).send(now, message).unwrap();
}

// test: rfc9260 5.1.2 "MUST derive and record all the transport"
// test: rfc9260 5.1.2 "MUST use all the addresses belonging to"
// test: rfc9260 5.4 "An endpoint MUST NOT send any chunks to an"
#[test]
fn an_unconfirmed_address_gets_heartbeats_only() {
    let (mut victim, id) = connected();
    let paths: Vec<_> = (victim.association(id).paths())
        .map(|(_, local, remote, state)| (local, remote, state))
        .collect();
    assert_eq!(paths, [(HERE, THERE, PathState::Active), (HERE, SECOND, PathState::Unconfirmed)]);
    send(&mut victim, id, 3000);
    let mut heartbeat = None;
    while let Some((transmit, bytes)) = victim.poll() {
        let packet = Packet::parse(&bytes).unwrap();
        if transmit.remote == SECOND {
            for chunk in packet.chunks() {
                let Chunk::Heartbeat(info) = chunk.unwrap().decode().unwrap() else {
                    panic!("{packet}")
                };
                heartbeat = Some(info.info.to_vec());
            }
        } else {
            assert_eq!(transmit.remote, THERE);
        }
    }
    // test: rfc9260 3.3.5 "MUST include a random nonce of length"
    let info = heartbeat.expect("a heartbeat to the second address");
    let mut wrong = info.clone();
    *wrong.last_mut().unwrap() ^= 1;
    for (info, state) in [(wrong, PathState::Unconfirmed), (info, PathState::Active)] {
        let tag = victim.tag;
        victim.take(SECOND, tag, |w| {
            let info = &info;
            w.chunk(&Chunk::HeartbeatAck(anabranch_wire::Heartbeat { info })).unwrap();
        });
        assert_eq!(victim.association(id).paths().nth(1).unwrap().3, state);
    }
}

// test: rfc9260 7.3 "MUST maintain separate PMTU estimates for each"
// test: rfc9260 7.2 "sender MUST keep a set of the control"
#[test]
fn paths_have_windows_and_sizes_of_their_own() {
    let (mut victim, id) = connected();
    let before = victim.association(id).statistics().paths;
    let now = victim.now;
    let quoted = victim.association(id).start_of_packet();
    victim.endpoint.handle_message_too_big(now, HERE, SECOND, 700, &quoted);
    send(&mut victim, id, 600);
    assert!(!victim.sent().is_empty());
    victim.wait();
    let after = victim.association(id).statistics().paths;
    assert_eq!((after[0].mtu, after[1].mtu), (before[0].mtu, 700));
    assert!(after[0].cwnd < before[0].cwnd, "the first path lost something");
    assert!(after[1].cwnd >= 700 - 40, "{}", after[1].cwnd);
}

// test: rfc9260 6.9 "then IP fragmentation MUST be"
#[test]
fn chunks_that_have_become_too_large_are_fragmented_by_ip() {
    let (mut victim, id) = Victim::connected();
    send(&mut victim, id, 1100);
    let first = victim.sent();
    let now = victim.now;
    let quoted = victim.association(id).start_of_packet();
    victim.endpoint.handle_message_too_big(now, HERE, THERE, 700, &quoted);
    let (transmit, again) = victim.poll().expect("sent again at once");
    assert!(!transmit.dont_fragment);
    assert_eq!(data_of(&[again])[0].payload, data_of(&first)[0].payload);
    victim.acknowledge(1, 100_000);
    send(&mut victim, id, 1100);
    while let Some((transmit, bytes)) = victim.poll() {
        assert!(transmit.dont_fragment && bytes.len() <= 700 - 28);
    }
}

// test: rfc9260 6.3.1 "MUST be made each round trip"
#[test]
fn every_round_trip_is_measured() {
    let (mut victim, id) = Victim::connected();
    let mut srtt = Duration::ZERO;
    for (count, millis) in [(1, 400), (2, 500), (3, 600)] {
        send(&mut victim, id, 100);
        assert_eq!(victim.sent().len(), 1);
        victim.now += Duration::from_millis(millis);
        victim.acknowledge(count, 100_000);
        let measured = victim.association(id).statistics().paths[0].srtt.unwrap();
        assert!(measured > srtt, "{measured:?} after {srtt:?}");
        srtt = measured;
    }
}
