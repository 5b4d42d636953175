//! The actions of the users.

use std::time::Duration;

use anabranch_impair::Probability;
use anabranch_proto::{AddressChange, AssociationConfig, StreamDirection};

use super::{ByteTraffic, Draw, Reader, Traffic, Whim};

/// How a user reads.
pub(super) fn reader(d: &mut Draw) -> Reader {
    match d.between(0, 5) {
        0 => Reader::Stalled,
        1 | 2 => Reader::Slow { count: d.scale(1, 20) as u32, every: d.millis(1, 2000) },
        _ => Reader::Eager,
    }
}

/// The traffic of both users; often only one of them sends.
pub(super) fn traffic_of_both(d: &mut Draw) -> [Traffic; 2] {
    let both_ways = d.one_in(2);
    let mut traffic = [(); 2].map(|()| traffic(d));
    if !both_ways {
        traffic[d.node()].messages = 0;
    }
    traffic
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

/// The users' actions on byte streams.
pub(super) fn byte_traffic(d: &mut Draw) -> ByteTraffic {
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

/// A request: node, time and request.
pub(super) fn whim(d: &mut Draw, addresses: u64, faults: Duration) -> (usize, Duration, Whim) {
    let address = d.0.below(addresses) as usize;
    let whim = match d.between(0, 8) {
        0 | 1 => Whim::Primary(address),
        2 => Whim::Heartbeat(address),
        3 | 4 => {
            use StreamDirection::{Both, Incoming, Outgoing};
            let stream = (!d.one_in(4)).then(|| d.between(0, 5) as u16);
            Whim::Reset(d.of(&[Both, Incoming, Outgoing]), stream)
        }
        5 => Whim::AddStreams(d.between(0, 3) as u16, d.between(0, 3) as u16),
        6 => Whim::ResetAssociation,
        _ => Whim::Priority(d.between(0, 5) as u16, d.between(0, 3) as u16),
    };
    (d.node(), d.moment(faults), whim)
}

/// Requests to change addresses, mostly to remove them and add them again.
pub(super) fn moves(
    d: &mut Draw,
    addresses: u64,
    faults: Duration,
) -> Vec<(usize, Duration, Whim)> {
    use AddressChange::{Added, Preferred, Removed};
    let count = if d.one_in(2) { d.scale(4, 40) } else { 0 };
    let mut draw = || {
        let change = d.of(&[Added, Added, Removed, Removed, Preferred]);
        (d.node(), d.moment(faults), Whim::Address(change, d.0.below(addresses) as usize))
    };
    (0..count).map(|_| draw()).collect()
}

/// Messages whose lifetimes are shorter than their waits, in a buffer that they fill.
pub(super) fn short_lives(
    d: &mut Draw,
    traffic: &mut [Traffic; 2],
    configs: &mut [AssociationConfig; 2],
) {
    for (traffic, config) in traffic.iter_mut().zip(configs) {
        if d.one_in(8) {
            traffic.mortal = d.of(&[Probability::percent(60), Probability::ONE]);
            config.sending.send_buffer = d.scale(1, 20_000) as usize;
        }
    }
}
