//! When to wait for the next packet, and when to rest for a while so that several come together.
//!
//! To be woken for each packet costs more than to forward it. Where one packet follows another quickly,
//! the thread sleeps for a while without being told of packets, and takes all that have come meanwhile; they
//! are later by a rest at the most. It goes on so while rests bring several, and waits for the
//! next one otherwise, so that single packets are handed on at once and at their time.

use std::time::Duration;

/// How long a rest is: a part of the exactness that is asked for, 0.3 ms, and ten packets at 100,000 a second.
const REST: Duration = Duration::from_micros(100);
/// How soon the next packet must come for the first rest.
const QUICK: Duration = Duration::from_micros(50);
/// What a rest must bring for the next one: packets, or groups of packets that a kernel handed over together.
const ENOUGH: u32 = 2;

/// What is known of the rounds so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rests {
    /// When the last packet came that was waited for, in nanoseconds.
    woken: Option<u64>,
    resting: bool,
}

impl Rests {
    /// How long to rest after a round that has begun at this time and taken so many packets in; `None` is to wait for the
    /// next packet instead, or for the time of one that is under way.
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
        // One each 100 us, and what is not a packet.
        for round in 0..10 {
            assert_eq!(rests.next(1, round * 100_000), None);
            assert_eq!(rests.next(0, round * 100_000 + 10_000), None);
        }
        // One each 10 us: from the second one on there are rests, as long as they bring several.
        let begun = 2_000_000;
        assert_eq!(rests.next(1, begun), None);
        assert_eq!(rests.next(1, begun + 10_000), Some(REST));
        assert_eq!(rests.next(10, begun + 110_000), Some(REST));
        assert_eq!(rests.next(2, begun + 210_000), Some(REST));
        // A rest has brought one: the next packet is waited for.
        assert_eq!(rests.next(1, begun + 310_000), None);
        assert_eq!(rests.next(1, begun + 410_000), None);
        assert_eq!(rests.next(0, begun + 411_000), None);
    }
}
