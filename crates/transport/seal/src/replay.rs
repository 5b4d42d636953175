//! Remembers which packets of a path have arrived, so that none is accepted twice.

/// Numbers below the highest one that are remembered. At 1 Gb/s this is 380 ms of packets of 1,400 bytes that overtake
/// each other on one path; different paths have windows of their own.
pub(crate) const WINDOW: u64 = 32_768;

const WORDS: usize = (WINDOW / 64) as usize;

/// The numbers seen: the highest one, and a bit for each of the [`WINDOW`] numbers up to it.
pub(crate) struct Window {
    /// The highest number seen, plus one.
    end: u64,
    bits: Box<[u64; WORDS]>,
}

impl Window {
    pub(crate) fn new() -> Self {
        Self { end: 0, bits: Box::new([0; WORDS]) }
    }

    /// Whether a packet with this number may still be accepted.
    pub(crate) fn may_accept(&self, number: u64) -> bool {
        number >= self.end || (self.end - number <= WINDOW && !self.is_set(number))
    }

    /// Records the number of an authentic packet. Returns whether it is the highest so far.
    pub(crate) fn record(&mut self, number: u64) -> bool {
        let newest = number >= self.end;
        if newest {
            self.clear(self.end, number);
            self.end = number + 1;
        }
        let (word, bit) = place(number);
        self.bits[word] |= bit;
        newest
    }

    fn is_set(&self, number: u64) -> bool {
        let (word, bit) = place(number);
        self.bits[word] & bit != 0
    }

    /// Forgets numbers that shared the places of `from` to `to`, both included.
    fn clear(&mut self, from: u64, to: u64) {
        if to - from >= WINDOW {
            self.bits.fill(0);
            return;
        }
        let mut number = from;
        while number <= to {
            let (word, bit) = place(number);
            if number.is_multiple_of(64) && to - number >= 63 {
                self.bits[word] = 0;
                number += 64;
            } else {
                self.bits[word] &= !bit;
                number += 1;
            }
        }
    }
}

impl std::fmt::Debug for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Window").field("end", &self.end).finish_non_exhaustive()
    }
}

fn place(number: u64) -> (usize, u64) {
    ((number / 64) as usize % WORDS, 1 << (number % 64))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn accept(window: &mut Window, number: u64) -> bool {
        let accepted = window.may_accept(number);
        if accepted {
            window.record(number);
        }
        accepted
    }

    #[test]
    fn the_window_ends_exactly() {
        let mut window = Window::new();
        assert!(accept(&mut window, WINDOW));
        assert!(accept(&mut window, 1));
        assert!(!accept(&mut window, 0));
        assert!(!accept(&mut window, 1));
        assert!(!window.record(2));
        assert!(window.record(WINDOW + 1));
    }

    proptest! {
        /// Steps of all sizes, back and forth, against a set of all numbers.
        #[test]
        fn nothing_is_accepted_twice(
            steps in prop::collection::vec(prop_oneof![-70i64..70, -40_000i64..40_000], 1..200),
        ) {
            let (mut window, mut seen, mut number, mut highest) =
                (Window::new(), BTreeSet::new(), 100_000i64, 0);
            for step in steps {
                number = (number + step).max(0);
                let value = number.unsigned_abs();
                let recent = value >= highest || highest - value < WINDOW;
                prop_assert_eq!(accept(&mut window, value), recent && !seen.contains(&value));
                if recent {
                    seen.insert(value);
                }
                highest = highest.max(value);
            }
        }
    }
}
