//! What to do when every path is down (caro 3.3.6).

/// Where data goes while no path is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum DormantBehaviour {
    /// To the path that was used last.
    LastDest,
    /// To the primary path.
    Primary,
    /// To each path in turn.
    #[default]
    Hop,
}

impl DormantBehaviour {
    /// The path after `last` failed too.
    pub(crate) fn path(self, last: usize, primary: usize, count: usize) -> usize {
        match self {
            Self::LastDest => last,
            Self::Primary => primary,
            Self::Hop => (last + 1) % count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_goes_its_way() {
        assert_eq!(DormantBehaviour::LastDest.path(1, 0, 3), 1);
        assert_eq!(DormantBehaviour::Primary.path(1, 0, 3), 0);
        assert_eq!(DormantBehaviour::Hop.path(2, 0, 3), 0);
    }
}
