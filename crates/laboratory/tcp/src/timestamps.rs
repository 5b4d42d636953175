//! Timestamps (RFC 7323 sections 3 and 4): the values that this end sends, and the peer's value
//! that it echoes.

use anabranch_units::Instant;

/// The timestamp of a segment sent now; a tick is a millisecond (section 5.4).
pub(crate) fn value(now: Instant) -> u32 {
    (now.as_nanos() / 1_000_000) as u32
}

/// How long ago this end sent a timestamp, in milliseconds.
pub(crate) fn age(now: Instant, echo: u32) -> u32 {
    value(now).wrapping_sub(echo)
}

/// The peer's timestamps.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recent {
    /// The value to echo (TS.Recent).
    value: u32,
    /// The position of the last acknowledgement sent (Last.ACK.sent).
    acknowledged: u64,
}

impl Recent {
    /// Starts with the value of the peer's SYN.
    pub(crate) fn new(value: u32, next: u64) -> Self {
        Self { value, acknowledged: next }
    }

    /// Records a segment that begins at `position` (section 4.3 rule 2).
    pub(crate) fn on_segment(&mut self, value: u32, position: u64) {
        if position <= self.acknowledged && (value.wrapping_sub(self.value) as i32) >= 0 {
            self.value = value;
        }
    }

    /// Records that everything before `next` is acknowledged; returns the echo.
    pub(crate) fn echo(&mut self, next: u64) -> u32 {
        self.acknowledged = next;
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_unacknowledged_segment_is_echoed() {
        let mut recent = Recent::new(5, 100);
        recent.on_segment(10, 100);
        // A delayed acknowledgement covers both segments; the first timestamp counts (section 4.3,
        // case A).
        recent.on_segment(11, 200);
        assert_eq!(recent.echo(300), 10);
        // Out of order: echo the last segment in order (case B).
        recent.on_segment(14, 400);
        assert_eq!(recent.echo(300), 10);
        // The segment that fills the gap (case C).
        recent.on_segment(13, 300);
        assert_eq!(recent.echo(500), 13);
        recent.on_segment(12, 500);
        assert_eq!(recent.echo(500), 13, "older than the last one");
        assert_eq!(age(Instant::from_secs(1), value(Instant::ZERO)), 1000);
    }
}
