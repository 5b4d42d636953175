//! What to do when every path is down (caro 3.3.6).

use super::named::named;

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
}

named!(DormantBehaviour { LastDest = "last-dest", Primary = "primary", Hop = "hop", });

impl DormantBehaviour {
    /// The path after `last` timed out too, of `count` paths of which those that are `usable`
    /// may carry data.
    pub(crate) fn path(
        self,
        last: usize,
        primary: usize,
        count: usize,
        usable: impl Fn(usize) -> bool,
    ) -> usize {
        match self {
            Self::LastDest => last,
            Self::Primary => primary,
            Self::Hop => (1..=count)
                .map(|step| (last + step) % count)
                .find(|path| usable(*path))
                .unwrap_or(last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_goes_its_way() {
        let all = |_: usize| true;
        assert_eq!(DormantBehaviour::LastDest.path(1, 0, 3, all), 1);
        assert_eq!(DormantBehaviour::Primary.path(1, 0, 3, all), 0);
        assert_eq!(DormantBehaviour::Hop.path(1, 0, 3, all), 2);
        assert_eq!(DormantBehaviour::Hop.path(2, 0, 3, all), 0);
        assert_eq!(DormantBehaviour::Hop.path(0, 0, 3, |path| path != 1), 2);
        assert_eq!(DormantBehaviour::Hop.path(1, 0, 3, |_| false), 1);
    }
}
