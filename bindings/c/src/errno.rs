//! Error numbers, as RFC 6458 and POSIX have them.

use anabranch::{
    AssociationError, BindError, CloseReason, ConnectError, ListenError, SendErrorReason,
};
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

errnos! {
    EADDRINUSE EADDRNOTAVAIL EAFNOSUPPORT EAGAIN EALREADY EBADF ECONNABORTED ECONNREFUSED
    ECONNRESET EFAULT EHOSTUNREACH EINPROGRESS EINTR EINVAL EIO EISCONN EMSGSIZE ENOBUFS
    ENOPROTOOPT ENOTCONN EOPNOTSUPP EPIPE EPROTONOSUPPORT ESOCKTNOSUPPORT ETIMEDOUT
}

impl Errno {
    /// What the calling thread's `errno` is now.
    pub(crate) fn last() -> Self {
        Self(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
    }

    /// Sets the calling thread's `errno`.
    pub(crate) fn set(self) {
        // SAFETY: the C library gives a valid pointer to this thread's own `errno`.
        unsafe { *libc::__errno_location() = self.0 };
    }

    /// What the end of an association is to a user who had it up, or `None` after a shutdown.
    pub(crate) fn of_end(reason: &CloseReason) -> Option<Self> {
        Some(match reason {
            CloseReason::Shutdown => return None,
            CloseReason::PeerAbort { .. } => Self::ECONNRESET,
            CloseReason::ConnectTimeout
            | CloseReason::Unreachable
            | CloseReason::ShutdownTimeout => Self::ETIMEDOUT,
            CloseReason::NoSctp | CloseReason::PortUnreachable => Self::ECONNREFUSED,
            _ => Self::ECONNABORTED,
        })
    }
}

impl From<std::io::Error> for Errno {
    fn from(error: std::io::Error) -> Self {
        Self(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

impl From<BindError> for Errno {
    fn from(error: BindError) -> Self {
        match error {
            BindError::Socket { source, .. } | BindError::Raw { source, .. } => source.into(),
            BindError::Interfaces(source) | BindError::Opened(source) => source.into(),
            BindError::NoAddress => Self::EADDRNOTAVAIL,
            BindError::DuplicateAddress(_) => Self::EINVAL,
            _ => Self::EIO,
        }
    }
}

impl From<ListenError> for Errno {
    fn from(error: ListenError) -> Self {
        match error {
            ListenError::InUse(_) => Self::EADDRINUSE,
            _ => Self::EINVAL,
        }
    }
}

impl From<ConnectError> for Errno {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Unreachable(_) => Self::EHOSTUNREACH,
            ConnectError::TooManyAssociations | ConnectError::OutOfMemory => Self::ENOBUFS,
            ConnectError::AlreadyConnected => Self::EADDRINUSE,
            ConnectError::Failed { reason, .. } => match reason {
                CloseReason::ConnectTimeout | CloseReason::Unreachable => Self::ETIMEDOUT,
                CloseReason::LocalAbort => Self::ECONNABORTED,
                _ => Self::ECONNREFUSED,
            },
            ConnectError::EndpointClosed => Self::ECONNABORTED,
            _ => Self::EINVAL,
        }
    }
}

impl From<&SendErrorReason> for Errno {
    fn from(reason: &SendErrorReason) -> Self {
        match reason {
            SendErrorReason::Blocked => Self::EAGAIN,
            SendErrorReason::TooLong => Self::EMSGSIZE,
            SendErrorReason::Association(AssociationError::Closed(reason)) => {
                Self::of_end(reason).unwrap_or(Self::EPIPE)
            }
            SendErrorReason::Association(_) => Self::EPIPE,
            _ => Self::EINVAL,
        }
    }
}
