//! Chooses the paths that carry new data at the same time (concurrent multipath transfer).
//!
//! Every local address forms a path with every remote one that it reaches, so two hosts with two links
//! each have four paths. Data on all four would use each link twice, and half of it would cross
//! between the networks. So only paths without a common address are chosen, plus paths without which
//! an address would not be used at all.

use std::cmp::Reverse;

use super::nearness;
use crate::path::Path;
use crate::per_path::{PathId, PerPath};

/// Chooses among the paths that lead to the peer; `first` is always included.
pub(crate) fn choose(paths: &mut PerPath<Path>, first: PathId) {
    let mut order: Vec<PathId> = paths.ids().filter(|path| paths[*path].is_verified()).collect();
    order.sort_by_key(|path| (*path != first, Reverse(nearness(&paths[*path])), *path));
    paths.iter_mut().for_each(|path| path.concurrent = false);
    let used = |paths: &PerPath<Path>, candidate: PathId| {
        let chosen = || paths.iter().filter(|path| path.concurrent);
        (
            chosen().any(|path| path.local == paths[candidate].local),
            chosen().any(|path| path.remote == paths[candidate].remote),
        )
    };
    for path in &order {
        paths[*path].concurrent = used(paths, *path) == (false, false);
    }
    for path in order {
        paths[path].concurrent |= used(paths, path) != (true, true);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::config::{AssociationConfig, Encapsulation};
    use crate::path::Paths;
    use crate::time::Instant;

    /// Returns the chosen paths between local addresses 10.N.0.1 and remote ones 10.N.0.2.
    fn chosen(pairs: &[(u8, u8)], first: u16) -> Vec<(u8, u8)> {
        let config = AssociationConfig::default();
        let paths: Vec<Path> = pairs
            .iter()
            .map(|(local, remote)| {
                let local = IpAddr::from([10, *local, 0, 1]);
                let remote = IpAddr::from([10, *remote, 0, 2]);
                Path::new(Instant::ZERO, local, remote, 0, &config.of_path(Encapsulation::Ip))
            })
            .collect();
        let mut paths = Paths::new(paths);
        paths.iter_mut().for_each(Path::activate);
        choose(&mut paths, PathId(first));
        pairs
            .iter()
            .zip(paths.iter())
            .filter(|(_, path)| path.concurrent)
            .map(|(pair, _)| *pair)
            .collect()
    }

    #[test]
    fn two_links_are_two_paths() {
        let mesh = [(0, 0), (0, 1), (1, 0), (1, 1)];
        assert_eq!(chosen(&mesh, 0), [(0, 0), (1, 1)]);
        assert_eq!(chosen(&mesh, 3), [(0, 0), (1, 1)]);
        assert_eq!(chosen(&mesh, 1), [(0, 1), (1, 0)], "the path in use is one of them");
    }

    #[test]
    fn every_address_is_used() {
        assert_eq!(chosen(&[(0, 0), (0, 1)], 0), [(0, 0), (0, 1)]);
        assert_eq!(chosen(&[(0, 0), (1, 0)], 0), [(0, 0), (1, 0)]);
        let mesh = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)];
        assert_eq!(chosen(&mesh, 0), [(0, 0), (0, 2), (1, 1)]);
    }

    #[test]
    fn a_path_that_leads_nowhere_is_not_chosen() {
        let config = AssociationConfig::default();
        let address = |last| IpAddr::from([10, 0, 0, last]);
        let path = |remote| {
            Path::new(
                Instant::ZERO,
                address(1),
                address(remote),
                0,
                &config.of_path(Encapsulation::Ip),
            )
        };
        let mut paths = Paths::new(vec![path(2), path(3)]);
        paths[PathId(0)].activate();
        choose(&mut paths, PathId(0));
        let concurrent: Vec<bool> = paths.iter().map(|path| path.concurrent).collect();
        assert_eq!(concurrent, [true, false]);
    }
}
