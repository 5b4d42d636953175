//! Time series of any value that can be read from a network.

use std::time::Duration;

use anabranch_proto::Instant;

use crate::network::Network;

/// Identifies a time series of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeriesId(pub(crate) u32);

/// Reads the value: a number, or `None` if there is no value at that time.
pub(crate) type Gauge = Box<dyn FnMut(&mut Network) -> Option<f64>>;

/// A series being recorded.
pub(crate) struct Series {
    /// `None` while it is being read.
    pub(crate) gauge: Option<Gauge>,
    pub(crate) every: Duration,
    pub(crate) points: Vec<(Instant, f64)>,
    /// Its entry in the calendar.
    pub(crate) source: usize,
}
