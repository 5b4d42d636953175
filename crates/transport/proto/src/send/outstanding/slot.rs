//! The record of one outstanding chunk.

use anabranch_wire::{Data, DataFlags, IData};
use bytes::Bytes;

use crate::per_path::PathId;

/// State of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotState {
    /// In flight, as far as known.
    InFlight,
    /// Considered lost; waits for its retransmission.
    Lost,
    /// Acknowledged by a gap ack block; the peer may renege on it.
    Acked,
    /// Acknowledged by a non-renegable gap ack block; its payload is freed.
    NrAcked,
    /// Given up with its message; its payload is freed. It counts as acknowledged for good (RFC 3758 section
    /// 3.5, A2).
    GivenUp,
}

impl SlotState {
    /// Whether the peer has the chunk, as far as known, or need not get it any more.
    pub(crate) fn is_acked(self) -> bool {
        matches!(self, Self::Acked | Self::NrAcked | Self::GivenUp)
    }

    /// Whether it will never be sent again, so that its payload is freed.
    pub(crate) fn is_final(self) -> bool {
        matches!(self, Self::NrAcked | Self::GivenUp)
    }
}

/// A chunk that was sent and is not cumulatively acknowledged.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) payload: Bytes,
    /// Number of the packet that carried it last.
    pub(crate) packet: u64,
    /// Number of the message that it is part of.
    pub(crate) message: u32,
    /// Neighbours in the order of sending, as the lower half of their TSNs; its own TSN if there is
    /// none.
    pub(super) prev: u32,
    pub(super) next: u32,
    pub(crate) flags: DataFlags,
    pub(crate) state: SlotState,
    /// The path that carried it last, or, if it is lost, the path that it waits for.
    pub(crate) path: PathId,
    pub(crate) missing_reports: u8,
    pub(super) past: Past,
    /// Its position in its message, counted from 0; wraps. Only for I-DATA.
    pub(crate) fsn: u32,
}

/// Flags of a chunk besides its state, one bit each, so that a slot fits into a cache line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Past(pub(super) u8);

impl Past {
    /// It was once lost by missing reports.
    pub(super) const FAST_RETRANSMITTED: u8 = 1;
    /// It was sent on more than one path, so an acknowledgement does not show which of them works.
    pub(super) const AMBIGUOUS: u8 = 1 << 1;
    /// Its packet was larger than the base MTU, so its size may be the reason for a loss.
    pub(super) const LARGE: u8 = 1 << 2;
    /// It is in the list of chunks for which missing reports do not count.
    pub(super) const HELD: u8 = 1 << 3;
    /// It was carried by another path than the one that it belongs to, and its packet number is of
    /// that other path.
    pub(super) const ELSEWHERE: u8 = 1 << 4;
    /// It is an I-DATA chunk.
    pub(super) const INTERLEAVED: u8 = 1 << 5;

    /// Its first transmission was copied to another path.
    pub(super) const COPIED: u8 = 1 << 6;

    /// Of a chunk that was just sent.
    #[inline]
    pub(super) fn new(large: bool, interleaved: bool) -> Self {
        let interleaved = if interleaved { Self::INTERLEAVED } else { 0 };
        Self(if large { Self::LARGE } else { 0 } | interleaved)
    }

    pub(super) fn has(self, what: u8) -> bool {
        self.0 & what != 0
    }

    pub(super) fn set(&mut self, what: u8, on: bool) {
        self.0 = if on { self.0 | what } else { self.0 & !what };
    }
}

impl Slot {
    /// Whether it was once lost by missing reports.
    pub(crate) fn fast_retransmitted(&self) -> bool {
        self.past.has(Past::FAST_RETRANSMITTED)
    }

    /// Whether it was sent on more than one path, so an acknowledgement does not show which of them
    /// works.
    pub(crate) fn ambiguous(&self) -> bool {
        self.past.has(Past::AMBIGUOUS)
    }

    /// Whether it was sent on two paths at once and not retransmitted since, so that nobody knows which path
    /// delivered it.
    pub(crate) fn copied(&self) -> bool {
        self.past.has(Past::COPIED)
    }

    /// Whether its packet was larger than the base MTU, so its size may be the reason for a loss.
    pub(crate) fn large(&self) -> bool {
        self.past.has(Past::LARGE)
    }

    /// Bytes on the wire: header, payload and padding.
    // req: rfc9260 7.2 "including the padding, SHOULD be used"
    pub(crate) fn size(&self) -> usize {
        size_with(self.payload.len(), self.past.has(Past::INTERLEAVED))
    }
}

/// Bytes on the wire of a DATA or I-DATA chunk with this much payload.
pub(super) fn size_with(payload: usize, interleaved: bool) -> usize {
    header_len(interleaved) + payload.next_multiple_of(4)
}

/// Bytes of the header of a DATA or I-DATA chunk.
#[inline]
pub(in crate::send) fn header_len(interleaved: bool) -> usize {
    if interleaved { IData::HEADER_LEN } else { Data::HEADER_LEN }
}

const _: () = assert!(size_of::<Slot>() <= 64);
