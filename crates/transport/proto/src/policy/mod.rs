//! Choices between paths. Each decision has a small enum, whose variants are the published
//! algorithms.

mod addresses;
mod classes;
mod config;
mod control;
pub(crate) mod copies;
pub(crate) mod disjoint;
mod dormant;
pub(crate) mod failover;
mod fewest_errors;
mod handover;
pub(crate) mod informed;
mod initiation;
mod lowest_latency;
mod metric_cache;
mod multipath;
mod new_path_window;
mod path_choice;
mod retransmission;
mod rtx;
pub(crate) mod slow_paths;

pub use addresses::AddressConfig;
pub use classes::ClassPaths;
pub use config::{HeartbeatRetry, PathConfig, ProtocolUnreachable, Vigilance};
pub(crate) use control::next_for_control;
pub use dormant::DormantBehaviour;
pub(crate) use fewest_errors::fewest_errors;
pub use handover::Handover;
pub use initiation::InitiationOrder;
pub use lowest_latency::DataPath;
pub(crate) use lowest_latency::better as lowest_latency;
pub(crate) use metric_cache::Learnt;
pub use metric_cache::{MetricCache, PathMetrics};
pub use multipath::{MultipathConfig, MultipathMode};
pub use new_path_window::NewPathWindow;
pub use path_choice::PathChoice;
pub(crate) use retransmission::Windows;
pub use retransmission::{RetransmissionPolicy, RetransmissionPrecedence};
pub use slow_paths::SlowPaths;

use crate::path::{Path, address};
use crate::per_path::{PathId, PerPath};

/// The other path that may carry data and diverges most. A path with both addresses different is
/// best, then one with a different remote address, then one with a different local address (RFC
/// 9260 section 6.4.1). Of equal paths, it is the next in rotation.
pub(crate) fn alternate(paths: &PerPath<Path>, from: PathId) -> Option<PathId> {
    alternate_of(paths, from, Path::is_active)
}

fn alternate_of(
    paths: &PerPath<Path>,
    from: PathId,
    fits: impl Fn(&Path) -> bool,
) -> Option<PathId> {
    paths.get(from)?;
    // Of equal paths, the last one in this order is used, which is the next in rotation.
    (paths.in_turn_after(from).rev())
        .filter(|candidate| *candidate != from && fits(&paths[*candidate]))
        .max_by_key(|candidate| divergence(paths, from, *candidate))
}

/// How much a path diverges from path `from`, for comparison.
fn divergence(paths: &PerPath<Path>, from: PathId, candidate: PathId) -> impl Ord + use<> {
    let (this, other) = (&paths[from], &paths[candidate]);
    // req: rfc9260 6.4.1 "SHOULD attempt to pick the most divergent"
    (other.remote != this.remote, other.local != this.local, nearness(other))
}

/// How well the addresses of a path match: routing would choose a local address in the remote's
/// network.
pub(crate) fn nearness(path: &Path) -> u32 {
    address::common_prefix(path.local, path.remote)
}
