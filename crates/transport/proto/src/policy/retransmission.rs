//! Chooses the path of a retransmission (caro 2.2, 2.3; nat 1.2.3).

use super::rtx;
use crate::named::named;
use crate::path::Path;
use crate::per_path::{PathId, PerPath};
use crate::send::Cause;

/// Where lost chunks are retransmitted. With only one path, all policies are equal.
///
/// If a retransmission is lost, too, the next path is chosen relative to the path that lost it:
/// another path, or the first one again if there are only two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum RetransmissionPolicy {
    /// Always on the path that lost the chunk.
    AllRtxSame,
    /// Always on an alternate path (RFC 2960).
    AllRtxAlt,
    /// After missing reports on the same path, after a timeout on an alternate one (RFC 4960, RFC
    /// 9260).
    #[cfg_attr(feature = "serde", serde(alias = "frsame-rtoalt"))]
    FrSameRtoAlt,
    /// RTX-ASAP: on any active path that has room in its congestion window.
    RtxAsap,
    /// RTX-CWND: on the active path with the largest congestion window.
    RtxCwnd,
    /// RTX-SSTHRESH: on the active path with the largest slow-start threshold (nat 1.2.3).
    RtxSsthresh,
    /// RTX-LOSSRATE: on the active path with the lowest loss rate.
    RtxLossRate,
}

named!(RetransmissionPolicy {
    AllRtxSame = "all-rtx-same" | "rtx-same",
    AllRtxAlt = "all-rtx-alt",
    FrSameRtoAlt = "fr-same-rto-alt" | "frsame-rtoalt",
    RtxAsap = "rtx-asap",
    RtxCwnd = "rtx-cwnd",
    RtxSsthresh = "rtx-ssthresh",
    RtxLossRate = "rtx-lossrate",
});

/// The values of a path's congestion control that a policy reads, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    pub(crate) flight: usize,
    pub(crate) cwnd: usize,
    pub(crate) ssthresh: usize,
}

impl RetransmissionPolicy {
    /// The path for a chunk that path `from` lost.
    // req: rfc9260 6.4 "SHOULD send fast retransmissions to the same"
    pub(crate) fn path(
        self,
        cause: Cause,
        from: PathId,
        paths: &PerPath<Path>,
        windows: impl Fn(PathId) -> Windows,
    ) -> PathId {
        let same = || paths[from].is_active().then_some(from);
        let alternate = || super::alternate(paths, from);
        let path = match (self, cause.is_reported()) {
            (Self::AllRtxSame, _) | (Self::FrSameRtoAlt, true) => same().or_else(alternate),
            (Self::AllRtxAlt, _) | (Self::FrSameRtoAlt, false) => alternate(),
            (Self::RtxAsap, _) => rtx::asap(paths, from, windows),
            (Self::RtxCwnd, _) => rtx::cwnd(paths, from, windows),
            (Self::RtxSsthresh, _) => rtx::ssthresh(paths, from, windows),
            (Self::RtxLossRate, _) => rtx::loss_rate(paths, from),
        };
        path.unwrap_or(from)
    }

    /// Whether the policy picks the best path by a measure. Its choice may then be out of date once a
    /// path has timed out.
    pub(crate) fn is_comparing(self) -> bool {
        match self {
            Self::RtxAsap | Self::RtxCwnd | Self::RtxSsthresh | Self::RtxLossRate => true,
            Self::AllRtxSame | Self::AllRtxAlt | Self::FrSameRtoAlt => false,
        }
    }
}

/// Which new data waits until all pending retransmissions have been sent: two readings of RFC 2960
/// section 6.1 C (caro 4.3, footnote 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum RetransmissionPrecedence {
    /// All data, regardless of the path that the retransmissions wait for.
    #[default]
    AllPaths,
    /// Only data for the path that the retransmissions wait for.
    SamePath,
}

named!(RetransmissionPrecedence { AllPaths = "all-paths", SamePath = "same-path", });
