//! Dynamic right-sizing: the receive buffer grows with what the user takes (M. Fisk, W. Feng, "Dynamic right-sizing in
//! TCP", 2001; the function `tcp_rcv_space_adjust` of Linux).
//!
//! A sender whose only limit is a window of W bytes sends W bytes in a round trip. So if the user takes more than half
//! of the buffer in a round trip, the buffer may be what limits the sender, and becomes twice what the user took. Data
//! that the user left unread at the beginning of the round trip does not count: a user who reads slowly does not need a
//! larger buffer. Data that waited for missing TSNs counts, because the user could not have it.
//!
//! Data that waits for missing TSNs also takes room that the sender could fill. On a long path with losses some of it
//! waits all the time, for the round trip that a repair takes, and the user takes no more than half of the buffer in a
//! round trip although the window is what limits the sender. So the buffer has room for it besides.
//!
//! A peer that delays its answers makes a round trip look longer. It gains a larger buffer at most up to the option's
//! value, and only as far as the user reads on.
//!
//! The window that was announced is the peer's to use (RFC 9260 section 6.2.1), so the buffer never shrinks.

use std::time::Duration;

use super::{ReceiveConfig, Receiver, partial_point};
use crate::time::Instant;

/// The buffer is this many times what the user takes in a round trip.
const ROUND_TRIPS: usize = 2;

/// The buffer may take 1/SHARE of the memory that the endpoint has left.
const SHARE: usize = 2;

/// Once the user has taken 1/MUCH of the buffer, it is worth a packet to measure the round trip.
const MUCH: usize = 4;

/// A round trip in which the user takes data.
#[derive(Debug)]
pub(super) struct Round {
    began: Instant,
    /// Memory of the data that the user could have taken before.
    unread: usize,
    /// Memory of the data that the user has taken.
    released: usize,
}

impl Round {
    #[inline]
    pub(super) fn on_released(&mut self, charge: u32) {
        self.released = self.released.saturating_add(charge as usize);
    }

    /// What the user took in `round_trip`, if the round ends now and is not shorter than that.
    fn taken(&self, now: Instant, round_trip: Duration) -> Option<usize> {
        let time = now.saturating_since(self.began);
        if time.is_zero() || time < round_trip {
            return None;
        }
        let fresh = self.released.saturating_sub(self.unread) as u128;
        let taken = fresh * round_trip.as_nanos() / time.as_nanos();
        Some(usize::try_from(taken).unwrap_or(usize::MAX))
    }
}

impl Receiver {
    /// Lets the buffer grow before a window is announced. `round_trip`: the longest time of a path, if any is known.
    /// Returns whether much has been taken while none was, so one should be measured.
    pub(crate) fn right_size(
        &mut self,
        now: Instant,
        round_trip: Option<Duration>,
        config: &ReceiveConfig,
    ) -> bool {
        if self.limit >= config.receive_buffer {
            self.round = None;
            return false;
        }
        let Some(round) = &self.round else {
            self.begin_round(now);
            return false;
        };
        let Some(round_trip) = round_trip else {
            let much = round.released > self.limit / MUCH;
            if much {
                self.begin_round(now);
            }
            return much;
        };
        let Some(taken) = round.taken(now, round_trip) else { return false };
        let wanted = taken.saturating_mul(ROUND_TRIPS);
        let wanted = wanted.saturating_add(self.assembler.held_charge());
        let wanted = wanted.min(config.receive_buffer).min(self.memory_left() / SHARE);
        if wanted > self.limit {
            self.limit = wanted;
            self.partial_point = partial_point(config, wanted);
        }
        self.begin_round(now);
        false
    }

    fn begin_round(&mut self, now: Instant) {
        let unread = self.charge.saturating_sub(self.assembler.held_charge());
        let round = Round { began: now, unread, released: 0 };
        match &mut self.round {
            Some(last) => **last = round,
            None => self.round = Some(Box::new(round)),
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_wire::{DataFlags, Ppid, Tsn};
    use bytes::Bytes;

    use super::*;
    use crate::receive::UserData;
    use crate::tsn;

    const FIRST: usize = 100_000;
    const MOST: usize = 1_000_000;
    const ROUND: Duration = Duration::from_millis(100);

    fn config() -> ReceiveConfig {
        ReceiveConfig {
            receive_buffer: MOST,
            receive_buffer_start: Some(FIRST),
            ..ReceiveConfig::default()
        }
    }

    fn receiver() -> Receiver {
        let mut receiver = Receiver::new(tsn::first(1), 100, &config(), 1500);
        assert_eq!(receiver.limit(), FIRST);
        receiver.right_size(Instant::ZERO, Some(ROUND), &config());
        receiver
    }

    /// Data arrives, and the user takes it.
    fn take(receiver: &mut Receiver, bytes: usize) {
        receiver.charge += bytes;
        receiver.release(bytes as u32);
    }

    #[test]
    fn the_buffer_is_twice_what_is_taken_in_a_round_trip() {
        let mut receiver = receiver();
        take(&mut receiver, 90_000);
        receiver.right_size(Instant::ZERO + ROUND / 2, Some(ROUND), &config());
        assert_eq!(receiver.limit(), FIRST, "the round trip is not over");
        receiver.right_size(Instant::ZERO + ROUND, Some(ROUND), &config());
        assert_eq!((receiver.limit(), receiver.partial_point), (180_000, 90_000));
        // It never shrinks, and has its limit.
        for (round, bytes, limit) in [(2, 10, 180_000), (3, 400_000, 800_000), (4, 700_000, MOST)] {
            take(&mut receiver, bytes);
            receiver.right_size(Instant::ZERO + ROUND * round, Some(ROUND), &config());
            assert_eq!(receiver.limit(), limit);
        }
        receiver.right_size(Instant::ZERO + ROUND * 5, Some(ROUND), &config());
        assert!(receiver.round.is_none(), "nothing is kept that is not needed");
    }

    #[test]
    fn a_long_round_counts_by_its_length() {
        let mut receiver = receiver();
        take(&mut receiver, 400_000);
        receiver.right_size(Instant::ZERO + ROUND * 10, Some(ROUND), &config());
        assert_eq!(receiver.limit(), FIRST);
        take(&mut receiver, 400_000);
        receiver.right_size(Instant::ZERO + ROUND * 12, Some(ROUND), &config());
        assert_eq!(receiver.limit(), 400_000);
    }

    /// A user who stopped reading and then takes everything at once.
    #[test]
    fn what_lay_unread_does_not_count() {
        let mut receiver = receiver();
        receiver.charge = 100_000;
        receiver.right_size(Instant::ZERO + ROUND, Some(ROUND), &config());
        receiver.release(100_000);
        take(&mut receiver, 40_000);
        receiver.right_size(Instant::ZERO + ROUND * 2, Some(ROUND), &config());
        assert_eq!(receiver.limit(), FIRST);
    }

    /// What waits for missing TSNs leaves the sender as much less to fill.
    #[test]
    fn there_is_room_for_what_waits_besides() {
        let mut receiver = receiver();
        let data = UserData {
            flags: DataFlags(DataFlags::BEGIN | DataFlags::END),
            // TSN 1 is missing.
            tsn: Tsn(2),
            stream: 0,
            sequence: 1,
            fsn: 0,
            ppid: Ppid(0),
            payload: &[7; 1400],
        };
        receiver.on_data(&data, || Bytes::from_static(&[7; 1400]), 1400);
        let held = receiver.assembler.held_charge();
        assert!(held >= 1400, "{held}");
        take(&mut receiver, 60_000);
        receiver.right_size(Instant::ZERO + ROUND, Some(ROUND), &config());
        assert_eq!(receiver.limit(), 120_000 + held);
    }

    #[test]
    fn the_endpoint_s_memory_is_respected() {
        let mut receiver = receiver();
        receiver.note_memory(300 << 10);
        take(&mut receiver, 400_000);
        receiver.right_size(Instant::ZERO + ROUND, Some(ROUND), &config());
        assert_eq!(receiver.limit(), 150 << 10);
        receiver.note_memory(0);
        take(&mut receiver, 400_000);
        receiver.right_size(Instant::ZERO + ROUND * 2, Some(ROUND), &config());
        assert_eq!(receiver.limit(), 150 << 10, "what was announced is not taken back");
    }

    #[test]
    fn a_round_trip_is_asked_for_when_much_is_taken() {
        let mut receiver = receiver();
        assert!(!receiver.right_size(Instant::ZERO + ROUND, None, &config()));
        take(&mut receiver, FIRST / 4 + 1);
        assert!(receiver.right_size(Instant::ZERO + ROUND, None, &config()));
        assert!(!receiver.right_size(Instant::ZERO + ROUND * 2, None, &config()), "once");
        assert_eq!(receiver.limit(), FIRST);
        let fixed = ReceiveConfig { receive_buffer: FIRST, ..ReceiveConfig::default() };
        assert!(!receiver.right_size(Instant::ZERO + ROUND, None, &fixed));
    }
}
