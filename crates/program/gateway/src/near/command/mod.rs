//! A command whose whole network is the gateway: any program, without a proxy.
//!
//! The command runs in namespaces of its own, in which a TUN device has all routes ([`network`]). Connections go to the
//! kernel's own TCP by changing addresses ([`translation`]); datagrams are flows; names get addresses that stand for
//! them ([`names`]), so that the far side resolves them.

mod dns;
mod handover;
mod inside;
mod names;
mod network;
mod packet;
mod stack;
mod translation;

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command as Process, ExitStatus};
use std::sync::Arc;

use tokio::io::unix::AsyncFd;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::inside::{FAILED, FROM_TERMINAL, GROUND, INSIDE, PROGRAM, READY};
pub use self::inside::{Inside, inside};
use self::network::{OWN_4, OWN_6, TRANSLATED_4, TRANSLATED_6};
use self::stack::Stack;
use self::translation::{Local, Translation};
use super::Near;

/// A command in namespaces of its own.
pub struct Command {
    child: Child,
    /// Closing it ends everything inside.
    control: UnixStream,
    device: AsyncFd<File>,
    listeners: Vec<TcpListener>,
    translation: Translation,
    signals: Signals,
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command").field("child", &self.child).finish_non_exhaustive()
    }
}

impl Command {
    /// Starts a command with this program's standard input, output and error. The program must call [`inside`] when it
    /// starts. From now on this process does not end by SIGINT, SIGQUIT, SIGTERM and SIGHUP, but passes them on to the
    /// command. Must be called within a tokio runtime; blocks for some milliseconds.
    ///
    /// # Errors
    /// A sentence: the system does not allow namespaces, or has no TUN devices.
    pub fn start<A: AsRef<OsStr>>(command: impl IntoIterator<Item = A>) -> Result<Self, String> {
        let failed = |error: io::Error| format!("the command cannot be started: {error}");
        let signals = Signals::catch().map_err(failed)?;
        let (control, theirs) = UnixStream::pair().map_err(failed)?;
        let mut process = Process::new(PROGRAM);
        process.arg0("anabranch").args(command).env(INSIDE, GROUND);
        let child = process.stdin(OwnedFd::from(theirs)).spawn().map_err(failed)?;
        // This process must not hold the other end.
        drop(process);
        handover::send(&control, &[READY], &[io::stdin().as_fd()]).map_err(failed)?;
        let (message, fds) = handover::receive(&control).map_err(failed)?;
        match message.split_first() {
            Some((&READY, _)) => {}
            Some((&FAILED, sentence)) => return Err(String::from_utf8_lossy(sentence).into_owned()),
            _ => return Err("the command cannot be started".to_owned()),
        }
        let mut fds = fds.into_iter();
        let device = fds.next().ok_or("the command has no network")?;
        let device = watched(device.into()).map_err(failed)?;
        let mut listeners = Vec::new();
        let mut local = Vec::new();
        for fd in fds {
            let listener = TcpListener::from_std(fd.into()).map_err(failed)?;
            let address = listener.local_addr().map_err(failed)?;
            local.push(local_of(address));
            listeners.push(listener);
        }
        let translation = Translation::new(local);
        control.set_nonblocking(true).map_err(failed)?;
        Ok(Self { child, control, device, listeners, translation, signals })
    }

    /// Carries the command's packets until it and all that it has started have ended. Returns its status: the exit code
    /// is that of the command, or 128 and the number of the signal that ended it.
    ///
    /// # Errors
    /// The network of the command failed.
    pub async fn run(self, near: Arc<Near>) -> io::Result<ExitStatus> {
        let Self { mut child, control, device, listeners, translation, mut signals } = self;
        let mut children = signal(SignalKind::child())?;
        let stack = Stack::new(device, near, translation);
        let mut carrying = std::pin::pin!(stack.run(listeners));
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            tokio::select! {
                ended = &mut carrying => ended?,
                number = signals.next() => {
                    // If the command has just ended, the next look at it says so.
                    let _ = (&control).write(&[number]);
                }
                _ = children.recv() => {}
            }
        }
    }
}

/// A device that tells when it can be read.
#[expect(
    deprecated,
    reason = "what follows it is unsafe; a `File` has the descriptor that it shows"
)]
fn watched(device: File) -> io::Result<AsyncFd<File>> {
    AsyncFd::new(device)
}

fn local_of(listener: SocketAddr) -> Local {
    let translated = match listener {
        SocketAddr::V4(_) => TRANSLATED_4.into(),
        SocketAddr::V6(_) => TRANSLATED_6.into(),
    };
    debug_assert!([OWN_4.into(), OWN_6.into()].contains(&listener.ip()));
    Local { listener, translated }
}

/// The signals that are passed on.
struct Signals {
    interrupt: Signal,
    quit: Signal,
    terminate: Signal,
    hang_up: Signal,
    user: [Signal; 2],
}

impl Signals {
    fn catch() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            user: [signal(SignalKind::user_defined1())?, signal(SignalKind::user_defined2())?],
        })
    }

    /// Waits for the next signal. Cancel-safe.
    async fn next(&mut self) -> u8 {
        let [first, second] = &mut self.user;
        let (kind, by_terminal) = tokio::select! {
            _ = self.interrupt.recv() => (SignalKind::interrupt(), true),
            _ = self.quit.recv() => (SignalKind::quit(), true),
            _ = self.terminate.recv() => (SignalKind::terminate(), false),
            _ = self.hang_up.recv() => (SignalKind::hangup(), false),
            _ = first.recv() => (SignalKind::user_defined1(), false),
            _ = second.recv() => (SignalKind::user_defined2(), false),
        };
        let number = u8::try_from(kind.as_raw_value()).unwrap_or(0);
        if by_terminal && is_in_foreground() { number | FROM_TERMINAL } else { number }
    }
}

/// Whether a terminal sends its signals to this process, and thus to the command, too.
fn is_in_foreground() -> bool {
    let terminal = File::open("/dev/tty");
    let group = terminal.ok().and_then(|terminal| rustix::termios::tcgetpgrp(terminal).ok());
    group.is_some_and(|group| group == rustix::process::getpgrp())
}
