//! Resets of the peer's streams and of its TSNs (RFC 6525 section 5.2).

use super::Receiver;
use super::reassembly::{Fragment, Violation};
use super::renegable::Renegable;
use super::tsn_map::{MAX_OFFSET, TsnMap};
use crate::marks::mark;
use crate::stream_set::StreamSet;
use crate::tsn;

/// A reset that waits until everything has arrived that was sent before it.
#[derive(Debug)]
pub(super) struct Deferred {
    /// The last TSN that was sent before.
    last_tsn: u64,
    streams: StreamSet,
    /// Chunks of these streams that were sent after it.
    chunks: Vec<Fragment>,
}

impl Deferred {
    /// Memory of the chunks that wait.
    fn charge(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.charge as usize).sum()
    }
}

impl Receiver {
    /// The first TSN of the peer.
    pub(crate) fn first_tsn(&self) -> u32 {
        self.first_tsn
    }

    /// Resets these streams of the peer, which has assigned the TSNs up to `last_tsn`. Returns whether that is done;
    /// otherwise it is done as soon as these TSNs have arrived, and [`is_deferring`](Self::is_deferring) tells when.
    ///
    /// # Errors
    /// The peer cannot have assigned that TSN.
    // req: rfc6525 5.2.2 "the endpoint MUST enter"
    pub(crate) fn reset_streams(
        &mut self,
        last_tsn: u32,
        streams: &StreamSet,
    ) -> Result<bool, Violation> {
        let cumulative = self.map.cumulative();
        let last_tsn = tsn::unwrap(cumulative, last_tsn);
        if last_tsn <= cumulative && !self.keeps_some_up_to(last_tsn) {
            self.reset_now(streams);
            return Ok(true);
        }
        if last_tsn > cumulative + MAX_OFFSET {
            return Err("a reset after TSNs that cannot be acknowledged");
        }
        mark!(ResetDeferred);
        let deferred = Deferred { last_tsn, streams: streams.clone(), chunks: Vec::new() };
        self.rare.get_or_insert_default().deferred = Some(deferred);
        Ok(false)
    }

    /// Whether a reset waits for data.
    pub(crate) fn is_deferring(&self) -> bool {
        self.deferred().is_some()
    }

    fn deferred(&self) -> Option<&Deferred> {
        self.rare.as_ref()?.deferred.as_ref()
    }

    fn take_deferred(&mut self) -> Option<Deferred> {
        let deferred = self.rare.as_mut()?.deferred.take();
        self.rare.take_if(|rare| rare.is_empty());
        deferred
    }

    /// Whether a chunk was sent after a reset of its stream that was not done yet.
    #[inline]
    pub(super) fn follows_reset(&self, tsn: u64, stream: u16) -> bool {
        self.deferred()
            .is_some_and(|deferred| tsn > deferred.last_tsn && deferred.streams.has(stream))
    }

    /// Keeps a chunk if it was sent after a reset that was not done yet, or perhaps after one of the TSNs.
    // req: rfc6525 5.2.2 "stream(s) MUST be queued locally and held until the cumulative"
    #[inline]
    pub(super) fn hold_back(&mut self, chunk: Fragment) -> Option<Fragment> {
        if self.rare.is_none() {
            return Some(chunk);
        }
        let chunk = self.await_answer(chunk)?;
        self.defer(chunk)
    }

    /// Keeps a chunk if it was sent after a reset of its stream that was not done yet.
    pub(super) fn defer(&mut self, chunk: Fragment) -> Option<Fragment> {
        match self.rare.as_mut().and_then(|rare| rare.deferred.as_mut()) {
            Some(deferred)
                if chunk.tsn > deferred.last_tsn && deferred.streams.has(chunk.stream) =>
            {
                deferred.chunks.push(chunk);
                None
            }
            _ => Some(chunk),
        }
    }

    /// Does a reset that has waited, if everything has arrived that was sent before it.
    ///
    /// # Errors
    /// The chunks that were sent after it contradict each other.
    // req: rfc6525 5.2.2 "Any queued TSNs (queued at step E2) MUST now be released and"
    pub(super) fn end_deferral(&mut self) -> Result<(), Violation> {
        let cumulative = self.map.cumulative();
        let is_over = |waits: &Deferred| {
            waits.last_tsn <= cumulative && !self.keeps_some_up_to(waits.last_tsn)
        };
        if !self.deferred().is_some_and(is_over) {
            return Ok(());
        }
        let Some(deferred) = self.take_deferred() else { return Ok(()) };
        self.reset_now(&deferred.streams);
        self.release_chunks(deferred.chunks)
    }

    // req: rfc6525 5.2.2 "incoming streams MUST be reset to 0 as the next expected SSN"
    // req: rfc6525 5.2.2 "streams MUST be reset to 0, and all other non-listed SSNs remain"
    fn reset_now(&mut self, streams: &StreamSet) {
        mark!(StreamsReset);
        let renegable = &mut self.renegable;
        self.assembler.reset(streams, |first, last| {
            if let Some(renegable) = renegable {
                renegable.remove(first, last);
            }
        });
    }

    /// Expects this TSN next, which is above all that have arrived, and SSN 0 on all streams. What can never
    /// become complete is dropped, and all other messages are delivered.
    // req: rfc6525 5.2.4 "The same processing as though a FWD-TSN chunk"
    // req: rfc6525 5.2.7 "All incoming streams MUST be reset to 0 as the next expected SSN."
    pub(crate) fn reset_tsns(&mut self, first: u64) {
        self.reset_messages(self.map.highest() + 1);
        self.map = TsnMap::new(first);
        if let Some(renegable) = &mut self.renegable {
            **renegable = Renegable::default();
        }
    }

    /// Does what a reset of the TSNs means for messages. Those that begin with the TSN `first` or later were sent after
    /// it, and are kept.
    pub(super) fn reset_messages(&mut self, first: u64) {
        if let Some(deferred) = self.take_deferred() {
            self.charge -= deferred.charge();
        }
        self.drop_broken(first - 1);
        for (id, dropped) in self.assembler.take_incomplete(first) {
            self.drop_skipped(id, &dropped);
        }
        self.reset_now(&StreamSet::All);
        self.forget_marks();
    }

    /// Adds streams on which the peer may send.
    // req: rfc6525 5.1.6 "A new stream MUST use SSN 0 for its first ordered"
    // req: rfc6525 5.2.5 "the receiver MUST add the requested number of inbound streams to the"
    pub(crate) fn add_streams(&mut self, count: u16) {
        self.inbound_streams = self.inbound_streams.saturating_add(count);
    }

    /// Forgets resets that wait for data or for an answer, because the peer has lost its state. Returns the memory of
    /// what they held.
    pub(super) fn drop_deferral(&mut self) -> usize {
        let awaited = self.take_awaited().map_or(0, |awaited| awaited.charge());
        awaited + self.take_deferred().map_or(0, |deferred| deferred.charge())
    }

    /// Memory of chunks that wait for a reset, for tests.
    #[cfg(any(test, feature = "invariants"))]
    pub(super) fn deferred_charge(&self) -> usize {
        let awaited = self.awaited().map_or(0, super::awaited::Awaited::charge);
        awaited + self.deferred().map_or(0, Deferred::charge)
    }

    /// TSNs of chunks that wait for a reset, for tests.
    #[cfg(any(test, feature = "invariants"))]
    pub(super) fn deferred_tsns(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let chunks = self.deferred().into_iter().flat_map(|deferred| &deferred.chunks);
        let awaited = self.awaited().into_iter().flat_map(|awaited| &awaited.chunks);
        chunks.chain(awaited).map(|chunk| (chunk.tsn, chunk.tsn))
    }
}
