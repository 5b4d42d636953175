//! The sending half of an association: waiting and outstanding data, the peer's acknowledgements, and
//! their effects on windows and timers.
//!
//! How data flows: [`Sender::push`] accepts a message; `rules` and `choice` decide whether data may
//! be sent, and on which path; `fill` writes it into packets. `acknowledge` processes
//! acknowledgements, `detect` finds the losses that they prove, and `lose` is the only place that
//! turns a loss into a retransmission, a lower window and a counter. `t3` handles T3-rtx. The state
//! of each path is in `lane`, the peer's receive window in `window`.
//!
//! The sender does not know the association's state. The association decides how a loss or an
//! acknowledgement affects the state of a path.

mod acknowledge;
mod blocked;
mod buffer_growth;
mod choice;
mod classes;
mod copies;
mod coupled;
mod detect;
mod ecn;
mod evidence;
mod fill;
mod forward;
mod forward_tsn;
mod give_up;
mod in_time;
#[cfg(any(test, feature = "invariants"))]
mod invariants;
mod journal;
mod lane;
mod lose;
mod measure;
mod probe;
mod reconfiguration;
mod rules;
#[cfg(test)]
mod steps;
mod t3;
mod window;

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_wire::Tsn;

use self::coupled::Views;
pub(crate) use self::fill::{Budget, Carrier};
pub(crate) use self::give_up::GivenUp;
use self::give_up::Partial;
pub use self::journal::Decision;
use self::lane::Lane;
pub(crate) use self::rules::DataTurn;
use self::window::PeerWindow;
use crate::config::{AssociationConfig, BurstControl};
use crate::congestion::RateSampler;
use crate::error::SendErrorReason;
use crate::message::{OutgoingMessage, Payload};
use crate::path::{Path, Paths, Setup};
use crate::per_path::{PathId, PerPath};
use crate::recovery::Reordering;
use crate::recovery::ack::{AckSummary, Acknowledged};
use crate::send::{
    Blocking, Bundle, Cause, Occupancy, Outstanding, Queued, SendQueue, StreamPriority,
};
use crate::stats::{Counters, SenderCounters, Statistics};
use crate::time::Instant;
use crate::tsn;

/// The sending half of an association.
#[derive(Debug)]
pub(crate) struct Sender {
    config: Arc<AssociationConfig>,
    queue: SendQueue,
    outstanding: Outstanding,
    acknowledged: Acknowledged,
    summary: AckSummary,
    window: PeerWindow,
    lanes: PerPath<Lane>,
    /// The state of all paths, while a window that depends on all of them changes.
    views: Views,
    /// First TSN of this side, as sent in INIT or INIT ACK.
    initial_tsn: Tsn,
    /// The number of the next packet, on any path.
    next_packet: u64,
    /// T3-rtx expired, and all data except one packet waits for a SACK.
    awaits_sack: bool,
    /// Early retransmit was spurious once, so it is no longer used.
    early_off: bool,
    /// A path has losses that its controller does not know yet.
    unreported: bool,
    /// Round-trip times are measured by timestamps, not by chunks that are sent only once.
    echoes: bool,
    /// The path that carried new data last.
    last_new: PathId,
    /// The speed of the paths, if slow ones are held back.
    in_time: Option<Box<in_time::InTime>>,
    /// Chunks sent on two paths, if an option has them copied.
    copies: Option<Box<copies::Copies>>,
    /// What partial reliability needs, once a message was lost that may be given up, or was given up.
    partial: Option<Box<Partial>>,
    /// Both sides agreed on partial reliability.
    may_skip: bool,
    /// Both sides agreed on ECN.
    ecn: bool,
    /// Measures the contents of the retransmission queue.
    occupancy: Occupancy,
    /// How long buffers blocked new data.
    blocking: Blocking,
    counts: SenderCounters,
    /// Chunks lost, by cause.
    lost: lose::Lost,
    /// Decisions, if there is a log.
    #[expect(clippy::box_collection, reason = "most associations have no log")]
    journal: Option<Box<Vec<Decision>>>,
}

impl Sender {
    /// A sender whose first chunk gets this TSN.
    pub(crate) fn new(config: Arc<AssociationConfig>, initial_tsn: Tsn) -> Self {
        let mut queue = SendQueue::new(&config.sending);
        if let Some(from) = config.paths.class_from {
            queue.classify(u16::try_from(from).unwrap_or(u16::MAX));
        }
        Self {
            queue,
            config,
            outstanding: Outstanding::new(tsn::first(initial_tsn.0)),
            acknowledged: Acknowledged::default(),
            summary: AckSummary::default(),
            window: PeerWindow::UNKNOWN,
            lanes: PerPath::default(),
            views: None,
            initial_tsn,
            next_packet: 1,
            awaits_sack: false,
            early_off: false,
            unreported: false,
            echoes: false,
            last_new: PathId::FIRST,
            in_time: None,
            copies: None,
            partial: None,
            may_skip: false,
            ecn: false,
            occupancy: Occupancy::default(),
            blocking: Blocking::default(),
            counts: SenderCounters::default(),
            lost: lose::Lost::default(),
            journal: None,
        }
    }

    /// Handles a restart of the peer, which lost its state and has this receive window now:
    /// everything is reset except the waiting messages and the counters.
    // req: rfc9260 5.2.4 "related to this peer MUST be reset"
    pub(crate) fn restart(
        &mut self,
        now: Instant,
        initial_tsn: Tsn,
        peer_rwnd: u32,
        paths: &Paths,
        setup: &Setup<'_>,
    ) {
        self.occupancy.note(now, self.outstanding.held(), self.outstanding.held_acked());
        self.occupancy.on_acknowledgement(false, true);
        self.blocking.forget_timeout();
        let fresh = Self::new(Arc::clone(&self.config), initial_tsn);
        let old = std::mem::replace(self, fresh);
        self.queue = old.queue;
        self.partial = Partial::lasting(old.partial);
        self.may_skip = old.may_skip;
        self.ecn = old.ecn;
        self.occupancy = old.occupancy;
        self.blocking = old.blocking;
        self.counts = old.counts;
        self.lost = old.lost;
        self.journal = old.journal;
        self.echoes = old.echoes;
        self.window.open(peer_rwnd);
        self.last_new = paths.active();
        self.add_lanes(now, paths, setup);
    }

    /// Creates lanes for paths that do not have one.
    pub(crate) fn add_lanes(&mut self, now: Instant, paths: &PerPath<Path>, setup: &Setup<'_>) {
        self.lanes.reserve_for(paths.len());
        for path in paths.iter() {
            if !self.lanes.has(path.id) {
                self.lanes.push(Lane::new(now, path, setup));
                self.outstanding.add_path(path.id);
            }
        }
    }

    /// Removes a path. Chunks in flight on it or waiting for it are retransmitted on path `to`.
    pub(crate) fn remove_path(&mut self, gone: PathId, to: PathId, paths: &mut PerPath<Path>) {
        self.resend(gone, Cause::WrongAddress, to, paths);
        self.outstanding.remove_path(gone, to);
        self.summary.paths.remove(gone);
        self.lanes.remove(gone);
        // One that left on another path is repeated when that path's T3-rtx expires.
        if self.forward_tsn_path().is_none() {
            self.repeat_forward_tsn();
        }
        if let Some(in_time) = &mut self.in_time {
            in_time.remove(gone);
        }
        if let Some(copies) = &mut self.copies {
            copies.remove(gone);
        }
        if self.last_new == gone {
            self.last_new = self.lanes.ids().next().unwrap_or(to);
        }
    }

    /// Applies changed options.
    pub(crate) fn reconfigure(&mut self, config: &Arc<AssociationConfig>) {
        let old = std::mem::replace(&mut self.config, Arc::clone(config));
        self.queue.reconfigure(&config.sending);
        if old.congestion.burst != config.congestion.burst {
            for lane in self.lanes.iter_mut() {
                lane.set_burst(config.congestion.burst);
            }
            self.begin_burst();
        }
    }

    /// First TSN of this side.
    pub(crate) fn initial_tsn(&self) -> Tsn {
        self.initial_tsn
    }

    /// Records the receive window that the peer announced in the handshake.
    pub(crate) fn open_window(&mut self, bytes: u32) {
        self.window.open(bytes);
    }

    /// Sets whether both sides negotiated timestamps.
    pub(crate) fn measure_by_echoes(&mut self, echoes: bool) {
        self.echoes = echoes;
    }

    /// Sets whether both sides agreed on partial reliability.
    pub(crate) fn allow_skipping(&mut self, allowed: bool) {
        self.may_skip = allowed;
    }

    /// Sets whether both sides agreed on the interleaving of messages. No chunk is outstanding.
    pub(crate) fn set_interleaving(&mut self, interleaves: bool) {
        self.queue.set_interleaving(interleaves);
    }

    /// Accepts a message, or returns the reason why not.
    pub(crate) fn push(
        &mut self,
        now: Instant,
        message: OutgoingMessage,
    ) -> Result<(), (SendErrorReason, OutgoingMessage)> {
        self.make_room(now, &message);
        self.queue.push(now, message)
    }

    /// Records that a message is refused for lack of memory elsewhere.
    pub(crate) fn refuse(&mut self) {
        self.queue.block();
    }

    /// Records that there may be memory again.
    pub(crate) fn room_made(&mut self) {
        self.queue.room_made();
    }

    /// Whether to wake a user whose message was refused; returns `true` once.
    pub(crate) fn take_writable(&mut self) -> bool {
        self.queue.take_writable()
    }

    /// The send buffer, in bytes.
    pub(crate) fn limit(&self) -> usize {
        self.queue.limit()
    }

    /// Send buffer left, in bytes.
    pub(crate) fn free(&self) -> usize {
        self.queue.free()
    }

    /// Bytes of memory that queued and outstanding data takes.
    pub(crate) fn buffered(&self) -> usize {
        self.queue.buffered()
    }

    /// User bytes that are not known to have arrived.
    pub(crate) fn pending(&self) -> usize {
        self.queue.unsent() + self.outstanding.payload()
    }

    /// The number of bytes that a byte stream may write next; if `None`, its user must wait for room.
    pub(crate) fn room_for_bytes(&mut self, stream: u16) -> Option<usize> {
        // A message must not take long, because a reader gets it only after its last byte.
        let cwnd = self.lanes.ids().map(|path| self.lanes[path].congestion.cwnd()).max();
        self.queue.room_for_bytes(stream, cwnd.unwrap_or_default() / 4)
    }

    /// Discards queued data of a byte stream.
    pub(crate) fn discard(&mut self, stream: u16) -> usize {
        self.queue.discard(stream)
    }

    /// Sets a stream's priority.
    pub(crate) fn set_priority(&mut self, stream: u16, priority: StreamPriority) {
        self.queue.set_priority(stream, priority);
    }

    /// The number of streams on which this side may send.
    pub(crate) fn outbound_streams(&self) -> u16 {
        self.queue.outbound_streams()
    }

    /// Sets the number of streams that the peer accepts. Returns messages for other streams.
    // req: rfc9260 6.5 "Every DATA chunk MUST carry a valid stream"
    pub(crate) fn agree_on_streams(&mut self, outbound: u16) -> Vec<Queued> {
        self.queue.set_outbound_streams(outbound);
        self.queue.refuse_streams()
    }

    /// Whether no data is waiting or outstanding.
    pub(crate) fn is_done(&self) -> bool {
        self.queue.unsent() == 0 && self.outstanding.is_empty()
    }

    /// Whether nothing is outstanding.
    pub(crate) fn has_all_acknowledged(&self) -> bool {
        self.outstanding.is_empty()
    }

    /// Whether a path has chunks in flight.
    pub(crate) fn in_flight(&self, path: PathId) -> bool {
        self.outstanding.in_flight(path)
    }

    /// Whether chunks wait for their retransmission.
    pub(crate) fn has_losses(&self) -> bool {
        self.outstanding.lost_chunks() > 0
    }

    /// The lowest TSN that is not cumulatively acknowledged.
    pub(crate) fn base(&self) -> u64 {
        self.outstanding.base()
    }

    /// Allows the next Max.Burst packets; called once for every event that may permit sending.
    pub(crate) fn begin_burst(&mut self) {
        use BurstControl::{MaxBurst, MaxBurstCutsCwnd};
        let packets = match self.config.congestion.burst {
            MaxBurst(packets) | MaxBurstCutsCwnd(packets) => {
                u16::try_from(packets).unwrap_or(u16::MAX)
            }
            // Discards the rest of another way to limit bursts.
            _ => u16::MAX,
        };
        self.lanes.iter_mut().for_each(|lane| lane.burst_left = packets);
    }

    /// Records that `packets` are sent on a path.
    pub(crate) fn count_packets(&mut self, path: PathId, packets: u64) {
        self.lanes[path].next_packet += packets;
        self.next_packet += packets;
    }

    /// Releases unused memory, including that for acknowledgements, when everything was acknowledged.
    pub(crate) fn shrink(&mut self, paths: &mut Paths) {
        self.summary = AckSummary::default();
        self.partial = Partial::lasting(self.partial.take());
        self.queue.shrink();
        self.copies.take_if(|copies| copies.is_idle());
        for lane in self.lanes.iter_mut() {
            if let Some(evidence) = lane.evidence.take_if(|evidence| evidence.is_idle()) {
                paths[lane.path].rtt.keep_least(evidence.rack.min_rtt());
            }
        }
    }

    /// Also frees memory that the next message would use, when the association has been idle for
    /// longer.
    pub(crate) fn shrink_further(&mut self) {
        self.outstanding.shrink();
    }

    /// Stops sending for good; [`take_unsent`](Self::take_unsent) returns what was not sent.
    pub(crate) fn stop(&mut self) {
        self.lanes.iter_mut().for_each(Lane::stop);
        self.window.stop();
    }

    /// Handles a restart of the peer: the SSNs of all streams start at 0 again.
    pub(crate) fn restart_streams(&mut self) {
        self.queue.restart();
    }

    /// Records that the user sends no more messages, so messages do not wait for more.
    pub(crate) fn end(&mut self) {
        if let Some(bundle) = self.queue.bundle_mut() {
            bundle.on_end();
        }
    }

    /// Passes every message that the peer has not acknowledged to `give`, with whether a part of it
    /// was sent.
    pub(crate) fn take_unsent(&mut self, mut give: impl FnMut(OutgoingMessage, bool)) {
        let mut cut = self.take_outstanding(&mut give);
        while let Some(message) = self.queue.drain() {
            let sent = message.begun;
            let part = if sent { cut.remove(&message.number) } else { None };
            let mut message = message.into_message();
            if let Some(part) = part {
                let mut data = Payload::from(part.data);
                data.push(message.data);
                message.data = data.into_bytes();
            }
            give(message, sent);
        }
    }

    /// Passes every outstanding message to `give`. Messages that were only partly sent are returned
    /// instead, by number, because their rests are in the queue.
    fn take_outstanding(
        &mut self,
        give: &mut impl FnMut(OutgoingMessage, bool),
    ) -> BTreeMap<u32, OutgoingMessage> {
        let mut cut = BTreeMap::new();
        for (number, message, chunks) in self.outstanding.take_messages() {
            let mut data = Payload::default();
            for payload in chunks {
                self.queue.release(1, payload.len());
                data.push(payload);
            }
            // The user got it back when it was given up.
            if message.given_up {
                continue;
            }
            let whole = OutgoingMessage {
                unordered: message.unordered,
                context: message.context,
                ..OutgoingMessage::new(message.stream, message.ppid, data.into_bytes())
            };
            if message.complete {
                give(whole, true);
            } else {
                cut.insert(number, whole);
            }
        }
        cut
    }

    /// Congestion metrics of a path: cwnd in bytes, ssthresh in bytes if there was a loss, and the
    /// largest number of packets that overtook a packet.
    pub(crate) fn learnt(&self, path: PathId) -> (usize, Option<usize>, u64) {
        let lane = &self.lanes[path];
        let ssthresh = Some(lane.congestion.ssthresh()).filter(|bytes| *bytes < usize::MAX);
        let reordering = lane.evidence.as_ref().map_or(0, |evidence| evidence.order.extent());
        (lane.congestion.cwnd(), ssthresh, reordering)
    }

    /// Applies metrics of an earlier association to a path that has not carried data yet.
    pub(crate) fn recall(
        &mut self,
        now: Instant,
        path: PathId,
        ssthresh: Option<usize>,
        reordering: u64,
    ) {
        let adapts = self.config.recovery.reordering == Reordering::Adaptive;
        let lane = &mut self.lanes[path];
        if lane.next_packet > 1 {
            return;
        }
        if let Some(ssthresh) = ssthresh {
            lane.congestion.tell(|c| c.on_recalled(now, ssthresh));
        }
        if reordering > 0 && adapts {
            lane.evidence.get_or_insert_default().order.on_needless(reordering);
        }
    }

    /// Adds the sender's totals to an association's counters.
    pub(crate) fn count(&self, counters: &mut Counters) {
        self.counts.add_to(counters);
        self.lost.count(counters);
    }

    /// Adds the sender's state to the statistics of an association.
    pub(crate) fn describe(&self, statistics: &mut Statistics) {
        statistics.send_queue_bytes = self.queue.unsent();
        statistics.outstanding_bytes = self.outstanding.payload_in_flight();
        statistics.outstanding_chunks = self.outstanding.len();
        statistics.retransmission_queue = self.occupancy.statistics(self.outstanding.held());
        statistics.blocking = self.blocking.statistics();
        statistics.bundling = self.queue.bundle().map(Bundle::held).unwrap_or_default();
        statistics.given_up = self.all_given_up();
        statistics.peer_rwnd = self.window.left() as u32;
        self.count(&mut statistics.counters);
        for path in &mut statistics.paths {
            let Some(lane) = self.lanes.get(path.id) else { continue };
            path.cwnd = lane.congestion.cwnd();
            path.ssthresh = lane.congestion.ssthresh();
            path.flight = self.outstanding.flight(path.id);
            path.min_rtt = lane.congestion.rtt(path.srtt).min;
            path.delivery_rate = lane.congestion.rate.as_deref().and_then(RateSampler::latest);
        }
    }
}
