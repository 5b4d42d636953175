//! Vigilance: checks immediately when something looks wrong, and sends chunks that wait for a backed-off timer as soon
//! as a path answers again. [`Vigilance`] has the rules.

use std::time::Duration;

use super::Association;
use crate::event::{CloseReason, PathState};
use crate::marks::mark;
use crate::path::{Path, Phase, Refused};
use crate::per_path::PathId;
use crate::policy::Vigilance;
use crate::time::{Instant, nanos};

/// If this many bytes of user data arrive without a pause and then stop, a heartbeat is sent. With a lower limit, a
/// peer that sends a little from time to time would cost a heartbeat each time.
const FLOW: u32 = 65_536;
/// Maximum number of times that the time until the next heartbeat doubles.
const MOST_DOUBLINGS: u8 = 6;
/// The peer is considered gone after this many consecutive refused packets, with some on each path.
const REFUSALS: u32 = 3;
/// A sender of data waits this many times longer before it considers its peer gone.
const PATIENCE_OF_SENDERS: u32 = 4;
/// A receiver's heartbeats are urgent only for this long after its data stopped: a receiver has only
/// time to lose.
const IMPATIENCE: Duration = Duration::from_secs(120);
/// Maximum time between heartbeats to a port that refuses.
const REFUSED_INTERVAL: Duration = Duration::from_secs(1);

/// State of the checks.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Consecutive errors on any path (RFC 9260 section 8.1).
    pub(super) error_count: u32,
    /// When ICMP first reported that the peer does not support SCTP, or an ABORT that may be about an address only said that
    /// it does not know the association, if no packet of the peer has arrived since.
    pub(super) denied_since: Option<Instant>,
    /// When user data last arrived.
    data_at: Instant,
    /// When to check whether data has stopped. Moving a timer with every packet would take time for each packet.
    look_at: Option<Instant>,
    /// Bytes of user data since this side last sent a heartbeat for missing data.
    flow: u32,
    /// Number of consecutive heartbeats sent because a small amount of data stopped. Each doubles the time until the
    /// next one, so a message that arrives in pieces does not cost a heartbeat for each piece.
    asked: u8,
    /// Data has stopped, and nothing has arrived since.
    interrupted: bool,
    /// A path was refused, and nothing has arrived since.
    refused: bool,
    /// Time of the first of the errors in a row that may end the association.
    silent_since: Instant,
}

impl Watch {
    /// Records that user data arrived.
    fn on_data(&mut self, now: Instant, length: usize) {
        self.data_at = now;
        self.flow = self.flow.saturating_add(u32::try_from(length).unwrap_or(u32::MAX));
    }

    /// When to check whether data has stopped.
    pub(super) fn look_at(&self) -> Option<Instant> {
        self.look_at
    }

    /// Records the first of several consecutive errors.
    pub(super) fn silence_begins(&mut self, now: Instant) {
        self.silent_since = now;
    }
}

impl Association {
    /// The configured vigilance, if heartbeats may be sent now.
    fn vigilance(&self) -> Option<Vigilance> {
        self.configured_vigilance().filter(|_| self.state.heartbeats())
    }

    /// The same in any state.
    fn configured_vigilance(&self) -> Option<Vigilance> {
        let heartbeats = self.config.timers.heartbeat_interval.is_some();
        self.config.paths.vigilance().filter(|_| heartbeats)
    }

    /// Maximum time between heartbeats if something is wrong now.
    pub(super) fn urgent_interval(&self, now: Instant) -> Option<Duration> {
        let vigilance = self.vigilance()?;
        if self.watch.refused {
            return Some(vigilance.interval.min(REFUSED_INTERVAL));
        }
        let stuck = matches!(self.paths.phase(), Phase::PotentiallyFailed | Phase::Dormant)
            && !self.sender.is_done();
        let interrupted = self.watch.interrupted && now < self.watch.data_at + IMPATIENCE;
        (stuck || interrupted).then_some(vigilance.interval)
    }

    /// The time to the next heartbeat, given the interval. Heartbeats on several paths to ports that refuse are spread,
    /// because a host that limits its ICMP rate would always report the path that sends first.
    pub(super) fn until_asked_again(&mut self, interval: Duration) -> Duration {
        let asked = self.paths.iter().filter(|path| path.is_verified()).count();
        if !self.watch.refused || asked < 2 {
            return interval;
        }
        let nanos = nanos(interval);
        Duration::from_nanos(nanos / 2 + self.rng.below(nanos + 1))
    }

    /// Records that user data arrived.
    pub(super) fn watch_data(&mut self, now: Instant, length: usize) {
        self.watch.on_data(now, length);
        if self.watch.look_at.is_none() {
            self.watch.look_at = self.data_stop().map(|_| now + self.patience_for_data());
        }
    }

    /// Checks whether incoming data has stopped.
    pub(super) fn look_at_data(&mut self, now: Instant) {
        let stop = self.data_stop();
        // The wait may have become shorter meanwhile, if much data followed.
        self.watch.look_at = stop.map(|stop| stop.min(now + self.patience_for_data()));
        if stop.is_some_and(|stop| stop <= now) {
            self.watch.look_at = None;
            self.on_data_stop(now);
        }
    }

    /// Waits for the sender's first retransmission before considering data stopped.
    fn patience_for_data(&self) -> Duration {
        self.paths[self.acknowledger.path].rtt.fresh() * 2
    }

    /// When to send a heartbeat, if no more data has arrived by then.
    fn data_stop(&self) -> Option<Instant> {
        let flowed = self.watch.flow >= FLOW;
        let amid = self.watch.flow > 0 && self.receiver.is_amid();
        if !(flowed || amid) || self.vigilance().is_none() {
            return None;
        }
        let doublings = if flowed { 0 } else { self.watch.asked.min(MOST_DOUBLINGS) };
        Some(self.watch.data_at + self.patience_for_data() * (1 << doublings))
    }

    /// Incoming data has stopped: sends one heartbeat on every path. It opens a new mapping in a NAT that
    /// forgot the old one, and a peer that no longer has the association answers it with an ABORT.
    fn on_data_stop(&mut self, now: Instant) {
        mark!(DataStopped);
        let flowed = self.watch.flow >= FLOW;
        self.watch.asked = if flowed { 0 } else { self.watch.asked.saturating_add(1) };
        self.watch.flow = 0;
        self.watch.interrupted = true;
        for path in self.paths.iter_mut().filter(|path| path.is_verified()) {
            if !path.heartbeat.is_awaited() {
                path.heartbeat.demand(now);
            }
        }
    }

    /// Records that a packet with the right tag arrived, so the peer is alive.
    pub(super) fn heard_of_peer(&mut self) {
        if self.watch.refused {
            self.paths.iter_mut().for_each(|path| path.refused = None);
        }
        self.watch.interrupted = false;
        self.watch.refused = false;
    }

    /// Handles a packet, other than an answer, on a path that timed out: the direction from the peer works, and a
    /// heartbeat checks the other one. One heartbeat per RTO is enough.
    pub(super) fn ask_path(&mut self, now: Instant, id: PathId) {
        let path = &mut self.paths[id];
        let recent = path.rtt.fresh();
        if path.is_verified()
            && !path.heartbeat.sent_since(now - recent)
            && self.config.paths.vigilance().is_some()
            && self.config.timers.heartbeat_interval.is_some()
            && self.state.heartbeats()
        {
            mark!(PathAsked);
            path.heartbeat.demand(now);
        }
    }

    /// Handles the answer to a heartbeat sent at `sent` on a path that had timed out. Chunks that have been in flight
    /// since before then, on this path or on a failed one, are lost, and are retransmitted now.
    pub(super) fn resume(&mut self, now: Instant, id: PathId, sent: Instant) {
        if self.config.paths.vigilance().is_none() {
            return;
        }
        if self.sender.resume(now, id, sent, &mut self.paths) {
            mark!(Resumed);
        }
        self.sender.begin_burst();
    }

    /// Whether the errors of an association are enough to give it up: not before the timeouts of a single path would
    /// have been.
    pub(super) fn has_been_patient(&self, now: Instant) -> bool {
        if self.config.paths.vigilance().is_none() {
            return true;
        }
        // Use the path on which it would have taken longest.
        let verified = self.paths.iter().filter(|path| path.is_verified());
        let Some(mut rto) = verified.map(|path| path.rtt.fresh()).max() else { return true };
        let mut patience = Duration::ZERO;
        let mut left = self.config.paths.association_max_retrans;
        while left > 0 && rto < self.config.timers.rto_max {
            rto = (rto * 2).min(self.config.timers.rto_max);
            patience += rto;
            left -= 1;
        }
        patience = patience.saturating_add(self.config.timers.rto_max.saturating_mul(left));
        now >= self.watch.silent_since + patience
    }

    /// Handles an ICMP report that nothing listens on the UDP port of a path. Probes the path again. Returns `true` if
    /// every working path has been refused, and all together often and long enough: hosts limit the rate of such
    /// messages, and a firewall on one path says nothing about another.
    // req: rfc6951 5.5 "processed, the following mapping SHOULD apply"
    // exempt: rfc6951 5.5 "SHOULD be treated as ICMP messages with type" a firewall or a translator that has restarted says so, too; the association ends when every path is refused again and again, and by default only
    pub(super) fn on_refusal(&mut self, now: Instant, id: PathId) -> bool {
        let Some(vigilance) = self.configured_vigilance() else { return false };
        let refused = self.paths[id].refused.get_or_insert(Refused { since: now, times: 0 });
        refused.times = refused.times.saturating_add(1);
        self.watch.refused = true;
        let sends = !self.sender.has_all_acknowledged();
        let patience = vigilance.refused_after * if sends { PATIENCE_OF_SENDERS } else { 1 };
        let works = |path: &&Path| path.is_verified() && path.state != PathState::Inactive;
        let refusals = self.paths.iter().filter_map(|path| path.refused);
        if self.paths.iter().filter(works).all(|path| path.refused.is_some())
            && refusals.clone().map(|refused| u32::from(refused.times)).sum::<u32>() >= REFUSALS
            && refusals.clone().any(|refused| now >= refused.since + patience)
        {
            mark!(PeerRefused);
            self.peer_is_gone(CloseReason::PortUnreachable);
            return true;
        }
        // In the last states of a shutdown, T2-shutdown sends on one path after the other.
        if !self.state.heartbeats() {
            return false;
        }
        // Probe paths that nothing was sent on, too.
        for path in self.paths.iter_mut().filter(|path| path.is_verified()) {
            let wait = path.rtt.fresh().min(REFUSED_INTERVAL);
            // An answer that has not arrived by then will not arrive: the port refuses.
            if !path.heartbeat.sent_since(now - wait) {
                path.heartbeat.demand_at(now + wait);
            }
        }
        false
    }
}
