//! Deadlines, and what expires.

use std::time::Duration;

use anabranch_units::Instant;

use super::Endpoint;
use super::peer::Side;

/// Time between two looks for what has expired.
const SWEEP: Duration = Duration::from_secs(2);

/// A guest that has been silent for this time is forgotten. The client's next packet begins a handshake.
const GUEST_LIFE: Duration = Duration::from_secs(15 * 60);

impl Endpoint {
    /// When [`handle_timeout`](Self::handle_timeout) must be called; `None` if nothing is waiting.
    pub fn next_deadline(&self) -> Option<Instant> {
        [self.sweep, self.next_host_deadline()].into_iter().flatten().min()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.handle_host_timers(now);
        if self.sweep.is_some_and(|at| now >= at) {
            self.sweep = None;
            self.remove_expired(now);
        }
    }

    /// Makes sure that what expires is removed.
    pub(super) fn plan_sweep(&mut self, now: Instant) {
        self.sweep.get_or_insert(now + SWEEP);
    }

    fn remove_expired(&mut self, now: Instant) {
        let mut gone = Vec::new();
        let mut waits = false;
        for (network, peer) in &mut self.peers {
            let sessions = &mut peer.sessions;
            if let Some((session, _)) = sessions.previous.take_if(|(_, until)| now >= *until) {
                self.words.remove(&session.local_word);
            }
            if let Some(pending) = sessions.pending.take_if(|pending| now >= pending.expires) {
                self.words.remove(&pending.session.local_word);
                self.hellos.remove(&pending.hello);
            }
            let is_guest = matches!(peer.side, Side::Guest(_));
            let has_none = sessions.current.is_none() && sessions.pending.is_none();
            let is_silent = now.saturating_since(peer.heard) >= GUEST_LIFE;
            if is_guest && (has_none || is_silent) {
                gone.push(*network);
            }
            waits |= is_guest || sessions.previous.is_some();
        }
        gone.into_iter().for_each(|network| self.remove(network));
        if waits {
            self.plan_sweep(now);
        }
    }
}
