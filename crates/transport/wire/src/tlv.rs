//! Encoding shared by chunks, parameters and causes.

use alloc::vec::Vec;

/// Maximum length of a written chunk, parameter or cause. The length field could be 65535, but values are
/// cut here, at a multiple of four, so that lists of 32-bit items stay whole.
pub(crate) const MAX_LEN: usize = 65532;

/// `len` rounded up to a multiple of four. Readers skip what is added and do not look at it.
// req: rfc4895 3.1 "it MUST be ignored by the receiver"
// req: rfc4895 3.2 "it MUST be ignored by the receiver"
// req: rfc4895 3.3 "it MUST be ignored by the receiver"
// req: rfc4895 4.1 "it MUST be ignored by the receiver"
// req: rfc4895 5.1 "it MUST be ignored by the receiver"
#[inline]
pub(crate) const fn padded(len: usize) -> usize {
    (len + 3) & !3
}

/// Writes a header of four bytes that starts with `kind`, then calls `value`
/// to append the value, and sets the length in the header's last two bytes.
pub(crate) fn write(out: &mut Vec<u8>, kind: [u8; 2], value: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[kind[0], kind[1], 0, 4]);
    value(out);
    out.truncate(start + MAX_LEN);
    let len = (out.len() - start) as u16;
    if let Some(field) = out.get_mut(start + 2..start + 4) {
        field.copy_from_slice(&len.to_be_bytes());
    }
}

/// The zero bytes that pad a chunk or parameter of `len` bytes.
#[inline]
pub(crate) const fn padding(len: usize) -> &'static [u8] {
    // req: rfc9260 3.2 "MUST be a multiple of 4 bytes"
    // req: rfc4895 3.1 "the sender MUST pad the parameter with all zero bytes"
    // req: rfc4895 3.1 "The Padding MUST NOT be longer than 3"
    // req: rfc4895 3.2 "the sender MUST pad the parameter with all zero bytes"
    // req: rfc4895 3.2 "The Padding MUST NOT be longer than 3"
    // req: rfc4895 3.3 "the sender MUST pad the parameter with all zero bytes"
    // req: rfc4895 3.3 "The Padding MUST be 0 or 2 bytes"
    // req: rfc4895 4.1 "The sender MUST pad the error cause"
    // req: rfc4895 4.1 "The Padding MUST be 2 bytes long"
    // req: rfc4895 5.1 "the sender MUST pad the chunk with all zero bytes"
    // req: rfc4895 5.1 "The Padding MUST NOT be longer than 3"
    // req: rfc9260 3.2 "MUST NOT pad with more than 3 bytes"
    // req: rfc9260 3.2.1 "MUST NOT pad with more than 3 bytes"
    // req: rfc9260 3.2 "MUST pad the chunk with all zero bytes"
    // req: rfc9260 3.2.1 "MUST be a multiple of 4 bytes"
    // req: rfc9260 3.3.1 "MUST pad the end of the data to"
    // req: rfc9260 3.3.1 "MUST NOT be included in the Length field"
    // req: rfc5061 4.2.7 "Note: The length MUST NOT include any padding"
    // req: rfc9260 3.3.1 "MUST never add more than 3 bytes"
    match len % 4 {
        0 => &[],
        1 => &[0; 3],
        2 => &[0; 2],
        _ => &[0; 1],
    }
}

/// Appends zero bytes until the length since `start` is a multiple of four.
#[inline]
pub(crate) fn pad(out: &mut Vec<u8>, start: usize) {
    let len = out.len() - start;
    out.extend_from_slice(padding(len));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    // test: rfc9260 3.2 "MUST NOT pad with more than 3 bytes"
    // test: rfc9260 3.2.1 "MUST NOT pad with more than 3 bytes"
    // test: rfc9260 3.3.1 "MUST never add more than 3 bytes"
    fn padding_completes_four_bytes() {
        for len in 0..20 {
            assert_eq!(padded(len), len + padding(len).len());
            assert_eq!(padded(len) % 4, 0);
            assert!(padding(len).len() < 4);
        }
    }

    #[test]
    // test: rfc9260 3.2 "MUST pad the chunk with all zero bytes"
    // test: rfc9260 3.2.1 "MUST be a multiple of 4 bytes"
    // test: rfc9260 3.3.1 "MUST NOT be included in the Length field"
    // test: rfc9260 3.3.1 "MUST pad the end of the data to"
    fn enters_the_length_and_pads() {
        let mut out = vec![9];
        write(&mut out, [1, 2], |out| out.push(7));
        pad(&mut out, 1);
        assert_eq!(out, [9, 1, 2, 0, 5, 7, 0, 0, 0]);
    }

    #[test]
    fn cuts_what_the_length_field_cannot_say() {
        let mut out = Vec::new();
        write(&mut out, [1, 2], |out| out.resize(70_000, 1));
        assert_eq!(out.len(), MAX_LEN);
        assert_eq!(out[..4], [1, 2, 0xff, 0xfc]);
    }
}
