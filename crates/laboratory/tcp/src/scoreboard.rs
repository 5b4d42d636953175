//! The outstanding data and its state (RFC 6675 sections 3 and 4).

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use anabranch_units::Instant;
use bytes::Bytes;

use crate::recovery::rack::Arrived;

/// Data or a FIN to put into a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outgoing {
    pub(crate) position: u64,
    pub(crate) payload: Bytes,
    pub(crate) fin: bool,
}

/// A segment that was sent and not yet acknowledged cumulatively.
#[derive(Clone, Debug)]
struct Sent {
    /// Positions in the stream; a FIN has one after the data.
    range: Range<u64>,
    payload: Bytes,
    fin: bool,
    sent_at: Instant,
    sacked: bool,
    lost: bool,
    /// Retransmitted since it was last marked lost.
    resent: bool,
    /// Ever retransmitted, so it gives no RTT sample (Karn).
    ambiguous: bool,
    /// Number of its last transmission, in sending order.
    number: u64,
}

impl Sent {
    fn len(&self) -> u64 {
        self.range.end - self.range.start
    }
}

/// The result of an acknowledgement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Acked {
    /// Bytes newly acknowledged by the cumulative acknowledgement, whether or not blocks had acknowledged them.
    pub(crate) cumulative: u64,
    /// Bytes that blocks acknowledged for the first time.
    pub(crate) selective: u64,
    /// Bytes acknowledged for the first time, by either.
    pub(crate) delivered: u64,
    /// Latest send time of the newly acknowledged segments that were sent only once.
    pub(crate) sampled: Option<Instant>,
    /// The last transmission of segments that were sent once, and of those that were retransmitted.
    pub(crate) first_time: Option<Arrived>,
    pub(crate) again: Option<Arrived>,
    /// The earliest transmission of segments that were sent once.
    pub(crate) earliest: Option<u64>,
    /// Positions of segments that were retransmitted.
    pub(crate) repeated: Vec<u64>,
    /// A segment considered lost arrived before it was retransmitted.
    pub(crate) late: bool,
}

impl Acked {
    /// The number of the latest transmission that is known to have arrived for the first time.
    pub(crate) fn latest(&self) -> Option<u64> {
        let number = |arrived: Option<Arrived>| arrived.map(|arrived| arrived.number);
        number(self.first_time).max(number(self.again))
    }

    /// Records that a segment is known to have arrived for the first time.
    fn arrived(&mut self, sent: &Sent) {
        let arrived = Arrived { number: sent.number, at: sent.sent_at };
        let later = |known: Option<Arrived>| match known {
            Some(known) if known.number > arrived.number => Some(known),
            _ => Some(arrived),
        };
        self.late |= sent.lost && !sent.resent;
        if sent.ambiguous {
            self.again = later(self.again);
            self.repeated.push(sent.range.start);
            return;
        }
        self.sampled = self.sampled.max(Some(sent.sent_at));
        self.first_time = later(self.first_time);
        let earliest = self.earliest.unwrap_or(sent.number);
        self.earliest = Some(earliest.min(sent.number));
    }
}

/// Losses found by time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Late {
    /// A segment was newly marked lost.
    pub(crate) any: bool,
    /// The last of the retransmissions that were marked lost.
    pub(crate) lost_again: Option<u64>,
    /// When to check again, because a segment may only be late.
    pub(crate) look_again: Option<Instant>,
}

/// The outstanding segments, in order. Finding losses iterates over all of them, so it is only done for
/// acknowledgements with blocks and for timeouts.
#[derive(Debug, Default)]
pub(crate) struct Scoreboard {
    sent: VecDeque<Sent>,
    /// Bytes believed to be in the network (RFC 6675 "pipe").
    pipe: u64,
    outstanding: u64,
    /// Number of segments acknowledged by blocks.
    sacked: usize,
    /// Number of the next transmission.
    next_number: u64,
    /// The latest transmission that was marked lost and not reported yet.
    latest_lost: Option<u64>,
}

impl Scoreboard {
    /// Bytes believed to be in the network.
    pub(crate) fn pipe(&self) -> u64 {
        self.pipe
    }

    /// Bytes sent and not yet acknowledged cumulatively (RFC 5681 "FlightSize").
    pub(crate) fn outstanding(&self) -> u64 {
        self.outstanding
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// Segments sent and not yet acknowledged cumulatively.
    pub(crate) fn len(&self) -> usize {
        self.sent.len()
    }

    /// Number of these acknowledged by blocks.
    pub(crate) fn sacked(&self) -> usize {
        self.sacked
    }

    /// Number of the next transmission.
    pub(crate) fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Number of the oldest transmission that is not known to have arrived.
    pub(crate) fn oldest_number(&self) -> Option<u64> {
        let mut oldest = None;
        for sent in self.sent.iter().filter(|sent| !sent.sacked) {
            oldest = oldest.into_iter().chain([sent.number]).min();
            // All that follows was sent later, for the first time and again.
            if !sent.ambiguous {
                break;
            }
        }
        oldest
    }

    /// Number of the latest transmission that was marked lost since the last call.
    pub(crate) fn take_latest_lost(&mut self) -> Option<u64> {
        self.latest_lost.take()
    }

    /// Send time of the earliest segment that is not known to have arrived.
    pub(crate) fn earliest_sent(&self) -> Option<Instant> {
        self.sent.iter().find(|sent| !sent.sacked).map(|sent| sent.sent_at)
    }

    /// Whether a lost segment is waiting to be retransmitted.
    pub(crate) fn has_waiting(&self) -> bool {
        self.sent.iter().any(waits)
    }

    /// Whether a segment that was considered lost has not arrived, whether or not it was retransmitted.
    pub(crate) fn has_lost(&self) -> bool {
        self.sent.iter().any(|sent| sent.lost && !sent.sacked)
    }

    /// Adds a new segment that is sent now.
    pub(crate) fn push(&mut self, range: Range<u64>, payload: Bytes, fin: bool, now: Instant) {
        let sent = Sent {
            range,
            payload,
            fin,
            sent_at: now,
            sacked: false,
            lost: false,
            resent: false,
            ambiguous: false,
            number: self.next_number,
        };
        self.next_number += 1;
        self.pipe += sent.len();
        self.outstanding += sent.len();
        self.sent.push_back(sent);
    }

    /// Processes a cumulative acknowledgement of everything before `position`.
    pub(crate) fn acknowledge(&mut self, position: u64) -> Acked {
        let mut acked = Acked::default();
        while let Some(first) = self.sent.front_mut() {
            if first.range.start >= position {
                break;
            }
            if first.range.end > position {
                // Part of a segment is acknowledged; the rest keeps its state.
                let part = position - first.range.start;
                if in_network(first) {
                    self.pipe -= part;
                }
                first.payload = first.payload.slice((part as usize).min(first.payload.len())..);
                first.range.start = position;
                acked.cumulative += part;
                acked.delivered += if first.sacked { 0 } else { part };
                break;
            }
            acked.cumulative += first.len();
            if in_network(first) {
                self.pipe -= first.len();
            }
            if !first.sacked {
                acked.delivered += first.len();
                acked.arrived(first);
            }
            self.sacked -= usize::from(first.sacked);
            self.sent.pop_front();
        }
        self.outstanding -= acked.cumulative;
        acked
    }

    /// Processes a block: the receiver has these positions.
    pub(crate) fn select(&mut self, block: Range<u64>, acked: &mut Acked) {
        let first = self.sent.partition_point(|sent| sent.range.start < block.start);
        for sent in self.sent.range_mut(first..) {
            if sent.range.end > block.end {
                break;
            }
            if sent.sacked {
                continue;
            }
            if in_network(sent) {
                self.pipe -= sent.len();
            }
            sent.sacked = true;
            self.sacked += 1;
            acked.selective += sent.len();
            acked.delivered += sent.len();
            acked.arrived(sent);
        }
    }

    /// Marks losses by the rule `IsLost` of RFC 6675 section 4, with `threshold` segments above them. Returns whether
    /// any segment was marked.
    pub(crate) fn find_losses(&mut self, mss: u64, threshold: u32) -> bool {
        let threshold = u64::from(threshold);
        let (mut bytes, mut runs, mut in_run, mut any) = (0, 0, false, false);
        for sent in self.sent.iter_mut().rev() {
            if sent.sacked {
                // The end of the stream has a position but is not a byte: after two segments it must not count as a
                // third.
                bytes += sent.payload.len() as u64;
                runs += u64::from(!in_run);
                in_run = true;
                continue;
            }
            in_run = false;
            if runs >= threshold || bytes > (threshold - 1) * mss {
                any = true;
                lose(sent, &mut self.pipe, &mut self.latest_lost);
            }
        }
        any
    }

    /// Marks the first segment lost, because of duplicate acknowledgements or a partial one.
    pub(crate) fn lose_first(&mut self) {
        if let Some(first) = self.sent.iter_mut().find(|sent| !sent.sacked) {
            lose(first, &mut self.pipe, &mut self.latest_lost);
        }
    }

    /// Marks losses by time (RFC 8985 section 6.2, step 5): transmissions before `number` that were sent longer ago
    /// than `patience`.
    pub(crate) fn find_late(&mut self, now: Instant, (number, patience): (u64, Duration)) -> Late {
        let mut late = Late::default();
        for sent in &mut self.sent {
            if sent.number >= number || !in_network(sent) {
                continue;
            }
            let deadline = sent.sent_at + patience;
            if deadline <= now {
                late.any = true;
                late.lost_again = late.lost_again.max(sent.resent.then_some(sent.number));
                self.pipe -= sent.len();
                self.latest_lost = self.latest_lost.max(Some(sent.number));
                (sent.lost, sent.resent) = (true, false);
            } else {
                late.look_again = late.look_again.max(Some(deadline));
            }
        }
        late
    }

    /// Marks everything before `position` lost that is not known to have arrived and was not retransmitted.
    pub(crate) fn lose_before(&mut self, position: u64) {
        for sent in &mut self.sent {
            if sent.range.end <= position && !sent.sacked && !sent.resent {
                lose(sent, &mut self.pipe, &mut self.latest_lost);
            }
        }
    }

    /// Cancels waiting retransmissions: the segments are only late.
    pub(crate) fn take_back(&mut self) {
        for sent in self.sent.iter_mut().filter(|sent| waits(sent)) {
            sent.lost = false;
            self.pipe += sent.len();
        }
    }

    /// Retransmits the last segment, although it is not known to be lost.
    pub(crate) fn resend_last(&mut self, now: Instant) -> Option<Again> {
        let sent = self.sent.back_mut().filter(|sent| !sent.sacked)?;
        lose(sent, &mut self.pipe, &mut None);
        if sent.resent {
            // An earlier copy no longer counts.
            self.pipe -= sent.len();
        }
        Some(again(sent, &mut self.pipe, &mut self.next_number, now))
    }

    /// The timer has expired: marks the first segment, or its copy, lost.
    pub(crate) fn lose_first_again(&mut self) {
        if let Some(first) = self.sent.iter_mut().find(|sent| !sent.sacked) {
            if in_network(first) {
                self.pipe -= first.len();
                self.latest_lost = self.latest_lost.max(Some(first.number));
            }
            (first.lost, first.resent) = (true, false);
        }
    }

    /// The timer has expired: marks everything lost that is not known to have arrived (RFC 6675 section 5.1 keeps the
    /// blocks).
    pub(crate) fn lose_all(&mut self) {
        for sent in self.sent.iter_mut().filter(|sent| !sent.sacked) {
            if in_network(sent) {
                self.latest_lost = self.latest_lost.max(Some(sent.number));
            }
            (sent.lost, sent.resent) = (true, false);
        }
        self.pipe = 0;
    }

    /// Returns the first lost segment that was not retransmitted, and marks it as sent now (rule 1 of `NextSeg`).
    pub(crate) fn resend(&mut self, now: Instant) -> Option<Again> {
        let sent = self.sent.iter_mut().find(|sent| waits(sent))?;
        Some(again(sent, &mut self.pipe, &mut self.next_number, now))
    }

    /// Returns the first segment below selectively acknowledged ones that was not retransmitted, although it is not
    /// known to be lost (rule 3 of `NextSeg`).
    pub(crate) fn resend_hole(&mut self, now: Instant) -> Option<Again> {
        let last = self.sent.iter().rposition(|sent| sent.sacked)?;
        let sent = self.sent.range_mut(..last).find(|sent| !sent.sacked && !sent.resent)?;
        // The first copy may still be in the network too, but only the retransmission is counted. Counting both could
        // make the count go below zero.
        lose(sent, &mut self.pipe, &mut None);
        Some(again(sent, &mut self.pipe, &mut self.next_number, now))
    }
}

fn in_network(sent: &Sent) -> bool {
    !sent.sacked && (!sent.lost || sent.resent)
}

fn lose(sent: &mut Sent, pipe: &mut u64, latest_lost: &mut Option<u64>) {
    if !sent.lost {
        *pipe -= sent.len();
        *latest_lost = (*latest_lost).max(Some(sent.number));
        sent.lost = true;
    }
}

/// Whether it is lost and has not been retransmitted since.
fn waits(sent: &Sent) -> bool {
    sent.lost && !sent.resent && !sent.sacked
}

fn again(sent: &mut Sent, pipe: &mut u64, next_number: &mut u64, now: Instant) -> Again {
    *pipe += sent.len();
    (sent.resent, sent.ambiguous, sent.sent_at) = (true, true, now);
    let before = std::mem::replace(&mut sent.number, *next_number);
    *next_number += 1;
    let (position, payload) = (sent.range.start, sent.payload.clone());
    Again { outgoing: Outgoing { position, payload, fin: sent.fin }, before, end: sent.range.end }
}

/// A segment to retransmit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Again {
    pub(crate) outgoing: Outgoing,
    /// Number of its previous transmission.
    pub(crate) before: u64,
    /// The position where it ends.
    pub(crate) end: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 100;

    fn board(segments: u64) -> Scoreboard {
        let mut board = Scoreboard::default();
        for n in 0..segments {
            let payload = Bytes::from(vec![n as u8; MSS as usize]);
            board.push(n * MSS..(n + 1) * MSS, payload, false, Instant::from_secs(n));
        }
        board
    }

    fn select(board: &mut Scoreboard, segments: Range<u64>) -> Acked {
        let mut acked = Acked::default();
        board.select(segments.start * MSS..segments.end * MSS, &mut acked);
        acked
    }

    #[test]
    fn three_segments_above_make_one_lost() {
        let mut board = board(8);
        assert_eq!(select(&mut board, 1..3).selective, 200);
        assert!(!board.find_losses(MSS, 3));
        assert_eq!(select(&mut board, 1..4).selective, 100);
        assert!(board.find_losses(MSS, 3));
        assert_eq!((board.pipe(), board.outstanding()), (400, 800));
        let resent = board.resend(Instant::from_secs(9)).map(|sent| sent.outgoing.position);
        assert_eq!(resent, Some(0));
        assert!(board.resend(Instant::from_secs(9)).is_none());
        assert_eq!(board.pipe(), 500);
        // The same evidence does not mark it lost again.
        board.find_losses(MSS, 3);
        assert!(board.resend(Instant::ZERO).is_none());
        let acked = board.acknowledge(400);
        // The first segment was sent twice, and the others were sampled when the blocks came, so there is no sample
        // now.
        assert_eq!((acked.cumulative, acked.selective, acked.sampled), (400, 0, None));
        assert_eq!((board.pipe(), board.outstanding()), (400, 400));
    }

    #[test]
    fn the_end_of_the_stream_is_no_byte_of_data() {
        let mut board = board(2);
        let payload = Bytes::from(vec![2; MSS as usize]);
        board.push(2 * MSS..3 * MSS + 1, payload, true, Instant::from_secs(2));
        let mut acked = Acked::default();
        board.select(MSS..3 * MSS + 1, &mut acked);
        assert_eq!(acked.selective, 2 * MSS + 1);
        assert!(!board.find_losses(MSS, 3), "two segments after it prove no loss");
    }

    #[test]
    fn three_separate_blocks_make_one_lost_however_small() {
        let mut board = board(8);
        for n in [1, 3, 5] {
            let mut acked = Acked::default();
            board.select(n * MSS..(n + 1) * MSS, &mut acked);
            assert_eq!(board.find_losses(1000, 3), n == 5);
        }
        assert_eq!(board.resend(Instant::ZERO).map(|sent| sent.outgoing.position), Some(0));
        // Two blocks lie above the third segment.
        assert!(board.resend(Instant::ZERO).is_none());
        assert_eq!(board.resend_hole(Instant::ZERO).map(|sent| sent.outgoing.position), Some(200));
        assert_eq!(board.resend_hole(Instant::ZERO).map(|sent| sent.outgoing.position), Some(400));
        assert!(board.resend_hole(Instant::ZERO).is_none(), "nothing beyond the last block");
        assert_eq!(board.pipe(), 500);
    }

    #[test]
    fn a_timeout_keeps_what_blocks_said() {
        let mut board = board(4);
        select(&mut board, 2..3);
        board.lose_all();
        assert_eq!(board.pipe(), 0);
        let mut resent = Vec::new();
        while let Some(sent) = board.resend(Instant::ZERO) {
            resent.push(sent.outgoing.position);
        }
        assert_eq!((resent, board.pipe()), (vec![0, 100, 300], 300));
        // A second timeout loses the copies too.
        board.lose_all();
        assert!(board.resend(Instant::ZERO).is_some());
        assert_eq!(board.acknowledge(400).cumulative, 400);
        assert_eq!((board.pipe(), board.outstanding(), board.is_empty()), (0, 0, true));
    }

    #[test]
    fn transmissions_are_known_by_their_numbers() {
        let mut board = board(5);
        assert_eq!(select(&mut board, 1..4).latest(), Some(3));
        assert_eq!((board.oldest_number(), board.take_latest_lost()), (Some(0), None));
        board.find_losses(MSS, 3);
        assert_eq!((board.take_latest_lost(), board.take_latest_lost()), (Some(0), None));
        // Sent again it is number 5, and what follows it is older.
        board.resend(Instant::from_secs(9)).unwrap();
        assert_eq!(board.oldest_number(), Some(4));
        board.lose_all();
        assert_eq!(board.take_latest_lost(), Some(5));
        board.lose_all();
        assert_eq!(board.take_latest_lost(), None, "nothing was in the network");
        assert_eq!(board.acknowledge(100).latest(), Some(5));
        // A probe does not say that what it repeats is lost.
        board.resend_last(Instant::from_secs(9)).unwrap();
        assert_eq!((board.oldest_number(), board.take_latest_lost()), (Some(6), None));
        board.acknowledge(500);
        assert_eq!(board.oldest_number(), None);
    }

    #[test]
    fn a_part_of_a_segment_is_acknowledged() {
        let mut board = board(2);
        assert_eq!(board.acknowledge(30).cumulative, 30);
        assert_eq!((board.pipe(), board.outstanding()), (170, 170));
        board.lose_all();
        let sent = board.resend(Instant::ZERO).unwrap();
        assert_eq!((sent.outgoing.position, sent.outgoing.payload.len()), (30, 70));
    }
}
