//! A network: its parts, and the values that can be read from it.

mod build;

use std::any::Any;
use std::collections::BTreeMap;
use std::net::IpAddr;

use anabranch_impair::{LinkStats, QueueIntegral, Rng};
use anabranch_proto::{Association, AssociationId, Endpoint, Instant};
use anabranch_tcp::Cache;
use bytes::BytesMut;

use crate::action::Action;
use crate::application::{Application, ApplicationId, Running};
use crate::calendar::Calendar;
use crate::channel::{Channel, Direction, LinkId, TrafficCounters};
use crate::endpoint::{EndpointId, EndpointState};
use crate::feed::{FeedId, Feeder};
use crate::flow::Flow;
use crate::packet::{AddressId, Packet, Packets, Traffic};
use crate::route_cache::RouteCacheCounters;
use crate::routing::{Address, Routes};
use crate::series::{Series, SeriesId};
use crate::tap::{Fate, Sight, Tap};
use crate::trace::TraceHash;
use crate::traffic::{Generator, TrafficId};
use crate::transfer::{TransferApplication, TransferId, TransferResult};
use crate::web::Requests;

/// Size of each allocation for packets.
pub(crate) const ARENA: usize = 64 * 1024;

/// Purposes of random streams.
pub(crate) mod purpose {
    pub(super) const LINK: u64 = 1 << 32;
    pub(super) const ENDPOINT: u64 = 2 << 32;
    pub(super) const TRAFFIC: u64 = 3 << 32;
    pub(crate) const FLOW: u64 = 4 << 32;
    pub(crate) const WEB: u64 = 5 << 32;
    pub(super) const SPREAD: u64 = 6 << 32;
}

/// Identifies a host or router of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u32);

impl NodeId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A host or a router.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    router: bool,
    /// For each link, the channel that leaves this node.
    pub(crate) interfaces: Vec<usize>,
    /// Index of its endpoint.
    pub(crate) endpoint: Option<usize>,
}

impl Node {
    pub(crate) fn is_router(&self) -> bool {
        self.router
    }
}

/// The source of an event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    Channel(usize),
    Endpoint(usize),
    Application(usize),
    Traffic(usize),
    Feed(usize),
    Flow(usize),
    Web(usize),
    /// The route of an endpoint to an address.
    Route(usize, u32),
    /// The scheduled actions.
    Schedule,
    Series(usize),
}

/// Packets that could not be delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Undeliverable {
    /// No route led to their destination.
    pub no_route: u64,
    /// They looped until the hop limit.
    pub hops: u64,
    /// The receiving host does not have their destination address, or has no endpoint.
    pub not_here: u64,
}

/// Hosts, routers and links in virtual time; the crate documentation has an example.
pub struct Network {
    pub(crate) seed: u64,
    pub(crate) now: Instant,
    pub(crate) calendar: Calendar,
    pub(crate) sources: Vec<Source>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) channels: Vec<Channel>,
    pub(crate) addresses: Vec<Address>,
    pub(crate) address_ids: BTreeMap<IpAddr, u32>,
    pub(crate) routes: Routes,
    pub(crate) endpoints: Vec<EndpointState>,
    pub(crate) applications: Vec<Running>,
    /// Number of applications that have not finished.
    pub(crate) busy: usize,
    pub(crate) traffic: Vec<Generator>,
    pub(crate) feeds: Vec<Feeder>,
    /// Number of sources of cross-traffic, for their random streams.
    pub(crate) traffic_sources: usize,
    pub(crate) flows: Vec<Flow>,
    /// Metrics of TCP connections between two addresses, for later connections.
    pub(crate) learnt: Cache<(AddressId, AddressId)>,
    /// Free places of closed connections.
    pub(crate) closed_flows: Vec<usize>,
    pub(crate) web: Vec<Requests>,
    pub(crate) schedule: BTreeMap<(Instant, u64), Action>,
    pub(crate) scheduled: u64,
    pub(crate) schedule_source: usize,
    /// Endpoints whose output must be collected.
    pub(crate) touched: Vec<usize>,
    pub(crate) packets: Packets,
    pub(crate) arena: BytesMut,
    pub(crate) scratch: Vec<u8>,
    /// Buffer for packets of TCP connections on their way to a channel.
    pub(crate) segments: Vec<(usize, Box<Packet>)>,
    pub(crate) trace: TraceHash,
    pub(crate) undeliverable: Undeliverable,
    pub(crate) series: Vec<Series>,
    pub(crate) taps: Vec<(Option<EndpointId>, Box<dyn Tap>)>,
    pub(crate) script: Option<Script>,
}

pub(crate) type Script = Box<dyn FnMut(&Sight<'_>) -> Fate>;

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Network")
            .field("seed", &self.seed)
            .field("now", &self.now)
            .field("nodes", &self.nodes)
            .finish_non_exhaustive()
    }
}

impl Network {
    /// A network without nodes at time 0. `seed` determines all randomness.
    pub fn new(seed: u64) -> Self {
        let mut calendar = Calendar::new();
        let schedule_source = calendar.add();
        Self {
            seed,
            now: Instant::ZERO,
            calendar,
            sources: vec![Source::Schedule],
            nodes: Vec::new(),
            channels: Vec::new(),
            addresses: Vec::new(),
            address_ids: BTreeMap::new(),
            routes: Routes::default(),
            endpoints: Vec::new(),
            applications: Vec::new(),
            busy: 0,
            traffic: Vec::new(),
            feeds: Vec::new(),
            traffic_sources: 0,
            flows: Vec::new(),
            learnt: Cache::default(),
            closed_flows: Vec::new(),
            web: Vec::new(),
            schedule: BTreeMap::new(),
            scheduled: 0,
            schedule_source,
            touched: Vec::new(),
            packets: Packets::default(),
            arena: BytesMut::with_capacity(ARENA),
            scratch: Vec::new(),
            segments: Vec::new(),
            trace: TraceHash::default(),
            undeliverable: Undeliverable::default(),
            series: Vec::new(),
            taps: Vec::new(),
            script: None,
        }
    }

    pub(crate) fn source(&mut self, source: Source) -> usize {
        self.sources.push(source);
        self.calendar.add()
    }

    pub(crate) fn draws(&self, purpose: u64, number: usize) -> Rng {
        Rng::stream(self.seed, purpose + number as u64)
    }

    /// Virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The name of a node.
    pub fn name(&self, node: NodeId) -> &str {
        &self.nodes[node.index()].name
    }

    /// The addresses of a host, in the order in which its links were created.
    pub fn addresses_of(&self, host: NodeId) -> impl Iterator<Item = IpAddr> + '_ {
        let interfaces = &self.nodes[host.index()].interfaces;
        interfaces.iter().flat_map(|channel| {
            self.addresses.iter().filter(|a| a.channel == *channel).map(|a| a.ip)
        })
    }

    /// An endpoint, read-only.
    pub fn endpoint(&self, endpoint: EndpointId) -> &Endpoint {
        &self.endpoints[endpoint.index()].endpoint
    }

    /// The state of a transfer so far.
    pub fn transfer(&self, transfer: TransferId) -> &TransferResult {
        &self.transfer_application(transfer).result
    }

    pub(crate) fn transfer_application(&self, transfer: TransferId) -> &TransferApplication {
        self.application(transfer.0).expect("only add_transfer makes these identifiers")
    }

    /// The sender's association of a transfer, while it exists.
    pub fn sender(&self, transfer: TransferId) -> Option<&Association> {
        let application = self.transfer_application(transfer);
        self.endpoint(application.spec().from).association(application.sending?)
    }

    /// The receiver's association of a transfer, while it exists.
    pub fn receiver(&self, transfer: TransferId) -> Option<&Association> {
        let application = self.transfer_application(transfer);
        self.endpoint(application.spec().to).association(application.receiving?)
    }

    /// A user-defined application, by its type; `None` if it has another type.
    pub fn application<T: Application>(&self, id: ApplicationId) -> Option<&T> {
        let application = self.applications[id.0 as usize].application.as_deref()?;
        (application as &dyn Any).downcast_ref()
    }

    /// The associations of an endpoint.
    pub fn associations(&self, endpoint: EndpointId) -> impl Iterator<Item = AssociationId> + '_ {
        self.endpoint(endpoint).associations()
    }

    /// Counters of one direction of a link for all packets. [`Direction::Both`] means forward.
    pub fn link_stats(&self, link: LinkId, direction: Direction) -> &LinkStats {
        self.channel(link, direction).link.stats()
    }

    /// Counters of one direction of a link for packets of one kind. Packets that were offered and
    /// are neither delivered nor in flight were lost. [`Direction::Both`] means forward.
    pub fn link_traffic(
        &self,
        link: LinkId,
        direction: Direction,
        traffic: Traffic,
    ) -> TrafficCounters {
        self.channel(link, direction).counters(traffic)
    }

    /// Packets that currently wait for the transmitter of one direction of a link.
    pub fn queue_len(&self, link: LinkId, direction: Direction) -> usize {
        self.channel(link, direction).link.queue_len()
    }

    fn channel(&self, link: LinkId, direction: Direction) -> &Channel {
        &self.channels[link.forward() + usize::from(direction == Direction::Backward)]
    }

    fn channel_mut(&mut self, link: LinkId, direction: Direction) -> &mut Channel {
        &mut self.channels[link.forward() + usize::from(direction == Direction::Backward)]
    }

    /// The queue length at one direction of a link, integrated over time until now. The difference
    /// of two integrals gives the mean queue length. [`Direction::Both`] means forward.
    pub fn queue_integral(&mut self, link: LinkId, direction: Direction) -> QueueIntegral {
        let now = self.now.as_nanos();
        self.channel_mut(link, direction).link.queue_integral(now)
    }

    /// The values recorded so far.
    pub fn series(&self, series: SeriesId) -> &[(Instant, f64)] {
        &self.series[series.0 as usize].points
    }

    /// Packets sent and received by a generator.
    pub fn traffic(&self, traffic: TrafficId) -> (u64, u64) {
        let generator = &self.traffic[traffic.0 as usize];
        (generator.sent, generator.received)
    }

    /// Packets that sources of a feed have sent over its loaded link, and those that have reached the other end.
    pub fn feed(&self, feed: FeedId) -> (u64, u64) {
        let feeder = &self.feeds[feed.0 as usize];
        (feeder.sent, feeder.received)
    }

    /// Counters of an endpoint's route cache, summed over its destinations.
    pub fn route_cache_counters(&self, endpoint: EndpointId) -> RouteCacheCounters {
        let mut sum = RouteCacheCounters::default();
        for route in self.endpoints[endpoint.index()].routes.values() {
            sum.discoveries += route.counters.discoveries;
            sum.delayed_packets += route.counters.delayed_packets;
        }
        sum
    }

    /// Packets that could not be delivered.
    pub fn undeliverable(&self) -> Undeliverable {
        self.undeliverable
    }

    /// A hash of the times, addresses, lengths and first bytes of all packets that hosts sent.
    pub fn trace_hash(&self) -> u64 {
        self.trace.value()
    }
}
