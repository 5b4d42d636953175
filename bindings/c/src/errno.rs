//! Error numbers of C.

use anabranch_sockets::Error;
use libc::c_int;

/// A value of `errno`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) c_int);

macro_rules! errnos {
    ($($name:ident)*) => {
        impl Errno {
            $(pub(crate) const $name: Self = Self(libc::$name);)*
        }
    };
}

// Errors that this crate finds itself, such as invalid pointers.
errnos! {
    EACCES EAFNOSUPPORT EAGAIN EBADF EFAULT EINVAL EIO EMSGSIZE ENOBUFS ENOPROTOOPT EOPNOTSUPP
    EPROTONOSUPPORT ERANGE ESOCKTNOSUPPORT ETIMEDOUT
}

impl Errno {
    /// Sets the calling thread's `errno`.
    pub(crate) fn set(self) {
        // SAFETY: the C library gives a valid pointer to this thread's own `errno`.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

impl From<Error> for Errno {
    fn from(error: Error) -> Self {
        Self(match error {
            Error::AddressInUse => libc::EADDRINUSE,
            Error::AddressNotAvailable => libc::EADDRNOTAVAIL,
            Error::WrongFamily => libc::EAFNOSUPPORT,
            Error::WouldBlock => libc::EAGAIN,
            Error::AlreadyConnecting => libc::EALREADY,
            Error::Closed => libc::EBADF,
            Error::Aborted => libc::ECONNABORTED,
            Error::Refused => libc::ECONNREFUSED,
            Error::Reset => libc::ECONNRESET,
            Error::Unreachable => libc::EHOSTUNREACH,
            Error::InProgress => libc::EINPROGRESS,
            Error::Interrupted => libc::EINTR,
            Error::Invalid => libc::EINVAL,
            Error::AlreadyConnected => libc::EISCONN,
            Error::TooLong => libc::EMSGSIZE,
            Error::NoBuffers => libc::ENOBUFS,
            Error::NoSuchOption => libc::ENOPROTOOPT,
            Error::NotConnected => libc::ENOTCONN,
            Error::NotPermitted => libc::EPERM,
            Error::NotSupported => libc::EOPNOTSUPP,
            Error::Finished => libc::EPIPE,
            Error::TimedOut => libc::ETIMEDOUT,
            Error::System(number) => number,
            Error::Io => libc::EIO,
        })
    }
}
