//! Cross-traffic: the hosts at the ends of a core, and their packets.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use anabranch_impair::{LinkConfig, Rng};
use anabranch_sim::{
    CrossTraffic, Direction, Feed, LinkId, LogNormal, Network, NodeId, SimError, TcpConfig,
    TcpFlow, TrafficPattern, WebTraffic,
};

use super::build::{UNKNOWN, damages};
use crate::setup::{Cross, CrossKind, Edges, Mix, Setup};

/// Bytes of the TCP and IPv4 headers.
const TCP_AND_IP: u64 = 40;
/// Bytes of timestamps in a TCP header (RFC 7323).
const TIMESTAMPS: u64 = 12;
/// Bytes of the IP packets of bulk transfers in a mix.
const LONG_PACKET: u64 = 1500;
const SHORT_PACKET: u64 = 576;

/// Adds hosts at both ends of the core of a path, with sources. Sources that do not react to the network need no hosts: their
/// packets come over feeds.
pub(super) fn add(
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
    let edges = Hosts::of(&cross.edges, draws);
    let directions = [(cross.forward, false), (cross.backward, true)];
    let directions = directions.into_iter().filter(|(wanted, _)| *wanted);
    if let Some(unmoved) = Unmoved::of(cross.kind) {
        for (_, back) in directions {
            let from = edges.pairs.iter().map(|pair| if back { pair.1 } else { pair.0 });
            let from = from.map(|host| (host, edges.delays[host].1));
            let direction = if back == reversed { Direction::Forward } else { Direction::Backward };
            let (rate_bps, delay) = (cross.edge_rate, Duration::ZERO);
            unmoved.add(net, from, Feed { link: core_id, direction, rate_bps, delay })?;
        }
        return Ok(());
    }
    let (near, far) = if reversed { (core.to, core.from) } else { (core.from, core.to) };
    let near = nodes.get(near).copied().ok_or(UNKNOWN)?;
    let far = nodes.get(far).copied().ok_or(UNKNOWN)?;
    // Each side reaches the other over the core.
    let hosts = edges.delays.iter().map(|(is_near, delay)| {
        let (router, other) = if *is_near { (near, far) } else { (far, near) };
        let (host, ip) = add_edge(net, router, cross, *delay)?;
        net.add_route(other, ip, core_id)?;
        Ok(host)
    });
    let hosts = hosts.collect::<Result<Vec<NodeId>, SimError>>()?;
    let pairs: Vec<_> =
        edges.pairs.iter().map(|(one, other)| (hosts[*one], hosts[*other])).collect();
    let checksum = damages(&setup.network);
    let mut bulk = 0;
    for (_, back) in directions {
        let pairs = pairs.iter().map(|pair| if back { (pair.1, pair.0) } else { *pair });
        match cross.kind {
            // They came over feeds, above.
            CrossKind::Constant { .. } | CrossKind::Pareto { .. } => {}
            CrossKind::Tcp { flows, packet, profile, start_within } => {
                for (_, (from, to)) in (0..flows).zip(pairs.cycle()) {
                    let mut flow = TcpFlow::greedy(from, to);
                    flow.config = TcpConfig::of(profile);
                    flow.config.checksum = checksum;
                    let options = if flow.config.timestamps { TIMESTAMPS } else { 0 };
                    flow.config.mss = (packet - TCP_AND_IP).saturating_sub(options).max(8) as u16;
                    flow.start = net.now() + between(Duration::ZERO, start_within, draws);
                    net.add_tcp_flow(flow)?;
                }
            }
            CrossKind::Mix(mix) => {
                for (from, to) in pairs {
                    add_mix(net, (&mix, checksum), from, to, &mut bulk, draws)?;
                }
            }
        }
    }
    Ok(())
}

/// The hosts at both ends of a core, as the delays of their links, and which of them exchange packets.
struct Hosts {
    /// Whether each is at the sender's end, and its delay.
    delays: Vec<(bool, Duration)>,
    /// Each pair has a host of the sender's end first.
    pairs: Vec<(usize, usize)>,
}

impl Hosts {
    fn of(edges: &Edges, draws: &mut Rng) -> Self {
        match edges {
            Edges::Drawn(count, (least, most)) => {
                let pairs = 0..*count as usize;
                let delays = pairs.clone().flat_map(|_| [true, false]);
                let delays = delays.map(|near| (near, between(*least, *most, draws))).collect();
                Self { delays, pairs: pairs.map(|pair| (2 * pair, 2 * pair + 1)).collect() }
            }
            Edges::Given(left, right) => {
                let ends = [(true, left), (false, right)];
                let delays =
                    ends.iter().flat_map(|(near, end)| end.iter().map(|delay| (*near, *delay)));
                let far = left.len()..left.len() + right.len();
                let pairs =
                    (0..left.len()).flat_map(|one| far.clone().map(move |other| (one, other)));
                Self { delays: delays.collect(), pairs: pairs.collect() }
            }
        }
    }
}

/// Sources that do not react to the network: their pattern, sizes of packets, and number.
struct Unmoved {
    pattern: TrafficPattern,
    sizes: Vec<(u32, u32)>,
    sources: u64,
}

impl Unmoved {
    fn of(kind: CrossKind) -> Option<Self> {
        match kind {
            CrossKind::Constant { rate, packet } => Some(Self {
                pattern: TrafficPattern::Constant { rate_bps: rate },
                sizes: vec![(packet as u32, 1)],
                sources: 1,
            }),
            CrossKind::Pareto { rate, sources, shape, on, off } => {
                let share = on.as_secs_f64() / (on + off).as_secs_f64();
                let mean = (rate / sources).max(1);
                let rate_bps = ((mean as f64 / share) as u64).max(1);
                Some(Self {
                    pattern: TrafficPattern::ParetoOnOff {
                        rate_bps,
                        mean_on: on,
                        mean_off: off,
                        shape,
                    },
                    sizes: CrossTraffic::CARO_MIX.to_vec(),
                    sources,
                })
            }
            CrossKind::Tcp { .. } | CrossKind::Mix(_) => None,
        }
    }

    /// Adds them in turns behind the links of these hosts, which load `core`.
    fn add(
        &self,
        net: &mut Network,
        hosts: impl Iterator<Item = (usize, Duration)> + Clone,
        core: Feed,
    ) -> Result<(), SimError> {
        let mut feeds = BTreeMap::new();
        for (_, (host, delay)) in (0..self.sources).zip(hosts.cycle()) {
            let feed = match feeds.get(&host) {
                Some(feed) => *feed,
                None => {
                    let feed = net.add_feed(Feed { delay, ..core })?;
                    feeds.insert(host, feed);
                    feed
                }
            };
            net.add_feed_source(feed, self.pattern, self.sizes.clone(), net.now())?;
        }
        Ok(())
    }
}

/// Adds the applications of a mix from one host to another; `bulk` counts bulk transfers. Answers
/// of web servers flow in the same direction as the other data.
fn add_mix(
    net: &mut Network,
    (mix, checksum): (&Mix, bool),
    from: NodeId,
    to: NodeId,
    bulk: &mut u64,
    draws: &mut Rng,
) -> Result<(), SimError> {
    let mut start = |net: &Network| net.now() + between(Duration::ZERO, mix.start_within, draws);
    if mix.web > 0.0 {
        net.add_web_traffic(WebTraffic {
            client: to,
            server: from,
            rate: mix.web,
            request: LogNormal::REQUESTS,
            answer: LogNormal::ANSWERS,
            start: start(net),
            config: with_sinks(TcpConfig::default(), checksum),
        })?;
    }
    for _ in 0..mix.videos {
        let mut video = CrossTraffic::constant(from, to, mix.video_rate, mix.video_packet as u32);
        video.start = start(net);
        net.add_traffic(video)?;
    }
    for _ in 0..mix.bulk {
        let mut flow = TcpFlow::greedy(from, to);
        // Every tenth transfer, but not the first, so that each direction has some.
        let packet = if *bulk % 10 == 4 { SHORT_PACKET } else { LONG_PACKET };
        flow.config = with_sinks(flow.config, checksum);
        flow.config.mss = (packet - TCP_AND_IP) as u16;
        flow.config.receive_buffer = u32::try_from(mix.bulk_window).unwrap_or(u32::MAX);
        flow.start = start(net);
        net.add_tcp_flow(flow)?;
        *bulk += 1;
    }
    Ok(())
}

/// Receivers that acknowledge each segment, like the sinks of ns-2 (`Agent/TCPSink`), from which the mix comes.
fn with_sinks(mut config: TcpConfig, checksum: bool) -> TcpConfig {
    config.checksum = checksum;
    (config.window_update, config.quick_acks) = (1, 0);
    config
}

/// A random time between two times.
pub(super) fn between(least: Duration, most: Duration, draws: &mut Rng) -> Duration {
    let span = u64::try_from((most - least).as_nanos()).unwrap_or(u64::MAX);
    least + Duration::from_nanos(draws.below(span.saturating_add(1)))
}

/// Adds a host next to a router. Returns its address.
fn add_edge(
    net: &mut Network,
    router: NodeId,
    cross: &Cross,
    delay: Duration,
) -> Result<(NodeId, IpAddr), SimError> {
    let host = net.add_host(&format!("{}.edge", cross.name));
    let link = LinkConfig::new().rate(cross.edge_rate).delay(delay);
    let id = net.connect_both(host, router, link)?;
    let ip = net.addresses_of(host).next().ok_or(UNKNOWN)?;
    net.add_route(router, ip, id)?;
    Ok((host, ip))
}
