//! Requests of this side (RFC 6525 sections 5.1 and 5.2.7).

use anabranch_wire::{HEADER_LEN, List, Parameter, Tsn};
use bytes::Bytes;

use super::answer::{result, trimmed};
use super::{Asked, Reconfiguration, Request};
use crate::association::state::State;
use crate::association::{Association, Control};
use crate::marks::mark;
use crate::path::Path;
use crate::per_path::PathId;
use crate::policy;
use crate::reconfiguration::ReconfigurationResult;
use crate::time::Instant;
use crate::tsn;

/// Bytes of a chunk header.
const CHUNK_HEADER: usize = 4;
/// Bytes of the requests for resets without their streams.
const OUTGOING: usize = 16;
const INCOMING: usize = 8;

/// Why the association cannot continue after an answer.
pub(super) type Violation = &'static str;

impl Reconfiguration {
    /// Stops waiting for answers.
    pub(super) fn end_outstanding(&mut self) {
        self.requests.on_answer(self.requests.next().wrapping_sub(1));
        self.excused = false;
        self.unanswered = 0;
    }
}

impl Association {
    /// Sends the next request of the user, if none is outstanding.
    // req: rfc6525 5.1.1 "the chunk MUST be buffered"
    pub(super) fn ask_next(&mut self, now: Instant, state: &mut Reconfiguration) {
        if !state.requests.is_free() || !matches!(self.state, State::Established) {
            return;
        }
        let requests = self.next_requests(now, state);
        if requests.is_empty() {
            return;
        }
        let chunk = self.begin_requests(state, requests, None);
        self.send_re_config(now, self.paths.active(), state, chunk);
    }

    /// The requests that go into the next chunk: two resets, or both kinds of more streams, or new TSNs. While the peer
    /// waits for a request of this side, nothing that needs one of the peer: otherwise each would wait for the other one,
    /// and may send only one at a time.
    // req: rfc6525 5.1.2 "It MUST NOT be put together with any other parameter"
    // req: rfc6525 5.1.3 "Reset Request Parameter but MUST NOT be put together with any"
    // req: rfc6525 5.1.4 "There MUST NOT be any other parameter in this chunk"
    fn next_requests(&mut self, now: Instant, state: &mut Reconfiguration) -> Vec<Request> {
        let mut requests = Vec::new();
        let asks_peer = !state.peer.wants_request();
        let packet = self.paths.iter().map(Path::packet_size).min().unwrap_or(512);
        let room = packet.saturating_sub(HEADER_LEN + CHUNK_HEADER + OUTGOING);
        if !state.wishes.outgoing.is_empty() {
            if self.is_settled(state) {
                let streams = state.wishes.outgoing.take(room / 2);
                let used = 2 * streams.list().len() + 2 + INCOMING;
                let fits = asks_peer && used + 2 * state.wishes.incoming.list().len() <= room;
                requests.push(Request::Outgoing(streams));
                if state.wishes.outgoing.is_empty() && !state.wishes.incoming.is_empty() && fits {
                    requests.push(Request::Incoming(std::mem::take(&mut state.wishes.incoming)));
                }
            }
        } else if asks_peer && !state.wishes.incoming.is_empty() {
            requests.push(Request::Incoming(state.wishes.incoming.take(room / 2)));
        }
        if requests.is_empty() {
            let outgoing = std::mem::take(&mut state.wishes.add_outgoing);
            let incoming = match asks_peer {
                true => std::mem::take(&mut state.wishes.add_incoming),
                false => 0,
            };
            requests.extend((outgoing > 0).then_some(Request::AddOutgoing(outgoing)));
            requests.extend((incoming > 0).then_some(Request::AddIncoming(incoming)));
        }
        // req: rfc6525 5.1.4 "The sender MUST queue any user"
        if requests.is_empty()
            && state.wishes.tsns
            && self.is_settled(state)
            && self.sender.has_all_acknowledged()
        {
            state.wishes.tsns = false;
            state.tsns_reset = Some(now);
            self.receiver.expect_tsn_reset();
            requests.push(Request::Tsns);
        }
        requests
    }

    /// Numbers requests and returns the chunk with them. `response`: the number of the peer's request that they answer.
    // req: rfc6525 5.1.2 "MUST then be incremented by 1"
    // req: rfc6525 5.1.3 "request sequence number MUST be incremented by 1"
    // req: rfc6525 5.1.4 "number MUST be incremented by 1"
    pub(super) fn begin_requests(
        &mut self,
        state: &mut Reconfiguration,
        requests: Vec<Request>,
        response: Option<u32>,
    ) -> Bytes {
        let mut value = Vec::new();
        let first = state.requests.next();
        let mut count = 0;
        for what in requests {
            let number = first.wrapping_add(count);
            count += 1;
            self.encode_request(state, number, &what, response, &mut value);
            state.asked.push(Asked { number, what });
        }
        let chunk = trimmed(&value);
        state.interval = self.paths[self.paths.active()].rtt.rto();
        state.excused = false;
        state.unanswered = 0;
        let begun = state.requests.begin(chunk.clone(), count);
        debug_assert!(begun.is_ok(), "another request is outstanding");
        chunk
    }

    // req: rfc6525 4.1 "This parameter MUST NOT appear in any other chunk type"
    // req: rfc6525 4.2 "This parameter MUST NOT appear in any other chunk type"
    // req: rfc6525 4.3 "This parameter MUST NOT appear in any other chunk type"
    // req: rfc6525 4.5 "This parameter MUST NOT appear in any other chunk type"
    // req: rfc6525 4.6 "This parameter MUST NOT appear in any other chunk type"
    // req: rfc6525 5.1.2 "MUST put it into the Re-configuration"
    // req: rfc6525 5.1.2 "stream numbers SHOULD NOT be put into the Outgoing SSN"
    // req: rfc6525 5.1.2 "outgoing streams be reset, these stream numbers MUST be placed"
    // req: rfc6525 5.1.3 "The sender MUST assign the next re-configuration request"
    // req: rfc6525 5.1.3 "numbers SHOULD NOT be put into the Incoming SSN Reset Request"
    // req: rfc6525 5.1.3 "reset, these stream numbers MUST be filled in the Incoming SSN"
    // req: rfc6525 5.1.4 "The sender MUST assign the next re-configuration request"
    fn encode_request(
        &self,
        state: &Reconfiguration,
        request: u32,
        what: &Request,
        response: Option<u32>,
        value: &mut Vec<u8>,
    ) {
        let mut list = Vec::new();
        let parameter = match what {
            Request::Outgoing(streams) => Parameter::OutgoingResetRequest {
                request,
                response: response.unwrap_or(state.answers.next().wrapping_sub(1)),
                // req: rfc6525 5.1.2 "The Sender's Last Assigned TSN MUST be set to the next TSN the"
                last_tsn: Tsn(tsn::wire(self.sender.next_tsn() - 1)),
                streams: List::encode(streams.list(), &mut list),
            },
            Request::Incoming(streams) => Parameter::IncomingResetRequest {
                request,
                streams: List::encode(streams.list(), &mut list),
            },
            Request::Tsns => Parameter::TsnResetRequest(request),
            Request::AddOutgoing(count) => Parameter::AddOutgoingStreams { request, count: *count },
            Request::AddIncoming(count) => Parameter::AddIncomingStreams { request, count: *count },
        };
        parameter.encode(value);
    }

    /// Sends a chunk. If it has a request that was not sent yet, the timer starts.
    // req: rfc6525 5.1.1 "the sender MUST start the Re-configuration Timer if the RE-CONFIG"
    // req: rfc6525 5.1.1 "parameters, the Re-configuration Timer MUST NOT be started."
    // req: rfc6525 5.1.1 "timer MUST use the same value as SCTP's data transmission timer"
    // req: rfc6525 5.1.2 "The RE-CONFIG chunk MUST be sent following the rules given in"
    // req: rfc6525 5.1.3 "The RE-CONFIG chunk MUST be sent following the rules given in"
    // req: rfc6525 5.1.4 "The RE-CONFIG chunk MUST be sent following the rules given in"
    // req: rfc6525 5.1.2 "The Outgoing SSN Reset Request Parameter MUST be put into a"
    // req: rfc6525 5.1.3 "The Incoming SSN Reset Request Parameter MUST be put into a"
    // req: rfc6525 5.1.4 "The SSN/TSN Reset Request Parameter MUST be put into a RE-CONFIG"
    pub(super) fn send_re_config(
        &mut self,
        now: Instant,
        path: PathId,
        state: &mut Reconfiguration,
        chunk: Bytes,
    ) {
        state.counts.reconfigurations_sent = state.counts.reconfigurations_sent.wrapping_add(1);
        if state.requests.due().is_some() {
            state.requests.on_sent(path, now + state.interval);
        }
        self.queue(path, Control::ReConfig(chunk));
    }

    /// When the timer of the outstanding requests expires.
    pub(in crate::association) fn reconfiguration_deadline(&self) -> Option<Instant> {
        self.reconfiguration.as_ref()?.requests.deadline()
    }

    /// Handles the expiry of that timer.
    // req: rfc6525 5.1.1 "exponential backoff, doubling the value at every expiration"
    // req: rfc6525 5.2.7 "the timer runs out, the RE-CONFIG chunk MUST be retransmitted"
    // req: rfc6525 5.2.7 "but the corresponding error counters MUST NOT be incremented"
    pub(in crate::association) fn on_reconfiguration_timeout(&mut self, now: Instant) {
        let most = self.config.timers.rto_max;
        let Some(state) = &mut self.reconfiguration else { return };
        let Some(path) = state.requests.on_timeout(now) else { return };
        mark!(ReconfigurationRepeated);
        state.interval = (state.interval * 2).min(most);
        state.counts.reconfiguration_timeouts =
            state.counts.reconfiguration_timeouts.wrapping_add(1);
        let excused = std::mem::take(&mut state.excused);
        let exists = self.paths.get(path).is_some();
        if !excused {
            self.count_association_error(now);
            if self.is_closed() {
                return;
            }
            if exists {
                self.count_path_error(now, path);
            }
            if self.is_ignored() {
                return self.give_up_requests(now);
            }
        }
        let next = if exists { policy::next_for_control(&self.paths, path) } else { None };
        let next = next.unwrap_or(self.paths.active());
        let Some(mut state) = self.reconfiguration.take() else { return };
        if let Some((_, chunk)) = state.requests.due() {
            let chunk = chunk.clone();
            let waits =
                |control: &Control| matches!(control, Control::ReConfig(same) if *same == chunk);
            self.outbox.chunks.retain(|(_, control)| !waits(control));
            self.send_re_config(now, next, &mut state, chunk);
        }
        self.reconfiguration = Some(state);
    }

    /// Counts a timeout without an answer. Returns whether the peer ignores requests, although it is there.
    fn is_ignored(&mut self) -> bool {
        let most = self.config.paths.association_max_retrans;
        let Some(state) = &mut self.reconfiguration else { return false };
        state.unanswered += 1;
        state.unanswered > most
    }

    /// Handles the answer to a request.
    ///
    /// # Errors
    /// The two sides no longer agree on the TSNs.
    // req: rfc6525 5.2.7 "Re-configuration Request Sequence Number MUST be marked as"
    // req: rfc6525 5.2.7 "the Re-configuration Timer MUST be stopped."
    pub(super) fn on_answer(
        &mut self,
        now: Instant,
        state: &mut Reconfiguration,
        number: u32,
        result: u32,
        next_tsns: Option<(Tsn, Tsn)>,
    ) -> Result<(), Violation> {
        let Some(at) = state.asked.iter().position(|asked| asked.number == number) else {
            return Ok(());
        };
        if result == result::IN_PROGRESS {
            let last = state.requests.next().wrapping_sub(1);
            let path = self.paths.active();
            let interval = self.paths[path].rtt.rto();
            if state.requests.on_progress(last, now + interval).is_some() {
                (state.interval, state.excused) = (interval, true);
            }
            state.unanswered = 0;
            state.tsns_in_progress |= matches!(state.asked[at].what, Request::Tsns);
            return Ok(());
        }
        let Asked { what, .. } = state.take_answered(at);
        state.tsns_in_progress &= !matches!(what, Request::Tsns);
        let crossed = result == result::ALREADY_IN_PROGRESS && what.needs_request_of_peer();
        if crossed && state.peer.wants_request() {
            state.wishes.restore(&what);
            return Ok(());
        }
        let outcome = match result {
            result::NOTHING_TO_DO | result::PERFORMED => ReconfigurationResult::Performed,
            result::DENIED => ReconfigurationResult::Denied,
            _ => ReconfigurationResult::Failed,
        };
        match (&what, outcome) {
            (Request::Tsns, ReconfigurationResult::Denied | ReconfigurationResult::Failed) => {
                self.receiver.keep_tsns()?;
                self.tell_readable();
                self.end_request(&what, outcome);
            }
            (Request::Tsns, ReconfigurationResult::Performed) => {
                let Some((remote, local)) = next_tsns else {
                    return Err("new TSNs are agreed on, but not which ones");
                };
                self.adopt_tsns(now, state, local, remote)?;
            }
            // The peer's own request does it, and its end is reported.
            (Request::Incoming(_) | Request::AddIncoming(_), ReconfigurationResult::Performed)
                if result == result::PERFORMED => {}
            // req: rfc6525 5.2.7 "streams MUST now be reset and all queued data should now be"
            // req: rfc6525 5.2.7 "If the request was to add outgoing streams, the endpoint MUST"
            // req: rfc6525 5.2.7 "request, but it MUST NOT use the streams until the peer has"
            // req: rfc6525 5.1.5 "the sender MUST await a positive acknowledgment (Success) before"
            _ => self.end_request(&what, outcome),
        }
        Ok(())
    }

    /// Handles the peer's word that it works on a reset of the TSNs, after all chunks of the packet: a later one may say
    /// that it is done.
    pub(in crate::association) fn note_tsns_in_progress(&mut self) {
        let state = self.reconfiguration.as_mut();
        if state.is_some_and(|state| std::mem::take(&mut state.tsns_in_progress)) {
            // Chunks that contradict each other show that again when the next one arrives.
            let _ = self.receiver.on_tsn_reset_in_progress();
            self.tell_readable();
        }
    }

    /// Continues with other TSNs.
    // req: rfc6525 5.2.7 "new data MUST be"
    fn adopt_tsns(
        &mut self,
        now: Instant,
        state: &mut Reconfiguration,
        local: Tsn,
        remote: Tsn,
    ) -> Result<(), Violation> {
        mark!(AssociationReset);
        state.tsns_reset = Some(now);
        self.sender.jump_to(local);
        self.receiver.adopt_tsns(remote.0)?;
        self.end_request(&Request::Tsns, ReconfigurationResult::Performed);
        self.tell_cut_short();
        self.tell_readable();
        Ok(())
    }
}

impl Reconfiguration {
    /// Takes the outstanding request at this place, which was answered.
    pub(super) fn take_answered(&mut self, at: usize) -> Asked {
        let asked = self.asked.remove(at);
        if self.asked.is_empty() {
            self.end_outstanding();
        }
        asked
    }
}
