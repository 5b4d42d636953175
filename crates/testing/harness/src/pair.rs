//! Two hosts, the most common case.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use anabranch_impair::LinkConfig;
use anabranch_proto::config::Routes;
use anabranch_proto::{
    Association, AssociationConfig, AssociationId, AssociationMut, CloseReason, ConnectRequest,
    EndpointConfig, Event, Instant, Message, Notification, OutgoingMessage, PathState, Ppid,
    Statistics,
};
use anabranch_wire::{Header, Packet};
use bytes::Bytes;

use crate::{Datagram, Network};

/// The address of a node in network `path`.
pub fn addresses(node: u8, paths: u8) -> Vec<IpAddr> {
    (0..paths).map(|path| IpAddr::V4(Ipv4Addr::new(10, path, 0, node + 1))).collect()
}

/// Two hosts in the same networks. Node 0 is the client and node 1 listens on [`Pair::PORT`].
#[derive(Debug)]
pub struct Pair {
    /// The network.
    pub net: Network,
    /// Association of each node, after it has been created.
    pub id: [Option<AssociationId>; 2],
    /// Why each node's association ended.
    pub closed: [Option<CloseReason>; 2],
    /// Events of each node, except those stored elsewhere.
    pub events: [Vec<Event>; 2],
    /// Messages that each node received.
    pub received: [Vec<Message>; 2],
    /// Whether each node reads what it receives immediately.
    pub reads: [bool; 2],
    /// Addresses of both nodes.
    pub addresses: [Vec<IpAddr>; 2],
    headers: [Option<Header>; 2],
}

impl Pair {
    /// SCTP port of the listener.
    pub const PORT: u16 = 7;
    /// One-way delay.
    pub const DELAY: Duration = Duration::from_millis(10);

    /// Hosts in `paths` separate networks; the listener has the options `server`.
    pub fn new(paths: u8, server: AssociationConfig) -> Self {
        let addresses = [addresses(0, paths), addresses(1, paths)];
        let pairs = addresses[0].iter().copied().zip(addresses[1].iter().copied());
        let routes = |swap: bool| {
            Routes::Pairs(pairs.clone().map(|(a, b)| if swap { (b, a) } else { (a, b) }).collect())
        };
        let mut configs = [EndpointConfig::default(), EndpointConfig::default()];
        configs[0].routes = routes(false);
        configs[1].routes = routes(true);
        Self::with(addresses, configs, server)
    }

    /// Hosts with these addresses and options.
    pub fn with(
        addresses: [Vec<IpAddr>; 2],
        configs: [EndpointConfig; 2],
        server: AssociationConfig,
    ) -> Self {
        let mut net = Network::new(LinkConfig::new().delay(Self::DELAY), 1);
        net.trace.keep_packets();
        if std::env::var_os("TRACE").is_some() {
            net.trace.print();
        }
        for (node, config) in configs.into_iter().enumerate() {
            net.add_node(config, [node as u8 + 1; 32], &addresses[node]);
        }
        let listening = net.node_mut(1).endpoint.listen(Self::PORT, Arc::new(server));
        listening.expect("a valid configuration");
        Self {
            net,
            id: [None; 2],
            closed: [None, None],
            events: [Vec::new(), Vec::new()],
            received: [Vec::new(), Vec::new()],
            reads: [true; 2],
            addresses,
            headers: [None; 2],
        }
    }

    /// A pair with an established association.
    pub fn connected(paths: u8, config: AssociationConfig) -> Self {
        let mut pair = Self::new(paths, config.clone());
        pair.connect(config);
        let up = pair.run_until(Duration::from_secs(1), |pair| pair.both_up());
        assert!(up, "the handshake");
        // Wait until heartbeats have confirmed the paths and MTU probes have ended.
        pair.run(Duration::from_secs(10));
        pair.forget();
        pair
    }

    /// Forgets the packets sent so far, but not their headers.
    pub fn forget(&mut self) {
        self.headers = [0, 1].map(|node| self.find_header(node).or(self.headers[node]));
        self.net.trace.forget();
    }

    /// The header of the packets that a node sends.
    pub fn header(&self, node: usize) -> Header {
        let header = self.find_header(node).or(self.headers[node]);
        header.expect("the node has sent a packet with a tag")
    }

    fn find_header(&self, node: usize) -> Option<Header> {
        let headers = self
            .sent(node)
            .into_iter()
            .rev()
            .map(|(_, bytes)| Packet::parse(&bytes).expect("a packet").header());
        headers.into_iter().find(|header| header.verification_tag != 0)
    }

    /// The packets that a node has sent since the last [`forget`](Self::forget), with their times.
    pub fn sent(&self, node: usize) -> Vec<(Instant, Bytes)> {
        let from = |packet: &Datagram| self.addresses[node].contains(&packet.from);
        let kept = self.net.trace.kept().iter().filter(|(_, packet)| from(packet));
        kept.map(|(at, packet)| (*at, packet.bytes.clone())).collect()
    }

    /// Number of packets that a node has sent since the last [`forget`](Self::forget) with a chunk
    /// of this type.
    pub fn count(&self, node: usize, kind: u8) -> usize {
        self.sent(node).iter().filter(|(_, bytes)| crate::craft::has(bytes, kind)).count()
    }

    /// Passes a packet to a node as if its peer had sent it on the first path.
    pub fn inject(&mut self, to: usize, bytes: Bytes) {
        self.inject_on(to, 0, bytes);
    }

    /// Passes a packet to a node as if its peer had sent it on this path.
    pub fn inject_on(&mut self, to: usize, path: usize, bytes: Bytes) {
        let (from, to) = (self.addresses[1 - to][path], self.addresses[to][path]);
        let packet = Datagram { from, to, udp_port: 9899, ecn: None, dont_fragment: false, bytes };
        self.net.deliver(packet);
        self.take();
    }

    /// Passes a packet to a node and returns the packets that it sends immediately.
    pub fn answers(&mut self, to: usize, bytes: Bytes) -> Vec<Bytes> {
        self.forget();
        self.inject(to, bytes);
        self.sent(to).into_iter().map(|(_, bytes)| bytes).collect()
    }

    /// Starts an association from node 0 to all addresses of node 1.
    pub fn connect(&mut self, config: AssociationConfig) {
        let mut request = ConnectRequest::new(self.addresses[1].clone(), Self::PORT);
        request.config = Arc::new(config);
        self.connect_with(request);
    }

    /// Starts an association from node 0.
    pub fn connect_with(&mut self, request: ConnectRequest) {
        let now = self.net.now();
        let id = self.net.node_mut(0).endpoint.connect(now, request);
        self.id[0] = Some(id.expect("a valid request"));
    }

    /// Whether both associations are up.
    pub fn both_up(&self) -> bool {
        (0..2).all(|node| self.association(node).is_some_and(Association::is_established))
    }

    /// The association of a node.
    pub fn association(&self, node: usize) -> Option<&Association> {
        self.net.node(node).endpoint.association(self.id[node]?)
    }

    /// The mutable association of a node.
    pub fn association_mut(&mut self, node: usize) -> AssociationMut<'_> {
        let now = self.net.now();
        let id = self.id[node].expect("an association");
        self.net.node_mut(node).endpoint.association_mut(now, id).expect("an association")
    }

    /// Statistics of a node's association.
    pub fn statistics(&self, node: usize) -> Statistics {
        self.association(node).expect("an association").statistics()
    }

    /// Sends `data` on a stream. Returns whether the engine accepted it.
    pub fn send(&mut self, node: usize, stream: u16, data: impl Into<bytes::Bytes>) -> bool {
        let message = OutgoingMessage::new(stream, Ppid(0), data);
        let now = self.net.now();
        self.association_mut(node).send(now, message).is_ok()
    }

    /// Sends 1,000 bytes from node 0 ten times per second. Returns how many messages the engine
    /// accepted.
    pub fn trickle(&mut self, time: Duration) -> usize {
        let end = self.net.now() + time;
        let mut sent = 0;
        while self.net.now() < end {
            sent += usize::from(self.send(0, 0, vec![7; 1000])) * 1000;
            self.run(Duration::from_millis(100));
        }
        sent
    }

    /// Cuts a path in both directions, or repairs it.
    pub fn set_up(&mut self, path: usize, up: bool) {
        let (a, b) = (self.addresses[0][path], self.addresses[1][path]);
        self.net.set_up(a, b, up);
        self.net.set_up(b, a, up);
    }

    /// The state of each path, as a node sees it.
    pub fn path_states(&self, node: usize) -> Vec<PathState> {
        self.statistics(node).paths.iter().map(|path| path.state).collect()
    }

    /// Starts a graceful shutdown from a node.
    pub fn shutdown(&mut self, node: usize) {
        let now = self.net.now();
        self.association_mut(node).shutdown(now);
    }

    /// Aborts the association of a node immediately.
    pub fn abort(&mut self, node: usize) {
        let now = self.net.now();
        self.association_mut(node).abort(now, b"");
    }

    /// Collects events and messages.
    pub fn take(&mut self) {
        self.net.settle();
        for node in 0..2 {
            while let Some((id, event)) = self.net.node_mut(node).events.pop_front() {
                match event {
                    Event::Notification(Notification::Up { incoming: true, .. })
                        if self.id[node] != Some(id) =>
                    {
                        self.id[node] = Some(id);
                        self.closed[node] = None;
                        self.events[node].push(event);
                    }
                    Event::Notification(Notification::Closed(reason))
                        if self.id[node] == Some(id) =>
                    {
                        self.closed[node] = Some(reason);
                    }
                    event => self.events[node].push(event),
                }
            }
            if self.reads[node] && self.association(node).is_some() {
                let mut messages = Vec::new();
                let mut association = self.association_mut(node);
                while let Some(message) = association.receive() {
                    association.release(message.charge());
                    messages.push(message);
                }
                drop(association);
                self.received[node].extend(messages);
            }
        }
        self.net.settle();
    }

    /// Runs until `done`, at most for `limit`. Returns whether it was done.
    pub fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let limit = self.net.now() + limit;
        loop {
            self.net.settle();
            self.take();
            if done(self) {
                return true;
            }
            if !self.net.step(limit) {
                self.take();
                return done(self);
            }
        }
    }

    /// Runs for this time.
    pub fn run(&mut self, time: Duration) {
        self.run_until(time, |_| false);
    }

    /// Number of bytes that a node has received.
    pub fn received_len(&self, node: usize) -> usize {
        self.received[node].iter().map(|message| message.payload.len()).sum()
    }

    /// All bytes that a node has received, concatenated.
    pub fn received_bytes(&self, node: usize) -> Vec<u8> {
        self.received[node].iter().flat_map(|m| m.payload.clone().into_bytes().to_vec()).collect()
    }
}
