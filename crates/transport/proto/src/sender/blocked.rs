//! Determines which full buffer blocks new data although the congestion window has room.

use super::Sender;
use crate::path::Paths;
use crate::send::Held;
use crate::time::Instant;

impl Sender {
    /// Must be called when no more data can be sent now: records which full buffer is the reason, if any,
    /// and starts the timer to probe a closed window. `may_send`: the state of the association permits
    /// data.
    pub(crate) fn after_turns(&mut self, now: Instant, may_send: bool, paths: &Paths) {
        if may_send {
            self.watch_window(now, paths);
            if self.queue.bundle().is_some() {
                self.watch_bundling(now, paths);
            }
        }
        let wants = !self.queue.is_empty() || self.queue.blocked;
        let held = if wants && may_send { self.held_back(now, paths) } else { Held::default() };
        let recovering = self.occupancy.in_recovery();
        self.blocking.note(now, held, recovering, self.outstanding.base());
    }

    /// The buffer without room for the next chunk, if a path has room for the chunk.
    fn held_back(&self, now: Instant, paths: &Paths) -> Held {
        let mut shares = None;
        for path in paths.ids() {
            if self.carries_new(path, paths) && self.has_room(now, path) {
                let full = self.full_shares(path, paths);
                shares = Some(full);
                if !full.any() {
                    break;
                }
            }
        }
        let Some(shares) = shares else { return Held::default() };
        let full = self.largest_payload(paths);
        match self.next_chunk(full, full, true) {
            Some(next) if next > self.window.left() => {
                Held { by_receive_window: true, ..Held::default() }
            }
            Some(_) => shares,
            None => Held { by_send_buffer: self.queue.is_empty(), ..Held::default() },
        }
    }
}
