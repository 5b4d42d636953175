//! What must hold for the receive buffer at any time; for tests.

use super::{RESERVE, Receiver};

impl Receiver {
    /// Checks the accounts of the receive buffer.
    ///
    /// # Errors
    /// What does not agree.
    pub(crate) fn check_invariants(&self) -> Result<(), String> {
        let held = self.reassembly.charge() + self.streams.held_charge();
        let ready: usize = self.streams.ready_charge();
        if self.charge < held + ready {
            return Err(format!("charged {}, held {held}, ready {ready}", self.charge));
        }
        if self.charge > self.limit + RESERVE {
            return Err(format!("charged {} with a buffer of {}", self.charge, self.limit));
        }
        Ok(())
    }
}
