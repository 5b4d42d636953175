//! Cross-traffic: the hosts at the ends of a core, and their packets.

use std::net::IpAddr;
use std::time::Duration;

use anabranch_impair::{LinkConfig, Rng};
use anabranch_sim::{
    CrossTraffic, LinkId, LogNormal, Network, NodeId, SimError, TcpConfig, TcpFlow, TrafficPattern,
    WebTraffic,
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

/// Adds hosts at both ends of the core of a path, with sources.
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
    let (near, far) = if reversed { (core.to, core.from) } else { (core.from, core.to) };
    let near = nodes.get(near).copied().ok_or(UNKNOWN)?;
    let far = nodes.get(far).copied().ok_or(UNKNOWN)?;
    // Each side reaches the other over the core.
    let mut hosts = |router, other, delays: &[Duration]| {
        let add = |delay: &Duration| {
            let (host, ip) = add_edge(net, router, cross, *delay)?;
            net.add_route(other, ip, core_id)?;
            Ok(host)
        };
        delays.iter().map(add).collect::<Result<Vec<NodeId>, SimError>>()
    };
    let pairs: Vec<(NodeId, NodeId)> = match &cross.edges {
        Edges::Drawn(count, (least, most)) => {
            let mut pairs = Vec::new();
            for _ in 0..*count {
                let left = hosts(near, far, &[between(*least, *most, draws)])?;
                let right = hosts(far, near, &[between(*least, *most, draws)])?;
                pairs.extend(left.into_iter().zip(right));
            }
            pairs
        }
        Edges::Given(left, right) => {
            let (left, right) = (hosts(near, far, left)?, hosts(far, near, right)?);
            left.iter().flat_map(|left| right.iter().map(|right| (*left, *right))).collect()
        }
    };
    let checksum = damages(&setup.network);
    let directions = [(cross.forward, false), (cross.backward, true)];
    let mut bulk = 0;
    for (_, back) in directions.into_iter().filter(|(wanted, _)| *wanted) {
        let pairs = pairs.iter().map(|pair| if back { (pair.1, pair.0) } else { *pair });
        let sources = match cross.kind {
            CrossKind::Constant { .. } => 1,
            CrossKind::Pareto { sources, .. } => sources,
            CrossKind::Tcp { flows, .. } => flows,
            CrossKind::Mix(mix) => {
                for (from, to) in pairs {
                    add_mix(net, (&mix, checksum), from, to, &mut bulk, draws)?;
                }
                continue;
            }
        };
        for (_, (from, to)) in (0..sources).zip(pairs.cycle()) {
            add_source(net, (cross.kind, checksum), from, to, draws)?;
        }
    }
    Ok(())
}

/// Adds one source of cross-traffic; its segments have checksums if wanted.
fn add_source(
    net: &mut Network,
    (kind, checksum): (CrossKind, bool),
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
        CrossKind::Tcp { packet, profile, start_within, .. } => {
            let mut flow = TcpFlow::greedy(from, to);
            flow.config = TcpConfig::of(profile);
            flow.config.checksum = checksum;
            let options = if flow.config.timestamps { TIMESTAMPS } else { 0 };
            flow.config.mss = (packet - TCP_AND_IP).saturating_sub(options).max(8) as u16;
            flow.start = net.now() + between(Duration::ZERO, start_within, draws);
            net.add_tcp_flow(flow)?;
        }
        CrossKind::Mix(_) => {}
    }
    Ok(())
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
