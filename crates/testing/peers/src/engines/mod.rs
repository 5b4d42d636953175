//! The engines, with one file per implementation.

pub(crate) mod anabranch;
pub(crate) mod dcsctp;
pub(crate) mod rtc_sctp;
pub(crate) mod sctp_proto;

/// Length of the common header.
const COMMON_HEADER: usize = 12;

/// The chunk type ABORT.
const ABORT: u8 = 6;

/// The chunk type SHUTDOWN COMPLETE.
const SHUTDOWN_COMPLETE: u8 = 14;

/// Whether a packet begins with SHUTDOWN COMPLETE. When rtc-sctp and sctp-proto start the graceful
/// end, they stay in SHUTDOWN-SENT after sending it, although RFC 9260 section 9.2 ends the
/// association there. Their adapters treat the packet as the end.
fn completes_shutdown(packet: &[u8]) -> bool {
    packet.get(COMMON_HEADER) == Some(&SHUTDOWN_COMPLETE)
}

/// Whether a packet begins with ABORT. rtc-sctp and sctp-proto end only for the cause
/// 'User-Initiated Abort' and continue after any other, for example after the answer to an
/// out-of-the-blue packet (RFC 9260 section 8.4), which is their only sign of the end if the first
/// ABORT is lost. RFC 9260 section 9.1 ends the association for every ABORT, and so do their
/// adapters.
fn aborts(packet: &[u8]) -> bool {
    packet.get(COMMON_HEADER) == Some(&ABORT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_chunk_tells_what_a_packet_ends() {
        let packet = |kind| [[0; COMMON_HEADER].as_slice(), &[kind, 1, 0, 4]].concat();
        assert!(aborts(&packet(ABORT)) && !completes_shutdown(&packet(ABORT)));
        assert!(completes_shutdown(&packet(SHUTDOWN_COMPLETE)));
        assert!(!aborts(&packet(0)) && !aborts(&[0; COMMON_HEADER]) && !aborts(&[]));
    }
}
