//! Cross-traffic: packets that belong to no association and only load the links.

use std::time::Duration;

use anabranch_impair::Rng;
use anabranch_proto::Instant;

use crate::error::SimError;
use crate::network::NodeId;
use crate::packet::AddressId;

/// Identifies a generator of cross-traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrafficId(pub(crate) u32);

/// A generator of cross-traffic; see [`Network::add_traffic`](crate::Network::add_traffic).
#[derive(Clone, Debug, PartialEq)]
pub struct CrossTraffic {
    /// The sending host; packets leave from its first address.
    pub from: NodeId,
    /// The receiving host; packets go to its first reachable address.
    pub to: NodeId,
    /// When packets are sent.
    pub pattern: TrafficPattern,
    /// Sizes of IP packets in bytes, each with its weight; a size is drawn for every packet.
    pub sizes: Vec<(u32, u32)>,
    /// When it starts.
    pub start: Instant,
    /// When it stops; `None` means never.
    pub stop: Option<Instant>,
}

/// When a generator sends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TrafficPattern {
    /// Packets at a constant rate.
    Constant {
        /// Bits per second.
        rate_bps: u64,
    },
    /// Packets at a constant rate in ON periods, and none in OFF periods. Both have
    /// Pareto-distributed lengths: the sum of many such sources is self-similar (caro 2.2.1).
    /// Starts with an OFF period.
    ParetoOnOff {
        /// Bits per second in ON periods.
        rate_bps: u64,
        /// Mean length of ON periods.
        mean_on: Duration,
        /// Mean length of OFF periods.
        mean_off: Duration,
        /// Shape, above 1; below 2 the lengths have infinite variance.
        shape: f64,
    },
}

impl CrossTraffic {
    /// Half of the packets have 44 bytes, and a quarter each 576 and 1500 bytes (caro 2.2.1).
    pub const CARO_MIX: [(u32, u32); 3] = [(44, 50), (576, 25), (1500, 25)];

    /// Packets of `size` bytes at a constant rate, forever.
    pub fn constant(from: NodeId, to: NodeId, rate_bps: u64, size: u32) -> Self {
        Self {
            from,
            to,
            pattern: TrafficPattern::Constant { rate_bps },
            sizes: vec![(size, 1)],
            start: Instant::ZERO,
            stop: None,
        }
    }

    /// The ON/OFF source of caro 2.2.1 with its packet mix, forever. The text does not give the
    /// shape and the mean periods; 1.5 and half a second each are the usual choice. `rate_bps` is
    /// the rate in ON periods, twice the mean.
    pub fn pareto(from: NodeId, to: NodeId, rate_bps: u64) -> Self {
        Self {
            pattern: TrafficPattern::ParetoOnOff {
                rate_bps,
                mean_on: Duration::from_millis(500),
                mean_off: Duration::from_millis(500),
                shape: 1.5,
            },
            sizes: Self::CARO_MIX.to_vec(),
            ..Self::constant(from, to, rate_bps, 1500)
        }
    }

    pub(crate) fn validate(&self) -> Result<(), SimError> {
        validate(&self.pattern, &self.sizes)
    }
}

/// Checks a pattern and sizes of packets with their weights.
pub(crate) fn validate(pattern: &TrafficPattern, sizes: &[(u32, u32)]) -> Result<(), SimError> {
    let (TrafficPattern::Constant { rate_bps } | TrafficPattern::ParetoOnOff { rate_bps, .. }) =
        pattern;
    check(
        (1..=anabranch_impair::MAX_RATE).contains(rate_bps),
        "traffic rate_bps",
        "must lie between 1 and 10^15",
    )?;
    if let TrafficPattern::ParetoOnOff { mean_on, mean_off, shape, .. } = pattern {
        let day = anabranch_impair::MAX_SPAN;
        check(*shape > 1.0 && *shape <= 100.0, "traffic shape", "must lie between 1 and 100")?;
        check(!mean_on.is_zero() && *mean_on <= day, "traffic mean_on", "must be 1 ns to a day")?;
        check(*mean_off <= day, "traffic mean_off", "must be at most a day")?;
    }
    check(
        sizes.iter().all(|(size, _)| (20..=65_535).contains(size)),
        "traffic sizes",
        "must lie between 20 and 65535 bytes",
    )?;
    check(sizes.iter().any(|(_, weight)| *weight > 0), "traffic sizes", "need a weight above 0")
}

pub(crate) fn check(ok: bool, option: &'static str, reason: &'static str) -> Result<(), SimError> {
    if ok { Ok(()) } else { Err(SimError::Option { option, reason: reason.into() }) }
}

/// When a source sends, and the sizes of its packets.
#[derive(Debug)]
pub(crate) struct Emission {
    pattern: TrafficPattern,
    sizes: Vec<(u32, u32)>,
    stop: Option<Instant>,
    rng: Rng,
    /// End of the ON period.
    on_until: u64,
    started: bool,
}

/// A running generator.
#[derive(Debug)]
pub(crate) struct Generator {
    pub(crate) emission: Emission,
    pub(crate) source_address: AddressId,
    pub(crate) destination: AddressId,
    /// The channel through which packets leave.
    pub(crate) channel: usize,
    /// Its entry in the calendar.
    pub(crate) source: usize,
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

impl Generator {
    pub(crate) fn new(
        emission: Emission,
        (source_address, destination): (AddressId, AddressId),
        channel: usize,
        source: usize,
    ) -> Self {
        Self { emission, source_address, destination, channel, source, sent: 0, received: 0 }
    }
}

impl Emission {
    pub(crate) fn new(
        pattern: TrafficPattern,
        sizes: Vec<(u32, u32)>,
        stop: Option<Instant>,
        rng: Rng,
    ) -> Self {
        Self { pattern, sizes, stop, rng, on_until: 0, started: false }
    }

    /// Handles a due event. Returns the size of the packet to send now, if any, and the next due
    /// time.
    pub(crate) fn fire(&mut self, now: Instant) -> (Option<u32>, Option<Instant>) {
        let nanos = now.as_nanos();
        if self.stop.is_some_and(|stop| now >= stop) {
            return (None, None);
        }
        match self.pattern {
            TrafficPattern::Constant { rate_bps } => {
                let size = self.draw_size();
                (Some(size), at(nanos.saturating_add(interval(size, rate_bps))))
            }
            TrafficPattern::ParetoOnOff { rate_bps, mean_on, mean_off, shape } => {
                if !std::mem::replace(&mut self.started, true) {
                    let first_on = nanos.saturating_add(self.pareto(mean_off, shape));
                    self.on_until = first_on.saturating_add(self.pareto(mean_on, shape));
                    return (None, at(first_on));
                }
                let size = self.draw_size();
                let mut next = nanos.saturating_add(interval(size, rate_bps));
                if next >= self.on_until {
                    // An ON period begins with a packet.
                    next = next.max(self.on_until.saturating_add(self.pareto(mean_off, shape)));
                    self.on_until = next.saturating_add(self.pareto(mean_on, shape));
                }
                (Some(size), at(next))
            }
        }
    }

    fn draw_size(&mut self) -> u32 {
        if let [(size, _)] = self.sizes[..] {
            return size;
        }
        let total = self.sizes.iter().map(|(_, weight)| u64::from(*weight)).sum();
        let mut draw = self.rng.below(total);
        for (size, weight) in &self.sizes {
            match draw.checked_sub(u64::from(*weight)) {
                Some(rest) => draw = rest,
                None => return *size,
            }
        }
        0
    }

    /// A Pareto-distributed time with this mean, in nanoseconds.
    fn pareto(&mut self, mean: Duration, shape: f64) -> u64 {
        // Above 0 and at most 1; both conversions are exact.
        let uniform = ((self.rng.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        let least = mean.as_nanos() as f64 * (shape - 1.0) / shape;
        (least / libm::pow(uniform, 1.0 / shape)) as u64
    }
}

/// Nanoseconds from one packet to the next.
fn interval(size: u32, rate_bps: u64) -> u64 {
    let nanos = u128::from(size) * 8_000_000_000 / u128::from(rate_bps);
    u64::try_from(nanos).unwrap_or(u64::MAX).max(1)
}

fn at(nanos: u64) -> Option<Instant> {
    (nanos != u64::MAX).then_some(Instant::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generator(spec: CrossTraffic, seed: u64) -> Emission {
        spec.validate().unwrap();
        Emission::new(spec.pattern, spec.sizes, spec.stop, Rng::new(seed))
    }

    /// Times and sizes of the packets sent before `end` seconds.
    fn packets(spec: CrossTraffic, seed: u64, end: u64) -> Vec<(u64, u32)> {
        let mut generator = generator(spec, seed);
        let mut now = Some(Instant::ZERO);
        let mut sent = Vec::new();
        while let Some(at) = now.filter(|at| *at < Instant::from_secs(end)) {
            let (size, next) = generator.fire(at);
            sent.extend(size.map(|size| (at.as_nanos(), size)));
            assert!(next.is_none_or(|next| next > at));
            now = next;
        }
        sent
    }

    #[test]
    fn a_constant_rate_is_kept() {
        let spec = CrossTraffic::constant(NodeId(0), NodeId(1), 1_000_000, 125);
        let sent = packets(spec.clone(), 1, 2);
        assert_eq!(sent.len(), 2000);
        assert!(sent.iter().enumerate().all(|(n, packet)| *packet == (n as u64 * 1_000_000, 125)));
        let stopped = CrossTraffic { stop: Some(Instant::from_secs(1)), ..spec };
        assert_eq!(packets(stopped, 1, 2).len(), 1000);
    }

    #[test]
    fn the_packet_mix_has_its_shares() {
        let spec = CrossTraffic {
            sizes: CrossTraffic::CARO_MIX.to_vec(),
            ..CrossTraffic::constant(NodeId(0), NodeId(1), 10_000_000, 44)
        };
        let sent = packets(spec, 2, 20);
        let share =
            |size| sent.iter().filter(|packet| packet.1 == size).count() as f64 / sent.len() as f64;
        for (size, expected) in [(44, 0.5), (576, 0.25), (1500, 0.25)] {
            assert!((share(size) - expected).abs() < 0.02, "{size}: {}", share(size));
        }
    }

    #[test]
    fn on_and_off_periods_have_their_means() {
        // With a shape of 3 the variance is finite, so a mean can be tested.
        let spec = CrossTraffic {
            pattern: TrafficPattern::ParetoOnOff {
                rate_bps: 1_000_000,
                mean_on: Duration::from_millis(300),
                mean_off: Duration::from_millis(700),
                shape: 3.0,
            },
            ..CrossTraffic::constant(NodeId(0), NodeId(1), 1, 125)
        };
        let sent = packets(spec, 3, 2000);
        // 30 % of one packet per millisecond.
        let rate = sent.len() as f64 / 2_000_000.0;
        assert!((rate - 0.3).abs() < 0.01, "{rate}");
        let gaps: Vec<u64> =
            sent.windows(2).map(|w| w[1].0 - w[0].0).filter(|gap| *gap > 1_000_000).collect();
        let shortest = gaps.iter().min().unwrap();
        // The shortest OFF period is two thirds of the mean.
        assert!(*shortest >= 466_000_000, "{shortest}");
        let mean = gaps.iter().sum::<u64>() as f64 / gaps.len() as f64 / 1e6;
        assert!((mean - 700.0).abs() < 35.0, "{mean}");
    }

    #[test]
    fn nonsense_is_refused() {
        let good = CrossTraffic::pareto(NodeId(0), NodeId(1), 100_000);
        good.validate().unwrap();
        let option = |spec: CrossTraffic| match spec.validate() {
            Err(SimError::Option { option, .. }) => option,
            other => panic!("{other:?}"),
        };
        let rate = CrossTraffic::constant(NodeId(0), NodeId(1), 0, 100);
        assert_eq!(option(rate), "traffic rate_bps");
        assert_eq!(option(CrossTraffic { sizes: vec![], ..good.clone() }), "traffic sizes");
        assert_eq!(option(CrossTraffic { sizes: vec![(10, 1)], ..good.clone() }), "traffic sizes");
        let shape = TrafficPattern::ParetoOnOff {
            rate_bps: 1,
            mean_on: Duration::from_secs(1),
            mean_off: Duration::ZERO,
            shape: f64::NAN,
        };
        assert_eq!(option(CrossTraffic { pattern: shape, ..good }), "traffic shape");
    }
}
