//! The gain of failing over at the first timeout instead of waiting for a second one: equations 3.1
//! to 3.10 of caro 3.3.7.
//!
//! In scenario 3 the packet that the primary path carries after a timeout is lost as well. With PMR
//! 0 the transfer continues over the alternate path until the primary answers; with PMR 1 it stops
//! until the second timeout. In scenario 4 the alternate path loses its packet too, and PMR 0
//! continues over the primary path. Either way PMR 0 sends [`packets`] where PMR 1 sends one.
//!
//! The text requires at least one round trip and at most all of them in slow start, so the minimum
//! printed in (3.1) and (3.10) is read as a maximum, and the maximum printed in (3.3) as a minimum;
//! (3.7) gives the window of round trip i, not i + 1.

use std::time::Duration;

/// Growth of cwnd in a round trip of slow start, with an acknowledgement for every second packet.
const GROWTH: f64 = 1.5;

/// Round trips on the alternate path in scenario 3, at least 1 (3.1). `rto` is the primary path's
/// after its first timeout.
pub fn round_trips_until_answer(rto: Duration, primary: Duration, alternate: Duration) -> f64 {
    ((rto + primary).as_secs_f64() / alternate.as_secs_f64()).max(1.0)
}

/// Round trips on the primary path in scenario 4, at least 1 (3.10). `rto` is the primary path's
/// after its first timeout, `alternate_rto` the alternate path's.
pub fn round_trips_until_timeout(rto: Duration, alternate_rto: Duration, primary: Duration) -> f64 {
    (rto.saturating_sub(alternate_rto).as_secs_f64() / primary.as_secs_f64()).max(1.0)
}

/// Packets sent in this many round trips, at least 1, from a window of one packet (3.2 to 3.9).
/// `ssthresh` is in packets, at least 1. Losses would make it fewer.
pub fn packets(round_trips: f64, ssthresh: f64) -> f64 {
    // (3.3): how long slow start lasts.
    let slow_start = round_trips.min(1.0 + ssthresh.max(1.0).ln() / GROWTH.ln());
    // (3.4)
    let in_slow_start = (GROWTH.powf(slow_start) - 1.0) / (GROWTH - 1.0);
    // (3.5) to (3.8): another packet in each round trip.
    let avoiding = round_trips - slow_start;
    let in_avoidance = avoiding * ssthresh + (avoiding + avoiding * avoiding) / 2.0;
    in_slow_start + in_avoidance
}

#[cfg(test)]
mod tests {
    use anabranch_proto::config::{IdleCwnd, InitialCwnd};
    use anabranch_proto::{AssociationConfig, MtuConfig, RetransmissionPolicy};
    use anabranch_sim::{Action, Direction, Instant, LinkConfig, Network, Transfer};

    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_equations() {
        assert_eq!(round_trips_until_answer(millis(2000), millis(90), millis(95)), 22.0);
        assert_eq!(round_trips_until_answer(millis(100), millis(90), millis(1040)), 1.0);
        assert_eq!(round_trips_until_timeout(millis(2000), millis(1000), millis(100)), 10.0);
        assert_eq!(round_trips_until_timeout(millis(1000), millis(3000), millis(100)), 1.0);
        // One round trip sends one packet: PMR 0 gains nothing.
        assert!((packets(1.0, 8.0) - 1.0).abs() < 1e-9);
        // Slow start only: 2 (1.5^3 - 1).
        assert!((packets(3.0, 1000.0) - 4.75).abs() < 1e-9);
        // From a threshold of one packet: one, then 2 + 3 in congestion avoidance.
        assert!((packets(3.0, 1.0) - 6.0).abs() < 1e-9);
        // 1.5^3 packets: four round trips of slow start, then 4.375 and 5.375.
        assert!((packets(6.0, 3.375) - (8.125 + 2.0 * 3.375 + 3.0)).abs() < 1e-9);
    }

    /// Packets that the alternate path carries between the timeout on the primary path and its
    /// return, when nothing passes the primary path until after the first heartbeat.
    fn simulated(alternate: Duration) -> f64 {
        let mut net = Network::new(1);
        let (a, b) = (net.add_host("A"), net.add_host("B"));
        let link = |rtt: Duration| LinkConfig::new().rate(100_000_000).delay(rtt / 2);
        let primary = net.connect(a, b, link(millis(90)), link(millis(90))).unwrap();
        net.connect(a, b, link(alternate), link(alternate)).unwrap();
        net.routes_by_hops();
        let (sender, receiver) = (net.add_endpoint(a).unwrap(), net.add_endpoint(b).unwrap());
        let mut config = AssociationConfig::rfc2960();
        config.mtu = MtuConfig::fixed(1500);
        config.paths.retransmission = RetransmissionPolicy::FrSameRtoAlt;
        config.congestion.initial_cwnd = InitialCwnd::Mtus(1);
        config.congestion.idle_cwnd = IdleCwnd::Keep;
        config.paths.path_max_retrans = 0;
        let transfer = Transfer::bulk(sender, receiver, 4 << 20).config(config);
        let transfer = net.add_transfer(transfer).unwrap();
        // The handshake is over after two round trips; the timeout comes 1 s later.
        let cut = |net: &mut Network, at: u64, up: bool| {
            let direction = Direction::Both;
            let action = match up {
                true => Action::Repair { link: primary, direction },
                false => Action::Cut { link: primary, direction },
            };
            net.schedule(Instant::ZERO + millis(at), action).unwrap();
        };
        cut(&mut net, 181, false);
        cut(&mut net, 1500, true);
        net.run_while(|net| {
            let sender = net.sender(transfer).map(|a| a.statistics());
            sender.is_none_or(|s| s.counters.timeouts == 0 || s.active.number() == 1)
        });
        let statistics = net.sender(transfer).unwrap().statistics();
        assert_eq!(statistics.counters.timeouts, 1);
        statistics.paths[1].data_bytes_sent as f64 / 1452.0
    }

    #[test]
    fn simulated_runs_send_about_as_many_packets() {
        for alternate in [210, 400, 700, 1040] {
            let rtt = millis(alternate);
            let predicted = packets(round_trips_until_answer(millis(2000), millis(90), rtt), 1e9);
            let sent = simulated(rtt);
            // The model has fractions of packets and round trips, and no delayed acknowledgement.
            let ratio = sent / predicted;
            assert!((0.4..2.5).contains(&ratio), "{alternate} ms: {sent} for {predicted}");
        }
    }
}
