//! What the other end of a Unix socket has not read.

use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd};

/// Whether the other end of a connected Unix socket has read all that was written (SIOCOUTQ, unix(7)), or is closed.
/// `false` for another kind of descriptor.
#[must_use]
pub fn is_read(socket: impl AsFd) -> bool {
    let mut unread: c_int = 0;
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: the call writes one int, and the descriptor is open during the call.
    let done = unsafe { libc::ioctl(socket, libc::TIOCOUTQ, &raw mut unread) };
    done == 0 && unread == 0
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn what_is_not_read_counts_until_the_other_end_is_closed() {
        let (mut own, mut other) = UnixStream::pair().unwrap();
        assert!(is_read(&own));
        own.write_all(b"two").unwrap();
        assert!(!is_read(&own) && is_read(&other));
        other.read_exact(&mut [0; 3]).unwrap();
        assert!(is_read(&own));
        own.write_all(b"two").unwrap();
        drop(other);
        assert!(is_read(&own));
        assert!(!is_read(std::fs::File::open("/dev/null").unwrap()));
    }
}
