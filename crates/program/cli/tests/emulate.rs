//! A line between two network namespaces.
#![cfg(target_os = "linux")]

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::{Ended, anabranch, interrupt, run, skip};
use serde_json::Value;

/// Two namespaces, which are removed at the end of the test.
struct Namespaces([String; 2]);

impl Namespaces {
    /// `None` without the necessary privileges, which is a failure with ANABRANCH_REQUIRE_ALL=1.
    fn new() -> Option<Self> {
        let names =
            ["left", "right"].map(|side| format!("anabranch-{side}-{}", std::process::id()));
        let made = names.iter().all(|name| ip(&["netns", "add", name]));
        if !made || !Path::new("/dev/net/tun").exists() {
            skip("network namespaces and TUN devices");
            return None;
        }
        Some(Self(names))
    }

    /// A command line to run within one of them.
    fn within(&self, side: usize, arguments: &[&str]) -> Command {
        let program = anabranch(&[], Path::new("/"));
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0[side]]).arg(program.get_program());
        command.args(arguments).env_remove("ANABRANCH_LOG").stdout(Stdio::piped());
        command.stderr(Stdio::piped());
        command
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.0 {
            ip(&["netns", "delete", name]);
        }
    }
}

fn ip(arguments: &[&str]) -> bool {
    let status = Command::new("ip").args(arguments).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Starts a program and waits for its first line.
fn start(mut command: Command) -> (Child, impl Iterator<Item = String>) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let first = lines.next();
    if first.is_none() {
        let ended: Ended = child.wait_with_output().unwrap().into();
        panic!("it does not start: {}", ended.stderr);
    }
    (child, lines)
}

#[test]
fn packets_of_any_transport_go_over_a_spoiled_line() {
    let Some(namespaces) = Namespaces::new() else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("line.toml");
    let text = "seed = 3\n[[path]]\nname = \"radio\"\ndelay_ms = 5\nloss_percent = 1\n";
    std::fs::write(&file, text).unwrap();
    let [left, right] = &namespaces.0;
    let line = format!("{left}:w0:10.99.0.1/24={right}:w0:10.99.0.2/24");
    let arguments = ["emulate", "--impair", file.to_str().unwrap(), "--line", &line, "--json"];
    let (emulator, mut told) = start(anabranch(&arguments, Path::new("/")));
    for transport in ["sctp-udp", "sctp"] {
        let listen = ["--listen", "10.99.0.2:5201", "--transport", transport];
        let command = [&["perf", "server"], &listen[..]].concat();
        let (server, _lines) = start(namespaces.within(1, &command));
        let options = ["--transport", transport, "--bytes", "500k", "--mode", "both", "--json"];
        let client = [&["perf", "client", "10.99.0.2:5201"], &options[..]].concat();
        let ended: Ended = namespaces.within(0, &client).output().unwrap().into();
        assert_eq!(ended.code, Some(0), "{transport}: {}", ended.stderr);
        let summary: Value = serde_json::from_str(ended.stdout.lines().last().unwrap()).unwrap();
        for direction in ["sent", "received"] {
            assert_eq!(summary[direction]["bytes"], 500_000, "{summary}");
        }
        let path = &summary["paths"][0];
        assert!(path["srtt_seconds"].as_f64().unwrap() >= 0.01, "{path}");
        assert!(path["retransmitted_chunks"].as_u64().unwrap() > 0, "{path}");
        interrupt(&server);
        let ended: Ended = server.wait_with_output().unwrap().into();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    }
    interrupt(&emulator);
    let links: Value = serde_json::from_str(&told.next().unwrap()).unwrap();
    for direction in ["send", "receive"] {
        let link = links["links"].as_array().unwrap().iter().find(|link| {
            link["direction"] == direction
                && (&link["local"], &link["remote"]) == (&"10.99.0.1".into(), &"10.99.0.2".into())
        });
        let link = link.unwrap_or_else(|| panic!("{links}"));
        let count = |key: &str| link[key].as_u64().unwrap();
        assert_eq!(link["name"], "radio");
        assert!(count("offered_bytes") > 1_000_000, "{link}");
        assert!(count("lost_model") > 0, "{link}");
        assert!(count("delivered") + count("lost_model") <= count("offered"), "{link}");
    }
    let ended: Ended = emulator.wait_with_output().unwrap().into();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    // The devices are gone.
    assert!(!ip(&["-n", left, "link", "show", "w0"]));
}

#[test]
fn mistakes_are_one_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("line.toml");
    std::fs::write(&file, "[[path]]\n").unwrap();
    let emulate = |line: &str| {
        let file = file.to_str().unwrap();
        run(&["emulate", "--impair", file, "--line", line], Path::new("/"))
    };
    emulate("a").failed_with(2, "a line has two ends");
    let missing = emulate("no-such-namespace:w0:10.0.0.1/24=:w1:10.0.0.2/24");
    missing.failed_with(1, "there is no network namespace 'no-such-namespace'");
    run(&["emulate", "--line", ":a:10.0.0.1/24=:b:10.0.0.2/24"], Path::new("/"))
        .failed_with(2, "--impair");
    let line = [":a:10.0.0.1/24=:b:10.0.0.2/24"];
    run(&["emulate", "--impair", "/no/such", "--line", line[0]], Path::new("/"))
        .failed_with(1, "/no/such cannot be read");
}
