//! The calendar of future events.

use anabranch_proto::Instant;

/// Never.
const NEVER: u64 = u64::MAX;

/// The next times of a fixed set of sources. Each link direction, endpoint, application and so on
/// has one entry, which it may change at any time.
///
/// The calendar is a tournament tree: every inner node holds the earlier time of its two children.
/// Moving an entry costs a few comparisons on the way to the root, no entry is ever stale, and
/// memory does not grow with the run. Among sources due at the same time, the one added first comes
/// first.
#[derive(Debug)]
pub(crate) struct Calendar {
    /// The times. The leaves begin at `leaves`, the root is 1.
    nodes: Vec<u64>,
    leaves: usize,
    sources: usize,
}

impl Calendar {
    pub(crate) fn new() -> Self {
        Self { nodes: vec![NEVER; 2], leaves: 1, sources: 0 }
    }

    /// Adds a source that is never due.
    pub(crate) fn add(&mut self) -> usize {
        let source = self.sources;
        self.sources += 1;
        if self.sources > self.leaves {
            self.grow();
        }
        source
    }

    fn grow(&mut self) {
        let times = self.nodes.split_off(self.leaves);
        self.leaves = self.sources.next_power_of_two();
        self.nodes = vec![NEVER; 2 * self.leaves];
        for (source, time) in times.into_iter().enumerate() {
            self.set_nanos(source, time);
        }
    }

    /// Sets when a source is due; `None` means never.
    pub(crate) fn set(&mut self, source: usize, at: Option<Instant>) {
        self.set_nanos(source, at.map_or(NEVER, Instant::as_nanos));
    }

    /// The same in nanoseconds.
    pub(crate) fn set_nanos(&mut self, source: usize, at: u64) {
        let mut node = self.leaves + source;
        // The earliest time below `node`. Pass it up as a value: reading back what was just
        // written would make each step wait for the previous one.
        let mut earliest = at;
        while self.nodes[node] != earliest {
            self.nodes[node] = earliest;
            if node == 1 {
                break;
            }
            earliest = earliest.min(self.nodes[node ^ 1]);
            node /= 2;
        }
    }

    /// The next time and its source; `None` if no source is ever due.
    pub(crate) fn next(&self) -> Option<(Instant, usize)> {
        let time = self.nodes[1];
        if time == NEVER {
            return None;
        }
        let mut node = 1;
        while node < self.leaves {
            // On a tie the left child wins.
            node *= 2;
            node += usize::from(self.nodes[node] != time);
        }
        Some((Instant::from_nanos(time), node - self.leaves))
    }
}

#[cfg(test)]
mod tests {
    use anabranch_impair::Rng;

    use super::*;

    #[test]
    fn it_agrees_with_a_search() {
        let mut calendar = Calendar::new();
        let mut times: Vec<u64> = Vec::new();
        let mut rng = Rng::new(5);
        for _ in 0..5000 {
            if times.len() < 37 && rng.below(20) == 0 {
                assert_eq!(calendar.add(), times.len());
                times.push(NEVER);
            } else if !times.is_empty() {
                let source = rng.below(times.len() as u64) as usize;
                let at = if rng.below(5) == 0 { NEVER } else { rng.below(50) };
                calendar.set_nanos(source, at);
                times[source] = at;
            }
            let earliest = times.iter().enumerate().min_by_key(|(_, time)| **time);
            let expected = earliest
                .filter(|(_, time)| **time != NEVER)
                .map(|(source, time)| (Instant::from_nanos(*time), source));
            assert_eq!(calendar.next(), expected);
        }
    }

    #[test]
    fn of_equals_the_first_comes_first() {
        let mut calendar = Calendar::new();
        let sources = [calendar.add(), calendar.add(), calendar.add()];
        for source in sources.into_iter().rev() {
            calendar.set(source, Some(Instant::from_nanos(7)));
        }
        for source in sources {
            assert_eq!(calendar.next(), Some((Instant::from_nanos(7), source)));
            calendar.set(source, None);
        }
        assert_eq!(calendar.next(), None);
    }
}
