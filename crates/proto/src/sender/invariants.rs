//! What must hold for the sender after every event; for tests and simulators.

use super::Sender;
use crate::path::Paths;

impl Sender {
    /// Checks the sender after an event was handled and all output was taken. `may_send`: the
    /// association's state lets data go.
    ///
    /// # Errors
    /// What does not hold, in words.
    pub(crate) fn check_invariants(&self, may_send: bool, paths: &Paths) -> Result<(), String> {
        self.outstanding.check_invariants()?;
        self.queue.check_invariants(self.outstanding.len(), self.outstanding.held())?;
        if self.lanes.len() != paths.len() {
            return Err(format!("{} lanes for {} paths", self.lanes.len(), paths.len()));
        }
        if !self.expired.is_empty() {
            return Err("the user was not told of expired messages".into());
        }
        let (mut timers, mut paced) = (0, false);
        for (lane, path) in self.lanes.iter().zip(paths.iter()) {
            let id = path.id;
            if lane.path != id {
                return Err(format!("lane of path {} beside path {id}", lane.path));
            }
            if lane.congestion.cwnd() < path.pmdcs() {
                return Err(format!("path {id}: cwnd is below one PMDCS"));
            }
            if self.outstanding.in_flight(id) != lane.t3.is_some() {
                return Err(format!(
                    "path {id}: {} bytes in flight, T3-rtx {:?}",
                    self.outstanding.flight(id),
                    lane.t3
                ));
            }
            timers += usize::from(lane.t3.is_some());
            paced |= lane.paced_until.is_some();
        }
        // What is lost may wait for its turn by pacing.
        if !self.outstanding.is_empty() && timers == 0 && !paced {
            return Err(format!(
                "{} chunks outstanding, {} of them lost, and no timer runs",
                self.outstanding.len(),
                self.outstanding.lost_chunks()
            ));
        }
        let waits = may_send && !self.queue.is_empty() && timers == 0;
        if waits && self.window.deadline().is_none() && !paced {
            return Err("data waits to be sent, and no timer runs".into());
        }
        Ok(())
    }
}
