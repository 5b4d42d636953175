//! Skips what the peer has given up (RFC 3758 section 3.6).

use anabranch_wire::{SkippedStream, Tsn};

use super::Receiver;
use super::reassembly::{Run, Violation};
use super::tsn_map::MAX_OFFSET;
use crate::marks::mark;
use crate::tsn;

/// A partly delivered message whose rest was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CutShort {
    pub(crate) stream: u16,
    pub(crate) ssn: u16,
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
        let before = self.map.cumulative();
        let point = tsn::unwrap(before, new_cumulative.0);
        // req: rfc3758 3.6 "the data receiver MUST treat this FORWARD TSN as out-of-date"
        if point <= before {
            mark!(ForwardTsnOld);
            return Ok(false);
        }
        if point - before > MAX_OFFSET {
            return Err("a FORWARD TSN beyond the TSNs that can be acknowledged");
        }
        mark!(ForwardTsnReceived);
        // req: rfc3758 3.1 "the data receiver MUST consider any missing TSNs"
        // req: rfc3758 3.6 "the data receiver MUST stop reporting any missing TSNs"
        self.map.skip_to(point);
        self.drop_broken(point);
        for skipped in streams {
            if skipped.stream < self.inbound_streams {
                self.skip_messages(skipped.stream, skipped.ssn.0);
            }
        }
        if let Some(renegable) = &mut self.renegable {
            renegable.forget_up_to(self.map.cumulative());
        }
        Ok(true)
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
            let (stream, ssn, unordered) = (run.stream, run.ssn, run.unordered);
            // Only one message at a time is delivered in parts.
            self.cut_short = Some(CutShort { stream, ssn, unordered });
        }
        if !run.unordered {
            self.skip_messages(run.stream, run.ssn);
        }
    }

    /// Delivers the messages of a stream up to this one as far as they are here, and no longer waits for the others.
    // req: rfc3758 3.6 "immediately make available for delivery stream sequence numbers"
    // req: rfc3758 3.6 "SHOULD be made immediately available to the upper layer"
    fn skip_messages(&mut self, stream: u16, ssn: u16) {
        let renegable = &mut self.renegable;
        self.assembler.skip(stream, ssn, |first, last| {
            if let Some(renegable) = renegable {
                renegable.remove(first, last);
            }
        });
    }

    /// Takes a partly delivered message whose rest was given up.
    pub(crate) fn take_cut_short(&mut self) -> Option<CutShort> {
        self.cut_short.take()
    }
}
