//! Limits the processor time for packets without an association.
//!
//! If the sockets queue such packets separately, they get idle time, plus a share of busy time. Both are
//! measured by the clock: other work of the driver or of other tasks on its thread earns credit for the
//! time that the driver spends on such packets. When the credit is used up, the driver yields; if no
//! other task had anything to do then, the debt is forgotten. So an idle processor handles any rate,
//! nothing waits for a timer, and a flood has no effect after its end.

use std::time::Duration;

use anabranch_proto::Instant;

/// 1/SHARE of the time for other work is earned as credit: packets without an association get a
/// fifth of a busy processor, since an INIT costs as much as ten or twenty packets with data.
const SHARE: u32 = 4;

/// If less than this passes between two polls, no other task had anything to do.
const IDLE: Duration = Duration::from_micros(20);

/// Packets covered by credit are processed at once; but for no longer than this, since all others
/// wait meanwhile.
const MOST_CREDIT: i64 = 250_000;

/// A poll takes no longer than this, unless the system gave the processor to another process.
const MOST_DEBT: i64 = 2_000_000;

/// This many packets without effect within [`WINDOW`] are a flood.
const FLOOD: u64 = 512;
const WINDOW: Duration = Duration::from_millis(100);

/// Divides the time, and notices the first flood.
#[derive(Debug)]
pub(crate) struct Strangers {
    /// Credit earned by other work and not used yet, in nanoseconds; negative for a debt.
    credit: i64,
    /// 1/`share` of the time for other work is earned.
    share: u32,
    /// Until when other work is counted.
    counted: Instant,
    /// Begin of the window, and the number of packets then.
    window: (Instant, u64),
}

impl Strangers {
    /// For one of `shards` shards that alternate on one thread, and so divide one share.
    pub(crate) fn new(now: Instant, shards: usize) -> Self {
        let share = u32::try_from(shards).unwrap_or(u32::MAX).saturating_mul(SHARE).max(1);
        Self { share, credit: 0, counted: now, window: (now, 0) }
    }

    /// Whether there is a flood, given the total of packets without effect.
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

    /// A look that found something took from `begun` to `ended`.
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
