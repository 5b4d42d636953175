//! Builds a network from a setup.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch_impair::{Loss, Probability, Rng};
use anabranch_proto::EndpointConfig;
use anabranch_proto::config::Routes;
use anabranch_proto::{Encapsulation, Instant};
use anabranch_sim::{
    Action, Direction, EndpointId, Large, LinkId, Network, NodeId, RouteCache, SimError, TcpFlow,
    TcpFlowId, TcpMessages, Then, Transfer, TransferId, Workload,
};

use super::{addresses, bursts, cross};
use crate::observed::Observed;
use crate::setup::{self, Change, Event, Flow, Over, Setup, When, is_there_at_first};

/// A network that is ready to run.
pub(super) struct Built {
    pub(super) net: Network,
    /// The links in the setup's order.
    pub(super) links: Vec<LinkId>,
    /// The associations among the transfers.
    pub(super) transfers: Vec<TransferId>,
    /// All transfers, in the setup's order.
    pub(super) measured: Vec<Measured>,
    /// The endpoint that sends in the first transfer.
    pub(super) sender: EndpointId,
    /// Addresses of the sender's host and the receiver's host on each path, in the setup's order.
    pub(super) pairs: Vec<(IpAddr, IpAddr)>,
}

/// A transfer.
#[derive(Clone, Debug)]
pub(super) enum Measured {
    /// Over SCTP.
    Association(TransferId),
    /// Over TCP.
    Connection(TcpFlowId),
    /// Over TCP and repeated, each time over a new connection.
    Repeated(Vec<TcpFlowId>),
}

impl Measured {
    /// User bytes that have arrived.
    pub(super) fn delivered(&self, net: &Network) -> u64 {
        match self {
            Self::Association(id) => net.transfer(*id).bytes,
            Self::Connection(id) => net.tcp_flow(*id).delivered,
            Self::Repeated(ids) => ids.iter().map(|id| net.tcp_flow(*id).delivered).sum(),
        }
    }
}

impl Built {
    /// The observations of all transfers so far.
    pub(super) fn observed(&self) -> Vec<Observed> {
        let seen = self.measured.iter().map(|measured| match measured {
            Measured::Association(id) => Observed::of_association(self.net.transfer(*id)),
            Measured::Connection(id) => {
                Observed::of_connection(&self.net.tcp_flow(*id), self.net.tcp_delays(*id))
            }
            Measured::Repeated(ids) => {
                Observed::of_repeated(ids.iter().map(|id| self.net.tcp_flow(*id)))
            }
        });
        seen.collect()
    }

    /// The transfers over TCP.
    pub(super) fn connections(&self) -> impl Iterator<Item = TcpFlowId> + '_ {
        self.measured
            .iter()
            .flat_map(|measured| match measured {
                Measured::Connection(id) => std::slice::from_ref(id),
                Measured::Repeated(ids) => ids,
                Measured::Association(_) => &[],
            })
            .copied()
    }

    /// The path with an address of either host. Associations number their paths in the order in which they learned of
    /// them.
    pub(super) fn path_of(&self, address: IpAddr) -> Option<usize> {
        self.pairs.iter().position(|(near, far)| *near == address || *far == address)
    }

    /// The path between two addresses, which several paths may share.
    pub(super) fn path_between(&self, local: IpAddr, remote: IpAddr) -> Option<usize> {
        let is_it = |pair: &(IpAddr, IpAddr)| *pair == (local, remote) || *pair == (remote, local);
        self.pairs.iter().position(is_it)
    }
}

/// Random stream for cross-traffic: delays of its links, and its start times.
const EDGES: u64 = 77;
/// Random stream for the starts of transfers.
const STARTS: u64 = 78;
/// Random stream for bursts.
const BURSTS: u64 = 79;

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
        let (forward, backward) = (link.forward.config(), link.backward.config());
        links.push(net.connect(node(link.from)?, node(link.to)?, forward, backward)?);
    }
    let pairs = routes(setup, &mut net, &nodes, &links)?;
    let damaged = damages(network);
    let config = |pairs| {
        let mut config = EndpointConfig::default();
        config.encapsulation = Encapsulation::Ip;
        config.checksum = damaged;
        config.routes = Routes::Pairs(pairs);
        config
    };
    let back = pairs.iter().map(|(local, remote)| (*remote, *local)).collect();
    let sender = net.add_endpoint_with(node(0)?, config(pairs.clone()))?;
    let receiver = net.add_endpoint_with(node(1)?, config(back))?;
    if let Some(cache) = setup.route_cache {
        let setup::RouteCache { lifetime, discovery, keeps_unused } = cache;
        let cache = RouteCache { lifetime, discovery, keeps_unused };
        net.set_route_cache(sender, Some(cache));
    }
    let (mut transfers, mut measured) = (Vec::new(), Vec::new());
    let mut starts = Rng::stream(seed, STARTS);
    let mut bursts = Rng::stream(seed, BURSTS);
    for wanted in &setup.transfers {
        let late = cross::between(Duration::ZERO, wanted.start_within, &mut starts);
        let start = Instant::ZERO + wanted.start + late;
        measured.push(match wanted.over {
            Over::Sctp => {
                let mut transfer = transfer(setup, wanted, (sender, receiver), &pairs, &mut bursts);
                transfer.start = start;
                let id = net.add_transfer(transfer)?;
                transfers.push(id);
                Measured::Association(id)
            }
            Over::Tcp => {
                let ends = (node(0)?, node(1)?);
                connections(&mut net, setup, wanted, ends, (&pairs, start, &mut bursts))?
            }
            Over::Program(_) => return Err(A_PROGRAM),
        });
    }
    let mut draws = Rng::stream(seed, EDGES);
    for wanted in &setup.cross {
        cross::add(&mut net, setup, &nodes, &links, wanted, &mut draws)?;
    }
    addresses::schedule(setup, &mut net, &pairs)?;
    for event in &setup.events {
        if let When::At(at) = event.when {
            schedule(&mut net, &links, event, Instant::ZERO + at)?;
        }
    }
    let sender =
        if setup.transfers.first().is_some_and(|first| first.back) { receiver } else { sender };
    Ok(Built { net, links, transfers, measured, sender, pairs })
}

/// Whether links damage packets. Otherwise checksums are unnecessary, and computing them is slow.
pub(super) fn damages(network: &setup::Network) -> bool {
    let mut ways = network.links.iter().flat_map(|link| [&link.forward, &link.backward]);
    ways.any(|way| way.faults.corrupt > Probability::ZERO)
}

/// The connections of a transfer over TCP, on the primary path.
fn connections(
    net: &mut Network,
    setup: &Setup,
    wanted: &setup::Transfer,
    ends: (NodeId, NodeId),
    (pairs, start, bursts): (&[(IpAddr, IpAddr)], Instant, &mut Rng),
) -> Result<Measured, SimError> {
    let pair = pairs.get(setup.network.primary).copied().ok_or(UNKNOWN)?;
    let mut flow = connection(setup, wanted, ends, pair);
    flow.messages = messages(wanted, bursts);
    let (times, every) = wanted.repeat;
    let mut ids = Vec::new();
    for number in 0..u32::try_from(times).unwrap_or(u32::MAX) {
        flow.start = start + every.saturating_mul(number);
        ids.push(net.add_tcp_flow(flow.clone())?);
    }
    Ok(match ids[..] {
        [id] => Measured::Connection(id),
        _ => Measured::Repeated(ids),
    })
}

/// One connection, without its start time.
fn connection(
    setup: &Setup,
    wanted: &setup::Transfer,
    (near, far): (NodeId, NodeId),
    (local, remote): (IpAddr, IpAddr),
) -> TcpFlow {
    let mut flow =
        if wanted.back { TcpFlow::greedy(far, near) } else { TcpFlow::greedy(near, far) };
    flow.pair = Some(if wanted.back { (remote, local) } else { (local, remote) });
    flow.bytes = Some(wanted.bytes());
    flow.config = setup.tcp.config.clone();
    flow.config.checksum = damages(&setup.network);
    flow.metric_cache = setup.tcp.metric_cache;
    flow
}

/// The messages of a transfer over TCP, if it has any.
fn messages(wanted: &setup::Transfer, draws: &mut Rng) -> Option<TcpMessages> {
    let size = wanted.message;
    match wanted.flow {
        Flow::Bulk { .. } | Flow::Requests { .. } => None,
        Flow::Messages { count, interval } => {
            Some(TcpMessages::periodic(size, interval, u32::try_from(count).unwrap_or(u32::MAX)))
        }
        Flow::Bursts { count, burst, interval, drawn } => {
            let times = bursts::times(count, burst, interval, drawn, draws).into();
            Some(TcpMessages { size, times })
        }
    }
}

/// A transfer between the sender's host and the receiver's, without its start time.
fn transfer(
    setup: &Setup,
    wanted: &setup::Transfer,
    (near, far): (EndpointId, EndpointId),
    pairs: &[(IpAddr, IpAddr)],
    draws: &mut Rng,
) -> Transfer {
    let (from, to) = if wanted.back { (far, near) } else { (near, far) };
    let mut transfer = Transfer::bulk(from, to, wanted.bytes());
    transfer.workload = workload(wanted, draws);
    transfer.message_size = usize::try_from(wanted.message).unwrap_or(usize::MAX);
    let reliability = wanted.large_reliability;
    let large = |(every, bytes)| Large { every, bytes: bytes as usize, reliability };
    transfer.large = wanted.large.map(large);
    transfer.streams = wanted.streams;
    transfer.unordered = !wanted.ordered;
    transfer.eager = wanted.eager;
    transfer.then = if wanted.ends { Then::Shutdown } else { Then::Stay };
    let (near, far) = (Arc::new(setup.sender.clone()), Arc::new(setup.receiver.clone()));
    (transfer.sender, transfer.receiver) = if wanted.back { (far, near) } else { (near, far) };
    let remote = |pair: &(IpAddr, IpAddr)| if wanted.back { pair.0 } else { pair.1 };
    for (path, pair) in pairs.iter().enumerate() {
        let remote = remote(pair);
        let is_there = is_there_at_first(&setup.addresses, path, !wanted.back);
        if is_there && !transfer.remotes.contains(&remote) {
            transfer.remotes.push(remote);
        }
    }
    // The first address is that of the primary path.
    let primary = pairs.get(setup.network.primary).map(remote);
    if let Some(at) = transfer.remotes.iter().position(|remote| Some(*remote) == primary) {
        transfer.remotes[..=at].rotate_right(1);
    }
    if setup.network.primary_only {
        transfer.remotes.truncate(1);
    }
    transfer
}

fn workload(wanted: &setup::Transfer, draws: &mut Rng) -> Workload {
    match wanted.flow {
        Flow::Bursts { count, burst, interval, drawn } => {
            Workload::At(bursts::times(count, burst, interval, drawn, draws).into())
        }
        Flow::Bulk { size } => Workload::Bulk { bytes: size },
        Flow::Messages { count, interval } => Workload::Periodic { interval, messages: count },
        Flow::Requests { count, answer, pause } => Workload::Requests {
            requests: count,
            answer: usize::try_from(answer).unwrap_or(usize::MAX),
            pause,
        },
    }
}

/// Cannot happen with a setup that was read from a file.
pub(super) const UNKNOWN: SimError = SimError::Option {
    option: "setup",
    reason: Cow::Borrowed("names a node or link that is not there"),
};

/// A program cannot run in virtual time; setups for the simulator have none.
const A_PROGRAM: SimError = SimError::Option {
    option: "traffic",
    reason: Cow::Borrowed("goes over a program, which takes the emulator"),
};

/// Adds the routes of all paths and returns their pairs of addresses.
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
        if path.ways.len() > 1 {
            several_ways(setup, net, path, (nodes, links), (local, remote))?;
        } else {
            for (from, to, link, _) in &steps {
                if let Some(router) = nodes.get(*from).filter(|_| *from >= 2) {
                    net.add_route(*router, remote, *link)?;
                }
                if let Some(router) = nodes.get(*to).filter(|_| *to >= 2) {
                    net.add_route(*router, local, *link)?;
                }
            }
        }
        pairs.push((local, remote));
    }
    Ok(pairs)
}

/// Adds the routes of a path whose packets may take several ways: at each router, the next links of all ways.
fn several_ways(
    setup: &Setup,
    net: &mut Network,
    path: &setup::Path,
    (nodes, links): (&[NodeId], &[LinkId]),
    (local, remote): (IpAddr, IpAddr),
) -> Result<(), SimError> {
    let mut hops: BTreeMap<(usize, bool), Vec<(LinkId, u32)>> = BTreeMap::new();
    for way in &path.ways {
        for (index, reversed) in &way.links {
            let (Some(link), Some(id)) = (setup.network.links.get(*index), links.get(*index))
            else {
                return Err(UNKNOWN);
            };
            let (from, to) = if *reversed { (link.to, link.from) } else { (link.from, link.to) };
            for (router, back) in [(from, false), (to, true)] {
                let known = hops.entry((router, back)).or_default();
                match known.iter_mut().find(|(known, _)| known == id) {
                    Some((_, weight)) => *weight += way.weight,
                    None => known.push((*id, way.weight)),
                }
            }
        }
    }
    for ((router, back), hops) in hops.into_iter().filter(|((router, _), _)| *router >= 2) {
        let node = nodes.get(router).copied().ok_or(UNKNOWN)?;
        let (to, spread) = if back { (local, path.spread.1) } else { (remote, path.spread.0) };
        match hops[..] {
            [(only, _)] => net.add_route(node, to, only)?,
            _ => net.add_routes(node, to, &hops, spread)?,
        }
    }
    Ok(())
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
        Change::Delay(delay) => Action::SetDelay { link, direction, delay },
        Change::Mtu(mtu) => Action::SetMtu { link, direction, mtu: Some(mtu) },
    };
    net.schedule(at, action)
}
