//! Settings of scenario files for wires, events, transfers and the primary path.

use std::path::Path;

use super::Simulation;
use crate::metrics::Metrics;
use crate::runner::Experiment as _;
use crate::scenario::Scenario;
use crate::scenario::tests::text;
use crate::tree::Checked;

/// Reads the tests' scenario with other keys of the first path and additional tables.
fn read(path: &str, more: &str) -> Checked<Scenario> {
    let text = text().replace("\"4 MiB\"", "\"200 kB\"").replace("\"1 %\", \"3 %\"", "\"0 %\"");
    let keys = format!("[path.primary]\n{path}");
    let text = text.replace("[path.primary]", &keys);
    Scenario::read(&format!("{text}{more}"), Path::new("t.toml"), "t/1", &[])
}

fn run(path: &str, more: &str) -> Metrics {
    let scenario = read(path, more).unwrap();
    let metrics = Simulation.run(&scenario.points[0], 1).unwrap();
    assert_eq!(metrics, Simulation.run(&scenario.points[0], 1).unwrap());
    metrics
}

fn get(metrics: &Metrics, name: &str) -> f64 {
    metrics.get(name).unwrap_or_else(|| panic!("{name} is not in {metrics:?}"))
}

#[test]
fn a_wire_delays_reorders_duplicates_and_damages() {
    let plain = run("", "");
    let time = |metrics: &Metrics| get(metrics, "transfer_time_s");
    assert_eq!(get(&plain, "fast_retransmitted_chunks"), 0.0);
    // Jitter that keeps the order costs time but no retransmission; without order it causes
    // reordering.
    let jitter = run("jitter = \"20 ms\"\nkeep_order = true\n", "");
    assert!(
        time(&jitter) > time(&plain) && get(&jitter, "fast_retransmitted_chunks") == 0.0,
        "{jitter:?}"
    );
    let shaken = run("jitter = \"100 ms\"\n", "");
    assert!(get(&shaken, "fast_retransmitted_chunks") > 0.0, "{shaken:?}");
    let reordered = run("reorder = \"10 %\"\nreorder_delay = \"80 ms\"\n", "");
    assert!(get(&reordered, "fast_retransmitted_chunks") > 0.0, "{reordered:?}");
    // Twice as many packets arrive, but the transfer is the same.
    let twice = run("duplicate = \"100 %\"\n", "");
    assert_eq!(get(&twice, "complete"), 1.0);
    // Damaged packets fail the checksum: they arrive and must be retransmitted.
    let damaged = run("corrupt = \"3 %\"\n", "");
    assert_eq!(get(&damaged, "complete"), 1.0);
    assert_eq!(get(&damaged, "loss_path1_percent"), 0.0);
    let again =
        get(&damaged, "fast_retransmitted_chunks") + get(&damaged, "timeout_retransmitted_chunks");
    assert!(again > 0.0 && time(&damaged) > time(&plain), "{damaged:?}");
    // A path with a smaller MTU than the association assumes reports it.
    let small = run("mtu = \"1000 B\"\n", "");
    assert!(
        get(&small, "data_packets_sent_path1") > get(&plain, "data_packets_sent_path1"),
        "{small:?}"
    );
}

#[test]
fn paths_that_the_peer_lists_are_verified() {
    let beats = |known: &str| {
        let text = text().replace("\"1 %\", \"3 %\"", "\"0 %\"").replace("4 MiB", "200 kB");
        let text = text.replace("[network]", &format!("[network]\n{known}"));
        let scenario = Scenario::read(&text, Path::new("t.toml"), "t/1", &[]).unwrap();
        let metrics = Simulation.run(&scenario.points[0], 1).unwrap();
        assert_eq!(get(&metrics, "complete"), 1.0);
        get(&metrics, "packets_sent_path2")
    };
    assert_eq!(beats("known = \"all\""), beats(""));
    // One heartbeat of the sender, immediately.
    assert_eq!(beats("known = \"primary\""), beats("") + 1.0);
}

#[test]
fn the_way_back_may_have_faults_of_its_own() {
    let time = |metrics: &Metrics| get(metrics, "transfer_time_s");
    let plain = run("", "");
    // Acknowledgements that overtake each other cause no retransmissions; data that does so causes
    // some.
    let both = run("jitter = \"100 ms\"\n", "");
    let data = run("jitter = \"100 ms\"\njitter_back = \"0 ms\"\n", "");
    let acknowledgements = run("jitter_back = \"100 ms\"\n", "");
    assert!(get(&data, "fast_retransmitted_chunks") > 0.0, "{data:?}");
    assert_eq!(get(&acknowledgements, "fast_retransmitted_chunks"), 0.0);
    assert!(time(&acknowledgements) > time(&plain), "{acknowledgements:?}");
    assert!(both != data);
    let refused = read("reorder_back = \"10 %\"\n", "").unwrap_err();
    assert!(refused.reason.contains("reorder_back needs a reorder_delay_back"), "{refused:?}");
    // Acknowledgements are small: no packet is too large for the reverse direction.
    let narrow = run("mtu_back = \"600 B\"\n", "");
    assert_eq!(time(&narrow), time(&plain));
}

#[test]
fn bursts_of_losses_may_last_for_a_time() {
    // The axis of the test sets the loss of the path to zero, but not that of the reverse
    // direction.
    let lossy = run("loss_burst = \"50 ms\"\nloss_back = \"20 %\"\n", "");
    assert!(get(&lossy, "loss_path1_percent") > 1.0, "{lossy:?}");
    let none = run("loss_burst = \"50 ms\"\n", "");
    assert_eq!(get(&none, "loss_path1_percent"), 0.0);
}

#[test]
fn events_change_delays_and_mtus() {
    let event = |what: &str| format!("[event.e]\nat = \"300 ms\"\non = \"primary\"\n{what}\n");
    let plain = run("", "");
    let later = run("", &event("delay = \"300 ms\""));
    assert!(get(&later, "transfer_time_s") > get(&plain, "transfer_time_s") + 0.5, "{later:?}");
    let smaller = run("", &event("mtu = \"800 B\""));
    assert_eq!(get(&smaller, "complete"), 1.0);
    assert!(
        get(&smaller, "data_packets_sent_path1") > get(&plain, "data_packets_sent_path1") + 10.0
    );
}

#[test]
fn several_transfers_are_measured_each() {
    let more = "[traffic.back]\nsize = \"200 kB\"\nmessage = \"1452 B\"\ndirection = \"back\"\n\
                [traffic.late]\nsize = \"400 kB\"\nmessage = \"1452 B\"\nstart = \"200 ms\"\n\
                [traffic.asks]\ncount = 20\nmessage = \"100 B\"\nanswer = \"3 kB\"\npause = \"10 ms\"\n";
    let metrics = run("", more);
    assert_eq!(get(&metrics, "complete"), 1.0);
    for (flow, bytes) in [(1, 200e3), (2, 200e3), (3, 400e3), (4, 62e3)] {
        let rate = get(&metrics, &format!("throughput_flow{flow}_kbit_s"));
        let time = get(&metrics, &format!("transfer_time_flow{flow}_s"));
        assert!((rate * time / 8.0 * 1e3 - bytes).abs() < 2.0, "{flow}: {rate} for {time}");
    }
    assert_eq!(metrics.get("throughput_flow1_kbit_s"), metrics.get("goodput_kbit_s"));
    // An answer takes at least a round trip of 90 ms, and the next request another pause.
    assert!(get(&metrics, "delay_mean_flow4_s") >= 0.09, "{metrics:?}");
    assert!(get(&metrics, "transfer_time_flow4_s") >= 20.0 * 0.09 + 19.0 * 0.01, "{metrics:?}");
    let jain = get(&metrics, "jain_index");
    assert!((0.25..1.0).contains(&jain), "{jain}");
    let all: f64 = (1..=4).map(|n| get(&metrics, &format!("throughput_flow{n}_kbit_s"))).sum();
    assert!((get(&metrics, "throughput_all_kbit_s") - all).abs() < 1e-6 * all, "{metrics:?}");
    // A single transfer has nothing to compare.
    assert_eq!(run("", "").get("jain_index"), None);
    let names = read("", more).unwrap().names;
    assert_eq!(names.flows, ["file", "back", "late", "asks"]);
}

#[test]
fn copies_of_a_transfer_are_the_same_as_tables_of_their_own() {
    let table = |name: &str, copies: &str| {
        format!(
            "[traffic.{name}]\nsize = \"200 kB\"\nmessage = \"1452 B\"\nstart_within = \"1 s\"\n{copies}"
        )
    };
    let copies = run("", &table("more", "copies = 3\n"));
    let tables: String = ["more", "b", "c"].map(|name| table(name, "")).concat();
    assert_eq!(copies, run("", &tables));
    assert_ne!(get(&copies, "throughput_flow3_kbit_s"), get(&copies, "throughput_flow4_kbit_s"));
    let error = read("", &table("more", "copies = 0\n")).unwrap_err();
    assert!(error.reason.contains("copies is 0, outside 1 to 1000"), "{error:?}");
}

#[test]
fn a_transfer_may_go_the_other_way_only() {
    let scenario = read("loss_back = \"0 %\"\n", "").unwrap();
    let there = Simulation.run(&scenario.points[0], 1).unwrap();
    let text = text().replace("\"4 MiB\"", "\"200 kB\"\ndirection = \"back\"");
    let text = text.replace("\"1 %\", \"3 %\"", "\"0 %\"");
    let scenario = Scenario::read(&text, Path::new("t.toml"), "t/1", &[]).unwrap();
    let back = Simulation.run(&scenario.points[0], 1).unwrap();
    // The paths are the same in both directions.
    assert_eq!(back.get("transfer_time_s"), there.get("transfer_time_s"));
    assert_eq!(back.get("data_packets_sent_path1"), there.get("data_packets_sent_path1"));
}

#[test]
fn the_primary_path_may_be_another_one() {
    let text = text().replace("\"4 MiB\"", "\"200 kB\"").replace("\"1 %\", \"3 %\"", "\"0 %\"");
    let chosen = text.replace("[network]\n", "[network]\nprimary = \"alternate\"\n");
    let run = |text: &str| {
        let scenario = Scenario::read(text, Path::new("t.toml"), "t/1", &[]).unwrap();
        Simulation.run(&scenario.points[0], 1).unwrap()
    };
    let (first, second) = (run(&text), run(&chosen));
    assert!(
        get(&first, "data_packets_sent_path1") > 100.0
            && get(&first, "data_packets_sent_path2") == 0.0
    );
    assert!(
        get(&second, "data_packets_sent_path2") > 100.0
            && get(&second, "data_packets_sent_path1") == 0.0
    );
    let cut = "[event.e]\nat = \"300 ms\"\ncut = \"alternate\"\n";
    let failed = run(&format!("{chosen}{cut}"));
    assert!(get(&failed, "failovers") >= 1.0 && get(&failed, "failure_detected_s") > 1.0);
    let wrong = text.replace("[network]\n", "[network]\nprimary = \"third\"\n");
    let error = Scenario::read(&wrong, Path::new("t.toml"), "t/1", &[]).unwrap_err();
    assert!(error.reason.contains("network.primary is 'third', which is not a path"), "{error:?}");
}

#[test]
fn an_axis_of_reordering_may_begin_at_zero() {
    for path in [
        "reorder = \"0 %\"\nreorder_delay = \"20 ms\"\n",
        "reorder = \"3 %\"\nreorder_delay = \"0 s\"\n",
        "reorder = \"0 %\"\n",
    ] {
        assert_eq!(run(path, ""), run("", ""), "{path}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let cases = [
        ("jitter = \"5 kB\"\n", "", "path.primary.jitter"),
        ("duplicate = \"101 %\"\n", "", "outside"),
        ("reorder = \"1 %\"\n", "", "needs a reorder_delay"),
        ("mtu = \"10 B\"\n", "", "outside"),
        ("loss_burst = \"0 s\"\n", "", "outside"),
        ("loss_burst = \"4 kB\"\n", "", "it may be a time, too"),
        (
            "",
            "[event.e]\nat = \"1 s\"\non = \"primary\"\n",
            "loss, rate, delay or mtu goes with on",
        ),
        (
            "",
            "[event.e]\nat = \"1 s\"\non = \"primary\"\nmtu = \"900 B\"\nloss = \"1 %\"\n",
            "one of them at a time",
        ),
        (
            "",
            "[traffic.a]\nsize = \"1 MB\"\nmessage = \"1 kB\"\nanswer = \"1 kB\"\n",
            "either a size",
        ),
        (
            "",
            "[traffic.a]\nsize = \"1 MB\"\nmessage = \"1 kB\"\npause = \"1 s\"\n",
            "from an answer to the next request",
        ),
        (
            "",
            "[traffic.a]\nsize = \"1 MB\"\nmessage = \"1 kB\"\ndirection = \"up\"\n",
            "it may be forward, back",
        ),
    ];
    for (path, more, reason) in cases {
        let error = read(path, more).unwrap_err();
        assert!(error.reason.contains(reason) && error.line > 0, "{path}{more}: {error:?}");
    }
}

#[test]
fn a_pattern_is_as_good_as_a_list_of_positions() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a.pattern");
    let named = format!("pattern = \"{}\"\n", file.display());
    let write = |text: &str| std::fs::write(&file, format!("anabranch pattern 1\n{text}")).unwrap();
    write("pattern loss per packet\nvalues\n....x...x\n");
    assert_eq!(run(&named, ""), run("lose_packets = [5, 9]\n", ""));
    // Only packets with data count: the handshake has two packets before them.
    write("pattern loss per packet\nfilter chunk data\nvalues\n....x\n");
    assert_eq!(run(&named, ""), run("lose_packets = [7]\n", ""));
    // A packet that six others overtake is considered lost.
    write("pattern displace per packet\nfilter chunk data\nvalues\n20*. 6\n");
    assert_eq!(get(&run(&named, ""), "fast_retransmitted_chunks"), 1.0);
    write("pattern displace per packet\nfilter chunk data\nvalues\n20*. 2\n");
    assert_eq!(get(&run(&named, ""), "fast_retransmitted_chunks"), 0.0);
    write("pattern loss per packet\nvalues\ny\n");
    let error = read(&named, "").unwrap_err();
    assert!(error.reason.contains("line 4: 'y' is not a value"), "{error:?}");
    write("pattern trigger per packet\nvalues\n5 run reboot\n");
    assert!(read(&named, "").unwrap_err().reason.contains("runs a command"));
}
