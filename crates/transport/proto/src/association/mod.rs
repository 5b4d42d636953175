//! One association: its state, and the operations for its user.
//!
//! The other files of this folder implement the life cycle of an association (`handshake`, `shutdown`)
//! and the processing of packets (`input`, `acknowledged`, `transmit`, `timers`); `heartbeats`,
//! `path_state`, `failover` and `network_reports` monitor its paths.

mod acknowledged;
mod addresses;
mod authentication;
mod buggify;
mod change_options;
mod control;
mod dry;
mod ecn;
mod failover;
mod forward_tsn;
mod handshake;
mod heartbeats;
mod incarnation;
mod input;
#[cfg(any(test, feature = "invariants"))]
mod invariants;
mod metrics;
mod network_reports;
mod news;
mod path_state;
mod peer;
mod potentially_failed;
mod progress;
mod readdressing;
mod rebinding;
mod reconfiguration;
mod requests;
mod restart;
mod shutdown;
mod state;
mod timers;
mod timestamp;
mod transmit;
mod vigilance;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use anabranch_wire::{HEADER_LEN, Header};
use bytes::Bytes;

pub(crate) use authentication::{Authentication, Rest, Screen};
pub(crate) use control::Control;
pub(crate) use handshake::Initiation;
pub(crate) use input::{Arrival, TagCheck};
use news::News;
pub(crate) use peer::{Peer, Refusal, init_value, new_addresses_cause};
use progress::{Account, Progress};
use readdressing::Readdressing;
use rebinding::Ports;
use reconfiguration::Reconfiguration;
pub(crate) use restart::InitAnswer;
use shutdown::Ending;
pub(crate) use state::State;
use timestamp::Timestamps;
use vigilance::Watch;

use crate::config::{AssociationConfig, IpVersions, Routes};
use crate::encapsulation::Headers;
use crate::error::{NoSuchPath, SendError, SendErrorReason};
use crate::event::{CloseReason, Event, Notification, PathState};
use crate::features::Features;
use crate::memory::Memory;
use crate::message::{Message, OutgoingMessage};
use crate::path::{Path, Paths, address};
use crate::per_path::PathId;
use crate::policy::failover::Input;
use crate::receive::Receiver;
use crate::receive::delayed_ack::Acknowledger;
use crate::reliability::{GivenUpBy, GivenUpMessages};
use crate::rng::Rng;
use crate::send::{Queued, StreamPriority};
use crate::sender::{Decision, GivenUp, Sender};
use crate::stats::{self, AssociationCounters, Counters, RetransmissionQueue, Statistics};
use crate::tag_mark::TagMark;
use crate::time::Instant;

/// Maximum number of control chunks that wait for transmission; further answers are dropped.
const MAX_CONTROL: usize = 32;

/// Properties of the endpoint that an association needs.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    pub(crate) locals: Arc<[IpAddr]>,
    pub(crate) ip_versions: IpVersions,
    pub(crate) common: Arc<Common>,
    pub(crate) headers: Headers,
    pub(crate) checksum: bool,
    pub(crate) initial_tsn: Option<u32>,
    #[cfg(feature = "invariants")]
    pub(crate) buggify: u32,
}

/// State that all associations of an endpoint share.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) routes: Routes,
    pub(crate) memory: Memory,
    pub(crate) tag_mark: Option<TagMark>,
}

impl Surroundings {
    /// The same for an association that a peer began at `local`, without link-local addresses of other
    /// links, which do not reach that peer.
    pub(crate) fn within_link_of(&self, local: IpAddr, ip_versions: IpVersions) -> Self {
        let other_link =
            |l: IpAddr| address::is_link_local(local) && l != local && address::is_link_local(l);
        self.within(ip_versions, |l| !other_link(l))
    }

    /// The same with only those local addresses that are of these versions of IP and `wanted`.
    pub(crate) fn within(&self, ip_versions: IpVersions, wanted: impl Fn(IpAddr) -> bool) -> Self {
        let mut own = self.clone();
        own.ip_versions = ip_versions;
        let meant = |local: &IpAddr| ip_versions.include(*local) && wanted(*local);
        if !self.locals.iter().all(meant) {
            own.locals = self.locals.iter().copied().filter(meant).collect();
        }
        own
    }
}

/// An SCTP association.
///
/// Drivers access it through [`Endpoint::association_mut`](crate::Endpoint::association_mut).
#[derive(Debug)]
pub struct Association {
    config: Arc<AssociationConfig>,
    surroundings: Surroundings,
    identity: Identity,
    state: State,
    /// Features that both sides support and want.
    features: Features,
    paths: Paths,
    watch: Watch,
    sender: Sender,
    receiver: Receiver,
    acknowledger: Acknowledger,
    timestamps: Timestamps,
    /// State of authentication, if this side offers it and the peer does not refuse it.
    authentication: Option<Box<Authentication>>,
    /// State of stream reconfiguration, once it is used.
    reconfiguration: Option<Box<Reconfiguration>>,
    /// State of address reconfiguration, once it is used.
    readdressing: Option<Box<Readdressing>>,
    outbox: Outbox,
    news: News,
    ending: Ending,
    progress: Progress,
    account: Account,
    ports: Ports,
    rng: Rng,
    counts: AssociationCounters,
}

/// The identity of an association.
#[derive(Debug)]
struct Identity {
    local_port: u16,
    remote_port: u16,
    /// The tags of packets to this side, and to the peer; 0 until the peer's tag is known.
    local_tag: u32,
    peer_tag: u32,
    /// Nonces that represent both tags in the cookies of a peer that restarts.
    tie_tags: (u32, u32),
    /// Cookies older than this do not restart the association. It is when the cookie of the setup was
    /// made, if the peer echoed one in a collision, or when a candidate last refused, or when the COOKIE
    /// ECHO was sent that the peer answered.
    cookie_made: Instant,
    /// Tag of the last INIT that was answered with an ABORT because of the addresses it would have
    /// added, while this side's handshake was in progress; 0 if there was none.
    refused_tag: u32,
    /// The peer began the association.
    incoming: bool,
    /// The keys of the association changed since the endpoint last looked: the peer's known addresses,
    /// its UDP ports, or the tag.
    changed: bool,
    /// Number of restarts of the peer.
    restarts: u32,
}

/// Control chunks that wait for a packet.
#[derive(Debug, Default)]
struct Outbox {
    /// The chunks, each with its path.
    chunks: VecDeque<(PathId, Control)>,
    /// Bytes of further answers that the current packet may cause; all of them must fit into one packet.
    answer_room: u32,
    /// The current packet was answered.
    answered: bool,
}

impl Outbox {
    /// Drops the chunks after the first `before`, unless they begin a handshake.
    fn drop_answers(&mut self, before: usize) {
        let mut seen = 0;
        self.chunks.retain(|(_, control)| {
            seen += 1;
            seen <= before || matches!(control, Control::Init)
        });
    }
}

impl Association {
    /// Accepts a message to send.
    ///
    /// # Errors
    /// [`SendError`] with the reason and the message unchanged.
    // req: rfc9260 9.2 "SHOULD reject any new data request from its"
    pub fn send(&mut self, now: Instant, message: OutgoingMessage) -> Result<(), SendError> {
        if !self.state.takes_user_data() {
            return Err(SendError { reason: SendErrorReason::Closed, message });
        }
        let memory = &self.surroundings.common.memory;
        if memory.is_too_small_for(message.data.len()) {
            return Err(SendError { reason: SendErrorReason::TooLong, message });
        }
        if !self.memory_has_room(message.data.len().max(1)) {
            self.sender.refuse();
            return Err(SendError { reason: SendErrorReason::Blocked, message });
        }
        match self.sender.push(now, message) {
            Ok(()) => {
                self.counts.messages_sent += 1;
                self.progress.last_user_data = now;
                self.sender.begin_burst();
                self.news.dry.end();
                Ok(())
            }
            Err((reason, message)) => Err(SendError { reason, message }),
        }
    }

    /// The next message, or part of one, that can be delivered. It occupies the receive buffer
    /// until [`release`](Self::release) is called with its charge.
    pub fn receive(&mut self) -> Option<Message> {
        let message = self.receiver.poll_message();
        self.news.wants_readable |= message.is_none();
        message
    }

    /// The highest TSN up to which all of the peer's chunks have arrived; before the first one, the TSN
    /// before the peer's initial one.
    pub fn cumulative_tsn(&self) -> u32 {
        self.receiver.cumulative() as u32
    }

    /// Number of restarts of the peer.
    pub fn restarts(&self) -> u32 {
        self.identity.restarts
    }

    /// Whether the next message from [`receive`](Self::receive) arrived before the last restart of the
    /// peer.
    pub fn next_is_from_before_restart(&self) -> bool {
        self.receiver.next_is_from_before()
    }

    /// Returns receive buffer: the charge of messages that the user has consumed.
    pub fn release(&mut self, charge: u32) {
        self.receiver.release(charge);
        self.note_memory();
        if self.receiver.window_update_due() && self.state.acknowledges() {
            self.acknowledger.request();
        }
    }

    /// Passes the endpoint's free memory to the receiver.
    pub(crate) fn note_memory(&mut self) {
        let left = self.memory_left();
        self.receiver.note_memory(left);
    }

    /// Bytes in the receive buffer and in the send buffer, and other memory used because of the peer.
    pub(crate) fn memory(&self) -> usize {
        self.receiver.used()
            + self.sender.buffered()
            + self.news.held()
            + self.account.by_user()
            + self.reconfiguration_memory()
    }

    /// Called when the endpoint was short of memory and no longer is.
    pub(crate) fn on_memory_returned(&mut self) {
        self.note_memory();
        if self.receiver.window_update_due() && self.state.acknowledges() {
            self.acknowledger.request();
        }
        self.sender.room_made();
    }

    /// Shuts the association down gracefully: sent data is delivered first, and no new data is
    /// accepted. [`Notification::Closed`] reports the end.
    ///
    /// If the peer loses its state meanwhile, unacknowledged data is returned, and the association with
    /// its next incarnation is shut down. There is no time limit for a live peer that keeps its receive
    /// window closed.
    pub fn shutdown(&mut self, now: Instant) {
        self.ending.wanted |= self.is_established() && !self.is_closed();
        self.user_shutdown(now);
    }

    /// Ends the association immediately and sends `reason` to the peer (up to 512 bytes of it).
    pub fn abort(&mut self, now: Instant, reason: &[u8]) {
        self.user_abort(now, reason);
    }

    /// A snapshot of counters and gauges.
    pub fn statistics(&self) -> Statistics {
        let mut statistics = Statistics {
            state: self.state.name(),
            primary: self.paths.primary(),
            active: self.paths.active(),
            send_queue_bytes: 0,
            outstanding_bytes: 0,
            outstanding_chunks: 0,
            retransmission_queue: RetransmissionQueue::default(),
            blocking: stats::Blocking::default(),
            bundling: stats::HeldBack::default(),
            given_up: GivenUpMessages::default(),
            nr_sack: self.features.has(Features::NR_SACK),
            features: self.features,
            peer_rwnd: 0,
            receive_buffer_used: self.receiver.used(),
            counters: Counters::default(),
            paths: self.paths.iter().map(Path::statistics).collect(),
        };
        self.counts.add_to(&mut statistics.counters);
        self.reconfiguration_counts().add_to(&mut statistics.counters);
        self.address_counts().add_to(&mut statistics.counters);
        self.authentication_counts().add_to(&mut statistics.counters);
        self.receiver.count(&mut statistics.counters);
        self.sender.describe(&mut statistics);
        statistics
    }

    /// Sets whether to record the sender's decisions from now on, for a log.
    pub(crate) fn keep_journal(&mut self, keep: bool) {
        self.sender.keep_journal(keep);
    }

    /// The decisions since the last call.
    pub(crate) fn take_decisions(&mut self) -> Vec<Decision> {
        self.sender.take_decisions()
    }

    /// Whether these are the verification tags of both sides.
    pub(crate) fn has_tags(&self, local: u32, peer: u32) -> bool {
        (self.identity.local_tag, self.identity.peer_tag) == (local, peer)
    }

    /// Whether the handshake is done and the association not yet closed.
    pub fn is_established(&self) -> bool {
        !matches!(self.state, State::CookieWait { .. } | State::CookieEchoed { .. } | State::Closed)
    }

    /// Whether this side has sent INIT and waits for the answer.
    pub(crate) fn awaits_init_ack(&self) -> bool {
        matches!(self.state, State::CookieWait { .. })
    }

    /// Whether the association has ended.
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// Whether the association has ended, and the peer may still wait for SHUTDOWN COMPLETE.
    pub(crate) fn peer_waits_for_complete(&self) -> bool {
        self.ending.peer_waits
    }

    /// Whether the peer began the association.
    pub fn is_incoming(&self) -> bool {
        self.identity.incoming
    }

    /// Streams that this side may send on.
    pub fn outbound_streams(&self) -> u16 {
        self.sender.outbound_streams()
    }

    /// Streams that the peer may send on.
    pub fn inbound_streams(&self) -> u16 {
        self.receiver.inbound_streams()
    }

    /// The tag of packets to the peer; 0 until it is known.
    pub(crate) fn peer_tag(&self) -> u32 {
        self.identity.peer_tag
    }

    /// SCTP port of this side.
    pub fn local_port(&self) -> u16 {
        self.identity.local_port
    }

    /// SCTP port of the peer.
    pub fn remote_port(&self) -> u16 {
        self.identity.remote_port
    }

    /// The tag of packets to this side (RFC 9260 section 3.1); a restart changes it.
    pub fn verification_tag(&self) -> u32 {
        self.identity.local_tag
    }

    /// The first bytes of a packet of this association, as a host or a router quotes them; an INIT
    /// until the peer's tag is known. For harnesses that report errors of packets.
    pub fn start_of_packet(&self) -> [u8; 20] {
        let mut start = [0; 20];
        start[..2].copy_from_slice(&self.identity.local_port.to_be_bytes());
        start[2..4].copy_from_slice(&self.identity.remote_port.to_be_bytes());
        start[4..8].copy_from_slice(&self.identity.peer_tag.to_be_bytes());
        if self.identity.peer_tag == 0 {
            start[12] = anabranch_wire::kind::INIT;
            start[16..].copy_from_slice(&self.identity.local_tag.to_be_bytes());
        }
        start
    }

    /// The current size of the receive buffer in bytes; it may grow up to the option `receive_buffer`.
    pub fn receive_buffer(&self) -> usize {
        self.receiver.limit()
    }

    /// The current size of the send buffer in bytes; it may grow up to the option `send_buffer`.
    pub fn send_buffer(&self) -> usize {
        self.sender.limit()
    }

    /// Free bytes of the send buffer; at 0 messages are refused.
    pub fn send_buffer_free(&self) -> usize {
        self.sender.free().min(self.memory_left())
    }

    /// User bytes that are not known to have arrived: queued or in flight.
    pub fn pending_bytes(&self) -> usize {
        self.sender.pending()
    }

    /// Whether messages can be received.
    pub fn is_readable(&self) -> bool {
        self.receiver.readable()
    }

    /// Options of this association.
    pub fn config(&self) -> &AssociationConfig {
        &self.config
    }

    /// Sets a stream's priority, for the scheduler [`Priority`](crate::SchedulerKind::Priority).
    pub fn set_stream_priority(&mut self, stream: u16, priority: impl Into<StreamPriority>) {
        self.sender.set_priority(stream, priority.into());
    }

    /// The best length for the next [divisible](OutgoingMessage::divisible) message of a stream, in
    /// bytes, which avoids needless copies: 16 KiB, up to 64 KiB if a quarter of the congestion window
    /// is that large, and at most the maximum message size. `None` if there is no room;
    /// [`Event::Writable`] reports when there is.
    pub fn room_for_bytes(&mut self, stream: u16) -> Option<usize> {
        self.sender.room_for_bytes(stream)
    }

    /// Discards the waiting [divisible](OutgoingMessage::divisible) messages of a stream that have
    /// not been sent at all; returns the number of bytes.
    pub fn discard_stream(&mut self, now: Instant, stream: u16) -> usize {
        let bytes = self.sender.discard(stream);
        // A shutdown may have waited for these messages.
        self.advance_shutdown(now);
        bytes
    }

    /// Makes the path to `remote` the primary one.
    ///
    /// # Errors
    /// [`NoSuchPath`] if there is no such path, it is not confirmed, or the association has ended.
    pub fn set_primary(&mut self, remote: IpAddr) -> Result<(), NoSuchPath> {
        if self.is_closed() {
            return Err(NoSuchPath);
        }
        let path = (self.paths.iter())
            .find(|path| path.remote == remote && path.is_verified())
            .ok_or(NoSuchPath)?;
        self.fail_over(Input::SetPrimary(path.id));
        Ok(())
    }

    /// Sends a heartbeat to every path to `remote` now (RFC 9260 section 11.1.9).
    ///
    /// # Errors
    /// [`NoSuchPath`] if there is no such path.
    pub fn request_heartbeat(&mut self, now: Instant, remote: IpAddr) -> Result<(), NoSuchPath> {
        let mut found = false;
        for path in self.paths.iter_mut().filter(|path| path.remote == remote) {
            path.heartbeat.demand(now);
            found = true;
        }
        if found { Ok(()) } else { Err(NoSuchPath) }
    }

    /// The paths: identifier, local and remote address, state.
    pub fn paths(&self) -> impl Iterator<Item = (PathId, IpAddr, IpAddr, PathState)> + '_ {
        self.paths.iter().map(|path| (path.id, path.local, path.remote, path.state))
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.news.pop()
    }

    /// Whether there are events. This is called after every input, so it is the place that notices when
    /// there is room again after a refused send, or when nothing is left to be sent.
    pub(crate) fn has_events(&mut self) -> bool {
        self.note_dry();
        if self.sender.take_writable() && !self.is_closed() {
            self.news.push(Event::Writable);
        }
        self.news.any()
    }

    /// Whether the keys of the association have changed since the last call.
    pub(crate) fn take_paths_changed(&mut self) -> bool {
        std::mem::take(&mut self.identity.changed)
    }

    /// The largest MTU of any path, in bytes: a packet with all that is around it.
    pub(crate) fn largest_mtu(&self) -> usize {
        self.paths.iter().map(|path| usize::from(path.mtu.current())).max().unwrap_or(512)
    }

    pub(crate) fn shared_config(&self) -> Arc<AssociationConfig> {
        Arc::clone(&self.config)
    }

    pub(crate) fn ip_versions(&self) -> IpVersions {
        self.surroundings.ip_versions
    }

    // req: rfc9260 3.1 "On transmit, the value of the Verification Tag"
    // req: rfc9260 8.5 "MUST fill in the Verification Tag field of"
    // req: rfc9260 3.3.2 "MUST be placed into the Verification Tag"
    // req: rfc9260 3.3.3 "MUST be placed into the Verification Tag"
    // req: rfc9260 5.3.1 "MUST NOT change during the life time"
    // req: rfc9260 8.5.1 "MUST always fill in the Verification Tag"
    // req: rfc9260 8.5.1 "MUST use the value of the Initiate Tag"
    // req: rfc9260 9.1 "MUST fill in the peer's Verification Tag"
    fn header(&self) -> Header {
        Header {
            source_port: self.identity.local_port,
            destination_port: self.identity.remote_port,
            verification_tag: self.identity.peer_tag,
        }
    }

    /// Queues a control chunk for a path. The queue is bounded, so a flood of requests is not
    /// answered one by one.
    fn queue(&mut self, path: PathId, control: Control) {
        // Until the peer's tag is known only INIT is sent, with tag 0.
        // req: rfc9260 8.5 "MUST fill in the Verification Tag field of"
        let has_tag = self.identity.peer_tag != 0
            || matches!(control, Control::Init | Control::Refuse { .. });
        if has_tag && self.outbox.chunks.len() < MAX_CONTROL {
            self.outbox.chunks.push_back((path, control));
        }
    }

    /// Queues an answer of `length` bytes to the current packet, unless all its answers would not fit
    /// into one packet. Only the first answer may exceed the path MTU: it gets its own packet, which the
    /// network may fragment.
    // req: rfc9260 12.4 "MUST NOT send more than one packet containing"
    fn answer(&mut self, path: PathId, control: Control, length: usize) {
        let length = u32::try_from(length.next_multiple_of(4)).unwrap_or(u32::MAX);
        let full = self.paths[path].packet_size() - HEADER_LEN;
        let is_oversized = length as usize > full;
        if length <= self.outbox.answer_room || is_oversized && !self.outbox.answered {
            self.outbox.answer_room = self.outbox.answer_room.saturating_sub(length);
            self.outbox.answered = true;
            self.queue(path, control);
        }
    }

    /// The path for an answer to a packet received on `path`: an unconfirmed path carries only
    /// heartbeats.
    // req: rfc9260 5.4 "An endpoint MUST NOT send any chunks to an"
    fn reply_path(&self, path: PathId) -> PathId {
        if self.paths[path].may_carry() { path } else { self.paths.active() }
    }

    /// Ends the association and notifies the user, including every message that was not delivered.
    fn close(&mut self, reason: CloseReason) {
        if self.is_closed() {
            return;
        }
        self.state = State::Closed;
        self.sender.stop();
        self.paths.iter_mut().for_each(|path| path.heartbeat.schedule(None));
        self.ending.guard = None;
        self.end_reconfiguration();
        self.end_readdressing();
        self.fail_everything();
        tracing::debug!(%reason, "association closed");
        self.news.notify(Notification::Closed(reason));
    }

    /// Returns every message to the user that the peer has not acknowledged.
    fn fail_everything(&mut self) {
        self.tell_given_up();
        let news = &mut self.news;
        self.sender.take_unsent(|message, sent| {
            news.notify(Notification::SendFailed { message: Box::new(message), sent });
        });
    }

    /// Returns a queued message to the user.
    fn fail_queued(&mut self, message: Queued) {
        let sent = message.begun;
        let message = Box::new(message.into_message());
        self.news.notify(Notification::SendFailed { message, sent });
    }

    /// The messages that were given up by a policy, on one stream or on all (RFC 7496 sections 4.3 and 4.4).
    pub fn given_up(&self, by: GivenUpBy, stream: Option<u16>) -> GivenUpMessages {
        self.sender.given_up(by, stream)
    }

    /// Reports messages that were given up. Returns whether there were any.
    fn tell_given_up(&mut self) -> bool {
        let given_up = self.sender.take_given_up();
        if given_up.is_empty() {
            return false;
        }
        for GivenUp { message, sent } in given_up {
            self.news.notify(Notification::SendFailed { message: Box::new(message), sent });
        }
        true
    }

    /// Gives up all messages whose lifetime has passed, wherever they are.
    fn expire_all_messages(&mut self, now: Instant) {
        self.sender.expire_all(now);
        self.tell_given_up();
        // A shutdown may have waited for these messages.
        self.advance_shutdown(now);
    }

    /// Converts the payload of a borrowed chunk into a slice of its `Bytes` batch.
    fn slice(batch: &Bytes, part: &[u8]) -> Bytes {
        if part.is_empty() { Bytes::new() } else { batch.slice_ref(part) }
    }
}
