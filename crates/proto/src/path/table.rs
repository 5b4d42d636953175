//! The paths of an association, and which of them carries new data.

use std::ops::{Deref, DerefMut, Index, IndexMut};

use super::Path;
use crate::policy::failover::{Failover, Phase};

/// All paths of an association.
#[derive(Debug)]
pub(crate) struct Paths {
    list: Vec<Path>,
    choice: Failover,
}

impl Paths {
    /// These paths, of which the first one is the primary one and in use.
    pub(crate) fn new(list: Vec<Path>) -> Self {
        Self { list, choice: Failover { phase: Phase::Primary, primary: 0, in_use: 0 } }
    }

    /// The path for new data.
    pub(crate) fn active(&self) -> usize {
        self.choice.in_use
    }

    /// The primary path.
    pub(crate) fn primary(&self) -> usize {
        self.choice.primary
    }

    /// Whether the path in use is the primary one, another one, or one that has failed.
    pub(crate) fn phase(&self) -> Phase {
        self.choice.phase
    }

    /// All three.
    pub(crate) fn choice(&self) -> Failover {
        self.choice
    }

    /// What failover and return came to; the path in use is changed by [`activate`](Self::activate).
    pub(crate) fn choose(&mut self, phase: Phase, primary: usize) {
        self.choice = Failover { phase, primary, ..self.choice };
    }

    /// New data goes over this path.
    pub(crate) fn activate(&mut self, path: usize) {
        self.choice.in_use = path;
    }

    /// The association begins, or begins anew, on this path.
    pub(crate) fn begin_with(&mut self, path: usize) {
        self.choice.primary = path;
        self.choice.in_use = path;
    }

    /// Association Maximum DATA Chunk Size: what fits on every path (RFC 9260 section 7.3).
    // req: rfc9260 7.3 "sender SHOULD track an AMDCS that will be the smallest"
    // req: rfc9260 6.9 "MUST take into account the SCTP packet header"
    // req: rfc9260 7.3 "this AMDCS SHOULD be used to calculate"
    // req: rfc9260 6 "SHOULD be smaller than or equal to the"
    // req: rfc9260 6.9 "SHOULD choose a size of DATA chunks"
    pub(crate) fn amdcs(&self) -> usize {
        self.list.iter().map(Path::pmdcs).min().unwrap_or(512)
    }

    /// One path more.
    pub(crate) fn push(&mut self, path: Path) {
        self.list.push(path);
    }

    /// Keeps the paths that are wanted. Numbers change; the caller says which is in use then.
    pub(crate) fn retain(&mut self, keep: impl FnMut(&Path) -> bool) {
        self.list.retain(keep);
    }

    /// Gives memory back that is not used.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.list.shrink_to_fit();
    }
}

impl Deref for Paths {
    type Target = [Path];

    fn deref(&self) -> &[Path] {
        &self.list
    }
}

impl DerefMut for Paths {
    fn deref_mut(&mut self) -> &mut [Path] {
        &mut self.list
    }
}

impl Index<usize> for Paths {
    type Output = Path;

    fn index(&self, path: usize) -> &Path {
        &self.list[path]
    }
}

impl IndexMut<usize> for Paths {
    fn index_mut(&mut self, path: usize) -> &mut Path {
        &mut self.list[path]
    }
}
