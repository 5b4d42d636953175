//! A deterministic network simulator around the protocol engine.
//!
//! The engine under test is [`anabranch_proto::Endpoint`], driven with the same functions and the
//! same bytes as on a network: the simulated code is the code that ships. Everything around it is a
//! discrete-event simulation in virtual nanoseconds on one thread: hosts with several interfaces,
//! routers, links (the models of [`anabranch_impair`]), cross-traffic, failures and repairs.
//!
//! The same network with the same seed sends the same packets at the same times on every machine;
//! [`Network::trace_hash`] verifies this.
//!
//! ```
//! use std::time::Duration;
//! use anabranch_sim::{Instant, LinkConfig, Loss, Network, Outcome, Probability, Transfer};
//!
//! // A and B are joined by two paths; the first loses 1 % of the packets in each direction.
//! let mut net = Network::new(42);
//! let (a, b) = (net.add_host("A"), net.add_host("B"));
//! let path = LinkConfig::new().rate(10_000_000).delay(Duration::from_millis(45));
//! let lossy = path.clone().loss(Loss::Uniform(Probability::percent(1)));
//! net.connect(a, b, lossy.clone(), lossy)?;
//! net.connect(a, b, path.clone(), path)?;
//! net.routes_by_hops();
//!
//! let (sender, receiver) = (net.add_endpoint(a)?, net.add_endpoint(b)?);
//! let transfer = net.add_transfer(Transfer::bulk(sender, receiver, 1_000_000))?;
//! net.run(Instant::from_secs(600));
//!
//! let result = net.transfer(transfer);
//! assert_eq!((result.outcome.clone(), result.bytes), (Outcome::Complete, 1_000_000));
//! assert!(result.completed_at < Some(Instant::from_secs(30)));
//! # Ok::<(), anabranch_sim::SimError>(())
//! ```
//!
//! The order of calls: add nodes, connect them, create routes, then add endpoints, transfers and
//! cross-traffic, schedule failures, and run.
#![forbid(unsafe_code)]

mod action;
mod addresses;
mod application;
mod calendar;
mod channel;
mod endpoint;
mod error;
mod feed;
mod flow;
mod measure;
mod network;
mod packet;
mod route_cache;
mod routing;
mod run;
mod series;
mod spread;
mod tap;
mod trace;
mod traffic;
mod transfer;
mod web;

pub use action::Action;
pub use anabranch_impair::{
    BurstsInTime, CoDel, ConfigError, Cut, Discipline, GilbertElliott, LinkConfig, LinkStats, Loss,
    Pattern, Probability, QueueIntegral, QueueLimit, Red,
};
pub use anabranch_proto::{AddressChange, Instant};
pub use anabranch_tcp::{
    Config as TcpConfig, Congestion as TcpCongestion, ForwardRto, LossDetection, MetricCache,
    Profile as TcpProfile, Reordering, SlowStartLimit, Stats as TcpStats, Undo,
};
pub use application::{Application, ApplicationId, Context};
pub use channel::{Direction, LinkId, TrafficCounters};
pub use endpoint::EndpointId;
pub use error::SimError;
pub use feed::{Feed, FeedId};
pub use flow::{TcpFlow, TcpFlowId, TcpFlowResult, TcpMessages};
pub use measure::Histogram;
pub use network::{Network, NodeId, Undeliverable};
pub use packet::Traffic;
pub use route_cache::{RouteCache, RouteCacheCounters};
pub use series::SeriesId;
pub use spread::Spread;
pub use tap::{Capture, Fate, Point, Sight, Tap};
pub use traffic::{CrossTraffic, TrafficId, TrafficPattern};
pub use transfer::{
    Large, Outcome, PathFailure, Then, Transfer, TransferId, TransferResult, Workload,
};
pub use web::{LogNormal, WebId, WebResult, WebTraffic};

#[cfg(test)]
mod tests;
