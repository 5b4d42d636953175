//! The congestion window that a new path of an association starts with.

use crate::named::named;
use crate::options::words;

/// The most packets of a window that is taken over.
const MOST: usize = 100;

/// What a path starts with that is added while the association is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum NewPathWindow {
    /// The initial window: nothing is known of the new network.
    #[default]
    Initial,
    /// Half of the window of the path in use, but at most 100 packets, and not less than the initial window. As in Careful
    /// Resume (draft-ietf-tsvwg-careful-resume), half of what was right elsewhere leaves room for an error.
    HalfOfOld,
}

named!(NewPathWindow { Initial = "initial", HalfOfOld = "half-of-old", });
words!(NewPathWindow);

impl NewPathWindow {
    /// The packets that a path may have in flight at first, if more than usual. `old` is the window of the path in use,
    /// in bytes, and `pmdcs` the size of a packet's chunks on the new one.
    pub(crate) fn packets(self, old: usize, pmdcs: usize) -> Option<u32> {
        match self {
            Self::Initial => None,
            Self::HalfOfOld => u32::try_from((old / 2 / pmdcs.max(1)).min(MOST)).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_old_window_is_taken_over_within_bounds() {
        assert_eq!(NewPathWindow::Initial.packets(100_000, 1000), None);
        let half = NewPathWindow::HalfOfOld;
        assert_eq!(half.packets(100_000, 1000), Some(50));
        assert_eq!(half.packets(1_500, 1000), Some(0), "the initial window remains");
        assert_eq!(half.packets(10_000_000, 1000), Some(100));
        assert_eq!(half.packets(10_000_000, 0), Some(100));
    }
}
