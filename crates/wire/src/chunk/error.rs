//! ERROR.

use core::fmt;

use alloc::vec::Vec;

use super::RawChunk;
use crate::cause::Causes;
use crate::error::ChunkError;

/// Reports errors that do not end the association (RFC 9260 section 3.3.10).
///
/// ```text
/// +---------------+---------------+---------------+---------------+
/// |       9       |       0       |            length             |
/// +---------------+---------------+---------------+---------------+
/// |                         error causes                          |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error<'a> {
    /// The errors.
    pub causes: Causes<'a>,
}

impl<'a> Error<'a> {
    /// Reads the chunk; its type is not checked, broken causes are kept.
    ///
    /// # Errors
    ///
    /// None so far; the signature is that of every chunk.
    pub fn parse(chunk: &RawChunk<'a>) -> Result<Self, ChunkError> {
        Ok(Self { causes: Causes::new(chunk.value) })
    }

    pub(super) fn encode_value(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.causes.bytes());
    }
}

impl fmt::Display for Error<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.causes.fmt(f)
    }
}
