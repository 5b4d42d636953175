//! Converts between the library's values and C's structures.

use anabranch::{AssociationState, PathState, Ppid};
use anabranch_sockets::{
    AssocId, AssociationTotals, NextInfo, PathInfo, ReceiveInfo, SendFlags, SendInfo, Status,
};

use crate::abi::{
    AlignedStorage, AssocStats, Extrcvinfo, Nxtinfo, Paddrinfo, Rcvinfo, Sndinfo, Sndrcvinfo,
    Status as StatusC, flag,
};
use crate::address;

/// `enum sctp_spinfo_state`.
const INACTIVE: i32 = 0;
const POTENTIALLY_FAILED: i32 = 1;
const ACTIVE: i32 = 2;
const UNCONFIRMED: i32 = 3;

/// C programs store a payload protocol identifier in network byte order.
pub(crate) fn ppid(in_memory: u32) -> Ppid {
    Ppid(u32::from_be(in_memory))
}

impl From<Sndinfo> for SendInfo {
    fn from(info: Sndinfo) -> Self {
        Self {
            stream: info.sid,
            flags: SendFlags::from_bits_retain(info.flags),
            ppid: ppid(info.ppid),
            context: info.context,
            id: AssocId(info.assoc_id),
        }
    }
}

impl From<SendInfo> for Sndinfo {
    fn from(info: SendInfo) -> Self {
        Self {
            sid: info.stream,
            flags: info.flags.bits(),
            ppid: info.ppid.0.to_be(),
            context: info.context,
            assoc_id: info.id.0,
        }
    }
}

impl From<&Sndrcvinfo> for SendInfo {
    fn from(info: &Sndrcvinfo) -> Self {
        let Sndrcvinfo { stream: sid, flags, ppid, context, assoc_id, .. } = *info;
        Sndinfo { sid, flags, ppid, context, assoc_id }.into()
    }
}

fn flags(unordered: bool) -> u16 {
    if unordered { SendFlags::UNORDERED.bits() } else { 0 }
}

impl From<ReceiveInfo> for Rcvinfo {
    fn from(info: ReceiveInfo) -> Self {
        Self {
            sid: info.stream,
            ssn: info.ssn,
            flags: flags(info.unordered),
            pad: 0,
            ppid: info.ppid.0.to_be(),
            tsn: info.tsn,
            cumtsn: info.cumulative_tsn,
            context: info.context,
            assoc_id: info.id.0,
        }
    }
}

impl From<ReceiveInfo> for Sndrcvinfo {
    fn from(info: ReceiveInfo) -> Self {
        Self {
            stream: info.stream,
            ssn: info.ssn,
            flags: flags(info.unordered),
            ppid: info.ppid.0.to_be(),
            context: info.context,
            tsn: info.tsn,
            cumtsn: info.cumulative_tsn,
            assoc_id: info.id.0,
            ..Self::default()
        }
    }
}

impl From<NextInfo> for Nxtinfo {
    fn from(info: NextInfo) -> Self {
        Self {
            sid: info.stream,
            flags: flags(info.unordered) | if info.complete { flag::COMPLETE } else { 0 },
            ppid: info.ppid.0.to_be(),
            length: u32::try_from(info.length).unwrap_or(u32::MAX),
            assoc_id: info.id.0,
        }
    }
}

/// SCTP_EXTRCV: a message, and the next one if there is one (RFC 6458 section 5.3.3).
pub(crate) fn extended(info: ReceiveInfo, next: Option<NextInfo>) -> Extrcvinfo {
    let mut extended = Extrcvinfo {
        stream: info.stream,
        ssn: info.ssn,
        flags: flags(info.unordered),
        ppid: info.ppid.0.to_be(),
        context: info.context,
        tsn: info.tsn,
        cumtsn: info.cumulative_tsn,
        assoc_id: info.id.0,
        ..Extrcvinfo::default()
    };
    if let Some(next) = next {
        extended.next_flags = flag::NEXT_MSG_AVAIL
            | if next.complete { flag::NEXT_MSG_ISCOMPLETE } else { 0 }
            | if next.unordered { flag::NEXT_MSG_IS_UNORDERED } else { 0 };
        let next = Nxtinfo::from(next);
        extended.next_stream = next.sid;
        extended.next_aid = next.assoc_id;
        extended.next_length = next.length;
        extended.next_ppid = next.ppid;
    }
    extended
}

impl From<Status> for StatusC {
    fn from(status: Status) -> Self {
        Self {
            assoc_id: status.id.0,
            state: association_state(status.state),
            rwnd: status.peer_rwnd,
            unackdata: u16::try_from(status.outstanding_chunks).unwrap_or(u16::MAX),
            penddata: 0,
            instrms: status.inbound_streams,
            outstrms: status.outbound_streams,
            fragmentation_point: status.fragmentation_point,
            primary: status.primary.into(),
        }
    }
}

impl From<PathInfo> for Paddrinfo {
    fn from(path: PathInfo) -> Self {
        let milliseconds =
            |time: std::time::Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        Self {
            assoc_id: path.id.0,
            address: address::to_storage(path.address),
            state: match path.state {
                PathState::PotentiallyFailed => POTENTIALLY_FAILED,
                PathState::Active => ACTIVE,
                PathState::Inactive => INACTIVE,
                _ => UNCONFIRMED,
            },
            cwnd: u32::try_from(path.cwnd).unwrap_or(u32::MAX),
            srtt: path.srtt.map_or(0, milliseconds),
            rto: milliseconds(path.rto),
            mtu: u32::from(path.mtu),
        }
    }
}

impl From<AssociationTotals> for AssocStats {
    fn from(totals: AssociationTotals) -> Self {
        Self {
            assoc_id: totals.id.0,
            address: AlignedStorage(address::to_storage(totals.slowest)),
            maxrto: totals.max_rto.as_millis() as u64,
            isacks: totals.sacks_received,
            osacks: totals.sacks_sent,
            opackets: totals.packets_sent,
            ipackets: totals.packets_received,
            rtxchunks: totals.retransmitted_chunks,
            outofseqtsns: totals.out_of_sequence_chunks,
            idupchunks: totals.duplicate_chunks,
            gapcnt: totals.gap_blocks_received,
            oodchunks: totals.data_chunks_sent,
            iodchunks: totals.data_chunks_received,
            octrlchunks: totals.control_chunks_sent,
            ictrlchunks: totals.control_chunks_received,
            ..Self::default()
        }
    }
}

/// `enum sctp_sstat_state`.
fn association_state(state: AssociationState) -> i32 {
    match state {
        AssociationState::CookieWait => 2,
        AssociationState::CookieEchoed => 3,
        AssociationState::Established => 4,
        AssociationState::ShutdownPending => 5,
        AssociationState::ShutdownSent => 6,
        AssociationState::ShutdownReceived => 7,
        AssociationState::ShutdownAckSent => 8,
        _ => 1,
    }
}
