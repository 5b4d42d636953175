//! Gives up messages that were sent (RFC 3758 section 3.5).

use anabranch_wire::DataFlags;
use bytes::Bytes;

use super::{OutMessage, Outstanding, Past, Slot, SlotState};
use crate::per_path::PathId;

impl Outstanding {
    /// The message with this number, if a chunk of it is outstanding.
    pub(crate) fn message_of(&self, number: u32) -> Option<&OutMessage> {
        self.messages.get(number)
    }

    /// Records that a message was given up. If its rest was not sent, adds a chunk without payload that is never sent.
    /// Its TSN ends the message, so that the chunk before it and the first one of the next message are not neighbours,
    /// and the peer can be told to skip a message whose sent chunks have all arrived. `interleaved`: it is an I-DATA
    /// chunk. Returns whether it was added.
    // req: rfc3758 3.5 "all other TSN's within that fragmented message MUST be abandoned"
    pub(crate) fn give_up_message(&mut self, number: u32, path: PathId, interleaved: bool) -> bool {
        let Some(message) = self.messages.get(number).copied() else { return false };
        let tsn = self.next_tsn();
        if !self.messages.give_up(number, tsn) {
            return false;
        }
        let tsn = tsn as u32;
        let unordered = if message.unordered { DataFlags::UNORDERED } else { 0 };
        self.slots.push_back(Slot {
            payload: Bytes::new(),
            packet: 0,
            message: number,
            prev: tsn,
            next: tsn,
            flags: DataFlags(DataFlags::END | unordered),
            state: SlotState::GivenUp,
            path,
            missing_reports: 0,
            past: Past::new(false, interleaved),
            fsn: 0,
        });
        true
    }

    /// The TSNs of a message's outstanding chunks.
    pub(crate) fn chunks_of(&self, number: u32) -> Vec<u64> {
        let Some(message) = self.messages.get(number) else { return Vec::new() };
        let tsns = message.first.max(self.base)..=message.last();
        let is_of = |tsn: &u64| self.get(*tsn).is_some_and(|slot| slot.message == number);
        tsns.filter(is_of).collect()
    }

    /// Whether a message was given up and none of its chunks is in flight.
    pub(crate) fn is_given_up(&self, number: u32) -> bool {
        let is_out = |tsn: u64| self.get(tsn).is_some_and(|slot| !slot.state.is_acked());
        let message = self.messages.get(number);
        message.is_some_and(|message| message.given_up)
            && !self.chunks_of(number).into_iter().any(is_out)
    }

    /// Gives up a chunk that is lost or acknowledged; a placeholder stays. Returns the number of payload bytes freed. A
    /// chunk in flight is given up once it is lost.
    // req: rfc3758 3.5 "the sender MUST treat the data chunk as being finally acked"
    pub(crate) fn give_up_chunk(&mut self, tsn: u64) -> usize {
        let slot = self.slot(tsn);
        if slot.state == SlotState::InFlight || slot.state.is_final() {
            return 0;
        }
        let was_acked = slot.state == SlotState::Acked;
        self.leave(tsn);
        self.retransmissions.remove(&tsn);
        let slot = self.slot(tsn);
        slot.state = SlotState::GivenUp;
        let (length, path) = (std::mem::take(&mut slot.payload).len(), slot.path);
        self.flights[path].held -= length;
        self.held -= length;
        if was_acked {
            self.held_acked -= length;
        }
        length
    }
}
