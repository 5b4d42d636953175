//! What may go on which path, if streams have classes (`policy/classes.rs`).

use super::Sender;
use crate::path::{Path, Paths};
use crate::per_path::{PathId, PerPath};
use crate::policy::ClassPaths;
use crate::send::{Cause, Class, Queued};
use crate::time::Instant;

impl Sender {
    /// The paths of the class, if there is one.
    fn class_paths(&self) -> Option<ClassPaths> {
        let options = &self.config.paths;
        options.class_from.map(|_| options.class_paths)
    }

    /// Whether a path carries new data of the class only because it is one of its own.
    pub(super) fn carries_class(&self, path: PathId, paths: &Paths) -> bool {
        self.class_paths().is_some_and(|own| paths[path].is_concurrent() && own.has(path, paths))
    }

    /// The class whose message goes on a path next; `None` if there is none.
    pub(super) fn class_for(&self, path: PathId, paths: &Paths) -> Option<Class> {
        let own = self.class_paths()?;
        self.queue.classes()?.first(|class, next| match class {
            Class::Usual => self.carries_usual(path, paths),
            Class::Own => self.class_goes(own, next, path, paths),
        })
    }

    /// Whether the next message of the class may go on a path.
    fn class_goes(&self, own: ClassPaths, next: &Queued, path: PathId, paths: &Paths) -> bool {
        if paths[path].is_concurrent() && own.has(path, paths) {
            return true;
        }
        if !self.carries_usual(path, paths) {
            return false;
        }
        if !self.config.paths.class_bound {
            let room = |path| self.charged(path) < self.lanes[path].congestion.cwnd();
            return !own.any(paths, room);
        }
        own.have_failed(paths) || (next.begun && !own.any(paths, |_| true))
    }

    /// The next message that may go on a path.
    pub(super) fn next_for(&self, path: PathId, paths: &Paths) -> Option<&Queued> {
        let Some(classes) = self.queue.classes() else { return self.queue.next() };
        classes.peek_class(self.class_for(path, paths)?)
    }

    /// Makes that message the next one of the queue; `false` if there is none.
    pub(super) fn select_for(&mut self, path: PathId, paths: &Paths) -> bool {
        let class = self.class_for(path, paths);
        class.inspect(|class| self.queue.select(*class)).is_some()
    }

    /// The path for new data: the first one in rotation on which something may go.
    pub(super) fn path_for_classes(&self, now: Instant, paths: &Paths) -> Option<PathId> {
        let goes = |path| {
            self.has_room_of_its_own(now, path, paths) && self.may_send_new(now, path, paths)
        };
        match self.config.concurrent() {
            Some(multipath) => multipath.path_choice.path(self.last_new, paths, goes),
            None => paths.in_turn_after(self.last_new).find(|path| goes(*path)),
        }
    }

    /// Whether a path has used three quarters of the peer's window, so that the rest is for other paths. A path
    /// without data may always send.
    pub(super) fn leaves_no_window(&self, path: PathId, paths: &Paths) -> bool {
        if self.queue.classes().is_none() || paths.iter().filter(|p| p.is_concurrent()).count() < 2
        {
            return false;
        }
        let flight = self.outstanding.flight(path);
        let window = self.window.left() + self.outstanding.payload_in_flight();
        flight > 0 && flight + paths[path].pmdcs() > window - window / 4
    }

    /// Whether a message of this stream keeps to the paths of its class.
    pub(super) fn is_bound(&self, stream: u16) -> bool {
        let options = &self.config.paths;
        options.class_bound && options.class_from.is_some_and(|from| u32::from(stream) >= from)
    }

    /// The path that lost a chunk, if the chunk is bound to it. A path that has timed out may not work.
    pub(super) fn keeps_path(
        &self,
        tsn: u64,
        cause: Cause,
        paths: &PerPath<Path>,
    ) -> Option<PathId> {
        let slot = self.outstanding.get(tsn)?;
        let stays = cause.is_reported()
            && self.config.paths.class_bound
            && paths[slot.path].is_concurrent();
        (stays && self.is_bound(self.outstanding.message(slot)?.stream)).then_some(slot.path)
    }
}
