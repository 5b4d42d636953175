//! From a setup to a network.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch_impair::{LinkConfig, Loss, Probability, QueueLimit, Rng};
use anabranch_proto::EndpointConfig;
use anabranch_proto::config::Routes;
use anabranch_proto::{Encapsulation, Instant};
use anabranch_sim::{
    Action, CrossTraffic, Direction, EndpointId, LinkId, Network, NodeId, RouteCache, SimError,
    TcpFlow, Then, TrafficPattern, Transfer, TransferId, Workload,
};

use crate::setup::{Change, Channel, Cross, CrossKind, Event, Flow, Queue, Setup, When};

/// A network ready to run.
pub(super) struct Built {
    pub(super) net: Network,
    /// The links in the setup's order.
    pub(super) links: Vec<LinkId>,
    pub(super) transfers: Vec<TransferId>,
    pub(super) sender: EndpointId,
    /// The receiver's address on each path.
    pub(super) remotes: Vec<IpAddr>,
}

/// Bytes of the headers of TCP and IPv4.
const TCP_AND_IP: u64 = 40;

/// Stream of random numbers for the delays of cross-traffic's links.
const EDGES: u64 = 77;

pub(super) fn build(setup: &Setup, seed: u64) -> Result<Built, SimError> {
    let mut net = Network::new(seed);
    let network = &setup.network;
    let nodes: Vec<NodeId> = network
        .nodes
        .iter()
        .enumerate()
        .map(|(index, name)| if index < 2 { net.add_host(name) } else { net.add_router(name) })
        .collect();
    let node = |index: usize| nodes.get(index).copied().ok_or(UNKNOWN);
    let mut links = Vec::new();
    for link in &network.links {
        let (forward, backward) = (config(&link.forward), config(&link.backward));
        links.push(net.connect(node(link.from)?, node(link.to)?, forward, backward)?);
    }
    let pairs = routes(setup, &mut net, &nodes, &links)?;
    let config = |pairs| {
        let mut config = EndpointConfig::default();
        config.encapsulation = Encapsulation::Ip;
        config.checksum = false;
        config.routes = Routes::Pairs(pairs);
        config
    };
    let back = pairs.iter().map(|(local, remote)| (*remote, *local)).collect();
    let sender = net.add_endpoint_with(node(0)?, config(pairs.clone()))?;
    let receiver = net.add_endpoint_with(node(1)?, config(back))?;
    if let Some(cache) = setup.route_cache {
        let cache = RouteCache { lifetime: cache.lifetime, discovery: cache.discovery };
        net.set_route_cache(sender, Some(cache));
    }
    let remotes: Vec<IpAddr> = pairs.iter().map(|(_, remote)| *remote).collect();
    let mut transfers = Vec::new();
    for wanted in &setup.transfers {
        let mut transfer = Transfer::bulk(sender, receiver, wanted.bytes());
        if let Flow::Messages { count, interval } = wanted.flow {
            transfer.workload = Workload::Periodic { interval, messages: count };
        }
        transfer.message_size = usize::try_from(wanted.message).unwrap_or(usize::MAX);
        transfer.streams = wanted.streams;
        transfer.unordered = !wanted.ordered;
        transfer.eager = wanted.eager;
        transfer.start = Instant::ZERO + wanted.start;
        transfer.then = Then::Stay;
        transfer.sender = Arc::new(setup.sender.clone());
        transfer.receiver = Arc::new(setup.receiver.clone());
        transfer.remotes.clone_from(&remotes);
        transfers.push(net.add_transfer(transfer)?);
    }
    let mut draws = Rng::stream(seed, EDGES);
    for cross in &setup.cross {
        add_cross(&mut net, setup, &nodes, &links, cross, &mut draws)?;
    }
    for event in &setup.events {
        if let When::At(at) = event.when {
            schedule(&mut net, &links, event, Instant::ZERO + at)?;
        }
    }
    Ok(Built { net, links, transfers, sender, remotes })
}

/// Cannot happen with a setup that was read from a file.
const UNKNOWN: SimError =
    SimError::Option { option: "setup", reason: "names a node or link that is not there" };

fn config(channel: &Channel) -> LinkConfig {
    let queue = match channel.queue {
        Queue::Packets(packets) => QueueLimit::Packets(packets),
        Queue::Bytes(bytes) => QueueLimit::Bytes(bytes),
    };
    LinkConfig::new()
        .rate(channel.rate)
        .delay(channel.delay)
        .queue(queue)
        .discipline(channel.discipline)
        .loss(channel.loss.clone())
}

/// Makes the routes of all paths, and returns their pairs of addresses.
fn routes(
    setup: &Setup,
    net: &mut Network,
    nodes: &[NodeId],
    links: &[LinkId],
) -> Result<Vec<(IpAddr, IpAddr)>, SimError> {
    let mut pairs = Vec::new();
    for path in &setup.network.paths {
        let steps: Vec<_> = path
            .links
            .iter()
            .filter_map(|(index, reversed)| {
                let link = setup.network.links.get(*index)?;
                let (from, to) =
                    if *reversed { (link.to, link.from) } else { (link.from, link.to) };
                Some((from, to, *links.get(*index)?, *reversed))
            })
            .collect();
        let (Some(first), Some(last)) = (steps.first(), steps.last()) else {
            return Err(UNKNOWN);
        };
        let local = address(net, nodes, 0, first.2)?;
        let remote = address(net, nodes, 1, last.2)?;
        for (from, to, link, _) in &steps {
            if let Some(router) = nodes.get(*from).filter(|_| *from >= 2) {
                net.add_route(*router, remote, *link)?;
            }
            if let Some(router) = nodes.get(*to).filter(|_| *to >= 2) {
                net.add_route(*router, local, *link)?;
            }
        }
        pairs.push((local, remote));
    }
    Ok(pairs)
}

/// The address of a host's interface at a link.
fn address(net: &Network, nodes: &[NodeId], host: usize, link: LinkId) -> Result<IpAddr, SimError> {
    let node = nodes.get(host).ok_or(UNKNOWN)?;
    let [high, low] = u16::try_from(link.index()).unwrap_or(u16::MAX).to_be_bytes();
    net.addresses_of(*node)
        .find(|ip| matches!(ip, IpAddr::V4(v4) if v4.octets().starts_with(&[10, high, low])))
        .ok_or(UNKNOWN)
}

pub(super) fn schedule(
    net: &mut Network,
    links: &[LinkId],
    event: &Event,
    at: Instant,
) -> Result<(), SimError> {
    let link = links.get(event.link).copied().ok_or(UNKNOWN)?;
    let direction = match (event.forward, event.backward) {
        (true, true) => Direction::Both,
        (true, false) => Direction::Forward,
        (false, _) => Direction::Backward,
    };
    let action = match event.change {
        Change::Cut => Action::Cut { link, direction },
        Change::Repair => Action::Repair { link, direction },
        Change::Loss(share) => {
            let loss = Probability::fraction(share).map_or(Loss::None, Loss::Uniform);
            Action::SetLoss { link, direction, loss }
        }
        Change::Rate(rate) => Action::SetRate { link, direction, rate: Some(rate) },
    };
    net.schedule(at, action)
}

/// Hosts at both ends of the core of a path, and sources on them.
fn add_cross(
    net: &mut Network,
    setup: &Setup,
    nodes: &[NodeId],
    links: &[LinkId],
    cross: &Cross,
    draws: &mut Rng,
) -> Result<(), SimError> {
    let path = setup.network.paths.get(cross.path).ok_or(UNKNOWN)?;
    let core = setup.network.links.get(path.core).ok_or(UNKNOWN)?;
    let core_id = links.get(path.core).copied().ok_or(UNKNOWN)?;
    let reversed = path.links.iter().any(|(link, reversed)| *link == path.core && *reversed);
    let (near, far) = if reversed { (core.to, core.from) } else { (core.from, core.to) };
    let near = nodes.get(near).copied().ok_or(UNKNOWN)?;
    let far = nodes.get(far).copied().ok_or(UNKNOWN)?;
    let mut edges = Vec::new();
    for _ in 0..cross.edges {
        let left = add_edge(net, near, cross, draws)?;
        let right = add_edge(net, far, cross, draws)?;
        // Each side reaches the other over the core.
        net.add_route(near, right.1, core_id)?;
        net.add_route(far, left.1, core_id)?;
        edges.push((left.0, right.0));
    }
    let directions = [(cross.forward, false), (cross.backward, true)];
    for (_, back) in directions.into_iter().filter(|(wanted, _)| *wanted) {
        let sources = match cross.kind {
            CrossKind::Constant { .. } => 1,
            CrossKind::Pareto { sources, .. } => sources,
            CrossKind::Tcp { flows, .. } => flows,
        };
        for source in 0..sources {
            let edge = edges.get((source % cross.edges) as usize).ok_or(UNKNOWN)?;
            let (from, to) = if back { (edge.1, edge.0) } else { *edge };
            add_source(net, cross.kind, from, to, draws)?;
        }
    }
    Ok(())
}

/// One source of cross-traffic.
fn add_source(
    net: &mut Network,
    kind: CrossKind,
    from: NodeId,
    to: NodeId,
    draws: &mut Rng,
) -> Result<(), SimError> {
    match kind {
        CrossKind::Constant { rate, packet } => {
            net.add_traffic(CrossTraffic::constant(from, to, rate, packet as u32))?;
        }
        CrossKind::Pareto { rate, sources, shape, on, off } => {
            let share = on.as_secs_f64() / (on + off).as_secs_f64();
            let mean = (rate / sources).max(1);
            let rate_bps = ((mean as f64 / share) as u64).max(1);
            let mut traffic = CrossTraffic::pareto(from, to, rate_bps);
            traffic.pattern =
                TrafficPattern::ParetoOnOff { rate_bps, mean_on: on, mean_off: off, shape };
            net.add_traffic(traffic)?;
        }
        CrossKind::Tcp { packet, start_within, .. } => {
            let mut flow = TcpFlow::greedy(from, to);
            flow.config.mss = (packet - TCP_AND_IP) as u16;
            flow.start = net.now() + between(Duration::ZERO, start_within, draws);
            net.add_tcp_flow(flow)?;
        }
    }
    Ok(())
}

/// A time drawn between two.
fn between(least: Duration, most: Duration, draws: &mut Rng) -> Duration {
    let span = u64::try_from((most - least).as_nanos()).unwrap_or(u64::MAX);
    least + Duration::from_nanos(draws.below(span.saturating_add(1)))
}

/// A host beside a router, with its address.
fn add_edge(
    net: &mut Network,
    router: NodeId,
    cross: &Cross,
    draws: &mut Rng,
) -> Result<(NodeId, IpAddr), SimError> {
    let delay = between(cross.edge_delay.0, cross.edge_delay.1, draws);
    let host = net.add_host(&format!("{}.edge", cross.name));
    let link = LinkConfig::new().rate(cross.edge_rate).delay(delay);
    let id = net.connect_both(host, router, link)?;
    let ip = net.addresses_of(host).next().ok_or(UNKNOWN)?;
    net.add_route(router, ip, id)?;
    Ok((host, ip))
}
