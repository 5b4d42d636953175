//! Converts errors of the library to errors of socket calls.

#[cfg(feature = "seal")]
use anabranch::seal::SetupError;
use anabranch::{AssociationError, BindError, ConnectError, ListenError, SendErrorReason};

use crate::error::Error;

impl From<BindError> for Error {
    fn from(error: BindError) -> Self {
        match error {
            BindError::Socket { source, .. } | BindError::Raw { source, .. } => source.into(),
            BindError::Interfaces(source) | BindError::Opened(source) => source.into(),
            BindError::Fixed => Self::NotSupported,
            #[cfg(feature = "seal")]
            BindError::Seal(error) => match error {
                SetupError::Socket { source, .. } | SetupError::Uplinks(source) => source.into(),
                _ => Self::Invalid,
            },
            BindError::NoAddress => Self::AddressNotAvailable,
            BindError::DuplicateAddress(_) => Self::Invalid,
            _ => Self::Io,
        }
    }
}

impl From<ListenError> for Error {
    fn from(error: ListenError) -> Self {
        match error {
            ListenError::InUse(_) => Self::AddressInUse,
            _ => Self::Invalid,
        }
    }
}

impl From<ConnectError> for Error {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Unreachable(_) => Self::Unreachable,
            ConnectError::TooManyAssociations | ConnectError::OutOfMemory => Self::NoBuffers,
            ConnectError::AlreadyConnected => Self::AddressInUse,
            ConnectError::Failed { reason, .. } => Self::of_failed_setup(&reason),
            ConnectError::EndpointClosed => Self::Aborted,
            _ => Self::Invalid,
        }
    }
}

impl From<&SendErrorReason> for Error {
    fn from(reason: &SendErrorReason) -> Self {
        match reason {
            SendErrorReason::Blocked => Self::WouldBlock,
            SendErrorReason::TooLong => Self::TooLong,
            SendErrorReason::Association(AssociationError::Closed(reason)) => {
                Self::of_end(reason).unwrap_or(Self::Finished)
            }
            SendErrorReason::Association(_) => Self::Finished,
            _ => Self::Invalid,
        }
    }
}
