//! User and process namespaces: an ordinary user may create networks in them, and nothing of a network is left behind.
//!
//! The program that the user starts becomes a supervisor. It creates the namespaces and starts itself again as the
//! first process in them. When that process ends for whatever reason, the kernel kills all others in the namespace. The
//! process also ends when the supervisor does: it sees the end of a pipe. Networks and devices have no names and
//! disappear with the last process.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getgid, getpid, getuid, pipe2};
use tokio::sync::watch;

use crate::Error;
use crate::stop::stopped;

/// Set inside the namespaces: the descriptor of the pipe that closes with the supervisor.
pub(crate) const INSIDE: &str = "ANABRANCH_EMULATE_INSIDE";
/// Interval for checking whether the program inside has ended.
const LOOK: Duration = Duration::from_millis(20);

/// Whether this process is inside the namespaces.
#[derive(Debug)]
pub enum Entered {
    /// Inside: networks can be created.
    Within,
    /// Outside: the same program runs inside, and this process waits for it.
    Outside(Supervisor),
}

/// Enters the namespaces. The calling program is started again inside them, with the same arguments; there this
/// function returns [`Entered::Within`]. Call it while the program has only one thread.
///
/// # Errors
/// Fails if the system does not allow the namespaces.
pub fn enter() -> Result<Entered, Error> {
    match std::env::var(INSIDE) {
        Ok(descriptor) if is_first() => settle(&descriptor).map(|()| Entered::Within),
        _ => Supervisor::start().map(Entered::Outside),
    }
}

/// Whether this is the first process of a new namespace, regardless of the environment. /proc still belongs to the
/// outer namespace, where this process has another number.
fn is_first() -> bool {
    getpid().as_raw() == 1
        && std::fs::read_link("/proc/self").is_ok_and(|number| number != Path::new("1"))
}

/// Waits for the program inside. When this value is dropped or its process ends, everything inside ends too.
#[derive(Debug)]
pub struct Supervisor {
    child: Child,
    /// Closing it ends the program inside.
    _lifeline: OwnedFd,
}

impl Supervisor {
    fn start() -> Result<Self, Error> {
        // Look up the path first: in a chroot it changes with the new mount namespace.
        let program =
            std::env::current_exe().map_err(|error| failed("where am I", error.to_string()))?;
        make_namespaces()?;
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC)
            .map_err(|error| failed("there is no pipe", error.desc().to_owned()))?;
        let passed = fcntl(&reader, FcntlArg::F_SETFD(FdFlag::empty()));
        passed.map_err(|error| failed("a pipe cannot be passed on", error.desc().to_owned()))?;
        let child = Command::new(program)
            .args(std::env::args_os().skip(1))
            .env(INSIDE, reader.as_raw_fd().to_string())
            // Setting a group makes the standard library fork. Its other way of starting a process is refused by the
            // kernel for a process whose children will be in another namespace.
            .gid(getgid().as_raw())
            .spawn()
            .map_err(|error| failed("the emulator cannot be started", error.to_string()))?;
        Ok(Self { child, _lifeline: writer })
    }

    /// Waits until the program inside has ended. When `stop` becomes `true`, asks it to end. Call this in a
    /// single-threaded runtime: the system refuses new threads to this process.
    ///
    /// # Errors
    /// Fails if the process cannot be waited for.
    pub async fn wait(mut self, stop: watch::Receiver<bool>) -> Result<ExitStatus, Error> {
        let mut told = false;
        loop {
            let status = self
                .child
                .try_wait()
                .map_err(|error| failed("the emulator cannot be waited for", error.to_string()))?;
            if let Some(status) = status {
                return Ok(status);
            }
            let pause = tokio::time::sleep(LOOK);
            if told {
                pause.await;
                continue;
            }
            tokio::select! {
                () = pause => {}
                () = stopped(&stop) => {
                    told = true;
                    if let Ok(id) = i32::try_from(self.child.id()) {
                        // It may have ended in the meantime.
                        let _ = kill(Pid::from_raw(id), Signal::SIGTERM);
                    }
                }
            }
        }
    }
}

fn failed(what: &'static str, reason: String) -> Error {
    Error::Isolation { what, reason }
}

/// Creates process and mount namespaces, and a user namespace if these are not allowed without one.
fn make_namespaces() -> Result<(), Error> {
    let wanted = CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNS;
    match unshare(wanted) {
        Ok(()) => return Ok(()),
        Err(Errno::EPERM) => {}
        Err(error) => return Err(refused("namespaces of processes", error)),
    }
    let (user, group) = (getuid(), getgid());
    unshare(CloneFlags::CLONE_NEWUSER).map_err(|error| refused("a user namespace", error))?;
    let map = |file: &str, text: String| {
        std::fs::write(format!("/proc/self/{file}"), text).map_err(|error| {
            let number = error.raw_os_error().map_or(Errno::EPERM, Errno::from_raw);
            refused("a user namespace", number)
        })
    };
    map("uid_map", format!("0 {user} 1"))?;
    // Without this, an ordinary user may not map groups.
    map("setgroups", "deny".into())?;
    map("gid_map", format!("0 {group} 1"))?;
    unshare(wanted).map_err(|error| refused("namespaces of processes", error))
}

fn refused(what: &'static str, error: Errno) -> Error {
    Error::NotAllowed { what, reason: error.desc().to_owned() }
}

/// Sets up the first process inside, before anything else.
fn settle(descriptor: &str) -> Result<(), Error> {
    let path = format!("/proc/self/fd/{}", descriptor.parse::<u32>().unwrap_or(u32::MAX));
    let mut lifeline =
        File::open(path).map_err(|error| failed("the supervisor is gone", error.to_string()))?;
    // Tools find processes through /proc. If it cannot be mounted, they see the processes outside.
    let none = None::<&str>;
    let private = mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none);
    if private.is_ok() {
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        let _ = mount(Some("proc"), "/proc", Some("proc"), flags, none);
    }
    std::thread::spawn(move || {
        // Nothing is ever written to the pipe, so this read returns when the supervisor ends. When the first process of
        // a namespace ends, all others end too.
        let _ = lifeline.read(&mut [0]);
        std::process::exit(137);
    });
    Ok(())
}
