//! Busy polling: for a while after each packet, the endpoint's task asks its sockets again and again instead of sleeping.
//! The answer to a packet is then received without waiting until the system has woken a thread.
//!
//! Packets without an association do not count: a flood of them must not keep a core busy.

use std::time::Duration;

use anabranch_proto::{Instant, Transmit};

/// How long the task stays awake.
#[derive(Debug)]
pub(super) struct BusyPoll {
    /// The time after the last packet; 0 if the task sleeps at once.
    time: Duration,
    until: Instant,
    /// A packet of an association was sent or received since the task last wanted to sleep.
    active: bool,
}

impl BusyPoll {
    pub(super) fn new(time: Duration) -> Self {
        Self { time, until: Instant::ZERO, active: false }
    }

    /// Notes that the queue of associations had packets.
    pub(super) fn received(&mut self) {
        self.active = true;
    }

    /// Notes packets to send.
    pub(super) fn sent(&mut self, transmit: &Transmit) {
        self.active |= !transmit.out_of_the_blue && !transmit.unverified;
    }

    /// Whether to ask sockets although the runtime knows of no arrival.
    pub(super) fn is_awake(&self, now: Instant) -> bool {
        now < self.until
    }

    /// Whether a task with nothing left to do is to be polled again at once.
    pub(super) fn stays_awake(&mut self, now: Instant) -> bool {
        if std::mem::take(&mut self.active) {
            self.until = now + self.time;
        }
        self.is_awake(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_some_time_after_the_last_packet() {
        let at = Instant::from_millis;
        let mut busy = BusyPoll::new(Duration::from_millis(50));
        assert!(!busy.stays_awake(at(1000)) && !busy.is_awake(at(1000)));
        busy.received();
        assert!(busy.stays_awake(at(2000)) && busy.is_awake(at(2049)));
        busy.received();
        assert!(busy.stays_awake(at(2040)) && busy.stays_awake(at(2089)));
        assert!(!busy.stays_awake(at(2090)) && !busy.is_awake(at(2090)));
        let mut off = BusyPoll::new(Duration::ZERO);
        off.received();
        assert!(!off.stays_awake(at(1000)));
    }
}
