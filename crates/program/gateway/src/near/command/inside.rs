//! The two processes inside the namespaces.
//!
//! The near side starts its own program again as the *ground*, which makes the namespaces and their network. Its child,
//! the *first process*, is number 1 of the process namespace: it starts the command, waits for it and all that it
//! leaves behind, and passes signals on. When it ends for whatever reason, the kernel kills all others in the
//! namespace. Both find a socket as their standard input, which leads outwards. When that ends because the near side
//! was killed, they end too, so nothing is left without a network.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, exit};

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getgid, getuid};

use super::{handover, network};

/// Set for the processes inside, to [`GROUND`] or [`FIRST`].
pub(super) const INSIDE: &str = "ANABRANCH_GATEWAY_INSIDE";
pub(super) const GROUND: &str = "ground";
const FIRST: &str = "first";

/// Set for the first process: the user and the group that the command has, if it must be given them back.
const USER: &str = "ANABRANCH_GATEWAY_USER";

/// This program, even if its file was replaced.
pub(super) const PROGRAM: &str = "/proc/self/exe";

/// First byte of the message about the network.
pub(super) const READY: u8 = 0;
pub(super) const FAILED: u8 = 1;

/// Exit codes of shells for a command that is not there, and one that cannot be executed.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// The exit code when the near side has gone.
const GONE: u8 = 137;

/// Set in the number of a signal that the terminal has sent to the command as well.
pub(super) const FROM_TERMINAL: u8 = 0x80;

/// Milliseconds after which the first process says for what it waits.
const SAYS: u16 = 2000;

/// Variables that would lead programs to a proxy, which they do not need here and would not find.
const PROXIES: [&str; 4] = ["http_proxy", "https_proxy", "ftp_proxy", "all_proxy"];

/// How a process inside has ended: its exit code, and a sentence if something failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inside {
    /// The exit code of the process: that of the command, or 128 and the number of the signal that ended it.
    pub code: u8,
    /// What failed, for standard error.
    pub error: Option<String>,
}

impl Inside {
    fn failed(code: u8, error: impl ToString) -> Self {
        Self { code, error: Some(error.to_string()) }
    }
}

/// Does the work of this process if the near side has started it inside namespaces for a command. Returns `None` in all
/// other processes. A program that offers commands must call this first, while it has one thread and before it reads
/// its arguments.
pub fn inside() -> Option<Inside> {
    let place = std::env::var(INSIDE).ok()?;
    let ended = match &place[..] {
        GROUND => ground(),
        FIRST => first(),
        _ => return None,
    };
    Some(ended.unwrap_or_else(|failed| failed))
}

/// The socket that leads outwards, and what comes first over it: the command's standard input.
fn outwards() -> io::Result<(UnixStream, OwnedFd)> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let (_, mut fds) = handover::receive(&socket)?;
    let input = fds.pop().ok_or(io::ErrorKind::InvalidData)?;
    Ok((socket, input))
}

fn arguments() -> Vec<OsString> {
    std::env::args_os().skip(1).collect()
}

/// What both processes wait for: signals that come over the socket, and the ends of children. Signals to themselves
/// are blocked: a terminal sends them to all processes, and these two must outlive the command. Children inherit this.
struct Waits {
    children: SignalFd,
}

/// What happened.
enum Event {
    /// Bytes came over the socket; none if the other side has gone.
    Outside(Vec<u8>),
    /// A child may have ended.
    Child,
    /// Nothing, in the time given.
    Nothing,
}

impl Waits {
    fn new() -> io::Result<Self> {
        SigSet::all().thread_block()?;
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGCHLD);
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        Ok(Self { children: SignalFd::with_flags(&mask, flags)? })
    }

    fn next(&self, outside: &UnixStream, patience: PollTimeout) -> io::Result<Event> {
        let mut fds = [
            PollFd::new(outside.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.children.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut fds, patience) {
            Ok(0) => return Ok(Event::Nothing),
            Err(Errno::EINTR) => return Ok(Event::Child),
            ready => ready?,
        };
        let is_ready = |fd: &PollFd<'_>| fd.any().unwrap_or(true);
        if is_ready(&fds[1]) {
            while self.children.read_signal()?.is_some() {}
            return Ok(Event::Child);
        }
        let mut bytes = [0; 16];
        let count = (&*outside).read(&mut bytes).unwrap_or(0);
        Ok(Event::Outside(bytes[..count].to_vec()))
    }
}

/// Makes the namespaces, and waits for the first process.
fn ground() -> Result<Inside, Inside> {
    let wrong = |error: io::Error| Inside::failed(1, error);
    let waits = Waits::new().map_err(wrong)?;
    let (outside, input) = outwards().map_err(wrong)?;
    let made = make_namespaces().and_then(|user| {
        let network = network::set_up()?;
        network::use_resolver()?;
        Ok((user, network))
    });
    let (user, network) = match made {
        Ok(made) => made,
        // The near side reports it.
        Err(sentence) => {
            let message = [&[FAILED], sentence.as_bytes()].concat();
            handover::send(&outside, &message, &[]).map_err(wrong)?;
            return Ok(Inside { code: 1, error: None });
        }
    };
    let mut fds = vec![network.device.as_fd(), network.v4.as_fd()];
    fds.extend(network.v6.as_ref().map(|v6| v6.as_fd()));
    handover::send(&outside, &[READY], &fds).map_err(wrong)?;
    let (socket, theirs) = UnixStream::pair().map_err(wrong)?;
    let mut command = Command::new(PROGRAM);
    command.args(arguments()).env(INSIDE, FIRST).stdin(OwnedFd::from(theirs));
    if let Some((user, group)) = user {
        command.env(USER, format!("{user} {group}"));
    }
    // Setting a group makes the standard library fork. Its other way of starting a process is refused by the kernel for
    // a process whose children will be in another namespace.
    let child = command.gid(getgid().as_raw()).spawn().map_err(wrong)?;
    // What the near side and the first process hold decides when their other ends are closed.
    drop((command, network));
    handover::send(&socket, &[READY], &[input.as_fd()]).map_err(wrong)?;
    drop(input);
    accompany(child, &waits, &outside, &socket).map_err(wrong)
}

/// Passes signals on until the first process has ended.
fn accompany(
    mut child: Child,
    waits: &Waits,
    outside: &UnixStream,
    to: &UnixStream,
) -> io::Result<Inside> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Inside { code: code(status), error: None });
        }
        if let Event::Outside(signals) = waits.next(outside, PollTimeout::NONE)? {
            if signals.is_empty() {
                // The near side has gone. This ends the first process, too.
                return Ok(Inside { code: GONE, error: None });
            }
            // If it has just ended, the next look at it says so.
            let _ = (&*to).write_all(&signals);
        }
    }
}

/// The exit code for a status, by the convention of shells.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// Makes all namespaces. Returns the user and group that the command must be given back if there had to be a user
/// namespace, in which this process is its root.
fn make_namespaces() -> Result<Option<(u32, u32)>, String> {
    let wanted = CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID;
    match unshare(wanted) {
        Ok(()) => return Ok(None),
        Err(Errno::EPERM) => {}
        Err(error) => return Err(not_allowed(error)),
    }
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    enter_user((user, group), (0, 0)).map_err(not_allowed)?;
    unshare(wanted).map_err(not_allowed)?;
    Ok((user != 0).then_some((user, group)))
}

/// Enters a user namespace in which a user and group outside are others inside.
fn enter_user((user, group): (u32, u32), inside: (u32, u32)) -> Result<(), Errno> {
    unshare(CloneFlags::CLONE_NEWUSER)?;
    let map = |file: &str, text: String| {
        let written = std::fs::write(format!("/proc/self/{file}"), text);
        written.map_err(|error| error.raw_os_error().map_or(Errno::EPERM, Errno::from_raw))
    };
    map("uid_map", format!("{} {user} 1", inside.0))?;
    // Without this, an ordinary user may not map groups.
    map("setgroups", "deny".into())?;
    map("gid_map", format!("{} {group} 1", inside.1))
}

/// A sentence about namespaces that the system refuses, with what to do.
fn not_allowed(error: Errno) -> String {
    let is = |setting: &str, value: &str| {
        let now = std::fs::read_to_string(format!("/proc/sys/{}", setting.replace('.', "/")));
        now.is_ok_and(|now| now.trim() == value)
    };
    let settings = [
        ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
        ("kernel.unprivileged_userns_clone", "0", "1"),
        ("user.max_user_namespaces", "0", "10000"),
    ];
    let refusing = settings.iter().find(|(setting, refuses, _)| is(setting, refuses));
    let advice = match refusing {
        Some((setting, _, allows)) => {
            format!("allow it as root with 'sysctl {setting}={allows}'")
        }
        None => "a container needs permission for user namespaces".to_owned(),
    };
    let error = error.desc();
    format!(
        "this system does not allow namespaces for the command: {error}; {advice}, or use the proxy without a command"
    )
}

/// Starts the command, and waits until it and all that it has started have ended.
fn first() -> Result<Inside, Inside> {
    let wrong = |error: io::Error| Inside::failed(1, error);
    // The ground has blocked them. No signal but SIGKILL ends the first process of a namespace.
    SigSet::all().thread_unblock().map_err(|error| wrong(error.into()))?;
    let (outside, input) = outwards().map_err(wrong)?;
    // Tools find processes through /proc. If it cannot be mounted, they see the processes outside.
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let _ = mount(Some("proc"), "/proc", Some("proc"), flags, None::<&str>);
    if let Some(user) = std::env::var(USER).ok().as_deref().and_then(user) {
        // The command is the same user as outside, and has no power over the network.
        enter_user((0, 0), user).map_err(|error| Inside::failed(1, not_allowed(error)))?;
    }
    let mut arguments = arguments().into_iter();
    let name = arguments.next().unwrap_or_default();
    let mut command = Command::new(&name);
    command.args(arguments).stdin(input).env_remove(INSIDE).env_remove(USER);
    for variable in PROXIES {
        command.env_remove(variable).env_remove(variable.to_uppercase());
    }
    let child = command.spawn().map_err(|error| {
        let code = match error.kind() {
            io::ErrorKind::NotFound => NOT_FOUND,
            _ => NOT_EXECUTABLE,
        };
        Inside::failed(code, format!("'{}' cannot be run: {error}", name.display()))
    })?;
    drop(command);
    let child = Pid::from_raw(i32::try_from(child.id()).unwrap_or(0));
    // It may have ended already, so its end is looked for before it is waited for.
    let waits = Waits::new().map_err(wrong)?;
    // When this process ends, all others do.
    exit(i32::from(attend(child, &waits, &outside).map_err(wrong)?));
}

fn user(text: &str) -> Option<(u32, u32)> {
    let (user, group) = text.split_once(' ')?;
    Some((user.parse().ok()?, group.parse().ok()?))
}

/// Waits for the command, and for what it leaves behind. Returns the exit code of the command.
fn attend(command: Pid, waits: &Waits, outside: &UnixStream) -> io::Result<u8> {
    let mut ended = None;
    let mut patience = PollTimeout::NONE;
    loop {
        loop {
            match waitpid(None::<Pid>, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) if pid == command => {
                    ended = Some(u8::try_from(code).unwrap_or(1));
                    patience = SAYS.into();
                }
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == command => {
                    ended = Some(u8::try_from(128 + signal as i32).unwrap_or(1));
                    patience = SAYS.into();
                }
                Ok(WaitStatus::StillAlive) => break,
                Ok(_) | Err(Errno::EINTR) => {}
                // There is nobody left.
                Err(_) => return Ok(ended.unwrap_or(1)),
            }
        }
        match (waits.next(outside, patience)?, ended) {
            (Event::Outside(signals), None) if !signals.is_empty() => {
                for signal in signals {
                    // From a terminal, the command has it already.
                    if signal & FROM_TERMINAL == 0
                        && let Ok(signal) = Signal::try_from(i32::from(signal))
                    {
                        // It may have ended in the meantime.
                        let _ = kill(command, signal);
                    }
                }
            }
            (Event::Outside(_), ended) => return Ok(ended.unwrap_or(GONE)),
            (Event::Nothing, _) => {
                patience = PollTimeout::NONE;
                let text = "anabranch: the command has ended, but not all that it has started; Ctrl-C ends the rest\n";
                let _ = io::stderr().write_all(text.as_bytes());
            }
            (Event::Child, _) => {}
        }
    }
}
