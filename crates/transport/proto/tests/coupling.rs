//! Coupled congestion control between two endpoints: the windows of two equal paths.

use std::time::Duration;

use anabranch_harness::{Pair, Verdict};
use anabranch_impair::LinkConfig;
use anabranch_proto::{AssociationConfig, Coupling, MultipathMode};
use anabranch_wire::kind;

/// User data and DATA chunk of a full packet: 1500 bytes less the headers of IP and SCTP.
const MESSAGE: usize = 1452;
const PMDCS: f64 = 1468.0;

const RTT: Duration = Duration::from_millis(100);

/// The windows at the end.
#[derive(Debug)]
struct Windows {
    /// Slow-start thresholds after the first loss, in packets.
    ssthresh: [f64; 2],
    /// Growth of both together in congestion avoidance, in packets for each round trip.
    growth: f64,
}

/// A transfer over two paths of equal delay that each lose one packet.
fn windows(coupling: Coupling) -> Windows {
    let mut config = AssociationConfig::rfc9260().with_multipath(MultipathMode::Cmt);
    config.multipath.coupling = coupling;
    (config.mtu.discovery, config.mtu.max) = (false, 1500);
    (config.sending.send_buffer, config.receiving.receive_buffer) = (8_000_000, 4_000_000);
    let mut pair = Pair::connected(2, config);
    for path in 0..2 {
        let link = LinkConfig::new().delay(RTT / 2);
        let (a, b) = (pair.addresses[0][path], pair.addresses[1][path]);
        pair.net.set_link(a, b, link.clone());
        pair.net.set_link(b, a, link);
    }
    let locals = [pair.addresses[0][0], pair.addresses[0][1]];
    let mut seen = [0; 2];
    pair.net.script(move |sight| {
        let path = locals.iter().position(|local| *local == sight.from);
        match path {
            Some(path) if sight.has(kind::DATA) => {
                seen[path] += 1;
                if seen[path] == 50 { Verdict::Drop } else { Verdict::Pass }
            }
            _ => Verdict::Pass,
        }
    });
    let run_to = |pair: &mut Pair, count: usize| {
        let done = pair.run_until(Duration::from_secs(60), |pair| {
            while pair.send(0, 0, vec![7; MESSAGE]) {}
            pair.received[1].len() >= count
        });
        assert!(done, "{} messages", pair.received[1].len());
        let statistics = pair.statistics(0);
        assert_eq!(statistics.counters.timeouts, 0);
        (pair.net.now(), [0, 1].map(|path| statistics.paths[path]))
    };
    let (begun, before) = run_to(&mut pair, 1000);
    let ssthresh = [0, 1].map(|path| before[path].ssthresh as f64 / PMDCS);
    assert_eq!(pair.statistics(0).counters.fast_recoveries, 2);
    let (ended, after) = run_to(&mut pair, 4000);
    let grown: usize = (0..2).map(|path| after[path].cwnd - before[path].cwnd).sum();
    let rounds = ended.saturating_since(begun).as_secs_f64() / RTT.as_secs_f64();
    Windows { ssthresh, growth: grown as f64 / PMDCS / rounds }
}

#[test]
fn windows_grow_by_what_the_algorithms_say() {
    // A packet on each path in a round trip, which delayed acknowledgements make longer.
    let uncoupled = windows(Coupling::Uncoupled).growth;
    assert!((1.5..=2.0).contains(&uncoupled), "{uncoupled}");
    for (coupling, part) in [
        // A quarter of a packet on each path.
        (Coupling::Lia, 0.25),
        (Coupling::Balia, 0.25),
        // The amounts moved between the paths cancel out.
        (Coupling::Olia, 0.25),
        // One packet, divided between the paths.
        (Coupling::CmtRpV1, 0.5),
        (Coupling::CmtRpV2, 0.5),
    ] {
        let windows = windows(coupling);
        let error = (windows.growth / uncoupled / part - 1.0).abs();
        assert!(error < 0.1, "{coupling}: {windows:?}, {uncoupled} uncoupled");
    }
}

#[test]
fn a_loss_leaves_what_the_algorithms_say() {
    let [uncoupled, lia, v1, v2] =
        [Coupling::Uncoupled, Coupling::Lia, Coupling::CmtRpV1, Coupling::CmtRpV2].map(windows);
    assert_eq!(uncoupled.ssthresh, lia.ssthresh, "half");
    for resource_pooling in [v1, v2] {
        // The path that loses first has half of all windows, and keeps its share of four packets.
        let least = resource_pooling.ssthresh[0].min(resource_pooling.ssthresh[1]);
        assert!(least < 3.0 && uncoupled.ssthresh[0] > 10.0, "{resource_pooling:?}, {uncoupled:?}");
    }
}
