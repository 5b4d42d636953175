//! Functions for the tests of all chunks.

use super::{Chunk, RawChunk};
use crate::error::ChunkError;

/// Parses hexadecimal bytes, with spaces anywhere.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    assert_eq!(digits.len() % 2, 0, "odd number of digits in {text:?}");
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

/// Decodes a capture of one padded chunk, checks that its text is `shown` and
/// that encoding gives the capture again, and passes the chunk to `check`.
pub(crate) fn capture(text: &str, shown: &str, check: impl FnOnce(Chunk<'_>)) {
    let bytes = hex(text);
    let chunk = RawChunk::parse(&bytes).unwrap().decode().unwrap();
    assert_eq!(chunk.to_string(), shown);
    let mut out = Vec::new();
    chunk.encode(&mut out);
    assert_eq!(out, bytes);
    check(chunk);
}

/// The error of a chunk that is complete but cannot be decoded.
pub(crate) fn error(text: &str) -> ChunkError {
    let bytes = hex(text);
    RawChunk::parse(&bytes).unwrap().decode().unwrap_err()
}
