//! A rate that many connections share in turns.
//!
//! The rate is a line that carries all pieces one after another: each is there when those before it and it itself are
//! carried, and its connection waits for that. So connections get turns, whatever the sizes of their buffers. What
//! is small at a time waits only for its like, and the line makes up for that at the expense of the others.

use std::time::Duration;

use tokio::time::Instant;

/// How far the line may lag behind before anyone waits. Timers are not finer than a millisecond.
const SLACK: Duration = Duration::from_millis(50);

/// The time that a piece takes on the line.
const TURN: Duration = Duration::from_millis(20);

/// The smallest piece, about a packet.
const LEAST_PIECE: usize = 1400;

/// How long a datagram may have to wait on the line, as long as it may wait in the association (docs/gateway.md).
const DATAGRAM: Duration = Duration::from_millis(100);

/// When the line will have carried what has been given to it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    all: Option<Instant>,
    small: Option<Instant>,
}

impl Pace {
    /// The largest piece at this rate, which is in bits per second.
    pub(super) fn piece(rate: u64) -> usize {
        let bytes = u128::from(rate) * TURN.as_millis() / 8000;
        usize::try_from(bytes).unwrap_or(usize::MAX).max(LEAST_PIECE)
    }

    /// Carries a piece. Returns when its connection may go on, unless that is now.
    pub(super) fn carry(
        &mut self,
        now: Instant,
        rate: u64,
        bytes: usize,
        large: bool,
    ) -> Option<Instant> {
        let end = self.end(now, rate, bytes, large);
        Some(end).filter(|end| *end > now + SLACK).map(|end| end - SLACK)
    }

    /// Carries a datagram, unless it would have to wait for too long.
    pub(super) fn takes(&mut self, now: Instant, rate: u64, bytes: usize, large: bool) -> bool {
        let mut after = *self;
        let fits = after.end(now, rate, bytes, large) <= now + SLACK + DATAGRAM;
        if fits {
            *self = after;
        }
        fits
    }

    /// When the line will have carried these bytes.
    fn end(&mut self, now: Instant, rate: u64, bytes: usize, large: bool) -> Instant {
        let nanos = bytes as u128 * 8_000_000_000 / u128::from(rate.max(1));
        let time = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let add = |end: &mut Option<Instant>| {
            let begin = end.map_or(now, |end| end.max(now));
            // A time that cannot be is as good as any far away.
            *end.insert(begin.checked_add(time).unwrap_or(begin))
        };
        let all = add(&mut self.all);
        if large { all } else { add(&mut self.small) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 8_000_000;

    #[test]
    fn connections_take_turns() {
        let start = Instant::now();
        let mut pace = Pace::default();
        let mut next = [start; 3];
        let mut carried = [0_u64; 3];
        // A megabyte per second, for ten seconds.
        loop {
            let (who, now) = next.iter().copied().enumerate().min_by_key(|(_, at)| *at).unwrap();
            if now >= start + Duration::from_secs(10) {
                break;
            }
            // Their pieces may be of different sizes.
            let bytes = Pace::piece(RATE) / (who + 1);
            carried[who] += bytes as u64;
            next[who] = pace.carry(now, RATE, bytes, true).unwrap_or(now);
        }
        let sum: u64 = carried.iter().sum();
        assert!((9_900_000..10_200_000).contains(&sum), "{carried:?}");
        // Turns are equal, not bytes.
        assert!(carried[0].abs_diff(carried[1] * 2) < 100_000, "{carried:?}");
    }

    #[test]
    fn what_is_small_passes_what_is_large() {
        let start = Instant::now();
        let mut pace = Pace::default();
        for _ in 0..100 {
            pace.carry(start, RATE, 20_000, true);
        }
        assert_eq!(pace.carry(start, RATE, 1000, false), None);
        assert!(pace.takes(start, RATE, 1000, false) && !pace.takes(start, RATE, 1000, true));
        // Together they do not exceed the rate.
        let wait = pace.carry(start, RATE, 20_000, true).unwrap() - start;
        assert_eq!(wait, Duration::from_millis(101 * 20 + 2) - SLACK);
        // What is small shares the rate, too.
        for _ in 0..100 {
            pace.carry(start, RATE, 20_000, false);
        }
        assert!(pace.carry(start, RATE, 1, false).unwrap() > start + Duration::from_millis(1900));
        assert!(!pace.takes(start, RATE, 1, false));
    }

    #[test]
    fn a_quiet_line_saves_nothing() {
        let start = Instant::now();
        let mut pace = Pace::default();
        assert_eq!(pace.carry(start, RATE, 1, true), None);
        let later = start + Duration::from_secs(3600);
        let wait = pace.carry(later, RATE, 1_000_000, true).unwrap() - later;
        assert_eq!(wait, Duration::from_secs(1) - SLACK);
        assert_eq!(Pace::piece(1000), LEAST_PIECE);
        assert_eq!(Pace::piece(RATE), 20_000);
        assert!(Pace::default().carry(start, 0, usize::MAX, true).is_none_or(|at| at > start));
    }
}
