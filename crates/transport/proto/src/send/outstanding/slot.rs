//! The record of one outstanding chunk.

use anabranch_wire::{Data, DataFlags};
use bytes::Bytes;

use crate::per_path::PathId;

/// State of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotState {
    /// In flight, as far as is known.
    InFlight,
    /// Considered lost; waits for its retransmission.
    Lost,
    /// Acknowledged by a gap ack block; the peer may take it back.
    Acked,
    /// Acknowledged by a non-renegable gap ack block; its payload is freed.
    NrAcked,
}

impl SlotState {
    /// Whether the peer has the chunk, as far as is known.
    pub(crate) fn is_acked(self) -> bool {
        matches!(self, Self::Acked | Self::NrAcked)
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
    /// Neighbours in the order of sending, by the lower half of the TSN; its own TSN means none.
    pub(super) prev: u32,
    pub(super) next: u32,
    pub(crate) flags: DataFlags,
    pub(crate) state: SlotState,
    /// Path that carried it last; if lost, the path that it waits for.
    pub(crate) path: PathId,
    pub(crate) missing_reports: u8,
    pub(super) past: Past,
}

/// Flags of a chunk besides its state, one bit each, so that a slot fits into a cache line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Past(pub(super) u8);

impl Past {
    /// It was lost by missing reports once.
    pub(super) const FAST_RETRANSMITTED: u8 = 1;
    /// It was sent on more than one path, so an acknowledgement does not show which of them works.
    pub(super) const AMBIGUOUS: u8 = 1 << 1;
    /// Its packet was larger than the base MTU, so that its loss may have to do with size.
    pub(super) const LARGE: u8 = 1 << 2;
    /// It is in the list of chunks that ignore missing reports.
    pub(super) const HELD: u8 = 1 << 3;
    /// Its packet, and the packet's number, belong to another path than the chunk.
    pub(super) const ELSEWHERE: u8 = 1 << 4;

    pub(super) fn has(self, what: u8) -> bool {
        self.0 & what != 0
    }

    pub(super) fn set(&mut self, what: u8, on: bool) {
        self.0 = if on { self.0 | what } else { self.0 & !what };
    }
}

impl Slot {
    /// It was lost by missing reports once.
    pub(crate) fn fast_retransmitted(&self) -> bool {
        self.past.has(Past::FAST_RETRANSMITTED)
    }

    /// It was sent on more than one path, so an acknowledgement does not show which of them works.
    pub(crate) fn ambiguous(&self) -> bool {
        self.past.has(Past::AMBIGUOUS)
    }

    /// Its packet was larger than the base MTU, so that its loss may have to do with size.
    pub(crate) fn large(&self) -> bool {
        self.past.has(Past::LARGE)
    }

    /// Bytes on the wire: header, payload and padding.
    // req: rfc9260 7.2 "including the padding, SHOULD be used"
    pub(crate) fn size(&self) -> usize {
        size_with(self.payload.len())
    }
}

/// Bytes on the wire of a chunk with this much payload.
pub(in crate::send) fn size_with(payload: usize) -> usize {
    Data::HEADER_LEN + payload.next_multiple_of(4)
}

const _: () = assert!(size_of::<Slot>() <= 64);
