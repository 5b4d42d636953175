//! Queue disciplines, which drop packets before the queue is full.

use std::time::Duration;

use crate::{ConfigError, MAX_SPAN, Probability, Rng};

pub(crate) mod codel;
mod red;

pub(crate) use self::codel::CoDelState;
pub(crate) use self::red::{RedState, Treatment};

/// The queue discipline; the queue's limit applies to all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Discipline {
    /// No discipline: packets are dropped only if the queue is full.
    #[default]
    DropTail,
    /// Random early detection.
    Red(Red),
    /// Controlled delay.
    CoDel(CoDel),
}

/// Random early detection (Floyd and Jacobson 1993): packets are dropped, or marked, on arrival with a
/// probability that grows with the average queue length.
///
/// Thresholds count packets, or bytes if the queue limit is in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct Red {
    /// Average length up to which nothing is dropped. Default: 5.
    pub min_threshold: u32,
    /// Average length from which everything is dropped; must exceed `min_threshold`. With `gentle`,
    /// the probability instead grows up to twice this length. Default: 15.
    pub max_threshold: u32,
    /// Probability of a drop at `max_threshold`. Default: 10 %.
    pub max_probability: Probability,
    /// Weight of the newest length in the average, above 0. Default: 0.2 %.
    pub weight: Probability,
    /// Whether the probability grows from `max_probability` to 1 between one and two times
    /// `max_threshold` instead of jumping. Default: true.
    pub gentle: bool,
    /// Whether ECN-capable packets are marked instead of dropped, as long as the average is below
    /// `max_threshold` (RFC 3168 section 7). Default: false.
    pub ecn: bool,
}

impl Default for Red {
    fn default() -> Self {
        Self {
            min_threshold: 5,
            max_threshold: 15,
            max_probability: Probability::percent(10),
            weight: Probability::per_million(2000),
            gentle: true,
            ecn: false,
        }
    }
}

/// Controlled delay (RFC 8289): while all packets have waited too long, packets are dropped when
/// they leave the queue, more and more often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct CoDel {
    /// Acceptable wait, above 0. Default: 5 ms.
    pub target: Duration,
    /// How long waits may exceed the target, above 0: about the longest expected round-trip time.
    /// Default: 100 ms.
    pub interval: Duration,
    /// Whether ECN-capable packets are marked instead of dropped. Default: false.
    pub ecn: bool,
}

impl Default for CoDel {
    fn default() -> Self {
        Self { target: Duration::from_millis(5), interval: Duration::from_millis(100), ecn: false }
    }
}

impl Discipline {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        let span = |span: Duration| !span.is_zero() && span <= MAX_SPAN;
        let ok = match self {
            Self::DropTail => true,
            Self::Red(red) => {
                red.min_threshold < red.max_threshold && red.weight > Probability::ZERO
            }
            Self::CoDel(codel) => span(codel.target) && span(codel.interval),
        };
        if ok { Ok(()) } else { Err(ConfigError::Discipline) }
    }
}

/// The mutable state of a discipline.
#[derive(Debug)]
pub(crate) enum Manager {
    DropTail,
    Red(RedState),
    CoDel(CoDelState),
}

impl Manager {
    pub(crate) fn new(discipline: Discipline, rng: Rng) -> Self {
        match discipline {
            Discipline::DropTail => Self::DropTail,
            Discipline::Red(red) => Self::Red(RedState::new(red, rng)),
            Discipline::CoDel(codel) => Self::CoDel(CoDelState::new(codel)),
        }
    }
}
