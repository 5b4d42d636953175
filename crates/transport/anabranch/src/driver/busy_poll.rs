//! Busy polling: for a while after each packet, the endpoint's task asks its sockets again and again instead of sleeping.
//! The answer to a packet is then received without waiting until the system has woken a thread.

use std::time::Duration;

use anabranch_proto::Instant;

/// How long the task stays awake.
#[derive(Debug)]
pub(super) struct BusyPoll {
    /// The time after the last packet; 0 if the task sleeps at once.
    time: Duration,
    until: Instant,
    /// Packets sent and received when the task wanted to sleep.
    packets: u64,
}

impl BusyPoll {
    pub(super) fn new(time: Duration) -> Self {
        Self { time, until: Instant::ZERO, packets: 0 }
    }

    /// Whether to ask sockets although the runtime knows of no arrival.
    pub(super) fn is_awake(&self, now: Instant) -> bool {
        now < self.until
    }

    /// Whether a task with nothing left to do is to be polled again at once; `packets` counts those sent and received.
    pub(super) fn stays_awake(&mut self, now: Instant, packets: u64) -> bool {
        if self.packets != packets {
            (self.packets, self.until) = (packets, now + self.time);
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
        assert!(!busy.stays_awake(at(1000), 0) && !busy.is_awake(at(1000)));
        assert!(busy.stays_awake(at(2000), 1) && busy.is_awake(at(2049)));
        assert!(busy.stays_awake(at(2040), 2) && busy.stays_awake(at(2089), 2));
        assert!(!busy.stays_awake(at(2090), 2) && !busy.is_awake(at(2090)));
        let mut off = BusyPoll::new(Duration::ZERO);
        assert!(!off.stays_awake(at(1000), 7));
    }
}
