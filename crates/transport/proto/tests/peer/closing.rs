//! Shutdown, abort and ICMP (RFC 9260 sections 9 and 10).

use std::time::Duration;

use anabranch_proto::{
    AssociationId, CloseReason, Event, IcmpKind, IcmpMessage, Notification, OutgoingMessage, Ppid,
};
use anabranch_wire::{Chunk, Shutdown, ShutdownComplete, Tsn, kind};

use crate::victim::{HERE, PEER, THERE, Victim, decode, message};

fn send(victim: &mut Victim, id: AssociationId) -> bool {
    let now = victim.now;
    victim.association(id).send(now, OutgoingMessage::new(0, Ppid(0), "text")).is_ok()
}

fn shut_down(victim: &mut Victim, id: AssociationId) {
    let now = victim.now;
    victim.association(id).shutdown(now);
}

fn closed(victim: &mut Victim) -> Option<CloseReason> {
    std::iter::from_fn(|| victim.endpoint.poll_event()).find_map(|(_, event)| match event {
        Event::Notification(Notification::Closed(reason)) => Some(reason),
        _ => None,
    })
}

/// The peer's SHUTDOWN, which acknowledges the first `count` chunks.
fn shutdown_of(victim: &Victim, count: u32) -> Chunk<'static> {
    let cumulative_tsn_ack = Tsn(victim.tsn.wrapping_add(count).wrapping_sub(1));
    Chunk::Shutdown(Shutdown { cumulative_tsn_ack })
}

// test: rfc9260 3.3.8 "MUST use this chunk to initiate a"
// test: rfc9260 9.2 "MUST resend the SHUTDOWN chunk with the updated"
// test: rfc9260 9.2 "MUST be followed to determine the proper"
// test: rfc9260 9.2 "the SHUTDOWN chunk sender MUST"
// test: rfc9260 9.2 "then a SACK chunk MUST also be sent"
// test: rfc9260 9.2 "sender of the SHUTDOWN chunk MUST stop"
// test: rfc9260 3.3.13 "This chunk MUST be used to acknowledge"
// test: rfc9260 8.5.1 "tag MUST be used and the T bit MUST"
// test: rfc9260 6 "A SACK chunk MUST be processed in ESTABLISHED"
#[test]
fn this_side_shuts_down() {
    let (mut victim, id) = Victim::connected();
    assert!(send(&mut victim, id));
    shut_down(&mut victim, id);
    assert_eq!(victim.kinds(), [[kind::DATA]]);
    assert!(!send(&mut victim, id));
    victim.acknowledge(1, 100_000);
    assert_eq!(victim.kinds(), [[kind::SHUTDOWN]]);
    // The peer still sends; data after a gap needs a SACK as well.
    victim.chunk(&message(1, 0));
    let sent = victim.sent();
    let (Chunk::Shutdown(shutdown), PEER) = decode(&sent[0]) else { panic!("{sent:?}") };
    assert_eq!((shutdown.cumulative_tsn_ack, sent.len()), (Tsn(1), 1));
    victim.chunk(&message(3, 2));
    assert_eq!(victim.kinds(), [[kind::SHUTDOWN, kind::SACK]]);
    let first = victim.wait();
    let sent = victim.sent();
    assert!(matches!(decode(&sent[0]), (Chunk::Shutdown(s), _) if s.cumulative_tsn_ack == Tsn(1)));
    assert_eq!(victim.wait(), 2 * first);
    assert_eq!(victim.kinds(), [[kind::SHUTDOWN]]);
    victim.chunk(&Chunk::ShutdownAck);
    let sent = victim.sent();
    assert!(matches!(decode(&sent[0]), (Chunk::ShutdownComplete(c), PEER) if !c.tag_reflected));
    assert_eq!(closed(&mut victim), Some(CloseReason::Shutdown));
}

// test: rfc9260 4 "SHUTDOWN-RECEIVED state, the endpoint MUST NOT accept"
// test: rfc9260 4 "SHUTDOWN-ACK-SENT state, the endpoint MUST NOT accept"
// test: rfc9260 4 "MUST transmit or retransmit data and leave"
// test: rfc9260 9.2 "MUST NOT accept new data from its SCTP"
// test: rfc9260 9.2 "MUST continue to follow normal data transmission"
// test: rfc9260 9.2 "it MUST ignore ULP shutdown requests but MUST"
// test: rfc9260 9.2 "the SHUTDOWN chunk receiver MUST send a SHUTDOWN"
// test: rfc9260 9.2 "MUST resend the SHUTDOWN ACK chunk"
// test: rfc9260 3.3.9 "MUST be used to acknowledge the receipt"
// test: rfc9260 3.3.8 "MUST NOT interpret the lack of a Gap"
#[test]
fn the_peer_shuts_down() {
    let (mut victim, id) = Victim::connected();
    assert!(send(&mut victim, id) && send(&mut victim, id));
    assert_eq!(victim.kinds(), [[kind::DATA, kind::DATA]]);
    // The second one arrived first. The SHUTDOWN cannot report that, and does not take anything back.
    let (tag, cumulative) = (victim.tag, Tsn(victim.tsn.wrapping_sub(1)));
    victim.take(THERE, tag, |w| {
        let gap = anabranch_wire::GapBlock { start: 2, end: 2 };
        w.sack(cumulative, 100_000, &[gap], &[]).unwrap();
    });
    victim.chunk(&shutdown_of(&victim, 0));
    assert_eq!(victim.state(id), "SHUTDOWN-RECEIVED");
    assert_eq!(victim.association(id).statistics().outstanding_bytes, 4);
    assert!(!send(&mut victim, id));
    shut_down(&mut victim, id);
    assert_eq!(victim.state(id), "SHUTDOWN-RECEIVED");
    victim.wait();
    assert_eq!(victim.kinds(), [[kind::DATA]]);
    victim.chunk(&shutdown_of(&victim, 2));
    assert_eq!(victim.kinds(), [[kind::SHUTDOWN_ACK]]);
    assert!(!send(&mut victim, id));
    let first = victim.wait();
    assert_eq!(victim.kinds(), [[kind::SHUTDOWN_ACK]]);
    assert_eq!(victim.wait(), 2 * first);
    assert_eq!(victim.kinds(), [[kind::SHUTDOWN_ACK]]);
    victim.chunk(&shutdown_of(&victim, 2));
    assert_eq!(victim.kinds(), [[kind::SHUTDOWN_ACK]]);
    victim.chunk(&Chunk::ShutdownComplete(ShutdownComplete { tag_reflected: false }));
    assert_eq!(victim.sent(), Vec::<Vec<u8>>::new());
    assert_eq!(closed(&mut victim), Some(CloseReason::Shutdown));
}

// test: rfc9260 9.2 "receives a SHUTDOWN ACK, it MUST stop the"
#[test]
fn both_sides_shut_down() {
    let (mut victim, id) = Victim::connected();
    shut_down(&mut victim, id);
    assert_eq!(victim.kinds(), [[kind::SHUTDOWN]]);
    victim.chunk(&shutdown_of(&victim, 0));
    assert_eq!(victim.kinds(), [[kind::SHUTDOWN_ACK]]);
    assert_eq!(victim.state(id), "SHUTDOWN-ACK-SENT");
    victim.chunk(&Chunk::ShutdownAck);
    assert_eq!(victim.kinds(), [[kind::SHUTDOWN_COMPLETE]]);
    assert_eq!(closed(&mut victim), Some(CloseReason::Shutdown));
    while victim.endpoint.next_deadline().is_some() {
        victim.wait();
        assert_eq!(victim.sent(), Vec::<Vec<u8>>::new());
    }
}

// test: rfc9260 9.1 "MUST NOT bundle any DATA chunk with the"
// test: rfc9260 3.3.7 "DATA chunks MUST NOT be bundled with ABORT"
// test: rfc9260 3.3.7 "MUST be placed before the ABORT chunk"
// test: rfc9260 8.5.1 "MUST always fill in the Verification Tag"
#[test]
fn an_abort_goes_alone() {
    let (mut victim, id) = Victim::connected();
    assert!(send(&mut victim, id));
    let now = victim.now;
    victim.association(id).abort(now, b"tired");
    let sent = victim.sent();
    let (Chunk::Abort(abort), PEER) = decode(&sent[0]) else { panic!("{sent:?}") };
    assert!(!abort.tag_reflected);
    assert_eq!(sent.len(), 1);
    assert_eq!(closed(&mut victim), Some(CloseReason::LocalAbort));
}

// test: rfc9260 9.1 "the receiving endpoint MUST"
#[test]
fn the_peer_aborts() {
    let (mut victim, id) = Victim::connected();
    let tag = victim.tag;
    victim.take(THERE, tag, |w| w.raw(kind::ABORT, 0, &[]).unwrap());
    assert!(matches!(closed(&mut victim), Some(CloseReason::PeerAbort { code: None, .. })));
    // Packets from now on do not belong to an association.
    victim.chunk(&message(1, 0));
    assert!(
        matches!(decode(&victim.sent()[0]), (Chunk::Abort(a), t) if a.tag_reflected && t == tag)
    );
    assert!(victim.association(id).receive().is_none());
}

#[test]
fn an_empty_heartbeat_is_passed_over() {
    let (mut victim, id) = Victim::connected();
    let tag = victim.tag;
    victim.take(THERE, tag, |w| {
        w.raw(kind::HEARTBEAT, 0, &[]).unwrap();
        w.chunk(&message(1, 0)).unwrap();
    });
    assert_eq!(victim.state(id), "ESTABLISHED");
    assert!(victim.association(id).receive().is_some());
}

#[test]
fn a_shutdown_need_not_make_sense_as_an_acknowledgement() {
    let (mut victim, id) = Victim::connected();
    assert!(send(&mut victim, id));
    assert_eq!(victim.kinds(), [[kind::DATA]]);
    let nonsense = shutdown_of(&victim, 1000);
    victim.chunk(&nonsense);
    assert_eq!(victim.state(id), "SHUTDOWN-RECEIVED");
    victim.acknowledge(1, 100_000);
    assert_eq!(victim.kinds(), [[kind::SHUTDOWN_ACK]]);
}

// test: rfc9260 8.1 "SHALL stop transmitting any more data to"
// test: rfc9260 8.1 "The counter used for endpoint failure detection MUST be"
#[test]
fn a_peer_that_is_silent_is_given_up() {
    let (mut victim, id) = Victim::connected();
    assert!(send(&mut victim, id));
    let mut timeouts = 0;
    let mut waited = Duration::ZERO;
    let mut sent = victim.sent().len();
    while !victim.endpoint.association(id).unwrap().is_closed() {
        waited += victim.wait();
        timeouts += 1;
        let now = victim.sent().len();
        sent += now;
        // Once the peer answers, and the count starts again.
        if timeouts == 5 {
            victim.acknowledge(1, 100_000);
            assert!(send(&mut victim, id));
            sent = victim.sent().len();
        }
        assert!(waited < Duration::from_secs(3600));
    }
    assert_eq!(sent, 11, "one transmission and Association.Max.Retrans more");
    assert_eq!(closed(&mut victim), Some(CloseReason::Unreachable));
    assert_eq!(victim.sent(), Vec::<Vec<u8>>::new());
}

// test: rfc9260 10 "the following procedures MUST be followed"
// test: rfc9260 10 "An implementation MUST use the payload of the"
// test: rfc9260 10 "An implementation MUST validate that the Verification Tag"
// test: rfc9260 12.4 "MUST implement the ICMP handling"
#[test]
fn icmp_counts_with_the_right_tag_only() {
    let (mut victim, id) = Victim::connected();
    for (tag, expected) in [(PEER + 1, "ESTABLISHED"), (PEER, "CLOSED")] {
        for kind in [IcmpKind::PortUnreachable, IcmpKind::ProtocolUnreachable] {
            assert_eq!(victim.state(id), "ESTABLISHED");
            unreachable(&mut victim, kind, tag);
        }
        assert_eq!(victim.state(id), expected);
    }
    assert_eq!(closed(&mut victim), Some(CloseReason::NoSctp));
}

/// Tells the victim that its peer's host does not take its packets.
fn unreachable(victim: &mut Victim, kind: IcmpKind, tag: u32) {
    let mut quoted = [(5000_u16 >> 8) as u8, 5000_u16 as u8, 0, 7, 0, 0, 0, 0];
    quoted[4..].copy_from_slice(&tag.to_be_bytes());
    let message = IcmpMessage { local: HERE, remote: THERE, kind, quoted: &quoted };
    let now = victim.now;
    victim.endpoint.handle_icmp(now, &message);
}

/// A peer may end its program as soon as it has sent SHUTDOWN COMPLETE, which may be lost.
// test: rfc9260 10 "MUST treat this message as an abort with"
#[test]
fn a_peer_that_has_finished_may_be_gone() {
    let (mut victim, id) = Victim::connected();
    let shutdown = shutdown_of(&victim, 0);
    victim.chunk(&shutdown);
    assert_eq!(victim.state(id), "SHUTDOWN-ACK-SENT");
    unreachable(&mut victim, IcmpKind::ProtocolUnreachable, PEER);
    assert_eq!(closed(&mut victim), Some(CloseReason::Shutdown));
    // A peer that has not said that it has finished may have more to send.
    let (mut victim, id) = Victim::connected();
    shut_down(&mut victim, id);
    assert_eq!(victim.kinds(), [[kind::SHUTDOWN]]);
    assert_eq!(victim.state(id), "SHUTDOWN-SENT");
    unreachable(&mut victim, IcmpKind::ProtocolUnreachable, PEER);
    assert_eq!(closed(&mut victim), Some(CloseReason::NoSctp));
}
