//! Which path carries a retransmission (caro 2.2, 2.3).

use super::named::named;
use crate::path::Path;
use crate::send::LostBy;

/// Where lost chunks are sent again. With one path all are the same.
///
/// A retransmission that is lost in its turn goes on from the path that lost it: to yet another
/// one, and to the first one again when there is no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum RetransmissionPolicy {
    /// Always on the path that lost the chunk.
    AllRtxSame,
    /// Always on an alternate path (RFC 2960).
    AllRtxAlt,
    /// After missing reports on the same path, after a timeout on an alternate one (RFC 4960,
    /// RFC 9260).
    #[cfg_attr(feature = "serde", serde(alias = "frsame-rtoalt"))]
    FrSameRtoAlt,
}

named!(RetransmissionPolicy {
    AllRtxSame = "all-rtx-same",
    AllRtxAlt = "all-rtx-alt",
    FrSameRtoAlt = "fr-same-rto-alt" | "frsame-rtoalt",
});

impl RetransmissionPolicy {
    /// The path for a chunk that path `from` lost.
    // req: rfc9260 6.4 "SHOULD send fast retransmissions to the same"
    pub(crate) fn path(self, by: LostBy, from: usize, paths: &[Path]) -> usize {
        let same = match (self, by) {
            (Self::AllRtxSame, _) | (Self::FrSameRtoAlt, LostBy::MissingReports) => true,
            (Self::AllRtxAlt, _) | (Self::FrSameRtoAlt, LostBy::Timeout) => false,
        };
        if same && paths[from].is_active() {
            return from;
        }
        super::alternate(paths, from).unwrap_or(from)
    }
}

/// Which new data waits until all pending retransmissions have left: two readings of RFC 2960
/// section 6.1 C (caro 4.3, footnote 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum RetransmissionPrecedence {
    /// All, whatever path the retransmissions wait for.
    #[default]
    AllPaths,
    /// Only data for the path that the retransmissions wait for.
    SamePath,
}

named!(RetransmissionPrecedence { AllPaths = "all-paths", SamePath = "same-path", });
