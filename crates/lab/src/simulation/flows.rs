//! The share of each of several transfers, and its fairness.

use std::time::Duration;

use super::build::Built;
use crate::metrics::Metrics;
use crate::observed::{self, Observed};

/// The bytes of all transfers when measuring begins.
pub(super) struct Flows {
    begun: Duration,
    bytes: Vec<u64>,
}

impl Flows {
    /// Measuring begins now.
    pub(super) fn open(built: &Built) -> Self {
        Self { begun: now(built), bytes: built.observed().iter().map(|seen| seen.bytes).collect() }
    }

    /// The measurements until now.
    pub(super) fn close(&self, built: &Built, metrics: &mut Metrics) {
        let all: Vec<Observed> = built.observed();
        observed::compare(&all, (self.begun, &self.bytes), now(built), metrics);
    }
}

/// Time since the beginning of the run.
pub(super) fn now(built: &Built) -> Duration {
    Duration::from_nanos(built.net.now().as_nanos())
}
