//! Quick acknowledgements: the receiver answers each segment while the sender's window is probably small.
//!
//! Linux does so for the first 16 segments of a connection, after a pause that is longer than its own RTO, and after
//! data that it had received before, each a sign that the sender begins with a small window (`tcp_incr_quickack` and
//! `tcp_enter_quickack_mode` of `net/ipv4/tcp_input.c`), and while its window grows. Linux stops early if the connection becomes interactive, or if
//! the window has room for fewer than 32 segments; this receiver does not.

use std::time::Duration;

use anabranch_units::Instant;

/// How many of the next acknowledgements do not wait for a second segment.
#[derive(Debug)]
pub(crate) struct QuickAcks {
    most: u32,
    left: u32,
    /// When data last arrived.
    last: Option<Instant>,
}

impl QuickAcks {
    /// `most` acknowledgements are quick each time; 0 for none.
    pub(crate) fn new(most: u32) -> Self {
        Self { most, left: 0, last: None }
    }

    /// Data arrived. `rto` is the current timeout of this end.
    pub(crate) fn on_data(&mut self, now: Instant, rto: Duration) {
        let paused = self.last.is_none_or(|last| now.saturating_since(last) > rto);
        if paused {
            self.left = self.most;
        }
        self.last = Some(now);
    }

    /// Data arrived that had arrived before: the sender may have had a timeout.
    pub(crate) fn on_duplicate(&mut self) {
        self.left = self.most;
    }

    /// The window was widened: the sender learns of it at once.
    pub(crate) fn on_growth(&mut self) {
        self.left = self.left.max(1);
    }

    /// Whether data must be acknowledged at once.
    pub(crate) fn are_on(&self) -> bool {
        self.left > 0
    }

    /// An acknowledgement of data was sent.
    pub(crate) fn on_sent(&mut self) {
        self.left = self.left.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_ones_those_after_a_pause_and_after_duplicates() {
        let (mut quick, rto) = (QuickAcks::new(2), Duration::from_secs(1));
        let mut answered = |at: f64, duplicate: bool| {
            quick.on_data(Instant::ZERO + Duration::from_secs_f64(at), rto);
            if duplicate {
                quick.on_duplicate();
            }
            let on = quick.are_on();
            quick.on_sent();
            on
        };
        let times = [0.0, 0.1, 0.2, 1.2, 2.3, 2.4, 2.5];
        let on = times.map(|at| answered(at, false));
        assert_eq!(
            on,
            [true, true, false, false, true, true, false],
            "a pause is longer than the RTO"
        );
        assert_eq!(
            [answered(2.6, true), answered(2.7, false), answered(2.8, false)],
            [true, true, false]
        );
    }
}
