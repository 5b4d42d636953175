//! Descriptors that `poll`, `select` and `epoll` can wait for.
//!
//! The user's descriptor is one end of a pair of connected Unix sockets, whose readiness mirrors
//! the SCTP socket's. A byte that lies in it makes it readable. It is writable while its send
//! buffer has room: to take that away, the buffer is filled with bytes that nobody is to read,
//! and emptied again from the other end.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

use crate::errno::Errno;

/// The smallest send buffer that systems grant; they raise smaller values.
const SEND_BUFFER: libc::c_int = 1;

/// A descriptor for the user, and what its readiness is.
#[derive(Debug)]
pub(crate) struct Descriptor {
    user: UnixStream,
    own: UnixStream,
}

/// What a descriptor is ready for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Readiness {
    pub(crate) readable: bool,
    pub(crate) writable: bool,
}

impl Readiness {
    /// The state of a new pair.
    pub(crate) const NEW: Self = Self { readable: false, writable: true };
}

impl Descriptor {
    pub(crate) fn new(nonblocking: bool) -> Result<Self, Errno> {
        let (user, own) = UnixStream::pair()?;
        own.set_nonblocking(true)?;
        user.set_nonblocking(nonblocking)?;
        let value = SEND_BUFFER;
        // SAFETY: the descriptor is open, and the pointer and the length are those of `value`.
        let result = unsafe {
            libc::setsockopt(
                user.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_SNDBUF,
                (&raw const value).cast(),
                size_of_val(&value) as libc::socklen_t,
            )
        };
        if result != 0 {
            return Err(Errno::last());
        }
        Ok(Self { user, own })
    }

    pub(crate) fn number(&self) -> RawFd {
        self.user.as_raw_fd()
    }

    /// Whether the user set O_NONBLOCK, with `fcntl` or otherwise.
    pub(crate) fn is_nonblocking(&self) -> bool {
        // SAFETY: the descriptor is open; F_GETFL has no argument.
        let flags = unsafe { libc::fcntl(self.user.as_raw_fd(), libc::F_GETFL) };
        flags >= 0 && flags & libc::O_NONBLOCK != 0
    }

    /// Makes the descriptor ready for `wanted`, after `shown`. Returns what it shows now.
    pub(crate) fn show(&self, shown: Readiness, wanted: Readiness) -> Readiness {
        if wanted.readable && !shown.readable {
            // The buffer of this end is empty but for this byte.
            let _ = (&self.own).write(&[1]);
        } else if !wanted.readable && shown.readable {
            self.take_from_user();
        }
        if wanted.writable && !shown.writable {
            let mut bytes = [0; 4096];
            while matches!((&self.own).read(&mut bytes), Ok(1..)) {}
        } else if !wanted.writable && shown.writable {
            self.fill();
        }
        wanted
    }

    /// Fills the user's send buffer, without waiting.
    fn fill(&self) {
        let bytes = [0u8; 1024];
        loop {
            // SAFETY: the descriptor is open, and the bytes are readable for their length.
            let sent = unsafe {
                libc::send(
                    self.user.as_raw_fd(),
                    bytes.as_ptr().cast(),
                    bytes.len(),
                    libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
                )
            };
            let interrupted = || std::io::Error::last_os_error().kind() == ErrorKind::Interrupted;
            if sent < 0 && !interrupted() {
                return;
            }
        }
    }

    /// Takes the byte that makes the user's end readable, without waiting.
    fn take_from_user(&self) {
        let mut bytes = [0u8; 16];
        // SAFETY: the descriptor is open, and the bytes are writable for their length.
        let _ = unsafe {
            libc::recv(
                self.user.as_raw_fd(),
                bytes.as_mut_ptr().cast(),
                bytes.len(),
                libc::MSG_DONTWAIT,
            )
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn polled(descriptor: &Descriptor) -> Readiness {
        let events = libc::POLLIN | libc::POLLOUT;
        let mut entry = libc::pollfd { fd: descriptor.number(), events, revents: 0 };
        // SAFETY: one entry is given.
        assert!(unsafe { libc::poll(&raw mut entry, 1, 0) } >= 0);
        let has = |event| entry.revents & event != 0;
        Readiness { readable: has(libc::POLLIN), writable: has(libc::POLLOUT) }
    }

    #[test]
    fn all_four_states_can_be_shown_one_after_the_other() {
        for nonblocking in [false, true] {
            let descriptor = Descriptor::new(nonblocking).unwrap();
            assert_eq!(descriptor.is_nonblocking(), nonblocking);
            let mut shown = Readiness::NEW;
            assert_eq!(polled(&descriptor), shown);
            for turn in 0..64u32 {
                let bits = turn.wrapping_mul(2_654_435_761) >> 29;
                let wanted = Readiness { readable: bits & 1 != 0, writable: bits & 2 != 0 };
                shown = descriptor.show(shown, wanted);
                assert_eq!(polled(&descriptor), wanted, "turn {turn}");
            }
        }
    }
}
