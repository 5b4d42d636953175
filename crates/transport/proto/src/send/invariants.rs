//! Invariants of the send buffer that hold at any time; for tests.

use super::{CHUNK_OVERHEAD, SendQueue};

impl SendQueue {
    /// Checks the send buffer's accounts against `chunks` outstanding chunks with `payload`
    /// bytes.
    ///
    /// # Errors
    /// A description of what does not agree.
    pub(crate) fn check_invariants(&self, chunks: usize, payload: usize) -> Result<(), String> {
        let outstanding = payload + chunks * CHUNK_OVERHEAD;
        let (buffered, unsent) = (self.buffered, self.unsent);
        if buffered < outstanding + unsent || (unsent == 0 && buffered != outstanding) {
            return Err(format!(
                "send buffer charged {buffered}: {outstanding} outstanding, {unsent} unsent"
            ));
        }
        Ok(())
    }
}
