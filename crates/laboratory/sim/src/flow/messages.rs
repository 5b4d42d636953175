//! Messages over a TCP connection: a stream has no boundaries, so the workload records them.

use std::sync::Arc;
use std::time::Duration;

use anabranch_proto::Instant;

use crate::measure::Histogram;

/// Messages of one size that are written in sequence, starting when the connection is established.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpMessages {
    /// Bytes of each message, at least 1.
    pub size: u64,
    /// When each message is written, in order; at least one.
    pub times: Arc<[Duration]>,
}

impl TcpMessages {
    /// `count` messages at a fixed interval.
    pub fn periodic(size: u64, interval: Duration, count: u32) -> Self {
        Self { size, times: (0..count).map(|number| interval * number).collect() }
    }

    /// Total number of bytes.
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
    /// Messages passed to the connection, and messages that have arrived completely.
    given: usize,
    arrived: usize,
    pub(super) delays: Histogram,
}

impl Messages {
    pub(super) fn new(spec: TcpMessages) -> Self {
        Self { spec, given: 0, arrived: 0, delays: Histogram::default() }
    }

    /// Bytes that are due now and have not been passed yet.
    pub(super) fn due(&mut self, connected: Instant, now: Instant) -> u64 {
        let before = self.given;
        while self.spec.times.get(self.given).is_some_and(|at| connected + *at <= now) {
            self.given += 1;
        }
        (self.given - before) as u64 * self.spec.size
    }

    /// When the next message is due.
    pub(super) fn next(&self, connected: Instant) -> Option<Instant> {
        Some(connected + *self.spec.times.get(self.given)?)
    }

    /// Whether all messages were passed.
    pub(super) fn are_given(&self) -> bool {
        self.given == self.spec.times.len()
    }

    /// A total of `bytes` bytes have arrived in order.
    pub(super) fn delivered(&mut self, bytes: u64, connected: Instant, now: Instant) {
        while let Some(at) = self.spec.times.get(self.arrived)
            && bytes >= (self.arrived as u64 + 1) * self.spec.size
        {
            self.delays.record(now.saturating_since(connected + *at));
            self.arrived += 1;
        }
    }
}
