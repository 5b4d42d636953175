//! Which streams go first: those that carry little at a time.

use std::time::{Duration, Instant};

use anabranch::StreamPriority;

/// Bytes after which a stream counts as bulk.
const BULK: u64 = 256 << 10;

/// Pause after which a stream counts as interactive again.
const PAUSE: Duration = Duration::from_secs(1);

/// The urgency of streams that carry little; smaller ones go first.
const INTERACTIVE: u16 = 2;

/// The urgency of the others.
const LARGE: u16 = 4;

/// What one direction of a stream has carried since its last pause. Keys, questions and the heads of pages pass a
/// download in the queue. It has an effect with the scheduler `priority` only.
#[derive(Debug)]
pub(crate) struct Urgency {
    bytes: u64,
    last: Instant,
    large: bool,
}

impl Urgency {
    pub(crate) fn new(now: Instant) -> Self {
        Self { bytes: 0, last: now, large: false }
    }

    /// The priority of a stream that has carried nothing yet.
    pub(crate) fn first() -> StreamPriority {
        INTERACTIVE.into()
    }

    /// The priority of a stream for what carries much.
    pub(crate) fn large() -> StreamPriority {
        LARGE.into()
    }

    /// Whether it has carried much since its last pause.
    pub(crate) fn is_large(&self) -> bool {
        self.large
    }

    /// Counts bytes that are about to be sent. Returns the stream's priority if it changes.
    pub(crate) fn sends(&mut self, now: Instant, bytes: usize) -> Option<StreamPriority> {
        if now.saturating_duration_since(self.last) >= PAUSE {
            self.bytes = 0;
        }
        self.last = now;
        self.bytes = self.bytes.saturating_add(bytes as u64);
        let large = self.bytes > BULK;
        let changes = std::mem::replace(&mut self.large, large) != large;
        changes.then(|| if large { LARGE } else { INTERACTIVE }.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_download_becomes_bulk_and_a_pause_forgives_it() {
        let start = Instant::now();
        let mut urgency = Urgency::new(start);
        assert_eq!(urgency.sends(start, 256 << 10), None);
        assert_eq!(urgency.sends(start, 1), Some(LARGE.into()));
        assert_eq!(urgency.sends(start + PAUSE / 2, 1), None);
        assert_eq!(urgency.sends(start + PAUSE, 1), None, "half a second is no pause");
        assert_eq!(urgency.sends(start + PAUSE * 2, 1), Some(INTERACTIVE.into()));
    }
}
