//! What must hold for an association after every event; for tests and simulators.

use super::{Association, MAX_CONTROL};

impl Association {
    /// Checks the association after an event was handled and all output was taken.
    ///
    /// # Errors
    /// What does not hold, in words.
    pub(crate) fn check_invariants(&self) -> Result<(), String> {
        if self.is_closed() {
            return if self.outstanding.is_empty() && self.send.is_empty() {
                Ok(())
            } else {
                Err("closed with data left".into())
            };
        }
        self.outstanding.check_invariants()?;
        self.send.check_invariants(self.outstanding.len(), self.outstanding.held())?;
        self.receiver.check_invariants()?;
        self.check_timers()?;
        for (index, path) in self.paths.iter().enumerate() {
            if path.congestion.cwnd() < path.pmdcs() {
                return Err(format!("path {index}: cwnd is below one PMDCS"));
            }
        }
        if self.control.len() > MAX_CONTROL {
            return Err(format!("{} control chunks wait", self.control.len()));
        }
        if self.paths.active() >= self.paths.len() || self.paths.primary() >= self.paths.len() {
            return Err("a path in use that does not exist".into());
        }
        let in_use = &self.paths[self.paths.active()];
        if in_use.is_potentially_failed() && self.paths.iter().any(crate::path::Path::is_active) {
            return Err("data takes a potentially failed path beside an active one".into());
        }
        Ok(())
    }

    /// Nothing that waits for the peer waits without a timer.
    fn check_timers(&self) -> Result<(), String> {
        let (mut timers, mut paced) = (0, false);
        for (index, path) in self.paths.iter().enumerate() {
            if self.outstanding.in_flight(index) != path.t3.is_some() {
                return Err(format!(
                    "path {index}: {} bytes in flight, T3-rtx {:?}",
                    self.outstanding.flight(index),
                    path.t3
                ));
            }
            timers += usize::from(path.t3.is_some());
            paced |= path.paced_until.is_some();
        }
        // What is lost may wait for its turn by pacing.
        if !self.outstanding.is_empty() && timers == 0 && !paced {
            return Err(format!(
                "{} chunks outstanding, {} of them lost, and no timer runs",
                self.outstanding.len(),
                self.outstanding.lost_chunks()
            ));
        }
        let waits = self.state.sends_data() && !self.send.is_empty() && timers == 0;
        if waits && self.window_probe.is_none() && !paced {
            return Err("data waits to be sent, and no timer runs".into());
        }
        Ok(())
    }
}
