//! Retransmission policies of concurrent multipath transfer: RTX-ASAP, RTX-CWND, RTX-SSTHRESH and RTX-LOSSRATE
//! (Iyengar, Amer, Stewart, "Retransmission policies for concurrent multipath transfer using SCTP multihoming", 2004).
//! RTX-SAME is AllRtxSame.
//!
//! Each policy picks the best of the active paths that carry new data, by its own measure. Among equals it prefers
//! paths with the fewest errors in a row, then paths other than the one that lost the chunk, then the next in
//! rotation. The publication picks randomly. But windows and thresholds have a minimum, so equals are common after
//! timeouts; and if the random choice hits a dead path, the chunk waits for a backed-off timer.

use std::cmp::Reverse;

use super::Windows;
use crate::path::Path;
use crate::per_path::{PathId, PerPath};

/// RTX-ASAP: a path that may send immediately; of several, the one with the most room in its congestion
/// window. If all are full, chunks wait for one of them and move to the first path that has room (see
/// `Sender::retransmit_asap`).
pub(super) fn asap(
    paths: &PerPath<Path>,
    from: PathId,
    windows: impl Fn(PathId) -> Windows,
) -> Option<PathId> {
    best(paths, from, |path| {
        let Windows { cwnd, flight, .. } = windows(path);
        cwnd.saturating_sub(flight)
    })
}

/// RTX-CWND: the path with the largest congestion window.
pub(super) fn cwnd(
    paths: &PerPath<Path>,
    from: PathId,
    windows: impl Fn(PathId) -> Windows,
) -> Option<PathId> {
    best(paths, from, |path| windows(path).cwnd)
}

/// RTX-SSTHRESH: the path with the largest slow-start threshold.
pub(super) fn ssthresh(
    paths: &PerPath<Path>,
    from: PathId,
    windows: impl Fn(PathId) -> Windows,
) -> Option<PathId> {
    best(paths, from, |path| windows(path).ssthresh)
}

/// RTX-LOSSRATE: the path with the lowest loss rate.
pub(super) fn loss_rate(paths: &PerPath<Path>, from: PathId) -> Option<PathId> {
    // Rates are not negative, and the bit patterns of such floats sort like their values.
    best(paths, from, |path| Reverse(paths[path].loss.loss().map_or(0, f64::to_bits)))
}

fn best<K: Ord>(
    paths: &PerPath<Path>,
    from: PathId,
    measure: impl Fn(PathId) -> K,
) -> Option<PathId> {
    // If several are equal, the last one is taken: not `from` if there is another one, and the next
    // in rotation.
    (paths.in_turn_after(from).rev())
        .filter(|path| paths[*path].is_concurrent())
        .max_by_key(|path| (measure(*path), Reverse(paths[*path].error_count)))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::config::{AssociationConfig, Encapsulation};
    use crate::path::Paths;
    use crate::time::Instant;

    /// The path chosen for a chunk that path `from` of two lost, with these thresholds and errors.
    fn chosen(from: u16, thresholds: [usize; 2], errors: [u32; 2]) -> Option<u16> {
        let config = AssociationConfig::rfc4960();
        let path = |net: u8, errors| {
            let address = |host| IpAddr::from([10, net, 0, host]);
            let options = config.of_path(Encapsulation::Ip);
            let mut path = Path::new(Instant::ZERO, address(1), address(2), 0, &options);
            path.state = crate::event::PathState::Active;
            path.concurrent = true;
            path.error_count = errors;
            path
        };
        let paths = Paths::new(vec![path(0, errors[0]), path(1, errors[1])]);
        let windows = |path: PathId| Windows {
            flight: 0,
            cwnd: 0,
            ssthresh: thresholds[usize::from(path.number())],
        };
        ssthresh(&paths, PathId(from), windows).map(PathId::number)
    }

    #[test]
    fn of_equals_one_that_has_not_timed_out_is_taken() {
        assert_eq!(chosen(0, [5, 4], [9, 0]), Some(0), "the measure comes first");
        assert_eq!(chosen(0, [4, 4], [0, 0]), Some(1));
        assert_eq!(chosen(1, [4, 4], [0, 0]), Some(0));
        // Both have timed out and are at the floor, path 1 more often.
        assert_eq!(chosen(0, [4, 4], [1, 3]), Some(0));
        assert_eq!(chosen(1, [4, 4], [1, 3]), Some(0));
    }
}
