//! What a seed stands for.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use anabranch_impair::{Cut, GilbertElliott, LinkConfig, Loss, Probability, QueueLimit, Rng};
use anabranch_proto::config::{IdleCwnd, InitialCwnd, Routes};
use anabranch_proto::{
    AssociationConfig, BurstControl, DormantBehaviour, Encapsulation, EndpointConfig,
    HeartbeatRetry, InitiationOrder, LossDetection, RetransmissionPolicy, RetransmissionPrecedence,
    Revision, SchedulerKind,
};

use crate::PathMtu;

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
    /// So many messages or parts at these intervals; gives the buffer back only at the next.
    Slow {
        /// Messages or parts.
        count: u32,
        /// Interval.
        every: Duration,
    },
    /// Not at all before the network is healthy.
    Stalled,
}

/// What a node's user sends.
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
    /// Pairs of addresses (node 0, node 1) with what lies between them; others are dead.
    pub links: Vec<((IpAddr, IpAddr), LinkSpec)>,
    /// Users.
    pub readers: [Reader; 2],
    /// Users.
    pub traffic: [Traffic; 2],
    /// Length of the first phase.
    pub faults: Duration,
    /// Node and time of a loss of state, and how long it takes to come back.
    pub reboot: Option<(usize, Duration, Duration)>,
    /// Whether a client whose association failed connects again, and if so after which time
    /// and whether from the same port.
    pub reconnect: Option<(Duration, bool)>,
    /// Node and time of an abort.
    pub abort: Option<(usize, Duration)>,
    /// Times of shutdowns.
    pub shutdown: [Option<Duration>; 2],
    /// Segments that one call may fill.
    pub max_segments: usize,
    /// What arrives together is handled together.
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
pub(super) struct Draw(pub(super) Rng);

impl Draw {
    pub(super) fn one_in(&mut self, n: u64) -> bool {
        self.0.below(n) == 0
    }

    /// From `low` to `high`, both included.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.below(high - low + 1)
    }

    /// From `low` to `high`, small values as likely as large ones by order of magnitude.
    pub(super) fn scale(&mut self, low: u64, high: u64) -> u64 {
        let (from, to) = (64 - low.max(1).leading_zeros(), 64 - high.max(1).leading_zeros());
        let bits = self.between(u64::from(from), u64::from(to));
        let top = if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
        let bottom = (1_u64 << (bits - 1)).max(low).min(high);
        self.between(bottom, top.clamp(bottom, high))
    }

    pub(super) fn millis(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_micros(self.scale(low * 1000, high * 1000))
    }

    pub(super) fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.0.below(all.len() as u64) as usize].clone()
    }

    fn percent(&mut self, most: u64) -> Probability {
        Probability::per_million(self.between(0, most * 10_000) as u32)
    }
}

impl Options {
    /// What `seed` stands for.
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
        // Crossed paths exist and are known, or do not exist and are tried in vain.
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
        let endpoints = [false, true].map(|swap| {
            let mut config = EndpointConfig::default();
            config.encapsulation = encapsulation;
            config.valid_cookie_life = Duration::from_secs(cookie_life);
            config.quantum = quantum;
            config.initial_tsn = near_wrap;
            config.buggify = buggify;
            if !any_route {
                let turn = |(a, b): &(IpAddr, IpAddr)| if swap { (*b, *a) } else { (*a, *b) };
                config.routes = Routes::Pairs(straight.iter().map(turn).collect());
            }
            config
        });
        let configs = [(); 2].map(|()| association(d));
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
        let reboot = d.one_in(6).then(|| {
            let node = d.between(0, 1) as usize;
            (node, moment(d), Duration::from_millis(d.scale(1, 20_000)))
        });
        let reconnect = d.one_in(2).then(|| (d.millis(1, 5000), d.one_in(2)));
        let abort = d.one_in(10).then(|| (d.between(0, 1) as usize, moment(d)));
        let shutdown = [(); 2].map(|()| d.one_in(4).then(|| moment(d)));
        Self {
            seed,
            kind: d.of(&[Kind::Client, Kind::Client, Kind::Client, Kind::Collision]),
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

fn association(d: &mut Draw) -> AssociationConfig {
    let mut config = match d.between(0, 5) {
        0 => AssociationConfig::rfc2960(),
        1 => AssociationConfig::rfc4960(),
        2 => AssociationConfig::rfc9260(),
        _ => AssociationConfig::default(),
    };
    if d.one_in(2) {
        config.rto_min = d.millis(1, 2000);
        config.rto_max = config.rto_min + d.millis(200, 60_000);
        let room = (config.rto_max - config.rto_min).as_micros() as u64;
        config.rto_initial = config.rto_min + Duration::from_micros(d.0.below(room + 1));
    }
    if d.one_in(3) {
        config.heartbeat_interval = d.of(&[
            None,
            Some(Duration::from_millis(10)),
            Some(Duration::from_secs(1)),
            Some(Duration::from_secs(5)),
        ]);
    }
    if d.one_in(2) {
        config.path_max_retrans = d.between(0, 6) as u32;
        config.association_max_retrans = d.between(2, 20) as u32;
        config.max_init_retransmits = d.between(2, 20) as u32;
    }
    if d.one_in(2) {
        config.sack_delay = Duration::from_millis(d.between(0, 500));
        config.sack_frequency = d.of(&[1, 2, 2, 3, 10]);
    }
    if d.one_in(2) {
        config.burst = d.of(&[
            BurstControl::MaxBurst(1),
            BurstControl::MaxBurst(4),
            BurstControl::MaxBurstCutsCwnd(4),
            BurstControl::MaxBurstCutsCwnd(1),
            BurstControl::Pacing { quantum: 1 },
            BurstControl::Pacing { quantum: 10 },
            BurstControl::Unlimited,
        ]);
    }
    if d.one_in(3) {
        config.initial_cwnd =
            d.of(&[InitialCwnd::Mtus(1), InitialCwnd::Mtus(100), InitialCwnd::Bytes(4404)]);
        config.idle_cwnd =
            d.of(&[IdleCwnd::HalvePerRto, IdleCwnd::HalvePerRtoToTwo, IdleCwnd::Keep]);
        config.min_ssthresh_mtus = d.between(1, 10) as u32;
        config.slow_start_limit_mtus = d.between(1, 10) as u32;
    }
    if d.one_in(2) {
        config.loss_detection =
            d.of(&[LossDetection::MissingReports, LossDetection::PacketThreshold]);
        config.missing_reports = d.of(&[1, 2, 3, 3, 4, 10]);
        config.multiple_fast_retransmit = d.one_in(2);
    }
    if d.one_in(2) {
        config.retransmission = d.of(&[
            RetransmissionPolicy::AllRtxSame,
            RetransmissionPolicy::AllRtxAlt,
            RetransmissionPolicy::FrSameRtoAlt,
        ]);
        config.dormant =
            d.of(&[DormantBehaviour::LastDest, DormantBehaviour::Primary, DormantBehaviour::Hop]);
        config.hb_max_burst = d.between(1, 4) as u32;
    }
    if d.one_in(2) {
        config.retransmission_precedence =
            d.of(&[RetransmissionPrecedence::AllPaths, RetransmissionPrecedence::SamePath]);
        config.heartbeat_after_rto = d.one_in(2);
        config.heartbeat_retry = d.of(&[HeartbeatRetry::Interval, HeartbeatRetry::AtOnce]);
        config.credit_retransmissions = d.one_in(2);
        config.change_primary_threshold = d.of(&[None, None, Some(0), Some(1), Some(5)]);
        config.informed_failover = d.one_in(3);
        config.loss_probe_interval = d.millis(10, 10_000);
        config.revision = d.of(&[Revision::Rfc2960, Revision::Rfc4960, Revision::Rfc9260]);
    }
    config.timestamps = d.one_in(2);
    config.initiation = d.of(&[InitiationOrder::Sequential, InitiationOrder::Parallel]);
    config.outbound_streams = d.of(&[1, 2, 10, 64, 1024, 65_535]);
    config.inbound_streams = d.of(&[1, 2, 10, 1024, 65_535]);
    config.scheduler =
        d.of(&[SchedulerKind::Fifo, SchedulerKind::RoundRobin, SchedulerKind::Priority]);
    config.receive_buffer = d.scale(1500, 1 << 20) as usize;
    config.send_buffer = d.scale(1, 1 << 20) as usize;
    if d.one_in(4) {
        config.stream_send_buffer = d.scale(1, 1 << 16) as usize;
    }
    if d.one_in(3) {
        config.partial_delivery_point = d.scale(1, 1 << 18) as usize;
    }
    config.fill_packets = d.one_in(2);
    config.nagle = d.one_in(4);
    if d.one_in(3) {
        config.mtu.discovery = d.one_in(2);
        config.mtu.base = d.of(&[576, 600, 1200, 1280]);
        config.mtu.max = d.of(&[1280, 1400, 1500, 9000]);
    }
    if d.one_in(12) {
        config.autoclose = Some(d.millis(100, 60_000));
    }
    config
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
    // A path, or one direction of it, may die and stay so while there are faults.
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
