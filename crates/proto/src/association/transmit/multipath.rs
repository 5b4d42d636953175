//! Concurrent multipath transfer: which paths carry data, and how much of the buffers each may hold
//! (nat 1.2.3; the buffer splitting is that of Adhari, Dreibholz, Becke, Rathgeb, Tüxen, "Evaluation
//! of concurrent multipath transfer over dissimilar paths", 2011).

use super::Association;
use crate::marks::mark;
use crate::policy::{PathChoice, RetransmissionPolicy, disjoint};
use crate::send::Held;
use crate::time::Instant;

impl Association {
    /// The path for the next packet of new data: the one in use, or with concurrent multipath transfer
    /// one of those that have room.
    pub(super) fn path_for_new(&mut self, now: Instant) -> Option<usize> {
        let Some(multipath) = self.config.concurrent() else { return Some(self.paths.active()) };
        if self.send.is_empty() {
            return None;
        }
        let room = |path: usize| {
            self.carries_new(path) && self.has_room(now, path) && !self.full_shares(path).any()
        };
        let path = multipath.path_choice.path(self.last_new, &self.paths, room)?;
        if multipath.path_choice == PathChoice::WindowInTurn {
            // The turn is given on when the window is full, even if nothing may leave now.
            self.last_new = path;
        }
        Some(path)
    }

    /// Whether new data may take a path, if it has room there. While no path is active the one in use
    /// may have failed.
    pub(super) fn carries_new(&self, path: usize) -> bool {
        path == self.paths.active() || (self.config.multipath.is_on() && self.is_concurrent(path))
    }

    fn is_concurrent(&self, path: usize) -> bool {
        self.paths[path].is_active() && self.paths[path].concurrent
    }

    /// A path came or went, or another one is in use: chooses again which of them carry data together.
    pub(in crate::association) fn choose_concurrent_paths(&mut self) {
        if self.config.multipath.is_on() {
            let active = self.paths.active();
            disjoint::choose(&mut self.paths, active);
        }
    }

    /// The buffers that are split between the paths, and of which one more packet on a path would
    /// take more than the equal share: of the peer's window what is in flight, of the send buffer
    /// what the path carried last and has to be kept.
    pub(super) fn full_shares(&self, path: usize) -> Held {
        let paths = (0..self.paths.len()).filter(|path| self.is_concurrent(*path)).count();
        let splits = self.config.concurrent().is_some_and(|multipath| multipath.buffer_split);
        if !splits || paths < 2 {
            return Held::default();
        }
        let packet = self.paths[path].pmdcs();
        let window = self.peer_rwnd as usize + self.outstanding.payload_in_flight();
        let (flight, held) = (self.outstanding.flight(path), self.outstanding.held_on(path));
        // A path with nothing on it may always try.
        let exceeds = Held {
            by_send_buffer: held > 0 && held + packet > self.config.sending.send_buffer / paths,
            by_receive_window: flight > 0 && flight + packet > window / paths,
        };
        if exceeds.by_send_buffer || exceeds.by_receive_window {
            mark!(MultipathShare);
        }
        exceeds
    }

    /// Numbers the next packet on a path. With concurrent multipath transfer each path counts for
    /// itself, because what leaves on another one says nothing about loss on this one.
    pub(in crate::association) fn packet_number(&self, path: usize) -> u64 {
        match self.config.concurrent() {
            Some(_) => self.paths[path].next_packet,
            None => self.packets,
        }
    }

    /// RTX-ASAP: what waits for a path that is full goes out on one that has room.
    pub(super) fn retransmit_asap(&mut self) {
        if self.config.paths.retransmission != RetransmissionPolicy::RtxAsap {
            return;
        }
        let room = |path: usize| {
            let state = &self.paths[path];
            self.is_concurrent(path) && self.outstanding.flight(path) < state.congestion.cwnd()
        };
        let paths = 0..self.paths.len();
        let waiting = paths.clone().find(|path| {
            let at_once = self.paths[*path].retransmit_at_once;
            self.outstanding.first_lost(*path).is_some() && !at_once && !room(*path)
        });
        let Some(from) = waiting else { return };
        let free =
            paths.clone().find(|path| self.outstanding.first_lost(*path).is_none() && room(*path));
        if let Some(to) = free {
            mark!(RtxAsapMoved);
            self.outstanding.redirect_lost(from, to);
        }
    }
}
