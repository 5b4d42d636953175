//! HyStart++ (RFC 9406): leaves slow start when the round-trip time rises, before a queue overflows.
//!
//! A rise may also be jitter. So the window first grows more slowly for a few round trips (Conservative Slow
//! Start, CSS). If the round-trip time falls again, slow start goes on; otherwise congestion avoidance begins.
//! This concerns only the first slow start, while ssthresh is unknown (RFC 9406 section 4.3).

use std::num::NonZeroU32;
use std::time::Duration;

use super::Acked;

/// The least and the largest rise of the round-trip time that counts, and in between its divisor (section 4.3).
const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u32 = 8;
/// Measurements in a round before its minimum counts.
const N_RTT_SAMPLE: u8 = 8;
/// CSS grows by this part of what slow start would.
const CSS_GROWTH_DIVISOR: usize = 4;
/// Rounds of CSS until congestion avoidance begins.
const CSS_ROUNDS: u8 = 5;

/// How the window may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    /// As in slow start.
    SlowStart,
    /// By a quarter of that.
    Conservative,
    /// Slow start is over: ssthresh becomes cwnd.
    Over,
}

impl Growth {
    /// The growth of the window if slow start would let it grow by `bytes`.
    pub(super) fn of(self, bytes: usize) -> usize {
        match self {
            Self::SlowStart => bytes,
            Self::Conservative => bytes / CSS_GROWTH_DIVISOR,
            Self::Over => 0,
        }
    }
}

/// A round-trip time in whole microseconds, at least one and at most 71 minutes. So the state is small, which each
/// path has from its first data on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Micros(NonZeroU32);

impl Micros {
    fn of(time: Duration) -> Self {
        let micros = u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        Self(NonZeroU32::new(micros).unwrap_or(NonZeroU32::MIN))
    }

    fn duration(self) -> Duration {
        Duration::from_micros(u64::from(self.0.get()))
    }
}

/// Conservative Slow Start.
#[derive(Clone, Copy, Debug)]
struct Css {
    /// The round-trip time at its beginning. Less shows that it began too early.
    baseline: Micros,
    /// Rounds that have ended since.
    rounds: u8,
}

/// The state of one path's first slow start.
#[derive(Clone, Debug, Default)]
pub(super) struct HyStart {
    /// Bytes to be acknowledged until the round ends: those in flight when it began, up to 4 GiB.
    round_left: u32,
    /// The minimum of the last round, and of this one.
    last: Option<Micros>,
    current: Option<Micros>,
    samples: u8,
    css: Option<Css>,
}

impl HyStart {
    /// Evaluates an acknowledgement in slow start.
    pub(super) fn on_acked(&mut self, acked: &Acked<'_>) -> Growth {
        if let Some(rtt) = acked.packet_rtt.or(acked.rtt.latest).map(Micros::of) {
            self.current = Some(self.current.map_or(rtt, |current| current.min(rtt)));
            self.samples = self.samples.saturating_add(1);
        }
        self.judge();
        // A round ends when everything is acknowledged that was sent before it began.
        let bytes = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        self.round_left = self.round_left.saturating_sub(bytes(acked.bytes));
        if self.round_left == 0 {
            self.round_left = bytes(acked.in_flight);
            (self.last, self.current, self.samples) = (self.current.take(), None, 0);
            if let Some(css) = &mut self.css {
                css.rounds = css.rounds.saturating_add(1);
            }
        }
        match self.css {
            None => Growth::SlowStart,
            Some(css) if css.rounds < CSS_ROUNDS => Growth::Conservative,
            Some(_) => Growth::Over,
        }
    }

    /// Enters CSS, or returns to slow start (section 4.2).
    fn judge(&mut self) {
        let Some(current) = self.current.filter(|_| self.samples >= N_RTT_SAMPLE) else { return };
        match (self.css, self.last) {
            (None, Some(last)) => {
                let last = last.duration();
                let rise = (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                if current.duration() >= last + rise {
                    self.css = Some(Css { baseline: current, rounds: 0 });
                }
            }
            (Some(css), _) if current < css.baseline => self.css = None,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Instant;

    const PACKET: usize = 1000;

    /// A round of `packets` with these round-trip times in milliseconds, the last one for all the others; the
    /// window is as large in the next round. Returns how it grows after each.
    fn round(hystart: &mut HyStart, packets: usize, millis: &[u64]) -> Vec<Growth> {
        let grow = |packet: usize| {
            let rtt = millis.get(packet).or(millis.last()).copied();
            hystart.on_acked(&Acked {
                in_flight: (packets - 1) * PACKET,
                packet_rtt: rtt.map(Duration::from_millis),
                ..Acked::new(Instant::ZERO, PACKET)
            })
        };
        // What was in flight after the last acknowledgement of the round before, which ended it.
        (0..packets - 1).map(grow).collect()
    }

    /// After a round of 100 ms.
    fn started() -> HyStart {
        let mut hystart = HyStart::default();
        // Nothing was in flight before the first acknowledgement, so it ends a round.
        hystart.on_acked(&Acked { in_flight: 19 * PACKET, ..Acked::new(Instant::ZERO, PACKET) });
        let grown = round(&mut hystart, 20, &[100]);
        assert!(grown.iter().all(|growth| *growth == Growth::SlowStart));
        assert_eq!(hystart.last, Some(Micros::of(Duration::from_millis(100))));
        hystart
    }

    #[test]
    fn the_eighth_measurement_of_a_later_round_decides() {
        // An eighth of 100 ms is 12.5 ms.
        let mut below = started();
        let grown = round(&mut below, 20, &[112]);
        assert!(grown.iter().all(|growth| *growth == Growth::SlowStart), "{grown:?}");
        let mut above = started();
        let grown = round(&mut above, 20, &[113]);
        assert_eq!(grown[6..8], [Growth::SlowStart, Growth::Conservative], "{grown:?}");
        // One that is as short as before is enough to go on.
        let mut once = started();
        let grown = round(&mut once, 20, &[150, 150, 150, 100, 150]);
        assert!(grown.iter().all(|growth| *growth == Growth::SlowStart), "{grown:?}");
    }

    #[test]
    fn short_and_long_paths_have_bounds_of_their_own() {
        for (rtt, rise) in [(1, 4), (20, 4), (80, 10), (300, 16)] {
            for (more, css) in [(rise - 1, false), (rise, true)] {
                let mut hystart = HyStart::default();
                hystart.on_acked(&Acked { in_flight: 9 * PACKET, ..Acked::new(Instant::ZERO, 1) });
                round(&mut hystart, 10, &[rtt]);
                round(&mut hystart, 10, &[rtt + more]);
                assert_eq!(hystart.css.is_some(), css, "{rtt} ms and {more} ms more");
            }
        }
    }

    #[test]
    fn five_rounds_without_relief_end_slow_start() {
        let mut hystart = started();
        let mut grown = round(&mut hystart, 20, &[130]);
        for _ in 0..3 {
            grown.extend(round(&mut hystart, 20, &[130]));
        }
        assert!(!grown.contains(&Growth::Over), "the round in which it began is the first");
        let last = round(&mut hystart, 20, &[140]);
        assert_eq!(last[17..], [Growth::Conservative, Growth::Over], "{last:?}");
        assert_eq!(last.len(), 19);
    }

    #[test]
    fn a_rise_that_goes_away_was_jitter() {
        let mut hystart = started();
        round(&mut hystart, 20, &[130]);
        let grown = round(&mut hystart, 20, &[129]);
        assert_eq!(grown[6..8], [Growth::Conservative, Growth::SlowStart], "{grown:?}");
        // It starts over: five rounds again, from a rise above the last minimum.
        let grown = round(&mut hystart, 20, &[146]);
        assert_eq!(grown[7], Growth::Conservative, "{grown:?}");
        assert_eq!(hystart.css.map(|css| css.rounds), Some(1));
    }

    #[test]
    fn rounds_without_measurements_decide_nothing() {
        let mut hystart = started();
        for _ in 0..10 {
            let grown = round(&mut hystart, 20, &[]);
            assert!(grown.iter().all(|growth| *growth == Growth::SlowStart));
        }
        // Seven are too few, even if they are long.
        hystart = started();
        hystart.on_acked(&Acked {
            in_flight: 7 * PACKET,
            packet_rtt: Some(Duration::from_millis(100)),
            ..Acked::new(Instant::ZERO, 19 * PACKET)
        });
        let grown = round(&mut hystart, 8, &[500]);
        assert!(grown.iter().all(|growth| *growth == Growth::SlowStart), "{grown:?}");
    }

    #[test]
    fn a_quarter_of_the_growth() {
        let parts = [Growth::SlowStart, Growth::Conservative, Growth::Over].map(|g| g.of(4000));
        assert_eq!(parts, [4000, 1000, 0]);
    }
}
