//! AUTH.

use core::fmt;

use alloc::vec::Vec;

use super::RawChunk;
use crate::error::ChunkError;

/// Authenticates the chunks behind it in the packet (RFC 4895 section 4.1).
///
/// ```text
/// +---------------+---------------+---------------+---------------+
/// |     0x0f      |       0       |            length             |
/// +---------------+---------------+---------------+---------------+
/// |     shared key identifier     |        HMAC identifier        |
/// +---------------+---------------+---------------+---------------+
/// |                             HMAC                              |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auth<'a> {
    /// Which endpoint pair shared key was used.
    pub shared_key_id: u16,
    /// Which algorithm was used: 1 SHA-1, 3 SHA-256.
    pub hmac_id: u16,
    /// The message authentication code.
    pub hmac: &'a [u8],
}

impl<'a> Auth<'a> {
    /// Reads the chunk; its type is not checked.
    ///
    /// # Errors
    ///
    /// [`ChunkError::ValueTooShort`] for less than 4 bytes of value.
    pub fn parse(chunk: &RawChunk<'a>) -> Result<Self, ChunkError> {
        chunk.fields(|r| Some(Self { shared_key_id: r.u16()?, hmac_id: r.u16()?, hmac: r.rest() }))
    }

    pub(super) fn encode_value(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.shared_key_id.to_be_bytes());
        out.extend_from_slice(&self.hmac_id.to_be_bytes());
        out.extend_from_slice(self.hmac);
    }
}

impl fmt::Display for Auth<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key {} hmac {} {} bytes", self.shared_key_id, self.hmac_id, self.hmac.len())
    }
}
