//! Processes FORWARD TSN and I-FORWARD-TSN chunks: the peer has given up messages (RFC 3758 section 3.6, RFC 8260
//! section 2.3.1).

use anabranch_wire::{Cause, ForwardTsn, IForwardTsn};

use super::Association;
use crate::event::{CloseReason, Notification};
use crate::per_path::PathId;
use crate::receive::delayed_ack::DataPacket;
use crate::receive::{CutShort, Receiver};

impl Association {
    /// Processes a FORWARD TSN; `false` if the association ended.
    pub(super) fn on_forward_tsn(
        &mut self,
        path: PathId,
        forward: &ForwardTsn<'_>,
        seen: &mut DataPacket,
    ) -> bool {
        let (point, streams) = (forward.new_cumulative_tsn, forward.streams.iter());
        self.skip(path, seen, |receiver| receiver.skip(point, streams))
    }

    /// Processes an I-FORWARD-TSN; `false` if the association ended.
    pub(super) fn on_i_forward_tsn(
        &mut self,
        path: PathId,
        forward: &IForwardTsn<'_>,
        seen: &mut DataPacket,
    ) -> bool {
        let (point, messages) = (forward.new_cumulative_tsn, forward.streams.iter());
        self.skip(path, seen, |receiver| receiver.skip_interleaved(point, messages))
    }

    fn skip(
        &mut self,
        path: PathId,
        seen: &mut DataPacket,
        skip: impl FnOnce(&mut Receiver) -> Result<bool, &'static str>,
    ) -> bool {
        if !self.state.takes_data() {
            return true;
        }
        seen.skips = true;
        seen.gap |= self.receiver.has_gaps();
        match skip(&mut self.receiver) {
            // req: rfc3758 3.6 "The receiver SHOULD send a SACK to its peer"
            Ok(news) => seen.duplicate |= !news,
            Err(what) => return self.on_violation(path, what),
        }
        self.tell_cut_short();
        true
    }

    /// Ends the association because the peer violated the protocol; returns `false`.
    pub(super) fn on_violation(&mut self, path: PathId, what: &'static str) -> bool {
        let mut cause = Vec::new();
        Cause::ProtocolViolation(what.as_bytes()).encode(&mut cause);
        self.abort_with(path, cause, CloseReason::ProtocolViolation(what));
        false
    }

    /// Reports partly delivered messages whose rest was given up.
    // req: rfc3758 3.6 "a notification SHOULD also be generated to inform the upper"
    pub(super) fn tell_cut_short(&mut self) {
        for CutShort { stream, sequence, unordered } in self.receiver.take_cut_short() {
            self.news.notify(Notification::PartialDeliveryAborted { stream, sequence, unordered });
        }
    }
}
