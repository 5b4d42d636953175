//! What an acknowledgement proves lost (RFC 9260 section 7.2.4), and fast recovery.

use super::Sender;
use crate::congestion::{Coupled, Loss};
use crate::marks::mark;
use crate::path::Paths;
use crate::per_path::PathId;
use crate::recovery::{RecoveryExit, loss};
use crate::revision::Revision;
use crate::send::Cause;
use crate::send::SlotState;
use crate::time::Instant;

impl Sender {
    pub(super) fn detect_losses(&mut self, now: Instant, paths: &mut Paths) {
        let mut lost = Vec::new();
        // RFC 9260 section 6.2.1 D iii: a miss indication for what was reneged.
        let reneged = self.summary.reneged.len() as u32;
        self.counts.taken_back = self.counts.taken_back.wrapping_add(reneged);
        for tsn in &self.summary.reneged {
            mark!(SackReneged);
            self.outstanding.report_missing(*tsn, 1);
        }
        let lanes = &self.lanes;
        loss::detect(
            &self.config.recovery,
            self.config.revision,
            &self.summary,
            &self.acknowledged,
            |path| lanes[path].recovery_exit.is_some(),
            &mut self.outstanding,
            &mut lost,
        );
        let highest = self.outstanding.next_tsn() - 1;
        for tsn in lost {
            self.fast_retransmit(now, tsn, highest, paths);
        }
    }

    /// A chunk is lost by missing reports; `highest` is the last TSN sent.
    fn fast_retransmit(&mut self, now: Instant, tsn: u64, highest: u64, paths: &mut Paths) {
        let Some(slot) = self.outstanding.get(tsn) else { return };
        if slot.state != SlotState::InFlight {
            return;
        }
        let from = slot.path;
        let packet = slot.packet;
        let retransmitted = self.outstanding.retransmission(tsn).is_some();
        if retransmitted {
            mark!(FastRetransmitAgain);
        }
        // That a retransmission is lost is another sign of congestion, which RFC 9260 leaves to
        // the timer and RFC 5681 section 4.3 has the windows lowered for again. What left
        // before they were lowered last is the same sign. In the studies of the older RFCs
        // there is one sign in a recovery.
        let lane = &self.lanes[from];
        let again =
            self.config.revision >= Revision::Rfc9260 && retransmitted && packet >= lane.lowered_at;
        let begins = lane.recovery_exit.is_none() || again;
        if begins {
            self.begin_recovery(from, highest, paths);
        }
        let first = self.outstanding.earliest(from) == Some(tsn);
        let to = self.lose(tsn, Cause::MissingReports, None, paths);
        // RFC 9260 section 7.2.4, step 4: what else is in flight on the path has its own time,
        // also if the retransmission leaves on another one.
        if first && to != from && self.outstanding.in_flight(from) {
            self.lanes[from].t3 = Some(now + paths[from].rtt.rto());
        }
        // req: rfc9260 7.2.4 "SHOULD NOT delay retransmission for"
        // req: rfc9260 7.2.4 "SHOULD ignore the value of cwnd and"
        self.lanes[to].retransmit_at_once |= begins || self.config.revision < Revision::Rfc9260;
    }

    /// A path lost something: its window is lowered, once for all that was in flight.
    // RFC 9260 section 7.2.4, step 2.
    // req: rfc9260 7.2.4 "SHOULD NOT change for any destinations due"
    fn begin_recovery(&mut self, from: PathId, highest: u64, paths: &Paths) {
        let number = self.packet_number(from);
        self.lanes[from].recovery_exit = Some(if self.config.multipath.is_on() {
            RecoveryExit::Packet(number)
        } else {
            RecoveryExit::Tsn(highest)
        });
        self.lanes[from].lowered_at = number;
        let coupling = self.view_paths_at_loss(from, paths, |sender, path| {
            sender.summary.paths[path].flight_before
        });
        let coupled = Coupled::new(coupling, &self.views, self.place(from));
        self.lanes[from].congestion.tell(|c| c.on_lost(Loss::Reported, &coupled));
        self.counts.fast_recoveries += 1;
        mark!(FastRecovery);
    }
}
