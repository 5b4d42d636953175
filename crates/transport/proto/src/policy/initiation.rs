//! The order in which INITs are sent to the addresses of a peer (caro 6.3.2).

use crate::named::named;

/// How an association is set up when several addresses are given, which may belong to different
/// hosts. The first answer wins either way: its source is the primary path, and the peer's
/// addresses are those that this answer lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum InitiationOrder {
    /// One address after another, each time that T1-init expires.
    #[default]
    Sequential,
    /// All addresses at the same time.
    Parallel,
}

named!(InitiationOrder { Sequential = "sequential", Parallel = "parallel", });
