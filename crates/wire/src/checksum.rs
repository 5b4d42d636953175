//! The CRC32c of SCTP packets, and the one place that knows who computes it.
//!
//! `crc-fast` folds with carry-less multiplication (AVX-512 and VPCLMULQDQ,
//! SSE 4.2, NEON and PMULL; tables elsewhere) and is chosen at run time.

use crc_fast::{CrcAlgorithm, Digest};

use crate::packet::HEADER_LEN;

/// Where the checksum stands in the common header.
const FIELD: core::ops::Range<usize> = 8..12;

/// CRC32c (Castagnoli) of `bytes`, as a number.
///
/// SCTP sends it with its least significant byte first
/// (RFC 9260 appendix A).
#[inline]
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// CRC32c of a packet whose checksum field counts as zero, as it is sent.
/// Less than a header has none, and gets zero.
pub(crate) fn of_packet(bytes: &[u8]) -> [u8; 4] {
    let Some((head, tail)) = bytes.split_first_chunk::<HEADER_LEN>() else {
        return [0; 4];
    };
    // The received bytes are not ours to change, and copying 12 of them costs
    // a quarter of what copying the packet would.
    let mut head = *head;
    head[FIELD].fill(0);
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(&head);
    digest.update(tail);
    (digest.finalize() as u32).to_le_bytes()
}

/// Enters the checksum into a packet whose checksum field is zero.
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

    /// The definition, one bit at a time.
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
        for len in 12..1500 {
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
