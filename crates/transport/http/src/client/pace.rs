//! Limits the rate at which all fetches of a command together receive data.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The burst allowed after a pause, as time.
const BURST: Duration = Duration::from_millis(100);

/// Limits the bytes per second of all connections that share it. The reader waits, so flow control makes
/// the server wait.
#[derive(Debug)]
pub struct Pace {
    bytes_per_second: f64,
    /// The time at which the bytes received so far conform to the rate.
    paid: Mutex<Option<Instant>>,
}

impl Pace {
    /// Limits the rate to `bytes_per_second`, or to 1 if it is less.
    pub fn new(bytes_per_second: f64) -> Self {
        Self { bytes_per_second: bytes_per_second.max(1.0), paid: Mutex::new(None) }
    }

    /// Accounts for `bytes` that arrived at `now`. Returns the time at which more may be read.
    pub(super) fn spend(&self, bytes: u64, now: Instant) -> Instant {
        let cost = (bytes as f64 / self.bytes_per_second).min(f64::from(u32::MAX));
        let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        let from = paid.unwrap_or(now).max(now.checked_sub(BURST).unwrap_or(now));
        let until = from + Duration::from_secs_f64(cost);
        *paid = Some(until);
        until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_its_bytes_whoever_reads_them() {
        let pace = Pace::new(1000.0);
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(pace.spend(500, at(0)), at(500));
        assert_eq!(pace.spend(500, at(0)), at(1000), "another stream");
        // A pause permits only a small burst.
        assert_eq!(pace.spend(1000, at(10_000)), at(10_900));
    }
}
