//! What programs and their surroundings do to the library: signals, sandboxes, other libraries, very many associations.

mod common;

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Hosts, Server, library, python, source, succeed, unmodified};

#[test]
fn a_signal_interrupts_every_call_that_waits_and_loses_nothing() {
    let hosts = Hosts::new();
    let server = Server::start(python(&hosts.server, "echo_server.py").arg("1001"));
    let said = succeed(python(&hosts.client, "signals.py").arg(&server.port));
    assert_eq!(said, "done\n");
    server.finish();
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let port = silent.local_addr().expect("a bound socket").port();
    let mut connect = python(&Hosts::client_of(port), "signals.py");
    assert_eq!(succeed(connect.args(["5000", "silent"])), "done\n");
}

#[test]
fn a_program_that_may_open_no_more_sockets_keeps_its_association() {
    let hosts = Hosts::new();
    let program = hosts.compile(&source("sandboxed.c"));
    let server = Server::start(python(&hosts.server, "echo_server.py").arg("1"));
    let said = succeed(unmodified(&hosts.client, &program).arg(&server.port));
    assert_eq!(said, "done\n");
    server.finish();
}

/// As netperfmeter does.
#[test]
fn shutdown_does_not_wait_for_room() {
    let hosts = Hosts::new();
    let server = Server::start(&mut python(&hosts.server, "full_server.py"));
    let sent = succeed(python(&hosts.client, "full.py").arg(&server.port));
    assert_eq!(server.finish(), sent);
}

/// A client of the echo server with these libraries in LD_PRELOAD.
fn echoes_with(hosts: &Hosts, server: &Server, libraries: &[PathBuf]) -> Command {
    let mut client = unmodified(&hosts.client, Path::new("env"));
    let libraries: Vec<_> = libraries.iter().map(|file| file.display().to_string()).collect();
    client.arg(format!("LD_PRELOAD={}", libraries.join(":")));
    client.args(["python3", "-u"]).arg(source("echo_client.py")).arg(&server.port);
    client
}

/// As for a process that is stopped before its first call, until the engine waits no longer.
#[test]
fn a_call_whose_connection_was_closed_is_made_again() {
    let hosts = Hosts::new();
    let cutting = hosts.preloaded("cutting.c", "cutting");
    let server = Server::start(python(&hosts.server, "echo_server.py").arg("1"));
    assert_eq!(succeed(&mut echoes_with(&hosts, &server, &[library(), cutting])), "done\n");
    server.finish();
}

#[test]
fn other_libraries_may_come_before_and_after() {
    let hosts = Hosts::new();
    let [before, after] = ["before", "after"].map(|name| hosts.preloaded("wrapping.c", name));
    let server = Server::start(python(&hosts.server, "echo_server.py").arg("1"));
    let mut client = echoes_with(&hosts, &server, &[before, library(), after]);
    let output = client.output().expect("python3");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n", "{said}");
    // The one before sees the program's calls. The one after sees what the library asks the system for.
    for part in ["before socket\n", "before send\n", "after socket\n"] {
        assert!(said.contains(part), "'{part}' is not in: {said}");
    }
    server.finish();
}

#[test]
fn a_thousand_associations_come_and_go() {
    let hosts = Hosts::new();
    let server = Server::start(python(&hosts.server, "flood_server.py").arg("1000"));
    let client = &mut python(&hosts.client, "flood_client.py");
    assert_eq!(succeed(client.args([&server.port, "1000", "200"])), "done\n");
    server.finish();
}

#[test]
fn many_connects_that_nobody_waits_for_leave_a_working_engine() {
    let hosts = Hosts::new();
    let server = Server::start(python(&hosts.server, "hasty_server.py").arg("100"));
    assert_eq!(succeed(python(&hosts.client, "hasty.py").arg(&server.port)), "done\n");
    server.finish();
}

/// The system calls of `ordinary.c` after it was loaded, and of its child.
fn traced(hosts: &Hosts, program: &Path, preloaded: bool) -> Vec<String> {
    let folder = hosts.file(if preloaded { "preloaded" } else { "plain" });
    std::fs::create_dir(&folder).expect("a folder");
    // A file for each process, whose calls are not mixed.
    let mut strace = Command::new("strace");
    strace.args(["-ff", "-qq", "-e", "signal=none", "-o"]).arg(folder.join("trace"));
    if preloaded {
        let (name, value) = hosts.client.environment();
        strace.arg("-E").arg(format!("{name}={value}"));
        strace.arg("-E").arg(format!("LD_PRELOAD={}", library().display()));
    }
    succeed(strace.arg(program));
    let files = std::fs::read_dir(folder).expect("traces");
    let texts = files.map(|file| std::fs::read_to_string(file.expect("a file").path()));
    let mut traces: Vec<_> = texts.map(|text| comparable(&text.expect("a trace"))).collect();
    traces.sort();
    traces
}

/// A trace without the loading of the program, and without what differs between runs: addresses, ports, processes.
fn comparable(trace: &str) -> String {
    let calls = trace.split_once("\"main\"").map_or(trace, |(_, calls)| calls);
    let lines = calls.lines().map(|line| match line.split_once('(') {
        Some((name @ ("clone" | "clone3" | "wait4"), _)) => format!("{name}\n"),
        _ => line.split_inclusive([',', ')', ' ', '=', '(']).map(masked).collect::<String>() + "\n",
    });
    lines.collect()
}

/// A word of a trace, without an address or a port in it.
fn masked(word: &str) -> String {
    let number = word.trim_end_matches([',', ')', ' ', '=', '(']);
    let is_port = number.len() > 3 && number.bytes().all(|byte| byte.is_ascii_digit());
    if number.starts_with("0x") || is_port { word.replace(number, "#") } else { word.to_owned() }
}

#[test]
fn a_program_without_sctp_makes_the_same_system_calls() {
    if Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_err() {
        let required = std::env::var("ANABRANCH_REQUIRE_ALL").is_ok_and(|all| all == "1");
        assert!(!required, "missing: strace");
        eprintln!("skipped, because missing: strace");
        return;
    }
    let hosts = Hosts::new();
    let program = hosts.compile(&source("ordinary.c"));
    let plain = traced(&hosts, &program, false);
    assert!(plain.len() == 2 && plain.concat().contains("accept4"), "{plain:?}");
    assert_eq!(traced(&hosts, &program, true), plain);
}
