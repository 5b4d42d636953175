//! The share of data that a slow path gets in concurrent multipath transfer.
//!
//! All data sent after a chunk on a slow path must be stored until that chunk has arrived: in the send
//! buffer and, because of the gap, in the peer's receive buffer. Once a buffer is full, the fast paths
//! stall, so two paths can be slower than one. RFC 6356 section 2 sets the goal: perform at least as well as
//! a single path on the best of them.
//!
//! `InTime` is the solution of Multipath TCP. A path gets the data that arrives before the other paths have
//! filled the buffer (BLEST: Ferlin, Alay, Mehani, Boreli, "BLEST: Blocking estimation-based MPTCP
//! scheduler", 2016), no data that the other paths would deliver sooner (ECF: Lim, Nahum, Towsley, Gibbens,
//! "ECF: An MPTCP path scheduler to manage heterogeneous paths", 2017), and only as much as keeps its queue
//! short. Chunks that are still late are retransmitted on the best path before the window is full
//! (opportunistic retransmission: Raiciu et al., "How hard can it be?", 2012). `sender/in_time.rs` measures
//! the paths and applies these rules.

use std::time::Duration;

use crate::named::named;
use crate::options::words;
use crate::time::nanos;

/// How much data a slow path gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum SlowPaths {
    /// As much as its congestion window allows, like any other path.
    #[default]
    AsOthers,
    /// Only data that arrives in time, so the transfer is not slower than on the best path alone.
    InTime,
}

named!(SlowPaths { AsOthers = "as-others", InTime = "in-time", });
words!(SlowPaths);

/// The maximum queueing delay that a path may cause, even if the other paths could wait longer. If a packet
/// takes longer than this without a queue, that time is the limit.
const LONGEST_QUEUE: Duration = Duration::from_millis(100);

/// How fast a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Speed {
    /// Bytes per second that arrive.
    pub(crate) rate: u64,
    /// Bytes per second that would arrive on this path alone, as far as is known.
    pub(crate) alone: u64,
    /// Current time from sending to acknowledgement.
    pub(crate) delay: Duration,
    /// The shortest delay seen.
    pub(crate) least: Duration,
}

/// The share of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// The number of bytes that it may have in flight.
    pub(crate) most: usize,
    /// The path carries no new data if fewer bytes than this are unsent: the best path would deliver them
    /// sooner.
    pub(crate) least_unsent: usize,
}

impl Share {
    /// Limited only by the congestion window.
    pub(crate) const ALL: Self = Self { most: usize::MAX, least_unsent: 0 };
    /// Nothing at all.
    pub(crate) const NOTHING: Self = Self { most: 0, least_unsent: 0 };
}

/// Bytes at a rate in a time.
pub(crate) fn bytes_in(time: Duration, rate: u64) -> u64 {
    let bytes = u128::from(rate) * u128::from(nanos(time)) / 1_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Time that bytes take at a rate.
pub(crate) fn time_of(bytes: u64, rate: u64) -> Duration {
    let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// The share of the path `this`, next to the path `best`; `others` bytes per second arrive on all other
/// paths. `buffer`: the smaller of the two buffers. `packet`: bytes of a full packet.
pub(crate) fn share(this: &Speed, best: &Speed, others: u64, buffer: u64, packet: u64) -> Share {
    // A quarter of the buffer may be free before a user who waits for room is woken, and an eighth is a
    // margin for inexact values.
    let patience = time_of(buffer / 8 * 5, others);
    if this.rate == 0 {
        // Only the round-trip time of the handshake or of a heartbeat is known.
        return if this.delay < patience { Share::ALL } else { Share::NOTHING };
    }
    let shortest = this.least.max(time_of(packet, this.rate));
    if shortest > time_of(buffer, others) {
        return Share::NOTHING;
    }
    let longest = patience.max(shortest).min(this.least + LONGEST_QUEUE.max(this.least));
    // With a limit of one packet, measurements would never show that the path can carry more.
    let most = bytes_in(longest, this.rate).max(2 * packet);
    let sooner = (this.delay / 8 * 7).saturating_sub(best.delay);
    Share {
        most: usize::try_from(most).unwrap_or(usize::MAX),
        least_unsent: usize::try_from(bytes_in(sooner, best.alone)).unwrap_or(usize::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUFFER: u64 = 1 << 20;
    const PACKET: u64 = 1400;

    fn speed(kbit: u64, millis: u64, least_millis: u64) -> Speed {
        Speed {
            rate: kbit * 125,
            alone: kbit * 125,
            delay: Duration::from_millis(millis),
            least: Duration::from_millis(least_millis),
        }
    }

    /// The share of a path next to one of 40 Mb/s and 40 ms.
    fn next_to_fast(this: &Speed) -> Share {
        let fast = speed(40_000, 40, 20);
        share(this, &fast, fast.alone, BUFFER, PACKET)
    }

    #[test]
    fn what_is_in_flight_arrives_before_the_buffer_is_full() {
        let share = next_to_fast(&speed(5_000, 300, 80));
        assert_eq!(share.most, 81_920, "131 ms at 5 Mb/s");
        assert_eq!(next_to_fast(&speed(5_000, 300, 220)), Share::NOTHING, "too far away");
        assert_eq!(
            next_to_fast(&speed(50, 300, 80)),
            Share::NOTHING,
            "a packet alone takes 224 ms"
        );
    }

    #[test]
    fn a_queue_that_others_could_wait_for_is_short_all_the_same() {
        let fast = speed(40_000, 40, 20);
        let large = 64 << 20;
        assert_eq!(share(&speed(1_000, 900, 80), &fast, fast.alone, large, PACKET).most, 22_500);
        assert_eq!(share(&speed(1_000, 900, 2), &fast, fast.alone, large, PACKET).most, 12_750);
    }

    #[test]
    fn the_end_of_a_transfer_is_left_to_the_best_path() {
        let share = next_to_fast(&speed(20_000, 160, 80));
        assert_eq!(share.least_unsent, 500_000, "what 100 ms at 40 Mb/s are");
        assert_eq!(next_to_fast(&speed(20_000, 45, 40)).least_unsent, 0, "hardly later");
    }

    #[test]
    fn a_path_that_was_not_measured_is_tried_if_it_is_near() {
        let unknown = |millis| Speed { rate: 0, ..speed(0, millis, millis) };
        assert_eq!(next_to_fast(&unknown(100)), Share::ALL);
        assert_eq!(next_to_fast(&unknown(200)), Share::NOTHING);
    }
}
