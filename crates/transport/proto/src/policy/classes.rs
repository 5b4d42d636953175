//! Streams of a class keep to paths of their own, so that a full path does not hold up the messages of others.
//!
//! A film on the streams from `class_from` on is bound to one path, for example, and fills its window. Control messages
//! on stream 0 leave at once on the other path.
//!
//! - Streams of the class take the paths that `class_paths` names, while these work. All other streams take the path
//!   in use, or those of concurrent multipath transfer, as without classes.
//! - A class that only prefers its paths takes another one if its own are full or do not work.
//! - A class that is bound waits while its paths are full or potentially failed. It does not wait for a path that has
//!   failed: that path may never return, and the association could not end. Failover takes such data along.
//! - A message of a bound class that was sent in part does not wait for a potentially failed path, because messages
//!   that are not interleaved wait for its end.

use crate::named::named;
use crate::options::words;
use crate::path::{Path, Paths};
use crate::per_path::{PathId, PerPath};

/// The paths of the streams from `class_from` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum ClassPaths {
    /// All except the primary path.
    #[default]
    Others,
    /// The primary path, also while another one carries the data of other streams.
    Primary,
    /// The path with the lowest measured latency.
    LowestLatency,
}

named!(ClassPaths {
    Others = "others",
    Primary = "primary",
    LowestLatency = "lowest-latency",
});
words!(ClassPaths);

impl ClassPaths {
    /// Whether a path is one of these.
    pub(crate) fn has(self, path: PathId, paths: &Paths) -> bool {
        match self {
            Self::Others => path != paths.primary(),
            Self::Primary => path == paths.primary(),
            Self::LowestLatency => shortest(paths) == Some(path),
        }
    }

    /// Whether one of these carries data now, and `has_room`.
    pub(crate) fn any(self, paths: &Paths, has_room: impl Fn(PathId) -> bool) -> bool {
        self.of(paths).any(|path| paths[path].is_concurrent() && has_room(path))
    }

    /// Whether all of these have failed or are unknown, so that there is nothing to wait for.
    pub(crate) fn have_failed(self, paths: &Paths) -> bool {
        !self.any(paths, |_| true) && !self.is_awaited(paths)
    }

    /// Whether one of these is potentially failed, and a heartbeat will tell.
    pub(crate) fn is_awaited(self, paths: &Paths) -> bool {
        self.of(paths).any(|path| {
            let path = &paths[path];
            let asked = path.heartbeat.deadline().is_some() || path.heartbeat.is_demanded();
            asked && path.is_potentially_failed() && !path.silent
        })
    }

    fn of(self, paths: &Paths) -> impl Iterator<Item = PathId> + '_ {
        paths.ids().filter(move |path| self.has(*path, paths))
    }
}

/// The active path with the shortest round trip. One that may have failed is not considered, nor one that was never
/// measured.
fn shortest(paths: &PerPath<Path>) -> Option<PathId> {
    let works = |path: &&Path| path.is_active() && path.error_count == 0;
    let measured = paths.iter().filter(works).filter_map(|path| Some((path.rtt.srtt()?, path.id)));
    measured.min().map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::Duration;

    use super::*;
    use crate::config::{AssociationConfig, Encapsulation};
    use crate::event::PathState;
    use crate::time::Instant;

    fn paths(millis: &[u64]) -> Paths {
        let config = AssociationConfig::default();
        let setup = config.of_path(Encapsulation::Ip);
        let path = |(number, millis): (u8, &u64)| {
            let host = IpAddr::from([10, 0, 0, number]);
            let mut path = Path::new(Instant::ZERO, host, host, 0, &setup);
            path.state = PathState::Active;
            path.rtt.on_measurement(Duration::from_millis(*millis));
            path
        };
        Paths::new((0..).zip(millis).map(path).collect())
    }

    fn own(class: ClassPaths, paths: &Paths) -> Vec<u16> {
        class.of(paths).map(PathId::number).collect()
    }

    #[test]
    fn paths_are_named_by_what_they_are() {
        let paths = paths(&[30, 20, 10]);
        assert_eq!(own(ClassPaths::Primary, &paths), [0]);
        assert_eq!(own(ClassPaths::Others, &paths), [1, 2]);
        assert_eq!(own(ClassPaths::LowestLatency, &paths), [2]);
    }

    #[test]
    fn only_a_path_that_may_return_is_waited_for() {
        let mut paths = paths(&[30, 20]);
        let (others, second) = (ClassPaths::Others, PathId(1));
        assert!(others.any(&paths, |_| true) && !others.any(&paths, |path| path != second));
        paths[second].state = PathState::PotentiallyFailed;
        assert!(others.have_failed(&paths), "nobody asks whether it works again");
        paths[second].heartbeat.schedule(Some(Instant::ZERO));
        assert!(!others.any(&paths, |_| true) && !others.have_failed(&paths));
        paths[second].state = PathState::Inactive;
        assert!(others.have_failed(&paths));
        assert!(ClassPaths::LowestLatency.any(&paths, |path| path == PathId(0)));
        paths.remove(second);
        assert!(others.have_failed(&paths), "there are none");
    }
}
