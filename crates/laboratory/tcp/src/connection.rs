//! A connection: handshake, both halves, and closing.

use std::time::Duration;

use anabranch_units::Instant;
use bytes::Bytes;

use crate::cache::Metrics;
use crate::config::Config;
use crate::ecn::Ecn;
use crate::receiver::Receiver;
use crate::rto::Rto;
use crate::scoreboard::Outgoing;
use crate::segment::{Blocks, Segment};
use crate::sender::{Acknowledgement, Sender};
use crate::sequence::unwrap;
use crate::timestamps::{self, Recent};

/// Size of timestamps in a header in bytes.
const TIMESTAMPS: u16 = 12;

/// RTO for data if a SYN was retransmitted (RFC 6298 section 5.7).
const RTO_AFTER_LOST_SYN: Duration = Duration::from_secs(3);

/// The state of a connection. The closing states (RFC 9293 section 3.3.2) follow from the states of both halves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Listen,
    SynSent,
    SynReceived,
    Open,
    /// Reset or given up.
    Dead,
}

/// Counters of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Segments sent, of any kind.
    pub segments_sent: u64,
    /// Retransmitted segments with data or a FIN.
    pub retransmissions: u64,
    /// Retransmissions in a recovery that duplicate acknowledgements, blocks or time had started.
    pub fast_retransmissions: u64,
    /// Retransmitted SYNs and SYN ACKs.
    pub handshake_retransmissions: u64,
    /// Number of recoveries started by duplicate acknowledgements or blocks.
    pub recoveries: u64,
    /// Number of expiries of the retransmission timer for data.
    pub timeouts: u64,
    /// Recoveries that started with fewer duplicate acknowledgements than usual (RFC 5827).
    pub early_retransmits: u64,
    /// Tail loss probes (RFC 8985).
    pub tail_probes: u64,
    /// Needless retransmissions, as far as the receiver reported them or an echo revealed them.
    pub needless_retransmissions: u64,
    /// Recoveries and timeouts that turned out to be spurious.
    pub recoveries_undone: u64,
    /// Segments that could not be decoded.
    pub damaged: u64,
    /// Reductions of the window because the other end reported a mark (RFC 3168).
    pub ecn_reductions: u64,
    /// Bytes acknowledged by the other end.
    pub bytes_acknowledged: u64,
    /// Congestion window in bytes.
    pub cwnd: u64,
    /// Bytes sent and not yet acknowledged cumulatively.
    pub outstanding: u64,
    /// Slow start threshold in bytes; `u64::MAX` before the first loss.
    pub ssthresh: u64,
    /// Smoothed round-trip time, after the first measurement.
    pub srtt: Option<Duration>,
}

/// One end of a TCP connection. Its inputs are time and segments; its outputs are segments, deadlines and bytes.
#[derive(Debug)]
pub struct Connection {
    config: Config,
    state: State,
    local_port: u16,
    remote_port: u16,
    /// Position of our SYN; its low 32 bits are the initial sequence number.
    initial: u64,
    sender: Sender,
    receiver: Option<Receiver>,
    /// Window scale shifts of the peer and of this end (RFC 7323); 0 if not negotiated.
    their_scale: u8,
    our_scale: u8,
    sack: bool,
    /// Whether timestamps are in use; before the peer's SYN arrives, whether this end wants them.
    timestamps: bool,
    recent: Recent,
    ecn: Ecn,
    /// Timer of the handshake, and when the SYN was sent; `None` after a retransmission.
    handshake: Rto,
    handshake_timer: Option<Instant>,
    syn_sent_at: Option<Instant>,
    syn_due: bool,
    syns_sent: u64,
    reset_due: bool,
    probe: Option<Outgoing>,
    segments_sent: u64,
    damaged: u64,
}

impl Connection {
    /// An end that opens the connection from the first port to the second. `isn` is its initial sequence number.
    pub fn connect(config: Config, ports: (u16, u16), isn: u32) -> Self {
        Self::new(config, State::SynSent, ports, isn)
    }

    /// An end that listens on a port for one connection.
    pub fn accept(config: Config, port: u16, isn: u32) -> Self {
        Self::new(config, State::Listen, (port, 0), isn)
    }

    fn new(config: Config, state: State, (local_port, remote_port): (u16, u16), isn: u32) -> Self {
        // Add one wrap so that no position is negative.
        let initial = (1 << 32) + u64::from(isn);
        let our_scale = (0..14).find(|s| config.receive_buffer >> s <= 0xffff).unwrap_or(14);
        Self {
            state,
            local_port,
            remote_port,
            initial,
            sender: Sender::new(&config, initial + 1),
            receiver: None,
            their_scale: 0,
            our_scale,
            sack: config.sack,
            timestamps: config.timestamps,
            recent: Recent::default(),
            ecn: Ecn::new(config.ecn),
            handshake: Rto::new(&config),
            handshake_timer: None,
            syn_sent_at: None,
            syn_due: state == State::SynSent,
            syns_sent: 0,
            reset_due: false,
            probe: None,
            segments_sent: 0,
            damaged: 0,
            config,
        }
    }

    // The user.

    /// Accepts as many bytes to send as the send buffer has room for; returns the rest.
    #[must_use]
    pub fn write_some(&mut self, data: Bytes) -> Bytes {
        self.sender.write(data)
    }

    /// Accepts bytes to send, and drops those that do not fit into the send buffer.
    pub fn write(&mut self, data: Bytes) {
        drop(self.sender.write(data));
    }

    /// Finishes the stream: the other end sees end of file after all written data.
    pub fn finish(&mut self) {
        self.sender.finish();
    }

    /// The next bytes in order, if any; call it until it returns `None`.
    pub fn read(&mut self) -> Option<Bytes> {
        self.receiver.as_mut()?.read()
    }

    /// Starts with the metrics of an earlier connection to the same host. Must be called before anything is sent.
    pub fn start_with(&mut self, metrics: &Metrics) {
        self.sender.start_with(metrics);
    }

    /// The metrics to store for a later connection.
    pub fn metrics(&self) -> Metrics {
        self.sender.metrics()
    }

    /// Aborts the connection immediately and sends a reset.
    pub fn reset(&mut self) {
        if matches!(self.state, State::Open | State::SynReceived) {
            self.reset_due = true;
        }
        self.state = State::Dead;
    }

    /// Whether the handshake is complete and the connection is neither reset nor given up.
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Whether either end reset it, or it was given up.
    pub fn is_dead(&self) -> bool {
        self.state == State::Dead
    }

    /// Whether the other end has finished and all its bytes have been read.
    pub fn is_at_end(&self) -> bool {
        self.receiver.as_ref().is_some_and(Receiver::is_at_end)
    }

    /// Whether this end has finished and all its bytes have been acknowledged.
    pub fn is_finished(&self) -> bool {
        self.sender.is_finished()
    }

    /// Its counters so far.
    pub fn stats(&self) -> Stats {
        let congestion = self.sender.congestion();
        // The SYN is not data, and neither is the FIN.
        let acknowledged = self.sender.unacknowledged() - self.initial - 1;
        Stats {
            segments_sent: self.segments_sent,
            retransmissions: self.sender.counters.retransmissions,
            fast_retransmissions: self.sender.counters.fast,
            handshake_retransmissions: self.syns_sent.saturating_sub(1),
            recoveries: self.sender.counters.recoveries,
            timeouts: self.sender.counters.timeouts,
            early_retransmits: self.sender.counters.early,
            tail_probes: self.sender.counters.tail_probes,
            needless_retransmissions: self.sender.counters.needless,
            recoveries_undone: self.sender.counters.undone,
            damaged: self.damaged,
            ecn_reductions: self.sender.counters.marks,
            bytes_acknowledged: acknowledged - u64::from(self.sender.is_finished()),
            cwnd: congestion.window(),
            outstanding: self.sender.next() - self.sender.unacknowledged(),
            ssthresh: congestion.threshold(),
            srtt: self.sender.rto.srtt(),
        }
    }

    // Time.

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub fn next_deadline(&self) -> Option<Instant> {
        let halves = match self.state {
            State::Open => {
                [self.sender.deadline(), self.receiver.as_ref().and_then(Receiver::deadline)]
            }
            State::Dead => [None, None],
            State::Listen | State::SynSent | State::SynReceived => [self.handshake_timer, None],
        };
        halves.into_iter().flatten().min()
    }

    /// Handles expired timers.
    pub fn handle_timeout(&mut self, now: Instant) {
        match self.state {
            State::Open => {
                self.probe = self.sender.handle_timeout(now).or(self.probe.take());
                if self.sender.unanswered > self.config.max_timeouts {
                    self.reset();
                }
            }
            State::SynSent | State::SynReceived => {
                if self.handshake_timer.is_some_and(|at| at <= now) {
                    self.handshake.back_off();
                    self.handshake_timer = None;
                    self.syn_sent_at = None;
                    self.syn_due = true;
                    if self.handshake.timeouts() > self.config.max_timeouts {
                        self.reset();
                    }
                }
            }
            State::Listen | State::Dead => {}
        }
    }

    // The network.

    /// The next segment to send, if any. After every other call, call it until it returns `None`.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Bytes> {
        let next = self.sender.next();
        let mut segment = match self.state {
            State::Listen => return None,
            State::Dead => std::mem::take(&mut self.reset_due).then(|| self.reset_segment())?,
            State::SynSent | State::SynReceived => {
                std::mem::take(&mut self.syn_due).then(|| self.syn(now))?
            }
            State::Open => match self.probe.take().or_else(|| self.sender.poll(now)) {
                Some(outgoing) => self.data(now, outgoing),
                None => {
                    let due = self.receiver.as_ref().is_some_and(|r| r.ack_is_due(now));
                    due.then(|| self.bare(now, self.sender.next()))?
                }
            },
        };
        if segment.syn {
            self.ecn.write_syn(&mut segment);
        } else {
            // The low bits suffice: a segment that is sent now is close to the others.
            let is_new = !segment.payload.is_empty() && segment.sequence == next as u32;
            self.ecn.write(&mut segment, is_new);
        }
        self.segments_sent += 1;
        Some(segment.encode(self.config.checksum))
    }

    /// Whether routers may mark the segment that [`poll_transmit`](Self::poll_transmit) returned last in place of
    /// dropping it.
    pub fn is_ecn_capable(&self) -> bool {
        self.ecn.capable
    }

    fn syn(&mut self, now: Instant) -> Segment {
        self.syns_sent += 1;
        // Karn: after a retransmission for whatever reason, it is unknown which SYN was answered.
        self.syn_sent_at = (self.syns_sent == 1).then_some(now);
        self.handshake_timer = Some(now + self.handshake.current());
        let answer = self.state == State::SynReceived;
        let acknowledgment = self.receiver.as_ref().map(|receiver| receiver.next() as u32);
        Segment {
            syn: true,
            acknowledgment: acknowledgment.filter(|_| answer),
            // The window of a SYN is never scaled.
            window: u16::try_from(self.config.first_window()).unwrap_or(u16::MAX),
            // The announced size does not include options (RFC 6691).
            mss: Some(self.config.mss.saturating_add(if self.timestamps { TIMESTAMPS } else { 0 })),
            timestamps: self.timestamps.then(|| {
                (
                    timestamps::value(now),
                    self.recent.echo(self.receiver.as_ref().map_or(0, Receiver::next)),
                )
            }),
            window_scale: Some(self.our_scale),
            sack_permitted: self.sack,
            ..self.at(self.initial)
        }
    }

    fn at(&self, position: u64) -> Segment {
        Segment {
            source: self.local_port,
            destination: self.remote_port,
            sequence: position as u32,
            ..Segment::default()
        }
    }

    fn reset_segment(&self) -> Segment {
        Segment { rst: true, ..self.at(self.sender.next()) }
    }

    fn data(&mut self, now: Instant, outgoing: Outgoing) -> Segment {
        let bare = self.bare(now, outgoing.position);
        Segment { payload: outgoing.payload, fin: outgoing.fin, ..bare }
    }

    /// A segment that acknowledges the received data.
    fn bare(&mut self, now: Instant, position: u64) -> Segment {
        let mut segment = self.at(position);
        let Some(receiver) = &mut self.receiver else { return segment };
        receiver.acknowledged();
        segment.acknowledgment = Some(receiver.next() as u32);
        let window = receiver.announce() >> self.our_scale;
        segment.window = u16::try_from(window).unwrap_or(u16::MAX);
        if self.timestamps {
            segment.timestamps = Some((timestamps::value(now), self.recent.echo(receiver.next())));
        }
        if self.sack {
            let mut blocks = Blocks::default();
            let duplicate = receiver.take_duplicate();
            for (to, block) in blocks.iter_mut().zip(duplicate.iter().chain(receiver.blocks())) {
                *to = Some((block.start as u32, block.end as u32));
            }
            segment.blocks = blocks;
        }
        segment
    }

    /// Processes a received segment.
    pub fn handle(&mut self, now: Instant, bytes: Bytes) {
        self.receive(now, bytes, false);
    }

    /// Processes a received segment that was marked on the way.
    pub fn handle_marked(&mut self, now: Instant, bytes: Bytes) {
        self.receive(now, bytes, true);
    }

    fn receive(&mut self, now: Instant, bytes: Bytes, marked: bool) {
        let Ok(segment) = Segment::decode(&bytes, self.config.checksum) else {
            self.damaged += 1;
            return;
        };
        let known = self.state != State::Listen;
        if segment.destination != self.local_port || (known && segment.source != self.remote_port) {
            return;
        }
        match self.state {
            State::Listen if segment.syn && segment.acknowledgment.is_none() && !segment.rst => {
                self.remote_port = segment.source;
                self.peer_syn(&segment);
                self.state = State::SynReceived;
                self.syn_due = true;
            }
            State::Listen | State::Dead => {}
            State::SynSent => self.handle_in_syn_sent(now, segment),
            State::SynReceived | State::Open => self.handle_synchronized(now, segment, marked),
        }
    }

    /// Reads the other end's options from a SYN.
    fn peer_syn(&mut self, segment: &Segment) {
        let first = (1 << 32) + u64::from(segment.sequence) + 1;
        self.receiver = Some(Receiver::new(&self.config, first));
        self.sack &= segment.sack_permitted;
        self.ecn.read_syn(segment);
        match segment.window_scale {
            Some(scale) => self.their_scale = scale,
            None => self.our_scale = 0,
        }
        self.timestamps &= segment.timestamps.is_some();
        if let Some((value, _)) = segment.timestamps {
            self.recent = Recent::new(value, first);
        }
        // RFC 9293 section 3.7.1: 536 if the option is missing.
        let room = segment.mss.unwrap_or(536);
        let room = room.saturating_sub(if self.timestamps { TIMESTAMPS } else { 0 });
        let mss = room.min(self.config.mss);
        self.sender.agreed(mss, self.sack, u64::from(segment.window));
    }

    fn handle_in_syn_sent(&mut self, now: Instant, segment: Segment) {
        let acknowledged = segment.acknowledgment.map(|ack| ack == (self.initial + 1) as u32);
        if acknowledged == Some(false) {
            return;
        }
        if segment.rst {
            if acknowledged.is_some() {
                self.state = State::Dead;
            }
            return;
        }
        if !segment.syn {
            return;
        }
        self.peer_syn(&segment);
        if acknowledged.is_some() {
            self.established(now);
            if let Some(receiver) = &mut self.receiver {
                receiver.acknowledge_now();
            }
        } else {
            // Simultaneous open (RFC 9293 section 3.5, figure 7).
            self.state = State::SynReceived;
            self.syn_due = true;
        }
    }

    fn established(&mut self, now: Instant) {
        self.state = State::Open;
        self.handshake_timer = None;
        match self.syn_sent_at {
            Some(at) => self.sender.on_handshake(now, now.saturating_since(at)),
            None => self.sender.rto.assume(RTO_AFTER_LOST_SYN),
        }
    }

    fn handle_synchronized(&mut self, now: Instant, segment: Segment, marked: bool) {
        let Some(receiver) = &mut self.receiver else { return };
        let Some(position) = unwrap(segment.sequence, receiver.next()) else { return };
        if segment.rst {
            // RFC 9293 section 3.10.7.4: only exactly at the expected position.
            if position == receiver.next() {
                self.state = State::Dead;
            }
            return;
        }
        if segment.syn {
            // A retransmitted SYN: our answer was lost.
            self.syn_due = self.state == State::SynReceived;
            receiver.acknowledge_now();
            if self.state != State::SynReceived || segment.acknowledgment.is_none() {
                return;
            }
        }
        let ack = segment.acknowledgment.and_then(|ack| unwrap(ack, self.sender.unacknowledged()));
        let Some(ack) = ack else { return };
        if self.state == State::SynReceived {
            if ack != self.initial + 1 {
                return;
            }
            self.established(now);
        }
        let stamps = segment.timestamps.filter(|_| self.timestamps);
        if let Some((value, _)) = stamps {
            self.recent.on_segment(value, position);
        }
        let scale = if segment.syn { 0 } else { self.their_scale };
        let fin = segment.fin;
        let reports_mark = self.ecn.read(&segment, marked);
        let lowered = self.sender.acknowledge(
            now,
            &Acknowledgement {
                position: ack,
                window: u64::from(segment.window) << scale,
                blocks: (segment.blocks.iter().flatten())
                    .filter_map(|(start, end)| Some(unwrap(*start, ack)?..unwrap(*end, ack)?))
                    .collect(),
                bare: segment.payload.is_empty() && !segment.syn && !fin,
                echo: stamps.map(|(_, echo)| echo),
                reports_mark,
            },
        );
        if lowered {
            self.ecn.lowered();
        }
        if (!segment.payload.is_empty() || fin)
            && let Some(receiver) = &mut self.receiver
        {
            let rto = self.sender.rto.current();
            receiver.receive((now, rto), (position, segment.payload, fin));
        }
    }
}
