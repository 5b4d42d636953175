//! Applies an acknowledgement to the association: to its paths, error counters and shutdown. The
//! sender handles windows and retransmissions.

use anabranch_wire::{Cause, NrSack};

use super::Association;
use crate::event::CloseReason;
use crate::marks::mark;
use crate::per_path::PathId;
use crate::recovery::ack::AckError;
use crate::time::Instant;

impl Association {
    /// Handles an acknowledgement in a SACK, NR-SACK or SHUTDOWN (RFC 9260 section 6.2.1). `complete`:
    /// it lists everything received. `covered_packets`: the number of packets that it acknowledges, if
    /// the receiver reports that.
    pub(super) fn on_acknowledgement(
        &mut self,
        now: Instant,
        path: PathId,
        sack: &NrSack<'_>,
        complete: bool,
        covered_packets: u8,
    ) {
        match self.sender.acknowledge(now, sack, complete, covered_packets, &mut self.paths) {
            Ok(()) => {}
            Err(AckError::Old) => {
                mark!(SackOld);
                return;
            }
            // It is from before a reset of the TSNs, or the answer to the reset was lost.
            Err(AckError::NeverSent) if self.may_have_other_tsns(now) => return,
            // req: rfc9260 12.4 "MUST abort the association if it receives"
            Err(error @ (AckError::NeverSent | AckError::TakenBack)) => {
                let what = match error {
                    AckError::NeverSent => "it acknowledges what was never sent",
                    _ => "it takes back what it acknowledged for good",
                };
                let mut cause = Vec::new();
                Cause::ProtocolViolation(what.as_bytes()).encode(&mut cause);
                self.abort_with(path, cause, CloseReason::ProtocolViolation(what));
                return;
            }
        }
        if self.sender.has_news() {
            self.use_echo(now);
            self.supervise_acked(now);
            self.follow_latency(now);
            self.sender.judge_ecn(&mut self.paths);
        }
        self.sender.recover(now, &mut self.paths);
        if self.sender.fills_buffer() {
            let left = self.memory_left();
            self.sender.grow_buffer(left, &self.paths);
        }
        if self.sender.has_all_acknowledged() {
            self.advance_shutdown(now);
            self.sender.shrink(&mut self.paths);
        }
        self.sender.begin_burst();
    }

    /// Updates the error counters: an acknowledged chunk proves that its path works.
    fn supervise_acked(&mut self, now: Instant) {
        // req: rfc9260 8.1 "The counter used for endpoint failure detection MUST be"
        self.watch.error_count = 0;
        for id in self.paths.ids_now() {
            let proof = self.sender.proof(id);
            // With timestamps the echo shows which transmission arrived.
            // req: rfc7829 3.2 "SHOULD NOT move a destination address in PF state back to active"
            let credited = self.config.recovery.credit_retransmissions
                && !self.timestamps.in_use()
                && !self.needs_proof(id);
            if proof.carried || (credited && proof.carried_last) {
                self.path_works(now, id);
            }
        }
    }
}
