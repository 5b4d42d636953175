//! The path with the lowest measured latency for new data, without concurrent multipath transfer: proposed as future
//! work in hurtig 7 ('detect the path that has the lowest latency and use that path for communication').
//!
//! Prefer it for small messages over paths whose delays differ or change. A bulk transfer that fills the queue of the
//! best path makes it the worse one, and moves on.
//!
//! Hysteresis: data moves only to a path that is shorter by a fifth and by a millisecond, and then stays for a second.
//! Otherwise the queue that the data itself causes would move it back and forth with each measurement. Paths without
//! data are measured by heartbeats, at `latency_probe_interval`.

use std::time::Duration;

use crate::named::named;
use crate::options::words;
use crate::path::Path;
use crate::per_path::{PathId, PerPath};
use crate::time::Instant;

/// Which path carries new data, while several are active and only one does at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum DataPath {
    /// The primary path (RFC 9260 section 6.4).
    #[default]
    Primary,
    /// The path with the lowest measured latency.
    LowestLatency,
}

named!(DataPath { Primary = "primary", LowestLatency = "lowest-latency", });
words!(DataPath);

/// Data moves only to a path whose round trip is shorter by at least this.
const LEAST_GAIN: Duration = Duration::from_millis(1);

/// How long data stays on a path before latency moves it again.
const STAY: Duration = Duration::from_secs(1);

/// The path to which new data moves from path `current`, which it has used since `since`; `None` to stay.
pub(crate) fn better(
    now: Instant,
    current: PathId,
    since: Option<Instant>,
    paths: &PerPath<Path>,
) -> Option<PathId> {
    if since.is_some_and(|since| now.saturating_since(since) < STAY) {
        return None;
    }
    let latency = |path: &Path| path.rtt.srtt();
    let this = latency(&paths[current])?;
    let best = paths
        .iter()
        .filter(|path| path.is_active() && path.error_count == 0 && latency(path).is_some())
        .min_by_key(|path| latency(path))?;
    let gain = this.saturating_sub(latency(best)?);
    (best.id != current && gain >= LEAST_GAIN && gain >= this / 5).then_some(best.id)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::config::{AssociationConfig, Encapsulation};
    use crate::event::PathState;

    const NOW: Instant = Instant::from_nanos(60_000_000_000);

    /// Paths with these round-trip times in milliseconds; 0 is a path that was not measured.
    fn paths(millis: &[u64]) -> PerPath<Path> {
        let config = AssociationConfig::default();
        let setup = config.of_path(Encapsulation::Ip);
        let path = |(number, millis): (u16, &u64)| {
            let host = IpAddr::from([10, 0, 0, number as u8]);
            let mut path = Path::new(Instant::ZERO, host, host, 0, &setup);
            path.id = PathId(number);
            path.state = PathState::Active;
            if *millis > 0 {
                path.rtt.on_measurement(Duration::from_millis(*millis));
            }
            path
        };
        (0..).zip(millis).map(path).collect()
    }

    fn from_first(millis: &[u64]) -> Option<u16> {
        better(NOW, PathId(0), None, &paths(millis)).map(PathId::number)
    }

    #[test]
    fn the_shortest_of_the_measured_paths_is_taken() {
        assert_eq!(from_first(&[100, 60, 50]), Some(2));
        assert_eq!(from_first(&[100, 0, 120]), None);
        assert_eq!(from_first(&[0, 50]), None, "nothing to compare with");
        let mut failed = paths(&[100, 50, 60]);
        failed[PathId(1)].state = PathState::Inactive;
        assert_eq!(better(NOW, PathId(0), None, &failed), Some(PathId(2)));
        failed[PathId(2)].error_count = 1;
        assert_eq!(better(NOW, PathId(0), None, &failed), None, "one may have failed");
    }

    #[test]
    fn a_small_gain_moves_nothing() {
        assert_eq!(from_first(&[100, 81]), None);
        assert_eq!(from_first(&[100, 80]), Some(1));
        let mut near = paths(&[0, 0]);
        near[PathId(0)].rtt.on_measurement(Duration::from_micros(1200));
        near[PathId(1)].rtt.on_measurement(Duration::from_micros(300));
        assert_eq!(better(NOW, PathId(0), None, &near), None, "less than a millisecond");
    }

    #[test]
    fn data_that_has_moved_stays_for_a_second() {
        let paths = paths(&[100, 10]);
        let moved = |ago| Some(NOW - Duration::from_millis(ago));
        assert_eq!(better(NOW, PathId(0), moved(999), &paths), None);
        assert_eq!(better(NOW, PathId(0), moved(1000), &paths), Some(PathId(1)));
    }
}
