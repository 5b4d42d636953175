//! The sending half: what may leave, what was lost, and the retransmission timer.

use std::collections::VecDeque;
use std::ops::Range;

use anabranch_units::Instant;
use bytes::{Buf, Bytes};

use crate::config::Config;
use crate::congestion::Reno;
use crate::rto::Rto;
use crate::scoreboard::{Acked, Outgoing, Scoreboard};

/// Duplicate acknowledgements that start recovery (RFC 5681 section 3.2).
const DUPLICATES: u32 = 3;

/// What an acknowledgement says, with positions in place of sequence numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Acknowledgement {
    pub(crate) position: u64,
    /// Bytes beyond it that the receiver has room for.
    pub(crate) window: u64,
    pub(crate) blocks: Vec<Range<u64>>,
    /// The segment has no data, SYN or FIN: it may count as a duplicate.
    pub(crate) bare: bool,
}

/// Data in order from the user until it is acknowledged.
#[derive(Debug)]
pub(crate) struct Sender {
    /// Written and never sent.
    queue: VecDeque<Bytes>,
    queued: u64,
    board: Scoreboard,
    /// First position not acknowledged (SND.UNA).
    unacknowledged: u64,
    /// First position never sent (SND.NXT).
    next: u64,
    /// The receiver's window.
    window: u64,
    mss: u64,
    sack: bool,
    limited_transmit: bool,
    initial_window: u32,
    buffer: u64,
    reno: Reno,
    pub(crate) rto: Rto,
    timer: Option<Instant>,
    duplicates: u32,
    /// Bytes that duplicate acknowledgements without blocks say have left the network: the window
    /// inflation of RFC 6582, seen from the other side.
    left: u64,
    /// While losses are recovered from: the end of what was outstanding when it began.
    recovery: Option<u64>,
    /// Duplicates of what was outstanding at the last timeout start no recovery (RFC 6582
    /// section 3.2 step 4).
    recover: u64,
    /// The next retransmission leaves whatever the window is.
    at_once: bool,
    finish: bool,
    fin_sent: bool,
    last_sent: Instant,
    /// Timeouts since anything was heard.
    pub(crate) unanswered: u32,
    pub(crate) counters: Counters,
}

/// What a sender counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) retransmissions: u64,
    pub(crate) recoveries: u64,
    pub(crate) timeouts: u64,
}

impl Sender {
    /// A sender whose first byte has this position.
    pub(crate) fn new(config: &Config, first: u64) -> Self {
        let mss = u64::from(config.mss.max(1));
        Self {
            queue: VecDeque::new(),
            queued: 0,
            board: Scoreboard::default(),
            unacknowledged: first,
            next: first,
            window: 0,
            mss,
            sack: config.sack,
            limited_transmit: config.limited_transmit,
            initial_window: config.initial_window,
            buffer: u64::from(config.send_buffer),
            reno: Reno::new(mss, config.initial_window),
            rto: Rto::new(config),
            timer: None,
            duplicates: 0,
            left: 0,
            recovery: None,
            recover: first,
            at_once: false,
            finish: false,
            fin_sent: false,
            last_sent: Instant::ZERO,
            unanswered: 0,
            counters: Counters::default(),
        }
    }

    /// The handshake has agreed on these.
    pub(crate) fn agreed(&mut self, mss: u16, sack: bool, window: u64) {
        self.mss = u64::from(mss.max(1));
        self.sack = sack;
        self.window = window;
        self.reno.set_mss(self.mss, self.initial_window);
    }

    /// Takes what there is room for; the rest comes back.
    pub(crate) fn write(&mut self, mut data: Bytes) -> Bytes {
        if self.finish {
            return data;
        }
        let room = self.buffer.saturating_sub(self.queued + self.board.outstanding());
        let taken = data.split_to(data.len().min(usize::try_from(room).unwrap_or(usize::MAX)));
        self.queued += taken.len() as u64;
        if !taken.is_empty() {
            self.queue.push_back(taken);
        }
        data
    }

    /// No more is written: a FIN follows the data.
    pub(crate) fn finish(&mut self) {
        self.finish = true;
    }

    /// Whether all that was written, and the FIN, is acknowledged.
    pub(crate) fn is_finished(&self) -> bool {
        self.fin_sent && self.board.is_empty()
    }

    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    pub(crate) fn unacknowledged(&self) -> u64 {
        self.unacknowledged
    }

    pub(crate) fn congestion(&self) -> &Reno {
        &self.reno
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.timer
    }

    /// An acknowledgement has come.
    pub(crate) fn acknowledge(&mut self, now: Instant, ack: &Acknowledgement) {
        if ack.position > self.next || ack.position < self.unacknowledged {
            return;
        }
        self.unanswered = 0;
        let advanced = ack.position > self.unacknowledged;
        let mut acked = self.board.acknowledge(ack.position);
        self.unacknowledged = ack.position;
        if self.sack {
            let known = self.unacknowledged..self.next;
            for block in &ack.blocks {
                // Others report duplicates (RFC 2883) or lie.
                if block.start >= known.start && block.end <= known.end {
                    self.board.select(block.clone(), &mut acked);
                }
            }
        }
        let update = std::mem::replace(&mut self.window, ack.window) != ack.window;
        if let Some(sent_at) = acked.sampled {
            self.rto.sample(now.saturating_since(sent_at));
        }
        if advanced {
            self.rto.acknowledged();
            self.timer = (!self.board.is_empty()).then(|| now + self.rto.current());
        }
        let duplicate = if self.sack {
            acked.selective > 0
        } else {
            ack.bare && !advanced && !update && !self.board.is_empty()
        };
        match self.recovery {
            Some(point) if self.unacknowledged >= point => {
                self.recovery = None;
                (self.duplicates, self.left) = (0, 0);
            }
            Some(_) => self.recover_on(advanced, duplicate, &acked),
            None => self.watch_for_loss(advanced, duplicate, &acked),
        }
    }

    /// An acknowledgement while losses are recovered from.
    fn recover_on(&mut self, advanced: bool, duplicate: bool, acked: &Acked) {
        if self.sack {
            self.board.find_losses(self.mss);
        } else if advanced {
            // A partial acknowledgement: the next segment is missing, too (RFC 6582 section 3.2
            // step 3). All that it covers but one retransmission had left the network before.
            self.left = self.left.saturating_sub(acked.cumulative.saturating_sub(self.mss));
            self.board.lose_first();
            self.at_once = true;
        } else if duplicate {
            self.left += self.mss;
        }
    }

    /// An acknowledgement at any other time.
    fn watch_for_loss(&mut self, advanced: bool, duplicate: bool, acked: &Acked) {
        if advanced {
            (self.duplicates, self.left) = (0, 0);
            self.reno.acknowledged(acked.cumulative);
        }
        if !duplicate {
            return;
        }
        self.duplicates += 1;
        let lost = self.sack && self.board.find_losses(self.mss);
        if !self.sack && self.limited_transmit && self.duplicates < DUPLICATES {
            self.left += self.mss;
        }
        if (lost || self.duplicates >= DUPLICATES) && self.unacknowledged >= self.recover {
            self.recovery = Some(self.next);
            self.counters.recoveries += 1;
            self.reno.loss(self.flight());
            self.board.lose_first();
            self.left = if self.sack { 0 } else { u64::from(self.duplicates) * self.mss };
            self.at_once = true;
        }
    }

    /// Bytes in flight, of which a loss leaves half. While a retransmission is lost new data goes on
    /// leaving and all of it counts as outstanding, however much of that has arrived.
    fn flight(&self) -> u64 {
        self.board.outstanding().min(self.reno.window())
    }

    /// Bytes believed to be in the network.
    fn pipe(&self) -> u64 {
        let waiting = self.recovery.is_none() && self.duplicates > 0;
        if self.sack && waiting && !self.limited_transmit {
            return self.board.outstanding();
        }
        self.board.pipe().saturating_sub(self.left)
    }

    /// What to send now, if anything may be sent (RFC 6675 section 5 step C).
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Outgoing> {
        let room = self.reno.window().saturating_sub(self.pipe());
        if (std::mem::take(&mut self.at_once) || room >= self.mss)
            && let Some(again) = self.board.resend(now)
        {
            return Some(self.sent_again(now, again));
        }
        if let Some(new) = self.new_segment(now, room) {
            return Some(new);
        }
        if self.sack && self.recovery.is_some() && room >= self.mss {
            let hole = self.board.resend_hole(now)?;
            return Some(self.sent_again(now, hole));
        }
        None
    }

    fn sent_again(&mut self, now: Instant, outgoing: Outgoing) -> Outgoing {
        self.counters.retransmissions += 1;
        self.last_sent = now;
        self.arm(now);
        outgoing
    }

    fn arm(&mut self, now: Instant) {
        if self.timer.is_none() {
            self.timer = Some(now + self.rto.current());
        }
    }

    fn new_segment(&mut self, now: Instant, room: u64) -> Option<Outgoing> {
        let edge = self.unacknowledged.saturating_add(self.window);
        let usable = edge.saturating_sub(self.next);
        let size = self.queued.min(self.mss).min(usable);
        // Short segments only at the end of the data, or when all is quiet (RFC 9293
        // section 3.8.6.2.1).
        let worth = size == self.mss || size == self.queued || self.board.is_empty();
        let fin = self.finish && !self.fin_sent && size == self.queued;
        if size == 0 && !fin {
            if self.queued > 0 && self.board.is_empty() {
                // Nothing will come by itself but the window: it is asked for.
                self.arm(now);
            }
            return None;
        }
        if !worth || (room < size.max(1) && !self.restarts(now)) {
            return None;
        }
        if self.restarts(now) {
            self.reno.restart(self.initial_window);
        }
        Some(self.send_new(now, size, fin))
    }

    /// Whether it was idle for so long that the window says nothing any more (RFC 5681
    /// section 4.1).
    fn restarts(&self, now: Instant) -> bool {
        self.board.is_empty() && now.saturating_since(self.last_sent) > self.rto.current()
    }

    fn send_new(&mut self, now: Instant, size: u64, fin: bool) -> Outgoing {
        let payload = self.cut(size as usize);
        let position = self.next;
        self.next += size + u64::from(fin);
        self.queued -= size;
        self.fin_sent |= fin;
        self.board.push(position..self.next, payload.clone(), fin, now);
        self.last_sent = now;
        self.arm(now);
        Outgoing { position, payload, fin }
    }

    /// The first bytes of the queue, copied only where a segment has parts of several writes.
    fn cut(&mut self, size: usize) -> Bytes {
        let whole = match self.queue.front_mut() {
            Some(first) if first.len() >= size => first.split_to(size),
            _ => {
                let mut joined = Vec::with_capacity(size);
                while joined.len() < size
                    && let Some(first) = self.queue.front_mut()
                {
                    let part = first.len().min(size - joined.len());
                    joined.extend_from_slice(&first[..part]);
                    first.advance(part);
                    if first.is_empty() {
                        self.queue.pop_front();
                    }
                }
                joined.into()
            }
        };
        if self.queue.front().is_some_and(Bytes::is_empty) {
            self.queue.pop_front();
        }
        whole
    }

    /// The timer may have expired. Returns a probe of a closed window, if one is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) -> Option<Outgoing> {
        if self.timer.is_none_or(|at| at > now) {
            return None;
        }
        let first = self.rto.timeouts() == 0;
        self.unanswered += 1;
        self.rto.back_off();
        self.timer = Some(now + self.rto.current());
        if self.board.is_empty() {
            // RFC 9293 section 3.8.6.1.
            return (self.queued > 0).then(|| self.send_new(now, 1, false));
        }
        self.counters.timeouts += 1;
        if self.window > 0 {
            self.reno.timeout(self.flight(), first);
        }
        self.board.lose_all();
        self.recovery = None;
        self.recover = self.next;
        (self.duplicates, self.left) = (0, 0);
        self.at_once = true;
        None
    }
}
