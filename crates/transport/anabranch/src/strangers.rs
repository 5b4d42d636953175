//! Limits the processor time spent on packets without an association.
//!
//! If the sockets queue such packets separately, they are processed in idle time, plus a share of busy
//! time. Other work, of the driver or of other tasks on its thread, earns credit, which processing such
//! packets uses up; both are measured by the clock. When the credit is used up, the driver yields. If no
//! other task had anything to do then, the debt is forgotten. So an idle processor handles any rate,
//! nothing waits for a timer, and a flood has no effect after its end.

use std::time::Duration;

use anabranch_proto::Instant;

/// Other work earns 1/SHARE of its time as credit, so packets without an association get a fifth of a
/// busy processor. An INIT costs as much as ten or twenty packets with data.
const SHARE: u32 = 4;

/// If less time than this passes between two polls, no other task had anything to do.
const IDLE: Duration = Duration::from_micros(20);

/// Maximum credit in nanoseconds: packets covered by credit are processed immediately, while all others
/// wait.
const MOST_CREDIT: i64 = 250_000;

/// Maximum debt in nanoseconds: a poll takes longer only if the system ran another process meanwhile.
const MOST_DEBT: i64 = 2_000_000;

/// More packets without effect than this within [`WINDOW`] are a flood.
const FLOOD: u64 = 512;
const WINDOW: Duration = Duration::from_millis(100);

/// Divides the time, and detects floods.
#[derive(Debug)]
pub(crate) struct Strangers {
    /// Credit earned by other work and not used yet, in nanoseconds; negative for a debt.
    credit: i64,
    /// Other work earns 1/`share` of its time.
    share: u32,
    /// Until when other work has been credited.
    counted: Instant,
    /// Start of the window, and the number of packets then.
    window: (Instant, u64),
}

impl Strangers {
    /// `shards` is the number of shards that run on one thread, and so divide one share.
    pub(crate) fn new(now: Instant, shards: usize) -> Self {
        let share = u32::try_from(shards).unwrap_or(u32::MAX).saturating_mul(SHARE).max(1);
        Self { share, credit: 0, counted: now, window: (now, 0) }
    }

    /// Whether there is a flood, given the total number of packets without effect.
    pub(crate) fn flooded(&mut self, now: Instant, packets: u64) -> bool {
        let (begin, before) = self.window;
        let flooded = packets.saturating_sub(before) > FLOOD;
        if flooded || packets < before || now.saturating_since(begin) > WINDOW {
            self.window = (now, packets);
        }
        flooded
    }

    /// Whether the queues of packets without an association may be polled. `idle`: the driver has
    /// yielded since the last time, and has nothing else to do.
    pub(crate) fn may_look(&mut self, now: Instant, idle: bool) -> bool {
        let others = now.saturating_since(self.counted);
        self.counted = now;
        self.credit = (self.credit + signed(others / self.share)).min(MOST_CREDIT);
        if idle && others < IDLE {
            self.credit = self.credit.max(0);
        }
        self.credit >= 0
    }

    /// Records that a poll that found packets took from `begun` to `ended`.
    pub(crate) fn looked(&mut self, begun: Instant, ended: Instant) {
        let taken = signed(ended.saturating_since(begun));
        self.credit = self.credit.saturating_sub(taken).max(-MOST_DEBT);
        self.counted = ended;
    }
}

fn signed(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX / 2)
}

#[cfg(test)]
mod tests;
