//! A network: what it consists of, how it is built, and what can be read from it.

use std::any::Any;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anabranch_impair::{Link, LinkConfig, LinkStats, QueueIntegral, Rng};
use anabranch_proto::config::Routes as ReachablePairs;
use anabranch_proto::{Association, AssociationId, Endpoint, EndpointConfig, Instant};
use bytes::BytesMut;

use crate::action::Action;
use crate::application::{Application, ApplicationId, Running};
use crate::calendar::Calendar;
use crate::channel::{Channel, Direction, LinkId, TrafficCounters};
use crate::endpoint::{EndpointId, EndpointState, default_config};
use crate::error::SimError;
use crate::flow::Flow;
use crate::packet::{AddressId, Packet, Traffic};
use crate::route_cache::{RouteCache, RouteCacheCounters};
use crate::routing::{Address, Routes};
use crate::series::{Gauge, Series, SeriesId};
use crate::tap::{Fate, Sight, Tap};
use crate::trace::TraceHash;
use crate::traffic::{CrossTraffic, Generator, TrafficId};
use crate::transfer::{Transfer, TransferApplication, TransferId, TransferResult};

/// Room for packets that is allocated at once.
pub(crate) const ARENA: usize = 64 * 1024;

/// First SCTP port of transfers; each has one of its own.
const FIRST_PORT: u16 = 5001;

/// Purposes that randomness is drawn for.
pub(crate) mod purpose {
    pub(super) const LINK: u64 = 1 << 32;
    pub(super) const ENDPOINT: u64 = 2 << 32;
    pub(super) const TRAFFIC: u64 = 3 << 32;
    pub(crate) const FLOW: u64 = 4 << 32;
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

/// Whose time has come.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    Channel(usize),
    Endpoint(usize),
    Application(usize),
    Traffic(usize),
    Flow(usize),
    /// The route of an endpoint to an address.
    Route(usize, u32),
    /// The scheduled actions.
    Schedule,
    Series(usize),
}

/// Packets that went nowhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Undeliverable {
    /// No route led to their destination.
    pub no_route: u64,
    /// They went round in circles.
    pub hops: u64,
    /// The host they came to does not have their destination address, or no endpoint.
    pub not_here: u64,
}

/// Hosts, routers and links in virtual time; the crate's documentation has an example.
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
    /// Applications that are not done.
    pub(crate) busy: usize,
    pub(crate) traffic: Vec<Generator>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) schedule: BTreeMap<(Instant, u64), Action>,
    pub(crate) scheduled: u64,
    pub(crate) schedule_source: usize,
    /// Endpoints with output to take.
    pub(crate) touched: Vec<usize>,
    pub(crate) arena: BytesMut,
    pub(crate) scratch: Vec<u8>,
    /// Room for packets of TCP connections on their way to a channel.
    pub(crate) segments: Vec<(usize, Packet)>,
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
    /// A network without nodes at time 0. All randomness comes from `seed`.
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
            flows: Vec::new(),
            schedule: BTreeMap::new(),
            scheduled: 0,
            schedule_source,
            touched: Vec::new(),
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

    // Building.

    /// Adds a host: it sends and receives, and forwards nothing.
    pub fn add_host(&mut self, name: &str) -> NodeId {
        self.add_node(name, false)
    }

    /// Adds a router: it forwards, and has no addresses.
    pub fn add_router(&mut self, name: &str) -> NodeId {
        self.add_node(name, true)
    }

    fn add_node(&mut self, name: &str, router: bool) -> NodeId {
        self.nodes.push(Node {
            name: name.to_owned(),
            router,
            interfaces: Vec::new(),
            endpoint: None,
        });
        NodeId((self.nodes.len() - 1) as u32)
    }

    /// Joins two nodes by a link: `forward` is its direction from `a` to `b`. Each end that is a
    /// host gets an interface with an IPv4 address of its own, 10.x.y.1 and 10.x.y.2 where x and y
    /// are the link's number; [`set_addresses`](Self::set_addresses) gives it others.
    ///
    /// # Errors
    /// [`SimError::SameNode`], [`SimError::Link`].
    pub fn connect(
        &mut self,
        a: NodeId,
        b: NodeId,
        forward: LinkConfig,
        backward: LinkConfig,
    ) -> Result<LinkId, SimError> {
        if a == b {
            return Err(SimError::SameNode(self.name(a).to_owned()));
        }
        let id = LinkId((self.channels.len() / 2) as u32);
        for (from, to, config) in [(a, b, forward), (b, a, backward)] {
            let number = self.channels.len();
            let seed = self.draws(purpose::LINK, number).next_u64();
            let link = Link::new(config, seed).map_err(|error| {
                self.channels.truncate(id.forward());
                SimError::Link { a: self.name(a).to_owned(), b: self.name(b).to_owned(), error }
            })?;
            let source = self.source(Source::Channel(number));
            self.channels.push(Channel::new(link, from.index(), to.index(), source));
        }
        let [high, low] = (id.0 as u16).to_be_bytes();
        for (node, channel, last) in [(a, id.forward(), 1), (b, id.forward() + 1, 2)] {
            self.nodes[node.index()].interfaces.push(channel);
            if !self.nodes[node.index()].router {
                self.add_address(Ipv4Addr::new(10, high, low, last).into(), channel)?;
            }
        }
        Ok(id)
    }

    /// The same link in both directions; see [`connect`](Self::connect).
    ///
    /// # Errors
    /// Those of [`connect`](Self::connect).
    pub fn connect_both(
        &mut self,
        a: NodeId,
        b: NodeId,
        config: LinkConfig,
    ) -> Result<LinkId, SimError> {
        self.connect(a, b, config.clone(), config)
    }

    fn add_address(&mut self, ip: IpAddr, channel: usize) -> Result<(), SimError> {
        if self.address_ids.contains_key(&ip) {
            return Err(SimError::AddressTaken(ip));
        }
        let node = self.channels[channel].from;
        self.address_ids.insert(ip, self.addresses.len() as u32);
        self.addresses.push(Address { ip, node, channel });
        Ok(())
    }

    /// Gives the interface of a host at a link these addresses, IPv4 or IPv6, in place of those
    /// it has. To be called before routes are made.
    ///
    /// # Errors
    /// [`SimError::NotAHost`], [`SimError::NotAtNode`], [`SimError::AddressTaken`].
    pub fn set_addresses(
        &mut self,
        link: LinkId,
        host: NodeId,
        addresses: &[IpAddr],
    ) -> Result<(), SimError> {
        let node = &self.nodes[host.index()];
        if node.router {
            return Err(SimError::NotAHost(node.name.clone()));
        }
        let channel = (node.interfaces.iter().copied())
            .find(|channel| channel / 2 == link.index())
            .ok_or_else(|| SimError::NotAtNode { link: link.index(), node: node.name.clone() })?;
        let others = |address: &Address| address.channel != channel;
        if let Some(taken) = self.addresses.iter().find(|a| others(a) && addresses.contains(&a.ip))
        {
            return Err(SimError::AddressTaken(taken.ip));
        }
        self.addresses.retain(others);
        self.address_ids =
            self.addresses.iter().enumerate().map(|(id, a)| (a.ip, id as u32)).collect();
        addresses.iter().try_for_each(|ip| self.add_address(*ip, channel))
    }

    /// Makes routes with the fewest hops to every address; of equally short ones the link made
    /// first. Routes given before are forgotten.
    pub fn routes_by_hops(&mut self) {
        self.routes = Routes::by_hops(&self.nodes, &self.channels, &self.addresses);
    }

    /// Lets a router send packets for an address over a link.
    ///
    /// # Errors
    /// [`SimError::UnknownAddress`], [`SimError::NotAtNode`].
    pub fn add_route(
        &mut self,
        router: NodeId,
        destination: IpAddr,
        link: LinkId,
    ) -> Result<(), SimError> {
        let to = self.address_id(destination)?;
        let node = &self.nodes[router.index()];
        let channel = (node.interfaces.iter().copied())
            .find(|channel| channel / 2 == link.index())
            .ok_or_else(|| SimError::NotAtNode { link: link.index(), node: node.name.clone() })?;
        self.routes.fit(self.nodes.len(), self.addresses.len());
        self.routes.set(router.index(), to, channel);
        Ok(())
    }

    fn address_id(&self, ip: IpAddr) -> Result<u32, SimError> {
        self.address_ids.get(&ip).copied().ok_or(SimError::UnknownAddress(ip))
    }

    /// Runs an endpoint on a host: SCTP directly over IP, without checksums.
    ///
    /// # Errors
    /// [`SimError::NotAHost`], [`SimError::NoInterface`], [`SimError::EndpointExists`].
    pub fn add_endpoint(&mut self, host: NodeId) -> Result<EndpointId, SimError> {
        self.add_endpoint_with(host, default_config())
    }

    /// The same with other options. Which local addresses reach which remote ones follows from
    /// the routes made so far, unless `config` says it.
    ///
    /// # Errors
    /// Those of [`add_endpoint`](Self::add_endpoint).
    pub fn add_endpoint_with(
        &mut self,
        host: NodeId,
        mut config: EndpointConfig,
    ) -> Result<EndpointId, SimError> {
        let node = &self.nodes[host.index()];
        if node.router {
            return Err(SimError::NotAHost(node.name.clone()));
        }
        if node.endpoint.is_some() {
            return Err(SimError::EndpointExists(node.name.clone()));
        }
        let addresses: Vec<IpAddr> = self.addresses_of(host).collect();
        if addresses.is_empty() {
            return Err(SimError::NoInterface(node.name.clone()));
        }
        if config.routes == ReachablePairs::Any {
            config.routes = ReachablePairs::Pairs(self.reachable(host));
        }
        let number = self.endpoints.len();
        let mut draws = self.draws(purpose::ENDPOINT, number);
        let mut seed = [0; 32];
        for part in seed.as_chunks_mut::<8>().0 {
            *part = draws.next_u64().to_le_bytes();
        }
        let encapsulation = config.encapsulation;
        let mut endpoint = Endpoint::new(config, seed);
        endpoint.set_local_addresses(self.now, &addresses);
        let source = self.source(Source::Endpoint(number));
        self.nodes[host.index()].endpoint = Some(number);
        self.endpoints.push(EndpointState {
            endpoint,
            encapsulation,
            node: host.index(),
            source,
            owners: BTreeMap::new(),
            listeners: BTreeMap::new(),
            ways: Vec::new(),
            route_cache: None,
            routes: BTreeMap::new(),
        });
        Ok(EndpointId(number as u32))
    }

    /// Pairs of an address of the host and one that packets from there reach.
    fn reachable(&self, host: NodeId) -> Vec<(IpAddr, IpAddr)> {
        let mut pairs = Vec::new();
        for from in self.addresses.iter().filter(|from| from.node == host.index()) {
            for (id, to) in self.addresses.iter().enumerate() {
                if to.node != from.node
                    && from.ip.is_ipv4() == to.ip.is_ipv4()
                    && self.routes.reach(&self.nodes, &self.channels, from, (id as u32, to))
                {
                    pairs.push((from.ip, to.ip));
                }
            }
        }
        pairs
    }

    /// Lets an endpoint find its routes reactively; see [`RouteCache`]. `None` ends that for
    /// destinations not used yet.
    pub fn set_route_cache(&mut self, endpoint: EndpointId, cache: Option<RouteCache>) {
        self.endpoints[endpoint.index()].route_cache = cache;
    }

    /// Adds a transfer. The receiver listens on an SCTP port of its own, 5001 or a later one.
    ///
    /// # Errors
    /// [`SimError::Option`], [`SimError::NoRoute`], [`SimError::UnknownAddress`],
    /// [`SimError::Past`].
    pub fn add_transfer(&mut self, transfer: Transfer) -> Result<TransferId, SimError> {
        transfer.validate()?;
        let node = |endpoint: EndpointId| &self.nodes[self.endpoints[endpoint.index()].node];
        let (from, to) = (node(transfer.from), node(transfer.to));
        for remote in &transfer.remotes {
            self.address_id(*remote)?;
        }
        let host = NodeId(self.endpoints[transfer.from.index()].node as u32);
        let to_host = NodeId(self.endpoints[transfer.to.index()].node as u32);
        let targets: Vec<IpAddr> = self.addresses_of(to_host).collect();
        if !self.reachable(host).iter().any(|(_, remote)| targets.contains(remote)) {
            return Err(SimError::NoRoute { from: from.name.clone(), to: to.name.clone() });
        }
        let number = u16::try_from(self.applications.len()).unwrap_or(u16::MAX);
        let port = FIRST_PORT.checked_add(number).ok_or(SimError::Option {
            option: "transfer",
            reason: "there are too many applications",
        })?;
        let start = transfer.start;
        let application = TransferApplication::new(transfer, port);
        Ok(TransferId(self.add_application(start, Box::new(application))?))
    }

    /// Adds an application of your own, to be started at `start`.
    ///
    /// # Errors
    /// [`SimError::Past`].
    pub fn add_application(
        &mut self,
        start: Instant,
        application: Box<dyn Application>,
    ) -> Result<ApplicationId, SimError> {
        if start < self.now {
            return Err(SimError::Past);
        }
        let number = self.applications.len();
        let source = self.source(Source::Application(number));
        self.calendar.set(source, Some(start));
        self.applications.push(Running { application: Some(application), started: false, source });
        self.busy += 1;
        Ok(ApplicationId(number as u32))
    }

    /// Adds a generator of cross-traffic.
    ///
    /// # Errors
    /// [`SimError::Option`], [`SimError::NotAHost`], [`SimError::NoRoute`], [`SimError::Past`].
    pub fn add_traffic(&mut self, spec: CrossTraffic) -> Result<TrafficId, SimError> {
        spec.validate()?;
        if spec.start < self.now {
            return Err(SimError::Past);
        }
        let ids = self.pair(spec.from, spec.to)?;
        let channel = self.addresses[ids.0 as usize].channel;
        let number = self.traffic.len();
        let draws = self.draws(purpose::TRAFFIC, number);
        let source = self.source(Source::Traffic(number));
        self.calendar.set(source, Some(spec.start));
        self.traffic.push(Generator::new(spec, draws, ids, channel, source));
        Ok(TrafficId(number as u32))
    }

    /// The first pair of addresses by which a host reaches another.
    pub(crate) fn pair(
        &self,
        from: NodeId,
        to: NodeId,
    ) -> Result<(AddressId, AddressId), SimError> {
        for host in [from, to] {
            if self.nodes[host.index()].router {
                return Err(SimError::NotAHost(self.name(host).to_owned()));
            }
        }
        for (local, remote) in self.reachable(from) {
            let (local, remote) = (self.address_id(local)?, self.address_id(remote)?);
            if self.addresses[remote as usize].node == to.index() {
                return Ok((local, remote));
            }
        }
        let name = |host| self.name(host).to_owned();
        Err(SimError::NoRoute { from: name(from), to: name(to) })
    }

    /// Does something to a link at a time. What is scheduled for one time happens in the order in
    /// which it was scheduled, before anything else at that time.
    ///
    /// # Errors
    /// [`SimError::Past`], [`SimError::Link`] when the link would not be a valid one.
    pub fn schedule(&mut self, at: Instant, action: Action) -> Result<(), SimError> {
        if at < self.now {
            return Err(SimError::Past);
        }
        let (link, direction) = action.target();
        for channel in direction.channels(link) {
            let channel = &self.channels[channel];
            if let Some(config) = action.applied(channel.link.config()) {
                config.validate().map_err(|error| SimError::Link {
                    a: self.nodes[channel.from].name.clone(),
                    b: self.nodes[channel.to].name.clone(),
                    error,
                })?;
            }
        }
        self.scheduled += 1;
        self.schedule.insert((at, self.scheduled), action);
        let next = self.schedule.keys().next().map(|(at, _)| *at);
        self.calendar.set(self.schedule_source, next);
        Ok(())
    }

    /// Shows a tap every packet that comes by at the interfaces of an endpoint's host, or of all
    /// hosts.
    pub fn tap(&mut self, endpoint: Option<EndpointId>, tap: impl Tap + 'static) {
        self.taps.push((endpoint, Box::new(tap)));
    }

    /// Asks `script` about every packet that an endpoint sends, before it reaches the first link,
    /// in place of a script given before.
    pub fn script(&mut self, script: impl FnMut(&Sight<'_>) -> Fate + 'static) {
        self.script = Some(Box::new(script));
    }

    /// Records what `gauge` says now and every so often (at least a nanosecond) from now on.
    /// Recording alone does not keep [`run`](Self::run) going.
    pub fn record(
        &mut self,
        every: Duration,
        gauge: impl FnMut(&mut Self) -> Option<f64> + 'static,
    ) -> SeriesId {
        let number = self.series.len();
        let source = self.source(Source::Series(number));
        self.calendar.set(source, Some(self.now));
        let gauge: Gauge = Box::new(gauge);
        let every = every.max(Duration::from_nanos(1));
        self.series.push(Series { gauge: Some(gauge), every, points: Vec::new(), source });
        SeriesId(number as u32)
    }

    // Reading.

    /// Virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The name of a node.
    pub fn name(&self, node: NodeId) -> &str {
        &self.nodes[node.index()].name
    }

    /// The addresses of a host, in the order in which its links were made.
    pub fn addresses_of(&self, host: NodeId) -> impl Iterator<Item = IpAddr> + '_ {
        let interfaces = &self.nodes[host.index()].interfaces;
        interfaces.iter().flat_map(|channel| {
            self.addresses.iter().filter(|a| a.channel == *channel).map(|a| a.ip)
        })
    }

    /// An endpoint, to look at.
    pub fn endpoint(&self, endpoint: EndpointId) -> &Endpoint {
        &self.endpoints[endpoint.index()].endpoint
    }

    /// What is known of a transfer so far.
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

    /// An application of your own, by its type; `None` if it has another one.
    pub fn application<T: Application>(&self, id: ApplicationId) -> Option<&T> {
        let application = self.applications[id.0 as usize].application.as_deref()?;
        (application as &dyn Any).downcast_ref()
    }

    /// The associations of an endpoint.
    pub fn associations(&self, endpoint: EndpointId) -> impl Iterator<Item = AssociationId> + '_ {
        self.endpoint(endpoint).associations()
    }

    /// What one direction of a link did with all packets. [`Direction::Both`] means forward.
    pub fn link_stats(&self, link: LinkId, direction: Direction) -> &LinkStats {
        self.channel(link, direction).link.stats()
    }

    /// What one direction of a link did with packets of one kind; what was offered and neither
    /// delivered nor is on its way was lost. [`Direction::Both`] means forward.
    pub fn link_traffic(
        &self,
        link: LinkId,
        direction: Direction,
        traffic: Traffic,
    ) -> TrafficCounters {
        self.channel(link, direction).counters(traffic)
    }

    /// Packets that wait for the transmitter of one direction of a link now.
    pub fn queue_len(&self, link: LinkId, direction: Direction) -> usize {
        self.channel(link, direction).link.queue_len()
    }

    fn channel(&self, link: LinkId, direction: Direction) -> &Channel {
        &self.channels[link.forward() + usize::from(direction == Direction::Backward)]
    }

    fn channel_mut(&mut self, link: LinkId, direction: Direction) -> &mut Channel {
        &mut self.channels[link.forward() + usize::from(direction == Direction::Backward)]
    }

    /// How long how much waited at one direction of a link until now: the difference of two of
    /// these gives the mean queue. [`Direction::Both`] means forward.
    pub fn queue_integral(&mut self, link: LinkId, direction: Direction) -> QueueIntegral {
        let now = self.now.as_nanos();
        self.channel_mut(link, direction).link.queue_integral(now)
    }

    /// What was recorded so far.
    pub fn series(&self, series: SeriesId) -> &[(Instant, f64)] {
        &self.series[series.0 as usize].points
    }

    /// Packets sent and received by a generator.
    pub fn traffic(&self, traffic: TrafficId) -> (u64, u64) {
        let generator = &self.traffic[traffic.0 as usize];
        (generator.sent, generator.received)
    }

    /// What the route cache of an endpoint did, summed over its destinations.
    pub fn route_cache_counters(&self, endpoint: EndpointId) -> RouteCacheCounters {
        let mut sum = RouteCacheCounters::default();
        for route in self.endpoints[endpoint.index()].routes.values() {
            sum.discoveries += route.counters.discoveries;
            sum.delayed_packets += route.counters.delayed_packets;
        }
        sum
    }

    /// Packets that went nowhere.
    pub fn undeliverable(&self) -> Undeliverable {
        self.undeliverable
    }

    /// A hash of the times, addresses, lengths and first bytes of all packets that hosts sent.
    pub fn trace_hash(&self) -> u64 {
        self.trace.value()
    }
}
