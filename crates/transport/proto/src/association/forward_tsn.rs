//! Processes FORWARD TSN chunks: the peer has given up messages (RFC 3758 section 3.6).

use anabranch_wire::{Cause, ForwardTsn};

use super::Association;
use crate::event::{CloseReason, Notification};
use crate::per_path::PathId;
use crate::receive::delayed_ack::DataPacket;

impl Association {
    /// Processes a FORWARD TSN; `false` if the association ended.
    pub(super) fn on_forward_tsn(
        &mut self,
        path: PathId,
        forward: &ForwardTsn<'_>,
        seen: &mut DataPacket,
    ) -> bool {
        if !self.state.takes_data() {
            return true;
        }
        seen.skips = true;
        seen.gap |= self.receiver.has_gaps();
        match self.receiver.skip(forward.new_cumulative_tsn, forward.streams.iter()) {
            // req: rfc3758 3.6 "The receiver SHOULD send a SACK to its peer"
            Ok(news) => seen.duplicate |= !news,
            Err(what) => {
                let mut cause = Vec::new();
                Cause::ProtocolViolation(what.as_bytes()).encode(&mut cause);
                self.abort_with(path, cause, CloseReason::ProtocolViolation(what));
                return false;
            }
        }
        self.tell_cut_short();
        true
    }

    /// Reports a partly delivered message whose rest was given up.
    // req: rfc3758 3.6 "a notification SHOULD also be generated to inform the upper"
    pub(super) fn tell_cut_short(&mut self) {
        if let Some(cut) = self.receiver.take_cut_short() {
            self.news.notify(Notification::PartialDeliveryAborted {
                stream: cut.stream,
                ssn: cut.ssn,
                unordered: cut.unordered,
            });
        }
    }
}
