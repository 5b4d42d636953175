//! What to do when every path is down (caro 3.3.6, RFC 7829 section 4).

use crate::named::named;

/// Where data goes while no path is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum DormantBehaviour {
    /// To the path that was used last.
    LastDest,
    /// To the primary path.
    Primary,
    /// To each path in turn, another one after each timeout.
    #[default]
    Hop,
    /// To the path with the fewest errors in a row; of several away from the one that timed out
    /// last (RFC 7829 section 4.1).
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
    /// The path after `last` timed out too, of `count` paths of which those that are `usable`
    /// may carry data, and `fewest_errors` knows the best of them after one.
    pub(crate) fn path(
        self,
        last: usize,
        primary: usize,
        count: usize,
        usable: impl Fn(usize) -> bool,
        fewest_errors: impl Fn(usize) -> Option<usize>,
    ) -> usize {
        match self {
            Self::LastDest => last,
            Self::Primary => primary,
            Self::Hop => (1..=count)
                .map(|step| (last + step) % count)
                .find(|path| usable(*path))
                .unwrap_or(last),
            Self::FewestErrors => fewest_errors(last).unwrap_or(last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_goes_its_way() {
        let all = |_: usize| true;
        let best = |_: usize| Some(2);
        assert_eq!(DormantBehaviour::LastDest.path(1, 0, 3, all, best), 1);
        assert_eq!(DormantBehaviour::Primary.path(1, 0, 3, all, best), 0);
        assert_eq!(DormantBehaviour::Hop.path(1, 0, 4, all, |_| Some(3)), 2);
        assert_eq!(DormantBehaviour::Hop.path(2, 0, 3, all, best), 0);
        assert_eq!(DormantBehaviour::Hop.path(0, 0, 3, |path| path != 1, |_| Some(1)), 2);
        assert_eq!(DormantBehaviour::Hop.path(1, 0, 3, |_| false, best), 1);
        assert_eq!(DormantBehaviour::FewestErrors.path(1, 0, 3, all, best), 2);
        assert_eq!(DormantBehaviour::FewestErrors.path(1, 0, 3, all, |_| None), 1);
    }
}
