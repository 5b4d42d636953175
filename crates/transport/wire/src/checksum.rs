//! The CRC32c of SCTP packets. No other module depends on its implementation.
//!
//! `crc-fast` folds with carry-less multiplication (AVX-512 and VPCLMULQDQ, SSE 4.2, NEON and
//! PMULL; tables elsewhere), chosen at run time. Its `Digest`, which would accept a packet in
//! pieces, links the tables of all supported CRCs, and is slower.

use crate::packet::HEADER_LEN;

/// Position of the checksum in the common header.
const FIELD: core::ops::Range<usize> = 8..12;

/// CRC32c (Castagnoli) of `bytes`, as a number.
///
/// SCTP sends it with its least significant byte first
/// (RFC 9260 appendix A).
// Not inlined: otherwise linkers keep the tables of all supported CRCs, 700 KB.
#[inline(never)]
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// CRC32c of a packet, computed as if its checksum field were zero, as a sender does. Zero for
/// anything shorter than a header.
pub(crate) fn of_packet(bytes: &[u8]) -> [u8; 4] {
    let Some((head, tail)) = bytes.split_first_chunk::<HEADER_LEN>() else {
        return [0; 4];
    };
    // The received bytes must not be changed. But a CRC is linear, so the field's contribution can
    // be computed separately: it is that of the field followed by as many zeros as there are bytes
    // after it.
    let [.., a, b, c, d] = *head;
    let field = polynomial::shifted(u32::from_le_bytes([a, b, c, d]), tail.len());
    (crc32c(bytes) ^ field).to_le_bytes()
}

/// Polynomials over GF(2) modulo that of CRC32c. As in the CRC itself the least significant bit of
/// a number is the coefficient of the highest power, x^31.
mod polynomial {
    /// x^32 modulo the polynomial.
    const MODULUS: u32 = 0x82f6_3b78;
    /// Numbers of bytes that need one multiplication: those of packets that
    /// fit into usual links.
    const NEAR: usize = 2048;
    /// x^(8 n + 32): the effect on a CRC of n zero bytes appended to the data.
    static BY_BYTES: [u32; NEAR] = powers(MODULUS, 1 << 23);
    /// x^(8 NEAR n), enough of them for the largest packet.
    static BY_NEAR: [u32; 32] = powers(1 << 31, BY_BYTES[NEAR - 4]);
    /// The bits that overflow when a number is multiplied by x^4.
    static LEAVING: [u32; 16] = multiples(MODULUS);

    /// The contribution to a CRC of `value` followed by `bytes` bytes.
    #[inline]
    pub(super) fn shifted(value: u32, bytes: usize) -> u32 {
        let near = multiplied(value, BY_BYTES[bytes % NEAR]);
        match bytes / NEAR {
            0 => near,
            far => multiplied(near, BY_NEAR[far % BY_NEAR.len()]),
        }
    }

    /// The product, four powers of `a` at a time.
    #[inline]
    const fn multiplied(a: u32, b: u32) -> u32 {
        let multiples = multiples(b);
        let (mut product, mut at): (u32, _) = (0, 0);
        while at < 32 {
            let bits = (a >> at) & 15;
            product = (product >> 4) ^ LEAVING[product as usize & 15] ^ multiples[bits as usize];
            at += 4;
        }
        product
    }

    /// `value` times each polynomial below x^4.
    #[inline]
    const fn multiples(value: u32) -> [u32; 16] {
        let mut table = [0; 16];
        let (mut multiple, mut bit) = (value, 8);
        while bit > 0 {
            let mut bits = 0;
            while bits < 16 {
                if bits & bit != 0 {
                    table[bits] ^= multiple;
                }
                bits += 1;
            }
            multiple = (multiple >> 1) ^ (MODULUS & (multiple & 1).wrapping_neg());
            bit >>= 1;
        }
        table
    }

    /// `first`, and then each element is the previous one times `factor`.
    const fn powers<const N: usize>(first: u32, factor: u32) -> [u32; N] {
        let mut table = [first; N];
        let mut at = 1;
        while at < N {
            table[at] = multiplied(table[at - 1], factor);
            at += 1;
        }
        table
    }
}

/// Writes the checksum into a packet whose checksum field is zero.
pub(crate) fn fill(packet: &mut [u8]) {
    // req: rfc9260 6.8 "including the CRC32c checksum value"
    let crc = crc32c(packet).to_le_bytes();
    if let Some(field) = packet.get_mut(FIELD) {
        field.copy_from_slice(&crc);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        // The examples of RFC 3720 appendix B.4 and the usual check string.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    /// CRC32c by its definition, one bit at a time.
    fn bitwise(bytes: &[u8]) -> u32 {
        let mut crc = u32::MAX;
        for byte in bytes {
            crc ^= u32::from(*byte);
            for _ in 0..8 {
                crc = (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
            }
        }
        !crc
    }

    // test: rfc9260 6.8 "including the CRC32c checksum value"
    #[test]
    fn the_field_counts_as_zero() {
        for len in (12..2100).chain((1..=10).map(|times| 6521 * times)).chain([65535]) {
            let mut packet: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
            packet[FIELD].fill(0);
            let expected = bitwise(&packet).to_le_bytes();
            fill(&mut packet);
            assert_eq!(packet[FIELD], expected);
            assert_eq!(of_packet(&packet), expected);
        }
        assert_eq!(of_packet(&[1; 11]), [0; 4]);
    }
}
