//! Chooses the path for repeating an unanswered control chunk.

use super::{alternate, alternate_of};
use crate::path::Path;
use crate::per_path::{PathId, PerPath};

/// Chooses the path for a control chunk that was not answered on path `from`. Paths on which the peer
/// has never answered may lead nowhere, so paths on which it has answered come first. If all of these
/// have errors, both kinds alternate.
pub(crate) fn next_for_control(paths: &PerPath<Path>, from: PathId) -> Option<PathId> {
    let proven = |path: &PathId| paths.get(*path).is_some_and(|path| path.proven);
    alternate_of(paths, from, |path| path.is_active() && path.proven)
        .or_else(|| alternate(paths, from).filter(|_| proven(&from)))
        .or_else(|| {
            let others = paths.ids().filter(|path| *path != from && proven(path));
            others.min_by_key(|path| paths[*path].error_count)
        })
        .or_else(|| alternate(paths, from))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::config::{AssociationConfig, Encapsulation};
    use crate::path::Paths;
    use crate::time::Instant;

    /// The sequence of paths tried, where each unanswered repetition counts as an error of its path.
    fn tried(proven: &[u16], active: &[u16], times: usize) -> Vec<u16> {
        let config = AssociationConfig::default();
        let paths = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(local, remote)| {
            let (local, remote) =
                (IpAddr::from([10, local, 0, 1]), IpAddr::from([10, remote, 0, 2]));
            Path::new(Instant::ZERO, local, remote, 0, &config.of_path(Encapsulation::Ip))
        });
        let mut paths = Paths::new(paths.into());
        for path in paths.iter_mut() {
            path.proven = proven.contains(&path.id.number());
            if active.contains(&path.id.number()) {
                path.activate();
            }
        }
        let mut last = PathId(0);
        let mut next = || {
            paths[last].error_count += 1;
            last = next_for_control(&paths, last).expect("there are four");
            last.number()
        };
        (0..times).map(|_| next()).collect()
    }

    #[test]
    fn the_most_divergent_of_those_that_answered() {
        assert_eq!(tried(&[0, 1, 2, 3], &[0, 1, 2, 3], 2), [3, 0]);
        // The most divergent path may lead nowhere.
        assert_eq!(tried(&[0, 1], &[0, 1, 2, 3], 4), [1, 0, 1, 0]);
    }

    #[test]
    fn the_only_one_that_answered_takes_turns_with_others() {
        assert_eq!(tried(&[0], &[0, 1, 2, 3], 4), [3, 0, 3, 0]);
        // The path has failed, but it is still the only one that ever worked.
        assert_eq!(tried(&[0], &[1, 2, 3], 4), [3, 0, 3, 0]);
    }

    #[test]
    fn all_that_answered_are_in_trouble() {
        // Paths that worked alternate with paths that did not.
        let turns = tried(&[0, 1], &[2, 3], 6);
        assert!(turns.contains(&0) && turns.contains(&1), "{turns:?}");
        assert!(turns.iter().any(|path| *path > 1), "{turns:?}");
    }

    #[test]
    fn nobody_answered_anywhere() {
        assert_eq!(tried(&[], &[0, 1, 2, 3], 2), [3, 0]);
    }
}
