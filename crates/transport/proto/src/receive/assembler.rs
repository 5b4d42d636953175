//! Turns chunks into messages in stream order. No other part of the receiver deals with fragments and
//! sequence numbers.
//!
//! An association uses one kind of data chunk only (RFC 8260 section 2.1). DATA chunks are reassembled
//! by TSN. Another kind of chunk would only need another [`Reassembly`].

use super::reassembly::{Assembled, Fragment, Reassembly, Run, Violation};
use super::streams::Streams;
use crate::marks::mark;
use crate::message::Message;

/// Incomplete messages, messages that wait for earlier ones, and those that can be delivered.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    fragments: Reassembly,
    streams: Streams,
}

impl Assembler {
    /// Accepts a new chunk. `may_skip`: the peer need not send the end of a message. Returns the message that it
    /// completes. [`verify`](Self::verify) must be called before that is delivered.
    ///
    /// # Errors
    /// The chunk contradicts others.
    pub(super) fn add(
        &mut self,
        chunk: Fragment,
        may_skip: bool,
    ) -> Result<Option<Assembled>, Violation> {
        if chunk.begin && chunk.end {
            return Ok(Some(Assembled::from(chunk)));
        }
        self.fragments.insert(chunk, may_skip)
    }

    /// Delivers a complete message in the order of its stream. Calls `deliverable` with the first and last TSN of the
    /// data that can be delivered now.
    ///
    /// # Errors
    /// Its sequence number is impossible.
    pub(super) fn deliver(
        &mut self,
        whole: Assembled,
        cumulative: u64,
        deliverable: impl FnMut(u64, u64),
    ) -> Result<(), Violation> {
        self.streams.deliver(whole, cumulative, deliverable)
    }

    /// Removes a message that the peer does not continue; see [`Reassembly::take_broken`].
    pub(super) fn take_broken(&mut self, point: u64, cumulative: u64) -> Option<Run> {
        self.fragments.take_broken(point, cumulative)
    }

    /// No longer waits for the messages of a stream up to this one; see [`Streams::skip`].
    pub(super) fn skip(&mut self, stream: u16, ssn: u16, deliverable: impl FnMut(u64, u64)) {
        self.streams.skip(stream, ssn, deliverable);
    }

    /// Checks for contradictions in the data up to the cumulative TSN, all of which was received.
    ///
    /// # Errors
    /// A message there can never become complete.
    pub(super) fn verify(&self, cumulative: u64) -> Result<(), Violation> {
        match self.fragments.is_empty() {
            true => Ok(()),
            false => self.fragments.verify(cumulative),
        }
    }

    /// Takes the next complete message; with `in_parts`, or else the available part of the next
    /// message.
    pub(super) fn take(&mut self, cumulative: u64, in_parts: bool) -> Option<Message> {
        if in_parts && !self.streams.is_ready() && self.has_part(cumulative) {
            mark!(PartialDelivery);
            return self.fragments.take_part(cumulative);
        }
        self.streams.pop()
    }

    /// Whether [`take`](Self::take) would return something.
    pub(super) fn is_ready(&self, cumulative: u64, in_parts: bool) -> bool {
        self.streams.is_ready() || in_parts && self.has_part(cumulative)
    }

    /// Messages that can be taken whole.
    pub(super) fn ready(&self) -> usize {
        self.streams.ready_len()
    }

    /// Whether a part of the message that the next TSN continues can be delivered. If the message is
    /// ordered, all earlier messages of its stream must have been delivered.
    fn has_part(&self, cumulative: u64) -> bool {
        self.fragments
            .open(cumulative)
            .is_some_and(|run| run.unordered || self.streams.is_next(run.stream, run.ssn))
    }

    /// Whether a message is incomplete.
    pub(super) fn is_amid(&self) -> bool {
        !self.fragments.is_empty()
    }

    /// Memory of data that cannot be delivered yet.
    pub(super) fn held_charge(&self) -> usize {
        self.fragments.charge() + self.streams.held_charge()
    }

    /// Drops data that cannot be delivered yet, reaches the TSN `from` and begins above `above`, if
    /// `may_drop` returns true for its first and last TSN and its charge.
    pub(super) fn drop_upper(
        &mut self,
        above: u64,
        from: u64,
        mut may_drop: impl FnMut(u64, u64, u32) -> bool,
    ) {
        self.fragments.drop_upper(above, from, &mut may_drop);
        self.streams.drop_upper(above, from, &mut may_drop);
    }

    /// Handles a restart of the peer: keeps deliverable data and drops the rest.
    pub(super) fn restart(&mut self) {
        self.fragments = Reassembly::default();
        self.streams.restart();
    }

    /// Frees memory that is not in use.
    pub(super) fn trim(&mut self) {
        self.streams.trim();
    }

    /// First and last TSN of data that cannot be delivered yet, for tests.
    #[cfg(any(test, feature = "invariants"))]
    pub(super) fn held_tsns(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.fragments.tsns().chain(self.streams.held_tsns())
    }

    /// Memory of messages that can be taken, for tests.
    #[cfg(any(test, feature = "invariants"))]
    pub(super) fn ready_charge(&self) -> usize {
        self.streams.ready_charge()
    }
}
