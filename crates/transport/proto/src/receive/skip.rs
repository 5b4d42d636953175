//! Skips what the peer has given up (RFC 3758 section 3.6).

use anabranch_wire::{SkippedMessage, SkippedStream, Tsn};

use super::Receiver;
use super::interleaved::{Dropped, Id};
use super::reassembly::{Run, Violation};
use super::tsn_map::MAX_OFFSET;
use super::tsns::Tsns;
use crate::marks::mark;
use crate::tsn;

/// A partly delivered message whose rest was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CutShort {
    pub(crate) stream: u16,
    /// Its SSN, or its message identifier.
    pub(crate) sequence: u32,
    pub(crate) unordered: bool,
}

impl Receiver {
    /// Sets whether the peer may give up what it has sent.
    pub(crate) fn allow_skipping(&mut self, allowed: bool) {
        self.may_skip = allowed;
    }

    /// Processes a FORWARD TSN. Returns whether it was news.
    ///
    /// # Errors
    /// It is beyond every TSN that the peer can have sent.
    // req: rfc3758 3.6 "MUST first update its cumulative TSN point to the value"
    pub(crate) fn skip(
        &mut self,
        new_cumulative: Tsn,
        streams: impl Iterator<Item = SkippedStream>,
    ) -> Result<bool, Violation> {
        let Some(point) = self.skip_to(new_cumulative)? else { return Ok(false) };
        self.drop_broken(point);
        for skipped in streams {
            if skipped.stream < self.inbound_streams {
                self.skip_messages(skipped.stream, skipped.ssn.0.into());
            }
        }
        self.end_skip()?;
        Ok(true)
    }

    /// Processes an I-FORWARD-TSN (RFC 8260 section 2.3.1). Returns whether it was news. Messages that it does not name
    /// keep their fragments.
    ///
    /// # Errors
    /// It is beyond every TSN that the peer can have sent.
    pub(crate) fn skip_interleaved(
        &mut self,
        new_cumulative: Tsn,
        messages: impl Iterator<Item = SkippedMessage>,
    ) -> Result<bool, Violation> {
        if self.skip_to(new_cumulative)?.is_none() {
            return Ok(false);
        }
        for SkippedMessage { stream, unordered, mid } in messages {
            if stream >= self.inbound_streams {
                continue;
            }
            for (id, dropped) in self.assembler.take_skipped((stream, unordered, mid)) {
                self.drop_skipped(id, &dropped);
            }
            if !unordered {
                self.skip_messages(stream, mid);
            }
        }
        self.end_skip()?;
        Ok(true)
    }

    /// Considers all TSNs up to this one received. Returns it, or `None` if that is not news.
    fn skip_to(&mut self, new_cumulative: Tsn) -> Result<Option<u64>, Violation> {
        let before = self.map.cumulative();
        let point = tsn::unwrap(before, new_cumulative.0);
        // req: rfc3758 3.6 "the data receiver MUST treat this FORWARD TSN as out-of-date"
        if point <= before {
            mark!(ForwardTsnOld);
            return Ok(None);
        }
        if self.skips_too_early(point) {
            return Ok(None);
        }
        if point - before > MAX_OFFSET {
            return Err("a FORWARD TSN beyond the TSNs that can be acknowledged");
        }
        mark!(ForwardTsnReceived);
        // req: rfc3758 3.1 "the data receiver MUST consider any missing TSNs"
        // req: rfc3758 3.6 "the data receiver MUST stop reporting any missing TSNs"
        self.map.skip_to(point);
        Ok(Some(point))
    }

    fn end_skip(&mut self) -> Result<(), Violation> {
        if let Some(renegable) = &mut self.renegable {
            renegable.forget_up_to(self.map.cumulative());
        }
        self.end_deferral()
    }

    /// Accounts for an interleaved message that was dropped.
    pub(super) fn drop_skipped(&mut self, (stream, unordered, sequence): Id, dropped: &Dropped) {
        mark!(MessageSkipped);
        self.charge -= dropped.charge as usize;
        if let Some(renegable) = &mut self.renegable {
            for (first, last) in dropped.tsns.iter().flat_map(Tsns::ranges) {
                renegable.remove(first, last);
            }
        }
        if dropped.begun {
            self.tell_cut_short(CutShort { stream, sequence, unordered });
        }
    }

    /// Drops messages that can never become complete, because the peer has given up the rest; `point` is the highest
    /// TSN that it has told us to skip.
    ///
    /// A peer that does not send the end of a message may also begin the next one with the next TSN, and never tell us
    /// to skip anything.
    // req: rfc3758 3.6 "the data receiver MUST take cautions in updating its re-assembly queue"
    // req: rfc3758 3.6 "The receiver MUST remove any partially reassembled message"
    pub(super) fn drop_broken(&mut self, point: u64) {
        let cumulative = self.map.cumulative();
        while let Some(run) = self.assembler.take_broken(point, cumulative) {
            self.drop_run(&run);
        }
    }

    fn drop_run(&mut self, run: &Run) {
        mark!(MessageSkipped);
        self.charge -= run.charge() as usize;
        if run.is_begun() {
            let (stream, sequence, unordered) = (run.stream, run.sequence(), run.unordered);
            self.tell_cut_short(CutShort { stream, sequence, unordered });
        }
        if !run.unordered {
            self.skip_messages(run.stream, run.sequence());
        }
    }

    /// Delivers the messages of a stream up to this one as far as they are here, and no longer waits for the others.
    // req: rfc3758 3.6 "immediately make available for delivery stream sequence numbers"
    // req: rfc3758 3.6 "SHOULD be made immediately available to the upper layer"
    fn skip_messages(&mut self, stream: u16, sequence: u32) {
        let renegable = &mut self.renegable;
        self.assembler.skip(stream, sequence, |first, last| {
            if let Some(renegable) = renegable {
                renegable.remove(first, last);
            }
        });
    }

    /// Takes the partly delivered messages whose rest was given up.
    pub(crate) fn take_cut_short(&mut self) -> Vec<CutShort> {
        let Some(rare) = &mut self.rare else { return Vec::new() };
        let cut_short = std::mem::take(&mut rare.cut_short);
        self.rare.take_if(|rare| rare.is_empty());
        cut_short
    }

    fn tell_cut_short(&mut self, cut: CutShort) {
        self.rare.get_or_insert_default().cut_short.push(cut);
    }
}
