//! What belongs to one incarnation of the peer, and is made anew when it has lost its state.

use super::{Association, Control};
use crate::association::state::State;
use crate::path::Path;
use crate::time::Instant;

impl Association {
    /// Keeps only these paths, of which there must be one. All that is stored by the number of a
    /// path gets the new number; what was about a path that is gone goes to the one in use.
    ///
    /// Only while nothing is outstanding: chunks know their path by its number.
    pub(super) fn retain_paths(&mut self, mut keep: impl FnMut(&Path) -> bool) {
        if self.paths.iter().all(&mut keep) || !self.paths.iter().any(&mut keep) {
            return;
        }
        let numbers = self.thin_out(keep);
        let new = |old: usize| numbers.get(old).copied().flatten();
        self.paths.activate(new(self.paths.active()).unwrap_or(0));
        let in_use = self.paths.active();
        self.paths.choose(self.paths.phase(), new(self.paths.primary()).unwrap_or(in_use));
        self.acknowledger.path = new(self.acknowledger.path).unwrap_or(in_use);
        if let State::CookieWait { t1: repeat, .. }
        | State::CookieEchoed { t1: repeat, .. }
        | State::ShutdownSent { t2: repeat }
        | State::ShutdownAckSent { t2: repeat } = &mut self.state
        {
            repeat.path = new(repeat.path).unwrap_or(in_use);
        }
        // An answer to a heartbeat says that a path works, and no other.
        self.outbox.chunks.retain_mut(|(path, control)| match new(usize::from(*path)) {
            Some(number) => {
                *path = number as u8;
                true
            }
            None => {
                *path = in_use as u8;
                !matches!(control, Control::HeartbeatAck(_) | Control::Init)
            }
        });
    }

    /// The same for paths and sender alone. Returns the new number of each path.
    pub(super) fn thin_out(&mut self, mut keep: impl FnMut(&Path) -> bool) -> Vec<Option<usize>> {
        let mut next = 0;
        let mut number = |path: &Path| {
            keep(path).then(|| {
                next += 1;
                next - 1
            })
        };
        let numbers: Vec<Option<usize>> = self.paths.iter().map(&mut number).collect();
        let mut kept = numbers.iter().map(Option::is_some);
        self.paths.retain(|_| kept.next().unwrap_or(false));
        self.sender.renumber(&numbers);
        self.paths_changed = true;
        numbers
    }

    /// Paths that are new have lanes from now on.
    pub(super) fn add_lanes(&mut self, now: Instant) {
        let setup = self.config.of_path(self.surroundings.encapsulation);
        self.sender.add_lanes(now, &self.paths, &setup);
    }
}
