//! Namespaces of users and processes, so that an ordinary user may make networks, and so that nothing of
//! them is left behind.
//!
//! The program that the user starts becomes a supervisor. It makes the namespaces and starts itself
//! again as the first process in them; when that one ends, however it ends, the kernel ends
//! all others. It ends when the supervisor does, by the end of a pipe. Networks and devices have no
//! names, and go with the last process.

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

/// Set within: the descriptor of the pipe that ends with the supervisor.
pub(crate) const INSIDE: &str = "ANABRANCH_EMULATE_INSIDE";
/// How often is looked whether the program within has ended.
const LOOK: Duration = Duration::from_millis(20);

/// On which side of the namespaces this process is.
#[derive(Debug)]
pub enum Entered {
    /// Within: networks can be made.
    Within,
    /// Outside: the same program runs within, and this one waits for it.
    Outside(Supervisor),
}

/// Enters the namespaces: the calling program is started again within them, with the same arguments, and there this
/// returns [`Entered::Within`]. To be called while the program has one thread.
///
/// # Errors
/// What the system does not allow.
pub fn enter() -> Result<Entered, Error> {
    match std::env::var(INSIDE) {
        Ok(descriptor) if is_first() => settle(&descriptor).map(|()| Entered::Within),
        _ => Supervisor::start().map(Entered::Outside),
    }
}

/// Whether this is the first process of a new namespace, whatever the environment says: /proc is still that of the
/// namespace outside, where it has another number.
fn is_first() -> bool {
    getpid().as_raw() == 1
        && std::fs::read_link("/proc/self").is_ok_and(|number| number != Path::new("1"))
}

/// Waits for the program within. When this value is dropped, or its process ends, so does all that is within.
#[derive(Debug)]
pub struct Supervisor {
    child: Child,
    /// Its end is the end of the program within.
    _lifeline: OwnedFd,
}

impl Supervisor {
    fn start() -> Result<Self, Error> {
        // In a chroot its name is another one once there is a new namespace of mounts.
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
            // With a group to set, the standard library forks: what it does otherwise, the kernel refuses
            // to a process whose children will be in another namespace.
            .gid(getgid().as_raw())
            .spawn()
            .map_err(|error| failed("the emulator cannot be started", error.to_string()))?;
        Ok(Self { child, _lifeline: writer })
    }

    /// Waits until the program within has ended, and asks it to when `stop` becomes `true`. To be called in a
    /// runtime without threads: the system refuses them to this process.
    ///
    /// # Errors
    /// A process that cannot be waited for.
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
                        // It may have ended just now.
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

/// Namespaces of processes and mounts, and of users where it takes one to be allowed these.
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
    // Without this an ordinary user may not map groups.
    map("setgroups", "deny".into())?;
    map("gid_map", format!("0 {group} 1"))?;
    unshare(wanted).map_err(|error| refused("namespaces of processes", error))
}

fn refused(what: &'static str, error: Errno) -> Error {
    Error::NotAllowed { what, reason: error.desc().to_owned() }
}

/// What the first process within does before anything else.
fn settle(descriptor: &str) -> Result<(), Error> {
    let path = format!("/proc/self/fd/{}", descriptor.parse::<u32>().unwrap_or(u32::MAX));
    let mut lifeline =
        File::open(path).map_err(|error| failed("the supervisor is gone", error.to_string()))?;
    // Tools find processes by /proc. Where it may not be mounted they see those outside.
    let none = None::<&str>;
    let private = mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none);
    if private.is_ok() {
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        let _ = mount(Some("proc"), "/proc", Some("proc"), flags, none);
    }
    std::thread::spawn(move || {
        // Nothing is ever written: this ends when the supervisor does, and with the first
        // process of a namespace all others end.
        let _ = lifeline.read(&mut [0]);
        std::process::exit(137);
    });
    Ok(())
}
