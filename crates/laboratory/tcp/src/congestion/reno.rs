//! Congestion control of RFC 5681, in bytes or in whole segments.

use crate::config::Config;
use crate::options::{Congestion, SlowStartLimit};

/// What an acknowledgement outside of recovery may add to the window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Growth {
    /// It counts as one segment, whatever it acknowledges.
    pub(crate) counting_packets: bool,
    /// The limit of slow start.
    pub(crate) limit: SlowStartLimit,
    /// Data that was outstanding at a timeout is still unacknowledged.
    pub(crate) after_timeout: bool,
}

/// The initial window in segments (section 3.1), unless `wanted` is one.
pub(crate) fn initial_segments(wanted: u32, mss: u64) -> u64 {
    match (wanted, mss) {
        (0, 2191..) => 2,
        (0, 1096..) => 3,
        (0, _) => 4,
        (wanted, _) => u64::from(wanted),
    }
}

/// The congestion window of Reno. The pipe algorithm of recovery uses it.
#[derive(Debug)]
pub(crate) struct Reno {
    window: u64,
    threshold: u64,
    mss: u64,
    /// Bytes acknowledged in congestion avoidance that have not grown the window yet.
    credit: u64,
    /// A loss leaves half of the window in whole segments, as in Linux, and not half of what is outstanding in bytes.
    /// Of the latter the last half of a segment cannot be used, but must be acknowledged before the window grows.
    whole: bool,
}

impl Reno {
    pub(crate) fn new(config: &Config, mss: u64) -> Self {
        let whole = config.congestion == Congestion::LinuxReno;
        let window = initial_segments(config.initial_window, mss) * mss;
        Self { window, threshold: u64::MAX, mss, credit: 0, whole }
    }

    /// The threshold after a loss with `flight` bytes outstanding (equation 4; Linux: `tcp_reno_ssthresh`).
    fn reduced(&self, flight: u64) -> u64 {
        let half = if self.whole { self.window / self.mss / 2 * self.mss } else { flight / 2 };
        half.max(2 * self.mss)
    }

    /// Limits the window to the initial one after an idle period (section 4.1).
    pub(crate) fn restart(&mut self, segments: u32) {
        self.window = self.window.min(initial_segments(segments, self.mss) * self.mss);
    }

    /// Bytes that may be in the network.
    pub(crate) fn window(&self) -> u64 {
        self.window
    }

    /// Slow start threshold in bytes.
    pub(crate) fn threshold(&self) -> u64 {
        self.threshold
    }

    /// Grows the window for `bytes` bytes of new data acknowledged outside of recovery (section 3.1).
    pub(crate) fn acknowledged(&mut self, bytes: u64, growth: &Growth) {
        if self.window < self.threshold {
            self.window +=
                if growth.counting_packets { self.mss } else { self.slow_start(bytes, growth) };
            return;
        }
        if growth.counting_packets {
            // Equation 3.
            self.window += (self.mss * self.mss / self.window.max(1)).max(1);
            return;
        }
        self.credit += bytes;
        if self.credit >= self.window {
            self.credit -= self.window;
            self.window += self.mss;
        }
    }

    /// By how much `bytes` acknowledged bytes widen the window in slow start. More than a segment does not cross the
    /// threshold: one acknowledgement may cover all that had waited behind a gap.
    fn slow_start(&self, bytes: u64, growth: &Growth) -> u64 {
        let limit =
            growth.limit.segments(growth.after_timeout).map_or(u64::MAX, |limit| limit * self.mss);
        let room = (self.threshold - self.window).max(self.mss);
        bytes.min(limit).min(room)
    }

    /// Starts a recovery with `flight` bytes outstanding (section 3.2 step 2, equation 4).
    pub(crate) fn loss(&mut self, flight: u64) {
        self.threshold = self.reduced(flight);
        self.window = self.threshold;
        self.credit = 0;
    }

    /// Undoes a spurious recovery: window and threshold become at least what they were before.
    pub(crate) fn restore(&mut self, (window, threshold): (u64, u64)) {
        self.window = self.window.max(window);
        self.threshold = self.threshold.max(threshold);
    }

    /// Undoes a spurious timeout with `in_network` bytes in the network: the window continues from
    /// there (Eifel, RFC 4015 section 3.2, steps 3 and 4).
    pub(crate) fn resume(&mut self, in_network: u64, (window, threshold): (u64, u64)) {
        let now = in_network.min(window);
        self.window = self.window.max(now);
        self.threshold = self.threshold.max(threshold.max(window));
    }

    /// Sets the final threshold of an earlier connection.
    pub(crate) fn assume_threshold(&mut self, threshold: u64) {
        self.threshold = threshold.max(2 * self.mss);
    }

    /// Limits the window.
    pub(crate) fn limit(&mut self, window: u64) {
        self.window = self.window.min(window);
    }

    /// Sets both, but not below the loss window.
    pub(crate) fn set(&mut self, (window, threshold): (u64, u64)) {
        self.window = window.max(self.mss);
        self.threshold = threshold.max(2 * self.mss);
    }

    /// The retransmission timer expired (section 3.1). A second timeout of the same segment keeps
    /// the threshold.
    pub(crate) fn timeout(&mut self, flight: u64, first: bool) {
        if first {
            self.threshold = self.reduced(flight);
        }
        self.window = self.mss;
        self.credit = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reno(mss: u64, initial_window: u32) -> Reno {
        Reno::new(&Config { initial_window, ..Config::default() }, mss)
    }

    #[test]
    fn slow_start_avoidance_and_losses() {
        let mut reno = reno(1000, 0);
        assert_eq!(reno.window(), 4000);
        let bytes = Growth::default();
        reno.acknowledged(2000, &bytes);
        assert_eq!(reno.window(), 5000, "at most a segment for each acknowledgement");
        reno.loss(20_000);
        assert_eq!((reno.window(), reno.threshold()), (10_000, 10_000));
        (0..9).for_each(|_| reno.acknowledged(1000, &bytes));
        assert_eq!(reno.window(), 10_000);
        reno.acknowledged(1000, &bytes);
        assert_eq!(reno.window(), 11_000, "a segment in each round trip");
        reno.timeout(11_000, true);
        assert_eq!((reno.window(), reno.threshold()), (1000, 5500));
        reno.timeout(1000, false);
        assert_eq!((reno.window(), reno.threshold()), (1000, 5500));
        reno.timeout(1000, true);
        assert_eq!(reno.threshold(), 2000);
    }

    /// With a window of seven segments or five, Linux goes on with three or two. Three and a half would carry no more,
    /// and take half a segment longer to grow.
    #[test]
    fn linux_halves_the_window_in_whole_segments() {
        let config = Config { congestion: Congestion::LinuxReno, ..Config::default() };
        for (segments, left) in [(20, 10), (7, 3), (5, 2), (3, 2)] {
            let mut linux = Reno::new(&Config { initial_window: segments, ..config.clone() }, 1000);
            linux.loss(u64::from(segments) * 900);
            assert_eq!((linux.window(), linux.threshold()), (left * 1000, left * 1000));
        }
        let mut bytes = reno(1000, 7);
        bytes.loss(7000);
        assert_eq!(bytes.window(), 3500);
    }

    #[test]
    fn slow_start_has_the_limit_of_rfc_3465() {
        let mut windows = Vec::new();
        for limit in [SlowStartLimit::One, SlowStartLimit::Two, SlowStartLimit::Unlimited] {
            for after_timeout in [false, true] {
                let mut reno = reno(1000, 4);
                reno.acknowledged(3000, &Growth { limit, after_timeout, ..Growth::default() });
                windows.push(reno.window());
            }
        }
        assert_eq!(windows, [5000, 5000, 6000, 5000, 7000, 7000]);
    }

    #[test]
    fn slow_start_ends_at_the_threshold() {
        for (limit, window) in [(SlowStartLimit::One, 9000), (SlowStartLimit::Unlimited, 10_000)] {
            let mut reno = reno(1000, 8);
            reno.assume_threshold(10_000);
            reno.acknowledged(8000, &Growth { limit, ..Growth::default() });
            assert_eq!(reno.window(), window);
        }
        let mut reno = reno(1000, 8);
        reno.assume_threshold(8001);
        reno.acknowledged(2000, &Growth::default());
        assert_eq!(reno.window(), 9000, "a whole segment at least");
    }

    #[test]
    fn counted_by_packets_small_ones_count_as_much() {
        let mut reno = reno(1000, 4);
        let packets = Growth { counting_packets: true, ..Growth::default() };
        reno.acknowledged(10, &Growth::default());
        assert_eq!(reno.window(), 4010);
        reno.acknowledged(10, &packets);
        assert_eq!(reno.window(), 5010);
        reno.loss(10_000);
        (0..5).for_each(|_| reno.acknowledged(10, &packets));
        assert!((5900..6000).contains(&reno.window()), "{}", reno.window());
    }

    #[test]
    fn initial_windows_of_rfc_5681() {
        for (mss, expected) in [(536, 4 * 536), (1460, 3 * 1460), (9000, 18_000)] {
            assert_eq!(reno(mss, 0).window(), expected);
        }
        assert_eq!(reno(1460, 10).window(), 14_600);
        let mut reno = reno(1000, 0);
        reno.acknowledged(1000, &Growth::default());
        reno.restart(0);
        assert_eq!(reno.window(), 4000);
        reno.timeout(4000, true);
        reno.restart(0);
        assert_eq!(reno.window(), 1000, "idleness never opens it");
    }
}
