//! The configuration of a link.

use std::time::Duration;

use crate::pattern::Patterns;
use crate::{Discipline, Loss, Probability};

/// The longest delay, jitter or extra delay: a day, far beyond any network.
pub const MAX_SPAN: Duration = Duration::from_secs(86_400);

/// The maximum rate in bit/s: a petabit, at which a packet takes less than a nanosecond.
pub const MAX_RATE: u64 = 1_000_000_000_000_000;

/// One direction of a path. The default is a perfect link: no rate limit, no delay, no loss.
///
/// Every field may be set directly or by the method of the same name, and all may be changed while
/// the link carries packets ([`Link::set_config`](crate::Link::set_config)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct LinkConfig {
    /// Bits per second, 1 to [`MAX_RATE`]; `None` sends immediately.
    pub rate: Option<u64>,
    /// Propagation delay of every packet; at most [`MAX_SPAN`].
    pub delay: Duration,
    /// Each packet gets an additional delay drawn uniformly from zero to this; at most [`MAX_SPAN`].
    pub jitter: Duration,
    /// With jitter, no packet overtakes another. Packets held back by the reordering model are still overtaken.
    pub keep_order: bool,
    /// Room for packets that wait for the transmitter.
    pub queue: QueueLimit,
    /// Which packets are dropped before the queue is full.
    pub discipline: Discipline,
    /// Largest packet in bytes, including overhead; at least 1. `None` is unlimited.
    pub mtu: Option<usize>,
    /// Lose packets above the MTU silently instead of reporting them.
    pub mtu_blackhole: bool,
    /// Bytes of lower-layer headers added to every packet for rate, queue and MTU.
    pub overhead: usize,
    /// Which packets the wire loses.
    pub loss: Loss,
    /// Probability that a packet arrives twice.
    pub duplicate: Probability,
    /// Probability that a packet is held back for `reorder_delay`, so that later ones overtake it.
    pub reorder: Probability,
    /// How long the packets chosen by `reorder` are held back; at most [`MAX_SPAN`].
    pub reorder_delay: Duration,
    /// Probability that a bit of a packet is flipped.
    pub corrupt: Probability,
    /// When the link is down: in order, without overlap.
    pub cuts: Vec<Cut>,
    /// Patterns, which determine the fate of packets in addition to the models above: a packet is lost if either loses
    /// it; a delay or rate of a pattern replaces the configured one.
    pub patterns: Patterns,
}

/// A period during which the link is down. Packets offered meanwhile, and packets in the link at its start, are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Cut {
    /// First nanosecond at which the link is down, on the driver's clock.
    pub at: u64,
    /// First nanosecond at which it is up again; `None` means never.
    #[cfg_attr(feature = "serde", serde(default))]
    pub until: Option<u64>,
}

/// Room of the queue before the transmitter. The packet being sent is not counted, so with a limit of 0 packets are
/// still sent, but none can wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum QueueLimit {
    /// No limit.
    Unlimited,
    /// At most this many packets.
    Packets(usize),
    /// At most this many bytes, overhead included.
    Bytes(usize),
}

impl Default for QueueLimit {
    /// 1000 packets, the usual length of an interface's queue.
    fn default() -> Self {
        Self::Packets(1000)
    }
}

/// Why a configuration was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A probability outside 0 to 1.
    #[error("a probability must be from 0 to 1")]
    Probability,
    /// A rate of zero, or above [`MAX_RATE`].
    #[error("the rate {0} bit/s is outside 1 to {MAX_RATE}; leave it out for no limit")]
    Rate(u64),
    /// A time above [`MAX_SPAN`]; the value is the name of the field.
    #[error("{0} is longer than a day")]
    Span(&'static str),
    /// The overhead fills the MTU, so no packet fits.
    #[error("an MTU of {mtu} bytes leaves no room with {overhead} bytes of overhead")]
    Mtu {
        /// The requested MTU.
        mtu: usize,
        /// The requested overhead.
        overhead: usize,
    },
    /// A cut that ends before it begins or begins before the previous one has ended; the value is
    /// its index in the list.
    #[error("cut {0} ends before it begins, or overlaps the cut before it")]
    Cut(usize),
    /// RED without a weight or with thresholds out of order, or CoDel without times.
    #[error("red needs min_threshold below max_threshold and a weight, codel times up to a day")]
    Discipline,
    /// A loss position of 0.
    #[error("positions of lost packets count from 1")]
    PositionZero,
    /// A loss pattern without entries.
    #[error("the loss pattern is empty")]
    EmptyPattern,
    /// A pattern's filter needs addresses, ports or contents of packets that do not provide them.
    #[error(
        "a filter of a pattern asks for contents of packets, but only their size is known here"
    )]
    Filter,
    /// Bursts of losses, or the intervals between them, with a length of zero.
    #[error("bursts of losses and the time between them are longer than zero")]
    EmptyBurst,
}

impl LinkConfig {
    /// A perfect link; the methods below add impairments.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the rate in bits per second.
    #[must_use]
    pub fn rate(mut self, bits_per_second: u64) -> Self {
        self.rate = Some(bits_per_second);
        self
    }

    /// Sets the propagation delay.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Sets the maximum additional random delay.
    #[must_use]
    pub fn jitter(mut self, jitter: Duration) -> Self {
        self.jitter = jitter;
        self
    }

    /// Sets whether jitter preserves the order of packets.
    #[must_use]
    pub fn keep_order(mut self, keep_order: bool) -> Self {
        self.keep_order = keep_order;
        self
    }

    /// Sets the room of the queue.
    #[must_use]
    pub fn queue(mut self, limit: QueueLimit) -> Self {
        self.queue = limit;
        self
    }

    /// Sets which packets are dropped before the queue is full.
    #[must_use]
    pub fn discipline(mut self, discipline: Discipline) -> Self {
        self.discipline = discipline;
        self
    }

    /// Sets the largest packet, overhead included.
    #[must_use]
    pub fn mtu(mut self, bytes: usize) -> Self {
        self.mtu = Some(bytes);
        self
    }

    /// Sets whether packets above the MTU are lost without being reported.
    #[must_use]
    pub fn mtu_blackhole(mut self, silent: bool) -> Self {
        self.mtu_blackhole = silent;
        self
    }

    /// Sets the bytes of lower-layer headers.
    #[must_use]
    pub fn overhead(mut self, bytes: usize) -> Self {
        self.overhead = bytes;
        self
    }

    /// Sets the loss model.
    #[must_use]
    pub fn loss(mut self, loss: Loss) -> Self {
        self.loss = loss;
        self
    }

    /// Sets the probability that a packet arrives twice.
    #[must_use]
    pub fn duplicate(mut self, p: Probability) -> Self {
        self.duplicate = p;
        self
    }

    /// Sets the probability that a packet is held back, and for how long.
    #[must_use]
    pub fn reorder(mut self, p: Probability, delay: Duration) -> Self {
        self.reorder = p;
        self.reorder_delay = delay;
        self
    }

    /// Sets the probability that a bit of a packet is flipped.
    #[must_use]
    pub fn corrupt(mut self, p: Probability) -> Self {
        self.corrupt = p;
        self
    }

    /// Sets the patterns.
    #[must_use]
    pub fn patterns(mut self, patterns: Patterns) -> Self {
        self.patterns = patterns;
        self
    }

    /// Adds a period during which the link is down: from `at` until `until`, in nanoseconds on the driver's clock.
    #[must_use]
    pub fn cut(mut self, at: u64, until: Option<u64>) -> Self {
        self.cuts.push(Cut { at, until });
        self
    }

    /// Checks that the fields are valid, separately and together.
    ///
    /// # Errors
    /// Returns the first [`ConfigError`] found.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if let Some(rate) = self.rate
            && !(1..=MAX_RATE).contains(&rate)
        {
            return Err(ConfigError::Rate(rate));
        }
        let spans =
            [("delay", self.delay), ("jitter", self.jitter), ("reorder_delay", self.reorder_delay)];
        if let Some((name, _)) = spans.iter().find(|(_, span)| *span > MAX_SPAN) {
            return Err(ConfigError::Span(name));
        }
        if let Some(mtu) = self.mtu
            && mtu <= self.overhead
        {
            let overhead = self.overhead;
            return Err(ConfigError::Mtu { mtu, overhead });
        }
        // The end of the previous cut; `None` if it never ends, so nothing may follow.
        let mut free_from = Some(0);
        for (index, cut) in self.cuts.iter().enumerate() {
            let in_order = free_from.is_some_and(|free| cut.at >= free);
            if !in_order || cut.until.is_some_and(|until| until <= cut.at) {
                return Err(ConfigError::Cut(index));
            }
            free_from = cut.until;
        }
        self.discipline.validate()?;
        self.loss.validate()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_valid() {
        assert_eq!(LinkConfig::new().validate(), Ok(()));
    }

    #[test]
    fn nonsense_is_refused() {
        let new = LinkConfig::new;
        let day_and_more = MAX_SPAN + Duration::from_nanos(1);
        let some = Probability::percent(1);
        let no_room = crate::Red { min_threshold: 15, ..crate::Red::default() };
        let no_time = crate::CoDel { target: Duration::ZERO, ..crate::CoDel::default() };
        let cases = [
            (new().rate(0), ConfigError::Rate(0)),
            (new().rate(MAX_RATE + 1), ConfigError::Rate(MAX_RATE + 1)),
            (new().delay(day_and_more), ConfigError::Span("delay")),
            (new().jitter(day_and_more), ConfigError::Span("jitter")),
            (new().reorder(some, day_and_more), ConfigError::Span("reorder_delay")),
            (new().mtu(0), ConfigError::Mtu { mtu: 0, overhead: 0 }),
            (new().mtu(28).overhead(28), ConfigError::Mtu { mtu: 28, overhead: 28 }),
            (new().cut(5, Some(5)), ConfigError::Cut(0)),
            (new().cut(5, Some(9)).cut(8, None), ConfigError::Cut(1)),
            (new().cut(5, None).cut(8, None), ConfigError::Cut(1)),
            (new().loss(Loss::positions([0])), ConfigError::PositionZero),
            (new().discipline(Discipline::Red(no_room)), ConfigError::Discipline),
            (new().discipline(Discipline::CoDel(no_time)), ConfigError::Discipline),
        ];
        for (config, error) in cases {
            assert_eq!(config.validate(), Err(error), "{config:?}");
        }
    }

    #[test]
    fn a_sweep_of_reordering_may_begin_at_zero() {
        for (share, delay) in [(0, MAX_SPAN), (0, Duration::ZERO), (3, Duration::ZERO)] {
            let config = LinkConfig::new().reorder(Probability::percent(share), delay);
            assert_eq!(config.validate(), Ok(()));
        }
    }

    #[test]
    fn adjacent_cuts_and_limits_are_accepted() {
        let config = LinkConfig::new()
            .rate(MAX_RATE)
            .delay(MAX_SPAN)
            .mtu(29)
            .overhead(28)
            .cut(0, Some(9))
            .cut(9, Some(10))
            .cut(20, None);
        assert_eq!(config.validate(), Ok(()));
    }

    #[cfg(feature = "serde")]
    #[test]
    fn configurations_survive_serde() {
        let config = LinkConfig::new()
            .rate(5)
            .queue(QueueLimit::Bytes(7))
            .loss(Loss::bursts(7, 3))
            .discipline(Discipline::Red(crate::Red::default()))
            .reorder(Probability::per_million(3), Duration::from_millis(1))
            .cut(1, None);
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<LinkConfig>(&text).unwrap(), config);
        // Missing fields have their defaults; unknown fields and invalid values are rejected.
        let short = serde_json::from_str::<LinkConfig>(r#"{"loss":{"uniform":0.01}}"#).unwrap();
        let loss = Loss::Uniform(Probability::percent(1));
        assert_eq!(short, LinkConfig::new().loss(loss));
        assert!(serde_json::from_str::<LinkConfig>(r#"{"rates":1}"#).is_err());
        assert!(serde_json::from_str::<LinkConfig>(r#"{"corrupt":1.5}"#).is_err());
    }
}
