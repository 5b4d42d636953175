//! Programs that know nothing of this library, over UDP on loopback, in both roles.

mod common;

use std::path::Path;
use std::process::Command;

use common::{Hosts, Server, library, python, source, succeed, unmodified};

#[test]
fn python_sends_and_receives() {
    let hosts = Hosts::new();
    let server = Server::start(python(&hosts.server, "echo_server.py").arg("2"));
    for _ in 0..2 {
        let said = succeed(python(&hosts.client, "echo_client.py").arg(&server.port));
        assert_eq!(said, "done\n");
    }
    server.finish();
}

#[test]
fn streams_are_reset_added_and_interleaved() {
    let hosts = Hosts::new();
    let server = Server::start(&mut python(&hosts.server, "extensions.py"));
    let said = succeed(python(&hosts.client, "extensions.py").arg(&server.port));
    assert_eq!(said, "done\n");
    server.finish();
}

#[test]
fn a_process_for_each_peer_executes_another_program_on_the_socket() {
    let hosts = Hosts::new();
    let program = hosts.compile(&source("forking.c"));
    let server = Server::start(unmodified(&hosts.server, &program).arg("2"));
    for _ in 0..2 {
        let said = succeed(python(&hosts.client, "echo_client.py").arg(&server.port));
        assert_eq!(said, "done\n");
    }
    server.finish();
}

#[test]
fn one_thread_waits_for_many_sockets() {
    let hosts = Hosts::new();
    let program = hosts.compile(&source("forking.c"));
    let server = Server::start(unmodified(&hosts.server, &program).arg("21"));
    let said = succeed(python(&hosts.client, "events.py").args([&server.port, "20"]));
    assert_eq!(said, "done\n");
    server.finish();
}

#[test]
fn kill_9_leaves_whole_messages_and_an_end() {
    let hosts = Hosts::new();
    let mut server = Server::start(&mut python(&hosts.server, "killed.py"));
    let said = succeed(python(&hosts.client, "killer.py").arg(&server.port));
    assert_eq!(said, "done\n");
    // It was killed.
    assert!(!server.child.wait().unwrap().success());
}

#[test]
fn processes_share_inherit_and_lose_sockets() {
    let hosts = Hosts::new();
    let server = Server::start(python(&hosts.server, "echo_server.py").arg("9"));
    let said = succeed(python(&hosts.client, "processes.py").arg(&server.port));
    assert_eq!(said, "done\n");
    server.finish();
}

#[test]
fn a_udp_port_of_another_engine_is_in_use() {
    let hosts = Hosts::new();
    let server = Server::start(python(&hosts.server, "echo_server.py").arg("1"));
    let said = succeed(&mut python(&hosts.on_the_servers_port(), "in_use.py"));
    assert_eq!(said, "EADDRINUSE\n");
    let said = succeed(python(&hosts.client, "echo_client.py").arg(&server.port));
    assert_eq!(said, "done\n");
    server.finish();
}

#[test]
fn a_program_for_lksctp_runs_as_it_is() {
    let lksctp = Path::new(env!("CARGO_MANIFEST_DIR")).join("../c/tests/c/lksctp.c");
    for style in ["one-to-one", "one-to-many"] {
        let hosts = Hosts::new();
        let program = hosts.compile(&lksctp);
        let mut server = unmodified(&hosts.server, &program);
        let server = Server::start(server.args(["server", style, "5000"]));
        assert_eq!(server.port, "ready");
        let said = succeed(unmodified(&hosts.client, &program).args(["client", style, "5000"]));
        assert_eq!(said, "4 messages came back\n", "{style}");
        server.finish();
    }
}

#[test]
fn a_program_linked_with_libsctp_gets_this_library() {
    let hosts = Hosts::new();
    // As libsctp, which need not be installed.
    let program = hosts.compile(&source("linked.c"));
    let server = Server::start(&mut unmodified(&hosts.server, &program));
    let said = succeed(unmodified(&hosts.client, &program).args(["client", &server.port]));
    assert_eq!(said, "0 others\n");
    assert_eq!(server.finish(), "0 others\n");
}

/// As `readelf` shows them for libsctp.so.1 of lksctp-tools 1.0.19.
#[test]
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
fn symbols_have_the_versions_of_libsctp() {
    let mut readelf = Command::new("readelf");
    let said = succeed(readelf.args(["--wide", "--dynamic", "--dyn-syms"]).arg(library()));
    assert!(said.contains("Library soname: [libsctp.so.1]"), "{said}");
    let mut found: Vec<&str> = said
        .lines()
        .filter(|line| line.contains(" FUNC ") && !line.contains(" UND "))
        .filter_map(|line| line.split_whitespace().nth(7))
        .filter(|name| name.starts_with("sctp_") && name.contains('@'))
        .collect();
    found.sort_unstable();
    let newest = ["bindx", "freeladdrs", "freepaddrs", "getaddrlen", "getladdrs", "getpaddrs"];
    let others =
        ["opt_info", "peeloff", "peeloff_flags", "recvmsg", "recvv", "send", "sendmsg", "sendv"];
    let newest = newest.iter().chain(&others).map(|name| format!("sctp_{name}@@VERS_1"));
    let connectx =
        ["@@VERS_3", "@VERS_1", "@VERS_2"].map(|version| format!("sctp_connectx{version}"));
    let mut expected: Vec<String> = newest.chain(connectx).collect();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn without_an_engine_it_is_as_without_sctp_in_the_kernel() {
    // No engine has this name.
    let nobody = format!("ANABRANCH_RUN={:032x}@anabranch/engine/nobody", 1);
    let hosts = Hosts::new();
    let mut command = unmodified(&hosts.client, Path::new("env"));
    command.arg(nobody).args(["python3", "-c", "import socket; socket.socket(2, 1, 132)"]);
    let output = command.output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("Protocol not supported"), "{said}");
}
