//! The options that a seed determines.

mod by_kind;
mod draw;
mod network;
mod policies;
mod restarts;
mod sealing;
mod users;

use std::net::IpAddr;
use std::time::Duration;

use anabranch_impair::{LinkConfig, Probability, Rng};
use anabranch_proto::config::{Routes, SetError};
use anabranch_proto::{AddressChange, AssociationConfig, EndpointConfig, StreamDirection};
use anabranch_testnet::PathMtu;

pub(crate) use draw::Draw;
pub use sealing::{Admits, Sealing};

/// How associations are set up.
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
    /// Its initial MTU.
    pub mtu: Option<PathMtu>,
    /// When the MTU changes, and its new value.
    pub mtu_change: Option<(Duration, PathMtu)>,
    /// ECN-capable packets vanish.
    pub swallows_ecn: bool,
}

/// How a node's user reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Immediately.
    Eager,
    /// Reads a number of messages or parts at intervals; returns their buffer space only at the next one.
    Slow {
        /// Messages or parts.
        count: u32,
        /// Interval.
        every: Duration,
    },
    /// Does not read before the network is healthy.
    Stalled,
}

/// The traffic of a node's user.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Number of messages.
    pub messages: u32,
    /// Maximum number of bytes.
    pub bytes: usize,
    /// Longest message.
    pub longest: usize,
    /// Streams in use, from 0.
    pub streams: u16,
    /// Probability that a message is unordered.
    pub unordered: Probability,
    /// Probability that a message has the I bit.
    pub immediate: Probability,
    /// Probability that a message may be given up.
    pub mortal: Probability,
    /// Number of messages sent in one burst.
    pub burst: u32,
    /// Time between bursts.
    pub pause: Duration,
}

/// The actions of both users on byte streams.
#[derive(Clone, Debug)]
pub struct ByteTraffic {
    /// Streams in use, numbered from 0.
    pub streams: u16,
    /// Number of streams that are not read while others have data to deliver.
    pub unread: u16,
    /// Longest write.
    pub longest: usize,
    /// Maximum number of bytes of one user.
    pub bytes: usize,
    /// Number of a user's actions in one burst.
    pub burst: u32,
    /// Time between bursts.
    pub pause: Duration,
    /// Weights of the actions: ending a byte stream, stopping one, setting a priority. Writing and reading have a
    /// weight of ten each.
    pub weights: [u32; 3],
}

/// A user's request to an association other than sending and reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whim {
    /// Set the primary path to this address of the peer.
    Primary(usize),
    /// Send a heartbeat to this address of the peer.
    Heartbeat(usize),
    /// Set the priority of a stream.
    Priority(u16, u16),
    /// Reset this stream, or all.
    Reset(StreamDirection, Option<u16>),
    /// The numbers of outgoing and incoming streams to add.
    AddStreams(u16, u16),
    /// Reset all TSNs.
    ResetAssociation,
    /// Change this address of its own.
    Address(AddressChange, usize),
}

/// Everything that a seed determines.
#[derive(Clone, Debug)]
pub struct Options {
    /// The seed.
    pub seed: u64,
    /// How associations are set up.
    pub kind: Kind,
    /// Addresses of both nodes.
    pub addresses: [Vec<IpAddr>; 2],
    /// Options of both endpoints.
    pub endpoints: [EndpointConfig; 2],
    /// Options of both ends.
    pub configs: [AssociationConfig; 2],
    /// Pairs of addresses (node 0, node 1) with the link between them; all other pairs are unreachable.
    pub links: Vec<((IpAddr, IpAddr), LinkSpec)>,
    /// How the users read.
    pub readers: [Reader; 2],
    /// What the users send.
    pub traffic: [Traffic; 2],
    /// Byte streams in addition to the messages.
    pub byte_streams: Option<ByteTraffic>,
    /// Length of the first phase.
    pub faults: Duration,
    /// Node and time of a loss of state, and how long the node is away.
    pub reboot: Option<(usize, Duration, Duration)>,
    /// Whether a client whose association failed connects again; if so, after which time, and whether from the same
    /// port.
    pub reconnect: Option<(Duration, bool)>,
    /// Node and time of an abort.
    pub abort: Option<(usize, Duration)>,
    /// Times of shutdowns.
    pub shutdown: [Option<Duration>; 2],
    /// Requests of users: node, time, and request.
    pub whims: Vec<(usize, Duration, Whim)>,
    /// Local addresses that are temporarily unusable: node, number of the address, start and duration.
    pub vanishing: Vec<(usize, usize, Duration, Duration)>,
    /// Whether the node that loses its state gains its last address only then.
    pub late_address: bool,
    /// The addresses, by number, that the node keeps after it loses its state; all if `None`.
    pub addresses_after: Option<Vec<usize>>,
    /// Whether the node that loses its state accepts only one stream afterwards.
    pub few_streams: bool,
    /// The index of an address to which node 0 connects although it belongs to another host.
    pub other_host: Option<usize>,
    /// Whether node 0 mistakes the first and the last address of node 1 for two peers, and connects to both from one
    /// port.
    pub twice: bool,
    /// Node, chunk type and delay: the node's first packet with such a chunk is delayed.
    pub straggler: Option<(usize, u8, Duration)>,
    /// Times at which a peer that violates the protocol has an association with node 1.
    pub rude: Vec<Duration>,
    /// Times at which a third party that knows addresses and ports, but no tag, sends a packet to a node.
    pub forged: Vec<(usize, Duration)>,
    /// Maximum number of segments that one call may fill.
    pub max_segments: usize,
    /// Whether packets that arrive together are handled together.
    pub batches: bool,
    /// How late timers are handled.
    pub lateness: Duration,
    /// Probability that the host cannot send a packet and reports that.
    pub send_errors: Probability,
    /// Probability that a router drops a packet with 'destination unreachable'.
    pub unreachable: Probability,
    /// Sealed paths between the nodes.
    pub sealing: Option<Sealing>,
}

impl Options {
    /// The options of `seed`. A seed reproduces its run only as long as the order of draws does not change.
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

    /// A network, its faults and its users, without the options that have random streams of their own.
    fn usual(seed: u64, d: &mut Draw) -> Self {
        let addresses = network::addresses(d);
        let (pairs, any_route) = network::pairs(d, &addresses);
        let endpoints = network::endpoints(d, &addresses, any_route);
        let mut configs = [0, 1].map(|end| policies::association(seed, end));
        policies::multipath(&mut Draw(Rng::stream(seed, 6356)), &mut configs);
        policies::readdressing(&mut Draw(Rng::stream(seed, 4895)), &mut configs);
        let harsh = d.of(&[0, 1, 1, 2, 3]);
        let faults = Duration::from_millis(d.scale(500, 100_000));
        let mut links: Vec<_> =
            pairs.into_iter().map(|pair| (pair, network::link(d, harsh, faults))).collect();
        network::treatment_of_ecn(&mut Draw(Rng::stream(seed, 8289)), &mut links);
        let readers = [(); 2].map(|()| users::reader(d));
        let traffic = users::traffic_of_both(d);
        let reboot = d.one_in(6).then(|| restarts::reboot(d, faults));
        let reconnect = d.one_in(2).then(|| (d.millis(1, 5000), d.one_in(2)));
        let abort = d.one_in(10).then(|| (d.node(), d.moment(faults)));
        let shutdown = [(); 2].map(|()| d.one_in(4).then(|| d.moment(faults)));
        let paths = addresses[0].len() as u64;
        let mut whims: Vec<_> = (0..d.count(3, 8)).map(|_| users::whim(d, paths, faults)).collect();
        whims.extend(users::moves(&mut Draw(Rng::stream(seed, 5061)), paths, faults));
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
            sealing: None,
        }
    }

    /// Adds options that cause rare branches. They have random streams of their own, so a new one does not change the
    /// others.
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
        // With several associations the users could not tell which one is the other end.
        let is_single =
            self.reboot.is_none() && self.reconnect.is_none() && !self.twice && is_client;
        let b = &mut Draw(Rng::stream(self.seed, 81));
        self.byte_streams = (is_single && b.one_in(2)).then(|| users::byte_traffic(b));
        self.rude = (0..r.count(10, 3)).map(|_| r.moment(self.faults)).collect();
    }

    /// Sets an option of both ends, except where the value contradicts another option of that end.
    ///
    /// # Errors
    /// There is no such option, or the text is not a valid value.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), SetError> {
        for config in &mut self.configs {
            let changed = config.clone().with_option(name, text)?;
            if changed.validate().is_ok() {
                *config = changed;
            }
        }
        Ok(())
    }

    /// Limits the number of messages that either end sends.
    pub fn limit_messages(&mut self, most: u32) {
        for traffic in &mut self.traffic {
            traffic.messages = traffic.messages.min(most);
        }
    }

    /// Connects only the first addresses of both ends, the second ones, and so on.
    pub(crate) fn straighten(&mut self) {
        let [near, far] = &self.addresses;
        let pairs: Vec<_> = near.iter().copied().zip(far.iter().copied()).collect();
        self.links.retain(|(pair, _)| pairs.contains(pair));
        self.endpoints[0].routes = Routes::Pairs(pairs.clone());
        self.endpoints[1].routes = Routes::Pairs(pairs.iter().map(|(a, b)| (*b, *a)).collect());
    }
}
