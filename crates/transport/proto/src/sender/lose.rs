//! The only place that handles losses: whenever data in flight is considered lost or must be
//! retransmitted, this code schedules the retransmission, updates the peer's window, and counts it.

use std::time::Duration;

use super::{Decision, Sender};
use crate::congestion::Loss;
use crate::path::{Path, Paths};
use crate::per_path::{PathId, PerPath};
use crate::policy;
use crate::send::Cause;
use crate::stats::Counters;
use crate::time::Instant;

/// Retransmitted chunks by cause; 32 bits each, because idle associations should be small.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lost {
    /// By missing reports and by time.
    reported: u32,
    few_packets: u32,
    tail_probe: u32,
    timeout: u32,
    interface_gone: u32,
    path_answered: u32,
    mtu_fell: u32,
    window_opened: u32,
    wrong_address: u32,
    overtaken: u32,
}

impl Lost {
    fn by(&mut self, cause: Cause) -> &mut u32 {
        match cause {
            Cause::MissingReports | Cause::TimeThreshold => &mut self.reported,
            Cause::FewPackets => &mut self.few_packets,
            Cause::TailProbe => &mut self.tail_probe,
            Cause::Timeout => &mut self.timeout,
            Cause::InterfaceGone => &mut self.interface_gone,
            Cause::PathAnswered => &mut self.path_answered,
            Cause::MtuFell => &mut self.mtu_fell,
            Cause::WindowOpened => &mut self.window_opened,
            Cause::WrongAddress => &mut self.wrong_address,
            Cause::Overtaken => &mut self.overtaken,
        }
    }

    pub(super) fn count(&self, counters: &mut Counters) {
        let sum = |causes: &[u32]| causes.iter().map(|chunks| u64::from(*chunks)).sum::<u64>();
        counters.fast_retransmitted_chunks += sum(&[self.reported, self.few_packets]);
        counters.early_retransmitted_chunks += sum(&[self.few_packets]);
        counters.probe_retransmitted_chunks += sum(&[self.tail_probe]);
        counters.timeout_retransmitted_chunks +=
            sum(&[self.timeout, self.interface_gone, self.path_answered]);
        counters.useless_retransmitted_chunks +=
            sum(&[self.mtu_fell, self.window_opened, self.wrong_address, self.overtaken]);
    }
}

impl Sender {
    /// The path for the retransmission of a chunk that path `from` lost.
    // req: rfc9260 6.4 "SHOULD send fast retransmissions to the same"
    pub(super) fn retransmission_path(
        &self,
        cause: Cause,
        from: PathId,
        paths: &PerPath<Path>,
    ) -> PathId {
        let windows = |path: PathId| policy::Windows {
            flight: self.outstanding.flight(path),
            cwnd: self.lanes[path].congestion.cwnd(),
            ssthresh: self.lanes[path].congestion.ssthresh(),
        };
        let path = self.config.paths.retransmission.path(cause, from, paths, windows);
        self.sooner_than(path, paths).or_else(|| self.safer_than(path, paths)).unwrap_or(path)
    }

    /// Another path that works, if a policy has chosen a timed-out path because it was formerly the best, and the
    /// association is vigilant. As published, those policies let the chunk wait for that path's timer, which backs off
    /// each time.
    pub(super) fn safer_than(&self, path: PathId, paths: &PerPath<Path>) -> Option<PathId> {
        let options = &self.config.paths;
        if options.vigilance.is_none() || !options.retransmission.is_comparing() {
            return None;
        }
        self.next_that_works(path, paths)
    }

    /// If a path has timed out: the next path in rotation that carries new data and has not.
    pub(super) fn next_that_works(&self, path: PathId, paths: &PerPath<Path>) -> Option<PathId> {
        if paths[path].error_count == 0 {
            return None;
        }
        let works = |path: &PathId| paths[*path].is_concurrent() && paths[*path].error_count == 0;
        paths.in_turn_after(path).find(works)
    }

    /// The path for data that timed out on a path; the path in use if no path is active.
    // req: rfc7829 3.2 "SHOULD choose an alternate destination transport address in active state"
    pub(crate) fn path_after_timeout(&self, path: PathId, paths: &Paths) -> PathId {
        let to = self.retransmission_path(Cause::Timeout, path, paths);
        if paths[to].is_active() { to } else { paths.active() }
    }

    /// Considers a chunk in flight lost: it is retransmitted on path `to`, or else on the path that the policy chooses.
    /// Returns the path.
    pub(super) fn lose(
        &mut self,
        tsn: u64,
        cause: Cause,
        to: Option<PathId>,
        paths: &mut PerPath<Path>,
    ) -> PathId {
        let Some(slot) = self.outstanding.get(tsn) else { return to.unwrap_or(self.last_new) };
        let (from, length) = (slot.path, slot.payload.len());
        let (size, packet) = (slot.size(), slot.packet);
        let count = self.lost.by(cause);
        *count = count.wrapping_add(1);
        if cause.is_loss() {
            paths[from].loss.on_lost(1);
            self.lanes[from].congestion.lose(size, packet);
            self.unreported = true;
        }
        let message = slot.message;
        let to = match self.keeps_path(tsn, cause, paths) {
            Some(path) => path,
            None => to.unwrap_or_else(|| self.retransmission_path(cause, from, paths)),
        };
        let whole = self.outstanding.lose(tsn, cause, to);
        // req: rfc3758 3.5 "the appropriate congestion adjustment MUST be made"
        // req: rfc7496 3.1 "The sender MUST perform all other actions required for"
        self.doubt(tsn, message);
        if cause.is_loss() {
            let troubles = paths[from].stats.troubles();
            troubles.lost_packets += u64::from(whole);
            troubles.lost_bytes += length as u64;
        }
        self.note(Decision::Lost { tsn: tsn as u32, path: from, to, bytes: length, cause });
        // RFC 9260 section 6.2.1 C.
        self.window.give_back(length);
        to
    }

    /// Reports the losses since the last call to the controllers.
    #[inline]
    pub(super) fn report_lost(&mut self, now: Instant, cause: Loss) {
        if std::mem::take(&mut self.unreported) {
            self.report_all_lost(now, cause);
        }
    }

    fn report_all_lost(&mut self, now: Instant, cause: Loss) {
        for lane in self.lanes.iter_mut() {
            let in_flight = self.outstanding.flight(lane.path);
            lane.congestion.report_lost(now, cause, in_flight);
        }
    }

    /// Retransmits everything in flight on a path on path `to`. `true` if that includes packets larger
    /// than the base MTU.
    pub(crate) fn lose_flight(
        &mut self,
        path: PathId,
        cause: Cause,
        to: PathId,
        paths: &mut PerPath<Path>,
    ) -> bool {
        let mut large = false;
        while let Some(tsn) = self.outstanding.earliest(path) {
            large |= self.outstanding.get(tsn).is_some_and(|slot| slot.large());
            self.lose(tsn, cause, Some(to), paths);
        }
        self.stop_t3(path);
        large
    }

    /// Handles the expiry of a path's T3-rtx: retransmits the chunks that were sent long enough ago on the path, and
    /// always the first one. Chunks sent later may still arrive (RFC 8985 section 6.3). `true` if packets larger than
    /// the base MTU were lost.
    pub(super) fn lose_overdue(
        &mut self,
        now: Instant,
        path: PathId,
        patience: Duration,
        paths: &mut PerPath<Path>,
    ) -> bool {
        let (mut large, mut first) = (false, true);
        while let Some(tsn) = self.outstanding.earliest(path) {
            let due = self.outstanding.sent_at(tsn).is_none_or(|sent| sent + patience <= now);
            if !first && !due {
                break;
            }
            first = false;
            large |= self.outstanding.get(tsn).is_some_and(|slot| slot.large());
            self.lose(tsn, Cause::Timeout, Some(path), paths);
        }
        let waits = self.outstanding.in_flight(path);
        self.lanes[path].t3 = waits.then(|| now + paths[path].rtt.rto());
        large
    }

    /// Retransmits the chunks in flight on a path, if any, on path `to`; their first packet is sent immediately.
    pub(crate) fn resend(
        &mut self,
        path: PathId,
        cause: Cause,
        to: PathId,
        paths: &mut PerPath<Path>,
    ) {
        if self.in_flight(path) {
            self.lose_flight(path, cause, to, paths);
            self.lanes[to].retransmit_at_once = true;
        }
    }

    /// Moves chunks that wait for retransmission from path `from` to `to`.
    pub(crate) fn redirect(&mut self, from: PathId, to: PathId) {
        self.outstanding.redirect_lost(from, to);
    }

    /// Handles the answer on path `id`, which had timed out, to a heartbeat sent at `sent`. Chunks that have been in
    /// flight since before then, on that path or on a failed one, are lost: retransmits them now. `true` if there were
    /// any.
    // exempt: rfc9260 6.3.3 "SHOULD be marked for retransmission" the timer that has backed off is not waited for when a heartbeat shows that the path works again; the window stays what the timeouts made of it
    pub(crate) fn resume(
        &mut self,
        now: Instant,
        id: PathId,
        sent: Instant,
        paths: &mut PerPath<Path>,
    ) -> bool {
        let rto = paths[id].rtt.rto();
        let mut resumed = false;
        for other in self.lanes.ids_now() {
            if !self.in_flight(other) || (other != id && paths[other].is_active()) {
                continue;
            }
            if self.lanes[other].last_data < sent {
                resumed = true;
                self.resend(other, Cause::PathAnswered, id, paths);
            } else {
                self.hasten(other, now + rto);
            }
        }
        self.report_lost(now, Loss::Timeout);
        resumed
    }
}
