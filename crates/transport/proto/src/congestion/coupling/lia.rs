//! LIA, the Linked Increases Algorithm of RFC 6356 section 3.
//!
//! All paths together get the rate that a single path would get on the best of them. They share it in proportion
//! to their windows, so better paths carry more. A loss halves the window of its path, as without
//! coupling.

use super::PathView;

/// Growth in packets for a window's worth of acknowledged bytes: formulas (1) and (2) of RFC 6356
/// with `bytes_acked` equal to the window, in which cwnd_total cancels out.
pub(super) fn increase(own: &PathView, paths: &[PathView]) -> f64 {
    let best = paths.iter().map(|p| p.rate() / p.rtt()).fold(0.0, f64::max);
    let rate: f64 = paths.iter().map(PathView::rate).sum();
    (own.window() * best / (rate * rate)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::coupling::tests::{near, path};

    #[test]
    fn the_formula_worked_by_hand() {
        // Rates 100,000 and 400,000 bytes/s, w/r^2 1e6 and 8e6: 8e6 / (5e5)^2 = 3.2e-5 for each byte.
        let paths = [path(10, 100), path(20, 50)];
        near(increase(&paths[0], &paths), 0.32);
        near(increase(&paths[1], &paths), 0.64);
        near(increase(&paths[1], &paths[1..]), 1.0);
    }

    #[test]
    fn no_more_than_one_path_alone() {
        // 100,000 * 1e7 / (2e5)^2 would be 25.
        let paths = [path(100, 1000), path(1, 10)];
        near(increase(&paths[0], &paths), 1.0);
        near(increase(&paths[1], &paths), 0.25);
    }
}
