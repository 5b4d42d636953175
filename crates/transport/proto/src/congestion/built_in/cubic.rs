//! CUBIC (RFC 9438): the window is a cubic function of the time since the last congestion. It is flat
//! around the size at which that occurred, and steep elsewhere.
//!
//! Idle time and the minimum windows follow RFC 9260, and so does slow start, except that the first one ends with
//! HyStart++. After a loss the window falls in step with the acknowledgements (proportional rate reduction). Windows
//! in the formulas are in packets of one PMDCS, times in seconds.
//!
//! If the paths of an association are coupled by LIA (RFC 6356), both ways to grow slow down by as much as it takes for
//! the same loss rates to leave the windows that LIA would leave ([`Pace`]).
//!
//! As in Linux, with whose CUBIC it must share links, the window is a whole number of packets, and slow start ends
//! below the threshold (`net/ipv4/tcp_cubic.c`).

use std::time::Duration;

use crate::congestion::prr::Prr;
use crate::congestion::window::Window;
use crate::congestion::{
    Acked, CongestionEvent, Controller, Idle, Loss, LostData, Needs, NewPath, Sent,
};
use crate::time::Instant;

/// Steepness of the cubic function (RFC 9438 section 5).
const C: f64 = 0.4;
/// The factor by which congestion reduces the window (section 4.6).
const BETA: f64 = 0.7;
/// Growth per round trip of a controller that has Reno's loss rate but reduces its window to [`BETA`]
/// (section 4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// How fast a window grows that is coupled with others, as parts of its growth alone.
///
/// With the same losses, the window of Reno is proportional to the square root of its growth per round trip, and the
/// window of the cubic function to the fourth root of its steepness C (RFC 9438 section 5.1). So if LIA lets Reno grow
/// by a part `a`, C has to become `a^2 C`, which is the same function in a time that runs `a^(2/3)` times as fast.
#[derive(Clone, Copy, Debug)]
struct Pace {
    reno: f64,
    time: f64,
}

impl Pace {
    const ALONE: Self = Self { reno: 1.0, time: 1.0 };

    fn of(packets: f64) -> Self {
        if packets >= 1.0 {
            return Self::ALONE;
        }
        let reno = packets.max(0.0);
        Self { reno, time: reno.powf(2.0 / 3.0) }
    }
}

/// Congestion avoidance since the last congestion.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// When it began; moved forward by the time in which the application had nothing to send, and by what a coupling
    /// takes of the others.
    began: Instant,
    /// When the window grew last.
    grew: Instant,
    /// The window at which the function is flat: W_max.
    plateau: f64,
    /// Seconds until the plateau is reached: K.
    reached_after: f64,
    /// The window of a controller that grows like Reno's: W_est.
    reno: f64,
}

impl Epoch {
    /// The window grows at `now`: the function has advanced by a part of the time since the last growth.
    fn slow_down(&mut self, now: Instant, pace: Pace) {
        let grew = std::mem::replace(&mut self.grew, now);
        if pace.time < 1.0 {
            let passed = now.saturating_since(grew.max(self.began));
            self.began += passed.mul_f64(1.0 - pace.time);
        }
    }

    /// The cubic function (section 4.2).
    fn at(&self, since: Duration) -> f64 {
        C * (since.as_secs_f64() - self.reached_after).powi(3) + self.plateau
    }
}

/// What congestion avoidance needs.
#[derive(Clone, Copy, Debug, Default)]
struct Curve {
    /// W_max of the next epoch, in packets; 0 if there was no congestion yet.
    plateau: f64,
    /// cwnd at the last congestion, in packets.
    prior: f64,
    epoch: Option<Epoch>,
    /// Growth of less than a byte.
    rest: f64,
    /// Since when the window has been larger than the application needs.
    unused_since: Option<Instant>,
}

impl Curve {
    /// Begins or continues congestion avoidance with a window of `cwnd` packets.
    fn epoch(&mut self, now: Instant, cwnd: f64) -> Epoch {
        let began = *self.epoch.get_or_insert_with(|| {
            // After a timeout, or if there was no congestion yet, the function begins on its plateau
            // (section 4.8).
            let plateau = self.plateau.max(cwnd);
            let reached_after = ((plateau - cwnd) / C).cbrt();
            Epoch { began: now, grew: now, plateau, reached_after, reno: cwnd }
        });
        // Time in which only the application limited sending does not count (section 4.2).
        if let Some(since) = self.unused_since.take()
            && let Some(epoch) = &mut self.epoch
        {
            epoch.began = epoch.began + now.saturating_since(since.max(epoch.began));
            return *epoch;
        }
        began
    }
}

/// Windows before congestion, to restore if it was spurious.
#[derive(Clone, Debug)]
struct Before {
    cwnd: usize,
    ssthresh: usize,
    curve: Curve,
}

/// The window at which slow start met a loss. It has doubled within a round trip, and the path has dropped what it
/// could not carry, so the part that was not lost is what the path carries.
#[derive(Clone, Copy, Debug)]
struct Overshoot {
    cwnd: usize,
    lost: usize,
}

impl Overshoot {
    /// The window that the path carries: at least half of the last one, which arrived a round trip earlier.
    fn carried(self) -> usize {
        self.cwnd - self.lost.min(self.cwnd / 2)
    }
}

/// State of one path.
#[derive(Clone, Debug)]
pub(super) struct Cubic {
    window: Window,
    /// Bytes that the latest acknowledgement outside of fast recovery acknowledged, and when.
    latest: (Instant, usize),
    /// None before the first slow start has ended, so that a path without traffic needs little memory.
    later: Option<Box<Later>>,
}

/// What is needed after the first slow start.
#[derive(Clone, Debug, Default)]
struct Later {
    curve: Curve,
    before: Option<Before>,
    recovery: Option<Recovery>,
}

/// Fast recovery.
#[derive(Clone, Debug)]
struct Recovery {
    /// It sets cwnd.
    reduction: Prr,
    /// After slow start: what was lost of its last window.
    overshoot: Option<Overshoot>,
}

impl Cubic {
    pub(super) fn new(path: &NewPath<'_>) -> Self {
        Self { window: Window::new(path, true), latest: (Instant::ZERO, 0), later: None }
    }

    fn later(&mut self) -> &mut Later {
        self.later.get_or_insert_default()
    }

    fn curve(&mut self) -> &mut Curve {
        &mut self.later().curve
    }

    fn recovery(&mut self) -> Option<&mut Recovery> {
        self.later.as_mut()?.recovery.as_mut()
    }

    fn is_recovering(&self) -> bool {
        self.later.as_ref().is_some_and(|later| later.recovery.is_some())
    }

    /// The window without regard to fast recovery, which approaches it.
    fn settled(&self) -> usize {
        if self.is_recovering() {
            // Packets may have become larger than the threshold.
            self.window.ssthresh.max(self.window.pmdcs)
        } else {
            self.window.cwnd
        }
    }

    /// In fast recovery: the window with `in_flight` bytes in flight.
    fn recover(&mut self, in_flight: usize) {
        let Some(later) = &self.later else { return };
        if let Some(recovery) = &later.recovery {
            let window = &mut self.window;
            window.cwnd = recovery.reduction.window(in_flight, window.ssthresh, window.pmdcs);
        }
    }

    /// Fast recovery has ended.
    fn settle(&mut self) {
        self.window.cwnd = self.settled();
        self.give_up_recovery();
    }

    fn give_up_recovery(&mut self) {
        if let Some(later) = &mut self.later {
            later.recovery = None;
        }
    }

    /// The whole packets of a window, in bytes; at least one. SCTP sends a packet whenever less than cwnd is in
    /// flight (RFC 9260 section 6.1 B), TCP only if all of it fits. With windows of a few packets, one more packet for
    /// a fraction of one let an association send twice as much as a TCP connection on the same link.
    fn whole(&self, bytes: usize) -> usize {
        let packet = self.window.pmdcs;
        (bytes - bytes % packet.max(1)).max(packet)
    }

    /// The threshold after congestion at a window of `cwnd` bytes (RFC 9438 section 4.6), in whole packets.
    fn reduced(&self, cwnd: usize) -> usize {
        self.whole((cwnd as f64 * BETA).round() as usize).max(self.window.least_ssthresh())
    }

    fn packets(&self, bytes: usize) -> f64 {
        bytes as f64 / self.window.pmdcs as f64
    }

    /// Grows the window after an acknowledgement of a full window in congestion avoidance.
    fn grow(&mut self, acked: &Acked<'_>) {
        let cwnd = self.packets(self.window.cwnd);
        let share = self.packets(acked.bytes) / cwnd;
        let packet = self.window.pmdcs as f64;
        let pace = Pace::of(acked.coupled.packets());
        let curve = self.curve();
        let mut epoch = curve.epoch(acked.now, cwnd);
        epoch.slow_down(acked.now, pace);
        let since = acked.now.saturating_since(epoch.began);
        // Once it has its former size again, it grows as Reno's does (section 4.3).
        let alpha = if epoch.reno >= curve.prior { 1.0 } else { ALPHA };
        epoch.reno += pace.reno * alpha * share;
        curve.epoch = Some(epoch);
        let rtt = acked.rtt.smoothed.unwrap_or_default().mul_f64(pace.time);
        let larger = if epoch.at(since) < epoch.reno {
            epoch.reno - cwnd
        } else {
            // Sections 4.4 and 4.5: the value of the function one round trip from now, but at most half a
            // window more per round trip.
            (epoch.at(since + rtt).clamp(cwnd, 1.5 * cwnd) - cwnd) * share
        };
        let bytes = larger.max(0.0) * packet + curve.rest;
        curve.rest = bytes.fract();
        self.window.cwnd += bytes as usize;
    }
}

impl Controller for Cubic {
    fn cwnd(&self) -> usize {
        let cwnd = self.window.cwnd;
        if self.is_recovering() { cwnd } else { self.whole(cwnd) }
    }

    fn ssthresh(&self) -> usize {
        self.window.ssthresh
    }

    fn needs(&self) -> Needs {
        self.window.needs()
    }

    fn on_sent(&mut self, sent: &Sent) {
        if let Some(recovery) = self.recovery() {
            recovery.reduction.on_sent(sent.bytes);
        }
    }

    fn on_acked(&mut self, acked: &Acked<'_>) {
        self.window.on_answer();
        if acked.in_fast_recovery {
            if let Some(recovery) = self.recovery() {
                recovery.reduction.on_acked(acked.bytes, acked.cumulative_advanced);
                self.recover(acked.in_flight);
            }
            return;
        }
        self.settle();
        self.latest = (acked.now, acked.bytes);
        let full = acked.is_window_used(self.cwnd());
        // RFC 9438 section 4.10 also has slow start at the threshold itself, where each recovery ends: the next
        // acknowledgement would take back a packet or two of what the recovery gave up. RFC 5681 section 3.1 leaves
        // the choice, and Linux has congestion avoidance.
        if self.window.cwnd < self.window.ssthresh {
            let growth = self.window.growth(acked);
            if full {
                if let Some(later) = &mut self.later {
                    later.curve.unused_since = None;
                }
                self.window.slow_start(acked, growth);
                return;
            }
        }
        if full {
            self.grow(acked);
        } else if let Some(later) = &mut self.later {
            later.curve.unused_since.get_or_insert(acked.now);
        }
    }

    fn on_congestion_event(&mut self, congestion: &CongestionEvent<'_>) {
        if congestion.cause == Loss::Timeout && self.window.is_same_outage() {
            self.window.cwnd = self.window.pmdcs;
            self.give_up_recovery();
            return;
        }
        self.settle();
        let slow_start = self.window.cwnd < self.window.ssthresh;
        let Window { cwnd, ssthresh, .. } = self.window;
        let curve = *self.curve();
        self.later().before = Some(Before { cwnd, ssthresh, curve });
        let whole = self.cwnd();
        let cwnd = self.packets(whole);
        // Fast convergence (section 4.7): a flow whose share shrinks at every event makes room for
        // others.
        let plateau = if cwnd < curve.plateau { cwnd * (1.0 + BETA) / 2.0 } else { cwnd };
        *self.curve() = Curve { plateau, prior: cwnd, ..Curve::default() };
        self.window.ssthresh = self.reduced(whole);
        match congestion.cause {
            Loss::Reported => {
                let overshoot = slow_start.then_some(Overshoot { cwnd: whole, lost: 0 });
                let (at, bytes) = self.latest;
                let delivered = if at == congestion.now { bytes } else { 0 };
                let reduction = Prr::new(congestion.in_flight, delivered);
                self.later().recovery = Some(Recovery { reduction, overshoot });
                self.recover(congestion.in_flight.saturating_sub(delivered));
            }
            // RFC 9438 section 4.6; nothing has to be repaired, and RFC 3168 section 6.1.2 lowers the window at once.
            Loss::Marked => self.window.cwnd = self.window.ssthresh,
            Loss::Timeout => {
                self.curve().plateau = 0.0;
                self.window.cwnd = self.window.pmdcs;
            }
        }
    }

    fn on_lost(&mut self, lost: &LostData) {
        let Some(recovery) = self.recovery() else { return };
        recovery.reduction.on_lost();
        if let Some(overshoot) = &mut recovery.overshoot {
            overshoot.lost = overshoot.lost.saturating_add(lost.bytes);
            let carried = overshoot.carried();
            let packets = self.packets(carried);
            let curve = self.curve();
            curve.plateau = curve.plateau.min(packets);
            self.window.ssthresh = self.reduced(carried);
        }
        self.recover(lost.in_flight);
    }

    fn undo(&mut self, _now: Instant) {
        self.settle();
        let cwnd = self.window.cwnd;
        let before = self.later.as_mut().and_then(|later| later.before.take());
        if let Some(before) = before.filter(|before| before.cwnd > cwnd) {
            self.window.cwnd = before.cwnd;
            self.window.ssthresh = self.window.ssthresh.max(before.ssthresh);
            *self.curve() = before.curve;
        }
    }

    fn on_idle(&mut self, idle: &Idle) {
        self.settle();
        let before = self.window.cwnd;
        self.window.on_idle(idle.rtos);
        let smaller = self.window.cwnd < before;
        let Some(Later { curve, .. }) = self.later.as_deref_mut() else { return };
        curve.unused_since.get_or_insert(idle.now);
        if smaller {
            curve.epoch = None;
        }
    }

    fn on_recovered(&mut self, _now: Instant, packets: u32) {
        self.window.on_recovered(packets);
    }

    fn on_burst_limit(&mut self, _now: Instant, flight: usize, packets: u32) {
        self.window.on_burst_limit(flight, packets);
    }

    fn on_pmdcs_change(&mut self, _now: Instant, pmdcs: usize) {
        // The size of packets has changed, so windows in packets are no longer valid.
        let ratio = self.window.pmdcs as f64 / pmdcs.max(1) as f64;
        if let Some(Later { curve, .. }) = self.later.as_deref_mut() {
            curve.epoch = None;
            (curve.plateau, curve.prior) = (curve.plateau * ratio, curve.prior * ratio);
        }
        self.window.on_pmdcs_change(pmdcs);
    }

    fn on_recalled(&mut self, _now: Instant, ssthresh: usize) {
        self.window.on_recalled(ssthresh);
    }

    fn reinitialize(&mut self, _now: Instant) {
        self.window.reinitialize();
        (self.latest, self.later) = ((Instant::ZERO, 0), None);
    }
}

#[cfg(test)]
mod tests;
