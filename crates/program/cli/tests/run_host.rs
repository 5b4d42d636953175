//! `anabranch run --host`: one engine for several programs, in a directory.
#![cfg(target_os = "linux")]

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use common::{Ended, anabranch, skip};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Echoes the messages of any number of peers.
const SERVER: &str = "
import socket, threading
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
s.bind(('127.0.0.1', 0)); s.listen(5); print(s.getsockname()[1], flush=True)
def echo(p):
    while m := p.recv(10000): p.send(m)
while True: threading.Thread(target=echo, args=[s.accept()[0]]).start()
";

/// Its client.
const CLIENT: &str = "
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
s.connect(('127.0.0.1', int(sys.argv[1])))
for n in range(20):
    s.send(b'%d' % n); assert s.recv(100) == b'%d' % n
print('20 messages came back')
";

/// A client that stays while its engine ends: what it says after each line of its input.
const STAYS: &str = "
import errno, os, signal, socket, sys
signal.signal(signal.SIGPIPE, signal.SIG_IGN)
def open(): return socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
s = open(); s.connect(('127.0.0.1', int(sys.argv[1]))); s.send(b'x'); s.recv(10)
print('connected', flush=True)
for command in sys.stdin:
    try: print(eval(command) or 'done', flush=True)
    except OSError as e: print(errno.errorcode[e.errno], flush=True)
";

/// Reads everything from one peer when the second one is there.
const LATE: &str = "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
s.bind(('127.0.0.1', 0)); s.listen(5); print(s.getsockname()[1], flush=True)
p, _ = s.accept()
p.recv(1); p.send(b'x')
input()
got = 1
while m := p.recv(100000): got += len(m)
print(got)
";

/// A process that ends with the test.
struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    out: BufReader<ChildStdout>,
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a program");
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        Self { child, stdin, out: BufReader::new(stdout.expect("a pipe")) }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("text");
        line.trim().to_owned()
    }

    fn ask(&mut self, command: &str) -> String {
        writeln!(self.stdin.as_mut().expect("a pipe"), "{command}").expect("a reader");
        self.line()
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).expect("a process");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A directory for engines. The server's engine has a UDP port.
struct Place {
    base: tempfile::TempDir,
    port: String,
}

impl Place {
    fn new() -> Self {
        let port = anabranch_ports::free_udp_port().to_string();
        Self { base: tempfile::tempdir().expect("a directory"), port }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.base.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        anabranch(arguments, self.base.path())
    }

    /// The command of the engine in 'server' or 'client'.
    fn host(&self, name: &str) -> Command {
        let test = std::env::current_exe().expect("tests know where they are");
        let library = test.with_file_name("libanabranch_preload.so");
        let run = ["run", "--host", name, "--library", library.to_str().expect("a path")];
        match name {
            "server" => self.command(&[&run[..], &["--udp-port", &self.port]].concat()),
            _ => self.command(&[&run[..], &["--remote-udp-port", &self.port]].concat()),
        }
    }

    /// An engine that is ready.
    fn engine(&self, name: &str) -> Running {
        let mut engine = Running::start(&mut self.host(name));
        let line = engine.line();
        let place = self.path(name).canonicalize().expect("a directory");
        let place = place.display();
        let expected = format!("ANABRANCH_RUN={place} LD_PRELOAD={place}/libanabranch-preload.so");
        assert_eq!(line, expected);
        engine
    }

    fn join(&self, name: &str, program: &[&str]) -> Command {
        self.command(&[&["run", "--join", name, "--", "python3", "-u", "-c"], program].concat())
    }

    /// A program with nothing but the two variables of the environment.
    fn plain(&self, name: &str, program: &[&str]) -> Command {
        let place = self.path(name);
        let mut command = Command::new("python3");
        command.args(["-u", "-c"]).args(program);
        command.env("LD_PRELOAD", place.join("libanabranch-preload.so"));
        command.env("ANABRANCH_RUN", place);
        command
    }
}

fn has_python() -> bool {
    let there = Command::new("python3").arg("-V").output().is_ok();
    if !there {
        skip("python3");
    }
    there
}

fn ended(mut command: Command) -> Ended {
    command.output().expect("a program").into()
}

#[test]
fn programs_share_an_engine() {
    if !has_python() {
        return;
    }
    let place = Place::new();
    let (_server, mut client) = (place.engine("server"), place.engine("client"));
    let mut echo = Running::start(&mut place.join("server", &[SERVER]));
    let port = echo.line();
    for _ in 0..2 {
        assert_eq!(ended(place.join("client", &[CLIENT, &port])).stdout, "20 messages came back\n");
        let plain = ended(place.plain("client", &[CLIENT, &port]));
        assert_eq!((plain.stdout.as_str(), plain.stderr.as_str()), ("20 messages came back\n", ""));
    }
    let check = ended(place.command(&["run", "--join", "client"]));
    assert!(check.stdout.starts_with("an engine answers in "), "{}", check.stderr);
    client.signal(Signal::SIGTERM);
    assert_eq!(client.child.wait().expect("an end").code(), Some(0));
    let check = ended(place.command(&["run", "--join", "client"]));
    check.failed_with(
        1,
        "no engine answers in client: start one with 'anabranch run --host client'",
    );
}

#[test]
fn a_second_engine_is_refused_and_a_killed_one_is_replaced() {
    if !has_python() {
        return;
    }
    let place = Place::new();
    let _server = place.engine("server");
    let mut echo = Running::start(&mut place.join("server", &[SERVER]));
    let port = echo.line();
    let mut first = place.engine("client");
    let mut program = Running::start(&mut place.join("client", &[STAYS, &port]));
    assert_eq!(program.line(), "connected");
    ended(place.host("client")).failed_with(1, "another engine runs in client: stop it, or use");
    first.child.kill().expect("a process");
    first.child.wait().expect("an end");
    assert_eq!(program.ask("s.recv(10)"), "ENETDOWN");
    assert_eq!(program.ask("s.getpeername()"), "ENETDOWN");
    assert_eq!(program.ask("open()"), "EPROTONOSUPPORT");
    let _second = place.engine("client");
    assert_eq!(program.ask("s.getpeername()"), "ENETDOWN", "the other engine's");
    let again =
        "s.close() or globals().update(s=open()) or s.connect(('127.0.0.1', int(sys.argv[1])))";
    assert_eq!(program.ask(again), "done");
    assert_eq!(program.ask("s.send(b'y') and s.recv(10)"), "b'y'");
}

#[test]
fn sigterm_delivers_first_what_the_programs_have_sent() {
    if !has_python() {
        return;
    }
    let place = Place::new();
    let (_server, mut client) = (place.engine("server"), place.engine("client"));
    let mut late = Running::start(&mut place.join("server", &[LATE]));
    let port = late.line();
    let mut program = Running::start(&mut place.join("client", &[STAYS, &port]));
    assert_eq!(program.line(), "connected");
    // More than the receive window of the server, which does not read.
    assert_eq!(
        program.ask("[s.send(bytes(50000)) for _ in range(4)]"),
        "[50000, 50000, 50000, 50000]"
    );
    client.signal(Signal::SIGTERM);
    assert_eq!(program.ask("s.recv(10)"), "ENETDOWN");
    assert_eq!(program.ask("s.send(b'x')"), "EPIPE");
    assert_eq!(program.ask("open()"), "EPROTONOSUPPORT");
    assert_eq!(late.ask(""), "200001");
    assert_eq!(client.child.wait().expect("an end").code(), Some(0));
}

#[test]
fn the_service_manager_is_told() {
    let place = Place::new();
    let notify = UnixDatagram::bind(place.path("notify")).expect("a socket");
    let mut engine = place.host("client");
    let mut engine = Running::start(engine.env("NOTIFY_SOCKET", place.path("notify")));
    let told = || {
        let mut state = [0; 100];
        let length = notify.recv(&mut state).expect("a message");
        String::from_utf8(state[..length].to_vec()).expect("text")
    };
    assert_eq!(told(), "READY=1");
    engine.signal(Signal::SIGTERM);
    assert_eq!(told(), "STOPPING=1");
    assert_eq!(engine.child.wait().expect("an end").code(), Some(0));
    let mut rest = String::new();
    engine.out.read_to_string(&mut rest).expect("text");
}

#[test]
fn what_cannot_be_says_why() {
    let place = Place::new();
    let run = |arguments: &[&str]| ended(place.command(&[&["run"], arguments].concat()));
    run(&["--join", "nowhere", "--", "true"]).failed_with(1, "no engine answers in nowhere");
    run(&["--join", "x", "--capture", "y", "--", "true"])
        .failed_with(2, "--capture is an option of the engine");
    run(&["--host", "x", "--", "true"]).failed_with(2, "cannot be used with");
    run(&["--join", "x", "--raw", "--", "true"]).failed_with(2, "cannot be used with");
    let long = "x".repeat(120);
    ended(place.host(&long)).failed_with(1, "is too long for a socket");
    std::fs::write(place.path("file"), "").expect("a file");
    ended(place.host("file")).failed_with(1, "no engine can run in file: ");
    assert!(!Path::new("x").exists());
}
