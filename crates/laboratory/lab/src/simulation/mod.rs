//! The experiment that scenarios describe: a simulated network around the protocol engine.

mod addresses;
mod build;
mod bursts;
mod cross;
mod failure;
mod flows;
mod measure;
mod packets;
mod page;
mod trace;
mod window;

use std::time::Duration;

use anabranch_sim::{Instant, Network, Outcome};

use build::Built;
use failure::Failure;
use flows::Flows;
pub use measure::of_sender;
pub use packets::TracedPacket;
pub use trace::{Trace, trace};
use window::Window;

use crate::metrics::Metrics;
use crate::runner::Experiment;
use crate::scenario::Point;
use crate::setup::{Event, Setup, When};

/// Runs a point's setup in the simulator.
#[derive(Clone, Copy, Debug, Default)]
pub struct Simulation;

impl Experiment for Simulation {
    fn run(&self, point: &Point, seed: u64) -> Result<Metrics, String> {
        let setup = &point.setup;
        if let Some(page) = &setup.page {
            return page::run(setup, page, seed);
        }
        let mut built = build::build(setup, seed).map_err(|error| error.to_string())?;
        let mut gauges = measure::Gauges::default();
        let gauged = if setup.gauges { Some(&mut gauges) } else { None };
        let mut failure = Failure::of(setup);
        let window = warm_up(setup, &mut built);
        let flows = Flows::open(&built);
        advance(setup, &mut built, gauged, failure.as_mut())?;
        let mut metrics = measure::metrics(&built, setup.gauges.then_some(&gauges));
        if let (Some(limit), Some(first)) = (setup.in_time, built.observed().first()) {
            first.measure_in_time(limit, &mut metrics);
        }
        window.close(&mut built, &mut metrics);
        flows.close(&built, &mut metrics);
        if let Some(failure) = &failure {
            failure.measure(&built, &mut metrics);
        }
        // Do not count packets in flight as lost.
        let longest = setup.network.paths.iter().map(|path| setup.network.rtt(path)).max();
        let drained = built.net.now() + 2 * longest.unwrap_or_default();
        built.net.run_until(drained);
        measure::losses(setup, &built, &mut metrics);
        Ok(metrics)
    }
}

/// Runs until the measurement begins.
fn warm_up(setup: &Setup, built: &mut Built) -> Window {
    if !setup.measure_from.is_zero() {
        built.net.run_until(Instant::ZERO + setup.measure_from.min(setup.time_limit));
    }
    Window::open(setup, built)
}

/// Interval between readings of gauges.
const GAUGE_INTERVAL: Duration = Duration::from_millis(100);

/// Runs to the end.
fn advance(
    setup: &Setup,
    built: &mut Built,
    mut gauges: Option<&mut measure::Gauges>,
    mut failure: Option<&mut Failure>,
) -> Result<(), String> {
    let limit = Instant::ZERO + setup.time_limit;
    let mut waiting: Vec<&Event> =
        setup.events.iter().filter(|event| matches!(event.when, When::AfterChunk(_))).collect();
    let mut next_gauge = Instant::ZERO;
    // Step event by event while there are events that wait for a chunk, gauges, or a failure that is not over.
    // Otherwise the network runs through.
    while !waiting.is_empty()
        || gauges.is_some()
        || failure.as_ref().is_some_and(|failure| failure.is_ahead())
    {
        if built.net.now() >= limit || all_ended(built) || !built.net.step() {
            break;
        }
        if let Some(gauges) = gauges.as_deref_mut()
            && built.net.now() >= next_gauge
        {
            gauges.read(built);
            next_gauge = built.net.now() + GAUGE_INTERVAL;
        }
        if let Some(failure) = failure.as_deref_mut() {
            failure.look(setup, built);
        }
        if waiting.is_empty() {
            continue;
        }
        let sent = built.chunks_sent(setup);
        let due = |event: &&Event| matches!(event.when, When::AfterChunk(n) if sent >= n);
        if let Some(index) = waiting.iter().position(due) {
            let event = waiting.swap_remove(index);
            let now = built.net.now();
            build::schedule(&mut built.net, &built.links, event, now)
                .map_err(|error| error.to_string())?;
        }
    }
    built.net.run(limit);
    Ok(())
}

fn all_ended(built: &Built) -> bool {
    let associations = built.transfers.iter();
    associations.clone().all(|id| built.net.transfer(*id).outcome != Outcome::Running)
        && built.connections().all(|id| built.net.tcp_flow(id).is_over)
}

impl Built {
    /// Chunks of the first transfer that were sent for the first time, assuming one chunk per message.
    fn chunks_sent(&self, setup: &Setup) -> u64 {
        let (Some(id), Some(transfer)) = (self.transfers.first(), setup.transfers.first()) else {
            return 0;
        };
        let Some(association) = self.net.sender(*id) else { return 0 };
        let statistics = association.statistics();
        let given = statistics.counters.messages_sent.saturating_mul(transfer.message);
        given.saturating_sub(statistics.send_queue_bytes as u64).div_ceil(transfer.message)
    }
}

/// A fingerprint of all packets of one run.
///
/// # Errors
/// Fails if the network cannot be built.
pub fn trace_hash(point: &Point, seed: u64) -> Result<u64, String> {
    let mut built: Built = build::build(&point.setup, seed).map_err(|error| error.to_string())?;
    advance(&point.setup, &mut built, None, None)?;
    let net: &Network = &built.net;
    Ok(net.trace_hash())
}

#[cfg(test)]
mod faults_tests;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::scenario::Scenario;
    use crate::scenario::tests::text;

    fn scenario(changes: &[(&str, &str)], more: &str) -> Scenario {
        let mut text = text().replace("\"4 MiB\"", "\"200 kB\"");
        for (from, to) in changes {
            assert!(text.contains(from), "{from}");
            text = text.replace(from, to);
        }
        Scenario::read(&format!("{text}{more}"), Path::new("t.toml"), "t/1", &[]).unwrap()
    }

    #[test]
    fn a_transfer_is_measured() {
        let scenario = scenario(&[], "");
        let metrics = Simulation.run(&scenario.points[0], 1).unwrap();
        assert_eq!(metrics.get("complete"), Some(1.0));
        let time = metrics.get("transfer_time_s").unwrap();
        let from_data = metrics.get("transfer_time_from_first_data_s").unwrap();
        assert!(time > from_data && from_data > 0.3, "{metrics:?}");
        assert!(metrics.get("longest_gap_s").unwrap() < time);
        assert!(metrics.get("delay_max_s").unwrap() >= metrics.get("delay_mean_s").unwrap());
        assert_eq!(metrics, Simulation.run(&scenario.points[0], 1).unwrap());
        assert_ne!(metrics, Simulation.run(&scenario.points[0], 2).unwrap());
    }

    #[test]
    fn a_transfer_over_tcp_is_measured_by_the_same_names() {
        let over_tcp = |loss: &str| {
            let changes = [
                ("\"1 %\", \"3 %\"", "\"0 %\""),
                ("message = \"1452 B\"", "message = \"1452 B\"\nover = \"tcp\""),
                ("core_delay = \"85 ms\"", loss),
            ];
            Simulation
                .run(&scenario(&changes, "[tcp]\ninitial_window = 10\n").points[0], 1)
                .unwrap()
        };
        let metrics = over_tcp("core_delay = \"85 ms\"");
        let get = |name: &str| metrics.get(name).unwrap();
        assert_eq!((get("complete"), get("timeouts"), get("lost_path1")), (1.0, 0.0, 0.0));
        // A handshake of one round trip of 90 ms, and 137 segments in windows of 10, 15 and so on: four more round
        // trips.
        let time = get("transfer_time_s");
        assert!((0.45..0.54).contains(&time), "{metrics:?}");
        // The first segment needs another one and a half round trips.
        assert!(get("transfer_time_from_first_data_s") < time - 0.135, "{metrics:?}");
        assert_eq!(get("goodput_kbit_s"), 200_000.0 * 8e-3 / time);
        assert!(get("packets_sent_path1") >= 137.0 && get("longest_gap_s") >= 0.08, "{metrics:?}");
        assert_eq!(metrics.get("tcp_goodput_kbit_s"), None, "it is no cross-traffic");
    }

    /// No segment follows the last one to reveal its loss.
    #[test]
    fn data_is_lost_and_displaced_by_numbers() {
        let run = |over: &str, path: &str| {
            let over = format!("message = \"1452 B\"\nover = \"{over}\"");
            let changes = [
                ("\"1 %\", \"3 %\"", "\"0 %\""),
                ("\"200 kB\"", "\"14520 B\""),
                ("message = \"1452 B\"", &over),
                ("loss = \"3 %\"", path),
                ("profile = \"rfc2960\"", "profile = \"rfc9260\""),
            ];
            let text = "[tcp]\nsegment = \"1452 B\"\n";
            Simulation.run(&scenario(&changes, text).points[0], 1).unwrap()
        };
        for over in ["tcp", "sctp"] {
            let get = |path: &str, name: &str| run(over, path).get(name).unwrap();
            assert_eq!(get("lose_data = 10", "timeouts"), 1.0, "{over}");
            assert_eq!(get("lose_data = 10", "lost_path1"), 1.0, "{over}");
            assert_eq!(get("lose_data = 7", "timeouts"), 0.0, "{over}");
            assert_eq!(get("lose_data = [0]", "lost_path1"), 0.0, "{over}");
            let displaced = "displace_data = 2\ndisplace_every = 6";
            assert_eq!(
                (get(displaced, "late_path1"), get(displaced, "timeouts")),
                (1.0, 0.0),
                "{over}"
            );
        }
    }

    #[test]
    fn an_engine_without_losses_needs_the_time_that_the_links_take() {
        let scenario = scenario(&[("\"1 %\", \"3 %\"", "\"0 %\"")], "");
        let metrics = Simulation.run(&scenario.points[0], 1).unwrap();
        assert_eq!(metrics.get("loss_path1_percent"), Some(0.0));
        assert_eq!(metrics.get("fast_retransmitted_chunks"), Some(0.0));
        // Handshake of two round trips, then slow start over 90 ms to 138 chunks.
        let time = metrics.get("transfer_time_s").unwrap();
        assert!((0.18 + 0.27..1.5).contains(&time), "{time}");
    }

    #[test]
    fn a_cut_path_is_found_to_have_failed() {
        let more = "[event.break]\nafter_chunk = 20\ncut = \"primary\"\n";
        let scenario =
            scenario(&[("profile = \"rfc2960\"", "profile = \"rfc2960\"\npmr = 1")], more);
        let metrics = Simulation.run(&scenario.points[1], 1).unwrap();
        assert_eq!(metrics.get("complete"), Some(1.0), "{metrics:?}");
        assert!(metrics.get("failovers").unwrap() >= 1.0, "{metrics:?}");
        assert!(metrics.get("failure_detected_s").unwrap() > 1.0, "{metrics:?}");
        let gap = metrics.get("longest_gap_s").unwrap();
        let gap_end = metrics.get("longest_gap_end_s").unwrap();
        assert!(gap > 0.9 && gap_end > gap, "{metrics:?}");
        let sum =
            |name: &str| [1, 2].map(|path| metrics.get(&format!("{name}_path{path}")).unwrap());
        assert_eq!(sum("timeouts").iter().sum::<f64>(), metrics.get("timeouts").unwrap());
        assert!(sum("timeout_runs_2")[0] >= 1.0, "{metrics:?}");
        assert!(sum("data_packets_sent")[1] > 0.0 && sum("retransmitted_chunks")[1] > 0.0);
        assert!(sum("data_packets_sent")[0] < sum("packets_sent")[0]);
    }

    #[test]
    fn a_small_send_buffer_blocks_and_nr_sacks_make_room_in_it() {
        let run_from = |buffer: &str, nr_sack: bool, more: &str| {
            let to =
                format!("profile = \"rfc9260\"\nsend_buffer = \"{buffer}\"\nnr_sack = {nr_sack}");
            let unordered = ("[traffic.file]", "[traffic.file]\nordered = false");
            let changes = [("profile = \"rfc2960\"", to.as_str()), unordered];
            Simulation.run(&scenario(&changes, more).points[0], 1).unwrap()
        };
        let run = |buffer: &str, nr_sack: bool| run_from(buffer, nr_sack, "");
        let (sack, nr_sack, large) = (run("16 kB", false), run("16 kB", true), run("1 MB", false));
        for (metrics, util) in [(&sack, false), (&nr_sack, true)] {
            let get = |name: &str| metrics.get(name).unwrap();
            assert_eq!(
                get("retransmission_queue_utilization_percent") == 100.0,
                util,
                "{metrics:?}"
            );
            assert!(get("send_buffer_blocks") >= 1.0 && get("recovery_s") > 0.0, "{metrics:?}");
            assert!(
                get("recovery_utilization_percent")
                    <= get("retransmission_queue_utilization_percent")
            );
            let blocked = get("send_buffer_blocked_s");
            assert!(blocked > 0.0 && blocked < get("transfer_time_s"), "{metrics:?}");
        }
        let share = |metrics: &Metrics| metrics.get("recovery_blocked_percent").unwrap();
        assert!(share(&nr_sack) < share(&sack), "{nr_sack:?} {sack:?}");
        assert_eq!((large.get("send_buffer_blocks"), share(&large)), (Some(0.0), 0.0));
        // Measured from the middle on.
        let half = sack.get("ended_s").unwrap() / 2.0;
        let late = run_from("16 kB", false, &format!("[measure]\nfrom = \"{half} s\"\n"));
        assert_eq!(late.get("transfer_time_s"), sack.get("transfer_time_s"));
        for name in ["send_buffer_blocked_s", "send_buffer_blocks", "recovery_s"] {
            let [late, whole] = [&late, &sack].map(|metrics| metrics.get(name).unwrap());
            assert!(late < whole, "{name}: {late} of {whole}");
        }
        let blocked = late.get("send_buffer_blocked_s").unwrap();
        assert!(blocked > 0.0 && blocked < half, "{blocked} of {half}");
    }

    #[test]
    fn goodput_while_a_path_is_down_ends_with_its_repair_or_detection() {
        let base = &[
            ("\"1 %\", \"3 %\"", "\"0 %\""),
            ("profile = \"rfc2960\"", "profile = \"rfc2960\"\npmr = 1"),
        ];
        let cut = "[event.cut]\nat = \"400 ms\"\ncut = \"primary\"\n";
        let run = |more: &str| Simulation.run(&scenario(base, more).points[0], 1).unwrap();
        // Two timeouts, during which at most retransmissions arrive over the other path.
        let detected = run(cut);
        let at = detected.get("failure_detected_s").unwrap();
        assert!((3.3..4.0).contains(&at), "{detected:?}");
        // Data in flight arrives after the failover if retransmissions use the same path.
        let late = |metrics: &Metrics| metrics.get("in_flight_late_s").unwrap();
        assert!((3.0..3.6).contains(&late(&detected)), "{detected:?}");
        let elsewhere = Simulation.run(&scenario(base, cut).points[1], 1).unwrap();
        assert!(late(&elsewhere) < late(&detected), "{elsewhere:?}");
        let slow = detected.get("goodput_in_failure_kb_s").unwrap();
        assert!(slow > 0.0 && slow * (at - 0.4) < 100.0, "{detected:?}");
        // It is repaired before it is detected.
        let repaired =
            run(&format!("{cut}[event.repair]\nat = \"500 ms\"\nrepair = \"primary\"\n"));
        assert_eq!(repaired.get("failure_detected_s"), None, "{repaired:?}");
        assert!(repaired.get("goodput_in_failure_kb_s").is_some(), "{repaired:?}");
        // Nothing is cut, or only after the end.
        let late = cut.replace("400 ms", "1000 s");
        for metrics in [run(""), run(&late)] {
            assert_eq!(metrics.get("goodput_in_failure_kb_s"), None, "{metrics:?}");
            assert!(metrics.get("ended_s").unwrap() < 10.0, "{metrics:?}");
        }
    }

    #[test]
    fn two_dead_paths_end_the_association() {
        let more = "[event.a]\nat = \"300 ms\"\ncut = \"primary\"\n\
                    [event.b]\nat = \"300 ms\"\ncut = \"alternate\"\n";
        let scenario = scenario(&[], more);
        let metrics = Simulation.run(&scenario.points[0], 1).unwrap();
        assert_eq!(metrics.get("complete"), Some(0.0));
        assert_eq!(metrics.get("transfer_time_s"), None);
        assert!(metrics.get("ended_s").unwrap() > 60.0, "{metrics:?}");
    }

    #[test]
    fn cross_traffic_takes_its_share() {
        let more = "[cross.load]\npath = \"primary\"\nkind = \"pareto\"\nrate = \"9 Mb/s\"\n\
                    on = \"500 ms\"\noff = \"500 ms\"\n";
        let quiet = scenario(&[("\"1 %\", \"3 %\"", "\"0 %\"")], "");
        let busy = scenario(&[("\"1 %\", \"3 %\"", "\"0 %\"")], more);
        let tcp = "[cross.tcp]\npath = \"primary\"\nkind = \"tcp\"\nflows = 3\n\
                   direction = \"forward\"\nstart_within = \"100 ms\"\n";
        let beside_tcp = scenario(&[("\"1 %\", \"3 %\"", "\"0 %\"")], tcp);
        let run = |scenario: &Scenario| Simulation.run(&scenario.points[0], 1).unwrap();
        let time = |scenario: &Scenario| run(scenario).get("transfer_time_s").unwrap();
        assert!(time(&busy) > time(&quiet));
        assert!(time(&beside_tcp) > 1.5 * time(&quiet));
        assert_eq!(run(&quiet).get("tcp_goodput_kbit_s"), None);
        let each = run(&beside_tcp).get("tcp_goodput_kbit_s").unwrap();
        assert!((1000.0..4000.0).contains(&each), "{each}");
    }

    #[test]
    fn a_mix_loads_the_core_and_measuring_begins_after_the_warm_up() {
        let loaded = |web: u32| {
            let more = format!(
                "[cross.mix]\npath = \"primary\"\nkind = \"mix\"\nweb = {web}\nvideos = 1\n\
                 video_rate = \"200 kb/s\"\nbulk = 1\nbulk_window = \"8 kB\"\nstart_within = \"1 s\"\n\
                 edge_delays = [\"0 ms\", \"12 ms\"]\nedge_delays_far = [\"2 ms\"]\n\
                 [measure]\nfrom = \"5 s\"\ntime_limit = \"15 s\"\n"
            );
            let changes = [
                ("\"1 %\", \"3 %\"", "\"0 %\""),
                ("size = \"200 kB\"", "size = \"1 GB\"\nstart = \"1 s\"\nstart_within = \"1 s\""),
            ];
            let scenario = scenario(&changes, &more);
            Simulation.run(&scenario.points[0], 1).unwrap()
        };
        let (low, high) = (loaded(5), loaded(80));
        let get = |metrics: &Metrics, name: &str| metrics.get(name).unwrap();
        for metrics in [&low, &high] {
            assert_eq!(metrics.get("complete"), Some(0.0));
            assert!((12.9..=14.0).contains(&get(metrics, "ended_s")), "{metrics:?}");
            assert!(get(metrics, "retransmission_queue_mean_kb") > 1.0, "{metrics:?}");
        }
        // Two pairs, each with requests of 11 kB on average: 0.9 and 14 of 10 Mb/s.
        assert!(get(&low, "queue_path1_percent") < get(&high, "queue_path1_percent"), "{high:?}");
        assert!(get(&high, "dropped_path1_percent") > 1.0, "{high:?}");
        assert!(get(&low, "throughput_kbit_s") > 2.0 * get(&high, "throughput_kbit_s"), "{high:?}");
        assert_eq!(get(&high, "queue_path2_percent"), 0.0);
    }
}
