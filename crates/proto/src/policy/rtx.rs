//! Retransmission policies of concurrent multipath transfer: RTX-ASAP, RTX-CWND, RTX-SSTHRESH and
//! RTX-LOSSRATE (Iyengar, Amer, Stewart, "Retransmission policies for concurrent multipath transfer
//! using SCTP multihoming", 2004). RTX-SAME is AllRtxSame.
//!
//! Each takes the best by a measure of its own, of the active paths that carry new data. Among equals it is not the path that
//! lost the chunk, and of the others the next in turn; the publication draws lots.

use std::cmp::Reverse;

use super::Windows;
use crate::path::Path;
use crate::per_path::{PathId, PerPath};

/// RTX-ASAP: a path that may send at once; the one with the most room in its congestion window. A
/// path that is full is better than none, and what waits for it is given to the first that has room
/// (see `Sender::retransmit_asap`).
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

/// RTX-LOSSRATE: the path with the lowest loss.
pub(super) fn loss_rate(paths: &PerPath<Path>, from: PathId) -> Option<PathId> {
    // Rates are not negative, and the bits of such floats are in their order.
    best(paths, from, |path| Reverse(paths[path].loss.loss().map_or(0, f64::to_bits)))
}

fn best<K: Ord>(
    paths: &PerPath<Path>,
    from: PathId,
    measure: impl Fn(PathId) -> K,
) -> Option<PathId> {
    // Of several the last one is taken: another one than `from` if there is one, the next in turn.
    (paths.in_turn_after(from).rev())
        .filter(|path| paths[*path].is_concurrent())
        .max_by_key(|path| measure(*path))
}
