//! What belongs to one incarnation of the peer, and is made anew when it has lost its state.

use anabranch_wire::Tsn;

use super::{Association, Control};
use crate::association::state::State;
use crate::path::Path;
use crate::recovery::ack::{AckSummary, Acknowledged};
use crate::send::Outstanding;
use crate::time::Instant;
use crate::tsn;

impl Association {
    /// The state of a sender that has sent nothing yet to a peer with this receive window. What the
    /// paths know for themselves is [`Path::restart`]'s; both leave nothing of the time before.
    // req: rfc9260 5.2.4 "related to this peer MUST be reset"
    pub(super) fn fresh_sender(&mut self, now: Instant, initial_tsn: Tsn, peer_rwnd: u32) {
        self.occupancy.note(now, self.outstanding.held(), self.outstanding.held_acked());
        self.occupancy.on_acknowledgement(false, true);
        self.blocking.forget_timeout();
        self.initial_tsn = initial_tsn;
        self.outstanding = Outstanding::new(tsn::first(initial_tsn.0));
        self.outstanding.set_paths(self.paths.len());
        self.acknowledged = Acknowledged::default();
        self.summary = AckSummary::default();
        self.open_window(peer_rwnd);
        self.window_probe = None;
        self.probe_now = false;
        self.probing = false;
        self.sack_since_probe = false;
        self.awaits_sack = false;
        self.packets = 1;
        self.last_new = self.paths.active();
    }

    /// The peer announced its receive window in the handshake.
    pub(super) fn open_window(&mut self, rwnd: u32) {
        self.peer_rwnd = rwnd;
        self.announced_rwnd = rwnd;
        self.largest_rwnd = rwnd;
    }

    /// Keeps only these paths, of which there must be one. All that is stored by the number of a
    /// path gets the new number; what was about a path that is gone goes to the one in use.
    ///
    /// Only while nothing is outstanding: chunks know their path by its number.
    pub(super) fn retain_paths(&mut self, mut keep: impl FnMut(&Path) -> bool) {
        debug_assert!(self.outstanding.is_empty(), "chunks know their path by its number");
        let mut numbers = Vec::with_capacity(self.paths.len());
        let mut next = 0;
        for path in self.paths.iter() {
            let kept = keep(path);
            numbers.push(kept.then_some(next));
            next += usize::from(kept);
        }
        if next == 0 || next == self.paths.len() {
            return;
        }
        let mut kept = numbers.iter().map(Option::is_some);
        self.paths.retain(|_| kept.next().unwrap_or(false));
        let new = |old: usize| numbers.get(old).copied().flatten();
        self.paths.activate(new(self.paths.active()).unwrap_or(0));
        let in_use = self.paths.active();
        self.paths.choose(self.paths.phase(), new(self.paths.primary()).unwrap_or(in_use));
        self.sack_path = new(self.sack_path).unwrap_or(in_use);
        self.last_new = new(self.last_new).unwrap_or(in_use);
        if let State::CookieWait { t1: repeat, .. }
        | State::CookieEchoed { t1: repeat, .. }
        | State::ShutdownSent { t2: repeat }
        | State::ShutdownAckSent { t2: repeat } = &mut self.state
        {
            repeat.path = new(repeat.path).unwrap_or(in_use);
        }
        // An answer to a heartbeat says that a path works, and no other.
        self.control.retain_mut(|(path, control)| match new(usize::from(*path)) {
            Some(number) => {
                *path = number as u8;
                true
            }
            None => {
                *path = in_use as u8;
                !matches!(control, Control::HeartbeatAck(_) | Control::Init)
            }
        });
        self.outstanding.set_paths(self.paths.len());
        self.paths_changed = true;
    }
}
