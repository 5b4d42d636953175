//! Stream reconfiguration (RFC 6525): resets of stream sequence numbers and of TSNs, and more streams.
//!
//! This side has one chunk with requests outstanding, which are in `asked`. What the user wants meanwhile is collected
//! in `wishes`, and becomes the next chunk. The peer's requests that take time are in `peer`. Messages for streams that
//! are being reset wait in the send queue; a request for a reset leaves when everything given before is acknowledged
//! or given up. Otherwise a FORWARD TSN could name a stream sequence number from before the reset.
//!
//! `outgoing` sends requests and processes the answers, `incoming` processes requests, `answer` has the answers that
//! are sent. An association that uses none of this has no such state.

mod answer;
mod incoming;
mod outgoing;

use std::time::Duration;

use super::Association;
use super::requests::{Answers, Requests};
use super::state::State;
use crate::event::Notification;
use crate::features::Features;
use crate::reconfiguration::{ReconfigurationError, ReconfigurationResult, StreamDirection};
use crate::stats::ReconfigurationCounters;
use crate::stream_set::StreamSet;
use crate::time::Instant;

use self::answer::Reply;
use self::incoming::PeerRequests;

/// The least time between two resets of the TSNs by this side.
// req: rfc6525 5.1.4 "Only one SSN/TSN Reset Request SHOULD be sent within 30 seconds"
const MAXIMUM_SEGMENT_LIFETIME: Duration = Duration::from_secs(30);

/// State of stream reconfiguration.
#[derive(Debug)]
pub(super) struct Reconfiguration {
    requests: Requests,
    answers: Answers,
    /// The outstanding requests, at most two, which travel in one chunk.
    asked: Vec<Asked>,
    /// The time between the last transmission of that chunk and the next one.
    interval: Duration,
    /// The peer works on it, so the next timeout is not an error.
    excused: bool,
    /// Timeouts in a row without any answer.
    unanswered: u32,
    wishes: Wishes,
    peer: PeerRequests,
    /// The answers to the last chunk with requests of the peer.
    replies: Vec<Reply>,
    /// The next TSN when the paused streams were drained.
    barrier: Option<u64>,
    /// The packet that is read says that the peer works on a reset of the TSNs.
    tsns_in_progress: bool,
    /// When this side last asked for new TSNs.
    tsns_reset: Option<Instant>,
    counts: ReconfigurationCounters,
}

/// A request of this side.
#[derive(Debug)]
enum Request {
    Outgoing(StreamSet),
    Incoming(StreamSet),
    Tsns,
    AddOutgoing(u16),
    AddIncoming(u16),
}

impl Request {
    /// Whether the peer does it by a request of its own.
    fn needs_request_of_peer(&self) -> bool {
        matches!(self, Request::Incoming(_) | Request::AddIncoming(_))
    }
}

/// A request that was sent, and its number.
#[derive(Debug)]
struct Asked {
    number: u32,
    what: Request,
}

/// What the user wants and was not asked for yet.
#[derive(Debug, Default)]
struct Wishes {
    outgoing: StreamSet,
    incoming: StreamSet,
    tsns: bool,
    add_outgoing: u16,
    add_incoming: u16,
}

impl Wishes {
    /// Takes back a request that must be asked for again.
    fn restore(&mut self, request: &Request) {
        match request {
            Request::Incoming(streams) => self.incoming.add(streams),
            Request::AddIncoming(count) => {
                self.add_incoming = self.add_incoming.saturating_add(*count);
            }
            Request::Outgoing(_) | Request::Tsns | Request::AddOutgoing(_) => {}
        }
    }

    /// The same as requests.
    fn into_requests(self) -> Vec<Request> {
        let mut requests = Vec::new();
        if !self.outgoing.is_empty() {
            requests.push(Request::Outgoing(self.outgoing));
        }
        if !self.incoming.is_empty() {
            requests.push(Request::Incoming(self.incoming));
        }
        if self.tsns {
            requests.push(Request::Tsns);
        }
        if self.add_outgoing > 0 {
            requests.push(Request::AddOutgoing(self.add_outgoing));
        }
        if self.add_incoming > 0 {
            requests.push(Request::AddIncoming(self.add_incoming));
        }
        requests
    }
}

impl Reconfiguration {
    /// Numbers of requests begin with the first TSNs.
    // req: rfc6525 5.1.2 "The sender MUST assign the next re-configuration request sequence"
    fn new(local_tsn: u32, remote_tsn: u32) -> Self {
        Self {
            requests: Requests::new(local_tsn),
            answers: Answers::new(remote_tsn),
            asked: Vec::new(),
            interval: Duration::ZERO,
            excused: false,
            unanswered: 0,
            wishes: Wishes::default(),
            peer: PeerRequests::default(),
            replies: Vec::new(),
            barrier: None,
            tsns_in_progress: false,
            tsns_reset: None,
            counts: ReconfigurationCounters::default(),
        }
    }

    /// Whether a new set of TSNs is wanted by either side.
    fn resets_tsns(&self) -> bool {
        let asked = self.asked.iter().any(|asked| matches!(asked.what, Request::Tsns));
        asked || self.wishes.tsns || self.peer.tsns.is_some()
    }

    /// The streams of this side that are being reset, or will be.
    fn resetting(&self) -> StreamSet {
        if self.resets_tsns() {
            return StreamSet::All;
        }
        let mut streams = self.wishes.outgoing.clone();
        for asked in &self.asked {
            if let Request::Outgoing(more) = &asked.what {
                streams.add(more);
            }
        }
        if let Some(wanted) = self.peer.incoming.as_ref().filter(|wanted| wanted.paused) {
            streams.add(&wanted.set);
        }
        streams
    }

    /// The peer's streams that this side wants to reset.
    fn awaiting(&self) -> StreamSet {
        let mut streams = self.wishes.incoming.clone();
        for asked in &self.asked {
            if let Request::Incoming(more) = &asked.what {
                streams.add(more);
            }
        }
        streams
    }

    /// Streams that were asked for and are not there yet, outgoing and incoming ones.
    fn added(&self) -> (u16, u16) {
        let mut added = (self.wishes.add_outgoing, self.wishes.add_incoming);
        for asked in &self.asked {
            match asked.what {
                Request::AddOutgoing(count) => added.0 = added.0.saturating_add(count),
                Request::AddIncoming(count) => added.1 = added.1.saturating_add(count),
                _ => {}
            }
        }
        if let Some((_, count)) = self.peer.add_incoming {
            added.0 = added.0.saturating_add(count);
        }
        added
    }
}

impl Association {
    /// Resets streams: their next ordered message has the stream sequence number 0 (RFC 6525). No stream in the list
    /// means all.
    ///
    /// What was sent on outgoing streams before is delivered first, or given up. Later messages wait for the answer of
    /// the peer. For incoming streams the peer is asked to do the same. [`Notification::StreamsReset`] reports the end,
    /// for each direction.
    ///
    /// # Errors
    /// [`ReconfigurationError`]; then nothing has happened.
    // req: rfc6525 5.1.1 "any request by the application for such service SHOULD be responded"
    pub fn reset_streams(
        &mut self,
        now: Instant,
        direction: StreamDirection,
        streams: &[u16],
    ) -> Result<(), ReconfigurationError> {
        let set = StreamSet::listed(streams.iter().copied());
        let highest = set.highest();
        let is_missing = |count: u16| highest.is_some_and(|highest| highest >= count);
        if direction.is_outgoing() && is_missing(self.outbound_streams())
            || direction.is_incoming() && is_missing(self.inbound_streams())
        {
            self.may_reconfigure()?;
            return Err(ReconfigurationError::NoSuchStream(highest.unwrap_or_default()));
        }
        let state = self.reconfiguration()?;
        if direction.is_outgoing() && state.resetting().meets(&set)
            || direction.is_incoming() && state.awaiting().meets(&set)
        {
            return Err(ReconfigurationError::Outstanding);
        }
        if direction.is_incoming() {
            state.wishes.incoming.add(&set);
        }
        if direction.is_outgoing() {
            state.wishes.outgoing.add(&set);
            state.barrier = None;
            self.sender.pause_streams(&set);
        }
        self.advance_reconfiguration(now);
        Ok(())
    }

    /// Resets the TSNs and the sequence numbers of all streams, in both directions (RFC 6525).
    /// What was sent before is delivered first, or given up; later messages wait for the answer of the peer.
    /// [`Notification::AssociationReset`] reports the end.
    ///
    /// # Errors
    /// [`ReconfigurationError`]; then nothing has happened.
    pub fn reset_association(&mut self, now: Instant) -> Result<(), ReconfigurationError> {
        let state = self.reconfiguration()?;
        let recent = |at: Instant| now.saturating_since(at) < MAXIMUM_SEGMENT_LIFETIME;
        if !state.resetting().is_empty() || state.tsns_reset.is_some_and(recent) {
            return Err(ReconfigurationError::Outstanding);
        }
        state.wishes.tsns = true;
        state.barrier = None;
        self.sender.pause_streams(&StreamSet::All);
        self.advance_reconfiguration(now);
        Ok(())
    }

    /// Adds streams on which this side may send, and asks the peer to add some on which it may send (RFC 6525).
    /// [`Notification::StreamsAdded`] reports the end, for each direction.
    ///
    /// # Errors
    /// [`ReconfigurationError`]; then nothing has happened.
    pub fn add_streams(
        &mut self,
        now: Instant,
        outgoing: u16,
        incoming: u16,
    ) -> Result<(), ReconfigurationError> {
        let (outbound, inbound) = (self.outbound_streams(), self.inbound_streams());
        let limit = self.config.receiving.inbound_streams;
        let state = self.reconfiguration()?;
        let sum = |there: u16, coming: u16, more: u16| {
            u32::from(there) + u32::from(coming) + u32::from(more)
        };
        let coming = state.added();
        if outgoing > 0 && sum(outbound, coming.0, outgoing) > u32::from(u16::MAX)
            || incoming > 0 && sum(inbound, coming.1, incoming) > u32::from(limit)
        {
            return Err(ReconfigurationError::TooManyStreams);
        }
        state.wishes.add_outgoing += outgoing;
        state.wishes.add_incoming += incoming;
        self.advance_reconfiguration(now);
        Ok(())
    }

    /// Whether streams can be reset and added now.
    // req: rfc6525 5.1.1 "the sender MUST ensure that the peer advertised support for the"
    // req: rfc6525 5.1.1 "sender MUST NOT send any re-configuration request to the peer"
    fn may_reconfigure(&self) -> Result<(), ReconfigurationError> {
        match self.state {
            State::CookieWait { .. } | State::CookieEchoed { .. } | State::Established
                if !self.features.has(Features::STREAM_RECONFIGURATION) =>
            {
                Err(ReconfigurationError::NotNegotiated)
            }
            State::Established => Ok(()),
            State::CookieWait { .. } | State::CookieEchoed { .. } => {
                Err(ReconfigurationError::NotNegotiated)
            }
            _ => Err(ReconfigurationError::Closed),
        }
    }

    /// The state for a request of the user.
    fn reconfiguration(&mut self) -> Result<&mut Reconfiguration, ReconfigurationError> {
        self.may_reconfigure()?;
        let tsns = (self.sender.initial_tsn().0, self.receiver.first_tsn());
        let state =
            self.reconfiguration.get_or_insert_with(|| Reconfiguration::new(tsns.0, tsns.1).into());
        Ok(state)
    }

    /// Does what has become possible: answers requests of the peer that took time, and sends the next request.
    pub(super) fn advance_reconfiguration(&mut self, now: Instant) {
        let Some(mut state) = self.reconfiguration.take() else { return };
        if self.serve(now, &mut state, false) {
            let path = self.paths.active();
            let chunk = answer::encode(&state.replies);
            self.send_re_config(now, path, &mut state, chunk);
        }
        self.ask_next(now, &mut state);
        self.reconfiguration = Some(state);
    }

    /// Whether everything has arrived, or was given up, that was given to the paused streams before.
    fn is_settled(&self, state: &mut Reconfiguration) -> bool {
        if !self.sender.is_drained() {
            state.barrier = None;
            return false;
        }
        let barrier = *state.barrier.get_or_insert(self.sender.next_tsn());
        self.sender.base() >= barrier
    }

    /// Whether a TSN that was never sent may be one from before a reset of the TSNs.
    pub(super) fn may_have_other_tsns(&self, now: Instant) -> bool {
        let state = self.reconfiguration.as_ref();
        let since = state.and_then(|state| state.tsns_reset);
        state.is_some_and(|state| state.resets_tsns())
            || since.is_some_and(|at| now.saturating_since(at) < MAXIMUM_SEGMENT_LIFETIME * 2)
    }

    /// Ends requests because the association shuts down. A request goes on if messages wait for its answer, because
    /// without the answer their stream sequence numbers are unknown. If this side shuts down, the peer still sends
    /// messages, so a reset of the TSNs goes on as well: it also resets the peer's numbers.
    pub(super) fn stop_reconfiguration(&mut self, now: Instant, by_peer: bool) {
        let Some(mut state) = self.reconfiguration.take() else { return };
        for request in std::mem::take(&mut state.wishes).into_requests() {
            self.fail_request(&request);
        }
        self.deny_peer(now, &mut state);
        let holds = self.sender.holds_messages();
        let needed = |what: &Request| match what {
            Request::Outgoing(_) => holds,
            Request::Tsns => holds || !by_peer,
            _ => false,
        };
        let (kept, ended) =
            std::mem::take(&mut state.asked).into_iter().partition(|asked| needed(&asked.what));
        state.asked = kept;
        let ended: Vec<Asked> = ended;
        ended.iter().for_each(|asked| self.fail_request(&asked.what));
        if state.asked.is_empty() {
            state.end_outstanding();
        }
        self.reconfiguration = Some(state);
    }

    /// Whether a request has no answer.
    pub(super) fn awaits_answer(&self) -> bool {
        self.reconfiguration.as_ref().is_some_and(|state| !state.asked.is_empty())
    }

    /// Ends the outstanding requests, because the peer does not answer although it is there.
    pub(super) fn give_up_requests(&mut self, now: Instant) {
        let Some(mut state) = self.reconfiguration.take() else { return };
        for asked in std::mem::take(&mut state.asked) {
            self.fail_request(&asked.what);
        }
        state.end_outstanding();
        self.reconfiguration = Some(state);
        self.advance_reconfiguration(now);
        // A shutdown may have waited for the answer.
        self.advance_shutdown(now);
    }

    /// Ends all requests: the association has ended, or the peer has lost its state.
    pub(super) fn end_reconfiguration(&mut self) {
        let Some(mut state) = self.reconfiguration.take() else { return };
        for asked in std::mem::take(&mut state.asked) {
            self.fail_request(&asked.what);
        }
        for request in std::mem::take(&mut state.wishes).into_requests() {
            self.fail_request(&request);
        }
        state.end_outstanding();
        state.peer = PeerRequests::default();
        self.sender.resume_streams(&StreamSet::All, false);
        self.reconfiguration = Some(state);
    }

    /// Begins with the numbers of a new incarnation of the peer.
    pub(super) fn renew_reconfiguration(&mut self) {
        let tsns = (self.sender.initial_tsn().0, self.receiver.first_tsn());
        if let Some(state) = &mut self.reconfiguration {
            let counts = state.counts;
            **state = Reconfiguration { counts, ..Reconfiguration::new(tsns.0, tsns.1) };
        }
    }

    /// Ends a request without an answer.
    fn fail_request(&mut self, request: &Request) {
        if matches!(request, Request::Tsns) {
            // Chunks that contradict each other show that again when the next one arrives.
            let _ = self.receiver.keep_tsns();
            self.tell_readable();
        }
        self.end_request(request, ReconfigurationResult::Failed);
    }

    /// Reports the end of a request. If it has failed, its streams continue as before.
    fn end_request(&mut self, request: &Request, result: ReconfigurationResult) {
        let done = result == ReconfigurationResult::Performed;
        match request {
            Request::Outgoing(streams) => {
                self.sender.resume_streams(streams, done);
                self.tell_reset(true, streams, result);
            }
            Request::Incoming(streams) => self.tell_reset(false, streams, result),
            Request::Tsns => {
                self.sender.resume_streams(&StreamSet::All, done);
                let local_tsn = crate::tsn::wire(self.sender.next_tsn());
                let remote_tsn = crate::tsn::wire(self.receiver.cumulative() + 1);
                self.news.notify(Notification::AssociationReset { local_tsn, remote_tsn, result });
            }
            Request::AddOutgoing(count) => {
                if done {
                    self.sender.add_streams(*count);
                }
                self.tell_streams(result);
            }
            Request::AddIncoming(_) => self.tell_streams(result),
        }
    }

    fn tell_reset(&mut self, outgoing: bool, streams: &StreamSet, result: ReconfigurationResult) {
        let streams = streams.list().into();
        self.news.notify(Notification::StreamsReset { outgoing, streams, result });
    }

    fn tell_streams(&mut self, result: ReconfigurationResult) {
        self.news.notify(Notification::StreamsAdded {
            outbound_streams: self.outbound_streams(),
            inbound_streams: self.inbound_streams(),
            result,
        });
    }

    /// Memory that requests of the peer take.
    pub(super) fn reconfiguration_memory(&self) -> usize {
        self.reconfiguration.as_ref().map_or(0, |state| state.peer.memory())
    }

    /// The counters of reconfiguration.
    pub(super) fn reconfiguration_counts(&self) -> ReconfigurationCounters {
        self.reconfiguration.as_ref().map(|state| state.counts).unwrap_or_default()
    }
}
