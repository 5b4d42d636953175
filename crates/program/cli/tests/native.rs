//! SCTP as IP protocol 132 between two processes, and link-local addresses: each test has its own
//! network.
#![cfg(target_os = "linux")]

mod common;

use std::process::Command;

use common::{Server, Site, run, skip};
use nix::sched::{CloneFlags, unshare};
use serde_json::Value;

/// Gives this thread, and the processes that it starts, a separate network in which the loopback
/// interface and one end of a link, `a0`, are up. Their addresses are 127.0.0.1, 127.0.0.2, ::1 and
/// fe80::1. Returns `false` without the privileges for that and for raw sockets, or fails then with
/// ANABRANCH_REQUIRE_ALL=1.
fn own_network() -> bool {
    if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
        skip(&format!("a network namespace: {error}"));
        return false;
    }
    for arguments in [
        "link set lo up",
        "link add a0 type veth peer name b0",
        "link set a0 addrgenmode none up",
        "link set b0 addrgenmode none up",
        "address add fe80::1/64 dev a0 nodad",
        "address add fe80::1/64 dev lo nodad",
    ] {
        let status = Command::new("ip").args(arguments.split(' ')).status();
        assert!(status.expect("iproute2 is installed").success(), "ip {arguments}");
    }
    true
}

const NATIVE: [&str; 2] = ["--transport", "sctp"];

#[test]
fn files_over_two_paths() {
    if !own_network() {
        return;
    }
    let site = Site::new(&[0, 1, 300_000, 65_536, 2_000_000]);
    let listen = ["--listen", "127.0.0.1,127.0.0.2:8080"];
    let mut server = Server::start(&[&listen[..], &NATIVE].concat(), &site.path());
    assert_eq!(server.listening["transport"], "sctp");
    assert_eq!(server.listening["udp_port"], Value::Null);
    let options = [&NATIVE[..], &["--json", "--local", "127.0.0.3"]].concat();
    let report = site.get("sctp://127.0.0.1:8080", &options).json();
    site.assert_copied();
    let connection = &report["connections"][0];
    assert_eq!(connection["transport"], "sctp");
    assert_eq!(connection["paths"].as_array().unwrap().len(), 2);
    assert_eq!(server.event()["error"], Value::Null);
    assert_eq!(server.interrupt(), Some(0));
}

#[test]
fn throughput_and_round_trips() {
    if !own_network() {
        return;
    }
    let site = Site::new(&[]);
    for (host, local) in [("127.0.0.1", "127.0.0.2"), ("[::1]", "::1")] {
        let listen = format!("{host}:5201");
        let arguments = [&["--listen", &listen][..], &NATIVE].concat();
        let _server = Server::start_command(&["perf", "server"], &arguments, &site.path());
        for (mode, bytes) in [("both", "1M"), ("ping", "640")] {
            let asked = ["perf", "client", &listen, "--mode", mode, "--bytes", bytes];
            let rest = ["--local", local, "--interval", "0s", "--json"];
            let ended = run(&[&asked[..], &NATIVE, &rest].concat(), &site.path());
            assert_eq!(ended.code, Some(0), "{}", ended.stderr);
            let summary: Value =
                serde_json::from_str(ended.stdout.lines().last().unwrap()).unwrap();
            assert_eq!((&summary["transport"], &summary["mode"]), (&"sctp".into(), &mode.into()));
            let path = &summary["paths"][0];
            assert_eq!(path["local"], local);
            let expected = if mode == "both" { 1_000_000 } else { 640 };
            assert!(path["data_bytes_received"].as_u64().unwrap() >= expected, "{path}");
        }
    }
}

#[test]
fn nobody_there() {
    if !own_network() {
        return;
    }
    let site = Site::new(&[]);
    let get = ["get", "sctp://127.0.0.1:8080/x", "-q"];
    run(&[&get[..], &NATIVE].concat(), &site.copy())
        .failed_with(1, "cannot connect to 127.0.0.1:8080 over IP protocol 132");
    run(
        &["perf", "client", "127.0.0.1:9", "--remote-udp-port", "9", "--transport", "sctp"],
        &site.copy(),
    )
    .failed_with(2, "--remote-udp-port means nothing to sctp");
}

#[test]
fn link_local_addresses_with_their_interface() {
    if !own_network() {
        return;
    }
    let site = Site::new(&[100_000]);
    // Two interfaces have this address.
    run(&["serve", ".", "--listen", "[fe80::1]:8080", "--udp-port", "0"], &site.path())
        .failed_with(
            1,
            "several interfaces have the address fe80::1: name one, as in fe80::1%eth0",
        );
    for transport in ["sctp", "sctp-udp", "tcp"] {
        let listen = ["--listen", "[fe80::1%a0]:8080", "--transport", transport];
        let server = Server::start(&listen, &site.path());
        assert_eq!(server.listening["listen"], "[fe80::1%a0]:8080");
        // With a given local address, and with one that the program finds.
        let urls = ["http://[fe80::1%25a0]:8080", "http://[fe80::1%a0]:8080"];
        for (url, local) in urls.iter().zip([&["--local", "fe80::1%a0"][..], &[]]) {
            let options = [&["--transport", transport, "--json"][..], local].concat();
            let report = site.get(url, &options).json();
            site.assert_copied();
            let path = &report["connections"][0]["paths"][0];
            assert_eq!((&path["local"], &path["remote"]), (&"fe80::1".into(), &"fe80::1".into()));
            std::fs::remove_file(site.copy().join(&site.names[0])).unwrap();
        }
        assert_eq!(server.interrupt(), Some(0));
    }
    let failing = |url: &str, code, sentence| {
        run(&["get", url, "-q", "--connect-timeout", "2s"], &site.copy())
            .failed_with(code, sentence);
    };
    failing("sctp://[fe80::1%25nowhere]/x", 1, "this host has no network interface 'nowhere'");
    failing("sctp://[fe80::1%25a0],127.0.0.1/x", 2, "not all of the peer's addresses are on a0");
    failing("sctp://[::1%25a0]/x", 2, "::1 is not link-local");
    run(&["serve", ".", "--listen", "[fe80::1%nowhere]:80"], &site.path())
        .failed_with(1, "this host has no network interface 'nowhere'");
}
