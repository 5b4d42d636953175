//! Analysis of captures.

mod common;

use common::{Ended, Server, Site, anabranch, run};
use serde_json::Value;

fn capture(site: &Site) -> Vec<u8> {
    use anabranch_pcapng::{interface_description, raw_packet, section_header};
    let mut file = Vec::new();
    section_header(&mut file);
    interface_description(&mut file, "a");
    // Three segments of 100 bytes; the second one arrives last.
    for (time, id, start) in [(0, 1_u16, 1000_u32), (5, 3, 1200), (9, 2, 1100)] {
        let mut packet = vec![0; 140];
        packet[0] = 0x45;
        packet[2..4].copy_from_slice(&140_u16.to_be_bytes());
        packet[4..6].copy_from_slice(&id.to_be_bytes());
        packet[9] = 6;
        packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        packet[20..24].copy_from_slice(&[16, 0, 0, 80]);
        packet[24..28].copy_from_slice(&start.to_be_bytes());
        packet[32] = 0x50;
        packet[33] = 0x10;
        raw_packet(&mut file, 0, time * 1_000_000, &packet, "");
    }
    std::fs::write(site.path().join("a.pcapng"), &file).unwrap();
    file
}

#[test]
fn a_capture_becomes_tables_and_pages() {
    let site = Site::new(&[]);
    capture(&site);
    let files = ["--csv", "flows.csv", "--events", "events.csv", "--html", "page.html"];
    let ended = run(&[&["analyze", "a.pcapng"], &files[..]].concat(), &site.path());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("reordered                  1 (33.333 %)"), "{}", ended.stdout);
    let read = |name: &str| std::fs::read_to_string(site.path().join(name)).unwrap();
    let events = read("events.csv");
    let row = events.lines().nth(1).unwrap();
    assert_eq!(row, "3,9000000,0,10.0.0.1:4096,10.0.0.2:80,2,1100,reordered,1,4000000");
    let flows = read("flows.csv");
    let (head, row) = (flows.lines().next().unwrap(), flows.lines().nth(1).unwrap());
    assert_eq!(head.split(',').count(), row.split(',').count(), "{flows}");
    assert!(row.starts_with("0,tcp,10.0.0.1:4096,10.0.0.2:80,0,9000000,false,3,300,"), "{row}");
    assert!(read("page.html").contains("reordering extent"));
    let json: Value = run(&["analyze", "a.pcapng", "--json"], &site.path()).json();
    assert_eq!((&json["data"], &json["out_of_sequence"]["reordered"]), (&3.into(), &1.into()));
}

/// A UDP port that is not well known, as between two programs on one host.
#[test]
fn sctp_is_found_on_any_udp_port() {
    let site = Site::new(&[100_000]);
    let server = Server::start(&["--listen", "127.0.0.1:80", "--udp-port", "0"], &site.path());
    let base = format!("sctp://127.0.0.1:80;udp={}", server.udp_port());
    let got = site.get(&base, &["--capture", "run.pcapng"]);
    assert_eq!(got.code, Some(0), "{}", got.stderr);
    assert_eq!(server.interrupt(), Some(0));
    let json: Value = run(&["analyze", "run.pcapng", "--json"], &site.copy()).json();
    assert_eq!((&json["others"], &json["flows"]["sctp"]), (&0.into(), &1.into()), "{json}");
    assert!(json["bytes"].as_u64().unwrap() > 100_000, "{json}");
}

#[test]
fn what_is_no_capture_or_ends_too_early_is_told() {
    let site = Site::new(&[]);
    let whole = capture(&site);
    std::fs::write(site.path().join("cut.pcapng"), &whole[..whole.len() - 9]).unwrap();
    let ended = run(&["analyze", "cut.pcapng"], &site.path());
    ended.failed_with(1, "cut.pcapng, byte");
    assert!(ended.stdout.contains("packets          2"), "{}", ended.stdout);
    std::fs::write(site.path().join("text"), "something else, and long enough").unwrap();
    run(&["analyze", "text"], &site.path()).failed_with(1, "text: this is neither pcap nor pcapng");
    run(&["analyze", "missing"], &site.path()).failed_with(1, "missing cannot be read");
    run(&["analyze"], &site.path()).failed_with(2, "<FILES>");
}

/// A capture of raw IP packets that are neither TCP nor SCTP.
fn capture_of_others(site: &Site) {
    use anabranch_pcapng::{interface_description, raw_packet, section_header};
    let mut file = Vec::new();
    section_header(&mut file);
    interface_description(&mut file, "a");
    for (protocol, times) in [(1_u8, 3), (17, 2), (6, 1)] {
        for _ in 0..times {
            let mut packet = vec![0; 30];
            packet[0] = 0x45;
            packet[3] = 30;
            packet[9] = protocol;
            packet[25] = 8;
            raw_packet(&mut file, 0, 0, &packet, "");
        }
    }
    std::fs::write(site.path().join("others.pcapng"), file).unwrap();
}

#[test]
fn what_is_left_out_is_counted_with_its_reason() {
    let site = Site::new(&[]);
    capture_of_others(&site);
    let ended = run(&["analyze", "others.pcapng", "--csv", "flows.csv"], &site.path());
    let lines: Vec<&str> = ended.stdout.lines().take(4).collect();
    let expected = [
        "packets          6 (0 of TCP or SCTP)",
        "  left out       3: ICMP",
        "  left out       2: UDP without SCTP",
        "  left out       1: cut off in the TCP header (snapshot length)",
    ];
    assert_eq!(lines, expected, "{}", ended.stdout);
    let json: Value = run(&["analyze", "others.pcapng", "--json"], &site.path()).json();
    assert_eq!((&json["others"], &json["left_out"]["ICMP"]), (&6.into(), &3.into()), "{json}");
    let table = std::fs::read_to_string(site.path().join("flows.csv")).unwrap();
    let columns = table.lines().next().unwrap().split(',').count();
    let rows: Vec<&str> = table.lines().skip(1).collect();
    assert_eq!(rows.len(), 3, "{table}");
    assert!(rows.iter().all(|row| row.split(',').count() == columns), "{table}");
    assert!(rows.iter().any(|row| row.contains("left-out") && row.ends_with(",ICMP")), "{table}");
}

#[test]
fn standard_input_is_a_capture() {
    let site = Site::new(&[]);
    capture(&site);
    let mut command = anabranch(&["analyze", "-", "--json"], &site.path());
    let file = std::fs::File::open(site.path().join("a.pcapng")).unwrap();
    let ended: Ended = command.stdin(file).output().unwrap().into();
    assert_eq!(ended.json()["data"], 3);
}

#[test]
fn no_output_overwrites_what_is_read() {
    let site = Site::new(&[]);
    let whole = capture(&site);
    std::os::unix::fs::symlink("a.pcapng", site.path().join("link")).unwrap();
    for option in ["--csv", "--events", "--html"] {
        for name in ["a.pcapng", "./a.pcapng", "link"] {
            let ended = run(&["analyze", "a.pcapng", option, name], &site.path());
            ended.failed_with(2, &format!("{option} would overwrite {name}"));
        }
    }
    assert_eq!(std::fs::read(site.path().join("a.pcapng")).unwrap(), whole);
    let ended = run(&["analyze", "missing", "--csv", "a.pcapng"], &site.path());
    ended.failed_with(1, "missing cannot be read");
    assert_eq!(std::fs::read(site.path().join("a.pcapng")).unwrap(), whole);
}

/// The patterns that an impairment file names are inputs as well.
#[test]
fn no_output_overwrites_what_an_input_names() {
    let site = Site::new(&[]);
    let pattern = "anabranch pattern 1\n\npattern loss per packet\nvalues\n  x\n";
    std::fs::write(site.path().join("p"), pattern).unwrap();
    std::fs::write(site.path().join("bad.toml"), "[[path]]\npattern = \"p\"\n").unwrap();
    let line = ["echo", "--listen", "127.0.0.1:7", "--impair", "bad.toml", "--capture", "p"];
    let ended = run(&line, &site.path());
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("--capture would overwrite it"), "{}", ended.stderr);
    assert_eq!(std::fs::read_to_string(site.path().join("p")).unwrap(), pattern);
}
