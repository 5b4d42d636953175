//! Metrics of connections to a host, stored for later ones (temporal sharing, RFC 9040 section 6; RFC 2140): times,
//! reordering, and the slow-start threshold.
//!
//! A short connection rarely learns the capacity of the path, and one loss leaves it with a threshold of two segments.
//! Reusing that threshold costs the next connection several round trips (hurtig Paper V), so an option selects which
//! metrics are reused.

use std::collections::BTreeMap;
use std::time::Duration;

use anabranch_units::Instant;

use crate::options::MetricCache as Mode;

/// Maximum number of pairs of hosts in the cache.
const MOST: usize = 1024;

/// Older metrics are discarded.
const LIFE: Duration = Duration::from_secs(600);

/// A stored threshold doubles each time this has passed: a full path may be empty by then.
const DOUBLES_AFTER: Duration = Duration::from_secs(60);

/// The metrics of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Smoothed round-trip time and its variation.
    pub rtt: Option<(Duration, Duration)>,
    /// Slow start threshold in bytes, if there was a loss.
    pub ssthresh: Option<u64>,
    /// Whether several windows of data were acknowledged since the threshold was last set, so that it says something
    /// about the path.
    pub settled: bool,
    /// The largest number of segments by which a segment arrived late.
    pub reordering: u64,
}

impl Metrics {
    /// Merges both: the mean of times and of thresholds (section 6.2: exponential decay by one half).
    fn merge(self, newer: Self) -> Self {
        let half = |a: Duration, b: Duration| (a + b) / 2;
        Self {
            rtt: match (self.rtt, newer.rtt) {
                (Some(a), Some(b)) => Some((half(a.0, b.0), half(a.1, b.1))),
                (a, b) => b.or(a),
            },
            ssthresh: match (self.ssthresh, newer.ssthresh) {
                (Some(a), Some(b)) => Some(a.midpoint(b)),
                (a, b) => b.or(a),
            },
            settled: newer.settled,
            reordering: newer.reordering.max(self.reordering),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    metrics: Metrics,
    at: Instant,
}

/// The metrics of pairs of hosts; `K` identifies a pair.
#[derive(Clone, Debug)]
pub struct Cache<K> {
    entries: BTreeMap<K, Entry>,
}

impl<K> Default for Cache<K> {
    fn default() -> Self {
        Self { entries: BTreeMap::new() }
    }
}

impl<K: Ord + Clone> Cache<K> {
    /// Records metrics of a connection that has ended, or of one that continues while another starts.
    pub fn note(&mut self, mode: Mode, now: Instant, key: K, learnt: Metrics) {
        let learnt = match mode {
            Mode::Off => return,
            Mode::Full => learnt,
            Mode::Selective => Metrics { ssthresh: None, ..learnt },
            Mode::Informed => {
                let ssthresh = learnt.ssthresh.filter(|_| learnt.settled);
                let learnt = Metrics { ssthresh, ..learnt };
                self.get(mode, now, &key).map_or(learnt, |known| known.merge(learnt))
            }
        };
        if self.entries.len() >= MOST && !self.entries.contains_key(&key) {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.at);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                self.entries.remove(&oldest);
            }
        }
        self.entries.insert(key, Entry { metrics: learnt, at: now });
    }

    /// The initial metrics for a new connection between these hosts.
    pub fn get(&self, mode: Mode, now: Instant, key: &K) -> Option<Metrics> {
        if mode == Mode::Off {
            return None;
        }
        let entry = self.entries.get(key)?;
        let age = now.saturating_since(entry.at);
        let mut metrics = entry.metrics;
        if mode == Mode::Informed {
            if age > LIFE {
                return None;
            }
            let doublings = age.as_secs() / DOUBLES_AFTER.as_secs();
            metrics.ssthresh = metrics.ssthresh.map(|bytes| bytes.saturating_mul(1 << doublings));
        }
        Some(metrics)
    }

    /// Forgets all metrics, because an interface has changed.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Number of pairs in the cache.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learnt(millis: u64, ssthresh: u64, settled: bool) -> Metrics {
        let rtt = Duration::from_millis(millis);
        let ssthresh = Some(ssthresh);
        Metrics { rtt: Some((rtt, rtt / 4)), ssthresh, settled, reordering: 3 }
    }

    fn after(mode: Mode, seconds: u64) -> Option<Metrics> {
        let mut cache = Cache::default();
        cache.note(mode, Instant::ZERO, 7, learnt(100, 3000, false));
        assert_eq!(cache.get(mode, Instant::ZERO, &8), None);
        cache.get(mode, Instant::from_secs(seconds), &7)
    }

    #[test]
    fn each_mode_hands_on_what_it_should() {
        assert_eq!(after(Mode::Off, 0), None);
        assert_eq!(after(Mode::Full, 5000), Some(learnt(100, 3000, false)));
        let selected = after(Mode::Selective, 5000).unwrap();
        assert_eq!((selected.ssthresh, selected.reordering), (None, 3));
        assert!(selected.rtt.is_some());
        let informed = after(Mode::Informed, 0).unwrap();
        assert_eq!(informed.ssthresh, None, "it has not settled");
        assert_eq!(after(Mode::Informed, 601), None);
    }

    #[test]
    fn what_informs_is_merged_and_fades() {
        let mode = Mode::Informed;
        let mut cache = Cache::default();
        cache.note(mode, Instant::ZERO, 7, learnt(100, 3000, true));
        cache.note(mode, Instant::from_secs(1), 7, learnt(200, 9000, true));
        let now = cache.get(mode, Instant::from_secs(2), &7).unwrap();
        assert_eq!(now, learnt(150, 6000, true));
        let later = cache.get(mode, Instant::from_secs(122), &7).unwrap();
        assert_eq!(later.ssthresh, Some(24_000), "doubled twice");
        // A short connection does not change the threshold.
        cache.note(mode, Instant::from_secs(3), 7, learnt(150, 2000, false));
        assert_eq!(cache.get(mode, Instant::from_secs(3), &7).unwrap().ssthresh, Some(6000));
    }

    #[test]
    fn strangers_do_not_fill_it() {
        let mut cache = Cache::default();
        for stranger in 0..5000 {
            cache.note(Mode::Full, Instant::from_secs(stranger), stranger, Metrics::default());
        }
        assert_eq!(cache.len(), MOST);
        assert!(cache.get(Mode::Full, Instant::from_secs(5000), &4999).is_some());
        cache.clear();
        assert!(cache.is_empty());
    }
}
