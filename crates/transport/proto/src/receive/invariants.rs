//! Invariants of the receive buffer that hold at any time; for tests.

use std::collections::BTreeSet;

use super::{RESERVE, Receiver};

impl Receiver {
    /// Checks the accounts of the receive buffer.
    ///
    /// # Errors
    /// A description of what does not agree.
    pub(crate) fn check_invariants(&self) -> Result<(), String> {
        let held = self.assembler.held_charge() + self.deferred_charge();
        let ready = self.assembler.ready_charge();
        if self.charge < held + ready {
            return Err(format!("charged {}, held {held}, ready {ready}", self.charge));
        }
        if let Some(renegable) = &self.renegable {
            let cumulative = self.map.cumulative();
            let set = |ranges: &mut dyn Iterator<Item = (u64, u64)>| -> BTreeSet<u64> {
                ranges.flat_map(|(first, last)| first.max(cumulative + 1)..=last).collect()
            };
            let waits = set(&mut self.assembler.held_tsns().chain(self.deferred_tsns()));
            let noted = set(&mut renegable.ranges());
            let received = set(&mut self.map.intervals());
            if waits != noted || !noted.is_subset(&received) {
                return Err(format!("renegable {noted:?}, waiting {waits:?} of {received:?}"));
            }
        }
        if self.charge > self.limit + RESERVE {
            return Err(format!("charged {} with a buffer of {}", self.charge, self.limit));
        }
        Ok(())
    }
}
