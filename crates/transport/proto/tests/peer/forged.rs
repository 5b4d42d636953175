//! Forged packets, and packets that ask for too much.

use std::sync::Arc;
use std::time::Duration;

use anabranch_proto::{AssociationConfig, ConnectRequest};
use anabranch_wire::{Chunk, CookieEcho, Header, Init, PacketWriter, Parameter, Tsn, kind};

use crate::victim::{ELSEWHERE, NOW, THERE, Victim, decode, init, parameter};

// test: rfc9260 3.3.3 "smaller than 1500 MUST discard the packet"
// test: rfc9260 3.3.3 "MUST NOT change the state of any existing"
#[test]
fn an_init_ack_with_a_tiny_window_changes_nothing() {
    let (mut victim, id) = Victim::connecting();
    let tag = victim.tag;
    let cookie = parameter(Parameter::StateCookie(b"biscuit"));
    victim.take(THERE, tag, |w| w.chunk(&Chunk::InitAck(init(77, 1499, &cookie))).unwrap());
    // test: rfc9260 3.3.3 "packet in response containing an ABORT"
    let sent = victim.sent();
    let (Chunk::Abort(abort), 77) = decode(&sent[0]) else { panic!("{sent:?}") };
    assert!(!abort.tag_reflected && sent.len() == 1);
    assert_eq!(victim.state(id), "COOKIE-WAIT");
    victim.take(THERE, tag, |w| w.chunk(&Chunk::InitAck(init(77, 1500, &cookie))).unwrap());
    assert_eq!(victim.state(id), "COOKIE-ECHOED");
    // test: rfc9260 5.1.4 "MUST immediately send a COOKIE ECHO chunk"
    // test: rfc9260 3.3.11 "This field MUST contain the exact cookie"
    // test: rfc9260 8.5.1 "MUST use the value of the Initiate Tag"
    let sent = victim.sent();
    let (Chunk::CookieEcho(echo), 77) = decode(&sent[0]) else { panic!("{sent:?}") };
    assert_eq!(echo.cookie, b"biscuit");
}

// test: rfc9260 3.3.3 "chunk with the Initiate Tag set to 0"
// test: rfc9260 3.3.3 "OS value set to 0, it MUST destroy"
// test: rfc9260 3.3.3 "MIS value set to 0, it MUST destroy"
// test: rfc9260 3.3.3 "Host Name Address parameter MUST send an ABORT"
// test: rfc9260 3.3.2.1.4 "Host Name Address parameter MUST send an ABORT"
// test: rfc9260 12.2.4.1 "MUST send an ABORT chunk in response"
#[test]
fn an_init_ack_that_cannot_be_used_ends_the_handshake() {
    let host = parameter(Parameter::HostNameAddress(b"host\0"));
    let cookie = parameter(Parameter::StateCookie(b"biscuit"));
    for (ack, reflected) in [
        // test: rfc9260 3.3.3 "send an ABORT chunk with the T bit"
        (init(0, 2000, &cookie), true),
        (init(0, 1499, &cookie), true),
        (Init { outbound_streams: 0, ..init(77, 2000, &cookie) }, false),
        (Init { inbound_streams: 0, ..init(77, 2000, &cookie) }, false),
        (init(77, 2000, &host), false),
    ] {
        let (mut victim, id) = Victim::connecting();
        let tag = victim.tag;
        victim.take(THERE, tag, |w| w.chunk(&Chunk::InitAck(ack)).unwrap());
        assert_eq!(victim.state(id), "CLOSED");
        let sent = victim.sent();
        assert_eq!(sent.len(), 1);
        let (Chunk::Abort(abort), answered) = decode(&sent[0]) else { panic!("{sent:?}") };
        assert_eq!(abort.tag_reflected, reflected);
        assert_eq!(answered, if reflected { tag } else { 77 });
    }
}

// test: rfc9260 5.2.1 "the following rules MUST be applied"
// test: rfc9260 5.2.1 "MUST only be sent to an address passed"
// test: rfc9260 5.2.1 "MUST respond with an INIT ACK chunk using"
// test: rfc9260 5.2.1 "MUST NOT change its state, the T1-init timer"
#[test]
// test: rfc9260 5.2.1 "T1-init timer MUST be left running"
// test: rfc9260 5.2.1 "MUST only be sent to an address reported"
// test: rfc9260 5.2.1 "MUST also generate a State Cookie with"
fn a_collision_is_answered_where_the_user_connects_to() {
    let (mut victim, id) = Victim::connecting();
    let tag = victim.tag;
    let there = parameter(Parameter::Ipv4Address([10, 0, 0, 2].into()));
    victim.take(ELSEWHERE, 0, |w| w.chunk(&Chunk::Init(init(77, 2000, &there))).unwrap());
    assert_eq!(victim.sent(), Vec::<Vec<u8>>::new());
    victim.take(THERE, 0, |w| w.chunk(&Chunk::Init(init(77, 2000, &there))).unwrap());
    let sent = victim.sent();
    let (Chunk::InitAck(ack), 77) = decode(&sent[0]) else { panic!("{sent:?}") };
    assert_eq!(ack.initiate_tag, tag);
    assert_eq!(victim.state(id), "COOKIE-WAIT");
}

// test: rfc9260 5.2.1 "then the entire INIT chunk MUST be discarded"
#[test]
fn a_late_collision_brings_no_new_address() {
    let (mut victim, id) = Victim::connecting();
    let tag = victim.tag;
    let cookie = parameter(Parameter::StateCookie(b"biscuit"));
    victim.take(THERE, tag, |w| w.chunk(&Chunk::InitAck(init(77, 2000, &cookie))).unwrap());
    assert_eq!(victim.sent().len(), 1);
    let more = parameter(Parameter::Ipv4Address([10, 0, 0, 3].into()));
    victim.take(THERE, 0, |w| w.chunk(&Chunk::Init(init(77, 2000, &more))).unwrap());
    // test: rfc9260 5.2.1 "An ABORT chunk SHOULD be sent in"
    assert!(matches!(decode(&victim.sent()[0]), (Chunk::Abort(_), 77)));
    assert_eq!(victim.state(id), "COOKIE-ECHOED");
    // test: rfc9260 5.2.1 "COOKIE-ECHOED state, an endpoint MUST respond"
    victim.take(THERE, 0, |w| w.chunk(&Chunk::Init(init(77, 2000, &[]))).unwrap());
    assert!(matches!(decode(&victim.sent()[0]), (Chunk::InitAck(_), 77)));
}

// test: rfc9260 3.1 "Source Port Number 0 MUST NOT be used"
// test: rfc9260 3.1 "Destination Port Number 0 MUST NOT be used"
#[test]
fn nothing_is_sent_to_port_0() {
    let mut victim = Victim::listening();
    for (source_port, destination_port) in [(0, 7), (7, 0)] {
        for kind in [kind::SHUTDOWN_ACK, kind::COOKIE_ACK, kind::HEARTBEAT] {
            let header = Header { source_port, destination_port, verification_tag: 5 };
            victim.take_with(header, THERE, |w| w.raw(kind, 0, &[]).unwrap());
        }
        let header = Header { source_port, destination_port, verification_tag: 0 };
        victim.take_with(header, THERE, |w| {
            w.chunk(&Chunk::Init(init(77, 2000, &[]))).unwrap();
        });
    }
    assert_eq!(victim.sent(), Vec::<Vec<u8>>::new());
    let request = ConnectRequest::new(vec![THERE], 0);
    assert!(victim.endpoint.connect(NOW, request).is_err());
    assert!(victim.endpoint.listen(0, Arc::new(AssociationConfig::default())).is_err());
}

// test: rfc9260 3.3.2 "the receiver MUST silently discard the packet"
// test: rfc9260 8.5.1 "Otherwise, the receiver MUST silently discard the packet"
// test: rfc9260 12.3 "MUST silently discard the INIT chunk and all"
#[test]
fn an_init_with_a_wrong_tag_or_company_is_discarded() {
    let mut victim = Victim::listening();
    let header =
        |verification_tag| Header { source_port: 9, destination_port: 7, verification_tag };
    victim.take_with(header(0), THERE, |w| {
        w.chunk(&Chunk::Init(init(0, 2000, &[]))).unwrap();
    });
    victim.take_with(header(5), THERE, |w| {
        w.chunk(&Chunk::Init(init(77, 2000, &[]))).unwrap();
    });
    victim.take_with(header(0), THERE, |w| {
        w.chunk(&Chunk::Init(init(77, 2000, &[]))).unwrap();
        w.chunk(&Chunk::CookieAck).unwrap();
    });
    assert_eq!(victim.sent(), Vec::<Vec<u8>>::new());
}

// test: rfc9260 3.3.2 "value smaller than 1500 MUST discard the packet"
// test: rfc9260 3.3.2 "Host Name Address parameter MUST send an ABORT"
// test: rfc9260 8.4 "MUST be the Initiate Tag of the received INIT"
// test: rfc9260 5.1 "MUST be set to the Initiate Tag value"
#[test]
// test: rfc9260 3.3.2 "OS value set to 0 MUST discard the"
// test: rfc9260 3.3.2 "MIS value set to 0 MUST discard the"
// test: rfc9260 5.1.2 "the endpoint MUST immediately send an"
fn an_init_that_cannot_be_used_is_refused_with_its_own_tag() {
    let host = parameter(Parameter::HostNameAddress(b"host\0"));
    for (refused, port) in [
        (init(77, 1499, &[]), 7),
        (Init { outbound_streams: 0, ..init(77, 2000, &[]) }, 7),
        (Init { inbound_streams: 0, ..init(77, 2000, &[]) }, 7),
        (init(77, 2000, &host), 7),
        (init(77, 2000, &[]), 8),
    ] {
        let mut victim = Victim::listening();
        let header = Header { source_port: 9, destination_port: port, verification_tag: 0 };
        victim.take_with(header, THERE, |w| w.chunk(&Chunk::Init(refused)).unwrap());
        let sent = victim.sent();
        let (Chunk::Abort(abort), 77) = decode(&sent[0]) else { panic!("{sent:?}") };
        assert!(!abort.tag_reflected);
        assert_eq!(victim.endpoint.associations().count(), 0);
    }
}

// test: rfc9260 12.4 "MUST NOT send more than one packet containing"
#[test]
fn one_packet_is_answered_by_one() {
    let (mut victim, id) = Victim::connected();
    let tag = victim.tag;
    // Chunks of an unknown type that is to be reported: each report is larger than the chunk.
    victim.take(THERE, tag, |w| while w.raw(0x7f, 0, &[]).is_ok() {});
    let sent = victim.sent();
    assert_eq!(sent.len(), 1);
    victim.take(THERE, tag, |w| while w.raw(0xff, 0, &[0; 28]).is_ok() {});
    let sent = victim.sent();
    assert_eq!(sent.len(), 1, "{:?}", sent.iter().map(Vec::len).collect::<Vec<_>>());
    assert_eq!(victim.state(id), "ESTABLISHED");
}

// test: rfc9260 8.5 "the receiver MUST silently discard the packet and"
// test: rfc9260 8.5 "matches its own tag"
// test: rfc9260 8.5.1 "discard the packet and take no further action"
// test: rfc9260 9.1 "MUST apply the special Verification Tag check rules"
// test: rfc9260 8.5.1 "An endpoint MUST ignore the SHUTDOWN COMPLETE chunk"
#[test]
// test: rfc9260 8.5 "MUST NOT process it any further"
fn wrong_tags_are_ignored() {
    let (mut victim, id) = Victim::connected();
    let tag = victim.tag;
    for kind in [kind::ABORT, kind::SHUTDOWN_COMPLETE, kind::SHUTDOWN_ACK, kind::HEARTBEAT] {
        // The T bit with the victim's own tag; the peer's tag without it; a guess.
        for (flags, tag) in [(1, tag), (0, 77), (0, 78), (1, 78), (0, 0)] {
            if (kind, flags) == (kind::SHUTDOWN_ACK, 1) || (kind, flags) == (kind::HEARTBEAT, 1) {
                continue;
            }
            victim.take(THERE, tag, |w| w.raw(kind, flags, &[]).unwrap());
        }
    }
    victim.take(THERE, tag, |w| w.raw(kind::SHUTDOWN_COMPLETE, 0, &[]).unwrap());
    assert_eq!(victim.sent(), Vec::<Vec<u8>>::new());
    assert_eq!(victim.state(id), "ESTABLISHED");
    // test: rfc9260 8.5.1 "The receiver of an ABORT chunk MUST accept"
    // test: rfc9260 9.1 "An endpoint MUST NOT respond to any received"
    // test: rfc9260 3.3.7 "MUST NOT respond to that ABORT chunk by"
    victim.take(THERE, 77, |w| w.raw(kind::ABORT, 1, &[]).unwrap());
    assert_eq!(victim.sent(), Vec::<Vec<u8>>::new());
    assert_eq!(victim.state(id), "CLOSED");
}

// test: rfc9260 8.4 "MUST fill in the Verification Tag field of"
// test: rfc9260 3.1 "MUST have the Verification Tag copied from"
// test: rfc9260 8.5.1 "and MUST set the T bit"
// test: rfc9260 8.4 "MUST discard the OOTB packet and MUST NOT"
// test: rfc9260 8.5.1 "MUST follow the procedure described in Section"
#[test]
fn strangers_get_their_tag_back() {
    let mut victim = Victim::listening();
    victim.take(THERE, 5, |w| w.raw(kind::SHUTDOWN_ACK, 0, &[]).unwrap());
    victim.take(THERE, 6, |w| w.raw(kind::HEARTBEAT, 0, &[0, 1, 0, 4]).unwrap());
    let sent = victim.sent();
    assert_eq!(sent.len(), 2);
    assert!(matches!(decode(&sent[0]), (Chunk::ShutdownComplete(c), 5) if c.tag_reflected));
    assert!(matches!(decode(&sent[1]), (Chunk::Abort(a), 6) if a.tag_reflected));
    // test: rfc9260 3.3.7 "chunk with a format error or no TCB"
    // test: rfc9260 8.4 "MUST silently discard the OOTB packet"
    victim.take(THERE, 7, |w| w.raw(kind::ABORT, 0, &[]).unwrap());
    victim.take([224, 0, 0, 1].into(), 7, |w| w.raw(kind::HEARTBEAT, 0, &[0, 1, 0, 4]).unwrap());
    assert_eq!(victim.sent(), Vec::<Vec<u8>>::new());
    assert_eq!(victim.endpoint.associations().count(), 0);
}

// test: rfc9260 12.4 "MUST abort the association if it receives"
#[test]
fn an_acknowledgement_of_what_was_never_sent_ends_the_association() {
    let (mut victim, id) = Victim::connected();
    let tag = victim.tag;
    // No data was sent: a TSN is either older than the first one or was never sent.
    let lie = |tsn| move |w: &mut PacketWriter<'_>| w.sack(Tsn(tsn), 2000, &[], &[]).unwrap();
    victim.take(THERE, tag, lie(0));
    if victim.state(id) == "ESTABLISHED" {
        victim.take(THERE, tag, lie(1 << 31));
    }
    let sent = victim.sent();
    // test: rfc9260 9.1 "MUST fill in the peer's Verification Tag"
    // test: rfc9260 9.1 "it MUST send an ABORT chunk to its"
    assert!(matches!(decode(&sent[0]), (Chunk::Abort(_), 77)));
    assert_eq!(sent.len(), 1);
    assert_eq!(victim.state(id), "CLOSED");
}

// test: rfc9260 5.1 "MUST NOT allocate any resources or keep any states"
#[test]
fn a_flood_of_inits_leaves_nothing() {
    let mut victim = Victim::listening();
    for port in 1..=5000 {
        let header = Header { source_port: port, destination_port: 7, verification_tag: 0 };
        victim.take_with(header, THERE, |w| {
            w.chunk(&Chunk::Init(init(u32::from(port), 2000, &[]))).unwrap();
        });
    }
    assert_eq!(victim.endpoint.associations().count(), 0);
    assert_eq!(victim.endpoint.next_deadline(), None);
    // The answers that wait for the driver are bounded; the other packets were not answered.
    assert_eq!(victim.sent().len(), 1024);
}

// test: rfc9260 5.4 "SHOULD be limited by the 'HB.Max.Burst' parameter"
#[test]
fn a_list_of_strangers_is_not_flooded() {
    let mut victim = Victim::listening();
    let mut listed = Vec::new();
    for host in 1..=100 {
        listed.extend_from_slice(&parameter(Parameter::Ipv4Address([10, 8, 0, host].into())));
    }
    let header = Header { source_port: 9, destination_port: 7, verification_tag: 0 };
    victim.take_with(header, THERE, |w| {
        w.chunk(&Chunk::Init(init(77, 2000, &listed))).unwrap();
    });
    let (transmit, answer) = victim.poll().unwrap();
    assert_eq!(transmit.remote, THERE);
    assert!(victim.poll().is_none());
    let Chunk::InitAck(ack) = decode(&answer).0 else { panic!("no INIT ACK") };
    let cookie = ack.parameters.find(anabranch_wire::parameter_kind::STATE_COOKIE).unwrap();
    let header = Header { verification_tag: ack.initiate_tag, ..header };
    victim.take_with(header, THERE, |w| {
        w.chunk(&Chunk::CookieEcho(CookieEcho { cookie: cookie.value })).unwrap();
    });
    let mut strangers = 0;
    let end = victim.now + Duration::from_secs(3);
    loop {
        while let Some((transmit, _)) = victim.poll() {
            strangers += usize::from(transmit.remote != THERE);
        }
        if victim.endpoint.next_deadline().is_none_or(|at| at >= end) {
            break;
        }
        victim.wait();
    }
    // HB.Max.Burst is 1: one of them in each second.
    assert!((1..=4).contains(&strangers), "{strangers} packets to addresses that were listed");
    let id = victim.endpoint.associations().next().unwrap();
    assert_eq!(victim.association(id).paths().count(), 16);
}
