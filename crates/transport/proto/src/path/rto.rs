//! Round-trip time and retransmission timeout of a path (RFC 9260 section 6.3.1).

use std::time::Duration;

use super::{RtoFloor, TimerConfig};
use crate::time::nanos;

/// Clock granularity G in nanoseconds, which is the resolution of the drivers' timers.
const GRANULARITY: u64 = 1_000;

/// Maximum of a measurement; larger ones are reduced to it, so the arithmetic below cannot overflow.
const LONGEST: u64 = 1 << 56;

/// A measurement of an earlier association is limited to this many times RTO.Initial.
const MOST_EXPECTED: u64 = 3;

/// SRTT, RTTVAR and RTO of one path.
///
/// The caller decides which packets may be measured (Karn's algorithm, once per round trip).
#[derive(Clone, Debug)]
pub(crate) struct RttEstimator {
    /// In nanoseconds, as the other fields. Both are zero before the first measurement.
    srtt: u64,
    rttvar: u64,
    rto: u64,
    rto_initial: u64,
    /// Upper bound for the measurement of an earlier association.
    most_expected: u64,
    /// Minimum of the RTO, or if `above_srtt` is set, of its part above SRTT.
    rto_min: u64,
    rto_max: u64,
    above_srtt: bool,
    /// The minimum round-trip time that loss recovery measured before the association became idle, in
    /// microseconds; 0 if none.
    least: u32,
}

impl RttEstimator {
    /// An estimator without a measurement: its RTO is RTO.Initial.
    pub(crate) fn new(config: &TimerConfig) -> Self {
        Self {
            srtt: 0,
            rttvar: 0,
            rto: nanos(config.rto_initial),
            rto_initial: nanos(config.rto_initial),
            most_expected: nanos(config.rto_initial).saturating_mul(MOST_EXPECTED),
            rto_min: nanos(config.rto_min),
            rto_max: nanos(config.rto_max),
            above_srtt: config.rto_floor == RtoFloor::AboveSrtt,
            least: 0,
        }
    }

    /// Sets new bounds.
    pub(crate) fn reconfigure(&mut self, config: &TimerConfig) {
        (self.rto_min, self.rto_max) = (nanos(config.rto_min), nanos(config.rto_max));
        self.above_srtt = config.rto_floor == RtoFloor::AboveSrtt;
        self.rto_initial = self.rto_initial.clamp(self.rto_min, self.rto_max);
        self.rto = self.rto.clamp(self.rto_min, self.rto_max);
    }

    /// Adopts a measurement of an earlier association until there is one, limited to three times
    /// RTO.Initial: hosts behind a NAT share addresses, and a peer that deliberately answers slowly must
    /// not make a neighbour wait for long.
    pub(crate) fn expect(&mut self, srtt: Duration, rttvar: Duration) {
        if self.srtt > 0 {
            return;
        }
        let (srtt, rttvar) = (nanos(srtt).clamp(1, LONGEST), nanos(rttvar).min(LONGEST));
        let rto = srtt + (4 * rttvar).max(self.variation_min());
        let rto = rto.min(self.most_expected);
        self.rto_initial = rto.clamp(self.rto_min, self.rto_max);
        self.rto = self.rto_initial;
    }

    /// Records that the handshake took longer than RTO.Initial, so its retransmissions may have been
    /// spurious, and later ones would be as well. Until there is a measurement, the RTO is at least `rto`.
    pub(crate) fn start_slowly(&mut self, rto: Duration) {
        if self.srtt > 0 {
            return;
        }
        let rto = nanos(rto).clamp(self.rto_min, self.rto_max);
        self.rto_initial = self.rto_initial.max(rto);
        self.rto = self.rto.max(rto);
    }

    /// The minimum of the RTO above SRTT.
    fn variation_min(&self) -> u64 {
        if self.above_srtt { self.rto_min } else { 0 }
    }

    /// Stores the minimum round-trip time while loss recovery has no state.
    pub(crate) fn keep_least(&mut self, least: Option<Duration>) {
        let least = least.map_or(0, |least| least.as_micros());
        self.least = u32::try_from(least).unwrap_or(0);
    }

    /// Removes and returns the stored value.
    pub(crate) fn take_least(&mut self) -> Option<Duration> {
        let least = std::mem::take(&mut self.least);
        (least > 0).then(|| Duration::from_micros(least.into()))
    }

    /// Records a round-trip time of `rtt`. This also ends any back-off.
    pub(crate) fn on_measurement(&mut self, rtt: Duration) {
        let rtt = nanos(rtt).clamp(1, LONGEST);
        if self.srtt == 0 {
            self.srtt = rtt;
            self.rttvar = rtt / 2;
        } else {
            // RTO.Beta is 1/4, RTO.Alpha is 1/8.
            self.rttvar = (3 * self.rttvar + self.srtt.abs_diff(rtt)) / 4;
            self.srtt = ((7 * self.srtt + rtt) / 8).max(1);
        }
        // Rule G1: the variation may be too small for the clock.
        self.rttvar = self.rttvar.max(GRANULARITY);
        self.rto = nanos(self.fresh());
    }

    /// The RTO according to the measurements, without any back-off.
    pub(crate) fn fresh(&self) -> Duration {
        let rto = if self.srtt == 0 {
            self.rto_initial
        } else {
            self.srtt + (4 * self.rttvar).max(self.variation_min())
        };
        Duration::from_nanos(rto.clamp(self.rto_min, self.rto_max))
    }

    /// Doubles the RTO, up to RTO.Max, because the retransmission timer expired.
    pub(crate) fn back_off(&mut self) {
        self.rto = self.rto.saturating_mul(2).min(self.rto_max);
    }

    /// Resets the RTO to the value of the measurements, because the timeout was spurious.
    pub(crate) fn end_back_off(&mut self) {
        self.rto = nanos(self.fresh());
    }

    /// Retransmission timeout.
    pub(crate) fn rto(&self) -> Duration {
        Duration::from_nanos(self.rto)
    }

    /// Smoothed round-trip time; `None` before the first measurement.
    pub(crate) fn srtt(&self) -> Option<Duration> {
        (self.srtt > 0).then(|| Duration::from_nanos(self.srtt))
    }

    /// SRTT, or RTO before the first measurement; above zero.
    pub(crate) fn expected(&self) -> Duration {
        self.srtt().unwrap_or_else(|| self.rto().max(Duration::from_nanos(1)))
    }

    /// Its variation; zero before the first measurement.
    pub(crate) fn rttvar(&self) -> Duration {
        Duration::from_nanos(self.rttvar)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimator(min_millis: u64) -> RttEstimator {
        RttEstimator::new(&TimerConfig {
            rto_min: Duration::from_millis(min_millis),
            ..TimerConfig::default()
        })
    }

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn rules_c1_to_c3() {
        let mut rtt = estimator(1);
        assert_eq!((rtt.rto(), rtt.srtt(), rtt.rttvar()), (millis(1000), None, Duration::ZERO));
        rtt.on_measurement(millis(100));
        assert_eq!((rtt.srtt(), rtt.rttvar()), (Some(millis(100)), millis(50)));
        assert_eq!(rtt.rto(), millis(300));
        rtt.on_measurement(millis(180));
        // RTTVAR = 3/4 * 50 + 1/4 * 80, SRTT = 7/8 * 100 + 1/8 * 180.
        assert_eq!((rtt.srtt(), rtt.rttvar()), (Some(millis(110)), Duration::from_micros(57_500)));
        assert_eq!(rtt.rto(), millis(340));
        rtt.on_measurement(millis(30));
        // RTTVAR = 3/4 * 57.5 + 1/4 * 80, SRTT = 7/8 * 110 + 1/8 * 30.
        assert_eq!((rtt.srtt(), rtt.rttvar()), (Some(millis(100)), Duration::from_micros(63_125)));
    }

    #[test]
    fn bounds_of_the_rto() {
        let mut rtt = estimator(1000);
        rtt.on_measurement(millis(10));
        assert_eq!(rtt.rto(), millis(1000));
        rtt.on_measurement(Duration::from_secs(100));
        assert_eq!(rtt.rto(), Duration::from_secs(60));
        rtt.on_measurement(Duration::MAX);
        assert_eq!(rtt.rto(), Duration::from_secs(60));
    }

    #[test]
    fn a_floor_above_the_round_trip_time_leaves_room_for_a_delayed_acknowledgement() {
        let mut rtt = RttEstimator::new(&TimerConfig {
            rto_min: millis(300),
            rto_floor: RtoFloor::AboveSrtt,
            ..TimerConfig::default()
        });
        assert_eq!(rtt.fresh(), millis(1000), "RTO.Initial");
        for _ in 0..100 {
            rtt.on_measurement(millis(500));
        }
        assert_eq!(rtt.rto(), millis(800));
        rtt.back_off();
        assert_eq!((rtt.rto(), rtt.fresh()), (millis(1600), millis(800)));
        rtt.on_measurement(millis(100));
        assert!(rtt.rto() > millis(450 + 4 * 100), "the variation when it is larger");
    }

    #[test]
    fn what_was_measured_before_counts_until_the_first_measurement() {
        let mut rtt = estimator(1);
        rtt.expect(millis(100), millis(20));
        assert_eq!((rtt.rto(), rtt.srtt()), (millis(180), None));
        rtt.back_off();
        assert_eq!((rtt.rto(), rtt.fresh()), (millis(360), millis(180)));
        rtt.on_measurement(millis(400));
        assert_eq!((rtt.srtt(), rtt.rto()), (Some(millis(400)), millis(1200)));
        rtt.expect(millis(1), millis(1));
        assert_eq!(rtt.rto(), millis(1200));
        let mut rtt = estimator(1);
        rtt.expect(Duration::MAX, Duration::MAX);
        assert_eq!(rtt.rto(), millis(3000), "a neighbour's word counts for so much");
    }

    #[test]
    fn back_off_doubles_until_the_next_measurement() {
        let mut rtt = estimator(1000);
        rtt.on_measurement(millis(100));
        let rtos: Vec<_> = std::iter::repeat_with(|| {
            rtt.back_off();
            rtt.rto().as_secs()
        })
        .take(8)
        .collect();
        assert_eq!(rtos, [2, 4, 8, 16, 32, 60, 60, 60]);
        rtt.on_measurement(millis(100));
        assert_eq!(rtt.rto(), millis(1000));
    }

    #[test]
    fn a_constant_round_trip_keeps_a_variation_of_one_tick() {
        let mut rtt = estimator(1);
        for _ in 0..1000 {
            rtt.on_measurement(millis(40));
        }
        assert_eq!(rtt.rttvar(), Duration::from_nanos(GRANULARITY));
        assert_eq!(rtt.rto(), millis(40) + Duration::from_nanos(4 * GRANULARITY));
        for _ in 0..1000 {
            rtt.on_measurement(Duration::ZERO);
        }
        assert!(rtt.srtt().is_some_and(|srtt| srtt < Duration::from_nanos(10)));
        assert_eq!(rtt.rto(), millis(1));
    }
}
