//! The sending half: data that may be sent, losses, and the timers.
//!
//! An acknowledgement is read in `acknowledge.rs`. Evidence beyond duplicates is gathered and used in `evidence.rs`;
//! timeouts and F-RTO are in `timeout.rs`, tail probes in `probe.rs`. The algorithms themselves are files of
//! `recovery`.

mod acknowledge;
mod evidence;
mod probe;
mod queue;
mod timeout;

use std::ops::Range;
use std::time::Duration;

use anabranch_units::Instant;
use bytes::Bytes;

use crate::cache::Metrics;
use crate::config::Config;
use crate::congestion::{Cause, Control, Departure, Lost};
use crate::options::{Congestion, LossDetection, Reordering};
use crate::recovery::forward_rto::Step;
use crate::recovery::ncr::Ncr;
use crate::rto::Rto;
use crate::scoreboard::{Again, Outgoing, Scoreboard};
use crate::timestamps;
use evidence::Evidence;
use queue::Queue;

/// Duplicate acknowledgements that start recovery (RFC 5681 section 3.2).
const DUPLICATES: u32 = 3;

/// Number of windows that must be acknowledged since the last loss before the threshold says something about the path.
const SETTLED: u64 = 4;

/// The contents of an acknowledgement, with positions in place of sequence numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Acknowledgement {
    pub(crate) position: u64,
    /// Bytes beyond `position` that the receiver has room for.
    pub(crate) window: u64,
    pub(crate) blocks: Vec<Range<u64>>,
    /// The segment has no data, SYN or FIN: it may count as a duplicate.
    pub(crate) bare: bool,
    /// Our timestamp that it echoes.
    pub(crate) echo: Option<u32>,
    /// It reports a mark of the network (RFC 3168).
    pub(crate) reports_mark: bool,
}

/// The state of recovery.
#[derive(Debug)]
struct Loss {
    duplicates: u32,
    /// Bytes that have left the network according to duplicate acknowledgements without blocks. This is the window
    /// inflation of RFC 6582 in the form of a subtraction.
    left: u64,
    /// Bytes that were in the network before the last event.
    before: u64,
    /// During recovery: the end of the data that was outstanding at its start.
    recovery: Option<u64>,
    /// Duplicates for data outstanding at the last timeout do not start a recovery (RFC 6582 section 3.2 step 4).
    recover: u64,
    /// Send the next retransmission regardless of the window.
    at_once: bool,
    /// Data before this position was sent before a mark last lowered the window.
    marked: u64,
    /// Send this many new segments regardless of the window (F-RTO).
    beyond: u32,
    forward: Step,
    ncr: Option<Ncr>,
}

/// Data from the user, in order, until it is acknowledged.
#[derive(Debug)]
pub(crate) struct Sender {
    config: Config,
    queue: Queue,
    board: Scoreboard,
    /// First position not acknowledged (SND.UNA).
    unacknowledged: u64,
    /// First position never sent (SND.NXT).
    next: u64,
    /// The receiver's window.
    window: u64,
    mss: u64,
    sack: bool,
    control: Control,
    pub(crate) rto: Rto,
    timer: Option<Instant>,
    loss: Loss,
    evidence: Evidence,
    /// Bytes acknowledged since the window was last reduced.
    since_loss: u64,
    finish: bool,
    fin_sent: bool,
    last_sent: Instant,
    /// Timeouts since the last sign of life from the peer.
    pub(crate) unanswered: u32,
    pub(crate) counters: Counters,
}

/// A sender's counters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) retransmissions: u64,
    pub(crate) fast: u64,
    pub(crate) recoveries: u64,
    pub(crate) timeouts: u64,
    pub(crate) early: u64,
    pub(crate) tail_probes: u64,
    pub(crate) needless: u64,
    pub(crate) undone: u64,
    pub(crate) marks: u64,
}

impl Sender {
    /// A sender whose first byte has this position.
    pub(crate) fn new(config: &Config, first: u64) -> Self {
        let mss = u64::from(config.mss.max(1));
        Self {
            queue: Queue::default(),
            board: Scoreboard::default(),
            unacknowledged: first,
            next: first,
            window: 0,
            mss,
            sack: config.sack,
            control: Control::new(config, mss),
            rto: Rto::new(config),
            timer: None,
            loss: Loss {
                duplicates: 0,
                left: 0,
                before: 0,
                recovery: None,
                recover: first,
                at_once: false,
                marked: first,
                beyond: 0,
                forward: Step::Idle,
                ncr: None,
            },
            evidence: Evidence::default(),
            since_loss: 0,
            finish: false,
            fin_sent: false,
            last_sent: Instant::ZERO,
            unanswered: 0,
            counters: Counters::default(),
            config: config.clone(),
        }
    }

    /// Sets the results of the handshake.
    pub(crate) fn agreed(&mut self, mss: u16, sack: bool, window: u64) {
        self.mss = u64::from(mss.max(1));
        self.sack = sack;
        self.window = window;
        let threshold = self.control.threshold();
        self.control = Control::new(&self.config, self.mss);
        if threshold != u64::MAX {
            self.control.assume_threshold(threshold);
        }
    }

    /// Records the duration of the handshake.
    pub(crate) fn on_handshake(&mut self, now: Instant, rtt: Duration) {
        self.rto.sample(rtt);
        self.control.on_handshake(now, rtt);
        if self.config.handshake_rtt {
            self.evidence.rack.measured(now, rtt);
        }
    }

    /// Starts with the metrics of an earlier connection to the same host.
    pub(crate) fn start_with(&mut self, metrics: &Metrics) {
        if let Some((srtt, variation)) = metrics.rtt {
            self.rto.resume(srtt, variation);
        }
        if let Some(threshold) = metrics.ssthresh {
            self.control.assume_threshold(threshold);
        }
        self.evidence.order.assume(metrics.reordering);
    }

    /// Metrics for later connections.
    pub(crate) fn metrics(&self) -> Metrics {
        let (window, threshold) = self.control.windows();
        Metrics {
            rtt: self.rto.smoothed(),
            ssthresh: (threshold != u64::MAX).then_some(threshold),
            settled: self.since_loss >= SETTLED * window,
            reordering: self.evidence.order.extent(),
        }
    }

    /// Accepts as much as fits; returns the rest.
    pub(crate) fn write(&mut self, mut data: Bytes) -> Bytes {
        if self.finish {
            return data;
        }
        let kept = self.queue.len() + self.board.outstanding();
        let room = u64::from(self.config.send_buffer).saturating_sub(kept);
        let taken = data.split_to(data.len().min(usize::try_from(room).unwrap_or(usize::MAX)));
        self.queue.push(taken);
        data
    }

    /// Finishes the stream: a FIN follows the data.
    pub(crate) fn finish(&mut self) {
        self.finish = true;
    }

    /// Whether all written data, and the FIN, is acknowledged.
    pub(crate) fn is_finished(&self) -> bool {
        self.fin_sent && self.board.is_empty()
    }

    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    pub(crate) fn unacknowledged(&self) -> u64 {
        self.unacknowledged
    }

    pub(crate) fn congestion(&self) -> &Control {
        &self.control
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        let paced = self.control.paced_until();
        let all = [self.timer, self.evidence.look_again, self.evidence.probe.deadline, paced];
        all.into_iter().flatten().min()
    }

    /// Whether each recovery reduces the window exactly once, as in Linux.
    fn reduces_once(&self) -> bool {
        self.config.congestion != Congestion::Reno
    }

    /// Whether losses are detected by time.
    fn by_time(&self) -> bool {
        self.sack && self.config.loss_detection == LossDetection::TimeThreshold
    }

    /// Bytes in flight, half of which become the window after a loss. While a retransmission is lost, new data is still
    /// sent and all of it counts as outstanding even if it has arrived; the window bounds that.
    fn flight(&self) -> u64 {
        self.board.outstanding().min(self.control.window())
    }

    /// Bytes believed to be in the network.
    fn pipe(&self) -> u64 {
        let waiting = self.loss.recovery.is_none() && self.loss.duplicates > 0;
        if self.sack && waiting && !self.config.limited_transmit {
            return self.board.outstanding();
        }
        self.board.pipe().saturating_sub(self.loss.left)
    }

    /// The next segment to send, if sending is allowed (RFC 6675 section 5 step C).
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Outgoing> {
        let room = match &self.loss.ncr {
            Some(ncr) => ncr.room(self.board.pipe()),
            None => self.control.window().saturating_sub(self.pipe()),
        };
        if self.is_held_back(now, room) {
            return None;
        }
        if (std::mem::take(&mut self.loss.at_once) || room >= self.mss)
            && let Some(again) = self.board.resend(now)
        {
            return Some(self.sent_again(now, again));
        }
        if let Some(new) = self.new_segment(now, room) {
            return Some(new);
        }
        if self.fills_holes() && room >= self.mss {
            let hole = self.board.resend_hole(now)?;
            return Some(self.sent_again(now, hole));
        }
        None
    }

    /// Whether pacing holds back what would be sent now into this room. The first retransmission after a loss does not
    /// wait, as in the SCTP engine.
    fn is_held_back(&mut self, now: Instant, room: u64) -> bool {
        if !self.control.paces() || self.loss.at_once || room < self.queue.len().min(self.mss) {
            return false;
        }
        let waits = self.queue.len() > 0 || self.fills_holes() || self.board.has_waiting();
        waits && self.control.holds_back(now, self.rto.srtt())
    }

    /// Whether to retransmit segments below blocks that are not considered lost (rule 3 of `NextSeg`). Not if
    /// reordering is expected.
    fn fills_holes(&self) -> bool {
        self.sack
            && self.loss.recovery.is_some()
            && !self.by_time()
            && self.config.reordering != Reordering::Adaptive
    }

    fn sent_again(&mut self, now: Instant, again: Again) -> Outgoing {
        self.tell_sent(now, again.end - again.outgoing.position);
        self.counters.retransmissions += 1;
        self.counters.fast += u64::from(self.loss.recovery.is_some());
        self.last_sent = now;
        self.evidence.on_sent_again(again.outgoing.position, again.before, timestamps::value(now));
        if let Step::Again(end) = &mut self.loss.forward {
            *end = again.end;
        }
        if self.config.rearm_in_recovery && self.loss.recovery.is_some() {
            self.timer = None;
        }
        self.arm(now);
        again.outgoing
    }

    /// Tells the congestion control of `bytes` bytes that were sent: the latest transmission.
    fn tell_sent(&mut self, now: Instant, bytes: u64) {
        let limited = self.queue.len() == 0 && !self.board.has_waiting();
        let number = self.board.next_number().saturating_sub(1);
        let in_network = self.board.pipe();
        self.control.on_sent(&Departure { now, number, bytes, in_network, limited });
    }

    /// Tells the congestion control what is considered lost since `before` bytes were in the network.
    fn tell_lost(&mut self, now: Instant, cause: Cause, before: u64) {
        let in_network = self.board.pipe();
        let bytes = before.saturating_sub(in_network);
        let latest = self.board.take_latest_lost();
        self.control.on_lost(&Lost { now, cause, bytes, in_network, latest });
    }

    fn arm(&mut self, now: Instant) {
        if self.timer.is_none() {
            self.timer = Some(now + self.rto.current());
        }
    }

    /// Bytes that the receiver's window permits.
    fn usable(&self) -> u64 {
        self.unacknowledged.saturating_add(self.window).saturating_sub(self.next)
    }

    fn new_segment(&mut self, now: Instant, room: u64) -> Option<Outgoing> {
        let size = self.queue.len().min(self.mss).min(self.usable());
        // Send short segments only at the end of the data, or if nothing is in flight (RFC 9293 section 3.8.6.2.1).
        let worth = size == self.mss || size == self.queue.len() || self.board.is_empty();
        let fin = self.finish && !self.fin_sent && size == self.queue.len();
        if size == 0 && !fin {
            if self.queue.len() > 0 && self.board.is_empty() {
                // Only a window update can arrive now, and it may be lost, so arm the timer for a probe.
                self.arm(now);
            }
            return None;
        }
        let fits = room >= size.max(1) || self.restarts(now) || self.loss.beyond > 0;
        if !worth || !fits {
            return None;
        }
        if self.restarts(now) {
            let rto = self.rto.current().as_nanos().max(1);
            let timeouts = now.saturating_since(self.last_sent).as_nanos() / rto;
            let timeouts = u32::try_from(timeouts).unwrap_or(u32::MAX);
            self.control.on_idle(now, timeouts, self.config.initial_window);
        }
        self.loss.beyond = self.loss.beyond.saturating_sub(1);
        Some(self.send_new(now, size, fin))
    }

    /// Whether the sender was idle for so long that the window is no longer valid (RFC 5681 section 4.1).
    fn restarts(&self, now: Instant) -> bool {
        self.board.is_empty() && now.saturating_since(self.last_sent) > self.rto.current()
    }

    fn send_new(&mut self, now: Instant, size: u64, fin: bool) -> Outgoing {
        let payload = self.queue.cut(size as usize);
        let position = self.next;
        self.next += size + u64::from(fin);
        self.fin_sent |= fin;
        self.board.push(position..self.next, payload.clone(), fin, now);
        if let Some(ncr) = &mut self.loss.ncr {
            ncr.sent(size);
        }
        self.tell_sent(now, self.next - position);
        self.last_sent = now;
        self.arm(now);
        self.arm_probe(now);
        Outgoing { position, payload, fin }
    }
}
