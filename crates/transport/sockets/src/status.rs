//! The state of associations and paths (RFC 6458 section 8.2).

use std::net::SocketAddr;
use std::time::Duration;

use anabranch_proto::{AssociationState, PathState, PathStatistics, Statistics};

use crate::assoc_id::AssocId;
use crate::option::MaxSegment;

/// SCTP_STATUS (RFC 6458 section 8.2.1).
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// The association.
    pub id: AssocId,
    /// The association's state.
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

impl Status {
    /// The status of an established association, with the inbound and outbound streams. The fragmentation point
    /// is for raw packets.
    #[must_use]
    pub fn of(id: AssocId, known: &Statistics, streams: (u16, u16), primary: PathInfo) -> Self {
        Self {
            id,
            state: known.state,
            peer_rwnd: known.peer_rwnd,
            outstanding_chunks: known.outstanding_chunks,
            inbound_streams: streams.0,
            outbound_streams: streams.1,
            fragmentation_point: known
                .path(known.primary)
                .map_or(0, |path| fragmentation_point(path, true)),
            primary,
        }
    }

    /// The status of an association in setup: little is known yet.
    #[must_use]
    pub fn being_set_up(id: AssocId, address: SocketAddr) -> Self {
        let (srtt, rto) = (None, Duration::ZERO);
        Self {
            id,
            state: AssociationState::CookieWait,
            peer_rwnd: 0,
            outstanding_chunks: 0,
            inbound_streams: 0,
            outbound_streams: 0,
            fragmentation_point: 0,
            primary: PathInfo { id, address, state: PathState::Active, cwnd: 0, srtt, rto, mtu: 0 },
        }
    }
}

/// Bytes of user data in the largest DATA chunk that fits into one packet on a path. Unless `raw`, the packet has a
/// UDP header.
pub(crate) fn fragmentation_point(path: &PathStatistics, raw: bool) -> u32 {
    let ip = if path.remote.is_ipv4() { 20 } else { 40 };
    let udp = if raw { 0 } else { 8 };
    // Chunks are padded to multiples of 4.
    u32::from(path.mtu).saturating_sub(ip + udp + MaxSegment::DATA_OVERHEAD) & !3
}

/// SCTP_ASSOCINFO (RFC 6458 section 8.1.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssocInfo {
    /// Retransmissions in a row after which the association fails.
    pub max_retrans: u32,
    /// Number of paths to the peer; 0 before the association is established.
    pub peer_addresses: usize,
    /// The peer's receive window in bytes; 0 before the association is established.
    pub peer_rwnd: u32,
    /// The receive buffer of this side, in bytes.
    pub local_rwnd: usize,
    /// Cookie lifetime.
    pub cookie_life: Duration,
}

/// SCTP_GET_PEER_ADDR_INFO (RFC 6458 section 8.2.2).
#[derive(Clone, Debug, PartialEq)]
pub struct PathInfo {
    /// The association.
    pub id: AssocId,
    /// The peer's address, with its port.
    pub address: SocketAddr,
    /// The path's state. Potentially failed paths are shown as active unless
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

impl PathInfo {
    /// The information about a path to this address.
    #[must_use]
    pub fn of(id: AssocId, address: SocketAddr, path: &PathStatistics) -> Self {
        let (state, cwnd, srtt, rto, mtu) = (path.state, path.cwnd, path.srtt, path.rto, path.mtu);
        Self { id, address, state, cwnd, srtt, rto, mtu }
    }

    /// Shows a potentially failed path as active unless `expose_pf` is set (RFC 7829 section 7.3).
    #[must_use]
    pub fn shown(self, expose_pf: bool) -> Self {
        match self.state {
            PathState::PotentiallyFailed if !expose_pf => Self { state: PathState::Active, ..self },
            _ => self,
        }
    }
}

/// SCTP_PR_ASSOC_STATUS and SCTP_PR_STREAM_STATUS (RFC 7496 sections 4.3 and 4.4): messages that were given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenUp {
    /// Before any part of them was sent.
    pub unsent: u64,
    /// After a part of them was sent.
    pub sent: u64,
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
