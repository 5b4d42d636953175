//! `anabranch run`: exit codes, signals, the end of the engine, and python3 in both roles.
#![cfg(target_os = "linux")]

mod common;

use std::io::{BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command};

use common::programs::{SERVER, free_udp_port, start};
use common::{Ended, anabranch, skip};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The client of [`SERVER`].
const CLIENT: &str = "
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
s.connect(('127.0.0.1', int(sys.argv[1])))
for n in range(100):
    s.send(b'%d' % n); assert s.recv(100) == b'%d' % n
print('100 messages came back')
";

/// Waits for a message on an association whose engine ends.
const WAITING: &str = "
import errno, os, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
s.connect(('127.0.0.1', int(sys.argv[1])))
print(os.getppid(), flush=True)
try: s.recv(100)
except OSError as e: print(errno.errorcode[e.errno], flush=True)
try: s.getpeername()
except OSError as e: print(errno.errorcode[e.errno], flush=True)
try: s.send(b'x')
except OSError as e: print(errno.errorcode[e.errno], flush=True)
";

/// Threads that wait in other calls.
const BLOCKED: &str = "
import errno, os, select, signal, socket, sys, threading
signal.signal(signal.SIGPIPE, signal.SIG_IGN)
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
listener.bind(('127.0.0.1', 0)); listener.listen(1)
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
s.connect(('127.0.0.1', int(sys.argv[1])))
s.send(b'first')
poll = select.poll(); poll.register(listener, select.POLLIN)
def accept(): listener.accept()
def polled():
    events = poll.poll()[0][1]
    raise OSError(errno.EPIPE if events & select.POLLHUP else 0, 'polled')
def send():
    while True: s.send(bytes(50000))
ends = {}
def run(call):
    try: call()
    except OSError as e: ends[call.__name__] = errno.errorcode[e.errno]
threads = [threading.Thread(target=run, args=[call]) for call in (accept, polled, send)]
for thread in threads: thread.start()
print(os.getppid(), flush=True)
for thread in threads: thread.join()
print(sorted(ends.items()), flush=True)
";

/// The library for programs, which cargo has built for these tests.
fn library() -> String {
    let test = std::env::current_exe().unwrap();
    test.with_file_name("libanabranch_preload.so").to_str().unwrap().to_owned()
}

/// `anabranch run` with these arguments.
fn command(arguments: &[&str]) -> Command {
    let library = library();
    anabranch(&[&["run", "--library", &library], arguments].concat(), Path::new("."))
}

/// `anabranch run` with these arguments, to its end.
fn run(arguments: &[&str]) -> Ended {
    command(arguments).output().unwrap().into()
}

/// `anabranch run` with these arguments, and the first line that the program writes.
fn started(arguments: &[&str]) -> (Child, BufReader<ChildStdout>, String) {
    start(command(arguments))
}

fn has_python() -> bool {
    let there = Command::new("python3").arg("-V").output().is_ok();
    if !there {
        skip("python3");
    }
    there
}

#[test]
fn the_exit_code_is_the_programs() {
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)] {
        let ended = run(&["--", "sh", "-c", script]);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(code), ""), "{script}");
    }
    // A process that the program leaves behind is waited for.
    let ended = run(&["--", "sh", "-c", "(sleep 0.1; echo last) & echo first"]);
    assert_eq!(ended.stdout, "first\nlast\n");
}

#[test]
fn what_cannot_start_says_why() {
    run(&["--", "/nowhere/program"]).failed_with(1, "there is no program '/nowhere/program'");
    let nowhere = ["run", "--library", "/nowhere.so", "--", "true"];
    common::run(&nowhere, Path::new(".")).failed_with(2, "--library /nowhere.so");
    run(&["--profile", "fast", "--", "true"]).failed_with(2, "there is no profile 'fast'");
    run(&[]).failed_with(2, "<COMMAND>");
}

/// Gives a file another name, in a directory that need not exist.
fn link(file: &Path, name: &Path) {
    std::fs::create_dir_all(name.parent().unwrap()).unwrap();
    std::fs::hard_link(file, name).unwrap();
}

#[test]
fn the_library_is_found_as_it_is_installed() {
    // Where the build is, whose files can have other names there.
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let root = directory.path().canonicalize().unwrap();
    let program = root.join("bin/anabranch");
    link(Path::new(env!("CARGO_BIN_EXE_anabranch")), &program);
    let preloaded = || -> Ended {
        let print = ["run", "--", "sh", "-c", "echo $LD_PRELOAD"];
        Command::new(&program).args(print).output().unwrap().into()
    };
    preloaded().failed_with(1, "libanabranch-preload.so is neither beside this program nor in");
    // The second one comes first.
    for name in ["lib/anabranch/libanabranch-preload.so", "bin/libanabranch_preload.so"] {
        let installed = root.join(name);
        link(Path::new(&library()), &installed);
        assert_eq!(preloaded().stdout.trim_end(), installed.to_str().unwrap());
    }
}

#[test]
fn a_setuid_program_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("program");
    std::fs::copy("/bin/true", &program).unwrap();
    // Only root may give it to another user.
    if std::os::unix::fs::chown(&program, Some(65534), None).is_err() {
        skip("a setuid program: not root");
        return;
    }
    let name = program.to_str().unwrap();
    assert_eq!(run(&["--", name]).code, Some(0));
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
    run(&["--", name]).failed_with(1, "is setuid or setgid");
    // Also if it is found in PATH.
    let path = std::env::join_paths([directory.path()]).unwrap();
    let output = command(&["--", "program"]).env("PATH", path).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("'program' is setuid or setgid"));
}

#[test]
fn a_static_program_runs_with_the_kernels_sockets_and_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let (source, program) = (directory.path().join("main.c"), directory.path().join("program"));
    std::fs::write(&source, "int main(void) { return 5; }").unwrap();
    let mut cc = Command::new("cc");
    let compiled = cc.arg("-static").arg("-o").arg(&program).arg(&source).status();
    if !compiled.is_ok_and(|status| status.success()) {
        skip("a C compiler and a static C library");
        return;
    }
    let ended = run(&["--", program.to_str().unwrap()]);
    ended.failed_with(5, "is linked statically, so its own SCTP sockets are the kernel's");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_program_for_musl_is_refused() {
    // An executable of nothing but headers, and the name of its dynamic linker.
    let mut file = vec![0; 64 + 56];
    file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    file[16..24].copy_from_slice(&[2, 0, 62, 0, 1, 0, 0, 0]);
    file[32] = 64;
    file[52..58].copy_from_slice(&[64, 0, 56, 0, 1, 0]);
    let linker = b"/lib/ld-musl-x86_64.so.1\0";
    (file[64], file[64 + 8], file[64 + 32]) = (3, 64 + 56, u8::try_from(linker.len()).unwrap());
    file.extend_from_slice(linker);
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("program");
    std::fs::write(&program, file).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    run(&["--", program.to_str().unwrap()])
        .failed_with(1, "uses musl, and the library needs glibc");
}

#[test]
fn signals_are_passed_on() {
    let script = "trap 'echo caught; exit 3' TERM; echo ready; while :; do sleep 0.1; done";
    let (mut child, mut out, ready) = started(&["--", "sh", "-c", script]);
    assert_eq!(ready, "ready");
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).unwrap();
    let mut said = String::new();
    out.read_to_string(&mut said).unwrap();
    assert_eq!((said.as_str(), child.wait().unwrap().code()), ("caught\n", Some(3)));
}

#[test]
fn both_roles_over_udp() {
    if !has_python() {
        return;
    }
    let port = free_udp_port();
    let (mut server, _out, sctp) = started(&["--udp-port", &port, "--", "python3", "-c", SERVER]);
    let client = ["--remote-udp-port", &port, "--", "python3", "-c", CLIENT, &sctp];
    let ended = run(&client);
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("100 messages came back\n", ""));
    assert!(server.wait().unwrap().success());
}

#[test]
fn kill_9_of_the_engine_ends_all_calls_that_wait() {
    if !has_python() {
        return;
    }
    let port = free_udp_port();
    let (mut server, _out, sctp) = started(&["--udp-port", &port, "--", "python3", "-c", SERVER]);
    let run = ["--udp-port", "0", "--remote-udp-port", &port, "--", "python3", "-c"];
    let (mut child, mut out, engine) = started(&[&run[..], &[BLOCKED, &sctp]].concat());
    assert_eq!(engine, child.id().to_string());
    child.kill().unwrap();
    child.wait().unwrap();
    let mut said = String::new();
    out.read_to_string(&mut said).unwrap();
    assert_eq!(said, "[('accept', 'ENETDOWN'), ('polled', 'EPIPE'), ('send', 'EPIPE')]\n");
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn kill_9_of_the_engine_is_an_error_and_no_hang() {
    if !has_python() {
        return;
    }
    let port = free_udp_port();
    let (mut server, _out, sctp) = started(&["--udp-port", &port, "--", "python3", "-c", SERVER]);
    let client = ["--remote-udp-port", &port, "--", "python3", "-c", WAITING, &sctp];
    let (mut child, mut out, engine) = started(&client);
    assert_eq!(engine, child.id().to_string());
    child.kill().unwrap();
    child.wait().unwrap();
    let mut said = String::new();
    out.read_to_string(&mut said).unwrap();
    assert_eq!(said, "ENETDOWN\nENETDOWN\nEPIPE\n");
    server.kill().unwrap();
    server.wait().unwrap();
}
