//! Potentially failed paths (RFC 7829): a state between active and inactive, in which data takes
//! another path while heartbeats probe this one.
//!
//! ```text
//!            errors > PFMR                            errors > PMR
//!   Active ----------------> PotentiallyFailed ------------------------> Inactive
//!      ^                             |                                       |
//!      +-- HEARTBEAT ACK, or data acknowledged that took this path alone ----+
//! ```

use super::Association;
use crate::event::PathState;
use crate::per_path::PathId;
use crate::policy::failover::Input;
use crate::time::Instant;

impl Association {
    /// Whether a path that has not failed becomes potentially failed with its present error count.
    // req: rfc7829 3.2 "the endpoint MUST mark the destination address as in the PF state"
    pub(super) fn exceeds_pfmr(&self, id: PathId) -> bool {
        let path = &self.paths[id];
        let threshold = self.config.paths.potentially_failed_max_retrans;
        path.is_potentially_failed()
            || (path.is_active() && threshold.is_some_and(|pfmr| path.error_count > pfmr))
    }

    /// Handles another error on a path that is potentially failed, newly or still.
    // req: rfc7829 3.2 "SHOULD NOT send data to destination addresses in PF state when"
    // req: rfc7829 3.2 "MUST NOT clear the error counter of the destination address as a result"
    // req: rfc7829 3.2 "MUST NOT change the state and the error counter of any destination addresses"
    // req: rfc7829 3.2 "SHOULD send the data to an alternate destination address in active state"
    pub(super) fn suspect(&mut self, now: Instant, id: PathId) {
        let input = if self.paths[id].is_active() {
            self.set_path_state(now, id, PathState::PotentiallyFailed);
            Input::Failed(id)
        } else {
            Input::TimedOut(id)
        };
        self.probe_potentially_failed(now, id);
        self.fail_over(input);
        // Chunks that wait for the best path are not moved.
        if self.paths.active() != id {
            self.redirect_lost(id);
        }
    }

    /// Sends a heartbeat now, and the next one if there is no answer within an RTO. An outstanding
    /// heartbeat gives no new information about this failure, so there is one error per RTO.
    // req: rfc7829 3.2 "HEARTBEAT chunks SHOULD be sent to destination addresses in PF state"
    // req: rfc7829 3.2 "if the Path Heartbeat function is disabled for the destination address"
    // req: rfc7829 3.2 "MUST honor whether or not the Path Heartbeat function"
    pub(super) fn probe_potentially_failed(&mut self, now: Instant, id: PathId) {
        let heartbeat = &mut self.paths[id].heartbeat;
        heartbeat.excuse();
        if self.config.timers.heartbeat_interval.is_some() {
            heartbeat.demand(now);
        }
    }

    /// Whether an unanswered heartbeat is ignored because there is data in flight on the potentially
    /// failed path: its timer backs the RTO off and counts the error (section 3.2, 6).
    pub(super) fn is_left_to_data(&self, id: PathId) -> bool {
        self.paths[id].is_potentially_failed() && self.sender.in_flight(id)
    }

    /// Whether the acknowledgement of a retransmission from another path is not sufficient to make
    /// this path active (section 3.2, 9).
    pub(super) fn needs_proof(&self, id: PathId) -> bool {
        self.config.paths.potentially_failed_max_retrans.is_some() && !self.paths[id].is_active()
    }
}
