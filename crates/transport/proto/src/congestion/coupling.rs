//! Couples the congestion windows of several paths.
//!
//! Paths of one association may share a bottleneck. If each path has the window of a separate
//! association, the association takes one share of the bottleneck for each path. If they are coupled,
//! all paths together take about one share. The controller of a path decides when a window changes; this
//! module decides by how much.

mod balia;
mod cmt_rp;
mod lia;
mod olia;

use std::time::Duration;

pub(crate) use self::olia::LossIntervals;
use crate::named::named;

/// Congestion control over all paths of an association that uses several at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Coupling {
    /// Not at all: each path is as greedy as a separate association (nat 1.2.3).
    #[default]
    Uncoupled,
    /// Linked Increases (RFC 6356): all paths together grow as one on the best of them would. The only one that CUBIC
    /// has, too.
    Lia,
    /// Opportunistic Linked Increases (Khalili et al. 2012): in addition, windows move to the paths with
    /// the fewest losses.
    Olia,
    /// Balanced Linked Adaptation (Peng et al. 2016): between these two in friendliness and
    /// responsiveness.
    Balia,
    /// CMT/RPv1 (Dreibholz et al. 2010): growth by a path's share of all slow-start thresholds; a
    /// loss takes half of all windows away from its path.
    CmtRpV1,
    /// CMT/RPv2 (Dreibholz 2012): growth by a path's share of the bandwidth; a loss takes half
    /// of the bandwidth away from its path.
    CmtRpV2,
}

named!(Coupling {
    Uncoupled = "uncoupled",
    Lia = "lia",
    Olia = "olia",
    Balia = "balia",
    CmtRpV1 = "cmt-rpv1",
    CmtRpV2 = "cmt-rpv2",
});

/// The values of one path that a coupling reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathView {
    /// Bytes of the congestion window that are in use: cwnd, or the bytes in flight if that is less
    /// (RFC 6356 section 3). 0 if the path carries no data.
    pub(crate) window: usize,
    /// Slow-start threshold in bytes.
    pub(crate) ssthresh: usize,
    /// Bytes of the largest DATA chunk.
    pub(crate) pmdcs: usize,
    /// Smoothed round-trip time, above zero.
    pub(crate) rtt: Duration,
    /// Bytes acknowledged between two losses.
    pub(crate) loss_interval: u64,
}

impl PathView {
    fn window(&self) -> f64 {
        self.window as f64
    }

    fn rtt(&self) -> f64 {
        self.rtt.as_secs_f64()
    }

    /// Bytes per second.
    fn rate(&self) -> f64 {
        self.window() / self.rtt()
    }
}

/// A path whose window is about to change, in the context of all paths.
#[derive(Clone, Copy, Debug)]
pub struct Coupled<'a> {
    coupling: Coupling,
    paths: &'a [PathView],
    own: PathView,
}

impl<'a> Coupled<'a> {
    /// A path whose window does not depend on others.
    pub const ALONE: Coupled<'static> = Coupled {
        coupling: Coupling::Uncoupled,
        paths: &[],
        own: PathView { window: 0, ssthresh: 0, pmdcs: 0, rtt: Duration::ZERO, loss_interval: 0 },
    };

    /// Path `index` of `paths`, which may be empty if paths are not coupled.
    pub(crate) fn new(coupling: Coupling, paths: &'a [PathView], index: usize) -> Self {
        match paths.get(index) {
            Some(own) if own.window > 0 => Self { coupling, paths, own: *own },
            _ => Self::ALONE,
        }
    }

    /// The growth of the window in slow start, if it would grow by `bytes` without other paths, and
    /// `left` bytes remain to the threshold.
    pub fn slow_start(&self, bytes: usize, left: usize) -> usize {
        let share = match self.coupling {
            Coupling::Uncoupled => return bytes,
            // RFC 6356 section 3, and the other algorithms: slow start is that of a single path.
            Coupling::Lia | Coupling::Olia | Coupling::Balia => 1.0,
            Coupling::CmtRpV1 => cmt_rp::share_of_thresholds(&self.own, self.paths),
            Coupling::CmtRpV2 => cmt_rp::share_of_bandwidth(&self.own, self.paths),
        };
        // A single path gains a packet beyond the threshold after each loss; coupled paths need several
        // round trips to gain that much.
        let bytes = bytes.min(left.saturating_add(1));
        ((bytes as f64 * share) as usize).clamp(1.min(bytes), bytes)
    }

    /// The change of the window in congestion avoidance after a full window was acknowledged. Without
    /// other paths this is one PMDCS, and it is never more.
    pub fn avoidance(&self, pmdcs: usize) -> isize {
        let packets = self.packets();
        let bytes = (packets * pmdcs as f64) as isize;
        // RFC 6356 section 3: growth of less than a byte is rounded up to one.
        if packets >= 0.0 { bytes.max(1) } else { bytes }
    }

    /// The same in packets: 1 without other paths, and from -1 to 1.
    pub fn packets(&self) -> f64 {
        let packets = match self.coupling {
            Coupling::Uncoupled => return 1.0,
            Coupling::Lia => lia::increase(&self.own, self.paths),
            Coupling::Olia => olia::increase(&self.own, self.paths),
            Coupling::Balia => balia::increase(&self.own, self.paths),
            Coupling::CmtRpV1 => cmt_rp::share_of_thresholds(&self.own, self.paths),
            Coupling::CmtRpV2 => cmt_rp::share_of_bandwidth(&self.own, self.paths),
        };
        packets.clamp(-1.0, 1.0)
    }

    /// The slow-start threshold after a loss in a window of `cwnd` bytes; `floor` is its minimum without
    /// other paths.
    pub fn threshold(&self, cwnd: usize, floor: usize) -> usize {
        let halved = (cwnd / 2).max(floor);
        let threshold = match self.coupling {
            Coupling::Uncoupled | Coupling::Lia | Coupling::Olia => return halved,
            Coupling::Balia => balia::threshold(&self.own, self.paths).max(floor as f64),
            Coupling::CmtRpV1 => cmt_rp::threshold_v1(&self.own, self.paths, floor),
            Coupling::CmtRpV2 => cmt_rp::threshold_v2(&self.own, self.paths, floor),
        };
        (threshold as usize).max(self.own.pmdcs).min(halved)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(super) const PMDCS: usize = 1000;

    /// A path with a window of `packets` packets that has had no loss yet.
    pub(super) fn path(packets: usize, rtt_millis: u64) -> PathView {
        PathView {
            window: packets * PMDCS,
            ssthresh: usize::MAX,
            pmdcs: PMDCS,
            rtt: Duration::from_millis(rtt_millis),
            loss_interval: 0,
        }
    }

    #[track_caller]
    pub(super) fn near(actual: f64, expected: f64) {
        assert!((actual - expected).abs() < 1e-9, "{actual} is not {expected}");
    }

    #[test]
    fn one_path_alone_grows_as_without_coupling() {
        let paths = [path(20, 100), path(0, 5), PathView { ssthresh: 9000, ..path(0, 5) }];
        for coupling in Coupling::ALL {
            let coupled = Coupled::new(*coupling, &paths, 0);
            assert_eq!(coupled.slow_start(1500, 9000), 1500, "{coupling}");
            assert_eq!(coupled.avoidance(PMDCS), 1000, "{coupling}");
            assert_eq!(coupled.threshold(20_000, 4000), 10_000, "{coupling}");
        }
    }

    #[test]
    fn two_equal_paths_grow_by_the_published_parts() {
        let paths = [path(20, 100); 2];
        let steps = Coupling::ALL.iter().map(|coupling| {
            let coupled = Coupled::new(*coupling, &paths, 1);
            (
                coupled.slow_start(1500, 9000),
                coupled.avoidance(PMDCS),
                coupled.threshold(20 * PMDCS, 4 * PMDCS),
            )
        });
        assert_eq!(
            steps.collect::<Vec<_>>(),
            [
                (1500, 1000, 10_000),
                (1500, 250, 10_000),
                (1500, 250, 10_000),
                (1500, 250, 10_000),
                (750, 500, 2000),
                (750, 500, 2000),
            ]
        );
    }

    #[test]
    fn slow_start_ends_at_the_threshold() {
        let paths = [path(20, 100); 2];
        let steps = [(1500, 1500), (1500, 999), (1500, 0), (0, 0)].map(|(bytes, left)| {
            [Coupling::Uncoupled, Coupling::Lia, Coupling::CmtRpV1]
                .map(|coupling| Coupled::new(coupling, &paths, 0).slow_start(bytes, left))
        });
        assert_eq!(steps, [[1500, 1500, 750], [1500, 1000, 500], [1500, 1, 1], [0, 0, 0]]);
    }

    #[test]
    fn what_would_be_less_than_a_byte_is_one() {
        let paths = [path(1, 10_000), path(100_000, 1)];
        for coupling in [Coupling::Lia, Coupling::CmtRpV1, Coupling::CmtRpV2] {
            assert_eq!(Coupled::new(coupling, &paths, 0).avoidance(PMDCS), 1, "{coupling}");
        }
        let coupled = Coupled::new(Coupling::CmtRpV2, &paths, 0);
        assert_eq!((coupled.slow_start(1000, 9000), coupled.slow_start(0, 9000)), (1, 0));
    }

    #[test]
    fn without_a_view_of_the_path_nothing_is_coupled() {
        for coupled in [
            Coupled::new(Coupling::Lia, &[], 0),
            Coupled::new(Coupling::CmtRpV2, &[path(0, 100), path(5, 100)], 0),
        ] {
            assert_eq!((coupled.slow_start(1500, 9000), coupled.avoidance(PMDCS)), (1500, 1000));
            assert_eq!(coupled.threshold(20_000, 4000), 10_000);
        }
    }

    fn views() -> impl Strategy<Value = Vec<PathView>> {
        let size = || prop_oneof![0_usize..3, 500_usize..100_000, 0_usize..1 << 50];
        let ssthresh = prop_oneof![Just(usize::MAX), size()];
        let rtt = prop_oneof![1_u64..3, 1_000_000_u64..1_000_000_000, 1_u64..1 << 56];
        let view = (size(), ssthresh, 500_usize..65_536, rtt, any::<u64>());
        prop::collection::vec(
            view.prop_map(|(window, ssthresh, pmdcs, rtt, loss_interval)| PathView {
                window,
                ssthresh,
                pmdcs,
                rtt: Duration::from_nanos(rtt),
                loss_interval,
            }),
            1..16,
        )
    }

    proptest! {
        /// RFC 6356 section 2, goal 2: no path takes more than a single path would.
        #[test]
        fn never_greedier_than_without_coupling(
            paths in views(),
            bytes in 0_usize..1_000_000,
            left in prop_oneof![0_usize..1_000_000, Just(usize::MAX)],
            mtus in 0_usize..10,
        ) {
            let sum: f64 = (0..paths.len())
                .filter(|index| paths[*index].window > 0)
                .map(|index| olia::alpha(&paths[index], &paths))
                .sum();
            prop_assert!(sum.abs() < 1e-9, "OLIA only moves window: {sum}");
            for (index, own) in paths.iter().enumerate() {
                for coupling in Coupling::ALL {
                    let coupled = Coupled::new(*coupling, &paths, index);
                    let grown = coupled.slow_start(bytes, left);
                    prop_assert!(grown <= bytes && (grown > 0 || bytes == 0));
                    let change = coupled.avoidance(own.pmdcs);
                    prop_assert!(change.unsigned_abs() <= own.pmdcs);
                    prop_assert!(change > 0 || *coupling == Coupling::Olia);
                    let halved = (own.window / 2).max(mtus * own.pmdcs);
                    let left = coupled.threshold(own.window, mtus * own.pmdcs);
                    prop_assert!(left <= halved && left >= own.pmdcs.min(halved));
                }
            }
        }
    }
}
