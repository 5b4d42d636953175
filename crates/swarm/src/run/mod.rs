//! One run.

mod judge;
mod rude;
mod stranger;
mod users;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use anabranch_impair::Rng;
use anabranch_proto::config::Routes;
use anabranch_proto::{AssociationId, CloseReason, ConnectRequest, EndpointConfig, Event, Instant};

use crate::network::Network;
use crate::options::{Draw, Kind, Options, Reader, Traffic};
use crate::oracle::Oracle;
use crate::{Report, Verdict};

/// SCTP ports of node 0 and node 1.
const PORTS: [u16; 2] = [5000, 7];
/// Address of a host of which the nodes need not know.
fn elsewhere(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::new(10, 200, 0, 9).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0x2001, 0xdb8, 200, 0, 0, 0, 0, 9).into(),
    }
}

/// Virtual time within which everything must have come to its end once the network is healthy.
const PATIENCE: Duration = Duration::from_secs(20_000);

/// Steps that a run may take; the longest of 3,000 takes 190,800.
const STEPS: u64 = 20_000_000;

/// One end of an association, as its node's user sees it.
#[derive(Debug)]
struct End {
    id: AssociationId,
    /// Its node began it.
    own: bool,
    up: bool,
    streams: u16,
    closed: Option<(CloseReason, Instant)>,
    shut: Option<Instant>,
    reading: bool,
}

#[derive(Debug)]
struct User {
    ends: Vec<End>,
    draw: Draw,
    traffic: Traffic,
    reader: Reader,
    next_send: Option<Instant>,
    next_read: Option<Instant>,
    /// Read and not yet given back: association and charge.
    kept: Vec<(AssociationId, u32)>,
    messages: u32,
    bytes: usize,
}

/// A stream of random numbers for what a stranger sends.
const STRANGER: u64 = 98;

struct Run {
    options: Options,
    net: Network,
    oracle: Oracle,
    users: [User; 2],
    report: Report,
    actions: VecDeque<(Instant, Action)>,
    rebooted: bool,
    aborted: bool,
    healthy: Option<Instant>,
    stranger: Draw,
    steps: u64,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Connect(usize),
    Reconnect(usize),
    Reboot(usize),
    Abort(usize),
    Shutdown(usize),
    Mtu(usize),
    Whim(usize),
    /// A node's address of this number vanishes, or comes back.
    Address(usize, usize, bool),
    Forge(usize),
    Rude,
}

/// Runs everything that `options` say. `print` prints every packet and event.
///
/// # Panics
/// If anything happens that must not.
pub fn run(options: Options, print: bool) -> Report {
    let mut run = Run::new(options, print);
    run.faults();
    run.recover();
    run.end();
    run.sum_up()
}

impl Run {
    fn new(options: Options, print: bool) -> Self {
        let fallback = anabranch_impair::LinkConfig::new()
            .loss(anabranch_impair::Loss::Uniform(anabranch_impair::Probability::ONE));
        let mut net = Network::new(fallback, options.seed);
        net.max_segments = options.max_segments;
        net.batches = options.batches;
        net.lateness = options.lateness;
        net.send_errors = options.send_errors;
        net.unreachable = options.unreachable;
        if print {
            net.trace.print();
        }
        let seed = |node: u8| {
            let mut bytes = [node; 32];
            bytes[..8].copy_from_slice(&options.seed.to_le_bytes());
            bytes
        };
        for node in 0..2 {
            net.add_node(
                Self::endpoint(&options, node),
                seed(node as u8),
                Self::first_addresses(&options, node),
            );
        }
        let start = net.now();
        if options.other_host.is_some() {
            // It listens on no port, and says so.
            let near = options.addresses[0][0];
            let other = elsewhere(near);
            let mut config = EndpointConfig::default();
            config.encapsulation = options.endpoints[0].encapsulation;
            net.add_node(config, seed(2), &[other]);
            for (from, to) in [(near, other), (other, near)] {
                let link = anabranch_impair::LinkConfig::new().delay(Duration::from_millis(10));
                net.set_link(from, to, link);
            }
        }
        for ((a, b), spec) in &options.links {
            for (from, to, config) in [(*a, *b, &spec.directions[0]), (*b, *a, &spec.directions[1])]
            {
                let mut config = config.clone();
                for cut in &mut config.cuts {
                    cut.at += start.as_nanos();
                    cut.until = cut.until.map(|until| until + start.as_nanos());
                }
                net.set_link(from, to, config);
                net.set_mtu(from, to, spec.mtu);
            }
        }
        if let Some((node, kind, by)) = options.straggler {
            let mut gone = false;
            net.script(move |sight| {
                let first = sight.node == node && sight.has(kind) && !gone;
                gone |= first;
                if first { Verdict::Delay(by) } else { Verdict::Pass }
            });
        }
        let users = [0, 1].map(|node: usize| User {
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
        });
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
        actions.extend(options.rude.iter().map(|at| (start + *at, Action::Rude)));
        actions.sort_by_key(|(at, _)| *at);
        let stranger = Draw(Rng::stream(options.seed, STRANGER));
        let mut run = Self {
            stranger,
            options,
            net,
            oracle: Oracle::default(),
            users,
            report: Report { runs: 1, ..Report::default() },
            actions: actions.into(),
            rebooted: false,
            aborted: false,
            healthy: None,
            steps: 0,
        };
        run.listen(1);
        if run.options.kind == Kind::Collision {
            run.listen(0);
        }
        run
    }

    /// Options of a node's endpoint: node 0 has a way to another host if it is to try that.
    fn endpoint(options: &Options, node: usize) -> EndpointConfig {
        let mut config = options.endpoints[node].clone();
        if let (0, Some(_), Routes::Pairs(pairs)) = (node, options.other_host, &mut config.routes) {
            let near = options.addresses[0][0];
            pairs.push((near, elsewhere(near)));
        }
        config
    }

    /// The addresses that a node has at first.
    fn first_addresses(options: &Options, node: usize) -> &[IpAddr] {
        let all = &options.addresses[node];
        match options.reboot {
            Some((late, ..)) if options.late_address && late == node => &all[..all.len() - 1],
            _ => all,
        }
    }

    fn listen(&mut self, node: usize) {
        let config = Arc::new(self.options.configs[node].clone());
        let endpoint = &mut self.net.node_mut(node).endpoint;
        endpoint.listen(PORTS[node], config).expect("a valid configuration");
    }

    /// First phase.
    fn faults(&mut self) {
        let end = self.net.now() + self.options.faults;
        self.advance(end, |_| false);
    }

    /// Second phase: the network is healthy, and all is delivered.
    fn recover(&mut self) {
        let now = self.net.now();
        self.healthy = Some(now);
        self.net.trace.note(now, format_args!("the network is healthy"));
        self.net.lateness = Duration::ZERO;
        self.net.send_errors = anabranch_impair::Probability::ZERO;
        self.net.unreachable = anabranch_impair::Probability::ZERO;
        // Crossed paths that do not exist stay dead.
        let delay = Duration::from_millis(10);
        for ((a, b), _) in self.options.links.clone() {
            for (from, to) in [(a, b), (b, a)] {
                self.net.set_link(from, to, anabranch_impair::LinkConfig::new().delay(delay));
                self.net.set_mtu(from, to, None);
            }
        }
        let gone: Vec<_> =
            (self.options.vanishing.iter()).map(|(node, address, ..)| (*node, *address)).collect();
        self.actions.retain(|(_, action)| !matches!(action, Action::Address(..)));
        gone.into_iter().for_each(|(node, address)| self.address(node, address, true));
        for user in &mut self.users {
            user.reader = Reader::Eager;
            user.next_read = None;
            user.next_send = None;
        }
        for node in 0..2 {
            self.read(node, u32::MAX);
        }
        let limit = now + PATIENCE;
        let done = self.advance(limit, |run| run.is_delivered());
        if !done {
            judge::lost(format_args!("not everything was delivered: {}", self.what_is_left()));
        }
    }

    /// Everything is shut down, and all timers end.
    fn end(&mut self) {
        let now = self.net.now();
        let which = self.users[0].draw.between(1, 3);
        for node in 0..2 {
            if which & (1 << node) != 0 || self.open(1 - node).is_empty() {
                self.shutdown(node);
            }
        }
        let mut limit = now + Duration::from_secs(1000);
        let one = self.advance(limit, |run| run.all_closed());
        if !one {
            // One end may never have heard of the other's end: it finds out when it shuts down.
            (0..2).for_each(|node| self.shutdown(node));
            limit = self.net.now() + PATIENCE;
            let both = self.advance(limit, |run| run.all_closed());
            assert!(both, "not closed: {}", self.what_is_left());
        }
        self.judge();
        for node in 0..2 {
            let ids: Vec<_> = self.net.node(node).endpoint.associations().collect();
            for id in ids {
                let association = self.net.node(node).endpoint.association(id);
                let used = association.map(|a| a.statistics().receive_buffer_used);
                // An end that was cut short may hold parts of messages.
                let graceful = self.users[node].ends.iter().any(|end| {
                    let shut = matches!(&end.closed, Some((CloseReason::Shutdown, _)));
                    end.id == id && shut
                });
                assert!(!graceful || used == Some(0), "node {node} holds {used:?} at the end");
                self.net.node_mut(node).endpoint.remove(id);
            }
        }
        // A cookie on its way may have made an association whose peer knows nothing of it, and
        // keeps silent about packets out of the blue.
        self.wait_for_silence();
        for node in 0..2 {
            // Without heartbeats it never learns of that, and may go on looking for its path MTU.
            let endpoint = &mut self.net.node_mut(node).endpoint;
            let ids: Vec<_> = endpoint.associations().collect();
            for id in ids {
                let association = endpoint.association(id);
                if association.is_some_and(|a| a.config().heartbeat_interval.is_none()) {
                    endpoint.remove(id);
                }
            }
        }
        self.wait_for_silence();
        assert_eq!(self.net.next(), None, "a timer runs for ever");
    }

    /// Goes on until nothing happens any more, or too long.
    fn wait_for_silence(&mut self) {
        let limit = self.net.now() + PATIENCE;
        while self.step(limit) {}
    }

    /// Goes on to the next thing that happens, but not beyond `limit`.
    fn step(&mut self, limit: Instant) -> bool {
        self.steps += 1;
        assert!(self.steps < STEPS, "a run without end, at {:?}", self.net.now());
        self.net.step(limit)
    }

    /// Goes on until `done`; `false` if it was not until `limit`.
    fn advance(&mut self, limit: Instant, mut done: impl FnMut(&Self) -> bool) -> bool {
        loop {
            self.net.settle();
            self.events();
            self.users_turn();
            if done(self) {
                return true;
            }
            let user = |user: &User| [user.next_send, user.next_read].into_iter().flatten().min();
            let wakes = self.users.iter().filter_map(user);
            let action = self.actions.front().map(|(at, _)| *at);
            let wake = wakes.chain(action).min().unwrap_or(limit).min(limit);
            let more = self.step(wake);
            if !more && wake >= limit {
                self.events();
                return done(self);
            }
        }
    }

    /// Does what the users and the script have to do now.
    fn users_turn(&mut self) {
        let now = self.net.now();
        while self.actions.front().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, action)) = self.actions.pop_front() {
                self.act(action);
            }
        }
        for node in 0..2 {
            let user = &mut self.users[node];
            if user.next_read.is_some_and(|at| at <= now)
                && let Reader::Slow { count, every } = user.reader
            {
                user.next_read = Some(now + every);
                self.give_back(node);
                self.read(node, count);
            }
            if self.users[node].next_send.is_some_and(|at| at <= now) {
                self.users[node].next_send = Some(now + self.users[node].traffic.pause);
                self.send(node);
            }
        }
        self.net.settle();
        self.events();
    }

    fn act(&mut self, action: Action) {
        let now = self.net.now();
        self.net.trace.note(now, format_args!("{action:?}"));
        match action {
            Action::Connect(node) => self.connect(node, Some(PORTS[node])),
            Action::Reconnect(node) => {
                self.report.reconnects += 1;
                let same_port = self.options.reconnect.is_some_and(|(_, same)| same);
                if same_port {
                    // To a peer that has not noticed the end this is a restart.
                    self.rebooted = true;
                    self.oracle.lost_state();
                }
                self.connect(node, same_port.then_some(PORTS[node]));
            }
            Action::Reboot(node) => {
                self.report.reboots += 1;
                self.rebooted = true;
                let mut seed = [node as u8 + 10; 32];
                seed[..8].copy_from_slice(&self.options.seed.to_le_bytes());
                self.net.set_addresses(node, &self.options.addresses[node]);
                self.net.reboot(node, Self::endpoint(&self.options, node), seed);
                self.oracle.lost_state();
                let user = &mut self.users[node];
                user.ends.clear();
                user.kept.clear();
                if node == 1 || self.options.kind == Kind::Collision {
                    self.listen(node);
                }
                if let Some((_, _, away)) = self.options.reboot
                    && self.connects(node)
                {
                    self.schedule(now + away, Action::Connect(node));
                }
            }
            Action::Abort(node) => {
                self.aborted = true;
                for id in self.open(node) {
                    self.report.aborts += 1;
                    let endpoint = &mut self.net.node_mut(node).endpoint;
                    if let Some(mut association) = endpoint.association_mut(now, id) {
                        association.abort(now, b"the swarm says so");
                    }
                }
            }
            Action::Shutdown(node) => self.shutdown(node),
            Action::Mtu(index) => {
                let ((a, b), spec) = &self.options.links[index];
                let (a, b, mtu) = (*a, *b, spec.mtu_change.map(|(_, mtu)| mtu));
                if self.healthy.is_none() {
                    self.net.set_mtu(a, b, mtu);
                    self.net.set_mtu(b, a, mtu);
                }
            }
            Action::Whim(index) => self.whim(index),
            Action::Address(node, number, usable) => self.address(node, number, usable),
            Action::Forge(node) => self.forge(node),
            Action::Rude => self.rude(),
        }
    }

    /// A node's address vanishes with all that its links carry, or comes back.
    fn address(&mut self, node: usize, number: usize, usable: bool) {
        let now = self.net.now();
        let local = self.options.addresses[node][number];
        self.report.vanished += u64::from(!usable);
        for remote in self.options.addresses[1 - node].clone() {
            self.net.set_up(local, remote, usable);
            self.net.set_up(remote, local, usable);
        }
        self.net.node_mut(node).endpoint.handle_local_address(now, local, usable);
    }

    /// Whether a node begins associations.
    fn connects(&self, node: usize) -> bool {
        node == 0 || self.options.kind == Kind::Collision
    }

    fn schedule(&mut self, at: Instant, action: Action) {
        let place = self.actions.partition_point(|(other, _)| *other <= at);
        self.actions.insert(place, (at, action));
    }

    fn connect(&mut self, node: usize, port: Option<u16>) {
        let mut remotes = self.options.addresses[1 - node].clone();
        if let (0, true, Some(last)) = (node, self.options.twice, remotes.pop()) {
            self.connect_to(node, port, vec![last]);
            remotes.truncate(1);
        } else {
            remotes = self.options.addresses[1 - node].clone();
        }
        if let (0, Some(place)) = (node, self.options.other_host) {
            let other = elsewhere(self.options.addresses[0][0]);
            remotes.insert(place.min(remotes.len()), other);
        }
        self.connect_to(node, port, remotes);
    }

    fn connect_to(&mut self, node: usize, port: Option<u16>, remotes: Vec<IpAddr>) {
        let now = self.net.now();
        let peer = 1 - node;
        let mut request = ConnectRequest::new(remotes, PORTS[peer]);
        request.local_port = port;
        request.remote_udp_port = self.net.node(peer).udp_port;
        request.config = Arc::new(self.options.configs[node].clone());
        // In a collision the peer's INIT may have come first.
        match self.net.node_mut(node).endpoint.connect(now, request) {
            Ok(id) => self.users[node].ends.push(End::new(id, true)),
            Err(error) => {
                let again = self.rebooted || self.report.reconnects > 0;
                let known = again || self.options.kind == Kind::Collision;
                // With an address less there may be none of the family of its peer's last one.
                assert!(known || self.options.late_address, "connect failed: {error}");
            }
        }
    }

    fn open(&self, node: usize) -> Vec<AssociationId> {
        let open = self.users[node].ends.iter().filter(|end| end.closed.is_none());
        open.map(|end| end.id).collect()
    }

    fn shutdown(&mut self, node: usize) {
        let now = self.net.now();
        for id in self.open(node) {
            let endpoint = &mut self.net.node_mut(node).endpoint;
            if let Some(mut association) = endpoint.association_mut(now, id) {
                association.shutdown(now);
            }
            if let Some(end) = self.users[node].end(id) {
                end.shut.get_or_insert(now);
            }
        }
    }

    fn events(&mut self) {
        for node in 0..2 {
            while let Some((id, event)) = self.net.node_mut(node).events.pop_front() {
                self.event(node, id, event);
            }
        }
    }

    fn event(&mut self, node: usize, id: AssociationId, event: Event) {
        if self.is_rude(node, id, &event) {
            return;
        }
        let now = self.net.now();
        match event {
            Event::Connected { incoming, outbound_streams, .. } => {
                if self.users[node].end(id).is_none() {
                    assert!(incoming, "an association that nobody asked for");
                    self.users[node].ends.push(End::new(id, false));
                }
                self.report.associations += 1;
                let end = self.users[node].end(id).expect("just added");
                assert!(!end.up, "connected twice");
                assert!(end.closed.is_none(), "connected after its end");
                end.up = true;
                end.streams = outbound_streams;
                // An end that gave up before it was up may still owe a reading.
                end.reading = true;
            }
            Event::Restarted => {
                assert!(self.rebooted, "a restart that never was");
                self.report.restarts += 1;
                self.oracle.restarted(id, node);
            }
            Event::Readable if self.users[node].reader == Reader::Eager => {
                self.read(node, u32::MAX);
            }
            Event::SendFailed { message, sent } => {
                let judged = self.oracle.failed(&message, sent);
                judged.unwrap_or_else(|what| panic!("node {node}: {what}"));
            }
            Event::PathChanged { .. } => self.report.path_changes += 1,
            Event::Closed(reason) => {
                if let CloseReason::ProtocolViolation(what) = &reason {
                    panic!("node {node} holds its peer for broken: {what}");
                }
                if self.users[node].end(id).is_none() {
                    self.users[node].ends.push(End::new(id, false));
                }
                let end = self.users[node].end(id).expect("just added");
                assert!(end.closed.is_none(), "closed twice");
                let failed = !matches!(reason, CloseReason::Shutdown | CloseReason::LocalAbort);
                end.closed = Some((reason, now));
                // One for one: if the peer's ends counted, too, there would be ever more of them.
                if let Some((wait, _)) = self.options.reconnect
                    && failed
                    && end.own
                    && self.healthy.is_none()
                {
                    self.schedule(now + wait, Action::Reconnect(node));
                }
                let association = self.net.node(node).endpoint.association(id);
                if let Some(counters) = association.map(|a| a.statistics().counters) {
                    self.report.timeouts += counters.t3_timeouts;
                    self.report.fast_recoveries += counters.fast_recoveries;
                    self.report.window_probes += counters.zero_window_probes;
                }
                if self.users[node].reader != Reader::Stalled {
                    self.read(node, u32::MAX);
                }
            }
            _ => {}
        }
    }

    /// Whether nothing is on its way any more.
    fn is_delivered(&self) -> bool {
        self.actions.is_empty()
            && (0..2).all(|node| {
                self.users[node].ends.iter().all(|end| {
                    let hopeless = end.closed.is_some() || self.peer_is_gone(node);
                    hopeless || self.oracle.pending(node, end.id).next().is_none()
                })
            })
    }

    /// Whether the other node has no open association.
    fn peer_is_gone(&self, node: usize) -> bool {
        self.open(1 - node).is_empty()
    }

    fn all_closed(&self) -> bool {
        (0..2).all(|node| self.open(node).is_empty())
    }
}

impl User {
    fn end(&mut self, id: AssociationId) -> Option<&mut End> {
        self.ends.iter_mut().find(|end| end.id == id)
    }
}

impl End {
    fn new(id: AssociationId, own: bool) -> Self {
        Self { id, own, up: false, streams: 1, closed: None, shut: None, reading: false }
    }
}
