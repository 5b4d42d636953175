//! When an address of this side goes that another one replaces.

use std::net::IpAddr;

use crate::event::PathState;
use crate::named::named;
use crate::options::words;
use crate::path::Path;
use crate::per_path::PerPath;

/// The order in which an association changes from one network to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Handover {
    /// Make before break: an address that works is used until one that is being added has been verified. One that does
    /// not work goes at once.
    #[default]
    MakeFirst,
    /// The peer is asked for both in one request: the old address is not used any more, whether or not the new one works.
    AtOnce,
}

named!(Handover { MakeFirst = "make-first", AtOnce = "at-once", });
words!(Handover);

impl Handover {
    /// Whether the removal of a local address waits: it is the only one that works, and another one is being added in the
    /// same request (`adds`), or verified.
    pub(crate) fn waits(self, local: IpAddr, adds: bool, paths: &PerPath<Path>) -> bool {
        let works = |path: &Path| path.is_active() && !path.detached;
        let comes = |path: &Path| path.state == PathState::Unconfirmed && !path.detached;
        let elsewhere = || paths.iter().filter(|path| path.local != local);
        self == Self::MakeFirst
            && paths.iter().any(|path| path.local == local && works(path))
            && !elsewhere().any(works)
            && (adds || elsewhere().any(comes))
    }
}
