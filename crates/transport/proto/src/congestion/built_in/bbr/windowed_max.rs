//! The maximum over a window of rounds, in constant memory: Kathleen Nichols' algorithm, which keeps the best value
//! and two later ones that may follow it.

/// A value, and the round in which it was seen.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    round: u64,
    value: u64,
}

/// The maximum of the last rounds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WindowedMax {
    best: [Seen; 3],
}

impl WindowedMax {
    /// The maximum.
    pub(super) fn get(&self) -> u64 {
        self.best[0].value
    }

    /// Adds a value that was seen in `round`, and forgets those that are more than `window` rounds old.
    pub(super) fn update(&mut self, window: u64, round: u64, value: u64) {
        let new = Seen { round, value };
        let age = |seen: Seen| round.saturating_sub(seen.round);
        let best = &mut self.best;
        if value >= best[0].value || age(best[2]) > window {
            *best = [new; 3];
            return;
        }
        if value >= best[1].value {
            (best[1], best[2]) = (new, new);
        } else if value >= best[2].value {
            best[2] = new;
        }
        let oldest = age(best[0]);
        if oldest > window {
            *best = [best[1], best[2], new];
            if age(best[0]) > window {
                *best = [best[1], best[2], new];
            }
        } else if best[1].round == best[0].round && oldest > window / 4 {
            (best[1], best[2]) = (new, new);
        } else if best[2].round == best[1].round && oldest > window / 2 {
            best[2] = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_maximum_is_kept_for_the_window() {
        let mut max = WindowedMax::default();
        max.update(10, 1, 500);
        for round in 2..=11 {
            max.update(10, round, 100 + round);
            assert_eq!(max.get(), 500, "round {round}");
        }
        max.update(10, 12, 50);
        assert!((105..=111).contains(&max.get()), "{}", max.get());
        max.update(1, 40, 7);
        assert_eq!(max.get(), 7, "the others are old");
    }

    proptest! {
        /// Never more than what was seen in the window, and never less than the latest value.
        #[test]
        fn it_lies_between_the_latest_value_and_the_true_maximum(
            values in prop::collection::vec((0..4_u64, any::<u64>()), 1..60),
            window in 1..20_u64,
        ) {
            let (mut max, mut round, mut seen) = (WindowedMax::default(), 1, Vec::new());
            for (later, value) in values {
                round += later;
                seen.push((round, value));
                max.update(window, round, value);
                let recent = seen.iter().filter(|(at, _)| round - at <= window);
                let truth = recent.map(|(_, value)| *value).max().unwrap();
                prop_assert!((value..=truth).contains(&max.get()));
            }
        }
    }
}
