//! `anabranch run`.

mod host;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anabranch::SCTP_UDP_PORT;
use anabranch_run::{Obstacle, Program, Settings, VARIABLE};
use clap::Args;

use crate::engine::{EngineOptions, Running};
use crate::failure::{Failure, complain};
use crate::interrupt::Interrupt;
use crate::output::print;
use crate::tcp::TcpOptions;

/// How long the peers may take without any progress to receive what the program has sent.
const GRACE: Duration = Duration::from_secs(10);

/// Where the library is, seen from the directory of this program.
const LIBRARIES: [&str; 3] = [
    "libanabranch_preload.so",
    "libanabranch-preload.so",
    "../lib/anabranch/libanabranch-preload.so",
];

/// Run a program that opens SCTP sockets, without SCTP in the kernel
///
/// The program is not changed. Its sockets of IPPROTO_SCTP are carried over UDP, or with --raw over IP protocol 132. It
/// must use the C library dynamically, or needs --trap: docs/run.md says what works. Ends with the program's exit code, when its last
/// process has ended and what it has sent is delivered.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch run -- socat SCTP-LISTEN:5000,fork EXEC:cat
  anabranch run --remote-udp-port 9899 -- socat - SCTP:192.0.2.1:5000
  anabranch run --addresses 10.1.0.2,10.2.0.2 --capture out.pcapng -- iperf3 -s
  anabranch run --trap -- ./a-program-in-go
  anabranch run --tcp -- curl http://192.0.2.1/
  anabranch run --host /run/sctp &  anabranch run --join /run/sctp -- ncat --sctp -l 5000
  anabranch run --raw -- iperf3 --sctp -c 192.0.2.1")]
pub(crate) struct Run {
    /// The program and its arguments
    #[arg(last = true, required_unless_present_any = ["host", "join"], value_name = "COMMAND")]
    command: Vec<OsString>,
    /// Run only the engine, for the programs that may use this directory, until SIGTERM
    #[arg(long, value_name = "DIR", conflicts_with_all = ["command", "join"])]
    host: Option<PathBuf>,
    /// Use the engine in this directory; without a COMMAND, check that it answers
    #[arg(long, value_name = "DIR", conflicts_with_all = ["udp_port", "remote_udp_port", "raw"])]
    join: Option<PathBuf>,
    /// This side's UDP port; 0 picks a free one [default: 9899 for sockets that listen, a free one for others]
    #[arg(long, value_name = "N", conflicts_with = "raw")]
    udp_port: Option<u16>,
    /// UDP port of the peers
    #[arg(long, value_name = "N", default_value_t = SCTP_UDP_PORT, conflicts_with = "raw")]
    remote_udp_port: u16,
    /// IP protocol 132 instead of UDP, which needs root or CAP_NET_RAW
    #[arg(long)]
    raw: bool,
    /// Answer the program's system calls, for programs that make them without the C library: Go, static, musl
    ///
    /// Needs Linux 5.14. 'read' and 'write' are the kernel's, so 'read' loses the rest of a message that is longer than
    /// its buffer; 'recv' and 'recvmsg' do not. sendmmsg, recvmmsg and io_uring do not work. The program cannot become
    /// another user by a setuid program.
    #[arg(long, conflicts_with_all = ["host", "join", "library", "tcp"])]
    trap: bool,
    /// The library for the program [default: the one beside this program or in ../lib/anabranch]
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    #[command(flatten)]
    tcp: TcpOptions,
    #[command(flatten)]
    options: EngineOptions,
}

impl Run {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        if let Some(directory) = &self.join {
            return self.join(directory);
        }
        if let Some(directory) = &self.host {
            let settings = self.settings()?;
            let library = library(self.library.as_deref())?;
            return host::run(directory, &self.options, settings, &library).await;
        }
        let Some((program, arguments)) = self.command.split_first() else {
            return Err(Failure::usage("a command is missing: anabranch run -- COMMAND"));
        };
        if self.trap {
            return self.trap(program, arguments).await;
        }
        let library = library(self.library.as_deref())?;
        if let Some(obstacle) = Obstacle::of(program, &library) {
            warn_of(program, obstacle)?;
        }
        let running = self.options.start(self.settings()?, None)?;
        let (name, value) = running.engine.environment();
        let mut command = Command::new(program);
        command.args(arguments).env(name, value).env("LD_PRELOAD", preload(library)?);
        if let Some((name, value)) = self.tcp.start(&running.engine)? {
            command.env(name, value);
        }
        let started = Program::start(&mut command)
            .map_err(|error| Failure::failed(unstarted(program, &error)))?;
        until_end(started, running).await
    }

    /// Runs a program whose system calls the engine answers.
    async fn trap(&self, program: &OsString, arguments: &[OsString]) -> Result<(), Failure> {
        let own = std::env::current_exe().map_err(Failure::failed)?;
        match Obstacle::of(program, &own) {
            Some(Obstacle::Machine) => complain(&format!(
                "'{}' is for another kind of processor than anabranch, so its own SCTP sockets are the kernel's",
                program.display()
            )),
            Some(Obstacle::Privileges) => complain(&format!(
                "'{}' is setuid or setgid, and does not get its privileges under --trap",
                program.display()
            )),
            _ => {}
        }
        let running = self.options.start(self.settings()?, None)?;
        let mut command = Command::new(program);
        command.args(arguments);
        let (started, listener) = Program::start_trapped(command)
            .map_err(|error| Failure::failed(untrapped(program, &error)))?;
        running.engine.answer_calls(listener, complain);
        until_end(started, running).await
    }

    fn settings(&self) -> Result<Settings, Failure> {
        Ok(Settings {
            udp_port: self.udp_port,
            remote_udp_port: self.remote_udp_port,
            raw: self.raw,
            config: self.options.config()?,
            ..Settings::default()
        })
    }

    /// Becomes the program, whose engine is another process; or only looks for the engine.
    fn join(&self, directory: &Path) -> Result<(), Failure> {
        if let Some(option) = self.options.given().next() {
            return Err(Failure::usage(format!(
                "{option} is an option of the engine: give it to 'anabranch run --host'"
            )));
        }
        let directory = host::find(directory)?;
        let Some((program, arguments)) = self.command.split_first() else {
            return print(&format!("an engine answers in {}\n", directory.display()));
        };
        let library = match &self.library {
            None => host::library(&directory).map_or_else(find_library, Ok)?,
            given => library(given.as_deref())?,
        };
        if let Some(obstacle) = Obstacle::of(program, &library) {
            warn_of(program, obstacle)?;
        }
        let mut command = Command::new(program);
        command.args(arguments).env(VARIABLE, directory).env("LD_PRELOAD", preload(library)?);
        Err(Failure::failed(unstarted(program, &command.exec())))
    }
}

/// Waits for the end of a program, and until what it has sent is delivered.
async fn until_end(started: Program, running: Running) -> Result<(), Failure> {
    // Not before the program has started, which keeps the limit that it was given.
    raise_descriptors();
    let code = started.wait().await.map_err(Failure::failed)?;
    let interrupt = Interrupt::install()?;
    tokio::select! {
        () = delivered(running) => {}
        () = interrupt.wait() => {}
    }
    if code == 0 { Ok(()) } else { Err(Failure::Exit(code)) }
}

/// Waits until the peers have what the program has sent.
async fn delivered(running: Running) {
    running.engine.unused().await;
    finish(running).await;
}

/// As [`delivered`], when no program has a socket.
async fn finish(running: Running) {
    let delivered = tokio::task::spawn_blocking(move || running.engine.finish(GRACE)).await;
    if !delivered.unwrap_or(false) {
        complain("a peer does not receive what the program has sent: it was dropped");
    }
}

/// The library for the program.
fn library(given: Option<&Path>) -> Result<PathBuf, Failure> {
    let Some(file) = given else { return find_library() };
    let found = file.canonicalize();
    found.map_err(|error| Failure::usage(format!("--library {}: {error}", file.display())))
}

/// The value of LD_PRELOAD: the library, then those that were there before.
fn preload(library: PathBuf) -> Result<OsString, Failure> {
    // The dynamic linker separates names by these.
    if library.as_os_str().as_bytes().iter().any(|byte| b" :\n".contains(byte)) {
        return Err(Failure::failed(format!(
            "the dynamic linker cannot load '{}', because of a space or colon: use --library with another path",
            library.display()
        )));
    }
    let mut value = library.into_os_string();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        value.push(":");
        value.push(others);
    }
    Ok(value)
}

fn find_library() -> Result<PathBuf, Failure> {
    let program = std::env::current_exe().and_then(|program| program.canonicalize());
    let directory = program.ok().and_then(|program| Some(program.parent()?.to_owned()));
    let candidates = LIBRARIES.iter().filter_map(|name| Some(directory.as_ref()?.join(name)));
    candidates.filter_map(|file| file.canonicalize().ok()).next().ok_or_else(|| {
        Failure::failed(
            "libanabranch-preload.so is neither beside this program nor in ../lib/anabranch: pass its path with --library",
        )
    })
}

/// Says what prevents a program from using the library.
///
/// # Errors
/// It would be of no use to start it.
fn warn_of(program: &OsStr, obstacle: Obstacle) -> Result<(), Failure> {
    let program = program.display();
    let refused = |why| Err(Failure::failed(format!("'{program}' {why}")));
    let linked = match obstacle {
        Obstacle::Privileges => {
            return refused(
                "is setuid or setgid, so the dynamic linker does not load the library: use a copy without the bit",
            );
        }
        Obstacle::Musl => {
            return refused(
                "uses musl, and the library needs glibc: use --trap, or a program for glibc",
            );
        }
        Obstacle::Machine => "is for another kind of processor than the library",
        Obstacle::Static => "is linked statically",
    };
    let instead = if obstacle == Obstacle::Static { ": use --trap" } else { "" };
    // It may start others, to which this does not apply.
    complain(&format!("'{program}' {linked}, so its own SCTP sockets are the kernel's{instead}"));
    Ok(())
}

fn unstarted(program: &OsString, error: &io::Error) -> String {
    let program = program.display();
    match error.kind() {
        io::ErrorKind::NotFound => {
            format!("there is no program '{program}': check its name, or give its path")
        }
        _ => format!("'{program}' cannot be started: {error}"),
    }
}

/// As [`unstarted`], with --trap.
fn untrapped(program: &OsString, error: &io::Error) -> String {
    use nix::libc::{EBUSY, EINVAL, ENOSYS};
    match error.raw_os_error() {
        Some(EBUSY) => {
            "another program answers the calls of this one already: --trap does not work within --trap, or in a container that does the same".to_owned()
        }
        Some(EINVAL | ENOSYS) => {
            "--trap needs Linux 5.14 with seccomp user notification, on x86-64, arm64 or riscv64".to_owned()
        }
        _ => unstarted(program, error),
    }
}

/// Allows the engine as many descriptors as the system does: it needs one for each socket of the program.
fn raise_descriptors() {
    use nix::sys::resource::{Resource::RLIMIT_NOFILE, getrlimit, setrlimit};
    if let Ok((_, hard)) = getrlimit(RLIMIT_NOFILE) {
        // Otherwise the program gets an error when there are too many.
        let _ = setrlimit(RLIMIT_NOFILE, hard, hard);
    }
}
