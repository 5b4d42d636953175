//! Chooses the path for data when every path has failed (caro 3.3.6, RFC 7829 section 4).

use crate::named::named;
use crate::per_path::PathId;

/// Where data goes while no path is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum DormantBehaviour {
    /// To the path that was used last.
    LastDest,
    /// To the primary path.
    Primary,
    /// To the next path after each timeout.
    #[default]
    Hop,
    /// To the path with the fewest errors in a row; if there are several, not to the one that timed
    /// out last (RFC 7829 section 4.1).
    // req: rfc7829 4.1 "SHOULD choose the destination in inactive state with the lowest error count"
    FewestErrors,
}

named!(DormantBehaviour {
    LastDest = "last-dest",
    Primary = "primary",
    Hop = "hop",
    FewestErrors = "fewest-errors",
});

impl DormantBehaviour {
    /// The path to use after `last` timed out, too. `next_usable` returns the next path after one
    /// that may carry data, and `fewest_errors` the best of them.
    pub(crate) fn path(
        self,
        last: PathId,
        primary: PathId,
        next_usable: impl Fn(PathId) -> Option<PathId>,
        fewest_errors: impl Fn(PathId) -> Option<PathId>,
    ) -> PathId {
        match self {
            Self::LastDest => last,
            Self::Primary => primary,
            Self::Hop => next_usable(last).unwrap_or(last),
            Self::FewestErrors => fewest_errors(last).unwrap_or(last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_goes_its_way() {
        let path = |behaviour: DormantBehaviour, last, next: Option<u16>, best: Option<u16>| {
            let next = next.map(PathId);
            let best = best.map(PathId);
            behaviour.path(PathId(last), PathId(0), |_| next, |_| best).number()
        };
        assert_eq!(path(DormantBehaviour::LastDest, 1, Some(2), Some(2)), 1);
        assert_eq!(path(DormantBehaviour::Primary, 1, Some(2), Some(2)), 0);
        assert_eq!(path(DormantBehaviour::Hop, 1, Some(2), Some(3)), 2);
        assert_eq!(path(DormantBehaviour::Hop, 1, None, Some(2)), 1);
        assert_eq!(path(DormantBehaviour::FewestErrors, 1, Some(0), Some(2)), 2);
        assert_eq!(path(DormantBehaviour::FewestErrors, 1, Some(0), None), 1);
    }
}
