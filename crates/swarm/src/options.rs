//! The options that a seed determines.

mod by_kind;
mod policies;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use anabranch_impair::{Cut, GilbertElliott, LinkConfig, Loss, Probability, QueueLimit, Rng};
use anabranch_proto::config::{OutOfTheBlue, Routes};
use anabranch_proto::{AssociationConfig, Encapsulation, EndpointConfig};
use anabranch_testnet::PathMtu;
use anabranch_wire::kind;

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

/// Draws with names.
#[derive(Debug)]
pub(crate) struct Draw(pub(crate) Rng);

impl Draw {
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.0.below(n) == 0
    }

    /// From `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.below(high - low + 1)
    }

    /// From `low` to `high`, small values as likely as large ones by order of magnitude.
    pub(crate) fn scale(&mut self, low: u64, high: u64) -> u64 {
        let (from, to) = (64 - low.max(1).leading_zeros(), 64 - high.max(1).leading_zeros());
        let bits = self.between(u64::from(from), u64::from(to));
        let top = if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
        let bottom = (1_u64 << (bits - 1)).max(low).min(high);
        self.between(bottom, top.clamp(bottom, high))
    }

    pub(crate) fn millis(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_micros(self.scale(low * 1000, high * 1000))
    }

    pub(crate) fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.0.below(all.len() as u64) as usize].clone()
    }

    fn percent(&mut self, most: u64) -> Probability {
        Probability::per_million(self.between(0, most * 10_000) as u32)
    }
}

impl Options {
    /// The options of `seed`.
    #[expect(clippy::too_many_lines, reason = "the order of draws is what a seed stands for")]
    pub fn draw(seed: u64) -> Self {
        let mut draw = Draw(Rng::stream(seed, 77));
        let d = &mut draw;
        let paths = d.of(&[1, 1, 1, 2, 2, 2, 3, 4]);
        let v6 = |path: u8, node: u8| -> IpAddr {
            Ipv6Addr::new(0x2001, 0xdb8, u16::from(path), 0, 0, 0, 0, u16::from(node) + 1).into()
        };
        let v4 = |path: u8, node: u8| -> IpAddr { Ipv4Addr::new(10, path, 0, node + 1).into() };
        let sixes: Vec<bool> = (0..paths).map(|_| d.one_in(4)).collect();
        let addresses: [Vec<IpAddr>; 2] = [0, 1].map(|node| {
            (sixes.iter().enumerate())
                .map(|(path, six)| if *six { v6(path as u8, node) } else { v4(path as u8, node) })
                .collect()
        });
        let straight: Vec<(IpAddr, IpAddr)> =
            addresses[0].iter().copied().zip(addresses[1].iter().copied()).collect();
        let all: Vec<(IpAddr, IpAddr)> = (addresses[0].iter())
            .flat_map(|a| addresses[1].iter().map(|b| (*a, *b)))
            .filter(|(a, b)| a.is_ipv4() == b.is_ipv4())
            .collect();
        // Crossed paths exist and are known, or do not exist and attempts to use them fail.
        let (pairs, any_route) = match d.between(0, 3) {
            0 | 1 => (straight.clone(), false),
            2 => (all, true),
            _ => (straight.clone(), true),
        };
        let encapsulation = d.of(&[Encapsulation::Udp, Encapsulation::Udp, Encapsulation::Ip]);
        let cookie_life = d.of(&[60, 60, 60, 5]);
        let quantum = d.of(&[65_536, 1, 3000]);
        // Every fourth seed lets the TSNs wrap early.
        let near_wrap = d.one_in(4).then(|| 0_u32.wrapping_sub(d.scale(1, 100) as u32));
        let buggify = d.of(&[0, 0, 0, 50, 200]);
        let secret_lifetime = d.of(&[600, 600, 5]);
        let silent = d.one_in(6);
        let endpoints = [false, true].map(|swap| {
            let mut config = EndpointConfig::default();
            config.encapsulation = encapsulation;
            config.valid_cookie_life = Duration::from_secs(cookie_life);
            config.quantum = quantum;
            config.initial_tsn = near_wrap;
            config.buggify = buggify;
            config.cookie_secret_lifetime = Duration::from_secs(secret_lifetime);
            if silent {
                config.out_of_the_blue = OutOfTheBlue::Silent;
            }
            if !any_route {
                let turn = |(a, b): &(IpAddr, IpAddr)| if swap { (*b, *a) } else { (*a, *b) };
                config.routes = Routes::Pairs(straight.iter().map(turn).collect());
            }
            config
        });
        let mut configs = [0, 1].map(|end| policies::association(seed, end));
        policies::multipath(&mut Draw(Rng::stream(seed, 6356)), &mut configs);
        let harsh = d.of(&[0, 1, 1, 2, 3]);
        let faults = Duration::from_millis(d.scale(500, 100_000));
        let links = pairs.iter().map(|pair| (*pair, link(d, harsh, faults))).collect();
        let readers = [(); 2].map(|()| match d.between(0, 5) {
            0 => Reader::Stalled,
            1 | 2 => Reader::Slow { count: d.scale(1, 20) as u32, every: d.millis(1, 2000) },
            _ => Reader::Eager,
        });
        let both_ways = d.one_in(2);
        let mut traffic = [(); 2].map(|()| traffic(d));
        if !both_ways {
            traffic[d.between(0, 1) as usize].messages = 0;
        }
        let moment = |d: &mut Draw| Duration::from_micros(d.0.below(faults.as_micros() as u64));
        let mut reboot = d.one_in(6).then(|| {
            let node = d.between(0, 1) as usize;
            (node, moment(d), Duration::from_millis(d.scale(1, 20_000)))
        });
        let reconnect = d.one_in(2).then(|| (d.millis(1, 5000), d.one_in(2)));
        let abort = d.one_in(10).then(|| (d.between(0, 1) as usize, moment(d)));
        let mut shutdown = [(); 2].map(|()| d.one_in(4).then(|| moment(d)));
        let count = |d: &mut Draw, one_in: u64, most: u64| {
            if d.one_in(one_in) { d.scale(1, most) } else { 0 }
        };
        let addresses_per_node = paths as u64;
        let whims = (0..count(d, 3, 8))
            .map(|_| {
                let address = d.0.below(addresses_per_node) as usize;
                let whim = match d.between(0, 3) {
                    0 | 1 => Whim::Primary(address),
                    2 => Whim::Heartbeat(address),
                    _ => Whim::Priority(d.between(0, 5) as u16, d.between(0, 3) as u16),
                };
                (d.between(0, 1) as usize, moment(d), whim)
            })
            .collect();
        let vanishing = (0..count(d, 5, 4))
            .map(|_| {
                let address = d.0.below(addresses_per_node) as usize;
                (d.between(0, 1) as usize, address, moment(d), d.millis(10, 20_000))
            })
            .collect();
        let forged = (0..count(d, 3, 60)).map(|_| (d.between(0, 1) as usize, moment(d))).collect();
        let mut kind = d.of(&[Kind::Client, Kind::Client, Kind::Client, Kind::Collision]);
        // Options that cause rare branches are drawn from a separate stream.
        let r = &mut Draw(Rng::stream(seed, 78));
        let mut straggler = None;
        if let Some((node, at, away)) = &mut reboot {
            match r.between(0, 3) {
                // In the middle of a handshake whose COOKIE ECHO comes when there is another one.
                0 => {
                    kind = r.of(&[kind, Kind::Collision]);
                    (*at, *away) = (r.millis(1, 500), r.millis(1, 500));
                    straggler = Some((*node, kind::COOKIE_ECHO, *away + r.millis(1, 1000)));
                }
                // Right after a shutdown has begun, which the peer learns of in the next handshake.
                1 => {
                    let before = r.millis(1, 200);
                    shutdown[*node] = Some(at.saturating_sub(before));
                    *away = r.millis(1, 100);
                    straggler = Some((*node, kind::SHUTDOWN, before + *away + r.millis(1, 200)));
                }
                _ => {}
            }
        }
        let several = paths > 1;
        let e = &mut Draw(Rng::stream(seed, 80));
        policies::small_windows(e, &mut configs);
        short_lives(e, &mut traffic, &mut configs);
        let addresses_after = restart_amid(e, &mut reboot, &mut shutdown, paths as usize);
        if addresses_after.is_some() && e.one_in(2) {
            policies::all_paths(e, &mut configs);
            // The peer has something to send on all of them, before and afterwards.
            if let Some((node, ..)) = reboot {
                let traffic = &mut traffic[1 - node];
                (traffic.messages, traffic.longest) = (400, 5000);
                (traffic.bytes, traffic.burst) = (1_000_000, 20);
                shutdown = [None; 2];
            }
        }
        let few_streams = reboot.is_some() && e.one_in(3);
        let late_address = several && reboot.is_some() && r.one_in(2);
        let other_host = r.one_in(10).then(|| r.0.below(addresses_per_node) as usize);
        let b = &mut Draw(Rng::stream(seed, 81));
        let twice = several && kind == Kind::Client && reconnect.is_none() && r.one_in(6);
        // With several associations the users cannot know which one is the other end.
        let one = reboot.is_none() && reconnect.is_none() && !twice && kind == Kind::Client;
        let byte_streams = (one && b.one_in(2)).then(|| byte_traffic(b));
        Self {
            seed,
            byte_streams,
            whims,
            vanishing,
            forged,
            late_address,
            addresses_after,
            few_streams,
            other_host,
            twice,
            straggler,
            rude: (0..count(r, 10, 3)).map(|_| moment(r)).collect(),
            kind,
            addresses,
            endpoints,
            configs,
            links,
            readers,
            traffic,
            faults,
            reboot,
            reconnect,
            abort,
            shutdown,
            max_segments: d.of(&[1, 2, 8, 64]),
            batches: d.one_in(2),
            lateness: if d.one_in(3) { d.millis(1, 300) } else { Duration::ZERO },
            send_errors: if d.one_in(6) { d.percent(10) } else { Probability::ZERO },
            unreachable: if d.one_in(6) { d.percent(5) } else { Probability::ZERO },
        }
    }
}

impl Options {
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

/// Messages that live shorter than they wait, in a buffer that they fill.
fn short_lives(d: &mut Draw, traffic: &mut [Traffic; 2], configs: &mut [AssociationConfig; 2]) {
    for (traffic, config) in traffic.iter_mut().zip(configs) {
        if d.one_in(8) {
            traffic.mortal = d.of(&[Probability::percent(60), Probability::ONE]);
            config.sending.send_buffer = d.scale(1, 20_000) as usize;
        }
    }
}

/// A loss of state: the peer closes at about the same time, or the host has other addresses when it
/// comes back; returns the numbers of these.
fn restart_amid(
    d: &mut Draw,
    reboot: &mut Option<(usize, Duration, Duration)>,
    shutdown: &mut [Option<Duration>; 2],
    addresses: usize,
) -> Option<Vec<usize>> {
    let (node, at, away) = reboot.as_mut()?;
    if d.one_in(3) {
        let apart = d.millis(1, 300);
        let closes = if d.one_in(2) { *at + apart } else { at.saturating_sub(apart) };
        shutdown[1 - *node] = Some(closes);
        *away = d.millis(1, 500);
    }
    if addresses < 2 || d.one_in(2) {
        return None;
    }
    // Soon, and mostly as the client, so that its peer has not noticed yet: that is a restart.
    *away = d.millis(1, 3000);
    *node = d.of(&[0, 0, *node]);
    let mut left: Vec<usize> = (0..addresses).filter(|_| d.one_in(2)).collect();
    if left.is_empty() {
        left.push(d.0.below(addresses as u64) as usize);
    }
    Some(left)
}

fn link(d: &mut Draw, harsh: u64, faults: Duration) -> LinkSpec {
    let mut directions = [(); 2].map(|()| {
        let mut config = LinkConfig::new().delay(d.millis(0, 300));
        if d.one_in(3) {
            config.jitter = d.millis(1, 200);
            config.keep_order = d.one_in(2);
        }
        if d.one_in(3) {
            config.rate = Some(d.scale(20_000, 1_000_000_000));
            config.queue = QueueLimit::Packets(d.scale(1, 200) as usize);
        }
        if harsh == 0 {
            return config;
        }
        let worst = [0, 5, 20, 50][harsh as usize];
        match d.between(0, 3) {
            0 | 1 => config.loss = Loss::Uniform(d.percent(worst)),
            2 => {
                config.loss = Loss::GilbertElliott(GilbertElliott {
                    good_to_bad: d.percent(5),
                    bad_to_good: d.percent(50),
                    loss_good: Probability::ZERO,
                    loss_bad: Probability::percent(90),
                });
            }
            _ => {}
        }
        if d.one_in(3) {
            config.duplicate = d.percent(worst);
        }
        if d.one_in(3) {
            config.reorder = d.percent(worst).max(Probability::per_million(1));
            config.reorder_delay = d.millis(1, 1000);
        }
        if d.one_in(4) {
            config.corrupt = d.percent(worst);
        }
        if d.one_in(3) {
            let mut at = 0;
            for _ in 0..d.between(1, 6) {
                let from = at + d.0.below(faults.as_nanos() as u64) + 1;
                let until = from + d.millis(1, 30_000).as_nanos() as u64;
                config = config.cut(from, Some(until));
                at = until;
            }
        }
        config
    });
    // A path, or one direction of it, may die and stay dead while there are faults.
    if d.one_in(6) {
        let from = d.0.below(faults.as_nanos() as u64);
        let which = d.between(1, 3);
        for (index, config) in directions.iter_mut().enumerate() {
            if which & (1 << index) != 0 {
                config.cuts = vec![Cut { at: from, until: None }];
            }
        }
    }
    let mtu =
        |d: &mut Draw| PathMtu { mtu: d.of(&[1280, 1300, 1400, 1492, 1500]), icmp: d.one_in(2) };
    LinkSpec {
        directions,
        mtu: d.one_in(3).then(|| mtu(d)),
        mtu_change: d
            .one_in(4)
            .then(|| (Duration::from_micros(d.0.below(faults.as_micros() as u64)), mtu(d))),
    }
}

fn byte_traffic(d: &mut Draw) -> ByteTraffic {
    let streams = d.of(&[1, 2, 4, 10, 40]);
    ByteTraffic {
        streams,
        unread: d.of(&[0, 1, 3]).min(streams / 2),
        longest: d.of(&[1, 100, 1452, 5000, 40_000]),
        bytes: d.scale(1000, 3_000_000) as usize,
        burst: d.scale(1, 30) as u32,
        pause: d.millis(1, 500),
        weights: [d.of(&[0, 1, 5]), d.of(&[0, 1, 5]), d.of(&[0, 1])],
    }
}

fn traffic(d: &mut Draw) -> Traffic {
    let longest = d.of(&[1, 8, 100, 1452, 5000, 70_000, 1 << 20]);
    Traffic {
        messages: d.scale(1, 400) as u32,
        bytes: d.scale(1000, 500_000) as usize + if d.one_in(10) { 2_000_000 } else { 0 },
        longest,
        streams: d.of(&[1, 2, 5, 30, 1000]),
        unordered: d.of(&[Probability::ZERO, Probability::percent(30), Probability::ONE]),
        immediate: d.of(&[Probability::ZERO, Probability::percent(30)]),
        mortal: d.of(&[Probability::ZERO, Probability::ZERO, Probability::percent(20)]),
        burst: d.scale(1, 100) as u32,
        pause: d.millis(1, 2000),
    }
}
