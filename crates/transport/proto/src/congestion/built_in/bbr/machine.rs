//! The states of BBR (draft-ietf-ccwg-bbr, section 5.3), and the transitions between them:
//!
//! ```text
//! Startup --> Drain --> Down --> Cruise --> Refill --> Up --.
//!                        ^ |                  ^              |
//!                        | '------------------'              |
//!                        '-----------------------------------'
//! ```
//!
//! From each of them BBR goes to ProbeRTT if the round-trip time was not measured with a short queue for five
//! seconds, and then to Down and Cruise, or to Startup if the path was never full.

use std::time::Duration;

use super::{Bbr, MIN_PIPE, Sample};
use crate::time::Instant;

/// Acknowledgements with losses in one round that may end Startup (section 5.3.1.3).
const STARTUP_LOSSES: u32 = 6;
/// Rounds after which Drain ends in any case (section 5.3.2).
const DRAIN_ROUNDS: u64 = 3;
/// Round trips after which bandwidth is sought again, at most: a Reno flow recovers as fast (section 5.3.3.5.3).
const RENO_ROUNDS: u64 = 63;
/// How long ProbeRTT lasts at least (section 5.3.4).
const PROBE_RTT: Duration = Duration::from_millis(200);
/// ProbeRTT leaves this part of the product in flight, in percent.
const PROBE_RTT_GAIN: u64 = 50;

/// What BBR does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Doubles the rate in each round trip until the path is full.
    Startup,
    /// Drains the queue that Startup has made.
    Drain,
    /// ProbeBW: sends less, so that queues drain and others find room.
    Down,
    /// ProbeBW: sends as much as is delivered.
    Cruise,
    /// ProbeBW: fills the path without a queue.
    Refill,
    /// ProbeBW: sends more, to find more bandwidth.
    Up,
    /// Drains all queues, to measure the round-trip time.
    ProbeRtt,
}

impl State {
    /// The rate of sending relative to the measured one, in percent (section 5.6.1).
    pub(super) fn pacing_gain(self) -> u64 {
        match self {
            Self::Startup => 277,
            Self::Drain => 50,
            Self::Down => 90,
            Self::Cruise | Self::Refill | Self::ProbeRtt => 100,
            Self::Up => 125,
        }
    }

    /// The window relative to the product of rate and round-trip time, in percent.
    pub(super) fn cwnd_gain(self) -> u64 {
        match self {
            Self::Startup | Self::Drain | Self::Down | Self::Cruise | Self::Refill => 200,
            Self::Up => 225,
            Self::ProbeRtt => PROBE_RTT_GAIN,
        }
    }

    pub(super) fn is_probe_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    /// Whether it searches for bandwidth.
    pub(super) fn is_searching(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }
}

/// What acknowledgements say about the search for bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AckPhase {
    Init,
    Refilling,
    Starting,
    Feedback,
    Stopping,
}

/// The cycle of ProbeBW, and ProbeRTT.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cycle {
    ack_phase: AckPhase,
    /// Acknowledged packets were sent while BBR searched for bandwidth.
    pub(super) is_probe_sample: bool,
    /// Bytes acknowledged since the limit of the flight was last raised, and the number that raises it.
    up_acked: u64,
    up_acked_per_increase: u64,
    up_rounds: u32,
    pub(super) rounds_since_up: u64,
    /// When the cycle began, and after how long it searches again.
    began: Instant,
    wait: Duration,
    /// The last search lost too much, and the current one ended early for that reason.
    too_high: bool,
    precautionary: bool,
    drain_began: u64,
    /// When ProbeRTT may end; `None` before the queue is drained.
    probe_rtt_until: Option<Instant>,
    probe_rtt_round: bool,
}

impl Cycle {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            ack_phase: AckPhase::Init,
            is_probe_sample: false,
            up_acked: 0,
            up_acked_per_increase: u64::MAX,
            up_rounds: 0,
            rounds_since_up: 0,
            began: now,
            wait: Duration::ZERO,
            too_high: false,
            precautionary: false,
            drain_began: 0,
            probe_rtt_until: None,
            probe_rtt_round: false,
        }
    }

    /// The search lost too much; this is considered once.
    pub(super) fn probe_too_high(&mut self) {
        (self.too_high, self.is_probe_sample) = (true, false);
    }
}

/// A number that flows with different pasts hardly share, so that they do not search at the same time.
fn scatter(now: Instant, delivered: u64) -> u64 {
    // The finalizer of SplitMix64.
    let mut x = now.as_nanos() ^ delivered.rotate_left(32);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl Bbr {
    /// Evaluates an acknowledgement.
    pub(super) fn advance_state(&mut self, sample: &Sample) {
        self.check_startup_loss(sample);
        if self.state == State::Startup && self.full_pipe.reached {
            self.state = State::Drain;
            self.cycle.drain_began = self.round;
        }
        self.check_drain_done(sample);
        self.advance_cycle(sample);
        self.min_rtt.update(sample.now, sample.rtt);
        self.check_probe_rtt(sample);
    }

    /// Losses in a whole round of fast recovery end Startup (section 5.3.1.3).
    fn check_startup_loss(&mut self, sample: &Sample) {
        if !self.short_term.round_ends {
            return;
        }
        let losses = std::mem::take(&mut self.short_term.loss_events);
        let high =
            self.recovery.is_some() && losses >= STARTUP_LOSSES && self.has_high_loss(sample);
        if self.state == State::Startup && !self.full_pipe.reached && high {
            self.before.state = Some(State::Startup);
            self.full_pipe.conclude();
            let delivered = self.short_term.inflight_latest();
            self.inflight_longterm = self.product(self.bw, 100).max(delivered);
        }
    }

    /// Whether too much of the flight of the acknowledged packet was lost.
    fn has_high_loss(&self, sample: &Sample) -> bool {
        self.tolerated.is_too_much(sample.lost, sample.sent_in_flight)
    }

    fn check_drain_done(&mut self, sample: &Sample) {
        if self.state == State::Drain
            && (sample.in_flight <= self.inflight(self.bw, 100)
                || self.round > self.cycle.drain_began + DRAIN_ROUNDS)
        {
            self.start_down(sample.now);
        }
    }

    /// Begins a cycle of ProbeBW.
    pub(super) fn start_down(&mut self, now: Instant) {
        self.short_term.reset_signals();
        let random = scatter(now, self.delivered);
        self.cycle.up_acked_per_increase = u64::MAX;
        self.cycle.rounds_since_up = random & 1;
        self.cycle.wait = Duration::from_millis(2000 + (random >> 1) % 1000);
        self.cycle.began = now;
        self.cycle.ack_phase = AckPhase::Stopping;
        self.start_round();
        self.state = State::Down;
    }

    pub(super) fn start_refill(&mut self) {
        self.short_term.reset_bounds();
        self.cycle.up_rounds = 0;
        self.cycle.up_acked = 0;
        self.cycle.precautionary = false;
        self.cycle.ack_phase = AckPhase::Refilling;
        self.start_round();
        self.state = State::Refill;
    }

    fn start_up(&mut self, sample: &Sample) {
        self.cycle.ack_phase = AckPhase::Starting;
        self.start_round();
        self.full_pipe.restart(sample.rate);
        self.state = State::Up;
        self.raise_slope();
    }

    /// Section 5.3.3.6.
    fn advance_cycle(&mut self, sample: &Sample) {
        if !self.full_pipe.reached || self.adapt_long_term(sample) {
            return;
        }
        let state = self.state;
        match state {
            State::Down if !self.seeks_again(sample.now) => {
                let least = self.inflight_with_headroom().min(self.inflight(self.max_bw(), 100));
                if sample.in_flight <= least {
                    self.state = State::Cruise;
                }
            }
            State::Down => self.start_refill(),
            State::Cruise if self.seeks_again(sample.now) => self.start_refill(),
            State::Refill if self.round_start => {
                self.cycle.is_probe_sample = true;
                self.start_up(sample);
            }
            State::Up if self.has_found_all(sample) => {
                self.cycle.too_high = false;
                self.start_down(sample.now);
            }
            _ => {}
        }
    }

    /// Whether it is time to search for bandwidth (section 5.3.3.5.3).
    fn seeks_again(&self, now: Instant) -> bool {
        let packets = self.target_inflight() / self.pmdcs;
        now.saturating_since(self.cycle.began) > self.cycle.wait
            || self.cycle.rounds_since_up >= packets.min(RENO_ROUNDS)
    }

    /// Whether the search for bandwidth ends.
    fn has_found_all(&mut self, sample: &Sample) -> bool {
        if self.cycle.too_high && sample.in_flight >= self.inflight_longterm {
            self.cycle.precautionary = true;
            return true;
        }
        if self.is_cwnd_limited() && self.cwnd >= self.inflight_longterm {
            // The limit of the flight, not the path, limits the rate.
            self.full_pipe.restart(sample.rate);
            return false;
        }
        self.full_pipe.now
    }

    /// Keeps account of what acknowledgements refer to, and raises the limit of the flight. Returns whether the state
    /// changed.
    fn adapt_long_term(&mut self, sample: &Sample) -> bool {
        if self.cycle.ack_phase == AckPhase::Starting && self.round_start {
            self.cycle.ack_phase = AckPhase::Feedback;
        }
        if self.cycle.ack_phase == AckPhase::Stopping && self.round_start {
            self.cycle.is_probe_sample = false;
            self.cycle.ack_phase = AckPhase::Init;
            if self.state.is_probe_bw() && !sample.app_limited {
                self.advance_max_bw();
            }
            // The cautious search met no losses: the next one begins at once, and stays.
            if self.state.is_probe_bw() && self.cycle.precautionary && !self.cycle.too_high {
                self.start_refill();
                return true;
            }
        }
        if self.has_high_loss(sample) || self.inflight_longterm == u64::MAX {
            return false;
        }
        self.inflight_longterm = self.inflight_longterm.max(sample.sent_in_flight);
        if self.state == State::Up {
            self.raise_limit(sample.newly);
        }
        false
    }

    /// Raises the limit of the flight by more packets in each round: 1, 2, 4 and so on.
    fn raise_slope(&mut self) {
        let growth = 1_u64 << self.cycle.up_rounds;
        self.cycle.up_rounds = (self.cycle.up_rounds + 1).min(30);
        self.cycle.up_acked_per_increase = (self.cwnd / growth).max(self.pmdcs);
    }

    fn raise_limit(&mut self, newly: u64) {
        if !self.is_cwnd_limited() || self.cwnd < self.inflight_longterm {
            return;
        }
        let cycle = &mut self.cycle;
        cycle.up_acked = cycle.up_acked.saturating_add(newly);
        let packets = cycle.up_acked / cycle.up_acked_per_increase;
        cycle.up_acked -= packets * cycle.up_acked_per_increase;
        let more = packets.saturating_mul(self.pmdcs);
        self.inflight_longterm =
            self.inflight_longterm.saturating_add(more).min(super::MOST_WINDOW);
        if self.round_start {
            self.raise_slope();
        }
    }

    /// The window of ProbeRTT.
    pub(super) fn probe_rtt_cwnd(&self) -> u64 {
        self.product(self.bw, PROBE_RTT_GAIN).max(MIN_PIPE * self.pmdcs)
    }

    /// Section 5.3.4.3.
    fn check_probe_rtt(&mut self, sample: &Sample) {
        if self.state != State::ProbeRtt && self.min_rtt.expired && !self.idle_restart {
            self.save_cwnd();
            self.state = State::ProbeRtt;
            self.cycle.probe_rtt_until = None;
            self.cycle.ack_phase = AckPhase::Stopping;
            self.start_round();
        }
        if self.state == State::ProbeRtt {
            self.handle_probe_rtt(sample);
        }
        if sample.newly > 0 {
            self.idle_restart = false;
        }
    }

    fn handle_probe_rtt(&mut self, sample: &Sample) {
        self.limited_to = self.delivered.saturating_add(sample.in_flight).saturating_add(1);
        if self.cycle.probe_rtt_until.is_none() {
            if sample.in_flight <= self.probe_rtt_cwnd() {
                self.cycle.probe_rtt_until = Some(sample.now + PROBE_RTT);
                self.cycle.probe_rtt_round = false;
                self.start_round();
            }
            return;
        }
        self.cycle.probe_rtt_round |= self.round_start;
        if self.cycle.probe_rtt_round {
            self.check_probe_rtt_done(sample.now);
        }
    }

    /// Leaves ProbeRTT if it has lasted long enough.
    pub(super) fn check_probe_rtt_done(&mut self, now: Instant) {
        if self.cycle.probe_rtt_until.is_none_or(|until| now <= until) {
            return;
        }
        self.min_rtt.probed(now);
        self.restore_cwnd();
        self.short_term.reset_bounds();
        if self.full_pipe.reached {
            self.start_down(now);
            self.state = State::Cruise;
        } else {
            self.state = State::Startup;
        }
    }
}
