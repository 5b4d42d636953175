//! Building a network: nodes, links, addresses and routes, endpoints, their applications, and
//! scheduled events.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anabranch_impair::{Link, LinkConfig, Rng};
use anabranch_proto::config::Routes as ReachablePairs;
use anabranch_proto::{Endpoint, EndpointConfig, Instant, Log};

use super::{Network, Node, NodeId, Source, purpose};
use crate::action::Action;
use crate::application::{Application, ApplicationId, Running};
use crate::channel::{Channel, Direction, LinkId};
use crate::endpoint::{EndpointId, EndpointState, default_config};
use crate::error::SimError;
use crate::feed::{Feed, FeedId, Feeder};
use crate::packet::AddressId;
use crate::route_cache::RouteCache;
use crate::routing::{Address, Routes};
use crate::series::{Gauge, Series, SeriesId};
use crate::spread::{Choice, Spread};
use crate::tap::{Fate, Sight, Tap};
use crate::traffic::{CrossTraffic, Emission, Generator, TrafficId, TrafficPattern, validate};
use crate::transfer::{Transfer, TransferApplication, TransferId};

impl Network {
    /// Adds a host: it sends and receives, but does not forward.
    pub fn add_host(&mut self, name: &str) -> NodeId {
        self.add_node(name, false)
    }

    /// Adds a router: it forwards, but has no addresses.
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

    /// Connects two nodes by a link; `forward` is its direction from `a` to `b`. Each end at a host gets an interface
    /// with an IPv4 address, 10.x.y.1 or 10.x.y.2, where x and y encode the link's number.
    /// [`set_addresses`](Self::set_addresses) changes the addresses.
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

    /// Connects two nodes with the same configuration in both directions; see [`connect`](Self::connect).
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
        self.addresses.push(Address { ip, node, channel, usable: true });
        Ok(())
    }

    /// Replaces the addresses of a host's interface at a link, IPv4 or IPv6. Must be called before routes are created.
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

    /// Creates routes with the fewest hops to every address. Among equal routes, the link created first wins. Replaces
    /// earlier routes.
    pub fn routes_by_hops(&mut self) {
        self.routes = Routes::by_hops(&self.nodes, &self.channels, &self.addresses);
    }

    /// Makes a router send packets for an address over a link.
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

    /// Makes a router distribute packets for an address over several links. Each link has a weight; `spread` is the
    /// method. Replaces an earlier route.
    ///
    /// # Errors
    /// [`SimError::UnknownAddress`], [`SimError::NotAtNode`], [`SimError::Option`] without a weight above 0.
    pub fn add_routes(
        &mut self,
        router: NodeId,
        destination: IpAddr,
        links: &[(LinkId, u32)],
        spread: Spread,
    ) -> Result<(), SimError> {
        let to = self.address_id(destination)?;
        let node = &self.nodes[router.index()];
        let mut hops = Vec::new();
        for (link, weight) in links {
            let channel = (node.interfaces.iter().copied())
                .find(|channel| channel / 2 == link.index())
                .ok_or_else(|| SimError::NotAtNode {
                    link: link.index(),
                    node: node.name.clone(),
                })?;
            hops.push((channel, *weight));
        }
        let number = router.index() * self.addresses.len() + to as usize;
        let rng = self.draws(purpose::SPREAD, number);
        let choice = Choice::new(spread, hops, rng).ok_or(SimError::Option {
            option: "routes",
            reason: "need a link with a weight above 0".into(),
        })?;
        self.routes.fit(self.nodes.len(), self.addresses.len());
        self.routes.set_several(router.index(), to, choice);
        Ok(())
    }

    pub(crate) fn address_id(&self, ip: IpAddr) -> Result<u32, SimError> {
        self.address_ids.get(&ip).copied().ok_or(SimError::UnknownAddress(ip))
    }

    /// Runs an endpoint on a host: SCTP directly over IP, without checksums.
    ///
    /// # Errors
    /// [`SimError::NotAHost`], [`SimError::NoInterface`], [`SimError::EndpointExists`].
    pub fn add_endpoint(&mut self, host: NodeId) -> Result<EndpointId, SimError> {
        self.add_endpoint_with(host, default_config())
    }

    /// The same with other options. Unless `config` sets them, the routes created so far determine which local
    /// addresses reach which remote addresses.
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
        if self.addresses_of(host).next().is_none() {
            return Err(SimError::NoInterface(node.name.clone()));
        }
        let addresses = self.usable_addresses(host);
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
            eager: Vec::new(),
            ways: Vec::new(),
            route_cache: None,
            routes: BTreeMap::new(),
        });
        Ok(EndpointId(number as u32))
    }

    /// Pairs of an address of the host and an address reachable from there.
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

    /// Makes an endpoint discover its routes reactively; see [`RouteCache`]. `None` turns this off for destinations not
    /// used yet.
    pub fn set_route_cache(&mut self, endpoint: EndpointId, cache: Option<RouteCache>) {
        self.endpoints[endpoint.index()].route_cache = cache;
    }

    /// Adds a transfer. The receiver listens on a separate SCTP port, 5001 or a later one.
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
        let port = Transfer::FIRST_PORT.checked_add(number).ok_or(SimError::Option {
            option: "transfer",
            reason: "there are too many applications".into(),
        })?;
        let (start, from, eager) = (transfer.start, transfer.from, transfer.eager);
        let application = TransferApplication::new(transfer, port);
        let id = self.add_application(start, Box::new(application))?;
        if eager {
            self.endpoints[from.index()].eager.push(id);
        }
        Ok(TransferId(id))
    }

    /// Adds a user-defined application that starts at `start`.
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
        let draws = self.traffic_draws();
        let source = self.source(Source::Traffic(number));
        self.calendar.set(source, Some(spec.start));
        let emission = Emission::new(spec.pattern, spec.sizes, spec.stop, draws);
        self.traffic.push(Generator::new(emission, ids, channel, source));
        Ok(TrafficId(number as u32))
    }

    /// Adds an access link for sources that load one link. It has no sources yet.
    ///
    /// # Errors
    /// Invalid options.
    pub fn add_feed(&mut self, spec: Feed) -> Result<FeedId, SimError> {
        spec.validate()?;
        let channel = spec.link.forward() + usize::from(spec.direction == Direction::Backward);
        let number = self.feeds.len();
        let source = self.source(Source::Feed(number));
        self.feeds.push(Feeder::new(spec, channel, source));
        Ok(FeedId(number as u32))
    }

    /// Adds a source to a feed that sends from `start` on, forever. `sizes` are those of IP packets in bytes, each with its
    /// weight.
    ///
    /// # Errors
    /// Invalid options, or a start before the present or after the feed's first packet.
    pub fn add_feed_source(
        &mut self,
        feed: FeedId,
        pattern: TrafficPattern,
        sizes: Vec<(u32, u32)>,
        start: Instant,
    ) -> Result<(), SimError> {
        validate(&pattern, &sizes)?;
        let number = feed.0 as usize;
        if start < self.now || self.feeds[number].has_begun() {
            return Err(SimError::Past);
        }
        let emission = Emission::new(pattern, sizes, None, self.traffic_draws());
        let feeder = &mut self.feeds[number];
        let due = feeder.add(emission, start);
        self.calendar.set_nanos(feeder.source, due);
        Ok(())
    }

    /// The generator of random numbers for one more source of cross-traffic.
    fn traffic_draws(&mut self) -> Rng {
        let draws = self.draws(purpose::TRAFFIC, self.traffic_sources);
        self.traffic_sources += 1;
        draws
    }

    /// The first pair of addresses over which a host reaches another.
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

    /// Schedules an action. Actions at the same time happen in the order in which they
    /// were scheduled, before anything else at that time.
    ///
    /// # Errors
    /// [`SimError::Past`], [`SimError::Link`] if the link would be invalid, [`SimError::UnknownAddress`].
    pub fn schedule(&mut self, at: Instant, action: Action) -> Result<(), SimError> {
        if at < self.now {
            return Err(SimError::Past);
        }
        if let Some(address) = action.address() {
            self.address_id(address)?;
        }
        for channel in action.channels() {
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

    /// Passes every packet at the interfaces of an endpoint's host, or of all hosts, to a tap.
    pub fn tap(&mut self, endpoint: Option<EndpointId>, tap: impl Tap + 'static) {
        self.taps.push((endpoint, Box::new(tap)));
    }

    /// Logs from now on what the associations of an endpoint do and decide; see [`Log`](anabranch_proto::Log).
    pub fn set_log(&mut self, endpoint: EndpointId, log: Box<dyn Log>) {
        self.endpoints[endpoint.index()].endpoint.set_log(log);
    }

    /// Asks `script` about every packet that an endpoint sends, before the packet reaches the first link. Replaces an
    /// earlier script.
    pub fn script(&mut self, script: impl FnMut(&Sight<'_>) -> Fate + 'static) {
        self.script = Some(Box::new(script));
    }

    /// Records the value of `gauge` now and then at this interval (at least a nanosecond). Recording alone does not
    /// keep [`run`](Self::run) going.
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
}
