//! Requests of the peer (RFC 6525 section 5.2).

use anabranch_wire::{Cause, HEADER_LEN, Parameter, ReConfig, Tsn};

use super::answer::{self, Answer, Reply, result};
use super::{Reconfiguration, Request};
use crate::association::requests::Incoming;
use crate::association::state::State;
use crate::association::{Association, Control};
use crate::event::{CloseReason, Notification};
use crate::marks::mark;
use crate::per_path::PathId;
use crate::reconfiguration::ReconfigurationResult;
use crate::stream_set::StreamSet;
use crate::time::Instant;
use crate::tsn;

/// Bytes of a chunk header.
const CHUNK_HEADER: usize = 4;

/// The most streams that a request may list. Only a packet that IP has fragmented has more. They are kept while the
/// request is in progress.
const MOST_LISTED: usize = 8192;

/// Requests of the peer that take time.
#[derive(Debug, Default)]
pub(super) struct PeerRequests {
    /// A reset of its streams, which waits for data.
    deferred: Option<(u32, StreamSet)>,
    /// It wants a reset of our streams.
    pub(super) incoming: Option<Wanted>,
    /// It wants new TSNs.
    pub(super) tsns: Option<u32>,
    /// It wants us to have more streams.
    pub(super) add_incoming: Option<(u32, u16)>,
}

/// A reset of our streams that the peer wants.
#[derive(Debug)]
pub(super) struct Wanted {
    number: u32,
    pub(super) set: StreamSet,
    /// The streams are paused.
    pub(super) paused: bool,
}

impl PeerRequests {
    /// Bytes of their lists. The receiver has another copy of the first one.
    pub(super) fn memory(&self) -> usize {
        let deferred = self.deferred.as_ref().map_or(0, |(_, set)| 2 * set.list().len());
        let incoming = self.incoming.as_ref().map_or(0, |wanted| wanted.set.list().len());
        (deferred + incoming) * size_of::<u16>()
    }

    /// Whether this side does what the peer wants by a request of its own.
    pub(super) fn wants_request(&self) -> bool {
        self.incoming.is_some() || self.add_incoming.is_some()
    }

    fn is_busy(&self) -> bool {
        self.deferred.is_some()
            || self.incoming.is_some()
            || self.tsns.is_some()
            || self.add_incoming.is_some()
    }
}

/// The parameters of a chunk, if they may be together in one.
// req: rfc6525 3.1 "If a sender transmits an unsupported combination, the receiver SHOULD"
fn allowed<'a>(chunk: &ReConfig<'a>) -> Option<Vec<Parameter<'a>>> {
    use anabranch_wire::parameter_kind as kind;
    let mut parameters = Vec::with_capacity(2);
    for raw in chunk.parameters.iter() {
        if parameters.len() == 2 {
            return None;
        }
        parameters.push(raw.ok()?.decode().ok()?);
    }
    let mut kinds: Vec<u16> = parameters.iter().map(Parameter::kind).collect();
    kinds.sort_unstable();
    let known = matches!(
        kinds[..],
        [kind::OUTGOING_RESET_REQUEST..=kind::ADD_INCOMING_STREAMS]
            | [kind::OUTGOING_RESET_REQUEST, kind::INCOMING_RESET_REQUEST]
            | [kind::ADD_OUTGOING_STREAMS, kind::ADD_INCOMING_STREAMS]
            | [kind::OUTGOING_RESET_REQUEST, kind::RECONFIG_RESPONSE]
            | [kind::RECONFIG_RESPONSE, kind::RECONFIG_RESPONSE]
    );
    known.then_some(parameters)
}

/// The number of a request; `None` for an answer.
fn number_of(parameter: &Parameter<'_>) -> Option<u32> {
    match *parameter {
        Parameter::OutgoingResetRequest { request, .. }
        | Parameter::IncomingResetRequest { request, .. }
        | Parameter::TsnResetRequest(request)
        | Parameter::AddOutgoingStreams { request, .. }
        | Parameter::AddIncomingStreams { request, .. } => Some(request),
        _ => None,
    }
}

impl Association {
    /// Processes a RE-CONFIG.
    // req: rfc6525 5.2.1 "Upon reception of a RE-CONFIG chunk, each parameter within it SHOULD"
    pub(in crate::association) fn on_re_config(
        &mut self,
        now: Instant,
        path: PathId,
        chunk: &ReConfig<'_>,
    ) -> bool {
        if !self.state.acknowledges() {
            return true;
        }
        let Some(parameters) = allowed(chunk) else {
            let mut cause = Vec::new();
            Cause::ProtocolViolation(b"parameters of a RE-CONFIG").encode(&mut cause);
            let length = CHUNK_HEADER + cause.len();
            self.answer(self.reply_path(path), Control::Error(cause), length);
            return true;
        };
        let requests: Vec<_> = parameters
            .iter()
            .filter_map(|parameter| Some((number_of(parameter)?, parameter)))
            .collect();
        let mut state = match self.reconfiguration.take() {
            Some(state) => state,
            None if requests.is_empty() => return true,
            None => {
                let tsns = (self.sender.initial_tsn().0, self.receiver.first_tsn());
                Box::new(Reconfiguration::new(tsns.0, tsns.1))
            }
        };
        state.counts.reconfigurations_received =
            state.counts.reconfigurations_received.wrapping_add(1);
        let mut violation = None;
        for parameter in &parameters {
            if let Parameter::ReconfigResponse { response, result, next_tsns } = *parameter {
                let answered = self.on_answer(now, &mut state, response, result, next_tsns);
                violation = violation.or(answered.err());
            }
        }
        if !requests.is_empty() {
            // req: rfc6525 5.2.1 "at least one request parameter, a selective acknowledgment"
            self.acknowledger.request();
            self.on_requests(now, path, &mut state, &requests);
        }
        self.reconfiguration = Some(state);
        if let Some(what) = violation {
            let mut cause = Vec::new();
            Cause::ProtocolViolation(what.as_bytes()).encode(&mut cause);
            self.abort_with(path, cause, CloseReason::ProtocolViolation(what));
            return false;
        }
        // A shutdown may have waited for the answer.
        if matches!(self.state, State::ShutdownPending) && !self.awaits_answer() {
            self.ending.guard = None;
        }
        self.advance_shutdown(now);
        true
    }

    // req: rfc6525 5.2.1 "it MUST send a corresponding response"
    // req: rfc6525 5.2.2 "The RE-CONFIG chunk MUST be sent after the incoming RE-CONFIG"
    // req: rfc6525 5.2.3 "The RE-CONFIG chunk MUST be sent after the incoming RE-CONFIG"
    // req: rfc6525 5.2.4 "The RE-CONFIG chunk MUST be sent after the incoming RE-CONFIG"
    fn on_requests(
        &mut self,
        now: Instant,
        path: PathId,
        state: &mut Reconfiguration,
        requests: &[(u32, &Parameter<'_>)],
    ) {
        let Some(&(first, _)) = requests.first() else { return };
        let all = |result| requests.iter().map(move |&(number, _)| reply(number, result)).collect();
        let chunk = match state.answers.on_request(first) {
            // req: rfc6525 5.2.1 "retransmission), the same RE-CONFIG chunk MUST to be sent back in"
            Incoming::Again(chunk) => {
                mark!(ReconfigurationAgain);
                chunk
            }
            Incoming::OutOfOrder => {
                let replies: Vec<_> = all(result::BAD_NUMBER);
                answer::encode(&replies)
            }
            // The user must read what the earlier ones have changed. The peer asks again.
            Incoming::New if self.news.is_crowded() => {
                let replies: Vec<_> = all(result::IN_PROGRESS);
                answer::encode(&replies)
            }
            Incoming::New => {
                self.on_new_requests(state, first, requests);
                // Some are done at once.
                self.serve(now, state, true);
                let chunk = answer::encode(&state.replies);
                state.answers.on_changed(chunk.clone());
                chunk
            }
        };
        let path = self.reply_path(path);
        let length = CHUNK_HEADER + chunk.len();
        if state.requests.due().is_some() {
            state.requests.on_sent(path, now + state.interval);
        }
        state.counts.reconfigurations_sent = state.counts.reconfigurations_sent.wrapping_add(1);
        self.answer(path, Control::ReConfig(chunk), length);
    }

    fn on_new_requests(
        &mut self,
        state: &mut Reconfiguration,
        first: u32,
        requests: &[(u32, &Parameter<'_>)],
    ) {
        let busy = state.peer.is_busy();
        let (mut replies, mut count) = (Vec::with_capacity(requests.len()), 0);
        for &(number, parameter) in requests {
            let result = if number != first.wrapping_add(count) {
                result::BAD_NUMBER
            } else {
                count += 1;
                match busy {
                    true => result::ALREADY_IN_PROGRESS,
                    false => self.on_request(state, parameter),
                }
            };
            replies.push(reply(number, result));
        }
        state.answers.on_answered(answer::encode(&replies), count);
        state.replies = replies;
    }

    /// Processes one request; returns the result.
    fn on_request(&mut self, state: &mut Reconfiguration, parameter: &Parameter<'_>) -> u32 {
        let accepts = &self.config.receiving;
        match *parameter {
            Parameter::OutgoingResetRequest { .. } | Parameter::IncomingResetRequest { .. }
                if !accepts.accept_stream_resets =>
            {
                result::DENIED
            }
            Parameter::OutgoingResetRequest { streams, .. }
            | Parameter::IncomingResetRequest { streams, .. }
                if streams.len() > MOST_LISTED
                    || !self.memory_has_room(2 * streams.bytes().len()) =>
            {
                result::DENIED
            }
            Parameter::OutgoingResetRequest { request, response, last_tsn, streams } => {
                state.on_implicit_answer(response);
                let set = StreamSet::listed(streams.iter());
                self.on_outgoing_reset(state, request, last_tsn, set)
            }
            Parameter::IncomingResetRequest { request, streams } => {
                self.on_incoming_reset(state, request, StreamSet::listed(streams.iter()))
            }
            Parameter::TsnResetRequest(request) => self.on_tsn_reset(state, request),
            Parameter::AddOutgoingStreams { count, .. } => self.on_more_inbound(state, count),
            Parameter::AddIncomingStreams { request, count } => {
                self.on_more_outbound(state, request, count)
            }
            _ => result::DENIED,
        }
    }

    /// The peer resets its streams.
    fn on_outgoing_reset(
        &mut self,
        state: &mut Reconfiguration,
        number: u32,
        last_tsn: Tsn,
        streams: StreamSet,
    ) -> u32 {
        if streams.highest().is_some_and(|highest| highest >= self.inbound_streams()) {
            return result::WRONG_SSN;
        }
        match self.receiver.reset_streams(last_tsn.0, &streams) {
            Ok(true) => {
                self.tell_reset(false, &streams, ReconfigurationResult::Performed);
                self.tell_readable();
                // req: rfc6525 5.2.2 "A Re-configuration Response Parameter MUST be put into a"
                result::PERFORMED
            }
            Ok(false) => {
                state.peer.deferred = Some((number, streams));
                // req: rfc6525 5.2.2 "it MUST put a Re-"
                // req: rfc6525 5.2.2 "and MUST send the RE-CONFIG chunk"
                result::IN_PROGRESS
            }
            Err(_) => result::DENIED,
        }
    }

    /// The peer wants a reset of our streams.
    fn on_incoming_reset(
        &mut self,
        state: &mut Reconfiguration,
        number: u32,
        set: StreamSet,
    ) -> u32 {
        if !matches!(self.state, State::Established) {
            return result::DENIED;
        }
        if set.highest().is_some_and(|highest| highest >= self.outbound_streams()) {
            return result::WRONG_SSN;
        }
        // Our request has the same list, in a parameter that is longer.
        let full = self.paths[self.paths.active()].packet_size();
        if HEADER_LEN + CHUNK_HEADER + 2 * (12 + 16) + 2 * set.list().len() > full {
            return result::DENIED;
        }
        // req: rfc6525 5.2.3 "In such a case, the local endpoint MUST do the following"
        if state.resetting().covers(&set) {
            mark!(ReconfigurationCrossed);
            return result::NOTHING_TO_DO;
        }
        // req: rfc6525 5.2.3 "local endpoint SHOULD send back a Re-configuration Response with the"
        if self.sender.streams_are_reset(&set) {
            return result::NOTHING_TO_DO;
        }
        if self.refuses_crossing(state) {
            return result::ALREADY_IN_PROGRESS;
        }
        // req: rfc6525 5.2.3 "Even in such a situation, the Incoming SSN Reset MUST"
        state.peer.incoming = Some(Wanted { number, set, paused: false });
        result::IN_PROGRESS
    }

    /// Each side wants a request of the other one, and may send only one at a time. Whether this side is the one that
    /// refuses; the other one does its part, and may ask again.
    fn refuses_crossing(&self, state: &Reconfiguration) -> bool {
        let crosses = state.asked.iter().any(|asked| asked.what.needs_request_of_peer());
        crosses && self.identity.local_tag > self.identity.peer_tag
    }

    /// The peer wants new TSNs.
    fn on_tsn_reset(&mut self, state: &mut Reconfiguration, number: u32) -> u32 {
        if !self.config.receiving.accept_association_resets
            || !matches!(self.state, State::Established)
        {
            return result::DENIED;
        }
        if !state.resetting().is_empty() {
            return result::ALREADY_IN_PROGRESS;
        }
        state.peer.tsns = Some(number);
        state.barrier = None;
        self.sender.pause_streams(&StreamSet::All);
        result::IN_PROGRESS
    }

    /// The peer adds streams on which it sends.
    // req: rfc6525 5.2.5 "MUST send a response parameter either"
    fn on_more_inbound(&mut self, state: &mut Reconfiguration, count: u16) -> u32 {
        let is_ours = |what: &Request| matches!(what, Request::AddIncoming(_));
        let wanted = state.asked.iter().position(|asked| is_ours(&asked.what));
        // req: rfc6525 5.2.5 "endpoint SHOULD deny the request if the number of streams exceeds a"
        let limit = u32::from(self.config.receiving.inbound_streams);
        if !self.config.receiving.accept_added_streams && wanted.is_none()
            || u32::from(self.inbound_streams()) + u32::from(count) > limit
        {
            return result::DENIED;
        }
        if let Some(at) = wanted {
            state.take_answered(at);
        }
        if count == 0 {
            return result::NOTHING_TO_DO;
        }
        self.receiver.add_streams(count);
        self.tell_streams(ReconfigurationResult::Performed);
        result::PERFORMED
    }

    /// The peer wants us to add streams on which we send.
    fn on_more_outbound(&mut self, state: &mut Reconfiguration, number: u32, count: u16) -> u32 {
        let most = u32::from(self.config.sending.max_outbound_streams);
        let (coming, _) = state.added();
        let streams = u32::from(self.outbound_streams()) + u32::from(coming) + u32::from(count);
        // req: rfc6525 5.2.6 "SCTP endpoint SHOULD deny the request if the number of streams"
        if !self.config.receiving.accept_added_streams
            || !matches!(self.state, State::Established)
            || streams > most
        {
            return result::DENIED;
        }
        if count == 0 {
            return result::NOTHING_TO_DO;
        }
        if self.refuses_crossing(state) {
            return result::ALREADY_IN_PROGRESS;
        }
        state.peer.add_incoming = Some((number, count));
        result::IN_PROGRESS
    }

    /// Does what the peer's requests have waited for. Returns whether the answer to them has changed. `with_answers`:
    /// the answers have not been sent yet.
    pub(super) fn serve(
        &mut self,
        now: Instant,
        state: &mut Reconfiguration,
        with_answers: bool,
    ) -> bool {
        let mut changed = false;
        if !self.receiver.is_deferring()
            && let Some((number, streams)) = state.peer.deferred.take()
        {
            self.tell_reset(false, &streams, ReconfigurationResult::Performed);
            changed |= self.conclude(now, state, number, Answer::Result(result::PERFORMED));
        }
        if let Some(number) = state.peer.tsns
            && self.is_settled(state)
            && self.sender.has_all_acknowledged()
        {
            state.peer.tsns = None;
            let answer = self.reset_tsns();
            changed |= self.conclude(now, state, number, answer);
        }
        if !state.requests.is_free() || !matches!(self.state, State::Established) {
            return changed;
        }
        if let Some(wanted) = self.wanted(state) {
            let Wanted { number, set, .. } = wanted;
            // req: rfc6525 5.2.3 "An Outgoing SSN Reset Request Parameter MUST be put into a"
            // req: rfc6525 5.1.2 "MUST be copied from the Incoming SSN Reset Request Parameter to"
            // req: rfc6525 5.1.2 "MUST be the Re-configuration Request Sequence Number"
            let request = vec![Request::Outgoing(set)];
            let own = self.begin_requests(state, request, Some(number));
            changed |= self.conclude(now, state, number, Answer::Request(own));
        } else if !with_answers || state.replies.len() == 1 {
            changed |= self.add_wanted(now, state);
        }
        changed
    }

    /// Asks for more streams of ours, because the peer wants them. The request is the answer. It may not be in one chunk
    /// with another answer; the stored answer to two requests stays "In progress" then.
    // req: rfc6525 5.2.6 "additional incoming streams, it MUST either send a response parameter"
    fn add_wanted(&mut self, now: Instant, state: &mut Reconfiguration) -> bool {
        let Some((number, count)) = state.peer.add_incoming.take() else { return false };
        let own = self.begin_requests(state, vec![Request::AddOutgoing(count)], None);
        if state.replies.len() == 1 {
            return self.conclude(now, state, number, Answer::Request(own));
        }
        self.send_re_config(now, self.paths.active(), state, own);
        false
    }

    /// The reset of our streams that the peer wants, if it can be asked for now. Pauses the streams before.
    fn wanted(&mut self, state: &mut Reconfiguration) -> Option<Wanted> {
        let wanted = state.peer.incoming.as_ref()?;
        if !wanted.paused {
            // Requests of our own come first, if they are about the same streams.
            if state.resetting().meets(&wanted.set) {
                return None;
            }
            self.sender.pause_streams(&wanted.set);
            state.barrier = None;
            state.peer.incoming.as_mut()?.paused = true;
        }
        if self.is_settled(state) { state.peer.incoming.take() } else { None }
    }

    /// Resets all TSNs, as the peer wants. Everything of ours is acknowledged.
    // req: rfc6525 5.2.4 "value SHOULD be the smallest TSN not acknowledged by the"
    // req: rfc6525 5.2.4 "The value SHOULD be the highest TSN sent by the receiver"
    // req: rfc6525 5.2.4 "Sender's Next TSN minus 1 were"
    // req: rfc6525 5.2.4 "The next expected and outgoing SSNs MUST be reset to 0 for all"
    // req: rfc6525 5.1.7 "Sender's Next TSN field MUST be filled with the next TSN the"
    // req: rfc6525 5.1.7 "Receiver's Next TSN field MUST be filled with a TSN such that"
    // req: rfc6525 5.1.7 "value SHOULD be the smallest TSN not acknowledged by the"
    fn reset_tsns(&mut self) -> Answer {
        mark!(AssociationReset);
        let remote = self.receiver.cumulative() + 1 + (1 << 31);
        self.receiver.reset_tsns(remote);
        self.sender.resume_streams(&StreamSet::All, true);
        let local = tsn::wire(self.sender.next_tsn());
        let remote = tsn::wire(remote);
        self.news.notify(Notification::AssociationReset {
            local_tsn: local,
            remote_tsn: remote,
            result: ReconfigurationResult::Performed,
        });
        self.tell_cut_short();
        self.tell_readable();
        Answer::Tsns(Tsn(local), Tsn(remote))
    }

    /// Stores the answer to a request of the peer. Returns whether the stored chunk has changed; the answer to an
    /// earlier request is sent by itself.
    fn conclude(
        &mut self,
        now: Instant,
        state: &mut Reconfiguration,
        number: u32,
        answer: Answer,
    ) -> bool {
        if let Some(reply) = state.replies.iter_mut().find(|reply| reply.number == number) {
            reply.answer = answer;
            state.answers.on_changed(answer::encode(&state.replies));
            return true;
        }
        let chunk = answer::encode(&[Reply { number, answer }]);
        self.send_re_config(now, self.paths.active(), state, chunk);
        false
    }

    /// Denies what the peer waits for, except for a reset of its streams, because the association shuts down.
    pub(super) fn deny_peer(&mut self, now: Instant, state: &mut Reconfiguration) {
        let mut denied = Vec::new();
        if let Some(Wanted { number, set, paused }) = state.peer.incoming.take() {
            denied.push(number);
            if paused {
                self.sender.resume_streams(&set, false);
            }
        }
        if let Some(number) = state.peer.tsns.take() {
            denied.push(number);
            self.sender.resume_streams(&StreamSet::All, false);
        }
        denied.extend(state.peer.add_incoming.take().map(|(number, _)| number));
        let mut changed = false;
        for number in denied {
            changed |= self.conclude(now, state, number, Answer::Result(result::DENIED));
        }
        if changed {
            let chunk = answer::encode(&state.replies);
            self.send_re_config(now, self.paths.active(), state, chunk);
        }
    }
}

impl Reconfiguration {
    /// Takes a request of the peer as the answer to ours that asked for it.
    // req: rfc6525 5.2.2 "Re-configuration Request Sequence Number MUST be marked as"
    // req: rfc6525 5.2.2 "acknowledged, the Re-configuration Timer MUST be stopped"
    // exempt: rfc6525 5.2.2 "Re-configuration Response Sequence Number field, the" other requests wait for their answer, because this number does not tell the result
    fn on_implicit_answer(&mut self, response: u32) {
        let is_it = |asked: &super::Asked| {
            asked.number == response && matches!(asked.what, Request::Incoming(_))
        };
        if let Some(at) = self.asked.iter().position(is_it) {
            self.take_answered(at);
        }
    }
}

fn reply(number: u32, result: u32) -> Reply {
    Reply { number, answer: Answer::Result(result) }
}
