//! Notices that the delivery rate no longer grows although more is sent (BBR draft, section 5.3.1.2).

/// Rounds without growth that show a plateau.
const ROUNDS: u32 = 3;

/// The search for a plateau.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FullPipe {
    /// The path has been full once.
    pub(super) reached: bool,
    /// It is full now, as far as the current search shows.
    pub(super) now: bool,
    /// The rate that must be exceeded by a quarter, in bytes per second.
    rate: u64,
    count: u32,
}

impl FullPipe {
    /// Begins a search. `rate`: what is delivered now.
    pub(super) fn restart(&mut self, rate: u64) {
        *self = Self { reached: self.reached, now: false, rate, count: 0 };
    }

    /// Other evidence shows that the path is full.
    pub(super) fn conclude(&mut self) {
        (self.reached, self.now) = (true, true);
    }

    /// Evaluates the rate at the end of a round that the application did not limit.
    pub(super) fn on_round(&mut self, rate: u64) {
        if self.now {
            return;
        }
        if rate >= self.rate.saturating_add(self.rate / 4) {
            self.restart(rate);
            return;
        }
        self.count += 1;
        if self.count >= ROUNDS {
            self.conclude();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_rounds_without_a_quarter_more_are_a_plateau() {
        let mut pipe = FullPipe::default();
        for rate in [1000, 2000, 2400, 2500, 2600, 3000] {
            pipe.on_round(rate);
            assert!(!pipe.now, "{rate}");
        }
        pipe.on_round(3124);
        assert!(pipe.now && pipe.reached, "2,500, and three rounds below 3,125");
        pipe.restart(3000);
        assert!(!pipe.now && pipe.reached);
        for _ in 0..3 {
            assert!(!pipe.now);
            pipe.on_round(3700);
        }
        assert!(pipe.now);
    }
}
