//! The network between the nodes: addresses, links and their faults, and what the endpoints know about it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use anabranch_impair::{
    CoDel, Cut, Discipline, GilbertElliott, LinkConfig, Loss, Probability, QueueLimit, Red,
};
use anabranch_proto::config::{OutOfTheBlue, Routes};
use anabranch_proto::{Encapsulation, EndpointConfig};
use anabranch_testnet::PathMtu;

use super::{Draw, LinkSpec};

/// An address of node 0 and one of node 1.
type Pair = (IpAddr, IpAddr);

/// The addresses of both nodes, one for each path.
pub(super) fn addresses(d: &mut Draw) -> [Vec<IpAddr>; 2] {
    let v6 = |path: u8, node: u8| -> IpAddr {
        Ipv6Addr::new(0x2001, 0xdb8, u16::from(path), 0, 0, 0, 0, u16::from(node) + 1).into()
    };
    let v4 = |path: u8, node: u8| -> IpAddr { Ipv4Addr::new(10, path, 0, node + 1).into() };
    let paths = d.of(&[1, 1, 1, 2, 2, 2, 3, 4]);
    let sixes: Vec<bool> = (0..paths).map(|_| d.one_in(4)).collect();
    [0, 1].map(|node| {
        (sixes.iter().enumerate())
            .map(|(path, six)| if *six { v6(path as u8, node) } else { v4(path as u8, node) })
            .collect()
    })
}

/// Pairs the first addresses of both nodes, the second ones, and so on.
fn straight([near, far]: &[Vec<IpAddr>; 2]) -> Vec<Pair> {
    near.iter().copied().zip(far.iter().copied()).collect()
}

/// The pairs with a link between them, and whether the endpoints also try all others.
pub(super) fn pairs(d: &mut Draw, addresses: &[Vec<IpAddr>; 2]) -> (Vec<Pair>, bool) {
    let [near, far] = addresses;
    let all = || -> Vec<Pair> {
        (near.iter())
            .flat_map(|a| far.iter().map(|b| (*a, *b)))
            .filter(|(a, b)| a.is_ipv4() == b.is_ipv4())
            .collect()
    };
    // Crossed paths exist and are known, or they do not exist and attempts to use them fail.
    match d.between(0, 3) {
        0 | 1 => (straight(addresses), false),
        2 => (all(), true),
        _ => (straight(addresses), true),
    }
}

/// Options of both endpoints.
pub(super) fn endpoints(
    d: &mut Draw,
    addresses: &[Vec<IpAddr>; 2],
    any_route: bool,
) -> [EndpointConfig; 2] {
    let encapsulation = d.of(&[Encapsulation::Udp, Encapsulation::Udp, Encapsulation::Ip]);
    let cookie_life = d.of(&[60, 60, 60, 5]);
    let quantum = d.of(&[65_536, 1, 3000]);
    // Every fourth seed makes the TSNs wrap early.
    let near_wrap = d.one_in(4).then(|| 0_u32.wrapping_sub(d.scale(1, 100) as u32));
    let buggify = d.of(&[0, 0, 0, 50, 200]);
    let secret_lifetime = d.of(&[600, 600, 5]);
    let silent = d.one_in(6);
    [false, true].map(|swap| {
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
            let turn = |(a, b): &Pair| if swap { (*b, *a) } else { (*a, *b) };
            config.routes = Routes::Pairs(straight(addresses).iter().map(turn).collect());
        }
        config
    })
}

/// A local address that is temporarily unusable.
pub(super) fn vanishing(
    d: &mut Draw,
    addresses: u64,
    faults: Duration,
) -> (usize, usize, Duration, Duration) {
    let address = d.0.below(addresses) as usize;
    (d.node(), address, d.moment(faults), d.millis(10, 20_000))
}

/// Lets some queues drop packets before they are full, or mark them, and some links swallow ECN-capable packets.
pub(super) fn treatment_of_ecn<T>(d: &mut Draw, links: &mut [(T, LinkSpec)]) {
    for config in links.iter_mut().flat_map(|(_, link)| &mut link.directions) {
        let ecn = d.one_in(2);
        // Strict ones, because most queues are short and do not last.
        let red = Red {
            min_threshold: 0,
            max_threshold: d.scale(1, 50) as u32,
            max_probability: d.percent(100),
            weight: Probability::ONE,
            ecn,
            ..Red::default()
        };
        let disciplines = [
            Discipline::DropTail,
            Discipline::Red(red),
            Discipline::CoDel(CoDel { ecn, ..CoDel::default() }),
        ];
        let discipline = d.of(&disciplines);
        if config.rate.is_some() {
            config.discipline = discipline;
        }
    }
    for (_, link) in links {
        link.swallows_ecn = d.one_in(6);
    }
}

/// One path in both directions.
pub(super) fn link(d: &mut Draw, harsh: u64, faults: Duration) -> LinkSpec {
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
    // A path, or one direction of it, may fail for good while there are faults.
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
        mtu_change: d.one_in(4).then(|| (d.moment(faults), mtu(d))),
        swallows_ecn: false,
    }
}
