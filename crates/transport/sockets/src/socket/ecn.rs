//! Explicit congestion notification (RFC 4960 appendix A).

use anabranch::{Association, Features, Statistics};

use super::Socket;
use crate::assoc_id::AssocId;
use crate::error::Error;
use crate::option::EcnSupported;

impl Socket {
    /// SCTP_ECN_SUPPORTED: for an established association, whether both sides negotiated ECN; otherwise whether this side
    /// will offer it.
    ///
    /// # Errors
    /// As [`option`](Self::option).
    pub fn ecn(&self, id: AssocId) -> Result<bool, Error> {
        let EcnSupported(wanted) = self.option(AssocId::FUTURE)?;
        let known = self.with_association(id, Association::statistics).ok();
        let agreed = |known: Statistics| known.features.has(Features::ECN);
        Ok(known.map_or(wanted, agreed))
    }
}
