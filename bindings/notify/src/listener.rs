//! Notifications, and their answers.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use libc::{c_int, c_void, seccomp_notif, seccomp_notif_addfd, seccomp_notif_resp};

use crate::filter::Call;

/// The descriptor of a filter, which has the calls that wait. When it is closed, the calls fail with ENOSYS.
///
/// It is readable when a call waits, and hung up when the last process with the filter has ended.
#[derive(Debug)]
pub struct Listener(OwnedFd);

/// A call that waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The number of the notification.
    pub id: u64,
    /// The number of the thread, as this process sees it.
    pub thread: i32,
    /// The call; `None` if this crate does not know it.
    pub call: Option<Call>,
    /// Its arguments. They come from the program, and so do addresses among them.
    pub arguments: [u64; 6],
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The call returns this.
    Value(i64),
    /// The call fails with this error number.
    Error(i32),
    /// The kernel carries the call out as if there were no filter.
    Continue,
}

impl Listener {
    pub(crate) const fn new(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    /// Takes a call. Blocks if there is none.
    ///
    /// # Errors
    /// `NotFound`: it has ended meanwhile.
    pub fn receive(&self) -> io::Result<Notification> {
        // SAFETY: all zero bytes are a valid value, and what the kernel wants.
        let mut notification: seccomp_notif = unsafe { std::mem::zeroed() };
        self.request(libc::SECCOMP_IOCTL_NOTIF_RECV, (&raw mut notification).cast())?;
        let seccomp_notif { id, pid, data, .. } = notification;
        let (thread, arguments) = (pid.cast_signed(), data.args);
        Ok(Notification { id, thread, call: Call::of(data.nr), arguments })
    }

    /// Whether the call still waits. If so, its thread is alive.
    #[must_use]
    pub fn is_valid(&self, mut id: u64) -> bool {
        self.request(libc::SECCOMP_IOCTL_NOTIF_ID_VALID, (&raw mut id).cast()).is_ok()
    }

    /// Answers a call.
    ///
    /// # Errors
    /// `NotFound`: it does not wait any more.
    pub fn reply(&self, id: u64, reply: Reply) -> io::Result<()> {
        let (val, error, flags) = match reply {
            Reply::Value(value) => (value, 0, 0),
            Reply::Error(errno) => (0, -errno, 0),
            Reply::Continue => (0, 0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
        };
        let mut response = seccomp_notif_resp { id, val, error, flags };
        self.request(libc::SECCOMP_IOCTL_NOTIF_SEND, (&raw mut response).cast()).map(drop)
    }

    /// Gives the program a copy of a descriptor, and answers the call with its number in one step.
    ///
    /// # Errors
    /// `NotFound`: the call does not wait any more. EMFILE: the program can have no more descriptors. Then the call
    /// still waits.
    pub fn reply_with(
        &self,
        id: u64,
        descriptor: BorrowedFd<'_>,
        close_on_exec: bool,
    ) -> io::Result<()> {
        self.add(id, descriptor, close_on_exec, libc::SECCOMP_ADDFD_FLAG_SEND as u32).map(drop)
    }

    /// Gives the program a copy of a descriptor, while its call waits. Returns the number.
    ///
    /// # Errors
    /// As [`reply_with`](Self::reply_with).
    pub fn give(
        &self,
        id: u64,
        descriptor: BorrowedFd<'_>,
        close_on_exec: bool,
    ) -> io::Result<RawFd> {
        self.add(id, descriptor, close_on_exec, 0)
    }

    fn add(
        &self,
        id: u64,
        descriptor: BorrowedFd<'_>,
        close_on_exec: bool,
        flags: u32,
    ) -> io::Result<RawFd> {
        let mut request = seccomp_notif_addfd {
            id,
            flags,
            srcfd: descriptor.as_raw_fd().cast_unsigned(),
            newfd: 0,
            newfd_flags: if close_on_exec { libc::O_CLOEXEC.cast_unsigned() } else { 0 },
        };
        self.request(libc::SECCOMP_IOCTL_NOTIF_ADDFD, (&raw mut request).cast())
    }

    /// A request on the descriptor, again after a signal.
    fn request(&self, number: libc::Ioctl, argument: *mut c_void) -> io::Result<c_int> {
        loop {
            // SAFETY: all callers pass the structure that belongs to the number, which the kernel reads and writes
            // during the call only.
            let result = unsafe { libc::ioctl(self.0.as_raw_fd(), number, argument) };
            let error = io::Error::last_os_error();
            match result {
                0.. => return Ok(result),
                _ if error.kind() == io::ErrorKind::Interrupted => {}
                _ => return Err(error),
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
