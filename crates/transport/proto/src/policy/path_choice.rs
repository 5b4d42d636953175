//! Chooses the path for new data when several may carry it (concurrent multipath transfer).

use crate::named::named;
use crate::path::Path;
use crate::per_path::{PathId, PerPath};

/// How to choose between paths that have room in their congestion windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum PathChoice {
    /// The path after the one that carried new data last.
    #[default]
    RoundRobin,
    /// A path is used until its window is full, then the next one that has room (nat Figs 4.2 and
    /// 4.4).
    WindowInTurn,
    /// The path with the shortest smoothed round-trip time; a path without a measurement counts as
    /// the longest.
    LowestRtt,
}

named!(PathChoice { RoundRobin = "round-robin", WindowInTurn = "window-in-turn", LowestRtt = "lowest-rtt", });

impl PathChoice {
    /// The path for the next packet, among those that `may_send`. `last` is the path that carried new
    /// data last, or the next in rotation.
    pub(crate) fn path(
        self,
        last: PathId,
        paths: &PerPath<Path>,
        mut may_send: impl FnMut(PathId) -> bool,
    ) -> Option<PathId> {
        let mut in_turn = paths.in_turn_after(last);
        match self {
            // The next path in rotation may have been removed, if the peer has other addresses.
            Self::WindowInTurn if paths.has(last) && may_send(last) => Some(last),
            Self::RoundRobin | Self::WindowInTurn => in_turn.find(|path| may_send(*path)),
            Self::LowestRtt => in_turn.filter(|path| may_send(*path)).min_by_key(|path| {
                paths[*path].rtt.srtt().map_or((true, None), |srtt| (false, Some(srtt)))
            }),
        }
    }
}
