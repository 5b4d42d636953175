//! What is outstanding, and what is known of it (RFC 6675 sections 3 and 4).

use std::collections::VecDeque;
use std::ops::Range;

use anabranch_units::Instant;
use bytes::Bytes;

/// Segments acknowledged out of order above one that make it lost (RFC 6675 section 2).
const DUP_THRESH: u64 = 3;

/// Data or a FIN to put into a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outgoing {
    pub(crate) position: u64,
    pub(crate) payload: Bytes,
    pub(crate) fin: bool,
}

/// A segment that was sent and is not acknowledged cumulatively.
#[derive(Clone, Debug)]
struct Sent {
    /// Positions in the stream; a FIN has one after the data.
    range: Range<u64>,
    payload: Bytes,
    fin: bool,
    sent_at: Instant,
    sacked: bool,
    lost: bool,
    /// Sent again since it was last found lost.
    resent: bool,
    /// Ever sent again: it gives no RTT sample (Karn).
    ambiguous: bool,
}

impl Sent {
    fn len(&self) -> u64 {
        self.range.end - self.range.start
    }
}

/// What an acknowledgement brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Acked {
    /// Bytes acknowledged cumulatively that were not before, by any block or not.
    pub(crate) cumulative: u64,
    /// Bytes that blocks acknowledged for the first time.
    pub(crate) selective: u64,
    /// When the latest segment left that was sent once and is now acknowledged.
    pub(crate) sampled: Option<Instant>,
}

/// The outstanding segments, in order. Finding losses walks over them all: it is done for
/// acknowledgements with blocks and for timeouts only.
#[derive(Debug, Default)]
pub(crate) struct Scoreboard {
    sent: VecDeque<Sent>,
    /// Bytes believed to be in the network (RFC 6675 "pipe").
    pipe: u64,
    outstanding: u64,
}

impl Scoreboard {
    /// Bytes believed to be in the network.
    pub(crate) fn pipe(&self) -> u64 {
        self.pipe
    }

    /// Bytes sent and not acknowledged cumulatively (RFC 5681 "FlightSize").
    pub(crate) fn outstanding(&self) -> u64 {
        self.outstanding
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// A new segment leaves.
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
        };
        self.pipe += sent.len();
        self.outstanding += sent.len();
        self.sent.push_back(sent);
    }

    /// All before `position` has arrived.
    pub(crate) fn acknowledge(&mut self, position: u64) -> Acked {
        let mut acked = Acked::default();
        while let Some(first) = self.sent.front_mut() {
            if first.range.start >= position {
                break;
            }
            if first.range.end > position {
                // A part of a segment: the rest stays as it is.
                let part = position - first.range.start;
                if in_network(first) {
                    self.pipe -= part;
                }
                first.payload = first.payload.slice((part as usize).min(first.payload.len())..);
                first.range.start = position;
                acked.cumulative += part;
                break;
            }
            acked.cumulative += first.len();
            if in_network(first) {
                self.pipe -= first.len();
            }
            if !first.ambiguous && !first.sacked {
                acked.sampled = acked.sampled.max(Some(first.sent_at));
            }
            self.sent.pop_front();
        }
        self.outstanding -= acked.cumulative;
        acked
    }

    /// The receiver has these positions.
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
            acked.selective += sent.len();
            if !sent.ambiguous {
                acked.sampled = acked.sampled.max(Some(sent.sent_at));
            }
        }
    }

    /// Marks what is lost by the rule `IsLost` of RFC 6675 section 4; true if anything is.
    pub(crate) fn find_losses(&mut self, mss: u64) -> bool {
        let (mut bytes, mut runs, mut in_run, mut any) = (0, 0, false, false);
        for sent in self.sent.iter_mut().rev() {
            if sent.sacked {
                // The end of the stream has a place, but is no byte: two segments are no third one with it.
                bytes += sent.payload.len() as u64;
                runs += u64::from(!in_run);
                in_run = true;
                continue;
            }
            in_run = false;
            if runs >= DUP_THRESH || bytes > (DUP_THRESH - 1) * mss {
                any = true;
                lose(sent, &mut self.pipe);
            }
        }
        any
    }

    /// The first segment is lost: duplicate acknowledgements, or a partial one, say so.
    pub(crate) fn lose_first(&mut self) {
        if let Some(first) = self.sent.iter_mut().find(|sent| !sent.sacked) {
            lose(first, &mut self.pipe);
        }
    }

    /// The timer expired: all that is not known to have arrived is lost (RFC 6675 section 5.1
    /// keeps what blocks said).
    pub(crate) fn lose_all(&mut self) {
        for sent in self.sent.iter_mut().filter(|sent| !sent.sacked) {
            (sent.lost, sent.resent) = (true, false);
        }
        self.pipe = 0;
    }

    /// The first lost segment that was not sent again, marked as sent now (rule 1 of `NextSeg`).
    pub(crate) fn resend(&mut self, now: Instant) -> Option<Outgoing> {
        let sent = self.sent.iter_mut().find(|sent| sent.lost && !sent.resent && !sent.sacked)?;
        Some(again(sent, &mut self.pipe, now))
    }

    /// The first segment below selectively acknowledged ones that was not sent again, although it
    /// is not known to be lost (rule 3 of `NextSeg`).
    pub(crate) fn resend_hole(&mut self, now: Instant) -> Option<Outgoing> {
        let last = self.sent.iter().rposition(|sent| sent.sacked)?;
        let sent = self.sent.range_mut(..last).find(|sent| !sent.sacked && !sent.resent)?;
        // It now counts twice, as the two copies in the network do, until it is acknowledged; the
        // first is given up for the count here, so that it never goes below zero.
        lose(sent, &mut self.pipe);
        Some(again(sent, &mut self.pipe, now))
    }
}

fn in_network(sent: &Sent) -> bool {
    !sent.sacked && (!sent.lost || sent.resent)
}

fn lose(sent: &mut Sent, pipe: &mut u64) {
    if !sent.lost {
        *pipe -= sent.len();
        sent.lost = true;
    }
}

fn again(sent: &mut Sent, pipe: &mut u64, now: Instant) -> Outgoing {
    *pipe += sent.len();
    (sent.resent, sent.ambiguous, sent.sent_at) = (true, true, now);
    Outgoing { position: sent.range.start, payload: sent.payload.clone(), fin: sent.fin }
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
        assert!(!board.find_losses(MSS));
        assert_eq!(select(&mut board, 1..4).selective, 100);
        assert!(board.find_losses(MSS));
        assert_eq!((board.pipe(), board.outstanding()), (400, 800));
        let resent = board.resend(Instant::from_secs(9)).map(|sent| sent.position);
        assert_eq!(resent, Some(0));
        assert!(board.resend(Instant::from_secs(9)).is_none());
        assert_eq!(board.pipe(), 500);
        // It is not lost again by the same evidence.
        board.find_losses(MSS);
        assert!(board.resend(Instant::ZERO).is_none());
        let acked = board.acknowledge(400);
        // The first was sent twice and the others were sampled when blocks came: no sample now.
        assert_eq!(acked, Acked { cumulative: 400, selective: 0, sampled: None });
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
        assert!(!board.find_losses(MSS), "two segments behind it tell of no loss");
    }

    #[test]
    fn three_separate_blocks_make_one_lost_however_small() {
        let mut board = board(8);
        for n in [1, 3, 5] {
            let mut acked = Acked::default();
            board.select(n * MSS..(n + 1) * MSS, &mut acked);
            assert_eq!(board.find_losses(1000), n == 5);
        }
        assert_eq!(board.resend(Instant::ZERO).map(|sent| sent.position), Some(0));
        // Two blocks lie above the third segment.
        assert!(board.resend(Instant::ZERO).is_none());
        assert_eq!(board.resend_hole(Instant::ZERO).map(|sent| sent.position), Some(200));
        assert_eq!(board.resend_hole(Instant::ZERO).map(|sent| sent.position), Some(400));
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
            resent.push(sent.position);
        }
        assert_eq!((resent, board.pipe()), (vec![0, 100, 300], 300));
        // A second timeout loses the copies too.
        board.lose_all();
        assert!(board.resend(Instant::ZERO).is_some());
        assert_eq!(board.acknowledge(400).cumulative, 400);
        assert_eq!((board.pipe(), board.outstanding(), board.is_empty()), (0, 0, true));
    }

    #[test]
    fn a_part_of_a_segment_is_acknowledged() {
        let mut board = board(2);
        assert_eq!(board.acknowledge(30).cumulative, 30);
        assert_eq!((board.pipe(), board.outstanding()), (170, 170));
        board.lose_all();
        let sent = board.resend(Instant::ZERO).unwrap();
        assert_eq!((sent.position, sent.payload.len()), (30, 70));
    }
}
