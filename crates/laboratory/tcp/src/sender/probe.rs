//! Tail loss probes (RFC 8985 section 7): when one is due, what it contains, and what its
//! acknowledgement means.

use std::ops::Range;

use anabranch_units::Instant;

use super::acknowledge::Read;
use super::{Acknowledgement, Sender};
use crate::congestion::Cause;
use crate::recovery::forward_rto::Step;
use crate::recovery::tail_probe::{self, Answer, Probing};
use crate::scoreboard::Outgoing;

impl Sender {
    /// Arms the probe after something was sent or acknowledged. The probe is due if nothing
    /// arrives.
    pub(super) fn arm_probe(&mut self, now: Instant) {
        if !self.config.tail_probe || !self.sack {
            return;
        }
        // req: rfc8985 7.2 "The sender SHOULD start or restart a loss probe"
        let recovers = self.loss.recovery.is_some()
            || self.unacknowledged < self.loss.recover
            || self.loss.forward != Step::Idle;
        if recovers || self.board.is_empty() || self.board.sacked() > 0 {
            self.evidence.probe.disarm();
            return;
        }
        let interval = tail_probe::interval(self.rto.srtt(), self.board.len() == 1);
        self.evidence.probe.arm(now, interval, self.timer);
    }

    /// Sends a probe, because nothing has arrived for some time: new data, or the last segment
    /// again.
    pub(super) fn probe_tail(&mut self, now: Instant) -> Option<Outgoing> {
        self.evidence.probe.disarm();
        let size = self.queue.len().min(self.mss).min(self.usable());
        // req: rfc8985 7.3 "If both conditions are met, then the sender SHOULD transmit"
        let (outgoing, again) = if size > 0 {
            let fin = self.finish && !self.fin_sent && size == self.queue.len();
            (self.send_new(now, size, fin), false)
        } else {
            // req: rfc8985 7.3 "SHOULD retransmit the highest-sequence segment sent so far"
            let last = self.board.resend_last(now)?;
            self.counters.retransmissions += 1;
            self.tell_sent(now, last.end - last.outgoing.position);
            self.last_sent = now;
            (last.outgoing, true)
        };
        self.counters.tail_probes += 1;
        let probe = &mut self.evidence.probe;
        probe.out = Some(Probing { end: self.next, again });
        probe.unmeasured = true;
        probe.disarm();
        // req: rfc8985 7.3 "the sender MUST re-arm the RTO timer, not the PTO"
        self.timer = Some(now + self.rto.current());
        Some(outgoing)
    }

    /// Evaluates an acknowledgement for the outstanding probe.
    pub(super) fn answer_probe(
        &mut self,
        now: Instant,
        ack: &Acknowledgement,
        read: &Read,
        duplicate: Option<&Range<u64>>,
    ) {
        let Some(probing) = self.evidence.probe.out else { return };
        // A FIN is not reported as a duplicate, but the data before it is.
        let matches = duplicate.is_some_and(|range| {
            range.end >= probing.end.saturating_sub(1) && range.end <= probing.end
        });
        let bare = ack.bare && !read.advanced && ack.blocks.is_empty();
        match self.evidence.probe.answer(ack.position, matches, bare) {
            Answer::Nothing => return,
            Answer::Arrived => {}
            Answer::Needless => self.counters.needless += 1,
            Answer::Repaired => {
                // req: rfc8985 7.4.2 "SHOULD invoke a congestion control response equivalent"
                if self.loss.recovery.is_none() {
                    self.control.on_congestion(now, Cause::Loss, self.flight(), self.loss.before);
                }
            }
        }
        self.evidence.probe.out = None;
    }
}
