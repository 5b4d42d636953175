//! The paths of an association, and which of them carries new data.

use std::ops::{Deref, DerefMut, Index, IndexMut};
use std::time::Duration;

use super::{Failover, Path, Phase};
use crate::per_path::{MAX_PATHS, PathId, PerPath};
use crate::time::Instant;

/// All paths of an association.
#[derive(Debug)]
pub(crate) struct Paths {
    list: PerPath<Path>,
    /// Number of the next path; larger than any valid number when all have been used.
    next: u32,
    choice: Failover,
    /// When latency last chose the path in use, in milliseconds, which wrap; 0 if it never did.
    moved: u32,
}

/// The time in milliseconds, which wrap after 50 days: a path that was chosen then stays for a second more.
fn millis(now: Instant) -> u32 {
    (now.as_nanos() / 1_000_000) as u32
}

impl Paths {
    /// A table of these paths. The first one is the primary path, and in use.
    pub(crate) fn new(list: Vec<Path>) -> Self {
        let choice =
            Failover { phase: Phase::Primary, primary: PathId::FIRST, in_use: PathId::FIRST };
        let mut paths = Self { list: PerPath::default(), next: 0, choice, moved: 0 };
        paths.list.reserve_for(list.len());
        for path in list {
            paths.push(path);
        }
        paths
    }

    /// The path for new data.
    pub(crate) fn active(&self) -> PathId {
        self.choice.in_use
    }

    /// The primary path.
    pub(crate) fn primary(&self) -> PathId {
        self.choice.primary
    }

    /// Whether the path in use is the primary one, an alternate one, or a failed one.
    pub(crate) fn phase(&self) -> Phase {
        self.choice.phase
    }

    /// Phase, primary path, and path in use.
    pub(crate) fn choice(&self) -> Failover {
        self.choice
    }

    /// Sets the result of failover and return; [`activate`](Self::activate) changes the path in use.
    pub(crate) fn choose(&mut self, phase: Phase, primary: PathId) {
        self.choice = Failover { phase, primary, ..self.choice };
    }

    /// Makes this the path for new data.
    pub(crate) fn activate(&mut self, path: PathId) {
        self.choice.in_use = path;
    }

    /// When latency last chose the path in use, if it ever did.
    pub(crate) fn moved(&self, now: Instant) -> Option<Instant> {
        let ago = millis(now).wrapping_sub(self.moved);
        (self.moved != 0).then(|| now - Duration::from_millis(ago.into()))
    }

    /// Records that latency has chosen the path in use.
    pub(crate) fn on_moved(&mut self, now: Instant) {
        self.moved = millis(now).max(1);
    }

    /// Makes this the primary path and the path in use, when the association begins or restarts.
    pub(crate) fn begin_with(&mut self, path: PathId) {
        self.choice.primary = path;
        self.choice.in_use = path;
    }

    /// Association Maximum DATA Chunk Size: the largest chunk that fits on every path (RFC 9260
    /// section 7.3).
    // req: rfc9260 7.3 "sender SHOULD track an AMDCS that will be the smallest"
    // req: rfc9260 6.9 "MUST take into account the SCTP packet header"
    // req: rfc9260 7.3 "this AMDCS SHOULD be used to calculate"
    // req: rfc9260 6 "SHOULD be smaller than or equal to the"
    // req: rfc9260 6.9 "SHOULD choose a size of DATA chunks"
    pub(crate) fn amdcs(&self) -> usize {
        self.list.iter().map(Path::pmdcs).min().unwrap_or(512)
    }

    /// Adds a path, under an identifier that was never used. `None` if the maximum is reached, or no
    /// identifiers are left.
    pub(crate) fn push(&mut self, path: Path) -> Option<PathId> {
        if self.list.len() >= MAX_PATHS {
            return None;
        }
        // Fields with little room, such as timestamps, identify the existing paths by the lowest bits
        // of their identifiers.
        let taken = |number: u32| {
            self.list
                .ids()
                .any(|id| usize::from(id.number()) % MAX_PATHS == number as usize % MAX_PATHS)
        };
        let number = (self.next..).find(|number| !taken(*number))?;
        let id = PathId(u16::try_from(number).ok()?);
        self.next = number + 1;
        self.list.push(Path { id, ..path });
        Some(id)
    }

    /// The path whose identifier has these lowest bits (see [`low_bits`]).
    pub(crate) fn by_low_bits(&self, bits: usize) -> Option<PathId> {
        self.list.ids().find(|id| low_bits(*id) == bits)
    }

    /// Removes a path. Its identifier is never used again.
    pub(crate) fn remove(&mut self, path: PathId) {
        self.list.remove(path);
    }

    /// Releases unused memory.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.list.shrink_to_fit();
    }
}

/// The bits of a path's identifier that distinguish all paths that exist at the same time.
pub(crate) fn low_bits(path: PathId) -> usize {
    usize::from(path.number()) % MAX_PATHS
}

impl Deref for Paths {
    type Target = PerPath<Path>;

    fn deref(&self) -> &PerPath<Path> {
        &self.list
    }
}

impl DerefMut for Paths {
    fn deref_mut(&mut self) -> &mut PerPath<Path> {
        &mut self.list
    }
}

impl Index<PathId> for Paths {
    type Output = Path;

    #[inline]
    #[track_caller]
    fn index(&self, path: PathId) -> &Path {
        &self.list[path]
    }
}

impl IndexMut<PathId> for Paths {
    #[inline]
    #[track_caller]
    fn index_mut(&mut self, path: PathId) -> &mut Path {
        &mut self.list[path]
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::config::{AssociationConfig, Encapsulation};
    use crate::time::Instant;

    fn path(host: u8) -> Path {
        let config = AssociationConfig::default();
        let address = |host| IpAddr::from([10, 0, 0, host]);
        Path::new(Instant::ZERO, address(1), address(host), 0, &config.of_path(Encapsulation::Ip))
    }

    #[test]
    fn names_are_never_given_twice_and_differ_in_their_low_bits() {
        let mut paths = Paths::new((0..16).map(path).collect());
        let first: Vec<u16> = paths.ids().map(PathId::number).collect();
        assert_eq!(first, (0..16).collect::<Vec<u16>>());
        assert_eq!(paths.push(path(99)), None, "no more than 16 at a time");
        let mut given: Vec<PathId> = paths.ids().collect();
        // The path with the fifth identifier remains; others are added and removed.
        for step in 0..100 {
            let leaving = paths.ids().filter(|id| *id != PathId(4)).nth(step % 7).unwrap();
            paths.remove(leaving);
            if step % 3 == 0 {
                let leaving = paths.ids().find(|id| *id != PathId(4)).unwrap();
                paths.remove(leaving);
                given.extend(paths.push(path(7)));
            }
            let id = paths.push(path(8)).unwrap();
            assert!(!given.contains(&id), "{id} a second time");
            given.push(id);
            for id in paths.ids() {
                assert_eq!(paths.by_low_bits(low_bits(id)), Some(id));
            }
        }
        assert!(paths.has(PathId(4)));
    }

    #[test]
    fn there_is_an_end_of_names() {
        let mut paths = Paths::new(vec![path(1)]);
        paths.next = u32::from(u16::MAX);
        assert_eq!(paths.push(path(2)), Some(PathId(u16::MAX)));
        paths.remove(PathId(u16::MAX));
        assert_eq!(paths.push(path(3)), None);
        assert_eq!(paths.len(), 1);
    }
}
