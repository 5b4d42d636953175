//! An endpoint and all its associations at one moment.

use std::net::IpAddr;

use anabranch_proto::{PathMetrics, Statistics};

use super::Endpoint;
use crate::shared::State;
use crate::statistics::EndpointStatistics;

/// An endpoint at one moment, from [`Endpoint::snapshot`]. Serialisable with the feature `serde`.
///
/// ```
/// # fn example(endpoint: anabranch::Endpoint) {
/// for association in endpoint.snapshot().associations {
///     let statistics = association.statistics;
///     println!("{}: {}, {} paths", association.id, statistics.state, statistics.paths.len());
/// }
/// # }
/// ```
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct EndpointSnapshot {
    /// The UDP port of all local addresses; 0 for IP protocol 132.
    pub udp_port: u16,
    /// The local addresses.
    pub local_addresses: Vec<IpAddr>,
    /// Totals.
    pub statistics: EndpointStatistics,
    /// Metrics of pairs of addresses, stored for later associations
    /// ([`metric_cache`](crate::config::PathConfig::metric_cache)).
    pub metrics: Vec<PathMetrics>,
    /// The associations that have not ended, by shard, and within a shard in the order in which
    /// they were set up.
    pub associations: Vec<AssociationSnapshot>,
}

/// An association at one moment.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct AssociationSnapshot {
    /// Identifies the association for the lifetime of the endpoint.
    pub id: String,
    /// The peer initiated the association.
    pub incoming: bool,
    /// SCTP port of this side.
    pub local_port: u16,
    /// SCTP port of the peer.
    pub remote_port: u16,
    /// Streams this side can send on.
    pub outbound_streams: u16,
    /// Streams the peer can send on.
    pub inbound_streams: u16,
    /// Counters and paths.
    pub statistics: Statistics,
}

impl Endpoint {
    /// A snapshot of the endpoint and its associations. With many associations this takes time,
    /// during which the endpoint is blocked.
    pub fn snapshot(&self) -> EndpointSnapshot {
        let shards = self.shards();
        let mut statistics = EndpointStatistics::default();
        let mut associations = Vec::new();
        let mut metrics = Vec::new();
        for (index, shared) in shards.iter().enumerate() {
            let guard = shared.lock();
            statistics.add(&guard.totals());
            metrics.extend(guard.engine.metrics(shared.runtime.now()));
            let shard = (shards.len() > 1).then_some(index);
            associations.extend(snapshots(&guard, shard));
        }
        EndpointSnapshot {
            udp_port: self.udp_port(),
            local_addresses: self.local_addresses(),
            statistics,
            metrics,
            associations,
        }
    }

    /// Waits until the endpoint and its sockets are closed. Cancel-safe.
    pub async fn closed(&self) {
        self.wait(|state| state.driver_gone).await;
    }
}

/// Snapshots of the associations of a shard; `shard` is its number if there are several.
fn snapshots(state: &State, shard: Option<usize>) -> Vec<AssociationSnapshot> {
    let mut ids: Vec<_> = state.associations.keys().copied().collect();
    ids.sort_unstable();
    ids.into_iter()
        .filter_map(|id| {
            let (engine, state) = (state.engine.association(id)?, state.associations.get(&id)?);
            let (outbound_streams, inbound_streams) = state.streams.counts();
            Some(AssociationSnapshot {
                id: shard.map_or_else(|| id.to_string(), |shard| format!("{shard}/{id}")),
                incoming: state.streams.is_incoming(),
                local_port: engine.local_port(),
                remote_port: engine.remote_port(),
                outbound_streams,
                inbound_streams,
                statistics: engine.statistics(),
            })
        })
        .collect()
}
