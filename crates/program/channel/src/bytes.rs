//! Fields at fixed offsets of a header.

/// Writes `value` at `at`. Offsets are constants, and the tests write every field.
pub(crate) fn put<const N: usize>(header: &mut [u8], at: usize, value: [u8; N]) {
    if let Some(field) = header.get_mut(at..at + N) {
        field.copy_from_slice(&value);
    }
}

/// Reads the field at `at`; zeros if the header is too short, which decoders check first.
pub(crate) fn get<const N: usize>(header: &[u8], at: usize) -> [u8; N] {
    header.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
}
