//! The CRC32c of SCTP packets, and the one place that knows who computes it.
//!
//! `crc-fast` folds with carry-less multiplication (AVX-512 and VPCLMULQDQ,
//! SSE 4.2, NEON and PMULL; tables elsewhere) and is chosen at run time.

use crc_fast::{CrcAlgorithm, Digest};

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
///
/// req: rfc9260 6.8 "initialize the Checksum field to zero"
pub(crate) fn of_packet(bytes: &[u8]) -> [u8; 4] {
    let (Some(head), Some(tail)) = (bytes.get(..FIELD.start), bytes.get(FIELD.end..)) else {
        return [0; 4];
    };
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(head);
    digest.update(&[0; 4]);
    digest.update(tail);
    (digest.finalize() as u32).to_le_bytes()
}

/// Enters the checksum into a packet whose checksum field is zero.
pub(crate) fn fill(packet: &mut [u8]) {
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

    #[test]
    fn the_field_counts_as_zero() {
        for len in 12..300 {
            let mut packet: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
            packet[FIELD].fill(0);
            let expected = crc32c(&packet).to_le_bytes();
            fill(&mut packet);
            assert_eq!(packet[FIELD], expected);
            assert_eq!(of_packet(&packet), expected);
        }
        assert_eq!(of_packet(&[1; 11]), [0; 4]);
    }
}
