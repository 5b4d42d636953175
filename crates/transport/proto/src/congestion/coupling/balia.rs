//! BALIA, the Balanced Linked Adaptation Algorithm (Peng, Walid, Hwang, Low: Multipath TCP: Analysis,
//! Design, and Implementation, 2016).
//!
//! It balances friendliness and responsiveness: windows grow approximately as with LIA, and the worse a
//! path is, the more a loss reduces its window, by up to three quarters.

use super::PathView;

/// Growth in packets for a window's worth of acknowledged packets. With x_i = w_i / r_i and a_i =
/// max(x) / x_i it is (x_i / sum(x))^2 (1 + a_i)/2 (4 + a_i)/5; written with s = 1 / a_i, which
/// cannot overflow.
pub(super) fn increase(own: &PathView, paths: &[PathView]) -> f64 {
    let (sum, max) = rates(paths);
    let (s, best) = (own.rate() / max, max / sum);
    best * best * (1.0 + s) * (1.0 + 4.0 * s) / 10.0
}

/// The window after a loss, in bytes: w_i - w_i/2 min(a_i, 1.5).
pub(super) fn threshold(own: &PathView, paths: &[PathView]) -> f64 {
    let (_, max) = rates(paths);
    own.window() * (1.0 - (max / own.rate()).min(1.5) / 2.0)
}

/// Sum and maximum of the rates.
fn rates(paths: &[PathView]) -> (f64, f64) {
    paths.iter().map(PathView::rate).fold((0.0, 0.0), |(sum, max), x| (sum + x, x.max(max)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::coupling::tests::{near, path};

    #[test]
    fn the_formulas_worked_by_hand() {
        // Rates 1e5 and 4e5: a is 4 and 1. (1/5)^2 * 5/2 * 8/5 = 0.16, (4/5)^2 * 1 * 1 = 0.64.
        let paths = [path(10, 100), path(20, 50)];
        near(increase(&paths[0], &paths), 0.16);
        near(increase(&paths[1], &paths), 0.64);
        near(threshold(&paths[0], &paths), 2500.0);
        near(threshold(&paths[1], &paths), 10_000.0);
        // a is 1.2, less than 1.5.
        near(threshold(&path(10, 100), &[path(10, 100), path(12, 100)]), 4000.0);
    }
}
