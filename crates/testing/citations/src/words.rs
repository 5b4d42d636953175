//! Words, and fingerprints of runs of three of them.

use std::collections::BTreeSet;

/// The words of a text: runs of letters and digits, so that punctuation, hyphens and line wraps
/// make no difference.
pub(crate) fn words(text: &str) -> Vec<&str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect()
}

/// A number of 24 bits for each run of three words (FNV-1a, folded).
pub(crate) fn fingerprints(words: &[&str]) -> BTreeSet<u32> {
    words.windows(3).map(fold).collect()
}

fn fold(run: &[&str]) -> u32 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in run.iter().flat_map(|word| word.bytes().chain([0])) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    ((hash ^ (hash >> 24) ^ (hash >> 48)) & 0xff_ffff) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn punctuation_and_wraps_do_not_count() {
        assert_eq!(
            words("the T3-\n   rtx timer, (if any)."),
            ["the", "T3", "rtx", "timer", "if", "any"]
        );
        let all = fingerprints(&words("one two three four"));
        assert_eq!(all.len(), 2);
        assert!(all.is_superset(&fingerprints(&words("two, three: four"))));
        assert!(!all.is_superset(&fingerprints(&words("one three four"))));
        assert!(fingerprints(&words("one two")).is_empty());
    }
}
