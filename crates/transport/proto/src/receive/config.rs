//! Options of the receiving half of an association.

use std::time::Duration;

use crate::options::section;

section! {
    /// When and how data is acknowledged (RFC 9260 section 6.2).
    pub struct AckConfig {
        /// Longest delay of an acknowledgement. 200 ms.
        // req: rfc9260 6.2 "MUST NOT allow the maximum delay (protocol parameter"
        // req: rfc9260 6.2 "MUST NOT raise it above 500 ms"
        sack_delay: Duration = Duration::from_millis(200), Kind::millis(0, 500), live;
        /// Packets with data for each acknowledgement. 2.
        sack_frequency: u32 = 2, Kind::count(1, 1_000_000), live;
        /// Acknowledgements travel in NR-SACK chunks if the peer wants them too
        /// (draft-natarajan-tsvwg-sctp-nrsack): they report data that the receiver will never drop,
        /// so the sender frees its memory before the data is acknowledged cumulatively. Off.
        nr_sack: bool = false, Kind::Switch;
    }
}

section! {
    /// What a receiver has room for.
    pub struct ReceiveConfig {
        /// Inbound streams allowed, also when the peer adds streams later. 65,535.
        // req: rfc6525 5.2.5 "exceeds a limit that should be configurable by the application"
        // req: rfc9260 3.3.2 "The value 0 MUST NOT be used"
        // req: rfc9260 3.3.3 "The value 0 MUST NOT be used"
        inbound_streams: u16 = u16::MAX, Kind::count(1, 65_535);
        /// Largest receive buffer in bytes of true memory; its free part is what a_rwnd announces. Set by its name,
        /// it has this size from the start: `receive_buffer_start` is off then. 1 MiB.
        // req: rfc9260 3.3.2 "Credit MUST NOT be smaller than 1500"
        // req: rfc9260 3.3.3 "Credit MUST NOT be smaller than 1500"
        receive_buffer: usize = 1 << 20, Kind::size(1500, 1 << 31);
        /// Size in bytes with which the receive buffer begins, if that is less. It grows to twice what the user takes
        /// in a round trip and what waits for missing data besides, while the endpoint has memory, and never shrinks. Off:
        /// it does not grow.
        receive_buffer_start: Option<usize> = None, Kind::size(1500, 1 << 31);
        /// A message being received is delivered in parts once this many bytes of it have arrived and it
        /// is not whole. At most half of the receive buffer.
        partial_delivery_point: usize = usize::MAX, Kind::size(0, u64::MAX), live;
        /// Other messages may come between the parts of a message that is delivered in parts (RFC 6458 section 8.1.20).
        /// Off, they wait for its end, except where messages are interleaved (RFC 8260). On.
        fragment_interleave: bool = true, Kind::Switch, live;
        /// Data that was acknowledged is never dropped, so that NR-SACKs report all of it as
        /// non-renegable; without NR-SACKs only when the endpoint's `memory_limit` is used up.
        /// Otherwise data whose message waits for others may be dropped when memory is short, to make
        /// room for lower TSNs (RFC 9260 section 6.2), and only what can be delivered is non-renegable.
        /// On.
        never_renege: bool = true, Kind::Switch;
        /// Whether the peer may reset its streams, or ask this side to reset some (RFC 6525). Peers in
        /// the style of WebRTC end a data channel so. On.
        accept_stream_resets: bool = true, Kind::Switch, live;
        /// Whether the peer may reset all TSNs. Off, because applications may expect TSNs to grow.
        accept_association_resets: bool = false, Kind::Switch, live;
        /// Whether the peer may add streams, or ask this side to add some. On.
        accept_added_streams: bool = true, Kind::Switch, live;
    }
}

impl ReceiveConfig {
    /// The size in bytes with which the receive buffer begins; the handshake announces it.
    pub fn first_receive_buffer(&self) -> usize {
        self.receive_buffer_start
            .map_or(self.receive_buffer, |start| start.min(self.receive_buffer))
    }
}
