//! What associations and paths report about themselves (RFC 6458 section 8.2).

use std::net::SocketAddr;
use std::time::Duration;

use anabranch::{AssociationState, PathState};

use crate::assoc_id::AssocId;

/// SCTP_STATUS (RFC 6458 section 8.2.1).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Status {
    /// The association.
    pub(crate) id: AssocId,
    /// Its state.
    pub(crate) state: AssociationState,
    /// The peer's receive window, in bytes.
    pub(crate) peer_rwnd: u32,
    /// DATA chunks that are not acknowledged.
    pub(crate) outstanding_chunks: usize,
    /// Streams that the peer may send on.
    pub(crate) inbound_streams: u16,
    /// Streams that this side may send on.
    pub(crate) outbound_streams: u16,
    /// Bytes of user data that fit into one packet on the primary path.
    pub(crate) fragmentation_point: u32,
    /// The primary path.
    pub(crate) primary: PathInfo,
}

/// SCTP_GET_PEER_ADDR_INFO (RFC 6458 section 8.2.2).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PathInfo {
    /// The association.
    pub(crate) id: AssocId,
    /// The peer's address, with its port.
    pub(crate) address: SocketAddr,
    /// How it is reached. Potentially failed paths are shown as active unless
    /// SCTP_EXPOSE_POTENTIALLY_FAILED_STATE is on.
    pub(crate) state: PathState,
    /// Congestion window, in bytes.
    pub(crate) cwnd: usize,
    /// Smoothed round-trip time; `None` before the first measurement.
    pub(crate) srtt: Option<Duration>,
    /// Retransmission timeout.
    pub(crate) rto: Duration,
    /// Largest IP packet, in bytes.
    pub(crate) mtu: u16,
}

/// SCTP_GET_ASSOC_STATS of Linux: totals since the association began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AssociationTotals {
    /// The association.
    pub(crate) id: AssocId,
    /// The peer's address with the longest retransmission timeout.
    pub(crate) slowest: SocketAddr,
    /// That timeout.
    pub(crate) max_rto: Duration,
    /// SACKs received.
    pub(crate) sacks_received: u64,
    /// SACKs sent.
    pub(crate) sacks_sent: u64,
    /// Packets sent.
    pub(crate) packets_sent: u64,
    /// Packets received.
    pub(crate) packets_received: u64,
    /// DATA chunks sent again.
    pub(crate) retransmitted_chunks: u64,
    /// DATA chunks received beyond a gap.
    pub(crate) out_of_sequence_chunks: u64,
    /// DATA chunks received twice.
    pub(crate) duplicate_chunks: u64,
    /// Gap Ack Blocks received.
    pub(crate) gap_blocks_received: u64,
    /// DATA chunks sent.
    pub(crate) data_chunks_sent: u64,
    /// DATA chunks received.
    pub(crate) data_chunks_received: u64,
    /// Control chunks sent.
    pub(crate) control_chunks_sent: u64,
    /// Control chunks received.
    pub(crate) control_chunks_received: u64,
}
