//! Which path carries a retransmission (caro 2.2, 2.3).

use crate::path::Path;
use crate::send::LostBy;

/// Where lost chunks are sent again. With one path all are the same.
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
    FrSameRtoAlt,
}

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
