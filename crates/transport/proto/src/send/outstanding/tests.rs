use super::*;

const A: PathId = PathId(0);
const B: PathId = PathId(1);

/// Adds a chunk of 100 bytes; returns its TSN.
fn push(ring: &mut Outstanding, path: PathId, packet: u64, large: bool) -> u64 {
    let fragment = Fragment::whole(ring.next_message(), 100);
    ring.push(Instant::ZERO, fragment, path, packet, large)
}

fn filled(first: u64, count: u64) -> Outstanding {
    let mut ring = Outstanding::new(first);
    [A, B].into_iter().for_each(|path| ring.add_path(path));
    for i in 0..count {
        let tsn = push(&mut ring, A, i, false);
        assert_eq!(tsn, first + i);
    }
    ring
}

fn order(ring: &Outstanding, path: PathId) -> Vec<u64> {
    let mut out = Vec::new();
    let mut at = ring.oldest_counted(path);
    while let Some(tsn) = at {
        out.push(tsn);
        at = ring.sent_after(tsn);
    }
    out
}

#[test]
fn order_survives_loss_and_ack_across_the_wrap() {
    let first = (1u64 << 33) - 3;
    let mut ring = filled(first, 6);
    assert_eq!(ring.flight(A), 6 * 116);
    ring.gap_ack(first + 4);
    ring.lose(first + 1, Cause::MissingReports, B);
    assert_eq!(order(&ring, A), [first, first + 2, first + 3, first + 5]);
    assert_eq!(ring.first_lost(B), Some(first + 1));
    assert_eq!((ring.flight(A), ring.flight(B)), (4 * 116, 0));
    ring.retransmitted(Instant::ZERO, first + 1, B, 9, true, false);
    assert_eq!(order(&ring, B), [first + 1]);
    assert!(ring.get(first + 1).unwrap().ambiguous());
    ring.renege(Instant::ZERO, first + 4);
    assert_eq!(order(&ring, A), [first + 4, first, first + 2, first + 3, first + 5]);
    for expected in first..first + 6 {
        assert_eq!(ring.base(), expected);
        ring.pop().unwrap();
    }
    assert!(ring.pop().is_none());
    assert_eq!((ring.flight(A), ring.flight(B), ring.payload_in_flight()), (0, 0, 0));
    assert_eq!(ring.next_tsn(), first + 6);
}

#[test]
fn held_chunks_are_not_counted_but_timed() {
    let mut ring = filled(10, 3);
    ring.lose(10, Cause::MissingReports, A);
    assert_eq!(ring.lost_chunks(), 1);
    ring.retransmitted(Instant::ZERO, 10, A, 9, false, false);
    assert_eq!(order(&ring, A), [11, 12]);
    assert_eq!(ring.earliest(A), Some(10));
    ring.gap_ack(11);
    ring.gap_ack(12);
    assert_eq!(ring.flight(A), 116);
    assert!(ring.in_flight(A));
    ring.gap_ack(10);
    assert!(!ring.in_flight(A));
    assert_eq!(ring.earliest(A), None);
}

#[test]
fn lost_chunks_can_be_redirected() {
    let mut ring = filled(10, 3);
    for tsn in 10..13 {
        ring.lose(tsn, Cause::Timeout, A);
    }
    ring.redirect_lost(A, B);
    assert_eq!((ring.first_lost(A), ring.first_lost(B)), (None, Some(10)));
    ring.pop();
    assert_eq!(ring.first_lost(B), Some(11));
    assert_eq!(ring.lost_chunks(), 2);
}

#[test]
fn what_a_path_carried_stands_with_another_one_when_it_goes() {
    let mut ring = filled(10, 3);
    let tsn = push(&mut ring, B, 1_000_000, false);
    push(&mut ring, B, 1_000_001, false);
    ring.lose(tsn + 1, Cause::Timeout, B);
    ring.gap_ack(tsn);
    ring.remove_path(B, A);
    ring.check_invariants().unwrap();
    assert_eq!((ring.held_on(A), ring.first_lost(A)), (500, Some(tsn + 1)));
    // The peer reneges: the packet number is not one of this path's.
    ring.renege(Instant::ZERO, tsn);
    ring.check_invariants().unwrap();
    assert_eq!((ring.first_lost(A), ring.packets(A)), (Some(tsn), 3));
    ring.retransmitted(Instant::ZERO, tsn, A, 4, true, false);
    ring.gap_ack(tsn);
    ring.renege(Instant::ZERO, tsn);
    assert_eq!(ring.oldest_counted(A), Some(tsn), "this time the path carried it");
    ring.check_invariants().unwrap();
    while ring.pop().is_some() {}
    assert_eq!((ring.held(), ring.held_on(A), ring.lost_chunks()), (0, 0, 0));
}

/// With concurrent multipath transfer each path numbers its own packets.
#[test]
fn what_waited_for_another_path_and_is_taken_back_costs_no_memory() {
    let mut ring = filled(10, 1);
    let tsn = push(&mut ring, B, 1 << 40, false);
    ring.lose(tsn, Cause::Timeout, A);
    ring.gap_ack(tsn);
    ring.renege(Instant::ZERO, tsn);
    assert_eq!((ring.first_lost(A), ring.packets(A)), (Some(tsn), 1));
    ring.check_invariants().unwrap();
}

#[test]
fn what_was_sent_in_order_is_removed_at_once() {
    let mut ring = Outstanding::new(1);
    [A, B].into_iter().for_each(|path| ring.add_path(path));
    // TSNs 1 to 10 on path 0, two in each packet; 11 and 12 on path 1.
    for tsn in 1..=12u64 {
        let fragment = Fragment::whole(ring.next_message(), 10);
        let (path, packet) = if tsn > 10 { (B, 6) } else { (A, tsn.div_ceil(2)) };
        ring.push(Instant::ZERO, fragment, path, packet, tsn == 2);
    }
    // 4 has a history.
    ring.lose(4, Cause::Timeout, A);
    ring.retransmitted(Instant::ZERO, 4, A, 7, true, false);
    let ends = |run: Option<PlainRun>| run.map(|run| (run.first_tsn, run.last_tsn));
    let run = ring.pop_plain(12).unwrap();
    assert_eq!((run.first_tsn, run.last_tsn, run.len()), (1, 3, 3));
    assert_eq!((run.first_packet, run.last_packet.number), (1, 2));
    assert_eq!((run.bytes, run.payload), (3 * 28, 30));
    assert!(run.large && run.earliest);
    assert_eq!(ends(ring.pop_plain(12)), None);
    ring.pop();
    assert_eq!(ends(ring.pop_plain(6)), Some((5, 6)), "not beyond what was acknowledged");
    assert_eq!(ends(ring.pop_plain(12)), Some((7, 10)));
    assert_eq!(ends(ring.pop_plain(12)), Some((11, 12)), "another path");
    assert!(ring.is_empty() && ring.payload_in_flight() == 0 && ring.held() == 0);
    ring.check_invariants().unwrap();
}
