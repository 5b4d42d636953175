//! The meaning of the operating system's errors for a sender.

use std::io;

use super::TransmitError;

/// ENOBUFS: Linux reports full queues only if transport errors are requested.
#[cfg(any(target_os = "linux", target_os = "android"))]
const NO_BUFFERS: i32 = 105;
#[cfg(windows)]
const NO_BUFFERS: i32 = 10_055;
#[cfg(not(any(target_os = "linux", target_os = "android", windows)))]
const NO_BUFFERS: i32 = 55;

/// Translates the error of a send call.
pub(super) fn classify(error: io::Error) -> TransmitError {
    match error.kind() {
        io::ErrorKind::WouldBlock => TransmitError::WouldBlock,
        io::ErrorKind::OutOfMemory => TransmitError::Dropped,
        _ if error.raw_os_error() == Some(NO_BUFFERS) => TransmitError::Dropped,
        _ if quinn_udp::is_msg_size_err(&error) => TransmitError::TooBig,
        _ => TransmitError::Failed(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn congestion_of_this_host_is_no_fault_of_the_path() {
        let of = |code| classify(io::Error::from_raw_os_error(code));
        assert!(matches!(of(NO_BUFFERS), TransmitError::Dropped));
        let kind = |kind: io::ErrorKind| classify(kind.into());
        assert!(matches!(kind(io::ErrorKind::WouldBlock), TransmitError::WouldBlock));
        assert!(matches!(kind(io::ErrorKind::OutOfMemory), TransmitError::Dropped));
        assert!(matches!(kind(io::ErrorKind::NetworkUnreachable), TransmitError::Failed(_)));
    }
}
