//! Files over SCTP, between two processes.

mod common;

use std::process::Stdio;

use common::{Ended, Server, Site, anabranch, interrupt, run};
use serde_json::Value;

/// A server on these addresses with a free UDP port.
fn serve(site: &Site, addresses: &str) -> Server {
    let listen = format!("{addresses}:8080");
    Server::start(&["--listen", &listen, "--udp-port", "0"], &site.path())
}

fn get(site: &Site, server: &Server, hosts: &str, options: &[&str]) -> Ended {
    let base = format!("sctp://{hosts}:8080");
    let udp_port = server.udp_port();
    site.get(&base, &[&["--remote-udp-port", &udp_port][..], options].concat())
}

/// The remote addresses of the first connection's paths.
fn remotes(report: &Value) -> Vec<&str> {
    let mut remotes: Vec<_> = report["connections"][0]["paths"]
        .as_array()
        .unwrap()
        .iter()
        .map(|path| path["remote"].as_str().unwrap())
        .collect();
    remotes.sort_unstable();
    remotes
}

fn streams(report: &Value) -> u64 {
    report["connections"][0]["streams"].as_array().unwrap().len() as u64
}

#[test]
fn many_files_over_two_paths_and_few_streams() {
    let sizes = [0, 1, 10_000_000, 65_536, 65_537, 300_000, 17, 4096, 1452, 0];
    let site = Site::new(&sizes);
    let mut server = serve(&site, "127.0.0.1,127.0.0.2");
    let report = get(&site, &server, "127.0.0.1,127.0.0.2", &["--json", "--streams", "3"]).json();
    site.assert_copied();
    assert_eq!(report["bytes"], sizes.iter().sum::<usize>());
    assert_eq!(remotes(&report), ["127.0.0.1", "127.0.0.2"]);
    assert_eq!(streams(&report), 3);
    let connection = &report["connections"][0];
    assert_eq!(connection["transport"], "sctp-udp");
    assert_eq!(connection["error"], Value::Null);
    for path in connection["paths"].as_array().unwrap() {
        assert_eq!(path["state"], "active", "{path}");
    }
    // The server saw one association with the same streams, and a graceful shutdown.
    let ended = server.event();
    assert_eq!(ended["event"], "ended");
    assert_eq!(ended["error"], Value::Null, "{ended}");
    let requests = |side: &Value| -> u64 {
        let streams = side["streams"].as_array().unwrap();
        streams.iter().map(|stream| stream["transactions"].as_u64().unwrap()).sum()
    };
    assert_eq!((requests(&ended), requests(connection)), (10, 10));
    assert_eq!(server.interrupt(), Some(0));
}

#[test]
fn a_peer_tells_its_other_addresses_itself() {
    let site = Site::new(&[100_000]);
    let server = serve(&site, "127.0.0.1,127.0.0.2");
    let report = get(&site, &server, "127.0.0.2", &["--json"]).json();
    site.assert_copied();
    assert_eq!(remotes(&report), ["127.0.0.1", "127.0.0.2"]);
}

#[test]
fn ipv6_beside_ipv4() {
    let site = Site::new(&[100_000, 5]);
    let server = serve(&site, "[::1],127.0.0.1");
    let report = get(&site, &server, "[::1],127.0.0.1", &["--json"]).json();
    site.assert_copied();
    assert_eq!(remotes(&report), ["127.0.0.1", "::1"]);
    let report = get(&site, &server, "[::1]", &["--json", "--local", "::1"]).json();
    site.assert_copied();
    assert_eq!(report["connections"][0]["paths"][0]["local"], "::1");
}

#[test]
fn more_streams_than_files_and_more_files_than_streams() {
    let site = Site::new(&[2000; 60]);
    let server = serve(&site, "127.0.0.1");
    for (wanted, used) in [("200", 60), ("1", 1), ("16", 16)] {
        let report = get(&site, &server, "127.0.0.1", &["--json", "--streams", wanted]).json();
        site.assert_copied();
        assert_eq!(streams(&report), used);
    }
}

#[test]
fn http_urls_over_sctp_and_the_summary() {
    let site = Site::new(&[50_000]);
    let server = serve(&site, "127.0.0.1");
    let options = ["--transport", "sctp-udp", "--remote-udp-port", &server.udp_port()];
    let ended = site.get("http://127.0.0.1:8080", &options);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    site.assert_copied();
    for part in ["1 file, 50,000 bytes in ", "over sctp-udp, 1 path, longest pause "] {
        assert!(ended.stdout.contains(part), "{}", ended.stdout);
    }
    assert_eq!(ended.stdout.lines().count(), 3, "{}", ended.stdout);
    let ended = site.get("http://127.0.0.1:8080", &[&options[..], &["--paths"]].concat());
    for part in ["-> 127.0.0.1", "primary", "stream"] {
        assert!(ended.stdout.contains(part), "{}", ended.stdout);
    }
}

#[test]
fn a_missing_file_fails_and_the_others_arrive() {
    let mut site = Site::new(&[100, 200]);
    let server = serve(&site, "127.0.0.1");
    site.names.push("missing".to_owned());
    let ended = get(&site, &server, "127.0.0.1", &["-q"]);
    ended.failed_with(1, "/missing: the server answered 404 Not Found");
    site.names.pop();
    site.assert_copied();
}

#[test]
fn profiles_and_captures() {
    let site = Site::new(&[30_000]);
    let capture = site.path().parent().unwrap().join("packets.pcapng");
    for profile in ["default", "rfc9260", "rfc4960", "rfc2960"] {
        let server = serve(&site, "127.0.0.1");
        let options = ["--profile", profile, "--capture", capture.to_str().unwrap(), "-q"];
        assert_eq!(get(&site, &server, "127.0.0.1", &options).code, Some(0));
        site.assert_copied();
        let packets = std::fs::read(&capture).unwrap();
        assert_eq!(packets[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
        assert!(packets.len() > 30_000);
    }
}

/// A client that should move to other networks says so if its server does not go along.
#[test]
fn roaming_needs_both_sides() {
    let listen = ["--listen", "127.0.0.1:8080", "--udp-port", "0"];
    for (options, agrees) in [(&["--address-reconfiguration"][..], true), (&[], false)] {
        let site = Site::new(&[100_000]);
        let server = Server::start(&[&listen[..], options].concat(), &site.path());
        let ended = get(&site, &server, "127.0.0.1", &["--roam"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(ended.stderr.contains("--roam has no effect"), !agrees, "{}", ended.stderr);
        site.assert_copied();
    }
}

#[test]
fn bad_input_is_answered_with_a_sentence() {
    let site = Site::new(&[1]);
    let server = serve(&site, "127.0.0.1");
    let udp_port = server.udp_port();
    let serve = |options: &[&str]| run(&[&["serve", "."][..], options].concat(), &site.path());
    let busy = format!(
        "cannot bind UDP port {udp_port} on 127.0.0.1: address in use: choose another with --udp-port"
    );
    serve(&["--listen", "127.0.0.1:8080", "--udp-port", &udp_port]).failed_with(1, &busy);
    serve(&["--listen", "192.0.2.1:8080"]).failed_with(1, "no interface of this host");
    serve(&["--listen", "127.0.0.1:0", "--udp-port", "0"])
        .failed_with(1, "0 is not a valid SCTP port");
    serve(&["--listen", "127.0.0.1:80", "--profile", "fast"])
        .failed_with(2, "there is no profile 'fast'");
    serve(&["--listen", "127.0.0.1:80", "--rto-min", "2s", "--rto-max", "1s"])
        .failed_with(2, "rto_min");
    serve(&["--listen", "127.0.0.1:80", "--capture", "no/file", "--udp-port", "0"])
        .failed_with(1, "--capture: there is no directory no for no/file");

    // No server on this SCTP port, and none on this UDP port.
    let get = |url: &str, options: &[&str]| {
        run(&[&["get", url, "-q"][..], options].concat(), &site.copy())
    };
    get("sctp://127.0.0.1:99/x", &["--remote-udp-port", &udp_port])
        .failed_with(1, "cannot connect to 127.0.0.1:99");
    get("sctp://127.0.0.1:8080/x", &["--remote-udp-port", "9", "--connect-timeout", "300ms"])
        .failed_with(1, "cannot connect to 127.0.0.1:8080 over UDP port 9");
    get("sctp://127.0.0.1:8080/x", &["--local", "::1"])
        .failed_with(1, "no local address reaches 127.0.0.1");
}

/// A fetch of the site's only file over a slow link, returned when a part of it has arrived.
fn slow_fetch(site: &Site, server: &Server) -> (std::process::Child, String) {
    let slow = site.path().parent().unwrap().join("slow.toml");
    std::fs::write(&slow, "[[path]]\nrate_mbit = 40\nqueue_packets = 100").unwrap();
    let url = site.urls(&format!("sctp://127.0.0.1:8080;udp={}", server.udp_port())).remove(0);
    let arguments = ["get", &url, "-q", "--impair", slow.to_str().unwrap()];
    let child = anabranch(&arguments, &site.copy())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let some = || {
        let entries = std::fs::read_dir(site.copy()).unwrap().flatten();
        entries.filter_map(|entry| entry.metadata().ok()).any(|found| found.len() > 1_000_000)
    };
    while !some() {
        std::thread::yield_now();
    }
    (child, url)
}

/// When the command has finished, the last packet of the shutdown is still on a link.
#[test]
fn what_links_delay_at_the_end_arrives() {
    let site = Site::new(&[1000]);
    let mut server = serve(&site, "127.0.0.1");
    let late = site.path().parent().unwrap().join("late.toml");
    std::fs::write(&late, "[[path]]\ndelay_ms = 100\ndirection = \"send\"").unwrap();
    let base = format!("sctp://127.0.0.1:8080;udp={}", server.udp_port());
    site.get(&base, &["--impair", late.to_str().unwrap()]);
    site.assert_copies(1);
    assert_eq!(server.line()["complete"], true);
    let ended = server.event();
    assert!(ended["error"].is_null(), "{ended}");
}

#[test]
fn an_interrupted_fetch_is_gone_on_with() {
    let site = Site::new(&[6_000_000]);
    let mut server = serve(&site, "127.0.0.1");
    let (child, url) = slow_fetch(&site, &server);
    interrupt(&child);
    let ended: Ended = child.wait_with_output().unwrap().into();
    ended.failed_with(130, "of 1 file are kept, the same command with --continue resumes there");
    site.assert_copies(2);
    assert!(!site.copy().join(&site.names[0]).exists(), "it is not whole");
    let first = server.line();
    assert_eq!((&first["event"], &first["status"]), (&"request".into(), &200.into()));
    assert_eq!(first["complete"], false, "{first}");
    // Its ABORT may have waited in the queue of the slow link.
    let ended = server.event();
    assert!(ended["error"].is_string(), "{ended}");

    let report = run(&["get", &url, "--continue", "--json"], &site.copy()).json();
    let file = &report["files"][0];
    let (came, there) = (file["bytes"].as_u64().unwrap(), file["resumed_bytes"].as_u64().unwrap());
    assert!(there > 1_000_000 && came + there == 6_000_000, "{file}");
    site.assert_copied();
    let second = server.line();
    assert_eq!((&second["status"], &second["bytes"]), (&206.into(), &came.into()));
    assert_eq!(second["complete"], true, "{second}");
}

/// Acts like a closed terminal. Skipped if SIGHUP is ignored for the test.
#[test]
#[cfg(target_os = "linux")]
fn a_terminal_that_is_closed_leaves_what_has_come() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    if u64::from_str_radix(ignored.trim(), 16).unwrap() & 1 == 1 {
        return;
    }
    let site = Site::new(&[6_000_000]);
    let server = serve(&site, "127.0.0.1");
    let (child, _) = slow_fetch(&site, &server);
    let hung_up = std::process::Command::new("kill")
        .args(["-HUP", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(hung_up.success());
    let ended: Ended = child.wait_with_output().unwrap().into();
    ended.failed_with(130, "of 1 file are kept, the same command with --continue resumes there");
}

#[test]
fn a_server_that_comes_back_is_gone_on_with() {
    let site = Site::new(&[6_000_000]);
    let server = serve(&site, "127.0.0.1");
    let udp_port = server.udp_port();
    let (child, url) = slow_fetch(&site, &server);
    interrupt(&child);
    child.wait_with_output().unwrap();
    drop(server);
    // The server is down at first; the first retry follows after a second.
    let child = anabranch(&["get", &url, "--retry", "9", "-q", "--continue"], &site.copy())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let listen = format!("127.0.0.1:8080;udp={udp_port}");
    let server = Server::start(&["--listen", &listen], &site.path());
    let ended: Ended = child.wait_with_output().unwrap().into();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    site.assert_copied();
    assert_eq!(server.interrupt(), Some(0));
}

#[test]
fn one_file_has_a_name_of_choice() {
    let site = Site::new(&[70_000]);
    let server = serve(&site, "127.0.0.1");
    let url = site.urls(&format!("sctp://127.0.0.1:8080;udp={}", server.udp_port())).remove(0);
    let original = std::fs::read(site.path().join(&site.names[0])).unwrap();
    let named = run(&["get", &url, "-q", "-o", "deep/down/name", "--create-dirs"], &site.copy());
    assert_eq!(named.code, Some(0), "{}", named.stderr);
    assert_eq!(std::fs::read(site.copy().join("deep/down/name")).unwrap(), original);
    // Only the file is written to standard output.
    let output = anabranch(&["get", &url, "-o", "-"], &site.copy()).output().unwrap();
    assert_eq!(output.stdout, original);
    let summary = String::from_utf8(output.stderr).unwrap();
    assert!(summary.contains("1 file, 70,000 bytes in "), "{summary}");
    let listed = run(&["get", &url, "-q", "--out", "new/directory"], &site.copy());
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    assert!(site.copy().join("new/directory").join(&site.names[0]).exists());
}
