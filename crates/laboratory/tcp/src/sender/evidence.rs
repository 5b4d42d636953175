//! Evidence from acknowledgements beyond duplicates: order and times of arrival, and needless retransmissions. It is
//! only gathered if an option needs it.

use std::ops::Range;
use std::time::Duration;

use anabranch_units::Instant;

use super::acknowledge::Read;
use super::{Acknowledgement, DUPLICATES, Sender};
use crate::congestion::{Cause, initial_segments};
use crate::recovery::forward_rto::{News, Step, Verdict};
use crate::recovery::rack::{Rack, Surroundings};
use crate::recovery::reordering::Order;
use crate::recovery::tail_probe::TailProbe;
use crate::recovery::undo::Episode;

/// A sender's state beyond duplicates.
#[derive(Debug)]
pub(super) struct Evidence {
    pub(super) rack: Rack,
    pub(super) order: Order,
    pub(super) probe: TailProbe,
    pub(super) episode: Option<Episode>,
    /// When to check a segment again that may only be late.
    pub(super) look_again: Option<Instant>,
    /// The loss of a retransmission with this number or a later one is another congestion event.
    pub(super) answered: u64,
    /// Early retransmit has caused a needless retransmission and is off.
    pub(super) early_off: bool,
    /// The threshold of TCP-NCR during a recovery (RFC 4653 section 3.4).
    pub(super) ncr_threshold: u32,
}

impl Default for Evidence {
    fn default() -> Self {
        Self {
            rack: Rack::default(),
            order: Order::default(),
            probe: TailProbe::default(),
            episode: None,
            look_again: None,
            answered: 0,
            early_off: false,
            ncr_threshold: DUPLICATES,
        }
    }
}

impl Evidence {
    /// Starts an episode of retransmissions: the window, which had this size, was reduced.
    pub(super) fn begin(&mut self, windows: (u64, u64), timeout: bool, early: bool) {
        let mut episode = Episode::begin(windows, timeout);
        episode.early = early;
        self.episode = Some(episode);
    }

    /// Records a retransmission.
    pub(super) fn on_sent_again(&mut self, position: u64, number: u64, timestamp: u32) {
        if let Some(episode) = &mut self.episode {
            episode.on_sent_again(position, number, timestamp);
        }
    }
}

/// The duplicate that the first block reports, if any (RFC 2883 section 4): the block is below the cumulative
/// acknowledgement, or within the second block.
pub(super) fn duplicate(ack: &Acknowledgement) -> Option<Range<u64>> {
    let first = ack.blocks.first()?;
    let inside = |outer: &Range<u64>| first.start >= outer.start && first.end <= outer.end;
    let told = first.start < ack.position || ack.blocks.get(1).is_some_and(inside);
    (told && first.start < first.end).then(|| first.clone())
}

impl Sender {
    /// Gathers the evidence of an acknowledgement.
    pub(super) fn gather(&mut self, now: Instant, ack: &Acknowledgement, read: &Read) {
        if !self.config.gathers() {
            return;
        }
        let (acked, evidence) = (&read.acked, &mut self.evidence);
        for (arrived, again) in [(acked.first_time, false), (acked.again, true)] {
            if let Some(arrived) = arrived {
                evidence.rack.on_arrived(now, arrived, again);
            }
        }
        evidence.order.on_arrived(acked.earliest, acked.latest());
        if let Some(episode) = &mut evidence.episode {
            if acked.late {
                episode.on_late();
            }
            for position in &acked.repeated {
                episode.on_acked(*position, evidence.order.latest());
            }
        }
        let duplicate = if self.sack { duplicate(ack) } else { None };
        self.answer_probe(now, ack, read, duplicate.as_ref());
        if let Some(range) = duplicate {
            self.read_duplicate(range);
        }
        self.take_back(now, ack, read);
    }

    /// Processes the report that the receiver got a range twice.
    fn read_duplicate(&mut self, range: Range<u64>) {
        let next = self.board.next_number();
        let evidence = &mut self.evidence;
        let Some(episode) = &mut evidence.episode else { return };
        while let Some(late) = episode.on_duplicate(range.start, range.end) {
            evidence.early_off |= episode.early;
            evidence.order.on_needless(late);
            evidence.rack.on_needless(next);
            self.counters.needless += 1;
        }
    }

    /// Undoes a recovery if all its retransmissions were needless.
    fn take_back(&mut self, now: Instant, ack: &Acknowledgement, read: &Read) {
        let Some(episode) = &mut self.evidence.episode else { return };
        let echoed = self.config.undo.by_timestamps()
            && ack.echo.is_some_and(|echo| episode.echo_tells(ack.position, echo));
        if echoed {
            self.evidence.early_off |= episode.early;
            self.counters.needless += 1;
        }
        // req: rfc3708 3 "processing of this DSACK MUST be terminated and the"
        let reported =
            self.config.undo.by_duplicates() && episode.was_needless() && !self.board.has_waiting();
        if echoed || reported {
            self.undo(now, read.acked.cumulative);
        }
    }

    /// Undoes the last loss, which was spurious: restores the windows from before it, recomputes the timer from the
    /// measurements, and cancels waiting retransmissions.
    fn undo(&mut self, now: Instant, acknowledged: u64) {
        let Some(episode) = self.evidence.episode.take() else { return };
        self.counters.undone += 1;
        self.board.take_back();
        let most =
            acknowledged.min(initial_segments(self.config.initial_window, self.mss) * self.mss);
        let in_network = episode.timeout.then(|| self.board.pipe() + most);
        self.control.undo(now, in_network, episode.windows);
        self.rto.acknowledged();
        self.loss.recovery = None;
        self.loss.recover = self.unacknowledged;
        self.loss.forward = Step::Idle;
        (self.loss.duplicates, self.loss.left, self.loss.at_once) = (0, 0, false);
    }

    /// Evaluates an acknowledgement for a timeout (F-RTO).
    pub(super) fn read_forward(&mut self, now: Instant, ack: &Acknowledgement, read: &Read) {
        let news = News {
            position: ack.position,
            advanced: read.advanced,
            duplicate: read.duplicate || (ack.bare && !read.advanced),
            selected: read.acked.selective,
            highest: ack.blocks.iter().map(|block| block.end).max().unwrap_or(0),
            next: self.next,
            new_data: self.queue.len() > 0 && self.usable() >= self.mss.min(self.queue.len()),
        };
        match self.loss.forward.read(self.config.f_rto, &news) {
            Verdict::Wait => {}
            Verdict::SendNew => self.loss.beyond = 2,
            Verdict::Lost(window) => {
                self.loss.beyond = 0;
                self.board.lose_before(self.loss.recover);
                if let Some(segments) = window {
                    self.control.limit(now, segments, self.mss);
                }
            }
            Verdict::Spurious => {
                self.loss.beyond = 0;
                self.counters.needless += 1;
                self.undo(now, read.acked.cumulative);
            }
        }
    }

    /// Marks losses by time. Returns whether there are any.
    pub(super) fn detect_by_time(&mut self, now: Instant) -> bool {
        self.evidence.look_again = None;
        if self.evidence.rack.is_new() {
            return false;
        }
        let patience = self.patience();
        let late = self.board.find_late(now, patience);
        self.evidence.look_again = late.look_again;
        // req: rfc8985 9.3 "the congestion control MUST trigger an additional"
        let again = late.lost_again >= Some(self.evidence.answered) && !self.reduces_once();
        if again && self.loss.recovery.is_some() {
            self.evidence.answered = self.board.next_number();
            self.control.on_congestion(now, Cause::Loss, self.flight(), self.loss.before);
        }
        late.any
    }

    /// Which transmissions may be lost by time, and how long after they were sent.
    pub(super) fn patience(&self) -> (u64, Duration) {
        let around = Surroundings {
            reordered: self.evidence.order.is_reordered(),
            in_recovery: self.loss.recovery.is_some(),
            sacked: self.board.sacked() as u64,
            srtt: self.rto.srtt(),
        };
        self.evidence.rack.patience(&around).unwrap_or((0, Duration::ZERO))
    }
}
