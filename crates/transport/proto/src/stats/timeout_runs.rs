//! Counts timeouts of one path in a row.

/// The number of run lengths that are counted separately: from two to five timeouts.
pub(crate) const RUNS: usize = 4;

/// Expiries of T3-rtx in a row, without evidence in between that the path works (nat table 4.1).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimeoutRuns {
    current: u16,
    pub(crate) longest: u16,
    /// The number of runs that reached two, three, four and five timeouts.
    pub(crate) reached: [u16; RUNS],
}

impl TimeoutRuns {
    /// Records a timeout of data on the path.
    pub(crate) fn on_timeout(&mut self) {
        self.current = self.current.saturating_add(1);
        self.longest = self.longest.max(self.current);
        let reached = usize::from(self.current).checked_sub(2);
        if let Some(count) = reached.and_then(|index| self.reached.get_mut(index)) {
            *count = count.saturating_add(1);
        }
    }

    /// Ends the run, because the path proved to work.
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
