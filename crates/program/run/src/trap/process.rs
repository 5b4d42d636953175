//! The descriptors of a program's process.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use anabranch_channel::name::Channel;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, getsockname};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

/// PIDFD_THREAD (Linux 6.9): the number may be that of any thread.
const ANY_THREAD: PidfdFlags = PidfdFlags::from_bits_retain(OFlags::EXCL.bits());

/// A process of a program.
#[derive(Debug)]
pub(super) struct Process(OwnedFd);

impl Process {
    /// The process of a thread.
    pub(super) fn of(thread: i32) -> io::Result<Self> {
        let number = Pid::from_raw(thread).ok_or(io::ErrorKind::InvalidInput)?;
        match pidfd_open(number, ANY_THREAD) {
            // An older kernel.
            Err(Errno::INVAL) => {}
            opened => return Ok(Self(opened?)),
        }
        let number = first_thread(thread).ok_or(io::ErrorKind::NotFound)?;
        Ok(Self(pidfd_open(number, PidfdFlags::empty())?))
    }

    /// A copy of a descriptor.
    pub(super) fn descriptor(&self, fd: i32) -> io::Result<OwnedFd> {
        // The program may pass any number. rustix panics at those that cannot be descriptors.
        if fd < 0 {
            return Err(Errno::BADF.into());
        }
        Ok(pidfd_getfd(&self.0, fd, PidfdGetfdFlags::empty())?)
    }
}

/// The number of a thread's process.
fn first_thread(thread: i32) -> Option<Pid> {
    let status =
        std::fs::read_to_string(Path::new("/proc").join(thread.to_string()).join("status"));
    let status = status.ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    Pid::from_raw(line.trim().parse().ok()?)
}

/// The channel that a descriptor is, if it is one.
pub(super) fn channel(descriptor: impl AsFd) -> Option<Channel> {
    let name = SocketAddrUnix::try_from(getsockname(descriptor).ok()?).ok()?;
    Channel::decode(name.abstract_name()?)
}

/// Whether calls on the descriptor do not wait.
pub(super) fn is_nonblocking(descriptor: impl AsFd) -> bool {
    fcntl_getfl(descriptor).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK))
}

/// Sets O_NONBLOCK of a new descriptor, if it is wanted.
pub(super) fn set_nonblocking(descriptor: impl AsFd, wanted: bool) {
    if wanted {
        // Fails for no socket.
        let _ = fcntl_setfl(descriptor, OFlags::RDWR | OFlags::NONBLOCK);
    }
}

#[cfg(test)]
mod tests {
    use rustix::thread::gettid;

    use super::*;

    #[test]
    fn a_thread_has_the_descriptors_of_its_process() {
        let own = std::process::id().cast_signed();
        let thread = std::thread::spawn(|| {
            let number = gettid().as_raw_nonzero().get();
            (number, first_thread(number).map(|first| first.as_raw_nonzero().get()))
        });
        assert_eq!(thread.join().unwrap().1, Some(own));
        let process = Process::of(own).unwrap();
        assert!(Process::of(0).is_err() && process.descriptor(0).is_ok());
        for wrong in [-1, i32::MIN, libc::AT_FDCWD, i32::MAX] {
            assert_eq!(process.descriptor(wrong).unwrap_err().raw_os_error(), Some(libc::EBADF));
        }
        assert_eq!(first_thread(-1), None);
    }
}
