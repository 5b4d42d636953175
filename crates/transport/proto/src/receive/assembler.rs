//! Turns chunks into messages in stream order. No other part of the receiver deals with fragments and
//! sequence numbers.
//!
//! An association uses one kind of data chunk only (RFC 8260 section 2.2.1). The fragments of DATA chunks
//! are put together by TSN, those of I-DATA chunks by their message and their position in it.

use super::interleaved::{Dropped, Id, Inserted, Interleaved};
use super::reassembly::{Assembled, Fragment, Reassembly, Run, Violation};
use super::streams::Streams;
use super::tsns::Tsns;
use crate::marks::mark;
use crate::message::Message;
use crate::stream_set::StreamSet;

/// Incomplete messages, messages that wait for earlier ones, and those that can be delivered.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    fragments: Fragments,
    streams: Streams,
}

/// How messages are delivered in parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    /// An available part of a message is delivered.
    pub(super) wanted: bool,
    /// Other messages may come between the parts of one.
    pub(super) mixed: bool,
}

/// Incomplete messages.
#[derive(Debug)]
enum Fragments {
    /// Of DATA chunks.
    ByTsn(Reassembly),
    /// Of I-DATA chunks.
    ById(Box<Interleaved>),
}

impl Default for Fragments {
    fn default() -> Self {
        Self::ByTsn(Reassembly::default())
    }
}

impl Assembler {
    /// Memory of a chunk beyond that of any fragment of a message.
    #[inline]
    pub(super) fn cost(&self, id: Id, fsn: u32) -> u32 {
        match &self.fragments {
            Fragments::ByTsn(_) => 0,
            Fragments::ById(fragments) => fragments.cost(id, fsn),
        }
    }

    /// Whether a message of an I-DATA chunk was skipped or delivered before. The peer may give it up, and one of its
    /// chunks may arrive late.
    #[inline]
    pub(super) fn has_passed(&self, id: Id) -> bool {
        match &self.fragments {
            Fragments::ByTsn(_) => false,
            // A message that is incomplete was neither.
            Fragments::ById(fragments) => {
                let (stream, unordered, mid) = id;
                !unordered && !fragments.is_recent(id) && self.streams.has_passed(stream, mid)
            }
        }
    }

    /// Whether the ordered message of a chunk was skipped or delivered before.
    pub(super) fn has_passed_chunk(&self, chunk: &Fragment) -> bool {
        !chunk.unordered && self.streams.has_passed(chunk.stream, chunk.sequence)
    }

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
        if self.is_whole(&chunk) {
            return Ok(Some(Assembled::from(chunk)));
        }
        self.insert(chunk, may_skip)
    }

    /// Whether a chunk is a message by itself, and no chunk before it contradicts that.
    #[inline]
    pub(super) fn is_whole(&self, chunk: &Fragment) -> bool {
        chunk.begin
            && chunk.end
            && match &self.fragments {
                Fragments::ByTsn(_) => true,
                Fragments::ById(fragments) => {
                    !fragments.has((chunk.stream, chunk.unordered, chunk.sequence))
                }
            }
    }

    /// The same as [`add`](Self::add) for a chunk that is no message by itself.
    ///
    /// # Errors
    /// The chunk contradicts others.
    pub(super) fn insert(
        &mut self,
        chunk: Fragment,
        may_skip: bool,
    ) -> Result<Option<Assembled>, Violation> {
        match &mut self.fragments {
            Fragments::ByTsn(fragments) => fragments.insert(chunk, may_skip),
            Fragments::ById(fragments) => {
                let (stream, unordered, mid) = (chunk.stream, chunk.unordered, chunk.sequence);
                let id = (stream, unordered, mid);
                match fragments.insert(id, chunk)? {
                    Inserted::Whole(whole) => return Ok(Some(whole)),
                    Inserted::Opened if unordered || self.streams.is_next(stream, mid) => {
                        fragments.open(id);
                    }
                    Inserted::Opened | Inserted::Kept => {}
                }
                Ok(None)
            }
        }
    }

    /// Delivers a complete message in the order of its stream. Calls `deliverable` with the first and last TSN of the
    /// data that can be delivered now.
    ///
    /// # Errors
    /// Its sequence number is impossible.
    #[inline]
    pub(super) fn deliver(
        &mut self,
        whole: Assembled,
        cumulative: u64,
        deliverable: impl FnMut(u64, u64),
    ) -> Result<(), Violation> {
        let ordered = (!whole.message.unordered).then_some(whole.message.stream);
        self.streams.deliver(whole, cumulative, deliverable)?;
        self.reach(ordered);
        Ok(())
    }

    /// Lets the next message of a stream be taken in parts.
    #[inline]
    fn reach(&mut self, stream: Option<u16>) {
        if let Fragments::ById(fragments) = &mut self.fragments
            && let Some(stream) = stream
            && !fragments.is_empty()
        {
            fragments.open((stream, false, self.streams.next(stream)));
        }
    }

    /// Removes a message that the peer does not continue; see [`Reassembly::take_broken`].
    pub(super) fn take_broken(&mut self, point: u64, cumulative: u64) -> Option<Run> {
        match &mut self.fragments {
            Fragments::ByTsn(fragments) => fragments.take_broken(point, cumulative),
            // The peer says which ones these are.
            Fragments::ById(_) => None,
        }
    }

    /// Removes the incomplete messages of a stream up to this identifier.
    pub(super) fn take_skipped(&mut self, (stream, unordered, mid): Id) -> Vec<(Id, Dropped)> {
        match &mut self.fragments {
            Fragments::ByTsn(_) => Vec::new(),
            Fragments::ById(fragments) => fragments.skip(stream, unordered, mid),
        }
    }

    /// No longer waits for the messages of a stream up to this one; see [`Streams::skip`].
    pub(super) fn skip(&mut self, stream: u16, sequence: u32, deliverable: impl FnMut(u64, u64)) {
        self.streams.skip(stream, sequence, deliverable);
        self.reach(Some(stream));
    }

    /// Checks for contradictions in the data up to the cumulative TSN, all of which was received.
    ///
    /// # Errors
    /// A message there can never become complete.
    #[inline]
    pub(super) fn verify(&self, cumulative: u64) -> Result<(), Violation> {
        match &self.fragments {
            Fragments::ByTsn(fragments) if !fragments.is_empty() => fragments.verify(cumulative),
            // The TSNs of I-DATA chunks say nothing about their messages.
            _ => Ok(()),
        }
    }

    /// Takes the next complete message; with `parts.wanted`, or else the available part of the next
    /// message. Calls `taken` with the first and last TSN of a part that may be above the cumulative TSN.
    pub(super) fn take(
        &mut self,
        cumulative: u64,
        parts: Parts,
        mut taken: impl FnMut(u64, u64),
    ) -> Option<Message> {
        let is_held = self.is_held(parts);
        if parts.wanted && (is_held || !self.streams.is_ready()) && self.has_part(cumulative) {
            mark!(PartialDelivery);
            return match &mut self.fragments {
                Fragments::ByTsn(fragments) => fragments.take_part(cumulative),
                Fragments::ById(fragments) => {
                    let (part, tsns) = fragments.take_part()?;
                    tsns.ranges().for_each(|(first, last)| taken(first, last));
                    Some(part)
                }
            };
        }
        if is_held { None } else { self.streams.pop() }
    }

    /// Whether [`take`](Self::take) would return something.
    pub(super) fn is_ready(&self, cumulative: u64, parts: Parts) -> bool {
        self.streams.is_ready() && !self.is_held(parts) || parts.wanted && self.has_part(cumulative)
    }

    /// Whether complete messages wait for the end of one that was taken in part. All of that one was sent before them, so
    /// it can arrive however full the buffer is.
    fn is_held(&self, parts: Parts) -> bool {
        match &self.fragments {
            Fragments::ByTsn(fragments) => !parts.mixed && fragments.is_begun(),
            Fragments::ById(_) => false,
        }
    }

    /// Messages that can be taken whole.
    pub(super) fn ready(&self) -> usize {
        self.streams.ready_len()
    }

    /// Whether a part of a message can be delivered. If the message is ordered, all earlier messages of its stream must
    /// have been delivered.
    fn has_part(&self, cumulative: u64) -> bool {
        match &self.fragments {
            Fragments::ByTsn(fragments) => fragments.open(cumulative).is_some_and(|run| {
                run.unordered || self.streams.is_next(run.stream, run.sequence())
            }),
            Fragments::ById(fragments) => fragments.has_part(),
        }
    }

    /// Whether a message is incomplete.
    pub(super) fn is_amid(&self) -> bool {
        match &self.fragments {
            Fragments::ByTsn(fragments) => !fragments.is_empty(),
            Fragments::ById(fragments) => !fragments.is_empty(),
        }
    }

    /// Memory of data that cannot be delivered yet.
    pub(super) fn held_charge(&self) -> usize {
        let fragments = match &self.fragments {
            Fragments::ByTsn(fragments) => fragments.charge(),
            Fragments::ById(fragments) => fragments.charge(),
        };
        fragments + self.streams.held_charge()
    }

    /// Drops data that cannot be delivered yet, reaches the TSN `from` and begins above `above`, if
    /// `may_drop` returns true for its TSNs and its charge.
    pub(super) fn drop_upper(
        &mut self,
        above: u64,
        from: u64,
        mut may_drop: impl FnMut(&Tsns, u32) -> bool,
    ) {
        match &mut self.fragments {
            Fragments::ByTsn(fragments) => fragments.drop_upper(above, from, &mut may_drop),
            Fragments::ById(fragments) => fragments.drop_upper(above, from, &mut may_drop),
        }
        self.streams.drop_upper(above, from, &mut may_drop);
    }

    /// Resets streams of the peer; see [`Streams::reset`].
    pub(super) fn reset(&mut self, streams: &StreamSet, deliverable: impl FnMut(u64, u64)) {
        self.streams.reset(streams, deliverable);
    }

    /// Whether an ordered message can still come; see [`Streams::may_come`].
    pub(super) fn may_come(&self, stream: u16, number: u32, tsn: u64, cumulative: u64) -> bool {
        self.streams.may_come(stream, number, tsn, cumulative)
    }

    /// Drops the incomplete messages of I-DATA chunks that begin before the TSN `first`.
    pub(super) fn take_incomplete(&mut self, first: u64) -> Vec<(Id, Dropped)> {
        match &mut self.fragments {
            Fragments::ByTsn(_) => Vec::new(),
            Fragments::ById(fragments) => fragments.take_earlier(first),
        }
    }

    /// Whether the association uses I-DATA chunks.
    pub(super) fn is_interleaved(&self) -> bool {
        matches!(self.fragments, Fragments::ById(_))
    }

    /// Starts over with I-DATA or DATA chunks, as when the peer restarts: keeps deliverable data and drops the rest.
    pub(super) fn restart(&mut self, interleaved: bool) {
        self.fragments = match interleaved {
            true => Fragments::ById(Box::default()),
            false => Fragments::default(),
        };
        self.streams.restart(interleaved);
    }

    /// Frees memory that is not in use.
    pub(super) fn trim(&mut self) {
        self.streams.trim();
    }

    /// First and last TSN of data that cannot be delivered yet, for tests.
    #[cfg(any(test, feature = "invariants"))]
    pub(super) fn held_tsns(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let (by_tsn, by_id) = match &self.fragments {
            Fragments::ByTsn(fragments) => (Some(fragments.tsns()), None),
            Fragments::ById(fragments) => (None, Some(fragments.tsns())),
        };
        let fragments = by_tsn.into_iter().flatten().chain(by_id.into_iter().flatten());
        fragments.chain(self.streams.held_tsns())
    }

    /// Memory of messages that can be taken, for tests.
    #[cfg(any(test, feature = "invariants"))]
    pub(super) fn ready_charge(&self) -> usize {
        self.streams.ready_charge()
    }
}
