//! Measures how long full buffers blocked new data although the congestion window had room: the send
//! buffer (nat 3.2.2, nrsack 3) and the peer's receive window (nat 4.2.2).

use std::time::Duration;

use crate::stats;
use crate::time::{Instant, nanos};

/// Reasons why new data is held back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Held {
    /// All buffered data has been sent, and the user's last send was refused for lack of room.
    pub(crate) by_send_buffer: bool,
    /// The next chunk is longer than the rest of the peer's window.
    pub(crate) by_receive_window: bool,
}

impl Held {
    pub(crate) fn any(self) -> bool {
        self.by_send_buffer || self.by_receive_window
    }
}

/// Blocking by both buffers; allocated when it first occurs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blocking(Option<Box<Meters>>);

#[derive(Clone, Debug, Default)]
struct Meters {
    since: Instant,
    /// The sender was in loss recovery at the last change.
    recovering: bool,
    /// The last TSN outstanding when a timer expired, until all data up to it is acknowledged.
    timeout_exit: Option<u64>,
    send_buffer: Meter,
    receive_window: Meter,
}

/// Times in nanoseconds.
#[derive(Clone, Debug, Default)]
struct Meter {
    blocked: bool,
    /// A timeout occurred in the current period or shortly before.
    timed_out: bool,
    times: u64,
    total: u64,
    in_recovery: u64,
    /// Total of past periods with a timeout.
    with_timeouts: u64,
    /// Length of the current period.
    current: u64,
}

impl Meter {
    fn pass(&mut self, time: u64, recovering: bool) {
        if self.blocked {
            self.total += time;
            self.current += time;
            if recovering {
                self.in_recovery += time;
            }
        }
    }

    fn set(&mut self, blocked: bool, timed_out: bool) {
        if blocked == self.blocked {
            return;
        }
        if blocked {
            self.times += 1;
            self.timed_out = timed_out;
        } else {
            self.with_timeouts += self.current_with_timeouts();
        }
        self.blocked = blocked;
        self.current = 0;
    }

    fn current_with_timeouts(&self) -> u64 {
        if self.timed_out { self.current } else { 0 }
    }

    fn statistics(&self) -> stats::Blocked {
        stats::Blocked {
            times: self.times,
            time: Duration::from_nanos(self.total),
            in_recovery: Duration::from_nanos(self.in_recovery),
            with_timeouts: Duration::from_nanos(self.with_timeouts + self.current_with_timeouts()),
        }
    }
}

impl Blocking {
    /// Records that `held` holds back new data from `now` on. `recovering`: the sender is in loss
    /// recovery; `base` is the first TSN that is not acknowledged.
    pub(crate) fn note(&mut self, now: Instant, held: Held, recovering: bool, base: u64) {
        if self.0.is_none() && !held.any() {
            return;
        }
        let meters = self.0.get_or_insert_default();
        let time = nanos(now.saturating_since(meters.since));
        meters.since = now;
        meters.timeout_exit.take_if(|exit| *exit < base);
        let timed_out = meters.timeout_exit.is_some();
        for (meter, blocked) in [
            (&mut meters.send_buffer, held.by_send_buffer),
            (&mut meters.receive_window, held.by_receive_window),
        ] {
            meter.pass(time, meters.recovering);
            meter.set(blocked, timed_out);
        }
        meters.recovering = recovering;
    }

    /// Records that T3-rtx expired, with `highest` as the last TSN sent.
    pub(crate) fn on_timeout(&mut self, highest: u64) {
        let meters = self.0.get_or_insert_default();
        meters.timeout_exit = Some(highest);
        meters.send_buffer.timed_out = true;
        meters.receive_window.timed_out = true;
    }

    /// Forgets a timeout, because the data outstanding then no longer is, acknowledged or not.
    pub(crate) fn forget_timeout(&mut self) {
        if let Some(meters) = &mut self.0 {
            meters.timeout_exit = None;
        }
    }

    /// The totals up to the last change.
    pub(crate) fn statistics(&self) -> stats::Blocking {
        let Some(meters) = &self.0 else { return stats::Blocking::default() };
        stats::Blocking {
            send_buffer: meters.send_buffer.statistics(),
            receive_window: meters.receive_window.statistics(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Held = Held { by_send_buffer: false, by_receive_window: false };
    const SEND_BUFFER: Held = Held { by_send_buffer: true, by_receive_window: false };
    const RECEIVE_WINDOW: Held = Held { by_send_buffer: false, by_receive_window: true };

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn blocked(times: u64, time: u64, in_recovery: u64, with_timeouts: u64) -> stats::Blocked {
        let millis = Duration::from_millis;
        stats::Blocked {
            times,
            time: millis(time),
            in_recovery: millis(in_recovery),
            with_timeouts: millis(with_timeouts),
        }
    }

    #[test]
    fn both_buffers_are_measured_apart() {
        let mut blocking = Blocking::default();
        for (time, held, recovering) in [
            (100, NOTHING, true),
            (200, SEND_BUFFER, false),
            (210, SEND_BUFFER, true),
            (230, NOTHING, true),
            (300, RECEIVE_WINDOW, false),
            (305, NOTHING, false),
            (400, SEND_BUFFER, false),
            (401, RECEIVE_WINDOW, false),
            // The period continues.
            (403, RECEIVE_WINDOW, false),
        ] {
            blocking.note(at(time), held, recovering, 1);
        }
        let seen = blocking.statistics();
        assert_eq!(seen.send_buffer, blocked(2, 31, 20, 0));
        assert_eq!(seen.receive_window, blocked(2, 7, 0, 0));
    }

    #[test]
    fn what_a_timeout_falls_into_or_comes_before_is_blocked_by_it() {
        let mut blocking = Blocking::default();
        // The period ends before the timer expires.
        blocking.note(at(100), RECEIVE_WINDOW, true, 1);
        blocking.note(at(110), NOTHING, true, 1);
        // The wait for the timer counts, too.
        blocking.note(at(200), RECEIVE_WINDOW, true, 1);
        blocking.note(at(250), RECEIVE_WINDOW, true, 1);
        blocking.on_timeout(9);
        assert_eq!(blocking.statistics().receive_window, blocked(2, 60, 60, 50));
        blocking.note(at(260), NOTHING, true, 5);
        // Not all data outstanding at the timeout has been acknowledged.
        blocking.note(at(300), RECEIVE_WINDOW, true, 9);
        blocking.note(at(301), NOTHING, true, 10);
        blocking.note(at(400), RECEIVE_WINDOW, true, 10);
        blocking.note(at(500), NOTHING, true, 10);
        assert_eq!(blocking.statistics().receive_window, blocked(4, 171, 171, 61));
        assert_eq!(blocking.statistics().send_buffer, blocked(0, 0, 0, 0));
    }

    #[test]
    fn what_was_never_blocked_keeps_nothing() {
        let mut blocking = Blocking::default();
        blocking.note(at(100), NOTHING, true, 1);
        assert!(blocking.0.is_none());
        // A timeout before anything was blocked is recorded for the next period.
        blocking.on_timeout(9);
        blocking.note(at(200), SEND_BUFFER, false, 3);
        blocking.note(at(205), NOTHING, false, 3);
        assert_eq!(blocking.statistics().send_buffer, blocked(1, 5, 0, 5));
        // After a restart there is nothing left to recover.
        blocking.forget_timeout();
        blocking.note(at(300), SEND_BUFFER, false, 3);
        blocking.note(at(307), NOTHING, false, 3);
        assert_eq!(blocking.statistics().send_buffer, blocked(2, 12, 0, 5));
    }
}
