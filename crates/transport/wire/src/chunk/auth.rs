//! AUTH.

use core::fmt;

use alloc::vec::Vec;

use super::RawChunk;
use crate::error::ChunkError;

/// Authenticates the chunks after it in the packet (RFC 4895 section 4.1).
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
    /// The endpoint pair shared key.
    pub shared_key_id: u16,
    /// The algorithm: 1 SHA-1, 3 SHA-256.
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

    // req: rfc4895 5.1 "This value MUST be set to 0x0F"
    // req: rfc4895 5.1 "SHOULD be set to zero on transmit"
    // req: rfc4895 5.1 "on transmit and MUST be ignored on receipt"
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

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::super::testing::{capture, error};
    use crate::error::ChunkError;

    #[test]
    fn sha1() {
        capture(
            "0f00001c 00000001 000102030405060708090a0b0c0d0e0f10111213",
            "AUTH key 0 hmac 1 20 bytes",
            |chunk| {
                let Chunk::Auth(auth) = chunk else { unreachable!() };
                assert_eq!((auth.shared_key_id, auth.hmac_id), (0, 1));
                assert_eq!(auth.hmac.len(), 20);
            },
        );
        assert_eq!(error("0f000006 00000000"), ChunkError::ValueTooShort { kind: 15, len: 2 });
    }
}
