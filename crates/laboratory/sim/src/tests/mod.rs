//! Whole networks.

mod addresses;
mod failures;
mod feeds;
mod flows;
mod network;
mod rules;
mod spreads;
mod time_lines;
mod transfers;
mod watching;

use std::time::Duration;

use anabranch_proto::{AssociationConfig, MtuConfig};

use crate::*;

/// Two hosts connected by disjoint paths of three links each (caro 2.3).
struct Dumbbell {
    net: Network,
    cores: Vec<LinkId>,
    sender: EndpointId,
    receiver: EndpointId,
    /// The receiver's first address.
    first: std::net::IpAddr,
}

fn link(rate: u64, delay_ms: u64) -> LinkConfig {
    LinkConfig::new().rate(rate).delay(ms(delay_ms)).queue(QueueLimit::Packets(166))
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn loss(percent: u32) -> Loss {
    Loss::Uniform(Probability::percent(percent))
}

/// Builds a path for each loss rate, in percent.
fn dumbbell(seed: u64, losses: &[u32]) -> Dumbbell {
    let mut net = Network::new(seed);
    let (a, b) = (net.add_host("A"), net.add_host("B"));
    let mut cores = Vec::new();
    for percent in losses {
        let (left, right) = (net.add_router("left"), net.add_router("right"));
        net.connect_both(a, left, link(100_000_000, 10)).unwrap();
        let core = link(10_000_000, 25).loss(loss(*percent));
        cores.push(net.connect_both(left, right, core).unwrap());
        net.connect_both(right, b, link(100_000_000, 10)).unwrap();
    }
    net.routes_by_hops();
    let (sender, receiver) = (net.add_endpoint(a).unwrap(), net.add_endpoint(b).unwrap());
    let first = net.addresses_of(b).next().unwrap();
    Dumbbell { net, cores, sender, receiver, first }
}

impl Dumbbell {
    fn bulk(&self, bytes: u64) -> Transfer {
        Transfer::bulk(self.sender, self.receiver, bytes)
    }
}

fn fixed_mtu(mut config: AssociationConfig) -> AssociationConfig {
    config.mtu = MtuConfig::fixed(1500);
    config
}
