//! Which full buffer keeps new data from a congestion window that has room for it.

use anabranch_wire::Data;

use super::Association;
use crate::send::Held;
use crate::time::Instant;

impl Association {
    /// Nothing more leaves now; tells the instruments which full buffer is to blame, if one is.
    pub(super) fn note_blocking(&mut self, now: Instant) {
        if !self.is_established() {
            return;
        }
        let wants = !self.send.is_empty() || self.send.blocked;
        let held =
            if wants && self.state.sends_data() { self.held_back(now) } else { Held::default() };
        let recovering = self.occupancy.in_recovery();
        self.blocking.note(now, held, recovering, self.outstanding.base());
    }

    /// The buffer without room for the next chunk, if a path has room for it.
    fn held_back(&mut self, now: Instant) -> Held {
        let mut shares = None;
        for path in 0..self.paths.len() {
            if self.carries_new(path) && self.has_room(now, path) {
                let full = self.full_shares(path);
                shares = Some(full);
                if !full.any() {
                    break;
                }
            }
        }
        let Some(shares) = shares else { return Held::default() };
        let full = self.amdcs() - Data::HEADER_LEN;
        match self.next_chunk(full, full, true) {
            Some(next) if next > self.peer_rwnd as usize => {
                Held { by_receive_window: true, ..Held::default() }
            }
            Some(_) => shares,
            None => Held { by_send_buffer: self.send.is_empty(), ..Held::default() },
        }
    }
}
