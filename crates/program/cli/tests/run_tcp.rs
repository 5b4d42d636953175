//! `anabranch run --tcp`: python3 and curl in both roles, and the ends of programs and engines.
#![cfg(target_os = "linux")]

mod common;

use std::io::{BufRead as _, BufReader};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};

use common::programs::{Started, free_udp_port};
use common::{Ended, anabranch, skip};

/// A web server of files, which says its port. It ends with the process that has started it, which the tests kill.
const WEB: &str = "
import functools, http.server, os, sys, threading, time
starter = os.getppid()
def watch():
    while os.getppid() == starter: time.sleep(0.1)
    os._exit(0)
threading.Thread(target=watch, daemon=True).start()
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[1])
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler)
print(server.server_address[1], flush=True)
server.serve_forever()
";

/// Accepts a connection, sends a byte, and waits for the end.
const ACCEPTING: &str = "
import errno, os, socket
s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True)
p, _ = s.accept(); p.send(b'!')
try: print('end' if p.recv(1) == b'' else 'byte', flush=True)
except OSError as e: print(errno.errorcode[e.errno], flush=True)
";

/// Connects, waits for a byte, and then for the end.
const WAITING: &str = "
import errno, os, socket, sys
s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); s.recv(1)
print(os.getpid(), flush=True)
try: print('end' if s.recv(1) == b'' else 'byte', flush=True)
except OSError as e: print(errno.errorcode[e.errno], flush=True)
";

/// The library for programs, which cargo has built for these tests.
fn library() -> String {
    let test = std::env::current_exe().unwrap();
    test.with_file_name("libanabranch_preload.so").to_str().unwrap().to_owned()
}

/// `anabranch run --tcp` with these arguments.
fn command(arguments: &[&str]) -> Command {
    let library = library();
    let run = ["run", "--library", &library, "--tcp"];
    anabranch(&[&run[..], arguments].concat(), Path::new("."))
}

fn run(arguments: &[&str]) -> Ended {
    command(arguments).output().unwrap().into()
}

fn has(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok();
    if !there {
        skip(program);
    }
    there
}

#[test]
fn wrong_options_say_why() {
    let run = |arguments: &[&str]| -> Ended {
        anabranch(&[&["run"], arguments].concat(), Path::new(".")).output().unwrap().into()
    };
    run(&["--never", "10.0.0.1", "--", "true"]).failed_with(2, "--tcp");
    run(&["--tcp", "--only", "10.0.0.0/40", "--", "true"])
        .failed_with(2, "'10.0.0.0/40' is no address, network or name of a host");
    run(&["--tcp", "--never", "@/none", "--", "true"]).failed_with(2, "'/none' cannot be read");
    // The engine of a directory does not carry TCP connections.
    run(&["--host", "directory", "--tcp"]).failed_with(2, "--tcp");
    run(&["--join", "directory", "--tcp", "--", "true"]).failed_with(2, "--tcp");
}

/// The addresses of the engine are the paths of these connections, too.
#[test]
fn the_given_addresses_are_used() {
    if !has("python3") {
        return;
    }
    let port = free_udp_port();
    let script = "import socket; s = socket.create_server(('127.0.0.1', 0)); print('listens')";
    let with = |addresses: &str| {
        run(&["--addresses", addresses, "--udp-port", &port, "--", "python3", "-c", script])
    };
    let ended = with("127.0.0.2,127.0.0.1");
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("listens\n", ""));
    let ended = with("127.0.0.2");
    assert_eq!(ended.stdout, "listens\n");
    let told = "is open for TCP only: 127.0.0.1 is not among --addresses";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
}

#[test]
fn curl_fetches_a_file_from_python() {
    if !has("python3") || !has("curl") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..3_000_000u32).map(|n| (n.wrapping_mul(n) >> 7) as u8).collect();
    std::fs::write(directory.path().join("file"), &bytes).unwrap();
    let (port, path) = (free_udp_port(), directory.path().to_str().unwrap());
    let server = ["--require", "--udp-port", &port, "--", "python3", "-u", "-c", WEB, path];
    let server = Started::new(command(&server));
    let url = format!("http://127.0.0.1:{}/file", server.line);
    let curl =
        ["--require", "--remote-udp-port", &port, "--", "curl", "-sSf", "--limit-rate", "1G"];
    let fetched = command(&[&curl[..], &[&url]].concat()).output().unwrap();
    assert!(fetched.status.success(), "{}", String::from_utf8_lossy(&fetched.stderr));
    assert!(fetched.stdout == bytes, "{} bytes", fetched.stdout.len());
    // Without --tcp, the server refuses the connection, which SCTP does not carry.
    let plain = Command::new("curl").args(["-sSf", &url]).output().unwrap();
    assert!(!plain.status.success());
    // Without a server there is an error, not a hang.
    drop(server);
    let ended = run(&[&curl[..], &[&url]].concat());
    assert_eq!(ended.code, Some(7), "{}", ended.stderr);
}

#[test]
fn without_a_peer_it_is_tcp() {
    if !has("python3") || !has("curl") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("file"), "text").unwrap();
    let path = directory.path().to_str().unwrap();
    let mut server = Command::new("python3");
    server.args(["-u", "-c", WEB, path]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = server.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = format!("http://127.0.0.1:{}/file", line.trim());
    let port = free_udp_port();
    let ended = run(&["--remote-udp-port", &port, "--", "curl", "-sSf", &url, &url]);
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("texttext", ""));
}

#[test]
fn a_udp_port_in_use_is_said() {
    if !has("python3") {
        return;
    }
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let script = "import socket; s = socket.create_server(('127.0.0.1', 0)); print('listens')";
    let ended = run(&["--udp-port", &port, "--", "python3", "-c", script]);
    assert_eq!(ended.stdout, "listens\n");
    let told = format!("is open for TCP only: the UDP port {port} is in use: use --udp-port");
    assert!(ended.stderr.contains(&told), "{}", ended.stderr);
    let ended = run(&["--require", "--udp-port", &port, "--", "python3", "-c", script]);
    assert!(ended.stderr.contains("Address already in use"), "{}", ended.stderr);
}

/// Both programs of a connection.
fn connected() -> (Started, Started) {
    let port = free_udp_port();
    let server = ["--require", "--udp-port", &port, "--", "python3", "-c", ACCEPTING];
    let server = Started::new(command(&server));
    let client = ["--require", "--remote-udp-port", &port, "--", "python3", "-c", WAITING];
    let client = Started::new(command(&[&client[..], &[&server.line]].concat()));
    (server, client)
}

#[test]
fn kill_9_of_an_engine_is_an_error_for_its_program_and_the_other() {
    if !has("python3") {
        return;
    }
    let (mut server, mut client) = connected();
    client.kill();
    assert_eq!(client.rest(), "ECONNRESET\n");
    // The other one hears nothing until its own engine is killed as well.
    server.kill();
    assert_eq!(server.rest(), "ECONNRESET\n");
}

#[test]
fn kill_9_of_a_program_ends_the_connection() {
    if !has("python3") {
        return;
    }
    let (mut server, mut client) = connected();
    let kill = Command::new("kill").args(["-9", &client.line]).status().unwrap();
    assert!(kill.success());
    assert_eq!(client.child.wait().unwrap().code(), Some(137));
    assert_eq!(server.rest(), "end\n");
    assert!(server.child.wait().unwrap().success());
}
