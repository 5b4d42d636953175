//! ABORT.

use core::fmt;

use alloc::vec::Vec;

use super::RawChunk;
use crate::cause::Causes;
use crate::error::ChunkError;

/// Ends an association immediately (RFC 9260 section 3.3.7).
///
/// ```text
/// +---------------+---------------+---------------+---------------+
/// |       6       | reserved    T |            length             |
/// +---------------+---------------+---------------+---------------+
/// |                         error causes                          |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abort<'a> {
    /// T bit: the packet's verification tag is the one that its receiver sent, because the sender
    /// has no association (RFC 9260 section 8.5.1).
    pub tag_reflected: bool,
    /// The reasons.
    pub causes: Causes<'a>,
}

impl<'a> Abort<'a> {
    /// Reads the chunk; its type is not checked, malformed causes are kept.
    ///
    /// # Errors
    ///
    /// Never so far; all chunks have the same signature.
    pub fn parse(chunk: &RawChunk<'a>) -> Result<Self, ChunkError> {
        Ok(Self { tag_reflected: chunk.flags & 1 != 0, causes: Causes::new(chunk.value) })
    }

    pub(super) const fn flags(&self) -> u8 {
        self.tag_reflected as u8
    }

    pub(super) fn encode_value(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.causes.bytes());
    }
}

impl fmt::Display for Abort<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.tag_reflected {
            f.write_str("T ")?;
        }
        self.causes.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::super::testing::capture;
    use crate::cause::Cause;

    #[test]
    fn user_abort() {
        capture("0600000b 000c0007 62796500", "ABORT [user abort \"bye\"]", |chunk| {
            let Chunk::Abort(abort) = chunk else { unreachable!() };
            assert!(!abort.tag_reflected);
            assert_eq!(
                abort.causes.decoded().collect::<Vec<_>>(),
                [Cause::UserInitiatedAbort(b"bye")]
            );
        });
    }

    // test: rfc9260 3.3.7 "the T bit MUST be set to 1"
    #[test]
    fn reflected_tag() {
        capture("06010004", "ABORT T []", |chunk| {
            let Chunk::Abort(abort) = chunk else { unreachable!() };
            assert!(abort.tag_reflected && abort.causes.is_empty());
        });
    }
}
