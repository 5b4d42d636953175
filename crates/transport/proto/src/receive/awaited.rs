//! A reset of the peer's TSNs for which this side has asked (RFC 6525 section 5.2.7).
//!
//! The answer may be lost or overtaken, so what arrives before it may have been sent before the reset or after it, and the
//! peer goes on with the TSN after its last one. Data that certainly was sent after it is not accepted yet. Other data is
//! acknowledged, because the peer may wait for that, and kept until the answer tells.

use super::Receiver;
use super::reassembly::{Fragment, Violation};
use crate::tsn;
use crate::user_data::UserData;

/// A reset of the TSNs, until the peer has answered.
#[derive(Debug)]
pub(super) struct Awaited {
    /// The highest TSN when this side asked for the reset.
    asked: u64,
    /// All chunks up to this TSN were sent before the reset.
    before: u64,
    /// The cumulative TSN then: messages above it may not have reached their streams.
    cumulative: u64,
    /// The highest TSN of a FORWARD TSN that may have been sent after the reset, and was ignored.
    skipped: u64,
    /// The lowest TSN of a chunk that was sent after the reset.
    after: Option<u64>,
    /// Chunks that may have been sent before or after the reset.
    pub(super) chunks: Vec<Fragment>,
}

impl Awaited {
    /// Memory of the chunks.
    pub(super) fn charge(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.charge as usize).sum()
    }
}

impl Receiver {
    /// The peer was asked to reset its TSNs.
    pub(crate) fn expect_tsn_reset(&mut self) {
        let (before, cumulative) = (self.map.highest(), self.map.cumulative());
        let (skipped, chunks) = (before, Vec::new());
        let (asked, after) = (before, None);
        let awaited = Awaited { asked, before, cumulative, skipped, after, chunks };
        self.rare.get_or_insert_default().awaited = Some(awaited);
    }

    pub(super) fn awaited(&self) -> Option<&Awaited> {
        self.rare.as_ref()?.awaited.as_ref()
    }

    pub(super) fn take_awaited(&mut self) -> Option<Awaited> {
        let awaited = self.rare.as_mut()?.awaited.take();
        self.rare.take_if(|rare| rare.is_empty());
        awaited
    }

    /// Whether a chunk was certainly sent after the reset, because its number cannot be one from before. It comes again
    /// when the answer has come.
    pub(super) fn comes_too_early(&mut self, tsn: u64, data: &UserData<'_>) -> bool {
        let awaited = self.rare.as_mut().and_then(|rare| rare.awaited.as_mut());
        let Some(awaited) = awaited.filter(|awaited| tsn > awaited.before) else { return false };
        let may_be_old = data.flags.unordered()
            || self.assembler.may_come(data.stream, data.sequence, tsn, awaited.cumulative);
        if !may_be_old {
            awaited.after = Some(awaited.after.map_or(tsn, |after| after.min(tsn)));
        }
        awaited.after.is_some_and(|after| tsn >= after)
    }

    /// Keeps a chunk that may have been sent after the reset.
    pub(super) fn await_answer(&mut self, chunk: Fragment) -> Option<Fragment> {
        match self.rare.as_mut().and_then(|rare| rare.awaited.as_mut()) {
            Some(awaited) if chunk.tsn > awaited.before => {
                awaited.chunks.push(chunk);
                None
            }
            _ => Some(chunk),
        }
    }

    /// Whether parts of messages may be among the chunks that wait for the answer.
    #[inline]
    pub(super) fn keeps_chunks(&self) -> bool {
        self.rare.is_some() && self.awaited().is_some_and(|awaited| !awaited.chunks.is_empty())
    }

    /// Whether chunks up to this TSN may be among those that wait for the answer.
    pub(super) fn keeps_some_up_to(&self, tsn: u64) -> bool {
        self.awaited().is_some_and(|awaited| awaited.before < tsn)
    }

    /// Whether a FORWARD TSN may have been sent after the reset. It comes again when the answer has come.
    pub(super) fn skips_too_early(&mut self, point: u64) -> bool {
        match self.rare.as_mut().and_then(|rare| rare.awaited.as_mut()) {
            Some(awaited) if point > awaited.before => {
                awaited.skipped = awaited.skipped.max(point);
                true
            }
            _ => false,
        }
    }

    /// The peer says that it has not reset its TSNs yet: what has arrived was sent before.
    ///
    /// # Errors
    /// The chunks contradict others.
    pub(crate) fn on_tsn_reset_in_progress(&mut self) -> Result<(), Violation> {
        let (highest, cumulative) = (self.map.highest(), self.map.cumulative());
        let awaited = self.rare.as_mut().and_then(|rare| rare.awaited.as_mut());
        // Otherwise the peer has done it since, and other data has overtaken its word.
        let Some(awaited) = awaited.filter(|awaited| awaited.after.is_none()) else {
            return Ok(());
        };
        awaited.before = highest.max(awaited.skipped);
        awaited.cumulative = cumulative;
        let chunks = std::mem::take(&mut awaited.chunks);
        self.release_old(chunks)
    }

    /// The peer does not reset its TSNs.
    ///
    /// # Errors
    /// The chunks that have waited contradict others.
    pub(crate) fn keep_tsns(&mut self) -> Result<(), Violation> {
        let chunks = self.take_awaited().map(|awaited| awaited.chunks);
        self.release_old(chunks.unwrap_or_default())
    }

    /// The peer has reset its TSNs; the first chunk that it has sent since has the TSN `next`. All streams begin with
    /// number 0.
    ///
    /// # Errors
    /// The chunks that have waited contradict others.
    pub(crate) fn adopt_tsns(&mut self, next: u32) -> Result<(), Violation> {
        let (highest, cumulative) = (self.map.highest(), self.map.cumulative());
        let (asked, chunks) =
            self.take_awaited().map_or((highest, Vec::new()), |it| (it.asked, it.chunks));
        // RFC 6525 section 5.2.4, E3: the peer should go on with the next TSN. Data may have overtaken its earlier word
        // that it works on it, and was taken for older then.
        let first = tsn::unwrap(asked + 1, next);
        if first <= asked || first > highest + 1 {
            self.release_old(chunks)?;
            self.reset_tsns(tsn::at_least(cumulative + 1, next));
            return Ok(());
        }
        let (old, new) = chunks.into_iter().partition(|chunk| chunk.tsn < first);
        self.release_old(old)?;
        self.reset_messages(first);
        if first > cumulative + 1 {
            self.map.skip_to(first - 1);
        }
        if let Some(renegable) = &mut self.renegable {
            renegable.forget_up_to(first - 1);
        }
        self.release_chunks(new)
    }

    /// Processes chunks that were sent before the reset. A reset of streams may have waited for them.
    fn release_old(&mut self, chunks: Vec<Fragment>) -> Result<(), Violation> {
        self.release_chunks(chunks)?;
        self.end_deferral()
    }

    /// Processes chunks that have waited.
    ///
    /// # Errors
    /// They contradict others.
    pub(super) fn release_chunks(&mut self, mut chunks: Vec<Fragment>) -> Result<(), Violation> {
        // All up to the cumulative TSN must find the messages before theirs delivered.
        chunks.sort_unstable_by_key(|chunk| chunk.tsn);
        for chunk in chunks {
            let Some(chunk) = self.defer(chunk) else { continue };
            // Meanwhile a FORWARD TSN may have skipped its message.
            if self.may_skip && self.assembler.has_passed_chunk(&chunk) {
                self.charge -= chunk.charge as usize;
                if let Some(renegable) = &mut self.renegable {
                    renegable.remove(chunk.tsn, chunk.tsn);
                }
            } else if let Some(whole) = self.assembler.add(chunk, self.may_skip)? {
                self.deliver(whole)?;
            }
        }
        // Only now, because the next chunk may complete a message.
        self.verify()
    }
}
