//! Traffic of a path as counters that only grow, so that several paths can be added up, and two
//! snapshots of the same ones subtracted.

use std::ops::{AddAssign, Sub};

use super::PathStatistics;

/// A counter, or several of a kind.
trait Counter: Copy {
    fn add(&mut self, other: Self);
    fn since(self, earlier: Self) -> Self;
}

impl Counter for u64 {
    fn add(&mut self, other: Self) {
        *self = self.saturating_add(other);
    }

    fn since(self, earlier: Self) -> Self {
        self.saturating_sub(earlier)
    }
}

impl<const N: usize> Counter for [u64; N] {
    fn add(&mut self, other: Self) {
        self.iter_mut().zip(other).for_each(|(sum, count)| Counter::add(sum, count));
    }

    fn since(self, earlier: Self) -> Self {
        std::array::from_fn(|at| self[at].saturating_sub(earlier[at]))
    }
}

/// Declares the counters: each is a field of [`PathStatistics`], or derived from it.
macro_rules! totals {
    ($($(#[doc = $doc:literal])* $field:ident: $type:ty = |$path:ident| $value:expr;)*) => {
        /// The counters of a path, or of several together.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[non_exhaustive]
        pub struct PathTotals {
            $($(#[doc = $doc])* pub $field: $type,)*
        }

        impl From<&PathStatistics> for PathTotals {
            fn from(path: &PathStatistics) -> Self {
                Self { $($field: { let $path = path; $value },)* }
            }
        }

        impl AddAssign for PathTotals {
            fn add_assign(&mut self, other: Self) {
                $(Counter::add(&mut self.$field, other.$field);)*
            }
        }

        /// The increase since `earlier`; 0 where `earlier` was more.
        impl Sub for PathTotals {
            type Output = Self;

            fn sub(self, earlier: Self) -> Self {
                Self { $($field: Counter::since(self.$field, earlier.$field),)* }
            }
        }
    };
}

totals! {
    /// Packets sent.
    packets_sent: u64 = |path| path.packets_sent;
    /// Bytes sent, SCTP headers included.
    bytes_sent: u64 = |path| path.bytes_sent;
    /// Packets received.
    packets_received: u64 = |path| path.packets_received;
    /// Bytes received, SCTP headers included.
    bytes_received: u64 = |path| path.bytes_received;
    /// Packets sent that carried DATA chunks.
    data_packets_sent: u64 = |path| path.data_packets_sent;
    /// DATA chunks sent, retransmissions included.
    data_chunks_sent: u64 = |path| path.data_chunks_sent;
    /// User bytes sent, retransmissions included.
    data_bytes_sent: u64 = |path| path.data_bytes_sent;
    /// User bytes received, duplicates included.
    data_bytes_received: u64 = |path| path.data_bytes_received;
    /// DATA chunks retransmitted.
    retransmitted_chunks: u64 = |path| path.retransmitted_chunks;
    /// Expiries of T3-rtx.
    timeouts: u64 = |path| path.timeouts;
    /// Second, third, fourth and fifth expiries in a row.
    timeout_runs: [u64; 4] = |path| path.timeout_runs.map(u64::from);
    /// Heartbeats sent.
    heartbeats_sent: u64 = |path| path.heartbeats_sent;
    /// Heartbeats acknowledged.
    heartbeats_acked: u64 = |path| path.heartbeats_acked;
    /// Packets with an ECN congestion mark received.
    ecn_ce_received: u64 = |path| path.ecn_ce_received;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_differences() {
        let one = PathTotals { bytes_sent: 5, timeout_runs: [1, 0, 0, 2], ..Default::default() };
        let mut sum = one;
        sum += one;
        assert_eq!((sum.bytes_sent, sum.timeout_runs), (10, [2, 0, 0, 4]));
        assert_eq!(sum - one, one);
        assert_eq!(one - sum, PathTotals::default());
    }
}
