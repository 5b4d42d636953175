//! How the congestion windows of several paths depend on each other.

use crate::policy::named::named;

/// Congestion control over all paths of an association that uses several at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Coupling {
    /// Not at all: each path is as greedy as an association of its own (nat 1.2.3).
    #[default]
    Uncoupled,
}

named!(Coupling { Uncoupled = "uncoupled", });
