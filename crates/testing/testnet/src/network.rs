//! Nodes, links between their addresses, and virtual time.

mod below;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use anabranch_impair::{Link, LinkConfig, LinkStats, Probability, Rng, SendOutcome};
use anabranch_proto::{
    AssociationId, Encapsulation, Endpoint, EndpointConfig, Event, IcmpKind, IcmpMessage, Instant,
    PathStatistics, Transmit,
};
use anabranch_wire::{Packet, kind};
use bytes::Bytes;

use crate::pump::{self, Batch};
use crate::{Datagram, Layer, Sight, Trace, Verdict};

/// A host: one endpoint with its addresses.
#[derive(Debug)]
pub struct Node {
    /// The engine.
    pub endpoint: Endpoint,
    /// Addresses of the host.
    pub addresses: Vec<IpAddr>,
    /// Events that have not been read yet.
    pub events: VecDeque<(AssociationId, Event)>,
    /// The UDP port under which others see and reach it; 0 for IP protocol 132. If it changes, a NAT has forgotten the
    /// old one.
    pub udp_port: u16,
    encapsulation: Encapsulation,
    /// Bytes that a layer below adds to each packet.
    shim: usize,
}

/// Largest IP packet of one direction of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathMtu {
    /// Size of the IP packet in bytes.
    pub mtu: u16,
    /// Whether the router reports a packet that it drops.
    pub icmp: bool,
}

#[derive(Debug)]
struct Wire {
    link: Link<Datagram>,
    mtu: Option<PathMtu>,
    /// A packet that waits for the next one in its direction, at most until this time.
    held: Option<(Instant, Datagram)>,
    too_big: u64,
    /// ECN-capable packets vanish.
    swallows_ecn: bool,
}

type Script = Box<dyn FnMut(&Sight<'_>) -> Verdict>;

/// Endpoints and the network between them.
pub struct Network {
    now: Instant,
    nodes: Vec<Node>,
    owners: BTreeMap<IpAddr, usize>,
    wires: BTreeMap<(IpAddr, IpAddr), Wire>,
    fallback: LinkConfig,
    seed: u64,
    script: Option<Script>,
    layer: Option<Box<dyn Layer>>,
    /// Packets that a script delays, and ICMP messages in flight.
    later: BTreeMap<(Instant, u64), Later>,
    sequence: u64,
    /// Maximum number of segments that one call of `poll_transmit` may fill.
    pub max_segments: usize,
    /// Whether packets that arrive from one source at the same time are delivered as one batch.
    pub batches: bool,
    /// How late timers are handled.
    pub lateness: Duration,
    /// Probability that the host cannot send a packet and reports that.
    pub send_errors: Probability,
    /// Probability that a router drops a packet with 'destination unreachable'.
    pub unreachable: Probability,
    /// The type of the router's message.
    pub unreachable_kind: IcmpKind,
    /// Minimum interval between two such messages to one address, like the rate limit of real hosts. Packets dropped in
    /// between are not reported.
    pub unreachable_every: Duration,
    /// When each address was last notified.
    told: BTreeMap<IpAddr, Instant>,
    draws: Rng,
    /// Number of packets that the host could not send or a router refused.
    pub refused: u64,
    /// Whether to check invariants after every step; needs the feature with that name.
    pub check: bool,
    /// The record of the packets sent.
    pub trace: Trace,
    quiet: u32,
}

#[derive(Debug)]
enum Later {
    Packet(Datagram),
    Icmp { node: usize, local: IpAddr, remote: IpAddr, kind: IcmpKind, quoted: Bytes },
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("now", &self.now).field("nodes", &self.nodes).finish()
    }
}

impl Network {
    /// A network without nodes. Links use the configuration `fallback` unless set otherwise; `seed` determines their
    /// randomness.
    pub fn new(fallback: LinkConfig, seed: u64) -> Self {
        Self {
            now: Instant::from_nanos(1_000_000_000),
            nodes: Vec::new(),
            owners: BTreeMap::new(),
            wires: BTreeMap::new(),
            fallback,
            seed,
            script: None,
            layer: None,
            later: BTreeMap::new(),
            sequence: 0,
            max_segments: 8,
            batches: false,
            lateness: Duration::ZERO,
            send_errors: Probability::ZERO,
            unreachable: Probability::ZERO,
            unreachable_kind: IcmpKind::OtherUnreachable,
            unreachable_every: Duration::ZERO,
            told: BTreeMap::new(),
            draws: Rng::stream(seed, 55),
            refused: 0,
            check: true,
            trace: Trace::default(),
            quiet: 0,
        }
    }

    /// Adds a host and returns its number.
    pub fn add_node(
        &mut self,
        config: EndpointConfig,
        seed: [u8; 32],
        addresses: &[IpAddr],
    ) -> usize {
        let (encapsulation, shim) = (config.encapsulation, usize::from(config.shim));
        let mut endpoint = Endpoint::new(config, seed);
        endpoint.set_local_addresses(self.now, addresses);
        let udp_port = if encapsulation == Encapsulation::Udp { 9899 } else { 0 };
        self.nodes.push(Node {
            endpoint,
            addresses: addresses.to_vec(),
            events: VecDeque::new(),
            udp_port,
            encapsulation,
            shim,
        });
        let node = self.nodes.len() - 1;
        self.owners.extend(addresses.iter().map(|address| (*address, node)));
        node
    }

    /// Sets the addresses that the host will have after its next loss of state.
    pub fn set_addresses(&mut self, node: usize, addresses: &[IpAddr]) {
        self.owners.retain(|_, owner| *owner != node);
        self.owners.extend(addresses.iter().map(|address| (*address, node)));
        self.nodes[node].addresses = addresses.to_vec();
    }

    /// Makes the host lose all its state and start again with its addresses.
    pub fn reboot(&mut self, node: usize, config: EndpointConfig, seed: [u8; 32]) {
        let state = &mut self.nodes[node];
        state.endpoint = Endpoint::new(config, seed);
        state.endpoint.set_local_addresses(self.now, &state.addresses);
        state.events.clear();
    }

    /// Virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// A host.
    pub fn node(&self, node: usize) -> &Node {
        &self.nodes[node]
    }

    /// A mutable host. Call [`settle`](Self::settle) afterwards.
    pub fn node_mut(&mut self, node: usize) -> &mut Node {
        &mut self.nodes[node]
    }

    /// Number of hosts.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Asks `script` about every packet from now on.
    pub fn script(&mut self, script: impl FnMut(&Sight<'_>) -> Verdict + 'static) {
        self.script = Some(Box::new(script));
    }

    /// Stops asking the script.
    pub fn end_script(&mut self) {
        self.script = None;
    }

    fn wire(&mut self, from: IpAddr, to: IpAddr) -> &mut Wire {
        let (fallback, seed) = (&self.fallback, self.seed);
        let number = self.wires.len() as u64;
        self.wires.entry((from, to)).or_insert_with(|| Wire {
            link: Link::new(fallback.clone(), seed.wrapping_add(number * 7919))
                .expect("a valid link configuration"),
            mtu: None,
            held: None,
            too_big: 0,
            swallows_ecn: false,
        })
    }

    /// Configures one direction.
    pub fn set_link(&mut self, from: IpAddr, to: IpAddr, config: LinkConfig) {
        let now = self.now.as_nanos();
        self.wire(from, to).link.set_config(now, config).expect("a valid link configuration");
    }

    /// Configures all directions, existing and future ones.
    pub fn set_links(&mut self, config: LinkConfig) {
        let now = self.now.as_nanos();
        for wire in self.wires.values_mut() {
            wire.link.set_config(now, config.clone()).expect("a valid link configuration");
        }
        self.fallback = config;
    }

    /// Cuts or repairs one direction.
    pub fn set_up(&mut self, from: IpAddr, to: IpAddr, up: bool) {
        let now = self.now.as_nanos();
        self.wire(from, to).link.set_up(now, up);
    }

    /// Sets the path MTU of one direction.
    pub fn set_mtu(&mut self, from: IpAddr, to: IpAddr, mtu: Option<PathMtu>) {
        self.wire(from, to).mtu = mtu;
    }

    /// Sets whether ECN-capable packets vanish in one direction.
    pub fn set_swallows_ecn(&mut self, from: IpAddr, to: IpAddr, swallows: bool) {
        self.wire(from, to).swallows_ecn = swallows;
    }

    /// Counters of every direction.
    pub fn link_stats(&self) -> impl Iterator<Item = (IpAddr, IpAddr, &LinkStats)> + '_ {
        self.wires.iter().map(|((from, to), wire)| (*from, *to, wire.link.stats()))
    }

    /// Packets dropped because of their size.
    pub fn too_big(&self) -> u64 {
        self.wires.values().map(|wire| wire.too_big).sum()
    }

    /// Repairs everything: perfect links with this delay, no cuts, no script. Packets in flight continue.
    pub fn heal(&mut self, delay: Duration) {
        self.script = None;
        self.set_links(LinkConfig::new().delay(delay));
        let now = self.now.as_nanos();
        for wire in self.wires.values_mut() {
            wire.link.set_up(now, true);
            wire.mtu = None;
            wire.swallows_ecn = false;
        }
    }

    /// Collects all output of all nodes, puts it on the network, and checks the invariants.
    pub fn settle(&mut self) {
        self.carry_what_the_layer_has();
        for node in 0..self.nodes.len() {
            let mut rounds = 0;
            while let Some(batch) =
                Batch::take(&mut self.nodes[node].endpoint, self.now, self.max_segments)
            {
                rounds += 1;
                assert!(rounds < 100_000, "node {node} never stops sending");
                let transmit = &batch.transmit;
                if transmit.dont_fragment {
                    self.check_mtu(node, &batch);
                }
                if self.leads_nowhere(transmit) {
                    continue;
                }
                for bytes in batch.packets() {
                    let packet = Datagram {
                        from: transmit.local,
                        to: transmit.remote,
                        udp_port: self.nodes[node].udp_port,
                        ecn: transmit.ecn,
                        dont_fragment: transmit.dont_fragment,
                        bytes,
                    };
                    self.enter(node, packet);
                }
            }
            let state = &mut self.nodes[node];
            while let Some(event) = state.endpoint.poll_event() {
                match &event.1 {
                    Event::Notification(event) => {
                        self.trace.note(self.now, format_args!("{node} event {event:?}"));
                    }
                    event => self.trace.note(self.now, format_args!("{node} event {event:?}")),
                }
                state.events.push_back(event);
            }
            #[cfg(feature = "invariants")]
            if self.check
                && let Err(what) = state.endpoint.check_invariants(self.now)
            {
                panic!("node {node} at {:?}: {what}", self.now);
            }
        }
    }

    /// Whether a packet is addressed to a UDP port that its receiver does not have, or no longer has.
    fn leads_nowhere(&self, transmit: &Transmit) -> bool {
        self.owners.get(&transmit.remote).map(|owner| &self.nodes[*owner]).is_some_and(|owner| {
            owner.encapsulation == Encapsulation::Udp && owner.udp_port != transmit.remote_udp_port
        })
    }

    /// Checks that packets which must not be fragmented are no larger than the path MTU, unless they probe it.
    fn check_mtu(&self, node: usize, batch: &Batch) {
        let (state, transmit) = (&self.nodes[node], &batch.transmit);
        let overhead = state.encapsulation.overhead(transmit.remote) + state.shim;
        // What every path carries. An INIT ACK leaves before there is a path.
        let least = if transmit.remote.is_ipv6() { 1280 } else { 576 };
        for packet in batch.packets() {
            let size = packet.len() + overhead;
            if size <= least || crate::craft::has(&packet, kind::PAD) {
                continue;
            }
            let ids = state.endpoint.associations();
            let paths = ids
                .filter_map(|id| state.endpoint.association(id))
                .flat_map(|a| a.statistics().paths);
            let ours = |path: &PathStatistics| {
                (path.local, path.remote) == (transmit.local, transmit.remote)
            };
            let mtu = paths.filter(ours).map(|path| usize::from(path.mtu)).max();
            assert!(mtu.is_some_and(|mtu| size <= mtu), "{size} bytes with a path MTU of {mtu:?}");
        }
    }

    /// Puts a packet of a node on the network.
    pub fn enter(&mut self, node: usize, packet: Datagram) {
        let verdict = match (&mut self.script, Packet::parse(&packet.bytes)) {
            (Some(script), Ok(parsed)) => script(&Sight {
                now: self.now,
                node,
                number: self.trace.packets(),
                from: packet.from,
                to: packet.to,
                ecn: packet.ecn,
                packet: parsed,
            }),
            _ => Verdict::Pass,
        };
        if self.layer.is_none() && self.is_too_big(node, &packet) {
            return;
        }
        if self.refuse(node, &packet) {
            return;
        }
        let fate = match &verdict {
            Verdict::Pass => "",
            Verdict::Drop => "lost",
            Verdict::Duplicate => "twice",
            Verdict::BehindNext(_) => "behind the next",
            Verdict::Delay(_) => "delayed",
            Verdict::Recode(_) => "recoded",
            Verdict::Replace(_) | Verdict::Instead(_) => "replaced",
        };
        self.trace.sent(self.now, node, &packet, fate);
        let now = self.now;
        match verdict {
            Verdict::Pass => self.launch(packet),
            Verdict::Drop => {}
            Verdict::Duplicate => {
                self.launch(packet.clone());
                self.launch(packet);
            }
            Verdict::BehindNext(limit) => {
                let wire = self.wire(packet.from, packet.to);
                let before = wire.held.replace((now + limit, packet));
                if let Some((_, before)) = before {
                    self.offer(before);
                }
            }
            Verdict::Delay(by) => self.after(now + by, Later::Packet(packet)),
            Verdict::Recode(ecn) => self.launch(Datagram { ecn, ..packet }),
            Verdict::Replace(bytes) => self.launch(Datagram { bytes, ..packet }),
            Verdict::Instead(all) => {
                for bytes in all {
                    self.launch(Datagram { bytes, ..packet.clone() });
                }
            }
        }
    }

    /// Whether a packet is larger than the path MTU. The router may report that.
    fn is_too_big(&mut self, node: usize, packet: &Datagram) -> bool {
        let size = packet.bytes.len() + self.nodes[node].encapsulation.overhead(packet.to);
        let wire = self.wire(packet.from, packet.to);
        let Some(limit) = wire.mtu.filter(|limit| size > usize::from(limit.mtu)) else {
            return false;
        };
        if !packet.dont_fragment {
            return false;
        }
        wire.too_big += 1;
        if self.layer.is_some() {
            self.trace.carried(self.now, node, packet, "too big");
            return true;
        }
        self.trace.sent(self.now, node, packet, "too big");
        if limit.icmp {
            let (local, remote, quoted) = (packet.from, packet.to, packet.bytes.clone());
            let at = self.now + Duration::from_millis(1);
            let kind = IcmpKind::PacketTooBig { mtu: limit.mtu };
            self.after(at, Later::Icmp { node, local, remote, kind, quoted });
        }
        true
    }

    /// Refuses a packet at random, as the host or a router, and notifies the sender. Returns whether it was refused.
    fn refuse(&mut self, node: usize, packet: &Datagram) -> bool {
        if self.send_errors == Probability::ZERO && self.unreachable == Probability::ZERO {
            return false;
        }
        let (local, remote) = (packet.from, packet.to);
        if self.draws.chance(self.send_errors) {
            self.trace.sent(self.now, node, packet, "not sent");
            let endpoint = &mut self.nodes[node].endpoint;
            endpoint.handle_send_error(self.now, local, remote, &packet.bytes);
        } else if self.draws.chance(self.unreachable) {
            self.trace.sent(self.now, node, packet, "unreachable");
            if self.layer.is_some() {
                self.refused += 1;
                return true;
            }
            let soon = |told: &Instant| self.now < *told + self.unreachable_every;
            if !self.told.get(&local).is_some_and(soon) {
                self.told.insert(local, self.now);
                let kind = self.unreachable_kind;
                let quoted = packet.bytes.clone();
                let at = self.now + Duration::from_millis(1);
                self.after(at, Later::Icmp { node, local, remote, kind, quoted });
            }
        } else {
            return false;
        }
        self.refused += 1;
        true
    }

    fn after(&mut self, at: Instant, what: Later) {
        self.sequence += 1;
        self.later.insert((at, self.sequence), what);
    }

    /// Offers a packet to its link, and then the packet that waited for it.
    fn carry(&mut self, packet: Datagram) {
        let held = self.wire(packet.from, packet.to).held.take();
        self.offer(packet);
        if let Some((_, held)) = held {
            self.offer(held);
        }
    }

    fn offer(&mut self, packet: Datagram) {
        let now = self.now.as_nanos();
        let wire = self.wire(packet.from, packet.to);
        if wire.swallows_ecn && packet.ecn.is_some() {
            return;
        }
        let outcome = wire.link.send(now, packet);
        debug_assert!(!matches!(outcome, SendOutcome::TooBig { .. }), "MTUs are set by `set_mtu`");
    }

    /// Delivers a packet to the node that owns its destination, as if it had just arrived.
    pub fn deliver(&mut self, packet: Datagram) {
        let Some(&node) = self.owners.get(&packet.to) else { return };
        let received = packet.received();
        self.nodes[node].endpoint.handle_batch(self.now, &received, packet.bytes);
    }

    /// When an endpoint wakes next.
    pub fn next_of_endpoints(&self) -> Option<Instant> {
        self.nodes.iter().filter_map(|node| node.endpoint.next_deadline()).min()
    }

    /// The time of the next event.
    pub fn next(&self) -> Option<Instant> {
        let layer = self.layer.as_ref().and_then(|layer| layer.next_deadline());
        let deadlines = self.nodes.iter().filter_map(|node| node.endpoint.next_deadline());
        let deadlines = deadlines.chain(layer).map(|deadline| deadline + self.lateness);
        let links = self.wires.values().filter_map(|wire| wire.link.next_deadline());
        let held = self.wires.values().filter_map(|wire| wire.held.as_ref().map(|held| held.0));
        let later = self.later.keys().next().map(|(at, _)| *at);
        deadlines.chain(links.map(Instant::from_nanos)).chain(held).chain(later).min()
    }

    /// Advances to the next event, but not beyond `limit`. If there is none until then, returns `false` and the time is
    /// `limit`.
    pub fn step(&mut self, limit: Instant) -> bool {
        self.settle();
        let next = match self.next() {
            Some(next) if next <= limit => next,
            _ => {
                self.now = self.now.max(limit);
                return false;
            }
        };
        if next > self.now {
            self.quiet = 0;
            self.now = next;
        } else {
            self.quiet += 1;
            assert!(self.quiet < 100_000, "time stands still at {:?}", self.now);
        }
        let due: Vec<_> = self.later.range(..=(self.now, u64::MAX)).map(|(key, _)| *key).collect();
        for key in due {
            match self.later.remove(&key) {
                Some(Later::Packet(packet)) => self.launch(packet),
                Some(Later::Icmp { node, local, remote, kind, quoted }) => {
                    let quoted = &quoted[..quoted.len().min(100)];
                    let message = IcmpMessage { local, remote, kind, quoted };
                    self.nodes[node].endpoint.handle_icmp(self.now, &message);
                }
                None => {}
            }
        }
        let now = self.now;
        let waited = |wire: &mut Wire| wire.held.take_if(|(until, _)| *until <= now);
        let released: Vec<_> = self.wires.values_mut().filter_map(waited).collect();
        released.into_iter().for_each(|(_, packet)| self.offer(packet));
        self.arrivals();
        self.expire_layer();
        for node in &mut self.nodes {
            if node.endpoint.next_deadline().is_some_and(|d| d + self.lateness <= now) {
                pump::expire(&mut node.endpoint, now);
            }
        }
        self.settle();
        true
    }

    /// Delivers what has arrived: packet by packet, each followed by the answers of its receiver, or in batches.
    fn arrivals(&mut self) {
        let now = self.now.as_nanos();
        let keys: Vec<_> = self.wires.keys().copied().collect();
        for key in keys {
            let mut batch: Vec<Datagram> = Vec::new();
            while let Some(packet) = self.wires.get_mut(&key).and_then(|w| w.link.poll(now)) {
                let fits =
                    batch.first().is_none_or(|first| {
                        first.bytes.len() >= packet.bytes.len() && first.udp_port == packet.udp_port
                    }) && batch.windows(2).all(|two| two[0].bytes.len() == two[1].bytes.len());
                if !fits || !self.batches {
                    self.deliver_batch(&mut batch);
                }
                batch.push(packet);
            }
            self.deliver_batch(&mut batch);
        }
    }

    fn deliver_batch(&mut self, batch: &mut Vec<Datagram>) {
        let Some(first) = batch.first() else { return };
        let received = first.received();
        let whole = || -> Bytes {
            let bytes: Vec<u8> = batch.iter().flat_map(|packet| packet.bytes.to_vec()).collect();
            bytes.into()
        };
        if let Some(layer) = &mut self.layer {
            if let Some(node) = layer.host(first.to) {
                let opened = layer.receive(self.now, node, &received, whole());
                // The layer answers before the endpoint does.
                self.carry_what_the_layer_has();
                if let Some((received, bytes)) = opened {
                    self.nodes[node].endpoint.handle_batch(self.now, &received, bytes);
                }
                self.settle();
            }
        } else if let Some(&node) = self.owners.get(&first.to) {
            self.nodes[node].endpoint.handle_batch(self.now, &received, whole());
            self.settle();
        }
        batch.clear();
    }

    /// Runs for this time.
    pub fn run(&mut self, time: Duration) {
        let limit = self.now + time;
        while self.step(limit) {}
    }

    /// Runs until `done`, at most for `limit`. Returns whether it was done.
    pub fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let limit = self.now + limit;
        self.settle();
        while !done(self) {
            if !self.step(limit) {
                return done(self);
            }
        }
        true
    }
}
