//! Processes an acknowledgement and its consequences.

use std::time::Duration;

use anabranch_units::Instant;

use super::{Acknowledgement, DUPLICATES, Sender};
use crate::congestion::{Arrival, Cause, Growth};
use crate::options::Reordering;
use crate::recovery::forward_rto::Step;
use crate::recovery::ncr::Ncr;
use crate::recovery::{early_retransmit, rto_restart};
use crate::scoreboard::Acked;
use crate::timestamps;

/// The results of reading an acknowledgement.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) acked: Acked,
    /// It advanced the cumulative acknowledgement.
    pub(super) advanced: bool,
    /// It is a duplicate acknowledgement.
    pub(super) duplicate: bool,
    /// The round-trip time of the latest newly acknowledged segment that was sent once.
    rtt: Option<Duration>,
}

impl Sender {
    /// Processes an acknowledgement. Returns whether the report of a mark is to be answered, because the window was
    /// lowered.
    pub(crate) fn acknowledge(&mut self, now: Instant, ack: &Acknowledgement) -> bool {
        if ack.position > self.next || ack.position < self.unacknowledged {
            return false;
        }
        self.unanswered = 0;
        self.loss.before = self.board.pipe();
        let read = self.read(now, ack);
        self.tell_arrived(now, &read);
        let in_network = self.board.pipe();
        self.gather(now, ack, &read);
        if self.loss.forward != Step::Idle {
            self.read_forward(now, ack, &read);
        }
        match self.loss.recovery {
            Some(point) if self.unacknowledged >= point => {
                self.loss.recovery = None;
                (self.loss.duplicates, self.loss.left) = (0, 0);
                self.evidence.rack.on_recovered();
                if self.reduces_once() {
                    self.leave_as_linux(now, ack, &read);
                }
            }
            Some(_) => self.recover_on(now, &read),
            None => self.watch_for_loss(now, ack, &read),
        }
        self.tell_lost(now, Cause::Loss, in_network);
        self.arm_probe(now);
        ack.reports_mark && self.lower_for_mark(now)
    }

    /// Tells the congestion control what arrived.
    fn tell_arrived(&mut self, now: Instant, read: &Read) {
        self.control.on_arrived(&Arrival {
            now,
            bytes: read.acked.delivered,
            before: self.loss.before,
            after: self.board.pipe(),
            all: self.board.is_empty(),
            advanced: read.advanced,
            in_recovery: self.loss.recovery.is_some_and(|point| self.unacknowledged < point),
            rtt: read.rtt,
            smoothed: self.rto.srtt(),
            latest: read.acked.latest(),
            oldest: if self.control.samples_rate() { self.board.oldest_number() } else { None },
        });
    }

    /// Lowers the window for a mark, once for all data that was outstanding (RFC 3168 section 6.1.2).
    fn lower_for_mark(&mut self, now: Instant) -> bool {
        if self.unacknowledged < self.loss.marked {
            return false;
        }
        self.loss.marked = self.next;
        // A loss has lowered it already.
        if self.loss.recovery.is_none() {
            self.counters.marks += 1;
            self.since_loss = 0;
            self.control.on_congestion(now, Cause::Mark, self.flight(), self.loss.before);
        }
        true
    }

    /// Applies its contents.
    fn read(&mut self, now: Instant, ack: &Acknowledgement) -> Read {
        let advanced = ack.position > self.unacknowledged;
        let mut acked = self.board.acknowledge(ack.position);
        self.unacknowledged = ack.position;
        if self.sack {
            let known = self.unacknowledged..self.next;
            for block in &ack.blocks {
                // Other blocks report duplicates (RFC 2883) or are invalid.
                if block.start >= known.start && block.end <= known.end {
                    self.board.select(block.clone(), &mut acked);
                }
            }
        }
        let update = std::mem::replace(&mut self.window, ack.window) != ack.window;
        let rtt = acked.sampled.map(|sent_at| now.saturating_since(sent_at));
        match (rtt, ack.echo) {
            (Some(rtt), _) => self.sample(rtt),
            // The send time of a retransmission is ambiguous, except with an echo (RFC 7323 section 4.1).
            (None, Some(echo)) if advanced => {
                self.sample(Duration::from_millis(timestamps::age(now, echo).into()));
            }
            (None, _) => {}
        }
        self.since_loss += acked.cumulative;
        if advanced {
            self.rto.acknowledged();
            self.timer = (!self.board.is_empty()).then(|| now + self.timeout_interval(now));
        }
        let duplicate = if self.sack {
            acked.selective > 0
        } else {
            ack.bare && !advanced && !update && !self.board.is_empty()
        };
        Read { acked, advanced, duplicate, rtt }
    }

    fn sample(&mut self, rtt: Duration) {
        // A peer may echo a value that was never sent.
        if rtt <= Duration::from_secs(3600) {
            self.rto.sample(rtt);
            self.evidence.probe.unmeasured = false;
        }
    }

    /// The length of the retransmission timer when started now.
    fn timeout_interval(&self, now: Instant) -> Duration {
        let rto = self.rto.current();
        if !self.config.rto_restart {
            return rto;
        }
        let few = self.board.len() as u64 + self.queue.len().div_ceil(self.mss);
        match self.board.earliest_sent() {
            // req: rfc7765 4 "TCP implementations MUST track the time elapsed"
            Some(at) if few < rto_restart::THRESHOLD => {
                rto_restart::interval(rto, now.saturating_since(at))
            }
            _ => rto,
        }
    }

    /// Processes an acknowledgement during loss recovery.
    fn recover_on(&mut self, now: Instant, read: &Read) {
        if self.by_time() {
            self.detect_by_time(now);
        } else if self.sack {
            self.board.find_losses(self.mss, self.threshold());
        } else if read.advanced {
            // After a partial acknowledgement the next segment is missing too (RFC 6582 section 3.2 step 3). Everything
            // it covers except one retransmission had left the network before.
            let others = read.acked.cumulative.saturating_sub(self.mss);
            self.loss.left = self.loss.left.saturating_sub(others);
            self.board.lose_first();
            self.loss.at_once = true;
        } else if read.duplicate {
            self.loss.left += self.mss;
        }
    }

    /// Number of segments above a gap that indicate a loss.
    fn threshold(&self) -> u32 {
        match self.config.reordering {
            Reordering::Fixed => DUPLICATES,
            Reordering::Adaptive => self.evidence.order.threshold(DUPLICATES),
            Reordering::NcrCareful | Reordering::NcrAggressive => {
                self.loss.ncr.map_or(self.evidence.ncr_threshold, |ncr| ncr.threshold)
            }
        }
    }

    /// Processes an acknowledgement outside of recovery.
    fn watch_for_loss(&mut self, now: Instant, ack: &Acknowledgement, read: &Read) {
        if read.advanced {
            (self.loss.duplicates, self.loss.left) = (0, 0);
            if self.loss.ncr.is_none() && !ack.reports_mark {
                self.grow(read);
            }
        }
        // TCP-NCR sets Reno's windows.
        if self.sack && self.config.reordering.is_ncr() && self.control.reno().is_some() {
            self.extend_limited_transmit(ack, read);
        }
        let by_time = self.by_time();
        if by_time && self.detect_by_time(now) && self.unacknowledged >= self.loss.recover {
            self.begin_recovery(now, false);
        }
        if !read.duplicate {
            return;
        }
        self.loss.duplicates += 1;
        if by_time {
            return;
        }
        let threshold = self.threshold();
        let lost = self.sack && self.board.find_losses(self.mss, threshold);
        if !self.sack && self.config.limited_transmit && self.loss.duplicates < DUPLICATES {
            self.loss.left += self.mss;
        }
        let usual = lost || self.loss.duplicates >= threshold;
        let early = !usual && self.is_early();
        if (usual || early) && self.unacknowledged >= self.loss.recover {
            self.counters.early += u64::from(early);
            self.begin_recovery(now, early);
            self.board.lose_first();
            let left = u64::from(self.loss.duplicates) * self.mss;
            self.loss.left = if self.sack { 0 } else { left };
        }
    }

    /// Widens Reno's window after an acknowledgement that advances. Linux counts what arrived since the last one and
    /// not what blocks had reported before.
    fn grow(&mut self, read: &Read) {
        let growth = Growth {
            counting_packets: self.config.packet_counting,
            limit: self.config.slow_start_limit,
            after_timeout: self.unacknowledged < self.loss.recover,
        };
        let linux = self.reduces_once();
        let bytes = if linux { read.acked.delivered } else { read.acked.cumulative };
        if let Some(reno) = self.control.reno() {
            reno.acknowledged(bytes, &growth);
        }
    }

    /// A recovery is over. In Linux its last acknowledgement widens the window, and losses that it knows of begin the
    /// next recovery at once.
    fn leave_as_linux(&mut self, now: Instant, ack: &Acknowledgement, read: &Read) {
        if self.board.has_lost() {
            self.begin_recovery(now, false);
        } else if !ack.reports_mark {
            self.grow(read);
        }
    }

    /// Whether all segments that can arrive after the first one have arrived (RFC 5827).
    fn is_early(&self) -> bool {
        // req: rfc5827 3.2 "Early Retransmit MUST use the following two conditions"
        let nothing_new = self.queue.len() == 0 || self.usable() == 0;
        let wanted = self.config.early_retransmit && !self.evidence.early_off && nothing_new;
        let arrived = match self.sack {
            // req: rfc5827 3.2 "Early Retransmit MUST be used only"
            true => self.board.sacked() as u32,
            false => self.loss.duplicates,
        };
        wanted
            && early_retransmit::threshold(self.board.len()).is_some_and(|enough| arrived >= enough)
    }

    /// Starts a recovery: halves the window.
    pub(super) fn begin_recovery(&mut self, now: Instant, early: bool) {
        self.loss.recovery = Some(self.next);
        self.counters.recoveries += 1;
        self.since_loss = 0;
        self.evidence.answered = self.board.next_number();
        self.evidence.probe.out = None;
        self.evidence.begin(self.control.windows(), false, early);
        let mut flight = self.flight();
        if let Some(ncr) = self.loss.ncr.take() {
            // Segments sent by extended limited transmit do not count (RFC 4653 section 3.4).
            self.evidence.ncr_threshold = ncr.threshold;
            flight = ncr.flight_before;
        }
        self.control.on_congestion(now, Cause::Loss, flight, self.loss.before);
        self.loss.left = 0;
        self.loss.at_once = true;
    }

    /// TCP-NCR: a block starts extended limited transmit, and an advancing cumulative acknowledgement ends it.
    // req: rfc4653 3.1 "TCP MUST enter Extended Limited Transmit upon receiving the first"
    fn extend_limited_transmit(&mut self, ack: &Acknowledgement, read: &Read) {
        let flight = self.board.outstanding();
        let gap = ack.blocks.iter().any(|block| block.start > self.unacknowledged);
        let Some(ncr) = &mut self.loss.ncr else {
            if gap && read.acked.selective > 0 && self.unacknowledged >= self.loss.recover {
                let flight = flight.min(self.control.window());
                self.loss.ncr = Some(Ncr::begin(self.config.reordering, flight, self.mss));
            }
            return;
        };
        if read.advanced {
            if let Some(reno) = self.control.reno() {
                reno.set(ncr.windows(flight, self.mss));
            }
            if !gap {
                // req: rfc4653 3.2 "the receipt of an ACK that extends the cumulative ACK point MUST terminate"
                self.loss.ncr = None;
                return;
            }
            ncr.go_on(flight, self.mss);
        } else {
            ncr.adapt(flight, self.mss);
        }
    }
}
