//! Statistics of a path, their counters in the engine, and sums over paths.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::{AddAssign, Sub};
use std::time::Duration;

use super::table::{row, rows};
use super::timeout_runs::{RUNS, TimeoutRuns};
use super::{Counter, Number};
use crate::event::PathState;
use crate::per_path::PathId;

/// Declares [`PathStatistics`], [`PathTotals`], their counters in the engine, and the rows.
///
/// `state` are fields without a row, with their first values. A gauge may have a name in qlog, which
/// logs its changes, and a condition without which it is not known. `counters` are in every path;
/// `troubles` are in memory that a path gets when it needs it.
macro_rules! path_statistics {
    (
        state {
            $($(#[doc = $state_doc:literal])* $state:ident: $state_type:ty = $first:expr;)*
        }
        gauges {
            $(
                $(#[doc = $gauge_doc:literal])*
                $(#[cfg_attr($($attribute:tt)*)])?
                $gauge:ident: $gauge_type:ty, $gauge_unit:ident
                $(, qlog $qlog:literal)? $(, if |$of:ident| $known:expr)?;
            )*
        }
        counters {
            $($(#[doc = $doc:literal])* $field:ident: $type:ty, $unit:ident;)*
        }
        troubles {
            $($(#[doc = $trouble_doc:literal])* $trouble:ident, $trouble_unit:ident;)*
        }
    ) => {
        /// One path.
        #[derive(Clone, Copy, Debug)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[non_exhaustive]
        pub struct PathStatistics {
            $($(#[doc = $state_doc])* pub $state: $state_type,)*
            $($(#[doc = $gauge_doc])* $(#[cfg_attr($($attribute)*)])? pub $gauge: $gauge_type,)*
            $(
                $(#[doc = $doc])*
                #[cfg_attr(feature = "serde", serde(default))]
                pub $field: u64,
            )*
            $(
                $(#[doc = $trouble_doc])*
                #[cfg_attr(feature = "serde", serde(default))]
                pub $trouble: u64,
            )*
            /// Most expiries of T3-rtx in a row without an acknowledgement of data that the path carried.
            pub longest_timeout_run: u16,
            /// How often there was a second, third, fourth and fifth expiry in a row (nat table 4.1);
            /// up to 65,535.
            pub timeout_runs: [u16; RUNS],
        }

        /// The counters of a path in the engine. Counts of events at least an RTO apart have 32 bits,
        /// because an idle association should be small.
        #[derive(Debug, Default)]
        pub(crate) struct PathCounters {
            $(pub(crate) $field: $type,)*
            troubles: Option<Box<PathTroubles>>,
        }

        /// Counters that exist only on paths with losses or congestion.
        #[derive(Debug, Default)]
        pub(crate) struct PathTroubles {
            $(pub(crate) $trouble: u64,)*
            pub(crate) timeout_runs: TimeoutRuns,
        }

        impl PathCounters {
            /// Statistics with these counters and nothing else.
            pub(crate) fn statistics(&self) -> PathStatistics {
                let none = PathTroubles::default();
                let troubles = self.troubles.as_deref().unwrap_or(&none);
                PathStatistics {
                    $($state: $first,)*
                    $($gauge: Default::default(),)*
                    $($field: u64::from(self.$field),)*
                    $($trouble: troubles.$trouble,)*
                    longest_timeout_run: troubles.timeout_runs.longest,
                    timeout_runs: troubles.timeout_runs.reached,
                }
            }
        }

        /// The counters of a path, or of several together.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "serde", serde(default))]
        #[non_exhaustive]
        pub struct PathTotals {
            $($(#[doc = $doc])* pub $field: u64,)*
            $($(#[doc = $trouble_doc])* pub $trouble: u64,)*
            /// Second, third, fourth and fifth expiries in a row.
            pub timeout_runs: [u64; RUNS],
        }

        impl From<&PathStatistics> for PathTotals {
            fn from(path: &PathStatistics) -> Self {
                Self {
                    $($field: path.$field,)*
                    $($trouble: path.$trouble,)*
                    timeout_runs: path.timeout_runs.map(u64::from),
                }
            }
        }

        impl AddAssign for PathTotals {
            fn add_assign(&mut self, other: Self) {
                $(self.$field = self.$field.saturating_add(other.$field);)*
                $(self.$trouble = self.$trouble.saturating_add(other.$trouble);)*
                let runs = self.timeout_runs.iter_mut().zip(other.timeout_runs);
                runs.for_each(|(sum, count)| *sum = sum.saturating_add(count));
            }
        }

        /// The increase since `earlier`; 0 where `earlier` was more.
        impl Sub for PathTotals {
            type Output = Self;

            fn sub(self, earlier: Self) -> Self {
                let runs = |at: usize| self.timeout_runs[at].saturating_sub(earlier.timeout_runs[at]);
                Self {
                    $($field: self.$field.saturating_sub(earlier.$field),)*
                    $($trouble: self.$trouble.saturating_sub(earlier.$trouble),)*
                    timeout_runs: std::array::from_fn(runs),
                }
            }
        }

        /// The rows of gauges and counters.
        const ROWS: &[Counter<PathStatistics>] = &[
            $(row!($gauge, Gauge, $gauge_unit, &[$($gauge_doc),*], [$($qlog)?], |path| {
                path_statistics!(@known path.$gauge, path $(, |$of| $known)?)
            }),)*
            $(row!($field, Counter, $unit, &[$($doc),*], [], |path| path.$field),)*
            $(row!($trouble, Counter, $trouble_unit, &[$($trouble_doc),*], [], |path| path.$trouble),)*
        ];
    };
    (@known $value:expr, $path:ident) => { $value };
    (@known $value:expr, $path:ident, |$of:ident| $known:expr) => {{
        let $of = $path;
        ($known).then_some($value)
    }};
}

path_statistics! {
    state {
        /// Its name, which it keeps and no other path of the association ever has.
        id: PathId = PathId::FIRST;
        /// Local address.
        local: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        /// Remote address.
        remote: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        /// Remote UDP port, 0 without UDP encapsulation.
        remote_udp_port: u16 = 0;
        /// State.
        state: PathState = PathState::Unconfirmed;
        /// The peer has answered on it, or the association was set up on it.
        verified: bool = false;
        /// It is not verified because some host answered that there is no such association: a
        /// translator (NAT) on the way shows the peer another address than the one it was given.
        disowned: bool = false;
    }
    gauges {
        /// Smoothed round-trip time; `None` before the first measurement.
        #[cfg_attr(feature = "serde", serde(rename = "srtt_seconds", with = "super::seconds::option"))]
        srtt: Option<Duration>, Seconds, qlog "smoothed_rtt";
        /// Variation of the round-trip time.
        #[cfg_attr(feature = "serde", serde(rename = "rttvar_seconds", with = "super::seconds"))]
        rttvar: Duration, Seconds, qlog "rtt_variance", if |path| path.srtt.is_some();
        /// Least round-trip time so far; `None` before the first measurement.
        #[cfg_attr(feature = "serde", serde(rename = "min_rtt_seconds", with = "super::seconds::option", default))]
        min_rtt: Option<Duration>, Seconds, qlog "min_rtt";
        /// Retransmission timeout.
        #[cfg_attr(feature = "serde", serde(rename = "rto_seconds", with = "super::seconds"))]
        rto: Duration, Seconds, qlog "rto";
        /// Congestion window in bytes.
        cwnd: usize, Bytes, qlog "congestion_window";
        /// Slow-start threshold in bytes.
        ssthresh: usize, Bytes, qlog "ssthresh", if |path| path.ssthresh < usize::MAX;
        /// Bytes in flight, chunk headers included.
        flight: usize, Bytes, qlog "bytes_in_flight";
        /// Path MTU in bytes of IP packet.
        // req: rfc8899 3 "the PL is RECOMMENDED to provide a primitive"
        // req: rfc8899 4.4 "sent, a PL SHOULD provide applications with a"
        mtu: u16, Bytes, qlog "mtu";
        /// Errors in a row.
        error_count: u32, Events, qlog "error_count";
        /// Estimated share of packets that the path loses in the forward direction, 0 to 1; `None`
        /// while too little is known.
        loss: Option<f64>, Share;
        /// Bytes per second that the path delivered last; `None` unless the congestion controller asks
        /// for rate samples.
        #[cfg_attr(feature = "serde", serde(default))]
        delivery_rate: Option<u64>, BytesPerSecond;
    }
    counters {
        /// Packets sent.
        packets_sent: u64, Packets;
        /// Bytes sent, SCTP headers included.
        bytes_sent: u64, Bytes;
        /// Packets received.
        packets_received: u64, Packets;
        /// Bytes received, SCTP headers included.
        bytes_received: u64, Bytes;
        /// Packets sent that carried DATA chunks.
        data_packets_sent: u64, Packets;
        /// DATA chunks sent, retransmissions included.
        data_chunks_sent: u64, Chunks;
        /// User bytes sent, retransmissions included.
        data_bytes_sent: u64, Bytes;
        /// User bytes received, duplicates included.
        data_bytes_received: u64, Bytes;
        /// DATA chunks retransmitted.
        retransmitted_chunks: u64, Chunks;
        /// Heartbeats sent.
        heartbeats_sent: u32, Events;
        /// Heartbeats acknowledged.
        heartbeats_acked: u32, Events;
    }
    troubles {
        /// Packets with data that were considered lost: all of their chunks that had not arrived.
        lost_packets, Packets;
        /// User bytes that were considered lost.
        lost_bytes, Bytes;
        /// Expiries of T3-rtx.
        timeouts, Events;
        /// Packets with an ECN congestion mark received.
        ecn_ce_received, Packets;
        /// Reductions of the window because the peer reported an ECN congestion mark.
        ecn_reductions, Events;
        /// Times that the path was found to swallow ECN-capable packets, or to mark each of them; it gets no more.
        ecn_failures, Events;
    }
}

rows! {
    /// Runs of timeouts, which JSON has in a list.
    const RUN_ROWS: PathStatistics, |path|
    /// Most expiries of T3-rtx in a row.
    longest_timeout_run: Gauge, Events = path.longest_timeout_run;
    /// Second expiries of T3-rtx in a row.
    timeout_runs_2: Counter, Events = path.timeout_runs[0];
    /// Third expiries of T3-rtx in a row.
    timeout_runs_3: Counter, Events = path.timeout_runs[1];
    /// Fourth expiries of T3-rtx in a row.
    timeout_runs_4: Counter, Events = path.timeout_runs[2];
    /// Fifth expiries of T3-rtx in a row.
    timeout_runs_5: Counter, Events = path.timeout_runs[3];
}

impl PathStatistics {
    /// All numbers that a path has.
    pub fn counters() -> impl Iterator<Item = &'static Counter<Self>> + Clone {
        ROWS.iter().chain(RUN_ROWS)
    }

    /// The value of a number by its name, as in [`Counter::name`] or [`Counter::json_name`].
    pub fn number(&self, name: &str) -> Option<Number> {
        let row = Self::counters().find(|row| row.name == name || row.json_name() == name)?;
        (row.get)(self)
    }
}

impl PathCounters {
    /// Counters of losses and congestion.
    pub(crate) fn troubles(&mut self) -> &mut PathTroubles {
        self.troubles.get_or_insert_default()
    }

    /// Ends a run of timeouts, because the path proved to work.
    pub(crate) fn end_timeout_run(&mut self) {
        if let Some(troubles) = &mut self.troubles {
            troubles.timeout_runs.end();
        }
    }
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

    #[test]
    fn troubles_are_counted_where_there_are_any() {
        let mut counters = PathCounters::default();
        counters.end_timeout_run();
        assert!(counters.troubles.is_none());
        counters.troubles().lost_packets += 2;
        let statistics = counters.statistics();
        assert_eq!(statistics.number("lost_packets"), Some(Number::Whole(2)));
        assert_eq!(statistics.number("rto_seconds"), Some(Number::Time(Duration::ZERO)));
        assert_eq!(statistics.number("rttvar"), None, "nothing was measured");
        assert_eq!(statistics.number("none"), None);
    }
}
