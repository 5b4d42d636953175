//! Invariants that hold after every event; checked in tests and simulators.

use super::{Association, MAX_CONTROL};

impl Association {
    /// Checks the association after an event was handled and all output was taken.
    ///
    /// # Errors
    /// A description of the violated invariant.
    pub(crate) fn check_invariants(&self) -> Result<(), String> {
        if self.is_closed() {
            let done = self.sender.is_done();
            return if done { Ok(()) } else { Err("closed with data left".into()) };
        }
        self.sender.check_invariants(self.state.sends_data(), &self.paths)?;
        self.receiver.check_invariants()?;
        if self.outbox.chunks.len() > MAX_CONTROL {
            return Err(format!("{} control chunks wait", self.outbox.chunks.len()));
        }
        if !self.paths.has(self.paths.active()) || !self.paths.has(self.paths.primary()) {
            return Err("a path in use that does not exist".into());
        }
        let in_use = &self.paths[self.paths.active()];
        if in_use.is_potentially_failed() && self.paths.iter().any(crate::path::Path::is_active) {
            return Err(
                "data takes a potentially failed path although another one is active".into()
            );
        }
        Ok(())
    }
}
