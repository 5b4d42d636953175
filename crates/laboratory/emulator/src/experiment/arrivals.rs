//! Records when data and messages arrive.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anabranch_lab::observed::Observed;

/// The record of both ends of a transfer. Times count from the start of the run.
#[derive(Clone, Default)]
pub(super) struct Arrivals(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    seen: Observed,
    connected: Option<Duration>,
    last: Option<Duration>,
    /// Total number of bytes.
    wanted: u64,
    /// When each message still in transit was passed to the stack.
    given: BTreeMap<u64, Duration>,
}

impl State {
    fn close_gap(&mut self, now: Duration) {
        let Some(since) = self.last.or(self.connected) else { return };
        let gap = now.saturating_sub(since);
        if gap > self.seen.longest_gap {
            (self.seen.longest_gap, self.seen.longest_gap_at) = (gap, since);
        }
    }
}

impl Arrivals {
    pub(super) fn of(wanted: u64) -> Self {
        let arrivals = Self::default();
        arrivals.lock().wanted = wanted;
        arrivals
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn started(&self, now: Duration) {
        self.lock().seen.started = now;
    }

    pub(super) fn connected(&self, now: Duration) {
        self.lock().connected = Some(now);
    }

    /// Records that a message was passed to the stack, or with `taken`, that the stack accepted it
    /// only now.
    pub(super) fn given(&self, number: u64, now: Duration, taken: bool) {
        let mut state = self.lock();
        // It may have arrived already.
        if !taken || state.given.contains_key(&number) {
            state.given.insert(number, now);
        }
    }

    /// Records arrived bytes. Returns whether the transfer is complete.
    pub(super) fn arrived(&self, now: Duration, bytes: usize) -> bool {
        let mut state = self.lock();
        state.seen.first_data.get_or_insert(now);
        state.close_gap(now);
        state.last = Some(now);
        state.seen.bytes += bytes as u64;
        state.is_complete()
    }

    /// Records that a message has arrived completely; for requests, its answer.
    pub(super) fn delivered(&self, now: Duration, number: u64) {
        let mut state = self.lock();
        if let Some(given) = state.given.remove(&number) {
            state.seen.delays.record(now.saturating_sub(given));
        }
        if state.is_complete() {
            state.seen.completed = Some(now);
        }
    }

    /// Records that a bulk transfer has arrived completely.
    pub(super) fn completed(&self, now: Duration) {
        self.lock().seen.completed = Some(now);
    }

    pub(super) fn is_complete(&self) -> bool {
        self.lock().seen.completed.is_some()
    }

    /// The observations until `now`.
    pub(super) fn seen(&self, now: Duration) -> Observed {
        let mut state = self.lock();
        if state.seen.completed.is_none() {
            state.close_gap(now);
        }
        state.seen.clone()
    }
}

impl State {
    fn is_complete(&self) -> bool {
        self.seen.bytes >= self.wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_delays_and_the_end_are_seen() {
        let ms = Duration::from_millis;
        let arrivals = Arrivals::of(300);
        arrivals.started(ms(5));
        arrivals.connected(ms(15));
        arrivals.given(0, ms(16), false);
        arrivals.given(1, ms(17), false);
        arrivals.given(1, ms(20), true);
        assert!(!arrivals.arrived(ms(40), 100));
        arrivals.delivered(ms(40), 0);
        // The stack accepted it after it had arrived; this is ignored.
        arrivals.given(0, ms(41), true);
        assert!(!arrivals.is_complete());
        assert!(arrivals.arrived(ms(100), 200));
        arrivals.delivered(ms(100), 1);
        let seen = arrivals.seen(ms(500));
        assert_eq!(
            (seen.started, seen.first_data, seen.completed),
            (ms(5), Some(ms(40)), Some(ms(100)))
        );
        assert_eq!((seen.longest_gap, seen.longest_gap_at), (ms(60), ms(40)));
        assert_eq!((seen.delays.count(), seen.delays.max()), (2, Some(ms(80))));
        assert_eq!(seen.transfer_time(), Some(ms(95)));
        // If data never came, the longest gap is the one at the end.
        let arrivals = Arrivals::of(300);
        arrivals.connected(ms(10));
        assert_eq!(arrivals.seen(ms(500)).longest_gap, ms(490));
    }
}
