//! Cuts messages into chunks.

use anabranch_wire::DataFlags;

use super::streams::OutStreams;
use super::{
    CHUNK_OVERHEAD, Fragment, MESSAGE_OVERHEAD, MIN_FILL, Pieces, Queued, SchedulerKind, SendQueue,
};

impl SendQueue {
    /// The length of the payload that the next chunk would have if it were cut now; does not cut it.
    ///
    /// `room`: payload bytes that fit into the packet; `largest`: payload of a chunk that fills a packet
    /// on every path; `packet_empty`: the packet contains no user data yet.
    #[cfg(test)]
    pub(super) fn peek(&self, room: usize, largest: usize, packet_empty: bool) -> Option<usize> {
        self.length(self.next()?, room, largest, packet_empty)
    }

    /// The same for a message that may be the next one.
    #[inline]
    pub(crate) fn length(
        &self,
        message: &Queued,
        room: usize,
        largest: usize,
        packet_empty: bool,
    ) -> Option<usize> {
        if !packet_empty && self.ends_packet(message) {
            return None;
        }
        let length = message.rest.len();
        let room = room.min(largest);
        if length <= room {
            return Some(length);
        }
        // The chunk fills the rest of the packet if the message must be cut anyway, or if packets
        // should be filled.
        // req: rfc9260 6.9 "SHOULD choose a DATA chunk size smaller than"
        // req: rfc9260 6.9 "it MUST fragment a user message if the"
        // A message that was cut must be finished before one of another class, whose path may have room sooner.
        let fills = self.fill_packets && (self.interleaves || self.classes().is_none());
        let cut = packet_empty || fills || (length > largest && room == largest);
        (cut && room >= MIN_FILL.min(largest)).then_some(room)
    }

    /// Whether a message must go into another packet than the messages before it.
    // RFC 8260 section 3.3.
    #[inline]
    fn ends_packet(&self, message: &Queued) -> bool {
        self.kind == SchedulerKind::RoundRobinPacket && self.packet_of != Some(message.stream)
    }

    /// Ends a packet with new data.
    #[inline]
    pub(crate) fn end_packet(&mut self) {
        if let Some(stream) = self.packet_of.take() {
            self.scheduler.end_packet(stream);
        }
    }

    /// Whether more than `length` bytes of the next message are left.
    pub(crate) fn is_cut_by(&self, length: usize) -> bool {
        self.scheduler.peek().is_some_and(|message| message.rest.len() > length)
    }

    /// Whether a divisible message that is cut now ends at the cut.
    fn divides(&self) -> bool {
        match self.pieces {
            Pieces::Auto => self.scheduler.has_others(),
            Pieces::Packet => true,
            Pieces::Long => false,
        }
    }

    /// Cuts the next chunk with exactly the length that [`length`](Self::length) returned. `number` is the number of its
    /// message if that is a new one. A stream that has sent less than `turn` bytes of a message goes on.
    pub(crate) fn cut(&mut self, length: usize, turn: usize, number: u32) -> Option<Fragment> {
        let divides = self.next()?.divisible && self.divides();
        let message = self.scheduler.peek_mut()?;
        let begin = !message.begun;
        if begin {
            message.begin(number, self.interleaves, &mut self.streams);
        }
        let last = length >= message.rest.len();
        let end = last || divides;
        let (before, urgent) = (message.rest.len(), message.is_urgent());
        let (stream, divisible) = (message.stream, message.divisible);
        let flags = message.flags(begin, end, last);
        let fragment = Fragment {
            message: message.number,
            stream,
            // req: rfc9260 3.3.1 "the same Stream Sequence Number MUST be carried"
            sequence: message.sequence,
            fsn: message.fsn,
            interleaved: self.interleaves,
            ppid: message.ppid,
            flags,
            context: message.context,
            fate: message.fate,
            payload: if last {
                std::mem::take(&mut message.rest)
            } else {
                message.rest.split_to(length)
            },
        };
        message.fsn = message.fsn.wrapping_add(1);
        message.begun = last || !end;
        // req: rfc8260 2.2.2 "The sender MUST NOT process"
        // req: rfc8260 2.2.2 "At any time, a sender MAY process multiple"
        // A message that is sent as a whole now holds its turn until it is popped below.
        message.holds_turn = last || !end && !self.interleaves;
        self.unsent -= fragment.payload.len();
        if let Some(bundle) = &mut self.bundle {
            match last {
                true => bundle.on_gone(before, urgent),
                false => bundle.on_cut(before, before - fragment.payload.len()),
            }
        }
        if divisible {
            self.scheduler.on_cut(stream, fragment.payload.len());
            self.room_made = true;
        }
        self.packet_of = Some(stream);
        self.scheduler.on_sent(fragment.payload.len());
        if last {
            self.scheduler.finish();
            if let Some(paused) = &mut self.paused {
                paused.on_gone(stream);
            }
            self.buffered -= MESSAGE_OVERHEAD;
            // A queued message counts towards its stream's limit.
            self.room_made = true;
        } else if end || self.interleaves {
            self.scheduler.end_turn(length, turn);
        }
        self.buffered += CHUNK_OVERHEAD;
        Some(fragment)
    }
}

impl Queued {
    /// Begins to send it, with this number in the table of messages.
    fn begin(&mut self, number: u32, interleaves: bool, streams: &mut OutStreams) {
        self.begun = true;
        (self.number, self.fsn) = (number, 0);
        if interleaves {
            self.sequence = streams.take_mid(self.stream, self.unordered);
        } else if !self.unordered {
            // req: rfc9260 6.5 "the Stream Sequence Number MUST NOT be changed"
            self.sequence = streams.take_ssn(self.stream);
        }
    }

    /// The flags of its next chunk, which is its first one, or ends a message, or has its last byte.
    fn flags(&self, begin: bool, end: bool, last: bool) -> DataFlags {
        // req: rfc9260 3.3.1 "MUST have both the B and E bits"
        // req: rfc9260 6.9 "MUST also set the B/E bits of the"
        // req: rfc9260 6.9 "MUST break the user message into a series"
        // req: rfc9260 6 "MUST fragment large user messages into multiple DATA"
        // req: rfc8260 2.1 "The last fragment of a message MUST have"
        // req: rfc8260 2.2.2 "The first fragment MUST have the B bit"
        // req: rfc8260 2.2.2 "The last fragment MUST have the E bit"
        // req: rfc8260 2.2.2 "All other fragments MUST NOT have the B or"
        let mut flags = 0;
        if begin {
            flags |= DataFlags::BEGIN;
        }
        if end {
            flags |= DataFlags::END;
        }
        // req: rfc9260 3.3.1 "MUST have its U bit set to 1"
        // req: rfc9260 6.9 "message MUST be set to 1"
        if self.unordered {
            flags |= DataFlags::UNORDERED;
        }
        if last && self.sack_immediately {
            flags |= DataFlags::IMMEDIATE;
        }
        DataFlags(flags)
    }
}
