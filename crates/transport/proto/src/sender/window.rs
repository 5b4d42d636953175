//! Tracks the peer's receive window, and decides when it is probed while it is closed (RFC 9260 sections
//! 6.1 and 6.2.1).

use crate::time::Instant;

/// The state of probing a closed window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    /// The window is not probed.
    None,
    /// One chunk may be sent from this time on.
    Waits(Instant),
    /// One chunk may be sent now.
    Due,
    /// The chunk in flight is a probe: it may have been dropped for lack of room. `answered`: whether a
    /// SACK has arrived since it was sent.
    InFlight { answered: bool },
}

/// The peer's receive window.
#[derive(Debug)]
pub(super) struct PeerWindow {
    /// Bytes of user data that the peer has room for, in addition to those in flight.
    left: u32,
    /// The window in the last acknowledgement, and the largest one so far.
    announced: u32,
    largest: u32,
    /// The last announcement opened the window.
    opens: bool,
    probe: Probe,
}

impl PeerWindow {
    /// The state before the peer has announced its window.
    pub(super) const UNKNOWN: Self =
        Self { left: 0, announced: u32::MAX, largest: 0, opens: false, probe: Probe::None };

    /// Records the window that the peer announced in the handshake.
    pub(super) fn open(&mut self, bytes: u32) {
        (self.left, self.announced, self.largest) = (bytes, bytes, bytes);
    }

    /// Records the window that an acknowledgement announced, with `in_flight` bytes of user data still
    /// in flight. `pmdcs`: the size in bytes of an ordinary chunk.
    // req: rfc9260 6.2.1 "SHOULD use the following rules to calculate"
    pub(super) fn announce(&mut self, bytes: u32, in_flight: usize, pmdcs: usize) {
        let was_closed = self.is_closed(pmdcs);
        self.announced = bytes;
        self.largest = self.largest.max(bytes);
        self.opens = was_closed && !self.is_closed(pmdcs);
        // RFC 9260 section 6.2.1 D ii.
        self.left = bytes.saturating_sub(u32::try_from(in_flight).unwrap_or(u32::MAX));
        if let Probe::InFlight { answered } = &mut self.probe {
            *answered = true;
        }
    }

    /// Reduces the window by user data that is sent.
    pub(super) fn take(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// Restores the part of the window of user data that is considered lost (RFC 9260 section 6.2.1 C).
    pub(super) fn give_back(&mut self, bytes: usize) {
        self.left = self.left.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// The number of bytes that may be sent.
    pub(super) fn left(&self) -> usize {
        self.left as usize
    }

    /// The largest window seen, in bytes.
    pub(super) fn largest(&self) -> usize {
        self.largest as usize
    }

    /// Half of the largest window seen: the maximum length of a chunk if the window is never as large as
    /// a packet.
    pub(super) fn half_of_largest(&self) -> usize {
        self.largest as usize / 2
    }

    /// Whether the peer announced less room than for an ordinary chunk, `pmdcs`, or for the chunk size
    /// that its window allows.
    pub(super) fn is_closed(&self, pmdcs: usize) -> bool {
        (self.announced as usize) < pmdcs.min(self.half_of_largest())
    }

    /// Whether the last acknowledgement opened a closed window.
    pub(super) fn opens(&self) -> bool {
        self.opens
    }

    /// Permits a probe from `until` on: data waits for room, and nothing is outstanding.
    pub(super) fn wait(&mut self, until: Instant) {
        if self.probe == Probe::None {
            self.probe = Probe::Waits(until);
        }
    }

    /// When [`on_deadline`](Self::on_deadline) must be called.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.probe {
            Probe::Waits(until) => Some(until),
            Probe::None | Probe::Due | Probe::InFlight { .. } => None,
        }
    }

    /// Permits a probe now.
    pub(super) fn on_deadline(&mut self) {
        self.probe = Probe::Due;
    }

    /// Whether a chunk may be sent although there is no room for it.
    pub(super) fn may_be_probed(&self) -> bool {
        self.probe == Probe::Due
    }

    /// Records that a chunk is sent; `probes` if there is no room for it.
    pub(super) fn on_sent(&mut self, probes: bool) {
        if probes {
            self.probe = Probe::InFlight { answered: false };
        } else if !self.is_probed() {
            self.probe = Probe::None;
        }
    }

    /// Whether a chunk in flight probes the window.
    pub(super) fn is_probed(&self) -> bool {
        matches!(self.probe, Probe::InFlight { .. })
    }

    /// Ends the probe: everything was acknowledged, or there is room.
    pub(super) fn end_probe(&mut self) {
        self.probe = Probe::None;
    }

    /// Handles the expiry of T3-rtx while the window is `closed` or not. `true` if the peer has answered
    /// the probe. A retransmission while the window is closed is a probe.
    pub(super) fn on_timeout(&mut self, closed: bool) -> bool {
        let answered = self.probe == Probe::InFlight { answered: true };
        if closed || self.is_probed() {
            self.probe = Probe::InFlight { answered: false };
        }
        closed && answered
    }

    /// Stops probing for good.
    pub(super) fn stop(&mut self) {
        if let Probe::Waits(_) = self.probe {
            self.probe = Probe::None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_closed_window_is_probed_once_in_an_rto_and_the_answer_excuses_the_timeout() {
        let mut window = PeerWindow::UNKNOWN;
        window.open(3000);
        assert!(!window.is_closed(1452));
        window.announce(0, 0, 1452);
        assert!(window.is_closed(1452) && !window.may_be_probed());
        let due = Instant::ZERO + Duration::from_secs(1);
        window.wait(due);
        window.wait(due + Duration::from_secs(1));
        assert_eq!(window.deadline(), Some(due), "armed once");
        window.on_deadline();
        assert!(window.may_be_probed() && window.deadline().is_none());
        window.on_sent(true);
        assert!(window.is_probed() && !window.may_be_probed());
        assert!(!window.on_timeout(true), "nothing has come");
        window.announce(0, 1000, 1452);
        assert!(window.on_timeout(true));
        assert!(!window.on_timeout(true), "the answer was to what was sent before");
        assert!(!window.opens());
        window.announce(3000, 0, 1452);
        assert!(window.opens());
        window.end_probe();
        assert_eq!(window.left(), 3000);
    }

    #[test]
    fn what_is_lost_makes_room_again() {
        let mut window = PeerWindow::UNKNOWN;
        window.open(5000);
        window.take(1200);
        window.take(1200);
        assert_eq!(window.left(), 2600);
        window.give_back(1200);
        assert_eq!(window.left(), 3800);
        window.take(9000);
        assert_eq!(window.left(), 0);
    }
}
