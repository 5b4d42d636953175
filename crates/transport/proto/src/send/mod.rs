//! Turns messages into chunks: the send buffer, the stream scheduler, fragmentation, and the ring of
//! outstanding chunks.

mod blocking;
mod bundling;
mod cause;
mod config;
mod cut;
#[cfg(any(test, feature = "invariants"))]
mod invariants;
mod messages;
mod occupancy;
mod outstanding;
mod packets;
mod paused;
mod priority;
#[cfg(any(test, fuzzing))]
pub(crate) mod ring_model;
mod scheduler;
mod streams;

use std::time::Duration;

use anabranch_wire::{DataFlags, Ppid};
use bytes::Bytes;

pub(crate) use blocking::{Blocking, Held};
pub(crate) use bundling::Bundle;
pub use bundling::Bundling;
pub use cause::Cause;
pub use config::SendConfig;
pub(crate) use occupancy::Occupancy;
pub(crate) use outstanding::{Outstanding, PlainRun, PseudoCumack, Slot, SlotState};
pub(crate) use packets::SentPacket;
pub(crate) use scheduler::{Class, Classes, Queued, Scheduler};
pub use scheduler::{Pieces, SchedulerKind, StreamPriority};

pub(crate) use self::messages::OutMessage;
use self::paused::Paused;

use self::streams::OutStreams;
use crate::error::SendErrorReason;
use crate::message::OutgoingMessage;
use crate::reliability::{Fate, Reliability};
use crate::time::Instant;

/// A fragment shorter than this is not cut just to fill a packet: it would cost both ends more than the
/// bytes saved. The limit is low, because a packet that is not full ends the batch of one system call.
const MIN_FILL: usize = 64;

/// The default limit for queued bytes of a byte stream: enough that the stream always has something to
/// send, but not more, because a writer that is ahead fills the buffer that other streams need.
const BYTE_STREAM_BUFFER: usize = 128 << 10;

/// Bytes that a byte stream hands over at a time on slow links.
const SHORT_BYTES: usize = 16 << 10;

/// Bytes that a byte stream hands over at a time on fast links.
const LONG_BYTES: usize = 64 << 10;

/// The part of a message that goes into one DATA or I-DATA chunk.
#[derive(Debug)]
pub(crate) struct Fragment {
    /// The number of its message among those with outstanding chunks.
    pub(crate) message: u32,
    pub(crate) stream: u16,
    /// The message's SSN, or its message identifier.
    pub(crate) sequence: u32,
    /// Its position in its message, from 0.
    pub(crate) fsn: u32,
    /// It goes into an I-DATA chunk.
    pub(crate) interleaved: bool,
    pub(crate) ppid: Ppid,
    pub(crate) flags: DataFlags,
    pub(crate) context: u64,
    pub(crate) fate: Fate,
    pub(crate) payload: Bytes,
}

#[cfg(any(test, fuzzing))]
impl Fragment {
    /// A whole message of `length` bytes on stream 0.
    pub(crate) fn whole(message: u32, length: usize) -> Self {
        Self {
            message,
            stream: 0,
            sequence: 0,
            fsn: 0,
            interleaved: false,
            ppid: Ppid(0),
            flags: DataFlags(DataFlags::BEGIN | DataFlags::END),
            context: 0,
            fate: Fate::Sure,
            payload: Bytes::from(vec![7; length]),
        }
    }
}

/// Messages that wait for their first transmission.
#[derive(Debug)]
pub(crate) struct SendQueue {
    scheduler: Scheduler,
    streams: OutStreams,
    /// Memory charged for queued and outstanding data, in bytes.
    buffered: usize,
    /// User bytes not yet sent.
    unsent: usize,
    limit: usize,
    stream_limit: usize,
    max_message: usize,
    fill_packets: bool,
    pieces: Pieces,
    kind: SchedulerKind,
    /// Messages of different streams may alternate (RFC 8260).
    interleaves: bool,
    /// The stream whose messages fill the current packet.
    packet_of: Option<u16>,
    outbound_streams: u16,
    /// A send was refused, and the user waits for room.
    pub(crate) blocked: bool,
    /// Room was made since then.
    room_made: bool,
    /// When waiting messages are next searched for expired ones; not before the first of them expires.
    next_expiry: Option<Instant>,
    /// State of waiting messages for bundling.
    bundle: Option<Box<Bundle>>,
    /// When messages that do not say so themselves are given up; `None` if never.
    usual: Option<Box<Reliability>>,
    /// Streams that are being reset; `None` if there are none.
    paused: Option<Box<Paused>>,
}

/// The minimum time between two searches of the queue for expired messages, so that many lifetimes that
/// expire one after another do not cost a search each.
const EXPIRY_INTERVAL: Duration = Duration::from_millis(10);

/// Memory of a message beyond its bytes while it is queued.
const MESSAGE_OVERHEAD: usize = std::mem::size_of::<Queued>();
/// Memory of a chunk beyond its bytes while it is outstanding.
const CHUNK_OVERHEAD: usize = std::mem::size_of::<Slot>();

/// The option `reliability`, in little memory if it is the usual one.
fn usual(config: &SendConfig) -> Option<Box<Reliability>> {
    (config.reliability != Reliability::Full).then(|| Box::new(config.reliability))
}

impl SendQueue {
    pub(crate) fn new(config: &SendConfig) -> Self {
        Self {
            scheduler: Scheduler::new(config.scheduler),
            streams: OutStreams::default(),
            buffered: 0,
            unsent: 0,
            limit: config.first_send_buffer(),
            stream_limit: config.stream_send_buffer,
            max_message: config.max_message_size,
            fill_packets: config.fill_packets,
            pieces: config.pieces,
            kind: config.scheduler,
            interleaves: false,
            packet_of: None,
            outbound_streams: config.outbound_streams,
            blocked: false,
            room_made: false,
            next_expiry: None,
            bundle: (config.bundling != Bundling::None).then(Box::default),
            usual: usual(config),
            paused: None,
        }
    }

    /// Divides the streams into two classes: those before `from`, and the others. Nothing is queued.
    pub(crate) fn classify(&mut self, from: u16) {
        self.scheduler.classify(self.kind, from);
    }

    /// The classes of streams, if there are any.
    #[inline]
    pub(crate) fn classes(&self) -> Option<&Classes> {
        self.scheduler.classes()
    }

    /// Makes the next message of a class the next one.
    pub(crate) fn select(&mut self, class: Class) {
        if let Some(classes) = self.scheduler.classes_mut() {
            classes.select(class);
        }
    }

    /// The next message.
    #[inline]
    pub(crate) fn next(&self) -> Option<&Queued> {
        self.scheduler.peek()
    }

    /// Applies changed options.
    pub(crate) fn reconfigure(&mut self, config: &SendConfig) {
        self.usual = usual(config);
        if self.kind != config.scheduler {
            self.kind = config.scheduler;
            let streams = &self.streams;
            self.scheduler.change(config.scheduler, |stream| streams.priority(stream));
        }
        if config.bundling != Bundling::None && self.bundle.is_none() {
            let mut bundle = Box::<Bundle>::default();
            self.scheduler.for_each(&mut |message| {
                bundle.on_waits(message.rest.len(), message.is_urgent());
            });
            self.bundle = Some(bundle);
        }
    }

    /// The state of waiting messages and of small packets; `None` if no option needs it.
    pub(crate) fn bundle(&self) -> Option<&Bundle> {
        self.bundle.as_deref()
    }

    /// The same, mutable.
    pub(crate) fn bundle_mut(&mut self) -> Option<&mut Bundle> {
        self.bundle.as_deref_mut()
    }

    pub(crate) fn outbound_streams(&self) -> u16 {
        self.outbound_streams
    }

    /// Sets whether messages of different streams may alternate; no message was sent in part.
    pub(crate) fn set_interleaving(&mut self, interleaves: bool) {
        self.interleaves = interleaves;
    }

    /// Whether chunks are I-DATA.
    #[inline]
    pub(crate) fn interleaves(&self) -> bool {
        self.interleaves
    }

    /// Bytes of a chunk's header.
    #[inline]
    pub(crate) fn header_len(&self) -> usize {
        outstanding::header_len(self.interleaves)
    }

    /// Sets the number of streams that the peer allows.
    pub(crate) fn set_outbound_streams(&mut self, streams: u16) {
        self.outbound_streams = streams;
    }

    /// Accepts a message, or returns the reason why not.
    // req: rfc9260 6.5 "Every DATA chunk MUST carry a valid stream"
    pub(crate) fn push(
        &mut self,
        now: Instant,
        message: OutgoingMessage,
    ) -> Result<(), (SendErrorReason, OutgoingMessage)> {
        let refuse = |reason, message| Err((reason, message));
        // req: rfc9260 3.3.1 "where L MUST be greater than 0"
        // req: rfc9260 6.2 "SHOULD NOT send a DATA chunk with no"
        if message.data.is_empty() {
            return refuse(SendErrorReason::Empty, message);
        }
        if message.data.len() > self.max_message {
            return refuse(SendErrorReason::TooLong, message);
        }
        if message.stream >= self.outbound_streams {
            return refuse(SendErrorReason::NoSuchStream(self.outbound_streams), message);
        }
        // The offsets of byte streams count every message.
        let partial = !matches!(message.reliability, Reliability::Usual | Reliability::Full);
        if message.divisible && partial {
            return refuse(SendErrorReason::ByteStream, message);
        }
        if self.is_full_for(&message) {
            self.block();
            return refuse(SendErrorReason::Blocked, message);
        }
        self.buffered += message.data.len() + MESSAGE_OVERHEAD;
        self.unsent += message.data.len();
        let fate = self.fate(now, &message);
        if let Some(at) = fate.expires() {
            self.next_expiry = Some(self.next_expiry.map_or(at, |next| next.min(at)));
        }
        let message = Queued {
            stream: message.stream,
            ppid: message.ppid,
            unordered: message.unordered,
            sack_immediately: message.sack_immediately,
            now: message.now,
            divisible: message.divisible,
            ahead: message.ahead && message.unordered,
            begun: false,
            holds_turn: false,
            sequence: 0,
            fsn: 0,
            number: 0,
            fate,
            context: message.context,
            rest: message.data,
        };
        if self.is_paused(message.stream) {
            self.hold(message);
        } else {
            self.enqueue(message);
        }
        Ok(())
    }

    /// Passes a message to the scheduler. Always inlined, because a call would copy the message once more.
    #[inline(always)]
    fn enqueue(&mut self, message: Queued) {
        if let Some(bundle) = &mut self.bundle {
            bundle.on_waits(message.rest.len(), message.is_urgent());
        }
        let (streams, stream) = (&self.streams, message.stream);
        self.scheduler.push(message, || streams.priority(stream));
    }

    /// When a message that is given now is given up.
    #[inline]
    fn fate(&self, now: Instant, message: &OutgoingMessage) -> Fate {
        // Nearly all messages are like that.
        let as_usual = matches!(message.reliability, Reliability::Usual);
        if message.divisible || as_usual && self.usual.is_none() {
            return Fate::Sure;
        }
        let usual = self.usual.as_deref().copied().unwrap_or(Reliability::Full);
        Fate::new(now, message.reliability, usual)
    }

    /// Whether a message has to wait for room. A message longer than the whole buffer is accepted if it is alone;
    /// otherwise it could never be sent.
    #[inline]
    fn is_full_for(&self, message: &OutgoingMessage) -> bool {
        self.buffered >= self.limit
            || self.class_is_full(message.stream)
            || self.stream_is_full(message)
    }

    /// Whether the waiting messages of a stream's class take half of the send buffer that sent data leaves, so that
    /// the rest is for the other class.
    #[inline]
    fn class_is_full(&self, stream: u16) -> bool {
        self.classes().is_some_and(|classes| {
            let (own, all) = classes.bytes(stream);
            own > 0 && own >= self.limit.saturating_sub(self.buffered.saturating_sub(all)) / 2
        })
    }

    /// Whether a message's stream has reached its limit of queued data.
    #[inline]
    fn stream_is_full(&self, message: &OutgoingMessage) -> bool {
        if message.divisible {
            return self.byte_stream_is_full(message.stream);
        }
        self.stream_limit != usize::MAX
            && self.scheduler.queued_bytes(message.stream) + self.held_bytes_of(message.stream)
                >= self.stream_limit
    }

    fn byte_stream_is_full(&self, stream: u16) -> bool {
        let limited = self.stream_limit != usize::MAX;
        let limit = if limited { self.stream_limit } else { BYTE_STREAM_BUFFER };
        self.scheduler.divisible_bytes(stream) + self.held_bytes_of(stream) >= limit
    }

    /// The best length for the next divisible message, about `wanted` bytes. If `None`, the user must
    /// wait for room.
    pub(crate) fn room_for_bytes(&mut self, stream: u16, wanted: usize) -> Option<usize> {
        let full = self.buffered >= self.limit || self.class_is_full(stream);
        if full || self.byte_stream_is_full(stream) {
            self.block();
            return None;
        }
        Some(wanted.clamp(SHORT_BYTES, LONG_BYTES).min(self.max_message))
    }

    /// User bytes not yet sent.
    pub(crate) fn unsent(&self) -> usize {
        self.unsent
    }

    /// Whether there is nothing that may be sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.unsent == 0 || self.unsent == self.held_bytes()
    }

    /// Send buffer left, in bytes.
    pub(crate) fn free(&self) -> usize {
        self.limit.saturating_sub(self.buffered)
    }

    /// The send buffer, in bytes.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Makes the send buffer larger.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
        self.room_made = true;
    }

    /// Bytes that queued and outstanding data takes.
    pub(crate) fn buffered(&self) -> usize {
        self.buffered
    }

    /// Records that a send is refused for lack of room.
    pub(crate) fn block(&mut self) {
        self.blocked = true;
        self.room_made = false;
    }

    /// Records that there may be room now, here or in the endpoint's memory.
    pub(crate) fn room_made(&mut self) {
        self.room_made = true;
    }

    /// Whether enough room is free again to wake a user whose send was refused: a quarter of the buffer,
    /// so the user is not woken for every acknowledgement.
    pub(crate) fn take_writable(&mut self) -> bool {
        // With classes, a user may wait for a part of the buffer.
        let has_room = self.buffered <= self.limit - self.limit / 4 || self.classes().is_some();
        let wake = self.blocked && self.room_made && has_room;
        if wake {
            self.blocked = false;
        }
        wake
    }

    /// Releases the memory of outstanding chunks with `length` bytes that were acknowledged or given up.
    pub(crate) fn release(&mut self, chunks: usize, length: usize) {
        self.buffered = self.buffered.saturating_sub(length + chunks * CHUNK_OVERHEAD);
        self.room_made = true;
    }

    /// Releases the payload of outstanding data, `length` bytes; its slot stays.
    pub(crate) fn release_payload(&mut self, length: usize) {
        self.buffered = self.buffered.saturating_sub(length);
        self.room_made = true;
    }

    /// Abandons the next message if its lifetime has ended before any part of it was sent.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<Queued> {
        let message = self.scheduler.peek()?;
        if message.begun || message.fate.expires().is_none_or(|expires| now < expires) {
            return None;
        }
        let message = self.scheduler.pop()?;
        self.forget(&message);
        Some(message)
    }

    /// When [`expire_all`](Self::expire_all) must be called next.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        self.next_expiry
    }

    /// Abandons all messages whose lifetime has ended before any part of them was sent.
    pub(crate) fn expire_all(&mut self, now: Instant) -> Vec<Queued> {
        let mut next = None;
        if self.interleaves {
            self.scheduler.for_each(&mut |message| {
                let expires = message.fate.expires().filter(|at| message.begun && *at > now);
                next = next.into_iter().chain(expires).min();
            });
        } else {
            let begun = self.scheduler.peek().filter(|message| message.begun);
            let begun = begun.and_then(|message| message.fate.expires());
            next = begun.filter(|expires| *expires > now);
        }
        let gone = self.take_out(|message| match message.fate.expires() {
            Some(expires) if expires <= now => true,
            Some(expires) => {
                next = Some(next.map_or(expires, |next| next.min(expires)));
                false
            }
            None => false,
        });
        self.next_expiry = next.map(|next| next.max(now + EXPIRY_INTERVAL));
        gone
    }

    /// The message of a stream that was sent in part.
    pub(crate) fn begun(&mut self, stream: u16) -> Option<&Queued> {
        self.scheduler.begun_mut(stream).map(|message| &*message)
    }

    /// The numbers of the messages that were sent in part and whose lifetime has ended.
    pub(crate) fn begun_expired(&mut self, now: Instant) -> Vec<u32> {
        let is_over = |message: &Queued| {
            message.begun && message.fate.expires().is_some_and(|expires| expires <= now)
        };
        let mut over = Vec::new();
        if self.interleaves {
            self.scheduler.for_each(&mut |message| {
                if is_over(message) {
                    over.push(message.number);
                }
            });
        } else if let Some(message) = self.scheduler.peek().filter(|message| is_over(message)) {
            over.push(message.number);
        }
        over
    }

    /// Removes the rest of that message of a stream, whose last chunk is a slot without payload.
    pub(crate) fn give_up_begun(&mut self, stream: u16) -> Option<Queued> {
        let message = self.scheduler.take_begun(stream)?;
        self.forget(&message);
        self.buffered += CHUNK_OVERHEAD;
        Some(message)
    }

    /// Removes and returns the messages for streams that do not exist.
    pub(crate) fn refuse_streams(&mut self) -> Vec<Queued> {
        let streams = self.outbound_streams;
        self.take_out(|message| message.stream >= streams)
    }

    /// Discards queued data of a stream's divisible messages, and returns the number of bytes. One byte
    /// of a message in progress stays, to end the message.
    pub(crate) fn discard(&mut self, stream: u16) -> usize {
        let gone = self.take_out(|message| message.divisible && message.stream == stream);
        let mut bytes: usize = gone.iter().map(|message| message.rest.len()).sum();
        let begun = self.scheduler.begun_mut(stream);
        if let Some(message) = begun.filter(|m| m.divisible && m.rest.len() > 1) {
            let before = message.rest.len();
            message.rest.truncate(1);
            self.scheduler.on_cut(stream, before - 1);
            if let Some(classes) = self.scheduler.classes_mut() {
                classes.on_discarded(stream, before - 1);
            }
            self.unsent -= before - 1;
            self.buffered = self.buffered.saturating_sub(before - 1);
            if let Some(bundle) = &mut self.bundle {
                bundle.on_cut(before, 1);
            }
            self.room_made = true;
            bytes += before - 1;
        }
        bytes
    }

    /// Removes the selected messages, except for those that were sent in part.
    fn take_out(&mut self, mut which: impl FnMut(&Queued) -> bool) -> Vec<Queued> {
        let mut gone = Vec::new();
        self.scheduler.take_out(&mut |message| !message.begun && which(message), &mut gone);
        for message in &gone {
            self.forget(message);
        }
        let held = self.take_out_held(which);
        held.iter().for_each(|message| self.forget_bytes(message));
        gone.extend(held);
        gone
    }

    /// Takes the next queued message, for a report to the user.
    pub(crate) fn drain(&mut self) -> Option<Queued> {
        self.scheduler.peek()?;
        let message = self.scheduler.pop()?;
        self.forget(&message);
        Some(message)
    }

    fn forget(&mut self, message: &Queued) {
        if let Some(bundle) = &mut self.bundle {
            bundle.on_gone(message.rest.len(), message.is_urgent());
        }
        if let Some(paused) = &mut self.paused {
            paused.on_gone(message.stream);
        }
        self.forget_bytes(message);
    }

    fn forget_bytes(&mut self, message: &Queued) {
        self.unsent -= message.rest.len();
        self.buffered = self.buffered.saturating_sub(message.rest.len() + MESSAGE_OVERHEAD);
        self.room_made = true;
    }

    /// Handles a restart of the peer: the SSNs of all streams start at 0 again.
    pub(crate) fn restart(&mut self) {
        self.streams.restart();
        self.next_expiry = None;
        if let Some(bundle) = &mut self.bundle {
            bundle.restart();
        }
    }

    /// Sets a stream's priority, for [`SchedulerKind::Priority`].
    pub(crate) fn set_priority(&mut self, stream: u16, priority: StreamPriority) {
        self.streams.set_priority(stream, priority);
    }

    /// Frees memory that is not needed while nothing is queued.
    pub(crate) fn shrink(&mut self) {
        if self.unsent == 0 {
            self.next_expiry = None;
        }
        self.scheduler.shrink();
    }
}

impl Queued {
    /// The user's message without the data that was sent.
    pub(crate) fn into_message(self) -> OutgoingMessage {
        OutgoingMessage {
            stream: self.stream,
            ppid: self.ppid,
            unordered: self.unordered,
            sack_immediately: self.sack_immediately,
            now: self.now,
            divisible: self.divisible,
            ahead: self.ahead,
            reliability: Reliability::Full,
            context: self.context,
            data: self.rest,
        }
    }
}

#[cfg(test)]
mod tests;
