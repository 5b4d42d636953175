//! Starts a program with the filter.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::thread;

use libc::{c_int, c_ulong, sock_filter, sock_fprog};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::filter;
use crate::listener::Listener;

/// Starts a program with the filter, and returns what its calls wait for. The program and its children cannot get
/// privileges by `exec` (PR_SET_NO_NEW_PRIVS), which the kernel wants for the filter of an ordinary user.
///
/// # Errors
/// EBUSY: this process has such a filter already. EINVAL: the kernel has none (before Linux 5.14), or the processor is
/// unknown here. EPERM: this process must not take descriptors of its child. Otherwise as [`Command::spawn`].
pub fn spawn(mut command: Command) -> io::Result<(Child, Listener)> {
    let filter = filter::program().ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
    let (said, say) = pipe_with(PipeFlags::CLOEXEC)?;
    let (waits, go) = pipe_with(PipeFlags::CLOEXEC)?;
    let (say, waits) = (File::from(say), File::from(waits));
    // The child cannot send its listener: that call would wait for the listener. So it is taken from the child, by
    // a thread, because `spawn` returns only when the program has been executed.
    let taking = thread::Builder::new().name("listener".to_owned()).spawn(|| take(said, go))?;
    let in_child = move || install(&filter).and_then(|listener| hand_over(listener, &say, &waits));
    // SAFETY: the child makes only system calls: it allocates nothing and takes no locks.
    unsafe { command.pre_exec(in_child) };
    let spawned = command.spawn();
    // With it the last end of the pipe is closed, if the child has failed before it said anything.
    drop(command);
    let taken = taking.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
    match (spawned, taken) {
        (Ok(child), Ok(listener)) => Ok((child, Listener::new(listener))),
        // The thread knows why the child could not go on.
        (Err(_), Err(error)) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
        (Err(error), _) | (Ok(_), Err(error)) => Err(error),
    }
}

/// Takes the listener of the child that announces it, and lets the child go on, or fail.
fn take(said: OwnedFd, go: OwnedFd) -> io::Result<OwnedFd> {
    let mut numbers = [0; 8];
    File::from(said).read_exact(&mut numbers)?;
    let [process, listener] = [0, 4].map(|at| {
        let number = numbers.get(at..).and_then(<[u8]>::first_chunk).copied();
        c_int::from_ne_bytes(number.unwrap_or_default())
    });
    let process = Pid::from_raw(process).ok_or(io::ErrorKind::InvalidData)?;
    let taken = pidfd_open(process, PidfdFlags::empty())
        .and_then(|process| pidfd_getfd(process, listener, PidfdGetfdFlags::empty()));
    File::from(go).write_all(&[u8::from(taken.is_ok())])?;
    Ok(taken?)
}

/// In the child: installs the filter. Returns its listener, which `exec` closes.
fn install(filter: &[sock_filter]) -> io::Result<RawFd> {
    let length = u16::try_from(filter.len()).unwrap_or_default();
    let program = sock_fprog { len: length, filter: filter.as_ptr().cast_mut() };
    let [one, zero]: [c_ulong; 2] = [1, 0];
    // SAFETY: the arguments are numbers, as wide as the kernel reads them.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, one, zero, zero, zero) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let (mode, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER);
    // SAFETY: the program has as many statements as it says; the kernel only reads it, during the call.
    let listener = unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program) };
    RawFd::try_from(listener).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)
}

/// In the child: waits until the listener has been taken.
fn hand_over(listener: RawFd, mut say: &File, mut waits: &File) -> io::Result<()> {
    // SAFETY: the call has no preconditions.
    let process = unsafe { libc::getpid() };
    let mut numbers = [0; 8];
    let bytes = process.to_ne_bytes().into_iter().chain(listener.to_ne_bytes());
    numbers.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
    say.write_all(&numbers)?;
    let mut taken = [0];
    waits.read_exact(&mut taken)?;
    if taken == [1] { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EPERM)) }
}
