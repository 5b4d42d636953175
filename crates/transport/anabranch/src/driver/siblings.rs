//! The other shards of an endpoint.

use std::net::IpAddr;
use std::sync::Arc;

use anabranch_proto::Received;
use bytes::Bytes;

use crate::runtime::{Division, NetworkError};
use crate::shards::{runs, shard_of_sent};
use crate::shared::{Handed, Shared};

/// All shards of an endpoint, as seen by one of them.
#[derive(Clone, Debug)]
pub(crate) struct Siblings {
    all: Arc<[Arc<Shared>]>,
    own: usize,
    /// Whether packets for other shards may arrive here.
    mixed: bool,
}

impl Siblings {
    pub(crate) fn new(all: Arc<[Arc<Shared>]>, own: usize, division: Division) -> Self {
        let mixed = all.len() > 1 && division == Division::Ports;
        Self { all, own, mixed }
    }

    /// The number of shards, including this one.
    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// Keeps the packets for this shard in `arrived`, and passes each of the others to its shard,
    /// wrapped by `handed`.
    pub(crate) fn sort(
        &self,
        received: Received,
        bytes: Bytes,
        handed: fn(Received, Bytes) -> Handed,
        arrived: &mut Vec<(Received, Bytes)>,
    ) {
        if !self.mixed {
            arrived.push((received, bytes));
            return;
        }
        for (shard, part) in runs(&bytes, received.segment_size, self.all.len()) {
            if shard == self.own {
                arrived.push((received, part));
            } else {
                self.hand(shard, handed(received, part));
            }
        }
    }

    /// Passes a report on if it is for another shard; otherwise returns it.
    pub(crate) fn sort_report(&self, local: IpAddr, error: NetworkError) -> Option<NetworkError> {
        let shard = shard_of_sent(&error.quoted, self.all.len()).unwrap_or(self.own);
        if shard == self.own || !self.mixed {
            return Some(error);
        }
        self.hand(shard, Handed::Report(local, error));
        None
    }

    fn hand(&self, shard: usize, what: Handed) {
        let Some(shared) = self.all.get(shard) else {
            return;
        };
        let mut guard = shared.lock();
        // If the shard's task has ended, its associations have, too.
        if !guard.driver_gone && guard.handed.push(what) {
            guard.wake_driver();
        }
    }
}
