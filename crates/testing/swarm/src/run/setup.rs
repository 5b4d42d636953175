//! Sets up a run from the options: the network, the users and the scheduled actions.

use std::net::IpAddr;
use std::time::Duration;

use anabranch_impair::{LinkConfig, Loss, Probability, Rng};
use anabranch_proto::config::Routes;
use anabranch_proto::{EndpointConfig, Instant};
use anabranch_testnet::{Network, Verdict};

use super::byte_streams::ByteUser;
use super::{Action, Run, User, elsewhere};
use crate::Report;
use crate::options::{Draw, Kind, Options, Reader};
use crate::oracle::Oracle;
use crate::sealed::SealedPaths;

/// Random stream for the packets of a third party.
const STRANGER: u64 = 98;

impl Run {
    pub(super) fn new(options: Options, print: bool) -> Self {
        let (net, sealed) = Self::network(&options, print);
        let start = net.now();
        let addresses = [0, 1].map(|node| match &sealed {
            Some(sealed) => sealed.addresses(node),
            None => options.addresses[node].clone(),
        });
        let byte_users = options.byte_streams.as_ref().map(|traffic| {
            [0, 1].map(|node| {
                let buffer = options.configs[node].receiving.first_receive_buffer();
                ByteUser::new(options.seed, node, traffic.clone(), buffer, start)
            })
        });
        let mut run = Self {
            stranger: Draw(Rng::stream(options.seed, STRANGER)),
            net,
            addresses,
            sealed,
            oracle: Oracle::default(),
            users: [0, 1].map(|node| User::new(&options, node, start)),
            byte_users,
            report: Report { runs: 1, ..Report::default() },
            actions: actions(&options, start).into(),
            rebooted: false,
            aborted: false,
            healthy: None,
            steps: 0,
            options,
        };
        run.listen(1);
        if run.options.kind == Kind::Collision {
            run.listen(0);
        }
        run
    }

    /// Creates the nodes, the links between them, and the seal, if there is one.
    fn network(options: &Options, print: bool) -> (Network, Option<SealedPaths>) {
        let fallback = LinkConfig::new().loss(Loss::Uniform(Probability::ONE));
        let mut net = Network::new(fallback, options.seed);
        net.max_segments = options.max_segments;
        net.batches = options.batches;
        net.lateness = options.lateness;
        net.send_errors = options.send_errors;
        net.unreachable = options.unreachable;
        if print {
            net.trace.print();
        }
        let first = [0, 1].map(|node| Self::first_addresses(options, node));
        let sealed = SealedPaths::new(options, net.now(), first);
        for (node, first) in first.iter().enumerate() {
            let config = Self::endpoint(options, node);
            let addresses = match &sealed {
                Some(sealed) => sealed.present(node),
                None => first.to_vec(),
            };
            net.add_node(config, endpoint_seed(options, node as u8), &addresses);
        }
        if let Some(sealed) = &sealed {
            net.set_layer(sealed.clone());
        }
        if options.other_host.is_some() {
            add_other_host(&mut net, options);
        }
        set_links(&mut net, options);
        if let Some((node, kind, by)) = options.straggler {
            let mut gone = false;
            net.script(move |sight| {
                let first = sight.node == node && sight.has(kind) && !gone;
                gone |= first;
                if first { Verdict::Delay(by) } else { Verdict::Pass }
            });
        }
        (net, sealed)
    }

    /// Options of a node's endpoint. Node 0 has a route to another host if it is to try that.
    pub(super) fn endpoint(options: &Options, node: usize) -> EndpointConfig {
        let mut config = options.endpoints[node].clone();
        if let (0, Some(_), Routes::Pairs(pairs)) = (node, options.other_host, &mut config.routes) {
            let near = options.addresses[0][0];
            pairs.push((near, elsewhere(near)));
        }
        config
    }

    /// The initial addresses of a node.
    fn first_addresses(options: &Options, node: usize) -> &[IpAddr] {
        let all = &options.addresses[node];
        match options.reboot {
            Some((late, ..)) if options.late_address && late == node => &all[..all.len() - 1],
            _ => all,
        }
    }
}

impl User {
    fn new(options: &Options, node: usize, start: Instant) -> Self {
        Self {
            ends: Vec::new(),
            draw: Draw(Rng::stream(options.seed, 100 + node as u64)),
            traffic: options.traffic[node].clone(),
            reader: options.readers[node],
            next_send: Some(start),
            next_read: match options.readers[node] {
                Reader::Slow { every, .. } => Some(start + every),
                Reader::Eager | Reader::Stalled => None,
            },
            kept: Vec::new(),
            messages: 0,
            bytes: 0,
        }
    }
}

/// The seed of a node's endpoint.
fn endpoint_seed(options: &Options, node: u8) -> [u8; 32] {
    let mut bytes = [node; 32];
    bytes[..8].copy_from_slice(&options.seed.to_le_bytes());
    bytes
}

/// Adds a third host that node 0 tries to reach. It listens on no port, and answers accordingly.
fn add_other_host(net: &mut Network, options: &Options) {
    let near = options.addresses[0][0];
    let other = elsewhere(near);
    let mut config = EndpointConfig::default();
    config.encapsulation = options.endpoints[0].encapsulation;
    net.add_node(config, endpoint_seed(options, 2), &[other]);
    for (from, to) in [(near, other), (other, near)] {
        net.set_link(from, to, LinkConfig::new().delay(Duration::from_millis(10)));
    }
}

/// Configures both directions of all links; cuts count from now.
fn set_links(net: &mut Network, options: &Options) {
    let start = net.now().as_nanos();
    for ((a, b), spec) in &options.links {
        for (from, to, config) in [(*a, *b, &spec.directions[0]), (*b, *a, &spec.directions[1])] {
            let mut config = config.clone();
            for cut in &mut config.cuts {
                cut.at += start;
                cut.until = cut.until.map(|until| until + start);
            }
            net.set_link(from, to, config);
            net.set_mtu(from, to, spec.mtu);
            net.set_swallows_ecn(from, to, spec.swallows_ecn);
        }
    }
}

/// The scheduled actions in order of time.
fn actions(options: &Options, start: Instant) -> Vec<(Instant, Action)> {
    let mut actions = vec![(start, Action::Connect(0))];
    if options.kind == Kind::Collision {
        let later = Rng::stream(options.seed, 99).below(100_000_000);
        actions.push((start + Duration::from_nanos(later), Action::Connect(1)));
    }
    if let Some((node, at, _)) = options.reboot {
        actions.push((start + at, Action::Reboot(node)));
    }
    if let Some((node, at)) = options.abort {
        actions.push((start + at, Action::Abort(node)));
    }
    for node in 0..2 {
        actions.extend(options.shutdown[node].map(|at| (start + at, Action::Shutdown(node))));
    }
    for (index, (_, spec)) in options.links.iter().enumerate() {
        actions.extend(spec.mtu_change.map(|(at, _)| (start + at, Action::Mtu(index))));
    }
    for (index, (_, at, _)) in options.whims.iter().enumerate() {
        actions.push((start + *at, Action::Whim(index)));
    }
    for (node, address, at, length) in &options.vanishing {
        actions.push((start + *at, Action::Address(*node, *address, false)));
        actions.push((start + *at + *length, Action::Address(*node, *address, true)));
    }
    for (node, at) in &options.forged {
        actions.push((start + *at, Action::Forge(*node)));
    }
    if let Some(sealing) = &options.sealing {
        let moves = sealing.moves.iter();
        actions.extend(moves.map(|(uplink, at)| (start + *at, Action::Move(*uplink))));
        let crowds = sealing.crowds.iter();
        actions.extend(crowds.map(|(count, at)| (start + *at, Action::Crowd(*count))));
    }
    actions.extend(options.rude.iter().map(|at| (start + *at, Action::Rude)));
    // The sort is stable: actions at the same time keep the order above.
    actions.sort_by_key(|(at, _)| *at);
    actions
}
