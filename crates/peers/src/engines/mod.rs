//! One file per implementation.

pub(crate) mod anabranch;
pub(crate) mod dcsctp;
pub(crate) mod rtc_sctp;
pub(crate) mod sctp_proto;

/// Length of the common header.
const COMMON_HEADER: usize = 12;

/// The chunk type SHUTDOWN COMPLETE.
const SHUTDOWN_COMPLETE: u8 = 14;

/// Whether a packet begins with SHUTDOWN COMPLETE. rtc-sctp and sctp-proto, when they began the
/// graceful end, remain in SHUTDOWN-SENT after they sent it, though RFC 9260 section 9.2 ends
/// the association there; their adapters take the packet for the end.
fn completes_shutdown(packet: &[u8]) -> bool {
    packet.get(COMMON_HEADER) == Some(&SHUTDOWN_COMPLETE)
}
