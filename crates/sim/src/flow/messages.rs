//! Messages over a TCP connection: a stream has no boundaries, but the workload records where they
//! are.

use std::sync::Arc;
use std::time::Duration;

use anabranch_proto::Instant;

use crate::measure::Histogram;

/// Messages of one size that are written in sequence, from the establishment on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpMessages {
    /// Bytes of each, at least 1.
    pub size: u64,
    /// When each is written, in order; at least one.
    pub times: Arc<[Duration]>,
}

impl TcpMessages {
    /// `count` messages at a fixed interval.
    pub fn periodic(size: u64, interval: Duration, count: u32) -> Self {
        Self { size, times: (0..count).map(|number| interval * number).collect() }
    }

    /// Bytes in all.
    pub fn bytes(&self) -> u64 {
        self.size.saturating_mul(self.times.len() as u64)
    }

    pub(super) fn is_valid(&self) -> bool {
        self.size >= 1 && !self.times.is_empty() && self.times.is_sorted()
    }
}

/// The progress of the messages.
#[derive(Debug)]
pub(super) struct Messages {
    spec: TcpMessages,
    /// How many were passed to the connection, and how many have arrived completely.
    given: usize,
    arrived: usize,
    pub(super) delays: Histogram,
}

impl Messages {
    pub(super) fn new(spec: TcpMessages) -> Self {
        Self { spec, given: 0, arrived: 0, delays: Histogram::default() }
    }

    /// Bytes that are due by now and were not passed yet.
    pub(super) fn due(&mut self, connected: Instant, now: Instant) -> u64 {
        let before = self.given;
        while self.spec.times.get(self.given).is_some_and(|at| connected + *at <= now) {
            self.given += 1;
        }
        (self.given - before) as u64 * self.spec.size
    }

    /// When the next one is due.
    pub(super) fn next(&self, connected: Instant) -> Option<Instant> {
        Some(connected + *self.spec.times.get(self.given)?)
    }

    /// Whether all were passed.
    pub(super) fn are_given(&self) -> bool {
        self.given == self.spec.times.len()
    }

    /// `bytes` bytes have arrived in order so far.
    pub(super) fn delivered(&mut self, bytes: u64, connected: Instant, now: Instant) {
        while let Some(at) = self.spec.times.get(self.arrived)
            && bytes >= (self.arrived as u64 + 1) * self.spec.size
        {
            self.delays.record(now.saturating_since(connected + *at));
            self.arrived += 1;
        }
    }
}
