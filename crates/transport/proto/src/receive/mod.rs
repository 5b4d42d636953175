//! The receiving half of an association: DATA chunks in, messages and the contents of SACKs out.
//!
//! # Memory
//!
//! A chunk is charged for the memory that it holds: its payload (or, if the payload is a slice of a larger buffer, the
//! part of the buffer that it keeps alive) plus bookkeeping. The sum never exceeds the receive buffer, except for
//! chunks with the next TSN, which have a separate reserve; so an association whose buffer is full of out-of-order data
//! always makes progress.
//!
//! A slice of a batch of packets keeps the whole batch alive. Usually most of a batch is data, so its
//! packets are charged one by one; the rest is uncharged and counts as waste. Once there is too much
//! waste, payload is copied out of batches until all is consumed.
//!
//! Acknowledged data is never dropped, unless the option `never_renege` is off: then data of messages
//! that cannot be delivered yet may be dropped for data with lower TSNs. When the endpoint has no memory
//! left for all its associations, each behaves as if its own buffer were full; and out-of-order data that
//! was not reported as non-renegable may be dropped to make room for other associations.
//!
//! # Window
//!
//! a_rwnd counts user data, but the buffer counts memory. The announced window is the free memory times the share of
//! user data in the memory of recent chunks, so a peer that fills its window does not overrun the buffer.

mod assembler;
mod awaited;
mod config;
pub(crate) mod delayed_ack;
mod interleaved;
#[cfg(any(test, feature = "invariants"))]
mod invariants;
mod marks;
mod reassembly;
mod renegable;
mod reset;
mod right_sizing;
mod skip;
mod streams;
mod tsn_map;
mod tsns;
mod window;

use anabranch_wire::GapBlock;
use bytes::Bytes;

pub use config::{AckConfig, ReceiveConfig};

use self::assembler::{Assembler, Parts};
use self::awaited::Awaited;
use self::reassembly::{Assembled, Fragment, Violation};
use self::renegable::Renegable;
use self::reset::Deferred;
use self::right_sizing::Round;
pub(crate) use self::skip::CutShort;
use self::tsn_map::{Insert, TsnMap};
use self::tsns::Tsns;
use crate::marks::mark;
use crate::message::Message;
use crate::per_path::PathId;
use crate::stats::{Counters, ReceiverCounters};
use crate::tsn;
use crate::user_data::UserData;

/// Memory beyond the receive buffer that only chunks with the next TSN may use: enough for the longest possible chunk
/// with its bookkeeping.
const RESERVE: usize = 72 * 1024;

/// The unit of the endpoint's remaining memory as stored in a receiver, in bytes.
const MEMORY_UNIT: usize = 4096;

/// Bookkeeping of a fragment: a slot in its message's list, which grows by doubling.
const FRAGMENT_COST: u32 = 2 * size_of::<Bytes>() as u32;

/// Bookkeeping of a message, including its number in a queue.
const MESSAGE_COST: u32 = 80;

const _: () = assert!(size_of::<Message>() <= 64, "a message is a line of the processor's cache");

/// The result of receiving a chunk with user data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataOutcome {
    /// Accepted.
    New,
    /// Already received before.
    Duplicate,
    /// Dropped; it counts as not received.
    NoRoom,
    /// Acknowledged and dropped: the stream does not exist.
    InvalidStream,
    /// The peer violated the protocol; the association cannot continue.
    Violation(Violation),
}

/// The receiving half of an association.
#[derive(Debug)]
pub(crate) struct Receiver {
    map: TsnMap,
    assembler: Assembler,
    /// Data that may be dropped for lack of memory; `None` if data is never dropped.
    renegable: Option<Box<Renegable>>,
    inbound_streams: u16,
    /// The peer's first TSN.
    first_tsn: u32,
    /// What few associations have, and only for a while.
    rare: Option<Box<Rare>>,
    /// Upper bound for the bytes of batches that are kept alive but not charged, counted since the
    /// receiver last held nothing.
    waste: u32,
    /// Memory that the endpoint has left for all its associations, in units of 4 KiB; the largest
    /// value means no limit.
    memory_left: u16,
    /// The receive buffer.
    limit: usize,
    /// What the user takes in this round trip, while the buffer may grow.
    round: Option<Box<Round>>,
    /// The charge above which a message is delivered in parts.
    partial_point: usize,
    /// Size of a full packet.
    mtu: u16,
    /// The charge of all data, until the user releases it.
    charge: usize,
    /// The part of `charge` for messages that the user has taken.
    given: usize,
    /// a_rwnd of the last SACK (initially of INIT or INIT ACK).
    announced: usize,
    /// User data accepted since the last SACK.
    accepted: usize,
    /// The number of deliverable messages that arrived before the peer restarted.
    from_before: u32,
    /// User data and memory of recent chunks, halved from time to time.
    recent_data: u32,
    recent_memory: u32,
    /// The peer may give up what it has sent.
    may_skip: bool,
    /// Other messages may come between the parts of one.
    mixes_parts: bool,
    counts: ReceiverCounters,
}

/// Resets that are under way, and news for the user. An idle association pays for a pointer only.
#[derive(Debug, Default)]
struct Rare {
    /// A reset that waits for data.
    deferred: Option<Deferred>,
    /// A reset of the TSNs that the peer has not answered.
    awaited: Option<Awaited>,
    /// Partly delivered messages whose rest was given up, until the user gets the notification.
    cut_short: Vec<CutShort>,
    /// For each path with a mark that the peer has not answered: the lowest TSN of the last packet that the network
    /// marked, and the number of such packets.
    marked: Vec<(PathId, anabranch_wire::Tsn, u32)>,
}

impl Rare {
    fn is_empty(&self) -> bool {
        self.deferred.is_none()
            && self.awaited.is_none()
            && self.cut_short.is_empty()
            && self.marked.is_empty()
    }
}

/// The size in bytes above which a message is delivered in parts, before it fills the buffer.
fn partial_point(config: &ReceiveConfig, limit: usize) -> usize {
    config.partial_delivery_point.min(limit / 2)
}

impl Receiver {
    /// A receiver for the direction whose first TSN is `first_tsn`, with `inbound_streams` as negotiated.
    /// `full_packet`: the size in bytes of the largest expected packet.
    pub(crate) fn new(
        first_tsn: u64,
        inbound_streams: u16,
        config: &ReceiveConfig,
        full_packet: u16,
    ) -> Self {
        let limit = config.first_receive_buffer();
        let recent = u32::try_from(limit / 16).unwrap_or(u32::MAX);
        Self {
            map: TsnMap::new(first_tsn),
            assembler: Assembler::default(),
            renegable: (!config.never_renege).then(Box::default),
            inbound_streams,
            first_tsn: tsn::wire(first_tsn),
            rare: None,
            waste: 0,
            memory_left: u16::MAX,
            limit,
            round: None,
            partial_point: partial_point(config, limit),
            mtu: full_packet,
            charge: 0,
            given: 0,
            announced: limit,
            accepted: 0,
            from_before: 0,
            recent_data: recent,
            recent_memory: recent,
            may_skip: false,
            mixes_parts: config.fragment_interleave,
            counts: ReceiverCounters::default(),
        }
    }

    /// Sets how messages are delivered in parts.
    pub(crate) fn reconfigure(&mut self, config: &ReceiveConfig) {
        self.partial_point = partial_point(config, self.limit);
        self.mixes_parts = config.fragment_interleave;
    }

    /// Sets whether the association uses I-DATA chunks from now on. Data of the other kind that waits for more is dropped,
    /// as when the peer restarts.
    pub(crate) fn set_interleaving(&mut self, interleaved: bool) {
        if interleaved != self.assembler.is_interleaved() {
            self.charge -= self.assembler.held_charge();
            self.assembler.restart(interleaved);
        }
    }

    /// Processes a chunk with at least one byte of user data. `piece` returns its payload as a slice of the received
    /// buffer, `share` is how many bytes of that buffer the slice keeps alive. What is short is copied.
    pub(crate) fn on_data(
        &mut self,
        data: &UserData<'_>,
        piece: impl FnOnce() -> Bytes,
        share: u32,
    ) -> DataOutcome {
        match self.accept(data, piece, share) {
            Ok(outcome) => outcome,
            Err(violation) => DataOutcome::Violation(violation),
        }
    }

    fn accept(
        &mut self,
        data: &UserData<'_>,
        piece: impl FnOnce() -> Bytes,
        share: u32,
    ) -> Result<DataOutcome, Violation> {
        let tsn = tsn::unwrap(self.map.cumulative(), data.tsn.0);
        match self.map.check(tsn) {
            Insert::New => {}
            Insert::Duplicate => {
                self.map.note_duplicate(tsn);
                self.counts.duplicate_chunks += 1;
                return Ok(DataOutcome::Duplicate);
            }
            Insert::Refused => {
                mark!(DataRefused);
                self.counts.dropped_chunks = self.counts.dropped_chunks.wrapping_add(1);
                return Ok(DataOutcome::NoRoom);
            }
        }
        // The bug that the swarm test must find: data at a wrap of the TSNs is acknowledged and lost.
        #[cfg(feature = "canary")]
        if data.tsn.0 == 0 {
            self.map.insert(tsn);
            return Ok(DataOutcome::New);
        }
        if data.stream >= self.inbound_streams {
            if !self.map.takes_uncharged(tsn) {
                self.counts.dropped_chunks = self.counts.dropped_chunks.wrapping_add(1);
                return Ok(DataOutcome::NoRoom);
            }
            // req: rfc9260 6.5 "SHOULD acknowledge the reception of the DATA chunk"
            self.map.insert(tsn);
            self.verify()?;
            self.end_deferral()?;
            return Ok(DataOutcome::InvalidStream);
        }
        if self.rare.is_some() && self.comes_too_early(tsn, data) {
            self.counts.dropped_chunks = self.counts.dropped_chunks.wrapping_add(1);
            return Ok(DataOutcome::NoRoom);
        }
        let id = (data.stream, data.flags.unordered(), data.sequence);
        if self.assembler.has_passed(id) && !self.follows_reset(tsn, data.stream) {
            return self.drop_late(tsn);
        }
        let length = u32::try_from(data.payload.len()).unwrap_or(u32::MAX);
        let copied = length < share / 2;
        let memory = if copied { length } else { share.max(length) };
        let begin = data.flags.begin();
        let is_whole = begin && data.flags.end();
        let more = if is_whole { 0 } else { self.assembler.cost(id, data.fsn) };
        let charge = memory + FRAGMENT_COST + if begin { MESSAGE_COST } else { 0 } + more;
        if !self.admits(tsn, length as usize, charge as usize)? {
            return Ok(DataOutcome::NoRoom);
        }
        if copied {
            mark!(PieceCopied);
        }
        if data.tsn.0 == 0 {
            mark!(TsnWrapped);
        }
        let piece = if copied { Bytes::copy_from_slice(data.payload) } else { piece() };
        self.enter(tsn, length as usize, charge as usize);
        self.assemble(tsn, data, piece, charge)?;
        if self.rare.is_some() {
            self.end_deferral()?;
        }
        Ok(DataOutcome::New)
    }

    /// Whether there is room for a chunk with `length` bytes of user data; drops other data if necessary.
    fn admits(&mut self, tsn: u64, length: usize, charge: usize) -> Result<bool, Violation> {
        let mut left = self.memory_left();
        if self.renegable.is_some() {
            left = self.make_room(tsn, charge);
        }
        let full = self.charge + charge > self.limit;
        if (full || charge > left) && !self.may_exceed(tsn, length, charge) {
            self.counts.dropped_chunks = self.counts.dropped_chunks.wrapping_add(1);
            mark!(DataNoRoom);
            // req: rfc9260 6.2 "MUST NOT be included in the SACK chunk"
            // req: rfc9260 6.2 "it MUST NOT include them in Gap Ack"
            return match full && self.is_stuck(tsn) {
                false => Ok(false),
                true => Err("messages whose predecessors were never sent fill the buffer"),
            };
        }
        if full {
            mark!(DataReserve);
        }
        Ok(true)
    }

    /// Drops a chunk of a message that was skipped, or of one that was delivered.
    ///
    /// # Errors
    /// The peer may not give up messages.
    fn drop_late(&mut self, tsn: u64) -> Result<DataOutcome, Violation> {
        if !self.may_skip {
            return Err("a message identifier that was used before");
        }
        if !self.map.takes_uncharged(tsn) {
            self.counts.dropped_chunks = self.counts.dropped_chunks.wrapping_add(1);
            return Ok(DataOutcome::NoRoom);
        }
        mark!(SkippedArrived);
        self.map.insert(tsn);
        Ok(DataOutcome::New)
    }

    /// Records a chunk as received, and charges it.
    fn enter(&mut self, tsn: u64, length: usize, charge: usize) {
        // req: rfc9260 6.2 "MUST always acknowledge the reception of each valid"
        self.map.insert(tsn);
        self.counts.out_of_sequence_chunks += u64::from(tsn > self.map.cumulative());
        if let Some(renegable) = &mut self.renegable {
            if tsn > self.map.cumulative() {
                renegable.insert(tsn);
            }
            renegable.forget_up_to(self.map.cumulative());
        }
        self.charge += charge;
        self.counts.data_chunks_received += 1;
        self.accepted += length;
        self.recent_data += length as u32;
        self.recent_memory += charge as u32;
        if self.recent_memory as usize > self.limit / 4 {
            self.recent_data /= 2;
            self.recent_memory /= 2;
        }
    }

    /// Adds a chunk to its message, and passes the message to its stream if it is complete.
    fn assemble(
        &mut self,
        tsn: u64,
        data: &UserData<'_>,
        piece: Bytes,
        charge: u32,
    ) -> Result<(), Violation> {
        let chunk = Fragment {
            tsn,
            begin: data.flags.begin(),
            end: data.flags.end(),
            stream: data.stream,
            sequence: data.sequence,
            fsn: data.fsn,
            ppid: data.ppid,
            unordered: data.flags.unordered(),
            piece,
            charge,
        };
        match self.hold_back(chunk) {
            Some(chunk) => self.join(chunk),
            None => Ok(()),
        }
    }

    #[inline]
    fn join(&mut self, chunk: Fragment) -> Result<(), Violation> {
        if self.assembler.is_whole(&chunk) {
            self.verify()?;
            return self.deliver(Assembled::from(chunk));
        }
        let whole = self.assembler.insert(chunk, self.may_skip)?;
        self.verify()?;
        whole.map_or(Ok(()), |whole| self.deliver(whole))
    }

    /// Passes a message to its stream.
    fn deliver(&mut self, whole: Assembled) -> Result<(), Violation> {
        let renegable = &mut self.renegable;
        self.assembler.deliver(whole, self.map.cumulative(), |first, last| {
            if let Some(renegable) = renegable {
                renegable.remove(first, last);
            }
        })
    }

    /// Handles messages that can never become complete.
    ///
    /// # Errors
    /// There is one, and the peer may not give up messages.
    #[inline]
    fn verify(&mut self) -> Result<(), Violation> {
        if self.keeps_chunks() {
            return Ok(());
        }
        let cumulative = self.map.cumulative();
        match self.assembler.verify(cumulative) {
            Err(_) if self.may_skip => {
                self.drop_broken(0);
                Ok(())
            }
            other => other,
        }
    }

    /// Drops renegable data above `tsn`, a TSN that needs room, until there is enough room or no such data is left.
    /// Returns the memory that the endpoint has left.
    fn make_room(&mut self, tsn: u64, charge: usize) -> usize {
        let mut left = self.memory_left();
        while self.charge + charge > self.limit || charge > left {
            match self.renege(tsn) {
                0 => break,
                freed => left = left.saturating_add(freed),
            }
        }
        self.note_memory(left);
        left
    }

    /// Drops the upper half of the renegable data above `tsn`, and returns its charge.
    fn renege(&mut self, tsn: u64) -> usize {
        let Some(renegable) = &mut self.renegable else { return 0 };
        let Some(from) = renegable.upper_half(tsn) else { return 0 };
        let (mut freed, mut chunks) = (0, 0);
        let mut may_drop = |tsns: &Tsns, charge: u32| {
            let may = self.map.remove_all(tsns);
            if may {
                for (first, last) in tsns.ranges() {
                    renegable.remove(first, last);
                    chunks += last - first + 1;
                }
                freed += charge as usize;
            }
            may
        };
        self.assembler.drop_upper(tsn, from, &mut may_drop);
        if chunks > 0 {
            mark!(DataReneged);
        }
        self.charge -= freed;
        let chunks = u32::try_from(chunks).unwrap_or(u32::MAX);
        self.counts.reneged_chunks = self.counts.reneged_chunks.wrapping_add(chunks);
        freed
    }

    /// Drops all data that waits for missing TSNs, if the peer still has it. Returns the number of bytes freed.
    /// `tells_for_good`: NR-SACKs report to the peer which data it may free.
    pub(crate) fn give_back(&mut self, tells_for_good: bool) -> usize {
        let cumulative = self.map.cumulative();
        let mut freed = 0;
        if self.renegable.is_some() {
            loop {
                match self.renege(cumulative) {
                    0 => return freed,
                    more => freed += more,
                }
            }
        }
        if tells_for_good {
            return 0;
        }
        let mut chunks = 0;
        let mut may_drop = |tsns: &Tsns, charge: u32| {
            let may = self.map.remove_all(tsns);
            if may {
                freed += charge as usize;
                chunks += tsns.ranges().map(|(first, last)| last - first + 1).sum::<u64>();
            }
            may
        };
        self.assembler.drop_upper(cumulative, cumulative + 1, &mut may_drop);
        self.charge -= freed;
        let chunks = u32::try_from(chunks).unwrap_or(u32::MAX);
        self.counts.reneged_chunks = self.counts.reneged_chunks.wrapping_add(chunks);
        freed
    }

    /// Memory of data that waits for missing TSNs.
    pub(crate) fn held_back(&self) -> usize {
        self.assembler.held_charge()
    }

    /// User data that the user has taken, in bytes.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.counts.message_bytes_received
    }

    /// Whether any data has arrived.
    pub(crate) fn has_received(&self) -> bool {
        self.counts.data_chunks_received > 0
    }

    /// Whether payload may remain a slice of a batch of `length` bytes, which keeps the whole batch alive.
    pub(crate) fn lends(&mut self, length: usize) -> bool {
        if self.charge == 0 {
            self.waste = 0;
        }
        self.waste as usize + length <= self.limit
    }

    /// User data accepted so far, for [`end_batch`](Self::end_batch) to compare with.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted
    }

    /// Handles the end of a batch of `length` bytes; [`accepted`](Self::accepted) was `before` when it began.
    pub(crate) fn end_batch(&mut self, before: usize, length: usize) {
        let kept = self.accepted.saturating_sub(before);
        // If at least three quarters of the batch are kept, the rest counts as headers, not as waste.
        if kept < length / 4 * 3 && self.lends(length) {
            let waste = u32::try_from(length - kept).unwrap_or(u32::MAX);
            self.waste = self.waste.saturating_add(waste);
        }
    }

    /// Whether a chunk that does not fit into the buffer may use the reserve.
    // req: rfc9260 6.2 "SHOULD NOT revoke a SACK chunk and"
    // req: rfc9260 6.2 "SHOULD take into account the dropped data"
    fn may_exceed(&self, tsn: u64, length: usize, charge: usize) -> bool {
        // All data up to the cumulative TSN can be delivered, so a chunk that advances it makes room. A chunk that
        // fills a gap is accepted even if no memory is free.
        // req: rfc9260 6.2 "the receiver MUST drop any new incoming DATA"
        // exempt: rfc9260 6.2 "SHOULD drop the largest TSN held" would revoke an acknowledgement; the reserve makes it needless, and it is done only without `never_renege`, or when the endpoint is short of memory
        tsn == self.map.cumulative() + 1
            && self.charge + charge <= self.limit + RESERVE
            && (self.map.has_gaps()
                || self.memory_left() > 0
                    && (self.charge < self.limit || self.keeps_promise(length)))
    }

    /// Whether nothing can ever be delivered again: the next chunk has no room, and the user has read
    /// everything. Only a peer that skips SSNs causes this.
    fn is_stuck(&self, tsn: u64) -> bool {
        tsn == self.map.cumulative() + 1
            && self.charge == self.assembler.held_charge()
            && !self.readable()
    }

    /// Takes the next message or part of one. It stays charged until [`release`](Self::release).
    ///
    /// While an ordered message is delivered in parts, no other ordered message of its stream is returned in between;
    /// but complete messages of other streams and unordered ones may be, unless the option `fragment_interleave` is off.
    pub(crate) fn poll_message(&mut self) -> Option<Message> {
        let (cumulative, parts) = (self.map.cumulative(), self.parts());
        let renegable = &mut self.renegable;
        let message = self.assembler.take(cumulative, parts, |first, last| {
            if let Some(renegable) = renegable {
                renegable.remove(first, last);
            }
        })?;
        // Messages from before a restart are complete and are taken first.
        self.from_before = self.from_before.saturating_sub(1);
        self.counts.message_bytes_received += message.payload.len() as u64;
        self.counts.messages_received += u64::from(message.end);
        self.given += message.charge as usize;
        Some(message)
    }

    /// Whether the next message arrived before the peer restarted.
    pub(crate) fn next_is_from_before(&self) -> bool {
        self.from_before > 0
    }

    /// Whether [`poll_message`](Self::poll_message) would return something.
    pub(crate) fn readable(&self) -> bool {
        self.assembler.is_ready(self.map.cumulative(), self.parts())
    }

    fn parts(&self) -> Parts {
        Parts { wanted: self.delivers_in_parts(), mixed: self.mixes_parts }
    }

    /// Whether memory is so short that a message must be delivered before the rest of it has arrived.
    fn delivers_in_parts(&self) -> bool {
        // req: rfc9260 6.9 "SHOULD dispatch part of its inbound message"
        // Data that the user holds makes room when it is released, not if a message is delivered in parts. If the
        // endpoint is out of memory, waiting for the rest of a message does not help either.
        let held = self.charge.saturating_sub(self.given);
        held > self.partial_point || held > 0 && self.memory_left() == 0
    }

    /// Releases the charge of messages that the user has consumed.
    // req: rfc9260 6.2 "SHOULD NOT increment a_rwnd unless it has"
    pub(crate) fn release(&mut self, charge: u32) {
        self.charge = self.charge.saturating_sub(charge as usize);
        self.given = self.given.saturating_sub(charge as usize);
        if let Some(round) = &mut self.round {
            round.on_released(charge);
        }
    }

    /// The last TSN up to which all were received.
    pub(crate) fn cumulative(&self) -> u64 {
        self.map.cumulative()
    }

    /// Whether a TSN below the highest one is missing.
    pub(crate) fn has_gaps(&self) -> bool {
        self.map.has_gaps()
    }

    /// Whether the received data is incomplete: a TSN is missing, or the rest of a message.
    pub(crate) fn is_amid(&self) -> bool {
        self.has_gaps() || self.assembler.is_amid()
    }

    /// The lowest `limit` gap blocks for a SACK.
    pub(crate) fn gap_blocks(&self, limit: usize) -> impl Iterator<Item = GapBlock> + '_ {
        self.map.gap_blocks(limit)
    }

    /// The lowest `limit` gap blocks for an NR-SACK: first the renegable, then the non-renegable ones.
    pub(crate) fn nr_gap_blocks(&self, limit: usize) -> (Vec<GapBlock>, Vec<GapBlock>) {
        let Some(renegable) = &self.renegable else {
            return (Vec::new(), self.map.gap_blocks(limit).collect());
        };
        let (mut gaps, mut nr_gaps) = (Vec::new(), Vec::new());
        if limit > 0 {
            renegable.divide(self.map.intervals(), |first, last, renegable| {
                let blocks = if renegable { &mut gaps } else { &mut nr_gaps };
                blocks.push(self.map.block(first, last));
                gaps.len() + nr_gaps.len() < limit
            });
        }
        (gaps, nr_gaps)
    }

    /// Takes the duplicates for a SACK; each is reported once.
    pub(crate) fn take_duplicates(&mut self) -> Vec<u64> {
        self.map.take_duplicates()
    }

    /// Receive buffer in use, in bytes.
    pub(crate) fn used(&self) -> usize {
        self.charge
    }

    /// Streams that the peer may use.
    pub(crate) fn inbound_streams(&self) -> u16 {
        self.inbound_streams
    }

    /// Handles a restart of the peer, which lost its state: keeps data that can already be delivered, and drops data
    /// that waits for more. `announced`: the window that the handshake announced.
    pub(crate) fn restart(&mut self, first_tsn: u64, inbound_streams: u16, announced: usize) {
        self.charge -= self.assembler.held_charge() + self.drop_deferral();
        self.map = TsnMap::new(first_tsn);
        self.first_tsn = tsn::wire(first_tsn);
        self.assembler.restart(self.assembler.is_interleaved());
        self.from_before = u32::try_from(self.assembler.ready()).unwrap_or(u32::MAX);
        if let Some(renegable) = &mut self.renegable {
            **renegable = Renegable::default();
        }
        self.inbound_streams = inbound_streams;
        self.announced = announced;
        self.accepted = 0;
        self.round = None;
    }

    /// Releases unused memory; for associations that have been quiet for a while.
    pub(crate) fn trim(&mut self) {
        self.assembler.trim();
        self.round = None;
    }

    /// Adds the totals of this half to `counters`.
    pub(crate) fn count(&self, counters: &mut Counters) {
        self.counts.add_to(counters);
    }
}

#[cfg(test)]
mod tests;
