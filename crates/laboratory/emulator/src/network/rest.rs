//! Decides whether to wait for the next packet or to rest for a while so that several accumulate.
//!
//! Waking up for each packet costs more than forwarding it. When packets follow each other quickly, the thread sleeps
//! for a fixed time without being woken and then takes all packets that arrived meanwhile. This delays them by one rest
//! at most. The thread continues like this while each rest brings several packets. Otherwise it waits for the next
//! packet, so that single packets are forwarded on time.

use std::time::Duration;

/// Length of a rest: a third of the required precision of 0.3 ms, and ten packets at 100,000 per second.
const REST: Duration = Duration::from_micros(100);
/// How soon the next packet must come to start resting.
const QUICK: Duration = Duration::from_micros(50);
/// How much a rest must bring to be followed by another one: packets, or groups of packets that a kernel handed over
/// together.
const ENOUGH: u32 = 2;

/// State from the previous rounds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rests {
    /// When the last packet came that the thread had waited for, in nanoseconds.
    woken: Option<u64>,
    resting: bool,
}

impl Rests {
    /// How long to rest after a round that started at `begun` and read `taken` packets. `None` means to wait for the
    /// next packet, or until a packet in a link is due.
    pub(super) fn next(&mut self, taken: u32, begun: u64) -> Option<Duration> {
        let quick = u64::try_from(QUICK.as_nanos()).unwrap_or(u64::MAX);
        self.resting = match self.resting {
            true => taken >= ENOUGH,
            false if taken > 0 => {
                let last = self.woken.replace(begun);
                last.is_some_and(|last| begun.saturating_sub(last) < quick)
            }
            false => false,
        };
        if self.resting {
            self.woken = None;
        }
        self.resting.then_some(REST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_packets_are_taken_together_and_single_ones_at_once() {
        let mut rests = Rests::default();
        // One packet each 100 us, and wake-ups without packets.
        for round in 0..10 {
            assert_eq!(rests.next(1, round * 100_000), None);
            assert_eq!(rests.next(0, round * 100_000 + 10_000), None);
        }
        // One packet each 10 us: rests begin with the second one and continue while they bring several.
        let begun = 2_000_000;
        assert_eq!(rests.next(1, begun), None);
        assert_eq!(rests.next(1, begun + 10_000), Some(REST));
        assert_eq!(rests.next(10, begun + 110_000), Some(REST));
        assert_eq!(rests.next(2, begun + 210_000), Some(REST));
        // A rest has brought one packet: wait for the next one.
        assert_eq!(rests.next(1, begun + 310_000), None);
        assert_eq!(rests.next(1, begun + 410_000), None);
        assert_eq!(rests.next(0, begun + 411_000), None);
    }
}
