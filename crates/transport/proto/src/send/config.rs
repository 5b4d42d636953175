//! Options of the sending half of an association.

use super::{Bundling, Pieces, SchedulerKind};
use crate::options::section;
use crate::reliability::{self, Reliability};

section! {
    /// From messages to packets.
    pub struct SendConfig {
        /// Outbound streams asked for. 1,024.
        // req: rfc9260 3.3.2 "The value 0 MUST NOT be used"
        // req: rfc9260 3.3.3 "The value 0 MUST NOT be used"
        outbound_streams: u16 = 1024, Kind::count(1, 65_535);
        /// Which stream sends next.
        scheduler: SchedulerKind = SchedulerKind::Fifo, Kind::Word(SchedulerKind::NAMES), live;
        /// Offer and accept the interleaving of messages of different streams (RFC 8260): a long message on one
        /// stream does not hold up those of others, if the scheduler lets them alternate. Off.
        interleaving: bool = false, Kind::Switch;
        /// Largest send buffer in bytes of true memory; beyond it sends are refused. Set by its name, it has this
        /// size from the start: `send_buffer_start` is off then. 1 MiB.
        send_buffer: usize = 1 << 20, Kind::size(1, u64::MAX);
        /// Size in bytes with which the send buffer begins, if that is less. It grows to twice what the congestion
        /// windows let the paths carry in a round trip, while the endpoint has memory. Off: it does not grow.
        send_buffer_start: Option<usize> = None, Kind::size(1, u64::MAX);
        /// Into how long messages byte streams are cut: `packet` is one a packet, `long` up to 16 KiB, and
        /// `auto` one a packet while other streams have something waiting, else long ones.
        pieces: Pieces = Pieces::Auto, Kind::Word(Pieces::NAMES);
        /// Send buffer that one stream may take. No limit, and 128 KiB for byte streams.
        stream_send_buffer: usize = usize::MAX, Kind::size(1, u64::MAX);
        /// Longest message that may be sent. 256 MiB.
        max_message_size: usize = 256 << 20, Kind::size(1, u64::MAX);
        /// Fragments of a message that would fit into its own packet fill the rest of the previous
        /// packet, so bulk data makes full packets. Off.
        fill_packets: bool = false, Kind::Switch;
        /// Whether messages that do not fill a packet wait to share one: `nagle` while anything is
        /// outstanding, as kernels do without SCTP_NODELAY; `minshall` while a packet is that was not
        /// filled; `prompt` is the same and asks for acknowledgements of such packets at once. None does.
        bundling: Bundling = Bundling::None, Kind::Word(Bundling::NAMES), live;
        /// Offer and accept partial reliability (RFC 3758): messages that were sent may be given up, and the
        /// peer is told to skip them. Off.
        partial_reliability: bool = false, Kind::Switch;
        /// When messages are given up that do not say so themselves: after a `lifetime`, after a number of
        /// `retransmissions` of a chunk, or by `priority` when the send buffer is full (RFC 7496). Byte
        /// streams are always `full`.
        reliability: Reliability = Reliability::Full, reliability::FORMS, live;
        /// Offer and accept stream reconfiguration (RFC 6525): streams may be reset and added while the
        /// association is up. Off.
        stream_reconfiguration: bool = false, Kind::Switch;
        /// Most outbound streams that a peer may ask this side to have. 65,535.
        // req: rfc6525 5.2.6 "exceeds a limit that should be configurable by the application"
        max_outbound_streams: u16 = u16::MAX, Kind::count(1, 65_535), live;
    }
}

impl SendConfig {
    /// The size in bytes with which the send buffer begins.
    pub fn first_send_buffer(&self) -> usize {
        self.send_buffer_start.map_or(self.send_buffer, |start| start.min(self.send_buffer))
    }
}
