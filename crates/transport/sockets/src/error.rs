//! Errors of socket calls.

use std::fmt;
use std::io;

use anabranch_proto::{CloseReason, ReconfigurationError, SendErrorReason};

macro_rules! errors {
    ($($(#[$doc:meta])* $variant:ident $name:ident $text:literal,)*) => {
        /// Why a call failed. Each variant is a POSIX error; [`name`](Self::name) returns its name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Error {
            $($(#[$doc])* $variant,)*
            /// Another error of the operating system, by its number.
            System(i32),
        }

        impl Error {
            /// The name of the error in POSIX, `EIO` for [`System`](Self::System).
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($name),)*
                    Self::System(_) => "EIO",
                }
            }
        }

        impl fmt::Display for Error {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$variant => f.write_str($text),)*
                    Self::System(number) => io::Error::from_raw_os_error(*number).fmt(f),
                }
            }
        }
    };
}

errors! {
    /// Another socket uses the port or the address, or the association exists already.
    AddressInUse EADDRINUSE "the address is in use: choose another port",
    /// This host does not have the address.
    AddressNotAvailable EADDRNOTAVAIL "this host does not have the address",
    /// An IPv6 address on a socket of the family IPv4.
    WrongFamily EAFNOSUPPORT "the address is not of the socket's family",
    /// The call would block, or its time limit has expired.
    WouldBlock EAGAIN "the call would block: try again when the socket is ready",
    /// The association is being set up already, or a request to the peer has not ended yet.
    AlreadyConnecting EALREADY "the association is being set up, or a request is outstanding",
    /// The socket is closed.
    Closed EBADF "the socket is closed",
    /// This side ended the association, or the peer violated the protocol.
    Aborted ECONNABORTED "the association was aborted",
    /// The peer does not accept the association.
    Refused ECONNREFUSED "the peer refused the association",
    /// The peer aborted the association.
    Reset ECONNRESET "the peer aborted the association",
    /// No route leads to the peer.
    Unreachable EHOSTUNREACH "no address of the peer can be reached",
    /// The association is being set up in the background.
    InProgress EINPROGRESS "the association is being set up",
    /// A signal was handled while the call waited.
    Interrupted EINTR "a signal interrupted the call",
    /// An argument is out of range, or the association does not exist.
    Invalid EINVAL "an argument is invalid",
    /// The library failed in a way that has no other error.
    Io EIO "the library failed",
    /// The socket has an association already.
    AlreadyConnected EISCONN "the socket has an association already",
    /// The message is longer than the socket can send.
    TooLong EMSGSIZE "the message is too long",
    /// There is not enough memory, or there are too many associations.
    NoBuffers ENOBUFS "there is not enough memory",
    /// The option does not exist.
    NoSuchOption ENOPROTOOPT "the option does not exist",
    /// The socket has no association.
    NotConnected ENOTCONN "the socket has no association",
    /// Another option must be set first.
    NotPermitted EPERM "the option does not go together with another one: set that one first",
    /// This socket, or the state it is in, does not allow the call.
    NotSupported EOPNOTSUPP "this socket does not support the call in its present state",
    /// Nothing more can be sent.
    Finished EPIPE "nothing more can be sent on the association",
    /// The peer did not answer in time.
    TimedOut ETIMEDOUT "the peer did not answer in time",
}

impl std::error::Error for Error {}

impl Error {
    /// The error that users see when an established association ends; `None` after a shutdown.
    #[must_use]
    pub fn of_end(reason: &CloseReason) -> Option<Self> {
        Some(match reason {
            CloseReason::Shutdown => return None,
            CloseReason::PeerAbort { .. } => Self::Reset,
            CloseReason::ConnectTimeout
            | CloseReason::Unreachable
            | CloseReason::ShutdownTimeout => Self::TimedOut,
            CloseReason::NoSctp | CloseReason::PortUnreachable => Self::Refused,
            _ => Self::Aborted,
        })
    }

    /// The error of a request for a reset of streams or for more streams (RFC 6525 section 6.3).
    #[must_use]
    pub fn of_reconfiguration(error: ReconfigurationError) -> Self {
        match error {
            ReconfigurationError::NotNegotiated => Self::NoSuchOption,
            ReconfigurationError::Outstanding => Self::AlreadyConnecting,
            ReconfigurationError::Closed => Self::NotConnected,
            _ => Self::Invalid,
        }
    }

    /// The error of a call that could not set up an association.
    #[must_use]
    pub fn of_failed_setup(reason: &CloseReason) -> Self {
        match reason {
            CloseReason::ConnectTimeout | CloseReason::Unreachable => Self::TimedOut,
            CloseReason::LocalAbort => Self::Aborted,
            _ => Self::Refused,
        }
    }
}

impl From<&SendErrorReason> for Error {
    fn from(reason: &SendErrorReason) -> Self {
        match reason {
            SendErrorReason::Blocked => Self::WouldBlock,
            SendErrorReason::TooLong => Self::TooLong,
            SendErrorReason::Closed => Self::Finished,
            _ => Self::Invalid,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::AddrInUse => Self::AddressInUse,
            io::ErrorKind::AddrNotAvailable => Self::AddressNotAvailable,
            io::ErrorKind::Interrupted => Self::Interrupted,
            _ => error.raw_os_error().map_or(Self::Io, Self::System),
        }
    }
}
