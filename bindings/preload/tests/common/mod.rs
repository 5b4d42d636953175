//! Unmodified programs with the library, and the engines of their sockets.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use anabranch_run::{Engine, Settings};
use tempfile::TempDir;

/// The end of a program that hangs: a failed test.
const PATIENCE: &str = "60";

/// The library that cargo built for this test.
pub(crate) fn library() -> PathBuf {
    let test = std::env::current_exe().expect("tests know where they are");
    test.with_file_name("libanabranch_preload.so")
}

fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// Two hosts: a server's on its UDP port, and a client's whose peers are there.
pub(crate) struct Hosts {
    pub(crate) server: Engine,
    pub(crate) client: Engine,
    directory: TempDir,
    /// The server's UDP port.
    port: u16,
}

impl Hosts {
    pub(crate) fn new() -> Self {
        let port = anabranch_ports::free_udp_port();
        let directory = tempfile::tempdir().expect("a directory for the test");
        Self { server: engine(port, 1), client: engine(0, port), directory, port }
    }

    /// An engine whose peers are on this UDP port.
    pub(crate) fn client_of(remote_udp_port: u16) -> Engine {
        engine(0, remote_udp_port)
    }

    /// Another engine with the server's UDP port.
    pub(crate) fn on_the_servers_port(&self) -> Engine {
        engine(self.port, 1)
    }

    /// Compiles a library for LD_PRELOAD from a program of `tests/programs`, to which it is known by this name.
    pub(crate) fn preloaded(&self, source: &str, name: &str) -> PathBuf {
        let out = self.directory.path().join(format!("{name}.so"));
        let mut cc = Command::new("cc");
        cc.args(["-Wall", "-Werror", "-D_GNU_SOURCE", "-shared", "-fPIC"]);
        cc.arg(format!("-DNAME=\"{name}\"")).arg("-o").arg(&out).arg(program(source));
        succeed(&mut cc);
        out
    }

    /// A file of this test.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Compiles a C program of `tests/programs`, without libsctp, which need not be installed.
    pub(crate) fn compile(&self, source: &Path) -> PathBuf {
        let out = self.directory.path().join("program");
        let mut cc = Command::new("cc");
        cc.args(["-Wall", "-Werror", "-D_GNU_SOURCE", "-O1"]).arg("-o").arg(&out).arg(source);
        cc.arg("-I").arg(program(""));
        // In place of libsctp, if the program uses that.
        succeed(cc.arg("-Wl,--as-needed").arg(library()));
        out
    }
}

fn engine(udp_port: u16, remote_udp_port: u16) -> Engine {
    let settings = Settings { udp_port: Some(udp_port), remote_udp_port, ..Settings::default() };
    Engine::start(settings).expect("an engine")
}

/// A script of `tests/programs` for python3.
pub(crate) fn python(engine: &Engine, script: &str) -> Command {
    let mut command = unmodified(engine, Path::new("python3"));
    command.arg("-u").arg(program(script));
    command
}

/// A C program of `tests/programs`.
pub(crate) fn source(name: &str) -> PathBuf {
    program(name)
}

/// A program that finds this engine.
pub(crate) fn unmodified(engine: &Engine, program: &Path) -> Command {
    let (name, value) = engine.environment();
    let mut command = Command::new("timeout");
    command.arg("--foreground").arg(PATIENCE).arg("env").arg(format!("{name}={value}"));
    command.arg(format!("LD_PRELOAD={}", library().display())).arg(program);
    command
}

/// A server that has said that it is ready.
pub(crate) struct Server {
    pub(crate) child: Child,
    out: BufReader<ChildStdout>,
    /// What it has said: its port.
    pub(crate) port: String,
}

impl Server {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("a program");
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut port = String::new();
        out.read_line(&mut port).expect("text");
        assert!(!port.is_empty(), "{command:?} has ended");
        Self { child, out, port: port.trim().to_owned() }
    }

    /// Waits for its end. It must succeed. Returns what it has said after its port.
    pub(crate) fn finish(mut self) -> String {
        let mut said = String::new();
        self.out.read_to_string(&mut said).expect("text");
        assert!(self.child.wait().expect("an end").success(), "{said}");
        said
    }
}

/// Runs a command that must succeed. Returns what it says.
pub(crate) fn succeed(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("a program");
    let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{out}{err}");
    out.into_owned()
}
