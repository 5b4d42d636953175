//! `anabranch run --trap`: programs that make system calls without the C library, in both roles.
#![cfg(target_os = "linux")]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::programs::{SERVER, Started, free_udp_port};
use common::{Ended, anabranch, skip};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The client of [`SERVER`], which also has sockets that are not SCTP's.
const CLIENT: &str = "
import socket, sys
a, b = socket.socketpair(); a.send(b'x'); assert b.recv(1) == b'x'
t = socket.create_server(('127.0.0.1', 0)); u = socket.create_connection(t.getsockname()); assert t.accept()
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
s.connect(('127.0.0.1', int(sys.argv[1])))
for n in range(100):
    s.send(b'%d' % n); assert s.recv(100) == b'%d' % n
print('100 messages came back')
";

/// Echoes to any number of peers.
const ECHO_TO_ALL: &str = "
import socket, threading
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
s.bind(('127.0.0.1', 0)); s.listen(100); print(s.getsockname()[1], flush=True)
def echo(peer):
    try:
        while m := peer.recv(10000): peer.send(m)
    except OSError: pass
    peer.close()
try:
    while True: threading.Thread(target=echo, args=[s.accept()[0]], daemon=True).start()
except OSError: pass
";

/// Waits for a message on an association whose engine ends.
const WAITING: &str = "
import errno, os, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
s.connect(('127.0.0.1', int(sys.argv[1])))
print(os.getppid(), flush=True)
try: s.recv(100)
except OSError as e: print(errno.errorcode[e.errno], flush=True)
print(os.read(s.fileno(), 100), flush=True)
try: os.write(s.fileno(), b'x')
except OSError as e: print(errno.errorcode[e.errno], flush=True)
";

fn command(arguments: &[&str]) -> Command {
    anabranch(&[&["run", "--trap"], arguments].concat(), Path::new("."))
}

fn run(arguments: &[&str]) -> Ended {
    command(arguments).output().unwrap().into()
}

/// Whether the kernel hands calls over, and python3 is there.
fn works() -> bool {
    let ended = run(&["--", "python3", "-V"]);
    if ended.code != Some(0) {
        skip(&ended.stderr);
    }
    ended.code == Some(0)
}

/// A static program in C; `None` if it cannot be compiled here.
fn static_program(directory: &Path, source: &str) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let program = directory.join("program");
    let mut cc = Command::new("cc");
    cc.args(["-static", "-Wall", "-Werror", "-D_GNU_SOURCE", "-O1", "-o"]);
    let compiled = cc.arg(&program).arg(&source).status().is_ok_and(|status| status.success());
    if !compiled {
        skip("a C compiler and a static C library");
    }
    compiled.then_some(program)
}

#[test]
fn a_static_program_is_server_and_client() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = static_program(directory.path(), "trapped.c").filter(|_| works()) else {
        return;
    };
    let (program, port) = (program.to_str().unwrap(), free_udp_port());
    let server = Started::new(command(&["--udp-port", &port, "--", program, "server"]));
    let there = ["--udp-port", "0", "--remote-udp-port", &port];
    let ended = run(&[&there[..], &["--", program, "client", &server.line]].concat());
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(0), "all came back\n"),
        "{}",
        ended.stderr
    );
    // It says once what does not work.
    assert!(ended.stderr.contains("sendmmsg or recvmmsg"), "{}", ended.stderr);
    assert_eq!(server.finish(), "served\n");
}

#[test]
fn a_dynamic_program_works_as_well() {
    if !works() {
        return;
    }
    let port = free_udp_port();
    let server = Started::new(command(&["--udp-port", &port, "--", "python3", "-c", SERVER]));
    let there = ["--udp-port", "0", "--remote-udp-port", &port];
    let ended = run(&[&there[..], &["--", "python3", "-c", CLIENT, &server.line]].concat());
    let said = (ended.code, ended.stdout.as_str(), ended.stderr.as_str());
    assert_eq!(said, (Some(0), "100 messages came back\n", ""));
    server.finish();
}

#[test]
fn the_end_of_the_engine_is_an_error_and_no_hang() {
    if !works() {
        return;
    }
    let port = free_udp_port();
    let server = Started::new(command(&["--udp-port", &port, "--", "python3", "-c", SERVER]));
    let there = ["--udp-port", "0", "--remote-udp-port", &port];
    let mut client = Started::new(command(
        &[&there[..], &["--", "python3", "-c", WAITING, &server.line]].concat(),
    ));
    kill(Pid::from_raw(client.line.parse().unwrap()), Signal::SIGKILL).unwrap();
    assert_eq!(client.rest(), "ENOSYS\nb''\nEPIPE\n");
}

/// Thousands of calls at once, deaths in the middle of one, descriptors and memory that are gone before the answer.
#[test]
fn an_attacker_gets_answers_and_the_engine_keeps_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let program = static_program(directory.path(), "attacker.c").filter(|_| works());
    let Some(program) = program else { return };
    let port = free_udp_port();
    let server = command(&["--udp-port", &port, "--", "python3", "-c", ECHO_TO_ALL]);
    let server = Started::new(server);
    let there = ["--udp-port", "0", "--remote-udp-port", &port, "--"];
    let ended = run(&[&there[..], &[program.to_str().unwrap(), &server.line]].concat());
    let said = (ended.code, ended.stdout.as_str(), ended.stderr.as_str());
    assert_eq!(said, (Some(0), "still answered\n", ""));
}

#[test]
fn what_cannot_work_says_why() {
    if !works() {
        return;
    }
    assert_eq!(run(&["--", "sh", "-c", "exit 7"]).code, Some(7));
    run(&["--", "/nowhere/program"]).failed_with(1, "there is no program '/nowhere/program'");
    let program = env!("CARGO_BIN_EXE_anabranch");
    let within = run(&["--", program, "run", "--trap", "--", "true"]);
    within.failed_with(1, "another program answers the calls of this one already");
    run(&["--tcp", "--", "true"]).failed_with(2, "--tcp");
}
