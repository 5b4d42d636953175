//! The transfer of messages from one host to another, and its results.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch_proto::{
    AssociationConfig, AssociationId, AssociationState, CloseReason, ConnectRequest, Event,
    Instant, MtuConfig, Notification, OutgoingMessage, PathState, Ppid, Reliability,
    SendErrorReason, Statistics,
};
use bytes::Bytes;

use crate::application::{Application, ApplicationId, Context};
use crate::endpoint::EndpointId;
use crate::error::SimError;
use crate::measure::Histogram;

mod exchange;

use exchange::Exchange;

/// Identifies a transfer of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferId(pub(crate) ApplicationId);

/// Messages that one host sends to another over a separate association. The receiver reads
/// immediately.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// The endpoint that connects and sends.
    pub from: EndpointId,
    /// The endpoint that listens and receives.
    pub to: EndpointId,
    /// How much is sent, and when.
    pub workload: Workload,
    /// Bytes of each message but the last, at least 1. By default 1,452: one full packet of 1,500
    /// bytes.
    pub message_size: usize,
    /// Messages of another size; none by default.
    pub large: Option<Large>,
    /// Streams used in rotation, at least 1. By default 1.
    pub streams: u16,
    /// Whether messages may arrive in any order.
    pub unordered: bool,
    /// Whether the application writes as soon as any part of the send buffer is free. Otherwise it
    /// waits for [`Event::Writable`], that is until a quarter is free. Off by default.
    pub eager: bool,
    /// When the association is started.
    pub start: Instant,
    /// The action after the last message.
    pub then: Then,
    /// Options of the sender's association. By default those of RFC 9260 with a path MTU of 1,500.
    pub sender: Arc<AssociationConfig>,
    /// Options of the receiver's association, with the same default.
    pub receiver: Arc<AssociationConfig>,
    /// Addresses of the receiver, the primary one first. If empty, all its addresses, and the
    /// primary one is that of the first link. Data uses the primary address even if the handshake
    /// had to use another path.
    pub remotes: Vec<IpAddr>,
}

/// Messages of another size in a transfer with scheduled messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Large {
    /// The last one of this many messages has another size; at least 1.
    pub every: u64,
    /// Its size in bytes, at least 1.
    pub bytes: usize,
    /// When it is given up.
    pub reliability: Reliability,
}

/// How much is sent, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Workload {
    /// This many bytes, as fast as the association accepts them.
    Bulk {
        /// User bytes, at least 1.
        bytes: u64,
    },
    /// One message at a time.
    Periodic {
        /// Time from one message to the next.
        interval: Duration,
        /// The number of messages, at least 1.
        messages: u64,
    },
    /// Messages at these times after the association is up, in order; at least one.
    At(Arc<[Duration]>),
    /// The receiver answers each message, and the next one is sent when the answer has arrived.
    Requests {
        /// The number of requests, at least 1.
        requests: u64,
        /// Bytes of an answer, at least 1.
        answer: usize,
        /// Time from an answer to the next message.
        pause: Duration,
    },
}

/// The sender's action after its last message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Shuts the association down.
    Shutdown,
    /// Does nothing.
    Stay,
}

/// How a transfer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has not ended yet.
    Running,
    /// Everything was delivered or given up.
    Complete,
    /// The association ended early.
    Aborted(CloseReason),
    /// The run ended early.
    TimedOut,
}

/// The sender declared a path failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathFailure {
    /// The receiver's address on the path.
    pub remote: IpAddr,
    /// When.
    pub at: Instant,
    /// User bytes that had been delivered by then.
    pub bytes: u64,
}

/// The state of a transfer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TransferResult {
    /// How it ended.
    pub outcome: Outcome,
    /// When the association was started.
    pub started_at: Instant,
    /// When the sender learned that it is established.
    pub connected_at: Option<Instant>,
    /// When the first message was delivered.
    pub first_data_at: Option<Instant>,
    /// When the last message was delivered.
    pub completed_at: Option<Instant>,
    /// User bytes delivered, including answers.
    pub bytes: u64,
    /// Messages delivered completely; for requests, the number of answers.
    pub messages: u64,
    /// Messages that the sender gave up before it knew that they had arrived.
    pub given_up: u64,
    /// The longest time between two deliveries since the association was established.
    pub longest_gap: Duration,
    /// Start of that time.
    pub longest_gap_at: Instant,
    /// Delays of messages until their delivery, from when they were passed to the association
    /// (bulk) or were due (periodic); for requests, until the answer arrived.
    pub delays: Histogram,
    /// How often the sender declared the primary path failed.
    pub failures: u64,
    /// Each time that the sender declared a path failed.
    pub path_failures: Vec<PathFailure>,
    /// The sender's statistics at the end of its association or of the run.
    pub sender: Option<Statistics>,
    /// The same for the receiver.
    pub receiver: Option<Statistics>,
}

impl TransferResult {
    /// Time from the start, before INIT, to the delivery of the last byte; `None` if it is not
    /// complete.
    pub fn transfer_time(&self) -> Option<Duration> {
        Some(self.completed_at?.saturating_since(self.started_at))
    }
}

impl Transfer {
    /// The SCTP port where the receiver of a network's first application listens. Each further
    /// application uses the next port.
    pub const FIRST_PORT: u16 = 5001;

    /// Sends `bytes` bytes from time 0 as fast as possible, with the options of RFC 9260.
    pub fn bulk(from: EndpointId, to: EndpointId, bytes: u64) -> Self {
        let mut config = AssociationConfig::rfc9260();
        config.mtu = MtuConfig::fixed(1500);
        let config = Arc::new(config);
        Self {
            from,
            to,
            workload: Workload::Bulk { bytes },
            message_size: 1452,
            large: None,
            streams: 1,
            unordered: false,
            eager: false,
            start: Instant::ZERO,
            then: Then::Stay,
            sender: config.clone(),
            receiver: config,
            remotes: Vec::new(),
        }
    }

    /// The same options for both ends.
    #[must_use]
    pub fn config(mut self, config: AssociationConfig) -> Self {
        self.sender = Arc::new(config);
        self.receiver = self.sender.clone();
        self
    }

    /// User bytes of this many scheduled messages.
    fn bytes_of(&self, messages: u64) -> u64 {
        let size = self.message_size as u64;
        let Some(large) = self.large else { return messages.saturating_mul(size) };
        let many = messages / large.every;
        (messages - many).saturating_mul(size).saturating_add(many * large.bytes as u64)
    }

    pub(crate) fn validate(&self) -> Result<(), SimError> {
        let check = |ok: bool, option, reason: &'static str| {
            if ok { Ok(()) } else { Err(SimError::Option { option, reason: reason.into() }) }
        };
        check(self.from != self.to, "transfer to", "must be another endpoint than from")?;
        check(
            (1..=self.sender.sending.max_message_size).contains(&self.message_size),
            "transfer message_size",
            "must lie between 1 and max_message_size",
        )?;
        if let Some(large) = self.large {
            let timed = matches!(self.workload, Workload::Periodic { .. } | Workload::At(_));
            check(
                timed
                    && large.every >= 1
                    && (1..=self.sender.sending.max_message_size).contains(&large.bytes),
                "transfer large",
                "must be messages of 1 byte to max_message_size among others that come at their times",
            )?;
        }
        check(self.streams >= 1, "transfer streams", "must be at least 1")?;
        check(
            match &self.workload {
                Workload::Bulk { bytes } => *bytes >= 1,
                Workload::Periodic { messages, .. } => *messages >= 1,
                Workload::At(times) => !times.is_empty() && times.is_sorted(),
                Workload::Requests { requests, .. } => *requests >= 1,
            },
            "transfer workload",
            "must have at least one byte, and its times in order",
        )?;
        if let Workload::Requests { answer, .. } = self.workload {
            check(
                (1..=self.receiver.sending.max_message_size).contains(&answer),
                "transfer answer",
                "must lie between 1 and max_message_size",
            )?;
        }
        let config = |error: anabranch_proto::config::ConfigError| SimError::Option {
            option: error.option,
            reason: error.expected.into(),
        };
        self.sender.validate().map_err(config)?;
        self.receiver.validate().map_err(config)
    }
}

/// Both ends of a transfer.
pub(crate) struct TransferApplication {
    spec: Transfer,
    port: u16,
    pub(crate) result: TransferResult,
    pub(crate) sending: Option<AssociationId>,
    pub(crate) receiving: Option<AssociationId>,
    payload: Bytes,
    total_bytes: u64,
    total_messages: u64,
    /// Messages passed to the association.
    given: u64,
    /// When each message from number `base` was passed (or due); `None` once delivered or given up.
    times: VecDeque<Option<u64>>,
    base: u64,
    /// Messages that were delivered or given up.
    settled: u64,
    last_delivery: Option<Instant>,
    exchange: Exchange,
    shutting_down: bool,
    ended: bool,
}

impl TransferApplication {
    pub(crate) fn new(spec: Transfer, port: u16) -> Self {
        let size = spec.message_size as u64;
        let (total_bytes, total_messages) = match spec.workload {
            Workload::Bulk { bytes } => (bytes, bytes.div_ceil(size)),
            Workload::Periodic { messages, .. } => (spec.bytes_of(messages), messages),
            Workload::At(ref times) => (spec.bytes_of(times.len() as u64), times.len() as u64),
            Workload::Requests { requests, answer, .. } => {
                (requests.saturating_mul(size.saturating_add(answer as u64)), requests)
            }
        };
        Self {
            port,
            result: TransferResult {
                outcome: Outcome::Running,
                started_at: spec.start,
                connected_at: None,
                first_data_at: None,
                completed_at: None,
                bytes: 0,
                messages: 0,
                given_up: 0,
                longest_gap: Duration::ZERO,
                longest_gap_at: spec.start,
                delays: Histogram::default(),
                failures: 0,
                path_failures: Vec::new(),
                sender: None,
                receiver: None,
            },
            sending: None,
            receiving: None,
            payload: Bytes::from(vec![
                0;
                spec.message_size
                    .max(spec.large.map_or(0, |large| large.bytes))
            ]),
            total_bytes,
            total_messages,
            given: 0,
            times: VecDeque::new(),
            base: 0,
            settled: 0,
            last_delivery: None,
            exchange: Exchange::default(),
            shutting_down: false,
            ended: false,
            spec,
        }
    }

    pub(crate) fn spec(&self) -> &Transfer {
        &self.spec
    }

    /// When message `number` is due.
    fn due(&self, number: u64) -> Option<Instant> {
        let connected = self.result.connected_at?;
        let interval = match &self.spec.workload {
            Workload::Bulk { .. } => return None,
            Workload::Periodic { interval, .. } => *interval,
            Workload::At(times) => return Some(connected + *times.get(number as usize)?),
            Workload::Requests { .. } => return Some(self.exchange.due(number, connected)),
        };
        let connected = connected.as_nanos();
        let after = interval.as_nanos().saturating_mul(u128::from(number));
        let after = u64::try_from(after).unwrap_or(u64::MAX);
        Some(Instant::from_nanos(connected.saturating_add(after)))
    }

    fn remotes(&self, context: &Context<'_>) -> Vec<IpAddr> {
        if self.spec.remotes.is_empty() {
            context.addresses(self.spec.to).to_vec()
        } else {
            self.spec.remotes.clone()
        }
    }

    /// The first address becomes the primary one, even if the handshake had to use another path.
    fn choose_primary(&self, context: &mut Context<'_>, id: AssociationId) {
        let Some(first) = self.remotes(context).first().copied() else { return };
        if let Some(mut association) = context.association(self.spec.from, id) {
            // If the peer does not list the address, the path of the handshake stays primary.
            let _ = association.set_primary(first);
        }
    }

    /// Whether there is data to send and the association has room for it.
    fn can_write(&self, context: &Context<'_>) -> bool {
        let association = self.sending.and_then(|id| context.look(self.spec.from, id));
        self.given < self.total_messages
            && self.result.connected_at.is_some()
            && association.is_some_and(|association| association.send_buffer_free() > 0)
    }

    /// Sends the due messages that fit.
    fn fill(&mut self, context: &mut Context<'_>) {
        let Some(id) = self.sending else { return };
        let now = context.now();
        let size = self.spec.message_size as u64;
        let mut wake = None;
        {
            let Some(mut association) = context.association(self.spec.from, id) else { return };
            while self.given < self.total_messages {
                let due = self.due(self.given);
                if let Some(due) = due
                    && due > now
                {
                    // A request that waits for an answer has no due time yet.
                    wake = Some(due).filter(|due| *due != Instant::FAR_FUTURE);
                    break;
                }
                let length = match self.spec.large {
                    Some(large) if (self.given + 1).is_multiple_of(large.every) => large.bytes,
                    Some(_) => self.spec.message_size,
                    None => {
                        let left = self.total_bytes - self.given * size;
                        usize::try_from(left.min(size)).unwrap_or(usize::MAX)
                    }
                };
                let stream = (self.given % u64::from(self.spec.streams)) as u16;
                // The PPID carries the number of the message, because the peer can read it.
                let ppid = Ppid(self.given as u32);
                let mut message = OutgoingMessage::new(stream, ppid, self.payload.slice(..length));
                message.unordered = self.spec.unordered;
                message.context = self.given;
                if let Some(large) = self.spec.large
                    && (self.given + 1).is_multiple_of(large.every)
                {
                    message.reliability = large.reliability;
                }
                match association.send(now, message) {
                    Ok(()) => {
                        self.times.push_back(Some(due.unwrap_or(now).as_nanos()));
                        self.given += 1;
                    }
                    Err(error) if error.reason == SendErrorReason::Blocked => break,
                    // The association is ending; its last event has the reason.
                    Err(_) => return,
                }
            }
            if self.given == self.total_messages
                && self.spec.then == Then::Shutdown
                && !self.shutting_down
            {
                self.shutting_down = true;
                association.shutdown(now);
            }
        }
        wake.into_iter().for_each(|at| context.wake_at(at));
    }

    /// Reads received messages.
    fn read(&mut self, context: &mut Context<'_>, id: AssociationId) {
        let now = context.now();
        let Some(mut association) = context.association(self.spec.to, id) else { return };
        while let Some(message) = association.receive() {
            association.release(message.charge());
            self.result.bytes += message.payload.len() as u64;
            if !message.end {
                continue;
            }
            match self.spec.workload {
                Workload::Requests { .. } => {
                    self.progressed(now);
                    self.exchange.asked.push_back((message.stream, message.ppid.0));
                }
                Workload::Bulk { .. } | Workload::Periodic { .. } | Workload::At(_) => {
                    self.delivered(now, message.ppid.0);
                }
            }
        }
        drop(association);
        self.answer(context, id);
    }

    /// Records that something has arrived.
    fn progressed(&mut self, now: Instant) {
        self.result.first_data_at.get_or_insert(now);
        self.close_gap(now);
        self.last_delivery = Some(now);
    }

    fn delivered(&mut self, now: Instant, low: u32) {
        self.progressed(now);
        self.result.messages += 1;
        if let Some(time) = self.settle(now, low) {
            self.result.delays.record_nanos(now.as_nanos() - time);
        }
    }

    /// Records that a message, given by the lower half of its number, was delivered or given up. Returns when it was
    /// passed, unless that is the second time.
    fn settle(&mut self, now: Instant, low: u32) -> Option<u64> {
        let offset = low.wrapping_sub(self.base as u32) as usize;
        let time = self.times.get_mut(offset).and_then(Option::take)?;
        self.settled += 1;
        while let Some(None) = self.times.front() {
            self.times.pop_front();
            self.base += 1;
        }
        if self.settled == self.total_messages {
            self.result.completed_at = Some(now);
            self.result.outcome = Outcome::Complete;
        }
        Some(time)
    }

    /// Ends the gap since the last delivery.
    fn close_gap(&mut self, now: Instant) {
        let Some(since) = self.last_delivery.or(self.result.connected_at) else { return };
        let gap = now.saturating_since(since);
        if gap > self.result.longest_gap {
            self.result.longest_gap = gap;
            self.result.longest_gap_at = since;
        }
    }

    /// Finishes at the end of the run.
    pub(crate) fn finish(&mut self, now: Instant) {
        if self.result.outcome == Outcome::Running {
            self.close_gap(now);
            self.result.outcome = Outcome::TimedOut;
        }
    }
}

impl Application for TransferApplication {
    fn start(&mut self, context: &mut Context<'_>) {
        self.result.started_at = context.now();
        let mut request = ConnectRequest::new(self.remotes(context), self.port);
        request.config = self.spec.sender.clone();
        let listening = context.listen(self.spec.to, self.port, self.spec.receiver.clone()).is_ok();
        match context.connect(self.spec.from, request) {
            Ok(id) if listening => self.sending = Some(id),
            _ => {
                self.ended = true;
                self.result.outcome = Outcome::Aborted(CloseReason::HandshakeFailed("no address"));
            }
        }
    }

    fn event(
        &mut self,
        context: &mut Context<'_>,
        endpoint: EndpointId,
        association: AssociationId,
        event: Event,
    ) {
        let now = context.now();
        if endpoint == self.spec.from {
            match event {
                Event::Notification(Notification::Up { .. }) => {
                    self.result.connected_at = Some(now);
                    self.choose_primary(context, association);
                    self.fill(context);
                }
                Event::Writable => self.fill(context),
                Event::Notification(Notification::PathChanged {
                    remote,
                    state: PathState::Inactive,
                    ..
                }) => {
                    let primary = self.remotes(context).first().copied();
                    self.result.failures += u64::from(primary == Some(remote));
                    let bytes = self.result.bytes;
                    self.result.path_failures.push(PathFailure { remote, at: now, bytes });
                }
                Event::Readable => self.read_answers(context, association),
                Event::Notification(Notification::SendFailed { message, .. }) => {
                    // What comes back because the association has ended was not given up.
                    let ended = context.look(endpoint, association).is_none_or(|association| {
                        association.statistics().state == AssociationState::Closed
                    });
                    if !ended && self.settle(now, message.context as u32).is_some() {
                        self.result.given_up += 1;
                    }
                }
                Event::Notification(Notification::Closed(reason)) => {
                    self.result.sender =
                        context.look(endpoint, association).map(|a| a.statistics());
                    self.ended = true;
                    if self.result.outcome == Outcome::Running {
                        self.close_gap(now);
                        self.result.outcome = Outcome::Aborted(reason);
                    }
                }
                _ => {}
            }
        } else {
            match event {
                Event::Notification(Notification::Up { .. }) => self.receiving = Some(association),
                Event::Readable => self.read(context, association),
                Event::Writable => self.answer(context, association),
                Event::Notification(Notification::Closed(_)) => {
                    self.read(context, association);
                    self.result.receiver =
                        context.look(endpoint, association).map(|a| a.statistics());
                }
                _ => {}
            }
        }
    }

    fn wake(&mut self, context: &mut Context<'_>) {
        if !self.spec.eager || self.can_write(context) {
            self.fill(context);
        }
    }

    fn is_done(&self) -> bool {
        self.ended || (self.result.outcome == Outcome::Complete && self.spec.then == Then::Stay)
    }
}
