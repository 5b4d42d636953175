//! Descriptors that `poll`, `select` and `epoll` can wait for.
//!
//! The user's descriptor is one end of a pair of connected Unix sockets, whose readiness mirrors
//! the SCTP socket's. One byte in its receive buffer makes it readable. It is writable while its
//! send buffer has room. To make it unwritable, we fill that buffer with dummy bytes; to make it
//! writable again, we drain them from the other end.
//!
//! Sockets whose calls wait as futures have no descriptor.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::error::Error;

/// Requests the smallest send buffer: systems raise it to their minimum.
const SEND_BUFFER: usize = 1;

/// A descriptor for the user, whose readiness we control; or none.
#[derive(Debug)]
pub(crate) struct Descriptor(Option<Pair>);

#[derive(Debug)]
struct Pair {
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
    /// No descriptor: calls never block, and nothing can be polled.
    pub(crate) const NONE: Self = Self(None);

    pub(crate) fn new(nonblocking: bool) -> Result<Self, Error> {
        let (user, own) = UnixStream::pair()?;
        own.set_nonblocking(true)?;
        user.set_nonblocking(nonblocking)?;
        set_socket_send_buffer_size(&user, SEND_BUFFER).map_err(io::Error::from)?;
        Ok(Self(Some(Pair { user, own })))
    }

    /// A descriptor for a socket of the same kind.
    pub(crate) fn another(&self, nonblocking: bool) -> Result<Self, Error> {
        if self.0.is_some() { Self::new(nonblocking) } else { Ok(Self::NONE) }
    }

    /// The number, or -1 without a descriptor.
    pub(crate) fn number(&self) -> RawFd {
        self.0.as_ref().map_or(-1, |pair| pair.user.as_raw_fd())
    }

    pub(crate) fn set_nonblocking(&self, on: bool) -> Result<(), Error> {
        match &self.0 {
            Some(pair) => Ok(pair.user.set_nonblocking(on)?),
            None => Ok(()),
        }
    }

    /// Whether the user set O_NONBLOCK, with `fcntl` or otherwise.
    pub(crate) fn is_nonblocking(&self) -> bool {
        let is_set = |pair: &Pair| {
            fcntl_getfl(&pair.user).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK))
        };
        self.0.as_ref().is_none_or(is_set)
    }

    /// Changes the readiness from `shown` to `wanted`. Returns the new readiness.
    pub(crate) fn show(&self, shown: Readiness, wanted: Readiness) -> Readiness {
        if let Some(pair) = &self.0 {
            pair.show(shown, wanted);
        }
        wanted
    }
}

impl Pair {
    fn show(&self, shown: Readiness, wanted: Readiness) {
        if wanted.readable && !shown.readable {
            // This byte is the only one in the buffer of this end.
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
    }

    /// Fills the user's send buffer, without blocking.
    fn fill(&self) {
        let bytes = [0u8; 1024];
        loop {
            let sent = send(&self.user, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
            if sent.is_err_and(|error| error != Errno::INTR) {
                return;
            }
        }
    }

    /// Removes the byte that makes the user's end readable, without blocking.
    fn take_from_user(&self) {
        let mut bytes = [0u8; 16];
        let _ = recv(&self.user, &mut bytes[..], RecvFlags::DONTWAIT);
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn polled(descriptor: &Descriptor) -> Readiness {
        let mut entries =
            [PollFd::new(&descriptor.0.as_ref().unwrap().user, PollFlags::IN | PollFlags::OUT)];
        poll(&mut entries, Some(&Timespec::default())).unwrap();
        let has = |event| entries[0].revents().contains(event);
        Readiness { readable: has(PollFlags::IN), writable: has(PollFlags::OUT) }
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
