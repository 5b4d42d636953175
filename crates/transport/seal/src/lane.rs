//! Division of a listening endpoint into shards.
//!
//! The upper byte of a session word is its lane. A client keeps the lane of its words as long as it lives, and the
//! server's words have the lane of the client. So every datagram of a client names the same lane, over all of its uplinks
//! and in all of its sessions, and the system can give it to the right shard without any key.

/// The place of the client's word in a hello, which begins with zeros instead of a word of the server.
const OF_HELLO: std::ops::Range<usize> = 8..12;

const BITS: u32 = 24;

/// The word with this lane and the lower bits of another one.
pub(crate) fn with_lane(lane: u8, word: u32) -> u32 {
    u32::from(lane) << BITS | word & ((1 << BITS) - 1)
}

/// The lane of a word.
pub(crate) fn of_word(word: u32) -> u8 {
    (word >> BITS) as u8
}

/// The shard, of `count`, of a datagram that arrived at a listening endpoint.
///
/// It is its lane modulo `count`. The lane is the first byte of the datagram; if the first four bytes are 0, it is byte 8.
/// A datagram that is too short has the lane 0.
pub fn shard_of(datagram: &[u8], count: usize) -> usize {
    let word = |range| datagram.get(range).and_then(|bytes: &[u8]| bytes.first_chunk::<4>());
    let word = word(0..4).filter(|word| **word != [0; 4]).or_else(|| word(OF_HELLO));
    let lane = word.map_or(0, |word| of_word(u32::from_be_bytes(*word)));
    usize::from(lane) % count.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_and_hellos_of_a_client_have_one_lane() {
        let word = with_lane(0xab, 0x1234_5678);
        assert_eq!((word, of_word(word)), (0xab34_5678, 0xab));
        let record = [&word.to_be_bytes()[..], &[0; 30]].concat();
        let hello = [&[0; 8][..], &word.to_be_bytes(), &[0; 30]].concat();
        for count in [1, 2, 3, 64] {
            let shard = 0xab % count;
            assert_eq!((shard_of(&record, count), shard_of(&hello, count)), (shard, shard));
        }
        assert_eq!(
            (shard_of(&record[..3], 7), shard_of(&hello[..11], 7), shard_of(&[], 0)),
            (0, 0, 0)
        );
    }
}
