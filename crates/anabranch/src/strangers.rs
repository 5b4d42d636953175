//! How much of the processor's time goes to packets of those who have no association.
//!
//! Where the sockets keep such packets apart they have what is free, and beside other work a share.
//! Both are told by the clock: the time for all else, be it the driver's own or that of other tasks
//! on its thread, pays for the time that the driver takes for strangers. When that is used up the
//! driver makes way; if then nobody else had anything to do, the debt is forgotten. So no rate is
//! too high for a processor that is idle, nothing waits for a timer, and nothing is left of a flood
//! when it is over.

use std::time::Duration;

use anabranch_proto::Instant;

/// Other work pays for one part in so many: strangers have a fifth of a processor that others
/// would use up, since an INIT costs as much as ten or twenty packets with data.
const SHARE: u32 = 4;

/// With less than this between two looks nobody else had anything to do.
const IDLE: Duration = Duration::from_micros(20);

/// Work of strangers that others have paid for is done at once; but for no longer than this, since
/// all others wait meanwhile.
const MOST_CREDIT: i64 = 250_000;

/// A look takes no longer than this, unless the system gave the processor to another process.
const MOST_DEBT: i64 = 2_000_000;

/// So many packets that led to nothing within [`WINDOW`] are a flood.
const FLOOD: u64 = 512;
const WINDOW: Duration = Duration::from_millis(100);

/// Divides the time, and notices the first flood.
#[derive(Debug)]
pub(crate) struct Strangers {
    /// What other work has paid for and strangers have not used, in nanoseconds; a debt below 0.
    credit: i64,
    /// Other work pays for one part in so many.
    share: u32,
    /// Until when other work is counted.
    counted: Instant,
    /// Begin of the window, and the packets there had been then.
    window: (Instant, u64),
}

impl Strangers {
    /// For one of so many shards that take turns on one thread, and so have one share together.
    pub(crate) fn new(now: Instant, shards: usize) -> Self {
        let share = u32::try_from(shards).unwrap_or(u32::MAX).saturating_mul(SHARE).max(1);
        Self { share, credit: 0, counted: now, window: (now, 0) }
    }

    /// Whether there is a flood, when so many packets have led to nothing in all.
    pub(crate) fn flooded(&mut self, now: Instant, packets: u64) -> bool {
        let (begin, before) = self.window;
        let flooded = packets.saturating_sub(before) > FLOOD;
        if flooded || packets < before || now.saturating_since(begin) > WINDOW {
            self.window = (now, packets);
        }
        flooded
    }

    /// Whether the queues of strangers may be looked at. `idle` says that the driver has made way
    /// since the last time, and has nothing else to do.
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
