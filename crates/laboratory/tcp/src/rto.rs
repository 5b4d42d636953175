//! The retransmission timer's length (RFC 6298).

use std::time::Duration;

use crate::config::Config;

/// Smoothed round-trip time and the timeout derived from it.
#[derive(Debug)]
pub(crate) struct Rto {
    smoothed: Option<(Duration, Duration)>,
    base: Duration,
    /// Number of timeouts for which the timer has backed off.
    backoff: u32,
    /// Timeouts since the last acknowledgement of new data.
    in_a_row: u32,
    /// Whether only a measurement ends the back-off.
    keeps: bool,
    /// The clock's granularity.
    granularity: Duration,
    min: Duration,
    max: Duration,
}

impl Rto {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            smoothed: None,
            base: config.rto_initial,
            backoff: 0,
            in_a_row: 0,
            keeps: config.keep_back_off,
            granularity: config.rto_granularity,
            min: config.rto_min,
            max: config.rto_max,
        }
    }

    /// Records the round-trip time of a segment that was sent once (section 2, with Karn's algorithm).
    pub(crate) fn sample(&mut self, rtt: Duration) {
        let (srtt, var) = match self.smoothed {
            None => (rtt, rtt / 2),
            Some((srtt, var)) => ((srtt * 7 + rtt) / 8, (var * 3 + srtt.abs_diff(rtt)) / 4),
        };
        self.resume(srtt, var);
        if self.keeps {
            self.backoff = 0;
        }
    }

    /// Sets a better initial RTO before the first measurement.
    pub(crate) fn assume(&mut self, base: Duration) {
        self.base = base.max(self.min);
    }

    /// Starts with the measurement of an earlier connection (RFC 9040 section 4).
    pub(crate) fn resume(&mut self, srtt: Duration, variation: Duration) {
        self.smoothed = Some((srtt, variation));
        self.base = (srtt + (variation * 4).max(self.granularity)).max(self.min);
    }

    /// SRTT and RTTVAR, after the first measurement.
    pub(crate) fn smoothed(&self) -> Option<(Duration, Duration)> {
        self.smoothed
    }

    /// The timer has expired (section 5.5).
    pub(crate) fn back_off(&mut self) {
        self.backoff = self.backoff.saturating_add(1);
        self.in_a_row = self.in_a_row.saturating_add(1);
    }

    /// New data was acknowledged: the next timer runs without the back-off of earlier timeouts. With `keeps`, the
    /// back-off stays until there is a measurement, because retransmitted data gives none (section 5, below rule 5.7).
    pub(crate) fn acknowledged(&mut self) {
        self.in_a_row = 0;
        if !self.keeps {
            self.backoff = 0;
        }
    }

    /// Consecutive timeouts.
    pub(crate) fn timeouts(&self) -> u32 {
        self.in_a_row
    }

    /// The current timeout.
    pub(crate) fn current(&self) -> Duration {
        self.base.saturating_mul(1 << self.backoff.min(16)).min(self.max)
    }

    /// SRTT, after the first measurement.
    pub(crate) fn srtt(&self) -> Option<Duration> {
        self.smoothed.map(|(srtt, _)| srtt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formulas_of_section_2() {
        let ms = Duration::from_millis;
        let mut rto = Rto::new(&Config { rto_min: ms(100), ..Config::default() });
        assert_eq!(rto.current(), ms(1000));
        rto.sample(ms(200));
        assert_eq!((rto.srtt(), rto.current()), (Some(ms(200)), ms(600)));
        rto.sample(ms(280));
        // RTTVAR = 3/4 * 100 + 1/4 * 80, SRTT = 7/8 * 200 + 1/8 * 280.
        assert_eq!((rto.srtt(), rto.current()), (Some(ms(210)), ms(590)));
        rto.back_off();
        rto.back_off();
        assert_eq!((rto.current(), rto.timeouts()), (ms(2360), 2));
        for _ in 0..40 {
            rto.back_off();
        }
        assert_eq!(rto.current(), Duration::from_secs(60));
        rto.acknowledged();
        assert_eq!(rto.current(), ms(590));
        for _ in 0..200 {
            rto.sample(ms(1));
        }
        assert_eq!(rto.current(), ms(100));
    }

    /// RFC 6298 section 2.3: RTO = SRTT + max(G, 4 * RTTVAR).
    #[test]
    fn the_clock_has_a_granularity() {
        let ms = Duration::from_millis;
        let (rto_min, rto_granularity) = (ms(200), ms(200));
        let mut rto = Rto::new(&Config { rto_min, rto_granularity, ..Config::default() });
        rto.sample(ms(350));
        assert_eq!(rto.current(), ms(1050));
        (0..100).for_each(|_| rto.sample(ms(350)));
        assert_eq!(rto.current(), ms(550));
    }

    #[test]
    fn a_back_off_may_last_until_something_was_measured() {
        let ms = Duration::from_millis;
        for keep_back_off in [false, true] {
            let mut rto =
                Rto::new(&Config { rto_min: ms(100), keep_back_off, ..Config::default() });
            rto.sample(ms(200));
            rto.back_off();
            rto.back_off();
            rto.acknowledged();
            let factor = if keep_back_off { 4 } else { 1 };
            assert_eq!((rto.current(), rto.timeouts()), (ms(600) * factor, 0));
            rto.sample(ms(200));
            rto.acknowledged();
            assert_eq!(rto.current(), ms(500));
        }
    }
}
