//! What happened to datagrams.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::Serialize;

/// Counters of one side, over all associations.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) flows: AtomicU64,
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
    pub(crate) dropped: AtomicU64,
}

pub(crate) type Shared = Arc<Counters>;

/// Counts of datagrams since the start of one side of the gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct UdpStatistics {
    /// Flows that are open now.
    pub flows: u64,
    /// Datagrams towards targets.
    pub sent: u64,
    /// Datagrams from targets.
    pub received: u64,
    /// Datagrams in either direction that were dropped on this side: too late, not allowed, malformed, or because a
    /// limit was reached. What the association gives up on the way is not counted here.
    pub dropped: u64,
}

/// Adds one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

impl Counters {
    pub(crate) fn statistics(&self) -> UdpStatistics {
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        let Self { flows, sent, received, dropped } = self;
        UdpStatistics {
            flows: read(flows),
            sent: read(sent),
            received: read(received),
            dropped: read(dropped),
        }
    }

    /// Counts a flow until the value is dropped.
    pub(crate) fn flow(self: &Arc<Self>) -> OpenFlow {
        count(&self.flows);
        OpenFlow(Arc::clone(self))
    }
}

/// A flow that is counted.
#[derive(Debug)]
pub(crate) struct OpenFlow(Shared);

impl Drop for OpenFlow {
    fn drop(&mut self) {
        self.0.flows.fetch_sub(1, Relaxed);
    }
}
