//! What associations and paths report about themselves (RFC 6458 section 8.2).

use std::net::SocketAddr;
use std::time::Duration;

use anabranch_proto::{AssociationState, PathState};

use crate::assoc_id::AssocId;

/// SCTP_STATUS (RFC 6458 section 8.2.1).
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// The association.
    pub id: AssocId,
    /// Its state.
    pub state: AssociationState,
    /// The peer's receive window, in bytes.
    pub peer_rwnd: u32,
    /// DATA chunks that are not acknowledged.
    pub outstanding_chunks: usize,
    /// Streams that the peer may send on.
    pub inbound_streams: u16,
    /// Streams that this side may send on.
    pub outbound_streams: u16,
    /// Bytes of user data that fit into one packet on the primary path.
    pub fragmentation_point: u32,
    /// The primary path.
    pub primary: PathInfo,
}

/// SCTP_ASSOCINFO (RFC 6458 section 8.1.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssocInfo {
    /// Retransmissions in a row after which the association fails.
    pub max_retrans: u32,
    /// Paths to the peer; 0 before the association is up.
    pub peer_addresses: usize,
    /// The peer's receive window in bytes; 0 before the association is up.
    pub peer_rwnd: u32,
    /// The receive buffer of this side, in bytes.
    pub local_rwnd: usize,
    /// How long a peer may take to return a cookie.
    pub cookie_life: Duration,
}

/// SCTP_GET_PEER_ADDR_INFO (RFC 6458 section 8.2.2).
#[derive(Clone, Debug, PartialEq)]
pub struct PathInfo {
    /// The association.
    pub id: AssocId,
    /// The peer's address, with its port.
    pub address: SocketAddr,
    /// How it is reached. Potentially failed paths are shown as active unless
    /// SCTP_EXPOSE_POTENTIALLY_FAILED_STATE is on.
    pub state: PathState,
    /// Congestion window, in bytes.
    pub cwnd: usize,
    /// Smoothed round-trip time; `None` before the first measurement.
    pub srtt: Option<Duration>,
    /// Retransmission timeout.
    pub rto: Duration,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
}

/// SCTP_GET_ASSOC_STATS of Linux: totals since the association began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssociationTotals {
    /// The association.
    pub id: AssocId,
    /// The peer's address with the longest retransmission timeout.
    pub slowest: SocketAddr,
    /// That timeout.
    pub max_rto: Duration,
    /// SACKs received.
    pub sacks_received: u64,
    /// SACKs sent.
    pub sacks_sent: u64,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets received.
    pub packets_received: u64,
    /// DATA chunks sent again.
    pub retransmitted_chunks: u64,
    /// DATA chunks received beyond a gap.
    pub out_of_sequence_chunks: u64,
    /// DATA chunks received twice.
    pub duplicate_chunks: u64,
    /// Gap Ack Blocks received.
    pub gap_blocks_received: u64,
    /// DATA chunks sent.
    pub data_chunks_sent: u64,
    /// DATA chunks received.
    pub data_chunks_received: u64,
    /// Control chunks sent.
    pub control_chunks_sent: u64,
    /// Control chunks received.
    pub control_chunks_received: u64,
}
