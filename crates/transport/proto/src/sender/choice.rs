//! Chooses the path for new data: the path in use or, with concurrent multipath transfer, one of several;
//! and limits the share of the buffers that each may use (nat 1.2.3; the buffer splitting is by Adhari,
//! Dreibholz, Becke, Rathgeb, Tüxen, "Evaluation of concurrent multipath transfer over dissimilar paths",
//! 2011).

use super::Sender;
use crate::marks::mark;
use crate::path::Paths;
use crate::per_path::PathId;
use crate::policy::{PathChoice, RetransmissionPolicy, SlowPaths};
use crate::send::Held;
use crate::time::Instant;

impl Sender {
    /// The path on which a packet of new data may be sent: the path in use or, with concurrent multipath
    /// transfer, one of those that have room.
    pub(crate) fn path_for_new(&self, now: Instant, paths: &Paths) -> Option<PathId> {
        if self.queue.classes().is_some() {
            return self.path_for_classes(now, paths);
        }
        let path = match self.config.concurrent() {
            None => paths.active(),
            Some(_) if self.queue.is_empty() => return None,
            Some(multipath) => {
                let room = |path| self.has_room_of_its_own(now, path, paths);
                multipath.path_choice.path(self.last_new, paths, room)?
            }
        };
        self.may_send_new(now, path, paths).then_some(path)
    }

    /// Prepares the decision which data to send: removes expired messages, moves chunks that block the
    /// window away from a slow path, and looks for paths with room for waiting chunks. Returns a path
    /// that proved to be late, which should be probed.
    pub(crate) fn before_turn(&mut self, now: Instant, paths: &mut Paths) -> Option<PathId> {
        if self.queue.next_expiry().is_some() {
            self.expire(now);
        }
        if self.partial.is_some() {
            self.give_up_lost(now);
            // What was lost, and so had no timer, may be given up now: then only a FORWARD TSN is under way.
            if !self.has_losses() {
                self.watch_forward_tsn(now, paths);
            }
        }
        let late = self.overtake(now, paths);
        // Must follow `overtake`, which may lose more chunks.
        if self.has_losses() {
            if self.config.recovery.f_rto {
                self.end_idle_questions(now, paths);
            }
            self.retransmit_asap(paths);
        }
        if let Some(multipath) = self.config.concurrent()
            && multipath.path_choice == PathChoice::WindowInTurn
            && !self.queue.is_empty()
            && self.path_for_repairs(now, paths).is_none()
        {
            // Move on to the next path when the window is full, even if nothing may be sent now.
            let room = |path| self.has_room_of_its_own(now, path, paths);
            if let Some(path) = multipath.path_choice.path(self.last_new, paths, room) {
                self.last_new = path;
            }
        }
        if self.copies.is_some() {
            self.plan_copies(now, paths);
        }
        late
    }

    /// Whether a path may carry new data if it has room. While no path is active, the path in use may be
    /// a failed one.
    #[inline]
    pub(super) fn carries_new(&self, path: PathId, paths: &Paths) -> bool {
        self.carries_usual(path, paths) || self.carries_class(path, paths)
    }

    /// The same for data of streams without a class.
    #[inline]
    pub(super) fn carries_usual(&self, path: PathId, paths: &Paths) -> bool {
        path == paths.active() || (self.config.multipath.is_on() && paths[path].is_concurrent())
    }

    /// Whether one of several paths has room for new data, and its share of the buffers is not full.
    pub(super) fn has_room_of_its_own(&self, now: Instant, path: PathId, paths: &Paths) -> bool {
        self.carries_new(path, paths)
            && self.has_room(now, path)
            && !self.full_shares(path, paths).any()
            && self.arrives_in_time(now, path, paths)
    }

    /// The buffers that are split between the paths, and in which one more packet on a path would exceed
    /// an equal share. In the peer's window, data in flight counts; in the send buffer, the stored chunks
    /// that the path carried last.
    pub(super) fn full_shares(&self, path: PathId, paths: &Paths) -> Held {
        let count = paths.iter().filter(|path| path.is_concurrent()).count();
        let splits = self.config.concurrent().is_some_and(|multipath| {
            multipath.buffer_split && multipath.slow_paths == SlowPaths::AsOthers
        });
        if !splits || count < 2 {
            return Held::default();
        }
        let packet = paths[path].pmdcs();
        let window = self.window.left() + self.outstanding.payload_in_flight();
        let (flight, held) = (self.outstanding.flight(path), self.outstanding.held_on(path));
        // A path without data may always send.
        let exceeds = Held {
            by_send_buffer: held > 0 && held + packet > self.queue.limit() / count,
            by_receive_window: flight > 0 && flight + packet > window / count,
        };
        if exceeds.any() {
            mark!(MultipathShare);
        }
        exceeds
    }

    /// The number of the next packet on a path. If data on one path overtakes data on another, packets are
    /// numbered by path, because packets on another path say nothing about loss on this one.
    pub(crate) fn packet_number(&self, path: PathId) -> u64 {
        if self.config.judges_by_path() { self.lanes[path].next_packet } else { self.next_packet }
    }

    /// RTX-ASAP: moves chunks that wait for a full path to a path that has room.
    fn retransmit_asap(&mut self, paths: &Paths) {
        let asap = self.config.paths.retransmission == RetransmissionPolicy::RtxAsap;
        if !asap || self.config.paths.class_bound {
            return;
        }
        let room = |path: PathId| {
            paths[path].is_concurrent()
                && self.outstanding.flight(path) < self.lanes[path].congestion.cwnd()
        };
        let waiting = paths.ids().find(|path| {
            let at_once = self.lanes[*path].retransmit_at_once;
            self.outstanding.first_lost(*path).is_some() && !at_once && !room(*path)
        });
        let Some(from) = waiting else { return };
        let free = paths.ids().find(|path| {
            self.outstanding.first_lost(*path).is_none()
                && room(*path)
                && self.safer_than(*path, paths).is_none()
        });
        if let Some(to) = free {
            mark!(RtxAsapMoved);
            self.redirect(from, to);
        }
    }
}
