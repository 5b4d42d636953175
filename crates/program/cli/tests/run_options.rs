//! `anabranch run`: the options that it shares with other commands.
#![cfg(target_os = "linux")]

mod common;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use common::{anabranch, skip};

/// A server that says its port, and then how many bytes it got from one peer.
const SERVER: &str = "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
s.bind(('127.0.0.1', 0)); s.listen(1); print(s.getsockname()[1], flush=True)
p, _ = s.accept()
got = 0
while m := p.recv(10000): got += len(m); p.send(m)
print(got)
";

/// Its client, which waits for a line before it ends.
const CLIENT: &str = "
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
s.connect(('127.0.0.1', int(sys.argv[1])))
s.send(b'hello'); s.recv(100); print('connected', flush=True)
sys.stdin.readline()
";

/// `anabranch run`, which ends with the test.
struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
    /// The first line that the program has written.
    said: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `anabranch run` with these arguments in a directory.
fn started(directory: &Path, arguments: &[&str]) -> Running {
    let test = std::env::current_exe().unwrap();
    let library = test.with_file_name("libanabranch_preload.so");
    let run = ["run", "--library", library.to_str().unwrap()];
    let mut command: Command = anabranch(&[&run, arguments].concat(), directory);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut said = String::new();
    out.read_line(&mut said).unwrap();
    Running { child, out, said: said.trim().to_owned() }
}

/// Runs the client, and returns what `inspect` says of its associations and of those of the server.
#[test]
fn paths_inspection_and_capture() {
    if Command::new("python3").arg("-V").output().is_err() {
        skip("python3");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let port = anabranch_ports::free_udp_port().to_string();
    let python = ["--", "python3", "-c"];
    let server = ["--udp-port", &port, "--addresses", "127.0.0.1,127.0.0.2"];
    let control = ["--control", "server.sock", "--capture", "server.pcapng"];
    let mut server =
        started(directory.path(), &[&server[..], &control, &python, &[SERVER]].concat());
    let slow = "[[path]]\ndelay_ms = 5\n";
    std::fs::write(directory.path().join("slow.toml"), slow).unwrap();
    let client = ["--remote-udp-port", &port, "--addresses", "127.0.0.3", "--impair", "slow.toml"];
    let more = ["--control", "client.sock", "--memory-limit", "1M"];
    let program = [CLIENT, &server.said];
    let mut client = started(directory.path(), &[&client[..], &more, &python, &program].concat());
    assert_eq!(client.said, "connected");
    for (socket, how, paths) in
        [("server.sock", "associations_accepted", 2), ("client.sock", "associations_connected", 2)]
    {
        let inspect = ["inspect", "--control", socket, "--once", "--json"];
        let view = common::run(&inspect, directory.path()).json();
        assert_eq!(view["totals"][how], 1, "{view}");
        let [association] = &view["associations"].as_array().unwrap()[..] else { panic!("{view}") };
        assert_eq!(association["paths"].as_array().unwrap().len(), paths, "{view}");
    }
    // The end of its input ends it.
    drop(client.child.stdin.take());
    assert!(client.child.wait().unwrap().success());
    let mut got = String::new();
    server.out.read_to_string(&mut got).unwrap();
    assert_eq!((got.as_str(), server.child.wait().unwrap().code()), ("5\n", Some(0)));
    // To the very last chunk.
    let capture = directory.path().join("server.pcapng");
    let bytes = std::fs::read(capture).unwrap();
    let types: Vec<_> = blocks(&bytes).filter_map(chunk_type).collect();
    assert_eq!((types.first(), types.last()), (Some(&1), Some(&14)), "{types:?}");
    assert!(!directory.path().join("server.sock").exists());
}

/// The blocks of a capture.
fn blocks(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let length = u32::from_le_bytes(bytes.get(4..8)?.try_into().ok()?) as usize;
        let (block, rest) = bytes.split_at_checked(length)?;
        bytes = rest;
        Some(block)
    })
}

/// The type of the first chunk in a packet over UDP and IPv4: after the headers of the block, of IP, UDP and SCTP.
fn chunk_type(block: &[u8]) -> Option<u8> {
    (block[0] == 6).then(|| block[28 + 20 + 8 + 12])
}

#[test]
fn what_cannot_be_is_refused_before_the_program_starts() {
    let here = tempfile::tempdir().unwrap();
    let refused = |options: &[&str], code, sentence: &str| {
        let program = ["--library", "/bin/true", "--", "touch", "started"];
        let all = [&["run"], options, &program].concat();
        common::run(&all, here.path()).failed_with(code, sentence);
        assert!(!here.path().join("started").exists());
    };
    refused(&["--addresses", "0.0.0.0"], 2, "--addresses 0.0.0.0 is not an address of this host");
    refused(&["--addresses", "localhost"], 2, "'localhost' is not an IP address");
    refused(&["--capture", "nowhere/file"], 1, "--capture: there is no directory nowhere");
    refused(&["--impair", "nothing.toml"], 1, "the file nothing.toml cannot be read");
    refused(&["--memory-limit", "1"], 2, "memory_limit");
}
