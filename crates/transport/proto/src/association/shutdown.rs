//! Ends an association (RFC 9260 section 9).

use anabranch_wire::{Cause, GapBlocks, NrSack, Tsn, TsnList};

use super::state::{Repeat, State};
use super::{Association, Control};
use crate::event::{CloseReason, Notification};
use crate::marks::mark;
use crate::per_path::PathId;
use crate::time::Instant;

/// Duration of T5-shutdown-guard, as a multiple of RTO.Max.
const GUARD: u32 = 5;

/// State of the end of an association.
#[derive(Debug, Default)]
pub(super) struct Ending {
    /// When T5-shutdown-guard expires.
    pub(super) guard: Option<Instant>,
    /// The user has requested a shutdown, which continues if the peer restarts.
    pub(super) wanted: bool,
    /// The association has ended, and the peer waits for SHUTDOWN COMPLETE, which may be lost.
    pub(super) peer_waits: bool,
}

impl Association {
    pub(super) fn user_shutdown(&mut self, now: Instant) {
        match self.state {
            State::Established => {
                self.stop_reconfiguration(now, false);
                self.stop_readdressing();
                self.state = State::ShutdownPending;
                self.sender.end();
                if self.awaits_answer() {
                    self.guard(now);
                }
                self.advance_shutdown(now);
            }
            // Nothing was promised yet: the peer has no state, or will notice.
            State::CookieWait { .. } => self.close(CloseReason::LocalAbort),
            State::CookieEchoed { .. } => {
                self.user_abort(now, b"closed before the association was up");
            }
            // req: rfc9260 9.2 "it MUST ignore ULP shutdown requests but MUST"
            State::ShutdownPending
            | State::ShutdownSent { .. }
            | State::ShutdownReceived
            | State::ShutdownAckSent { .. }
            | State::Closed => {}
        }
    }

    pub(super) fn user_abort(&mut self, _now: Instant, reason: &[u8]) {
        if self.is_closed() {
            return;
        }
        if self.identity.peer_tag == 0 {
            self.outbox.chunks.clear();
            self.close(CloseReason::LocalAbort);
            return;
        }
        let mut cause = Vec::new();
        // req: rfc9260 9.1 "cause (see Section 3.3.10.12) SHOULD be present"
        Cause::UserInitiatedAbort(&reason[..reason.len().min(512)]).encode(&mut cause);
        self.abort_with(self.paths.active(), cause, CloseReason::LocalAbort);
    }

    /// Starts T5-shutdown-guard, or restarts it because of progress: the sender of SHUTDOWN waits
    /// for the data that the peer still has, however long that takes over a slow link. The receiver
    /// of SHUTDOWN has no guard, because it continues until everything is acknowledged. Before SHUTDOWN is sent, the
    /// guard runs only while the peer owes the answer to a request.
    // req: rfc9260 9.2 "sender of the SHUTDOWN chunk MAY also start"
    // req: rfc9260 9.2 "SHOULD be set to the RECOMMENDED value of"
    pub(super) fn guard(&mut self, now: Instant) {
        self.ending.guard = Some(now + self.config.timers.rto_max * GUARD);
    }

    /// Takes the next step once nothing is left to be sent or acknowledged.
    pub(super) fn advance_shutdown(&mut self, now: Instant) {
        // req: rfc9260 9.2 "SHOULD ensure that all its outstanding DATA"
        if !self.sender.is_done() {
            return;
        }
        match self.state {
            // The answer to a request may change the TSNs.
            State::ShutdownPending if self.awaits_answer() => {}
            // req: rfc9260 9.2 "SHOULD then start the T2-shutdown timer and enter"
            State::ShutdownPending => {
                self.stop_heartbeats();
                self.state = State::ShutdownSent { t2: self.t2(now) };
                self.guard(now);
                // req: rfc9260 3.3.8 "MUST use this chunk to initiate a"
                self.queue(self.paths.active(), Control::Shutdown);
                // The SHUTDOWN does not carry the receive window.
                if self.receiver.is_narrower_than_announced() {
                    self.acknowledger.request();
                }
            }
            // req: rfc9260 9.2 "the SHUTDOWN chunk receiver MUST send a SHUTDOWN"
            State::ShutdownReceived => {
                self.stop_heartbeats();
                self.state = State::ShutdownAckSent { t2: self.t2(now) };
                // req: rfc9260 3.3.9 "MUST be used to acknowledge the receipt"
                // req: rfc9260 6.4 "destination transport address from which it received the"
                let answer = if self.paths[self.acknowledger.path].is_active() {
                    self.acknowledger.path
                } else {
                    self.paths.active()
                };
                self.queue(answer, Control::ShutdownAck);
            }
            _ => {}
        }
    }

    fn t2(&self, now: Instant) -> Repeat {
        Repeat::new(now, self.paths[self.paths.active()].rtt.rto(), self.paths.active())
    }

    /// Handles data that arrives in SHUTDOWN-SENT: answers with a SHUTDOWN immediately.
    // req: rfc9260 9.2 "the SHUTDOWN chunk sender MUST"
    // req: rfc9260 4 "MUST acknowledge any received DATA chunks without delay"
    pub(super) fn repeat_shutdown(&mut self, now: Instant, with_sack: bool) {
        if let State::ShutdownSent { t2 } = &mut self.state {
            mark!(ShutdownRepeatedForData);
            t2.deadline = now + t2.interval;
        }
        if !self.outbox.chunks.iter().any(|(_, control)| matches!(control, Control::Shutdown)) {
            self.queue(self.acknowledger.path, Control::Shutdown);
        }
        // req: rfc9260 9.2 "then a SACK chunk MUST also be sent"
        if !with_sack {
            // The SHUTDOWN acknowledges all received data.
            self.acknowledger.sent();
        }
    }

    /// Handles a SHUTDOWN.
    pub(super) fn on_shutdown(&mut self, now: Instant, path: PathId, cumulative: Tsn) {
        match self.state {
            // req: rfc9260 9.2 "the SHUTDOWN chunk SHOULD be silently discarded"
            State::CookieWait { .. } | State::CookieEchoed { .. } | State::Closed => return,
            State::Established | State::ShutdownPending => {
                if let State::ShutdownPending = self.state {
                    mark!(ShutdownReceivedPending);
                }
                self.acknowledger.path = self.reply_path(path);
                self.on_shutdown_ack_point(now, path, cumulative);
                if self.is_closed() {
                    return;
                }
                // RFC 9260 section 9.2: from here on, no new data is accepted from the user.
                self.stop_reconfiguration(now, true);
                self.stop_readdressing();
                self.state = State::ShutdownReceived;
                self.sender.end();
                self.news.notify(Notification::PeerShutdown);
            }
            State::ShutdownReceived => self.on_shutdown_ack_point(now, path, cumulative),
            // req: rfc9260 9.2 "respond immediately with a"
            State::ShutdownSent { .. } => {
                mark!(ShutdownCollision);
                self.outbox.chunks.retain(|(_, control)| !matches!(control, Control::Shutdown));
                self.state = State::ShutdownAckSent { t2: self.t2(now) };
                self.queue(self.reply_path(path), Control::ShutdownAck);
                return;
            }
            State::ShutdownAckSent { .. } => {
                self.queue(self.reply_path(path), Control::ShutdownAck);
                return;
            }
        }
        self.advance_shutdown(now);
    }

    /// Processes the cumulative TSN of a SHUTDOWN like that of a SACK without a window. But a TSN
    /// that was never sent is ignored here, because pion/sctp and its derivatives put one of their
    /// own TSNs there.
    // req: rfc9260 3.3.8 "MUST NOT interpret the lack of a Gap"
    fn on_shutdown_ack_point(&mut self, now: Instant, path: PathId, cumulative: Tsn) {
        if !self.sender.has_sent(cumulative) {
            return;
        }
        let acknowledgement = NrSack {
            cumulative_tsn_ack: cumulative,
            a_rwnd: self.sender.window_without_word(),
            gap_blocks: GapBlocks::default(),
            nr_gap_blocks: GapBlocks::default(),
            duplicate_tsns: TsnList::default(),
        };
        self.on_acknowledgement(now, path, &acknowledgement, false, 0);
    }

    /// Handles a SHUTDOWN ACK.
    pub(super) fn on_shutdown_ack(&mut self, path: PathId) {
        // req: rfc9260 9.2 "sender of the SHUTDOWN chunk"
        // req: rfc9260 9.2 "receives a SHUTDOWN ACK, it MUST stop the"
        if let State::ShutdownSent { .. } | State::ShutdownAckSent { .. } = self.state {
            self.outbox.chunks.clear();
            self.queue(self.reply_path(path), Control::ShutdownComplete);
            self.ending.peer_waits = true;
            self.close(CloseReason::Shutdown);
        }
    }

    /// Handles a SHUTDOWN COMPLETE.
    pub(super) fn on_shutdown_complete(&mut self) {
        // req: rfc9260 8.5.1 "An endpoint MUST ignore the SHUTDOWN COMPLETE chunk"
        // req: rfc9260 9.2 "if it is not, the chunk SHOULD"
        // req: rfc9260 9.2 "SHOULD stop the T2-shutdown timer and"
        if let State::ShutdownAckSent { .. } = self.state {
            self.outbox.chunks.clear();
            self.close(CloseReason::Shutdown);
        }
    }

    /// Ends the association because the peer no longer has it: it reflected the tag of a packet, or its host says that
    /// nothing there takes such packets. That is the end for `reason`, except in SHUTDOWN-ACK-SENT. There, both sides
    /// have delivered all data: the peer has finished, and its SHUTDOWN COMPLETE was lost.
    pub(super) fn peer_is_gone(&mut self, reason: CloseReason) {
        self.outbox.chunks.clear();
        let finished = matches!(self.state, State::ShutdownAckSent { .. });
        if finished {
            mark!(ShutdownCompleteLost);
        }
        self.close(if finished { CloseReason::Shutdown } else { reason });
    }

    /// Handles the expiry of T2-shutdown.
    pub(super) fn on_t2(&mut self, now: Instant) {
        let (t2, control) = match &mut self.state {
            State::ShutdownSent { t2 } => (t2, Control::Shutdown),
            State::ShutdownAckSent { t2 } => (t2, Control::ShutdownAck),
            _ => return,
        };
        // req: rfc9260 9.2 "An endpoint SHOULD limit the number of retransmissions"
        // req: rfc9260 9.2 "SHOULD limit the number of retransmissions of"
        // req: rfc9260 9.2 "SHOULD destroy the TCB and SHOULD report"
        if t2.count >= self.config.paths.association_max_retrans {
            mark!(ShutdownGivenUp);
            self.close(CloseReason::Unreachable);
            return;
        }
        match control {
            Control::Shutdown => mark!(ShutdownRetransmitted),
            _ => mark!(ShutdownAckRetransmitted),
        }
        let failed = t2.path;
        let next =
            crate::policy::next_for_control(&self.paths, failed).unwrap_or(self.paths.active());
        // req: rfc9260 9.2 "MUST resend the SHUTDOWN chunk with the updated"
        // req: rfc9260 9.2 "MUST resend the SHUTDOWN ACK chunk"
        // req: rfc9260 9.2 "MUST be followed to determine the proper"
        t2.again(now, self.config.timers.rto_max, next);
        self.outbox
            .chunks
            .retain(|(_, queued)| !matches!(queued, Control::Shutdown | Control::ShutdownAck));
        self.queue(next, control);
        self.count_path_error(now, failed);
    }

    /// Handles the expiry of T5-shutdown-guard.
    // req: rfc9260 9.2 "SHOULD abort the association by sending an"
    pub(super) fn on_t5(&mut self) {
        mark!(ShutdownGuard);
        let mut cause = Vec::new();
        Cause::ProtocolViolation(b"shutdown takes too long").encode(&mut cause);
        self.abort_with(self.paths.active(), cause, CloseReason::ShutdownTimeout);
    }
}
