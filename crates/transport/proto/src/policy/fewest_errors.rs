//! Chooses the best of several failed paths (RFC 7829 section 3.2 item 4 and section 4.1 item 3).

use std::cmp::Reverse;

use super::divergence;
use crate::path::Path;
use crate::per_path::{PathId, PerPath};

/// The path with the fewest consecutive errors among the `eligible` ones. If several have equally
/// few, the one that diverges most from `last`, the path with the last error.
// req: rfc7829 3.2 "The sender SHOULD choose the destination in PF state with"
// req: rfc7829 3.2 "SHOULD transmit or retransmit data to this destination"
// req: rfc7829 4.1 "SHOULD attempt to pick the most divergent source"
pub(crate) fn fewest_errors(
    paths: &PerPath<Path>,
    last: PathId,
    eligible: impl Fn(&Path) -> bool,
) -> Option<PathId> {
    // Of equal paths, the last one in this order is used, which is the next in rotation.
    (paths.in_turn_after(last).rev())
        .filter(|path| eligible(&paths[*path]))
        .max_by_key(|path| (Reverse(paths[*path].error_count), divergence(paths, last, *path)))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::config::{AssociationConfig, Encapsulation};
    use crate::path::Paths;
    use crate::time::Instant;

    fn path(local: u8, remote: u8, errors: u32) -> Path {
        let address = |net, host| IpAddr::from([10, net, 0, host]);
        let config = AssociationConfig::default();
        let (local, remote) = (address(local, 1), address(remote, 2));
        let mut path =
            Path::new(Instant::ZERO, local, remote, 0, &config.of_path(Encapsulation::Ip));
        path.error_count = errors;
        path
    }

    #[test]
    // test: rfc7829 3.2 "The sender SHOULD choose the destination in PF state with"
    // test: rfc7829 4.1 "SHOULD attempt to pick the most divergent source"
    fn errors_come_first_and_divergence_next() {
        let best = |errors: [u32; 4], last| {
            let pairs = [(0, 0), (0, 1), (1, 0), (1, 1)];
            let paths =
                pairs.iter().zip(errors).map(|((l, r), errors)| path(*l, *r, errors)).collect();
            fewest_errors(&Paths::new(paths), PathId(last), |path| path.error_count < 9)
                .map(PathId::number)
        };
        assert_eq!(best([3, 2, 1, 2], 0), Some(2));
        // Both addresses differ from those of the path that had the last error.
        assert_eq!(best([1, 1, 1, 1], 0), Some(3));
        assert_eq!(best([1, 1, 1, 1], 2), Some(1));
        // The path itself is used only if it is the best.
        assert_eq!(best([1, 9, 9, 9], 0), Some(0));
        assert_eq!(best([1, 9, 1, 9], 0), Some(2));
        assert_eq!(best([9, 9, 9, 9], 0), None);
    }
}
