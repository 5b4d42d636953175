//! BBR version 3 (draft-ietf-ccwg-bbr): sends at the rate that the path delivers, with about one product of rate and
//! round-trip time in flight. Losses bound what may be in flight only if they are more than 2 % while it searches for
//! bandwidth. So random losses cost little, and queues stay short.
//!
//! `bbr-lossy` is the same controller with a higher limit: up to a tenth of a round, whether it searches or not. It is not
//! in the draft.
//!
//! This file has the model of the path, and what follows from it: the rate and the window. `bbr/machine.rs` has the
//! states. Section numbers are those of the draft.

mod amount;
mod extra_acked;
mod full_pipe;
mod machine;
mod min_rtt;
mod short_term;
#[cfg(test)]
mod tests;
mod windowed_max;

use std::time::Duration;

use self::extra_acked::{ExtraAcked, Round};
use self::full_pipe::FullPipe;
use self::machine::{Cycle, State};
use self::min_rtt::MinRtt;
use self::short_term::{BETA, ShortTerm};
use crate::congestion::window::Window;
use crate::congestion::{
    Acked, CongestionEvent, Controller, Idle, Loss, LostData, Needs, NewPath, Rtt, Sent,
};
use crate::time::Instant;

/// The least window, in packets: two are on their way, and two acknowledged together (section 5.6.4.3).
const MIN_PIPE: u64 = 4;
/// The rate stays this much below the measured one, in percent, so that queues drain (section 5.6.2).
const PACING_MARGIN: u64 = 1;
/// 1 kb/s: a model that losses have ruined must not silence a path.
const LEAST_RATE: u64 = 125;
/// 8 Tb/s, and 1 TiB in flight: more than any path carries.
const MOST_RATE: u64 = 1 << 40;
const MOST_WINDOW: u64 = 1 << 40;
/// The largest batch at once, in bytes (section 5.6.3).
const MOST_QUANTUM: u64 = 64 << 10;

/// The share of a flight that may be lost without being congestion, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tolerated {
    /// While BBR searches for bandwidth.
    searching: u64,
    /// While it does not.
    holding: u64,
}

impl Tolerated {
    /// BBR.LossThresh of the draft (section 2.7); without a search every loss counts (section 5.5.10.3).
    const DRAFT: Self = Self { searching: 2, holding: 0 };
    /// For paths that lose packets at random, such as radio. The bound is there for short queues and policers: a search
    /// sends a quarter more than they let through, and so loses a fifth.
    const LOSSY: Self = Self { searching: 10, holding: 10 };

    /// Whether the losses from a flight of this size are too many while BBR searches (section 5.5.10.2).
    fn is_too_much(self, lost: u64, in_flight: u64) -> bool {
        u128::from(lost) * 100 > u128::from(in_flight) * u128::from(self.searching)
    }
}

/// What an acknowledgement shows.
#[derive(Clone, Copy, Debug)]
struct Sample {
    now: Instant,
    /// Bytes per second; 0 if it shows no rate.
    rate: u64,
    /// Bytes delivered since the acknowledged packet was sent.
    delivered: u64,
    /// Bytes delivered before it was sent.
    before: Option<u64>,
    /// Bytes newly acknowledged.
    newly: u64,
    app_limited: bool,
    /// Bytes in flight when the packet was sent, and lost since then.
    sent_in_flight: u64,
    lost: u64,
    rtt: Option<Duration>,
    /// Bytes in flight now.
    in_flight: u64,
}

/// A recovery from losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recovery {
    Fast,
    /// After a timeout, until this total number of bytes is delivered.
    Timeout(u64),
}

/// Values before a recovery, to restore if it was spurious (section 5.5.11).
#[derive(Clone, Copy, Debug)]
struct Before {
    /// The state that losses ended.
    state: Option<State>,
    bw_shortterm: u64,
    inflight_shortterm: u64,
    inflight_longterm: u64,
}

/// The state of one path.
#[derive(Clone, Debug)]
pub(super) struct Bbr {
    tolerated: Tolerated,
    pmdcs: u64,
    initial_cwnd: u64,
    cwnd: u64,
    /// The window without recovery or ProbeRTT.
    prior_cwnd: u64,
    /// Bytes per second; `None` before the first round-trip time is known.
    pacing_rate: Option<u64>,
    state: State,
    cycle: Cycle,
    /// Bytes delivered, and those when the controller began.
    delivered: u64,
    began_at: u64,
    /// Round trips, counted by packets: the current one ends with a packet that was sent after `round_ends_at` bytes
    /// were delivered.
    round: u64,
    round_ends_at: u64,
    round_start: bool,
    /// The largest rates of the last and the current cycle of ProbeBW (section 5.5.2).
    max_bw: [u64; 2],
    /// The rate that is used: the maximum, within the bounds of the short-term model.
    bw: u64,
    min_rtt: MinRtt,
    extra_acked: ExtraAcked,
    full_pipe: FullPipe,
    short_term: ShortTerm,
    /// What may be in flight without too many losses; `u64::MAX` if there was no limit yet.
    inflight_longterm: u64,
    recovery: Option<Recovery>,
    before: Before,
    /// cwnd was full in the last round, and in the current one.
    cwnd_limited: [bool; 2],
    /// There was nothing more to send.
    app_limited: bool,
    /// Nothing was in flight before the data whose acknowledgement comes next.
    idle_restart: bool,
    /// Samples of packets that were sent before so much was delivered are low on purpose: ProbeRTT.
    limited_to: u64,
}

impl Bbr {
    pub(super) fn new(path: &NewPath<'_>) -> Self {
        let initial = Window::new(path, false).cwnd as u64;
        Self::started(path.now, Tolerated::DRAFT, path.pmdcs as u64, initial, 0)
    }

    /// For paths that lose packets at random.
    pub(super) fn lossy(path: &NewPath<'_>) -> Self {
        Self { tolerated: Tolerated::LOSSY, ..Self::new(path) }
    }

    /// Knows nothing about the path, except that `delivered` bytes were delivered on it before.
    fn started(
        now: Instant,
        tolerated: Tolerated,
        pmdcs: u64,
        initial_cwnd: u64,
        delivered: u64,
    ) -> Self {
        Self {
            tolerated,
            pmdcs,
            initial_cwnd,
            cwnd: initial_cwnd,
            prior_cwnd: 0,
            pacing_rate: None,
            state: State::Startup,
            cycle: Cycle::new(now),
            delivered,
            began_at: delivered,
            round: 0,
            round_ends_at: delivered,
            round_start: false,
            max_bw: [0; 2],
            bw: 0,
            min_rtt: MinRtt::new(now),
            extra_acked: ExtraAcked::new(now),
            full_pipe: FullPipe::default(),
            short_term: ShortTerm::default(),
            inflight_longterm: u64::MAX,
            recovery: None,
            before: Before {
                state: None,
                bw_shortterm: u64::MAX,
                inflight_shortterm: u64::MAX,
                inflight_longterm: u64::MAX,
            },
            cwnd_limited: [false; 2],
            app_limited: true,
            idle_restart: false,
            limited_to: 0,
        }
    }

    fn sample(&mut self, acked: &Acked<'_>) -> Sample {
        let newly = acked.bytes as u64;
        self.delivered = match &acked.rate {
            Some(rate) => self.delivered.max(rate.delivered),
            None => self.delivered.saturating_add(newly),
        };
        // A sample over less than a round trip is the acknowledgement of another transmission (section 4.1.2.3).
        // The engine's minimum has one measurement per round trip, so the packets' own may be less.
        let known = [acked.rtt.min, acked.packet_rtt, self.min_rtt.get()];
        let least = known.into_iter().flatten().min().unwrap_or_default();
        let rate = acked.rate.filter(|rate| rate.interval >= least);
        Sample {
            now: acked.now,
            rate: rate.map_or(0, |rate| rate.rate().min(MOST_RATE)),
            delivered: rate.map_or(0, |rate| rate.bytes),
            before: acked.rate.map(|rate| rate.delivered_before),
            newly,
            app_limited: acked
                .rate
                .is_some_and(|rate| rate.app_limited || rate.delivered_before < self.limited_to),
            sent_in_flight: acked.rate.map_or(0, |rate| rate.in_flight),
            lost: acked.rate.map_or(0, |rate| rate.lost),
            rtt: acked.packet_rtt.or(acked.rtt.latest),
            in_flight: acked.in_flight as u64,
        }
    }

    // Section 5.2.3.
    fn update(&mut self, sample: &Sample) {
        let Sample { now, rate, delivered, before, newly, .. } = *sample;
        self.short_term.on_sample(rate, delivered, before, self.delivered);
        self.update_max_bw(sample);
        if self.short_term.round_ends {
            let searching = self.state.is_searching();
            let most = if searching { 100 } else { self.tolerated.holding };
            self.short_term.adapt(most, self.max_bw(), self.cwnd, self.delivered);
        }
        let at = Round { count: self.round, full: self.full_pipe.reached };
        self.extra_acked.update(now, newly, self.bw, self.cwnd, at);
        if self.round_start && !sample.app_limited {
            self.full_pipe.on_round(rate);
        }
        self.advance_state(sample);
        self.short_term.advance(rate, delivered);
        self.bound_bw();
    }

    /// Section 5.5.1.
    fn update_round(&mut self, before: Option<u64>) {
        self.round_start = before.is_some_and(|before| before >= self.round_ends_at);
        if self.round_start {
            self.start_round();
            self.round += 1;
            self.cycle.rounds_since_up += 1;
            self.cwnd_limited = [self.cwnd_limited[1], false];
        }
    }

    fn start_round(&mut self) {
        self.round_ends_at = self.delivered;
    }

    /// Section 5.5.5.
    fn update_max_bw(&mut self, sample: &Sample) {
        self.update_round(sample.before);
        if sample.rate > 0 && (sample.rate >= self.max_bw() || !sample.app_limited) {
            self.max_bw[1] = self.max_bw[1].max(sample.rate);
        }
    }

    fn max_bw(&self) -> u64 {
        self.max_bw[0].max(self.max_bw[1])
    }

    /// A cycle of ProbeBW has ended.
    fn advance_max_bw(&mut self) {
        self.max_bw = [self.max_bw[1], 0];
    }

    fn bound_bw(&mut self) {
        self.bw = self.max_bw().min(self.short_term.bw);
    }

    /// Whether cwnd was full in the last packet-timed round trip.
    fn is_cwnd_limited(&self) -> bool {
        self.cwnd_limited[0] || self.cwnd_limited[1]
    }

    fn min_pipe(&self) -> u64 {
        MIN_PIPE * self.pmdcs
    }

    /// A part of the product of rate and round-trip time, in percent (section 5.6.4.2).
    fn product(&self, bw: u64, gain: u64) -> u64 {
        match self.min_rtt.get() {
            Some(rtt) => amount::percent(amount::product(bw, rtt), gain),
            None => self.initial_cwnd,
        }
    }

    /// The same, with room for packets that are sent, received and acknowledged in batches.
    fn inflight(&self, bw: u64, gain: u64) -> u64 {
        self.with_room(self.product(bw, gain))
    }

    fn with_room(&self, inflight: u64) -> u64 {
        let quantum = amount::product(self.pacing_rate.unwrap_or(0), Duration::from_millis(1));
        let quantum = quantum.min(MOST_QUANTUM).max(2 * self.pmdcs);
        let inflight = inflight.max(3 * quantum).max(self.min_pipe());
        let more = if self.state == State::Up { 2 * self.pmdcs } else { 0 };
        inflight.saturating_add(more)
    }

    /// What BBR wants in flight: a product, unless losses reduced cwnd.
    fn target_inflight(&self) -> u64 {
        self.product(self.bw, 100).min(self.cwnd)
    }

    /// What leaves room for other flows in a path that is known to be limited (section 5.3.3.6).
    fn inflight_with_headroom(&self) -> u64 {
        if self.inflight_longterm == u64::MAX {
            return u64::MAX;
        }
        let headroom = amount::percent(self.inflight_longterm, 15).max(self.pmdcs);
        self.inflight_longterm.saturating_sub(headroom).max(self.min_pipe())
    }

    /// The first rate, before a rate is measured (section 5.6.2).
    fn init_pacing_rate(&mut self, smoothed: Option<Duration>) {
        if self.pacing_rate.is_none()
            && let Some(rtt) = smoothed.filter(|rtt| *rtt > Duration::ZERO)
        {
            let rate = amount::percent(amount::rate(self.initial_cwnd, rtt), 277);
            self.pacing_rate = Some(rate.clamp(LEAST_RATE, MOST_RATE));
        }
    }

    fn set_pacing_rate(&mut self, gain: u64) {
        if self.bw == 0 {
            return;
        }
        let rate = amount::percent(amount::percent(self.bw, gain), 100 - PACING_MARGIN);
        let rate = rate.clamp(LEAST_RATE, MOST_RATE);
        // Until the path was full once, a low sample may be the application's.
        if self.full_pipe.reached || self.pacing_rate.is_none_or(|known| rate > known) {
            self.pacing_rate = Some(rate);
        }
    }

    /// Grows the window by what was acknowledged, up to what the model allows (section 5.6.4.6).
    fn set_cwnd(&mut self, newly: u64) {
        let product = self.product(self.bw, self.state.cwnd_gain());
        let most = self.with_room(product.saturating_add(self.extra_acked.get()));
        let grown = self.cwnd.saturating_add(newly).min(MOST_WINDOW);
        if self.full_pipe.reached {
            self.cwnd = grown.min(most);
        } else if self.cwnd < most
            || self.delivered.saturating_sub(self.began_at) < self.initial_cwnd
        {
            self.cwnd = grown;
        }
        self.bound_cwnd();
    }

    /// Sections 5.6.4.5 and 5.6.4.7.
    fn bound_cwnd(&mut self) {
        let limit = match self.state {
            State::Startup | State::Drain => u64::MAX,
            State::Down | State::Refill | State::Up => self.inflight_longterm,
            State::Cruise => self.inflight_with_headroom(),
            State::ProbeRtt => self.inflight_with_headroom().min(self.probe_rtt_cwnd()),
        };
        let limit = limit.min(self.short_term.inflight).max(self.min_pipe());
        self.cwnd = self.cwnd.max(self.min_pipe()).min(limit);
    }

    fn save_cwnd(&mut self) {
        let modulated = self.recovery.is_some() || self.state == State::ProbeRtt;
        self.prior_cwnd = if modulated { self.prior_cwnd.max(self.cwnd) } else { self.cwnd };
    }

    fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }

    /// Section 5.5.11.1.
    fn save_state(&mut self) {
        self.save_cwnd();
        self.before = Before {
            state: None,
            bw_shortterm: self.short_term.bw,
            inflight_shortterm: self.short_term.inflight,
            inflight_longterm: self.inflight_longterm,
        };
    }

    /// Ends a recovery that has repaired its losses.
    fn leave_recovery(&mut self, in_fast_recovery: bool) {
        let over = match self.recovery {
            None => return,
            Some(Recovery::Fast) => !in_fast_recovery,
            Some(Recovery::Timeout(until)) => self.delivered >= until,
        };
        if over {
            self.recovery = None;
            self.restore_cwnd();
        }
    }

    /// Losses while BBR searches for bandwidth show how much is too much (section 5.5.10.2).
    fn on_probe_loss(&mut self, lost: &LostData) {
        let Some(packet) = lost.sample.filter(|_| self.cycle.is_probe_sample) else { return };
        if !self.tolerated.is_too_much(packet.lost, packet.in_flight) {
            return;
        }
        // The flight at which the losses became too many, while the lost data left.
        let size = lost.bytes as u64;
        let share = self.tolerated.searching;
        let flight_before = packet.in_flight.saturating_sub(size);
        let lost_before = packet.lost.saturating_sub(size);
        let prefix =
            flight_before.saturating_mul(share).saturating_sub(lost_before.saturating_mul(100));
        let flight = flight_before.saturating_add(prefix / (100 - share));
        self.cycle.probe_too_high();
        if !packet.app_limited {
            let target = amount::percent(self.target_inflight(), BETA);
            self.inflight_longterm = flight.max(target);
        }
        if self.state == State::Up {
            self.before.state = Some(State::Up);
            self.start_down(lost.now);
        }
    }

    /// The network marked a packet: a queue is too long. Section 1 asks that this counts as congestion and leaves open
    /// how; here it counts as a round with too many losses.
    fn on_mark(&mut self, congestion: &CongestionEvent<'_>) {
        if self.short_term.on_mark(self.delivered) {
            self.save_state();
        }
        match self.state {
            State::Startup if !self.full_pipe.reached => {
                self.full_pipe.conclude();
                let delivered = self.short_term.inflight_latest();
                self.inflight_longterm = self.product(self.bw, 100).max(delivered);
            }
            State::Up => {
                self.cycle.probe_too_high();
                let target = amount::percent(self.target_inflight(), BETA);
                self.inflight_longterm = target.max(self.product(self.bw, 100));
                self.start_down(congestion.now);
            }
            _ => {}
        }
        self.set_pacing_rate(self.state.pacing_gain());
        self.bound_cwnd();
    }

    /// Data leaves after a time with nothing in flight (section 5.4.1).
    fn restart_from_idle(&mut self, now: Instant) {
        self.idle_restart = true;
        self.extra_acked.restart(now);
        if self.state.is_probe_bw() {
            self.set_pacing_rate(100);
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done(now);
        }
    }
}

impl Controller for Bbr {
    fn cwnd(&self) -> usize {
        usize::try_from(self.cwnd.max(self.pmdcs)).unwrap_or(usize::MAX)
    }

    /// The product of rate and round-trip time once it is known, for policies that compare paths.
    fn ssthresh(&self) -> usize {
        if !self.full_pipe.reached {
            return usize::MAX;
        }
        let product = self.product(self.bw, 100).max(self.min_pipe());
        usize::try_from(product).unwrap_or(usize::MAX)
    }

    fn pacing_rate(&self) -> Option<u64> {
        self.pacing_rate
    }

    fn needs(&self) -> Needs {
        Needs::default().with_rate_samples().with_packet_rtts().with_pacing()
    }

    fn on_sent(&mut self, sent: &Sent) {
        if sent.in_flight <= sent.bytes && self.app_limited {
            self.restart_from_idle(sent.now);
        }
        self.app_limited = sent.app_limited;
        if (sent.in_flight as u64).saturating_add(self.pmdcs) > self.cwnd {
            self.cwnd_limited[1] = true;
        }
    }

    fn on_acked(&mut self, acked: &Acked<'_>) {
        self.init_pacing_rate(acked.rtt.smoothed);
        let sample = self.sample(acked);
        self.leave_recovery(acked.in_fast_recovery);
        self.update(&sample);
        self.set_pacing_rate(self.state.pacing_gain());
        self.set_cwnd(sample.newly);
    }

    fn on_congestion_event(&mut self, congestion: &CongestionEvent<'_>) {
        if congestion.cause == Loss::Marked {
            self.on_mark(congestion);
            return;
        }
        self.save_state();
        self.recovery = Some(match congestion.cause {
            Loss::Reported | Loss::Marked => Recovery::Fast,
            Loss::Timeout => {
                // What was in flight is lost, and one packet may leave.
                self.cwnd = self.pmdcs;
                Recovery::Timeout(self.delivered.saturating_add(congestion.in_flight as u64))
            }
        });
    }

    fn on_lost(&mut self, lost: &LostData) {
        if self.short_term.on_lost(self.delivered, lost.bytes as u64) {
            self.save_state();
        }
        self.on_probe_loss(lost);
        if lost.cause == Loss::Reported {
            self.set_pacing_rate(self.state.pacing_gain());
            self.bound_cwnd();
        }
    }

    // Section 5.5.11.2.
    fn undo(&mut self, _now: Instant) {
        self.recovery = None;
        self.restore_cwnd();
        self.short_term.forgive();
        self.full_pipe.restart(0);
        let before = self.before;
        self.short_term.bw = self.short_term.bw.max(before.bw_shortterm);
        self.short_term.inflight = self.short_term.inflight.max(before.inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(before.inflight_longterm);
        self.before.state = None;
        match before.state {
            Some(State::Startup) if self.state != State::Startup => {
                self.full_pipe.reached = false;
                if self.state != State::ProbeRtt {
                    self.state = State::Startup;
                }
            }
            Some(State::Up) if ![State::Up, State::ProbeRtt].contains(&self.state) => {
                self.start_refill();
            }
            _ => {}
        }
        self.bound_cwnd();
    }

    fn on_rtt(&mut self, _now: Instant, rtt: &Rtt) {
        self.init_pacing_rate(rtt.smoothed);
    }

    fn on_idle(&mut self, idle: &Idle) {
        self.restart_from_idle(idle.now);
    }

    fn on_recovered(&mut self, _now: Instant, packets: u32) {
        self.cwnd = self.cwnd.max(self.pmdcs.saturating_mul(packets.into())).min(MOST_WINDOW);
    }

    fn on_burst_limit(&mut self, _now: Instant, flight: usize, packets: u32) {
        let burst = self.pmdcs.saturating_mul(packets.into());
        self.cwnd = self.cwnd.min(burst.saturating_add(flight as u64)).max(self.pmdcs);
    }

    fn on_pmdcs_change(&mut self, _now: Instant, pmdcs: usize) {
        self.pmdcs = pmdcs.max(1) as u64;
        self.cwnd = self.cwnd.max(self.pmdcs);
    }

    fn reinitialize(&mut self, now: Instant) {
        let Self { tolerated, pmdcs, initial_cwnd, delivered, .. } = *self;
        *self = Self::started(now, tolerated, pmdcs, initial_cwnd, delivered);
    }
}
