//! Metrics that a new association adopts from earlier ones between the same addresses (RFC 9040;
//! hurtig 3.1).

use std::net::IpAddr;
use std::time::Duration;

use crate::named::named;
use crate::options::words;

/// Which metrics are adopted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum MetricCache {
    /// None, and none are stored for others.
    Off,
    /// Round-trip time, reordering and ssthresh, as kernels have it.
    Full,
    /// No congestion metrics: the experience of a short transfer says little about the next one.
    Selective,
    /// All, but ssthresh only of associations that had enough data to find it, and only for a tenth of
    /// the time that the rest counts; associations that are up share what they know, too.
    Informed,
}

named!(MetricCache {
    Off = "off",
    Full = "full",
    Selective = "selective",
    Informed = "informed",
});
words!(MetricCache);

impl MetricCache {
    /// Whether ssthresh belongs to it.
    pub(crate) fn has_congestion(self) -> bool {
        matches!(self, Self::Full | Self::Informed)
    }
}

/// The metrics that an endpoint stores for a pair of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct PathMetrics {
    /// Address of this host.
    pub local: IpAddr,
    /// Address of the peer.
    pub remote: IpAddr,
    /// Smoothed round-trip time.
    #[cfg_attr(feature = "serde", serde(rename = "srtt_seconds", with = "crate::stats::seconds"))]
    pub srtt: Duration,
    /// Variation of the round-trip time.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "rttvar_seconds", with = "crate::stats::seconds")
    )]
    pub rttvar: Duration,
    /// Slow-start threshold in bytes, if one was found.
    pub ssthresh: Option<usize>,
    /// The maximum number of packets by which a packet was late; 0 if none was.
    pub reordering: u64,
    /// How long ago it was last updated.
    #[cfg_attr(feature = "serde", serde(rename = "age_seconds", with = "crate::stats::seconds"))]
    pub age: Duration,
}

/// The metrics that an association has measured on a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Learnt {
    pub(crate) srtt: Duration,
    pub(crate) rttvar: Duration,
    pub(crate) cwnd: usize,
    /// `None` if there was no loss.
    pub(crate) ssthresh: Option<usize>,
    pub(crate) reordering: u64,
    /// User bytes sent on it.
    pub(crate) bytes: u64,
}
