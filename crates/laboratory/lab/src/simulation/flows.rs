//! The share of each of several transfers, and its fairness.

use std::time::Duration;

use super::build::Built;
use crate::metrics::Metrics;
use crate::observed::{self, Observed};

/// The bytes of all transfers at the start of the measurement.
pub(super) struct Flows {
    begun: Duration,
    bytes: Vec<u64>,
}

impl Flows {
    /// Starts the measurement.
    pub(super) fn open(built: &Built) -> Self {
        Self { begun: now(built), bytes: built.observed().iter().map(|seen| seen.bytes).collect() }
    }

    /// Sets the metrics for the time since `open`.
    pub(super) fn close(&self, built: &Built, metrics: &mut Metrics) {
        let all: Vec<Observed> = built.observed();
        observed::compare(&all, (self.begun, &self.bytes), now(built), metrics);
    }
}

/// Time since the start of the run.
pub(super) fn now(built: &Built) -> Duration {
    Duration::from_nanos(built.net.now().as_nanos())
}
