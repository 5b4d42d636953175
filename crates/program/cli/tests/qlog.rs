//! Event logs: their contents match the events, and can be read.

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::{Server, Site, run};
use serde_json::Value;

/// The records of a log, starting with the header.
fn records(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let records = text.split_terminator('\n').map(|line| line.strip_prefix('\u{1e}').unwrap());
    records.map(|record| serde_json::from_str(record).unwrap()).collect()
}

/// Transfers a file over a bad link while both ends keep logs: `site/far.qlog` and `copy/near.qlog`. Returns
/// the server's report of the association.
fn transfer(site: &Site, loss: &str) -> Value {
    // The client's packets are not lost, so it need not wait to repeat its last packet.
    let bad = format!(
        "seed = 5\n[[path]]\ndirection = \"send\"\ndelay_ms = 10\nrate_mbit = 50\nloss_percent = {loss}\n"
    );
    std::fs::write(site.path().join("bad.toml"), bad).unwrap();
    let listen = ["--listen", "127.0.0.1,127.0.0.2:80", "--udp-port", "0"];
    let log = ["--impair", "bad.toml", "--qlog", "far.qlog"];
    let mut server = Server::start(&[listen, log].concat(), &site.path());
    let base = format!("sctp://127.0.0.1,127.0.0.2:80;udp={}", server.udp_port());
    site.get(&base, &["--qlog", "near.qlog", "--json"]).json();
    let ended = server.event();
    assert_eq!(server.interrupt(), Some(0));
    ended
}

#[test]
fn losses_in_the_log_are_those_that_were_counted() {
    let site = Site::new(&[1_500_000]);
    let ended = transfer(&site, "5");
    let records = records(&site.path().join("far.qlog"));
    let mut lost: BTreeMap<&str, u64> = BTreeMap::new();
    let mut timeouts = 0;
    for record in &records {
        match record["name"].as_str().unwrap_or_default() {
            "recovery:packet_lost" => {
                let counter = match record["data"]["trigger"].as_str().unwrap() {
                    "missing_reports" | "early_retransmit" | "time_threshold" => "fast",
                    "timeout" | "interface_gone" | "path_answered" => "timeout",
                    "tail_probe" => "probe",
                    _ => "useless",
                };
                *lost.entry(counter).or_default() += 1;
            }
            "recovery:loss_timer_updated" => timeouts += 1,
            _ => {}
        }
    }
    let closed = |record: &&Value| record["name"] == "connectivity:association_closed";
    let counters = &records.iter().find(closed).unwrap()["data"]["counters"];
    for counter in ["fast", "timeout", "probe", "useless"] {
        let counted = counters[format!("{counter}_retransmitted_chunks")].as_u64().unwrap();
        assert_eq!(lost.get(counter).copied().unwrap_or(0), counted, "{counter}: {lost:?}");
    }
    assert!(lost["fast"] > 10, "{lost:?}");
    assert_eq!(counters["timeouts"], timeouts);
    let again = |path: &Value| path["retransmitted_chunks"].as_u64().unwrap();
    let printed: u64 = ended["paths"].as_array().unwrap().iter().map(again).sum();
    // The packets in the log confirm the number of retransmissions that the server reported. Not every lost
    // chunk is retransmitted: it may be acknowledged before its turn comes.
    assert!(printed > 10 && printed <= lost.values().sum::<u64>(), "{ended}");
    let data = |record: &Value| -> Vec<u64> {
        let chunks = record["data"]["chunks"].as_array().into_iter().flatten();
        chunks.filter_map(|chunk| chunk["tsn"].as_u64()).collect()
    };
    let sent = records.iter().filter(|record| record["name"] == "transport:packet_sent");
    let sent: Vec<u64> = sent.flat_map(data).collect();
    let once: std::collections::BTreeSet<_> = sent.iter().collect();
    assert_eq!((sent.len() - once.len()) as u64, printed);
}

#[test]
fn a_log_becomes_text_and_pages_and_what_qvis_reads() {
    let site = Site::new(&[600_000]);
    transfer(&site, "3");
    let files = ["--html", "run.html", "--to-qvis", "run.json"];
    let ended = run(&[&["qlog", "far.qlog"], &files[..]].concat(), &site.path());
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let begins = "association 0.0, begun by the peer, port 80 here and ";
    assert!(ended.stdout.starts_with(begins), "{}", ended.stdout);
    assert!(ended.stdout.contains("shut down gracefully"), "{}", ended.stdout);
    assert!(ended.stdout.contains("lost: time_threshold"), "{}", ended.stdout);
    let page = std::fs::read_to_string(site.path().join("run.html")).unwrap();
    for part in [
        "lost so far, by cause",
        "Congestion windows",
        "Round-trip times",
        "lost, path 0: time threshold",
        "<svg",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(page.contains("width=device-width") && page.contains("prefers-color-scheme:dark"));
    let links = ["src=\"http", "href=\"http", "url("];
    assert!(links.iter().all(|link| !page.contains(link)), "the page stands on its own");
    let text = std::fs::read_to_string(site.path().join("run.json")).unwrap();
    let qvis: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&qvis["qlog_format"], &qvis["qlog_version"]), (&"JSON".into(), &"0.3".into()));
    let traces = qvis["traces"].as_array().unwrap();
    assert_eq!(traces.len(), 2, "one for each path");
    let events = traces[0]["events"].as_array().unwrap();
    let named = |name: &str| events.iter().filter(|event| event["name"] == name).count();
    let log = records(&site.path().join("far.qlog"));
    let first = |record: &&Value| record["data"]["path_id"] == 0;
    let logged =
        |name: &str| log.iter().filter(|record| record["name"] == name).filter(first).count();
    for name in ["transport:packet_sent", "recovery:metrics_updated"] {
        assert_eq!(named(name), logged(name), "{name}");
    }
    // The chunks of one packet are lost together.
    let lost = named("recovery:packet_lost");
    assert!((1..=logged("recovery:packet_lost")).contains(&lost), "{lost}");
    // All packets with data are acknowledged or lost.
    let mut open = std::collections::BTreeSet::new();
    for event in events {
        let data = &event["data"];
        let number = data["header"]["packet_number"].as_u64();
        let frames = data["frames"].as_array().into_iter().flatten();
        match event["name"].as_str().unwrap() {
            "transport:packet_sent"
                if frames.clone().any(|frame| frame["frame_type"] == "stream") =>
            {
                open.extend(number);
            }
            "transport:packet_received" => {
                for range in frames.filter_map(|frame| frame["acked_ranges"].as_array()).flatten() {
                    let (from, to) = (range[0].as_u64().unwrap(), range[1].as_u64().unwrap());
                    (from..=to).for_each(|acked| assert!(open.remove(&acked), "{acked}"));
                }
            }
            "recovery:packet_lost" => assert!(open.remove(&number.unwrap()), "{data}"),
            _ => {}
        }
    }
    assert!(open.is_empty(), "{open:?}");
    let ended = run(&["qlog", "far.qlog", "--association", "0.0"], &site.path());
    assert!(ended.code == Some(0) && ended.stdout.starts_with(begins));
    let nobody = run(&["qlog", "far.qlog", "--association", "7"], &site.path());
    nobody.failed_with(2, "far.qlog has no association '7'");
}

#[test]
fn a_log_that_breaks_off_is_read_up_to_there() {
    let site = Site::new(&[100_000]);
    transfer(&site, "0");
    let whole = std::fs::read(site.copy().join("near.qlog")).unwrap();
    let try_file = |bytes: &[u8]| {
        std::fs::write(site.copy().join("cut.qlog"), bytes).unwrap();
        run(&["qlog", "cut.qlog", "--html", "cut.html"], &site.copy())
    };
    // In the middle of a record.
    let half = whole.len() / 2;
    let record = half + whole[half..].iter().position(|byte| *byte == 0x1e).unwrap();
    let ended = try_file(&whole[..record + 5]);
    ended.failed_with(1, "is damaged or cut off, and the log is read up to there");
    assert!(ended.stdout.contains("not ended in the log"), "{}", ended.stdout);
    let page = std::fs::read_to_string(site.copy().join("cut.html")).unwrap();
    assert!(page.contains("is damaged or cut off"), "the page says so as well");
    // Complete records, but without the last one.
    let last = whole.iter().rposition(|byte| *byte == 0x1e).unwrap();
    let ended = try_file(&whole[..last]);
    ended.failed_with(1, "the log has no end after");
    assert!(ended.stdout.contains("shut down gracefully"), "{}", ended.stdout);
    let mut damaged = whole.clone();
    damaged[last + 3] = 0xff;
    try_file(&damaged).failed_with(1, "is damaged or cut off");
    try_file(b"").failed_with(1, "it is empty");
}

/// A log that cannot be created is an error immediately; one that fails later ends, and the transfer continues.
#[test]
#[cfg(target_os = "linux")]
fn a_log_that_cannot_be_written_stops_no_transfer() {
    let site = Site::new(&[100_000]);
    let server = Server::start(&["--listen", "127.0.0.1:80", "--udp-port", "0"], &site.path());
    let base = format!("sctp://127.0.0.1:80;udp={}", server.udp_port());
    let refused = site.get(&base, &["--qlog", "/dev/full"]);
    refused.failed_with(1, "cannot create the event log /dev/full: ");
    let refused = site.get(&base, &["--qlog", "no/such/x.qlog"]);
    refused.failed_with(1, "--qlog: there is no directory no/such for no/such/x.qlog");
    let refused = site.get(&base, &["--qlog", "both", "--capture", "both"]);
    refused.failed_with(2, "--capture and --qlog name one file, both: give each one of its own");
    // The reader stops after some bytes.
    let pipe = site.path().join("pipe");
    let pipe = pipe.to_str().unwrap();
    let made = std::process::Command::new("mkfifo").arg(pipe).status().unwrap();
    assert!(made.success());
    let mut reader = std::process::Command::new("head");
    let reader = reader.args(["-c", "300", pipe]).stdout(std::process::Stdio::null());
    let mut reader = reader.spawn().unwrap();
    let ended = site.get(&base, &["--qlog", pipe, "--json"]);
    reader.wait().unwrap();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    site.assert_copied();
    assert!(ended.stderr.contains("the event log ends here"), "{}", ended.stderr);
}
