//! Cross-traffic of a single link, from sources behind an access link of their own.
//!
//! Nothing else uses the access link, so the simulator computes when packets leave it. After the loaded link they are
//! dropped, because nothing depends on them there. A packet therefore costs two events instead of one for each link.

use std::time::Duration;

use anabranch_proto::Instant;

use crate::channel::{Direction, LinkId};
use crate::error::SimError;
use crate::traffic::{Emission, check};

/// Identifies a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FeedId(pub(crate) u32);

/// An access link through which sources load another link; see [`Network::add_feed`](crate::Network::add_feed).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feed {
    /// The loaded link. Packets end at its other end.
    pub link: LinkId,
    /// The loaded direction: forward or backward.
    pub direction: Direction,
    /// Rate of the access link in bits per second. Its queue has no limit.
    pub rate_bps: u64,
    /// Delay of the access link.
    pub delay: Duration,
}

impl Feed {
    pub(crate) fn validate(&self) -> Result<(), SimError> {
        check(
            (1..=anabranch_impair::MAX_RATE).contains(&self.rate_bps),
            "feed rate_bps",
            "must lie between 1 and 10^15",
        )?;
        check(self.delay <= anabranch_impair::MAX_SPAN, "feed delay", "must be at most a day")?;
        check(self.direction != Direction::Both, "feed direction", "must be forward or backward")
    }
}

/// A feed with its sources.
#[derive(Debug)]
pub(crate) struct Feeder {
    spec: Feed,
    /// The channel that it loads.
    pub(crate) channel: usize,
    /// Its entry in the calendar.
    pub(crate) source: usize,
    /// When each source has something to do next, in nanoseconds; `u64::MAX` is never.
    due: Vec<u64>,
    emissions: Vec<Emission>,
    /// When the access link has sent all packets so far.
    busy_until: u64,
    /// Sum of the rounding errors in this busy period: a fraction of a nanosecond times the rate.
    carry: u64,
    /// The size of the packet that comes out of the access link next.
    coming: Option<u32>,
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

impl Feeder {
    pub(crate) fn new(spec: Feed, channel: usize, source: usize) -> Self {
        Self {
            spec,
            channel,
            source,
            due: Vec::new(),
            emissions: Vec::new(),
            busy_until: 0,
            carry: 0,
            coming: None,
            sent: 0,
            received: 0,
        }
    }

    /// Adds a source. Returns when the feed is due.
    pub(crate) fn add(&mut self, emission: Emission, start: Instant) -> u64 {
        self.due.push(start.as_nanos());
        self.emissions.push(emission);
        self.due.iter().copied().min().unwrap_or(u64::MAX)
    }

    /// Whether a packet is on its way already, so that it is too late for another source.
    pub(crate) fn has_begun(&self) -> bool {
        self.sent > 0 || self.coming.is_some()
    }

    /// Handles a due event. Returns the size of the packet that has come out of the access link, if any, and when the next
    /// one does.
    pub(crate) fn fire(&mut self) -> (Option<u32>, u64) {
        let out = self.coming.take();
        self.sent += u64::from(out.is_some());
        (out, self.look_ahead())
    }

    /// Lets sources run until one of them sends a packet. Returns when that comes out of the access link.
    fn look_ahead(&mut self) -> u64 {
        loop {
            let earliest = self.due.iter().enumerate().min_by_key(|(_, due)| **due);
            let Some((number, &now)) = earliest.filter(|(_, due)| **due != u64::MAX) else {
                return u64::MAX;
            };
            let (size, next) = self.emissions[number].fire(Instant::from_nanos(now));
            self.due[number] = next.map_or(u64::MAX, Instant::as_nanos);
            if let Some(size) = size {
                self.coming = Some(size);
                return self.departure(now, size).saturating_add(nanos(self.spec.delay));
            }
        }
    }

    /// When the access link has sent a packet that it gets now.
    fn departure(&mut self, now: u64, size: u32) -> u64 {
        if self.busy_until <= now {
            self.busy_until = now;
            self.carry = 0;
        }
        let needed = u64::from(size) * 8_000_000_000 + self.carry;
        self.carry = needed % self.spec.rate_bps;
        self.busy_until = self.busy_until.saturating_add(needed / self.spec.rate_bps);
        self.busy_until
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
