//! What a change of the streams means for the sender (RFC 6525).

use anabranch_wire::Tsn;

use super::Sender;
use crate::stream_set::StreamSet;
use crate::tsn;

impl Sender {
    /// Holds back further messages of these streams, while their sequence numbers are being reset.
    pub(crate) fn pause_streams(&mut self, streams: &StreamSet) {
        self.queue.pause(streams);
    }

    /// Whether all messages were sent that were given to the paused streams before.
    pub(crate) fn is_drained(&self) -> bool {
        self.queue.is_drained()
    }

    /// Whether messages wait for the end of a pause.
    pub(crate) fn holds_messages(&self) -> bool {
        self.queue.holds_messages()
    }

    /// Ends the pause of these streams; with `reset`, their next ordered messages have the SSN 0.
    pub(crate) fn resume_streams(&mut self, streams: &StreamSet, reset: bool) {
        self.queue.resume(streams, reset);
    }

    /// Whether the next ordered message of each of these streams has the SSN 0.
    pub(crate) fn streams_are_reset(&mut self, streams: &StreamSet) -> bool {
        self.queue.are_reset(streams)
    }

    /// The TSN of the next new chunk.
    pub(crate) fn next_tsn(&self) -> u64 {
        self.outstanding.next_tsn()
    }

    /// Continues with this TSN; nothing may be outstanding.
    pub(crate) fn jump_to(&mut self, next: Tsn) {
        self.outstanding.jump_to(tsn::at_least(self.outstanding.next_tsn(), next.0));
    }

    /// Adds streams on which this side may send.
    // req: rfc6525 5.1.5 "A new stream MUST use"
    pub(crate) fn add_streams(&mut self, count: u16) {
        self.queue.set_outbound_streams(self.queue.outbound_streams().saturating_add(count));
    }
}
