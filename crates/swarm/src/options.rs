//! The options that a seed determines.

mod by_kind;
mod draw;
mod network;
mod policies;
mod restarts;
mod users;

use std::net::IpAddr;
use std::time::Duration;

use anabranch_impair::{LinkConfig, Probability, Rng};
use anabranch_proto::config::Routes;
use anabranch_proto::{AssociationConfig, EndpointConfig};
use anabranch_testnet::PathMtu;

pub(crate) use draw::Draw;

/// How associations come to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Node 0 connects to node 1.
    Client,
    /// Both connect to each other at about the same time.
    Collision,
}

/// One path in both directions.
#[derive(Clone, Debug)]
pub struct LinkSpec {
    /// From node 0 to node 1 and back.
    pub directions: [LinkConfig; 2],
    /// Its MTU at first and from some time on.
    pub mtu: Option<PathMtu>,
    /// Time and new value.
    pub mtu_change: Option<(Duration, PathMtu)>,
}

/// How a node's user reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// At once.
    Eager,
    /// A number of messages or parts at these intervals; returns the buffer only at the next one.
    Slow {
        /// Messages or parts.
        count: u32,
        /// Interval.
        every: Duration,
    },
    /// Not at all before the network is healthy.
    Stalled,
}

/// The traffic of a node's user.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Messages in all.
    pub messages: u32,
    /// Bytes in all, at the most.
    pub bytes: usize,
    /// Longest message.
    pub longest: usize,
    /// Streams in use, from 0.
    pub streams: u16,
    /// Share of unordered messages.
    pub unordered: Probability,
    /// Share of messages with the I bit.
    pub immediate: Probability,
    /// Share of messages with a lifetime.
    pub mortal: Probability,
    /// Messages given at a time.
    pub burst: u32,
    /// Time between.
    pub pause: Duration,
}

/// The actions of both users on byte streams.
#[derive(Clone, Debug)]
pub struct ByteTraffic {
    /// Numbers in use, from 0.
    pub streams: u16,
    /// How many of them are not read while others have something to deliver.
    pub unread: u16,
    /// Longest write.
    pub longest: usize,
    /// Bytes in all of one user, at the most.
    pub bytes: usize,
    /// Actions of a user at a time.
    pub burst: u32,
    /// Time between.
    pub pause: Duration,
    /// Weights of the actions: ending a byte stream, stopping one, setting a priority. Writing and
    /// reading have ten each.
    pub weights: [u32; 3],
}

/// A user's request to an association besides sending and reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whim {
    /// Another primary path: to this address of the peer.
    Primary(usize),
    /// A heartbeat to this address of the peer.
    Heartbeat(usize),
    /// This priority for this stream.
    Priority(u16, u16),
}

/// Everything that a seed decides.
#[derive(Clone, Debug)]
pub struct Options {
    /// The seed.
    pub seed: u64,
    /// How associations come to be.
    pub kind: Kind,
    /// Addresses of both nodes.
    pub addresses: [Vec<IpAddr>; 2],
    /// Options of both endpoints.
    pub endpoints: [EndpointConfig; 2],
    /// Options of both ends.
    pub configs: [AssociationConfig; 2],
    /// Pairs of addresses (node 0, node 1) with the link between them; others are dead.
    pub links: Vec<((IpAddr, IpAddr), LinkSpec)>,
    /// Users.
    pub readers: [Reader; 2],
    /// Users.
    pub traffic: [Traffic; 2],
    /// Byte streams besides the messages.
    pub byte_streams: Option<ByteTraffic>,
    /// Length of the first phase.
    pub faults: Duration,
    /// Node and time of a loss of state, and the time until it is back.
    pub reboot: Option<(usize, Duration, Duration)>,
    /// Whether a client whose association failed connects again, and if so after which time and
    /// whether from the same port.
    pub reconnect: Option<(Duration, bool)>,
    /// Node and time of an abort.
    pub abort: Option<(usize, Duration)>,
    /// Times of shutdowns.
    pub shutdown: [Option<Duration>; 2],
    /// Requests of users: node, time, and request.
    pub whims: Vec<(usize, Duration, Whim)>,
    /// A local address cannot be used for a while: node, number of the address, time and length.
    pub vanishing: Vec<(usize, usize, Duration, Duration)>,
    /// The node that loses its state has its last address only afterwards.
    pub late_address: bool,
    /// The node that loses its state has only these of its addresses afterwards, by number.
    pub addresses_after: Option<Vec<usize>>,
    /// The node that loses its state takes one stream only afterwards.
    pub few_streams: bool,
    /// The index of an address that node 0 connects to and that belongs to another host.
    pub other_host: Option<usize>,
    /// Node 0 takes the first and the last address of node 1 for two peers, and connects to both
    /// from one port.
    pub twice: bool,
    /// The first packet of a node with a chunk of this type is so much late.
    pub straggler: Option<(usize, u8, Duration)>,
    /// Times at which a peer that breaks the rules has an association with node 1.
    pub rude: Vec<Duration>,
    /// Times at which a third party who knows addresses and ports, but no tag, sends a packet to a
    /// node.
    pub forged: Vec<(usize, Duration)>,
    /// Segments that one call may fill.
    pub max_segments: usize,
    /// Packets that arrive together are handled together.
    pub batches: bool,
    /// Timers are handled so much too late.
    pub lateness: Duration,
    /// Share of packets that the host cannot send, and says so.
    pub send_errors: Probability,
    /// Share of packets that a router drops with 'destination unreachable'.
    pub unreachable: Probability,
}

impl Options {
    /// The options of `seed`. A seed stands for its run only as long as the order of draws does not change.
    pub fn draw(seed: u64) -> Self {
        let d = &mut Draw(Rng::stream(seed, 77));
        let mut options = Self::usual(seed, d);
        options.add_rare_cases();
        options.max_segments = d.of(&[1, 2, 8, 64]);
        options.batches = d.one_in(2);
        options.lateness = if d.one_in(3) { d.millis(1, 300) } else { Duration::ZERO };
        options.send_errors = if d.one_in(6) { d.percent(10) } else { Probability::ZERO };
        options.unreachable = if d.one_in(6) { d.percent(5) } else { Probability::ZERO };
        options
    }

    /// A network, its faults and its users, without what is drawn from streams of its own.
    fn usual(seed: u64, d: &mut Draw) -> Self {
        let addresses = network::addresses(d);
        let (pairs, any_route) = network::pairs(d, &addresses);
        let endpoints = network::endpoints(d, &addresses, any_route);
        let mut configs = [0, 1].map(|end| policies::association(seed, end));
        policies::multipath(&mut Draw(Rng::stream(seed, 6356)), &mut configs);
        let harsh = d.of(&[0, 1, 1, 2, 3]);
        let faults = Duration::from_millis(d.scale(500, 100_000));
        let links = pairs.into_iter().map(|pair| (pair, network::link(d, harsh, faults))).collect();
        let readers = [(); 2].map(|()| users::reader(d));
        let traffic = users::traffic_of_both(d);
        let reboot = d.one_in(6).then(|| restarts::reboot(d, faults));
        let reconnect = d.one_in(2).then(|| (d.millis(1, 5000), d.one_in(2)));
        let abort = d.one_in(10).then(|| (d.node(), d.moment(faults)));
        let shutdown = [(); 2].map(|()| d.one_in(4).then(|| d.moment(faults)));
        let paths = addresses[0].len() as u64;
        let whims = (0..d.count(3, 8)).map(|_| users::whim(d, paths, faults)).collect();
        let vanishing = (0..d.count(5, 4)).map(|_| network::vanishing(d, paths, faults)).collect();
        let forged = (0..d.count(3, 60)).map(|_| (d.node(), d.moment(faults))).collect();
        let kind = d.of(&[Kind::Client, Kind::Client, Kind::Client, Kind::Collision]);
        Self {
            seed,
            kind,
            addresses,
            endpoints,
            configs,
            links,
            readers,
            traffic,
            byte_streams: None,
            faults,
            reboot,
            reconnect,
            abort,
            shutdown,
            whims,
            vanishing,
            late_address: false,
            addresses_after: None,
            few_streams: false,
            other_host: None,
            twice: false,
            straggler: None,
            rude: Vec::new(),
            forged,
            max_segments: 1,
            batches: false,
            lateness: Duration::ZERO,
            send_errors: Probability::ZERO,
            unreachable: Probability::ZERO,
        }
    }

    /// Options that cause rare branches. They are drawn from streams of their own, so that a new one leaves the
    /// others as they are.
    fn add_rare_cases(&mut self) {
        let r = &mut Draw(Rng::stream(self.seed, 78));
        restarts::amid_procedure(r, self);
        let e = &mut Draw(Rng::stream(self.seed, 80));
        policies::small_windows(e, &mut self.configs);
        users::short_lives(e, &mut self.traffic, &mut self.configs);
        restarts::with_other_addresses(e, self);
        self.few_streams = self.reboot.is_some() && e.one_in(3);
        let paths = self.addresses[0].len() as u64;
        let several = paths > 1;
        self.late_address = several && self.reboot.is_some() && r.one_in(2);
        self.other_host = r.one_in(10).then(|| r.0.below(paths) as usize);
        let is_client = self.kind == Kind::Client;
        self.twice = several && is_client && self.reconnect.is_none() && r.one_in(6);
        // With several associations the users cannot know which one is the other end.
        let is_single =
            self.reboot.is_none() && self.reconnect.is_none() && !self.twice && is_client;
        let b = &mut Draw(Rng::stream(self.seed, 81));
        self.byte_streams = (is_single && b.one_in(2)).then(|| users::byte_traffic(b));
        self.rude = (0..r.count(10, 3)).map(|_| r.moment(self.faults)).collect();
    }
    /// Limits the messages that either end sends.
    pub fn limit_messages(&mut self, most: u32) {
        for traffic in &mut self.traffic {
            traffic.messages = traffic.messages.min(most);
        }
    }

    /// Only the first address of each end reaches the first of the other, and so on.
    pub(crate) fn straighten(&mut self) {
        let [near, far] = &self.addresses;
        let pairs: Vec<_> = near.iter().copied().zip(far.iter().copied()).collect();
        self.links.retain(|(pair, _)| pairs.contains(pair));
        self.endpoints[0].routes = Routes::Pairs(pairs.clone());
        self.endpoints[1].routes = Routes::Pairs(pairs.iter().map(|(a, b)| (*b, *a)).collect());
    }
}
