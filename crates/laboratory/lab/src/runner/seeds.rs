//! Seeds of runs.

use anabranch_impair::Rng;

/// The seed of a run. It depends on the scenario's name, the point without paired axes, and the
/// number of the run. Runs of the same number at points that differ only on paired axes therefore
/// have the same seed.
pub fn seed(scenario: &str, seed_key: &str, number: usize) -> u64 {
    Rng::stream(of_point(scenario, seed_key), number as u64).next_u64()
}

/// The seeds of all runs of a point, from number 0.
pub(crate) fn seeds(scenario: &str, seed_key: &str) -> impl Iterator<Item = u64> {
    let point = of_point(scenario, seed_key);
    (0..).map(move |number| Rng::stream(point, number).next_u64())
}

fn of_point(scenario: &str, seed_key: &str) -> u64 {
    fingerprint(scenario.bytes().chain([0]).chain(seed_key.bytes()))
}

/// FNV-1a: the same on every machine and forever.
pub(super) fn fingerprint(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_depend_on_all_three() {
        let base = seed("a/1", "x=1", 0);
        assert_eq!(base, seed("a/1", "x=1", 0));
        for other in [seed("a/2", "x=1", 0), seed("a/1", "x=2", 0), seed("a/1", "x=1", 1)] {
            assert_ne!(base, other);
        }
        let first: Vec<u64> = seeds("a/1", "x=1").take(3).collect();
        assert_eq!(first, [0, 1, 2].map(|number| seed("a/1", "x=1", number)));
    }
}
