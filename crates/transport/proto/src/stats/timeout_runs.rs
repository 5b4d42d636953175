//! Timeouts of one path in a row.

/// Lengths of runs that are counted separately: two timeouts, and so on up to five.
pub(crate) const RUNS: usize = 4;

/// Expiries of T3-rtx in a row, with no sign of life between them (nat table 4.1).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimeoutRuns {
    current: u16,
    pub(crate) longest: u16,
    /// Runs that became two timeouts long, three, four, five.
    pub(crate) reached: [u16; RUNS],
}

impl TimeoutRuns {
    /// Data on the path timed out.
    pub(crate) fn on_timeout(&mut self) {
        self.current = self.current.saturating_add(1);
        self.longest = self.longest.max(self.current);
        let reached = usize::from(self.current).checked_sub(2);
        if let Some(count) = reached.and_then(|index| self.reached.get_mut(index)) {
            *count = count.saturating_add(1);
        }
    }

    /// The path proved to be alive.
    pub(crate) fn end(&mut self) {
        self.current = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_counts_once_for_every_length_that_it_reaches() {
        let mut runs = TimeoutRuns::default();
        for length in [1, 2, 0, 7, 2] {
            for _ in 0..length {
                runs.on_timeout();
            }
            runs.end();
        }
        assert_eq!((runs.longest, runs.reached), (7, [3, 1, 1, 1]));
    }
}
