//! Explicit congestion notification, as a sender (RFC 4960 appendix A, RFC 3168 section 6.1).
//!
//! Packets with new data are sent ECN-capable; retransmissions are not. The peer reports a mark until this side has
//! answered. Windows are lowered once for all packets that were in flight, as for losses.
//!
//! A path that swallows ECN-capable packets, or marks each of them, is left alone: it gets packets that are not
//! ECN-capable, which every path carries as it did before there was ECN. A path may also mark each of them because its
//! queue has been full for as long as it is known. There, packets that are not ECN-capable are lost, so ECN goes on.

use anabranch_wire::Tsn;

use super::Sender;
use crate::congestion::Loss;
use crate::marks::mark;
use crate::path::Paths;
use crate::per_path::PathId;
use crate::time::Instant;
use crate::tsn;

/// The number of flights in a row that a path must swallow until it gets no more ECN-capable packets: packets in flight
/// together, none of them delivered, while packets that are not ECN-capable are. The second one holds once
/// ECN-capable packets have arrived: then it is more likely that these were lost like any other, and a flight of a thin
/// flow is one packet.
const SWALLOWED_AT_FIRST: u8 = 3;
const SWALLOWED_LATER: u8 = 12;

/// The number of lowered windows in a row, with at most so many packets and on a path without a queue, that show that
/// the path marks everything.
const NEEDLESS: i8 = 10;
const SMALL_WINDOW_PACKETS: usize = 4;

/// The number of acknowledgements without a loss that confirm it, once packets are not ECN-capable any more.
const TRIAL: i8 = 16;
/// Where the count of lowered windows begins after a loss instead.
const AFTER_TRIAL: i8 = -100;

/// A round-trip time this close to the minimum shows no queue that would have to be marked; RFC 8289 section 4.4 lets a
/// queue stand for 5 ms.
const NO_QUEUE_MICROS: u32 = 5000;

/// Whether new data is sent ECN-capable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Usage {
    #[default]
    On,
    /// Not after a timeout, until something arrives.
    Paused,
    /// Not after needless marks, unless something is lost now.
    Trial,
    /// Not any more.
    Off,
}

/// What is known of one path.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathEcn {
    /// The first TSN that was sent ECN-capable since the last flight that was swallowed, if `tried`.
    first: Tsn,
    /// How many more flights may be swallowed.
    left: u8,
    /// Windows lowered in a row without need; in a trial, the acknowledgements that are left of it.
    needless: i8,
    usage: Usage,
    tried: bool,
}

impl Default for PathEcn {
    fn default() -> Self {
        let (first, needless) = (Tsn(0), 0);
        Self { first, left: SWALLOWED_AT_FIRST, needless, usage: Usage::On, tried: false }
    }
}

impl PathEcn {
    /// Records that new data was sent, from this TSN on.
    #[inline]
    pub(super) fn on_new_data(&mut self, tsn: u64) {
        if !self.tried && self.usage == Usage::On {
            (self.tried, self.first) = (true, Tsn(tsn as u32));
        }
    }

    /// Evaluates an acknowledgement up to this TSN. `first` and `again`: of chunks that were sent once, and of
    /// retransmissions. Returns whether the path is to be left alone.
    fn judge(&mut self, cumulative: Tsn, first: bool, again: bool) -> bool {
        if !first && !again || self.usage == Usage::Off {
            return false;
        }
        if self.usage == Usage::Trial {
            self.needless -= i8::from(first);
            return self.needless == 0;
        }
        let was_paused = std::mem::replace(&mut self.usage, Usage::On) == Usage::Paused;
        if first && !was_paused {
            self.left = SWALLOWED_LATER;
        } else if self.tried && self.first.le(cumulative) {
            self.tried = false;
            self.left = self.left.saturating_sub(1);
        }
        self.left == 0
    }

    /// Records a loss: in a trial, the path marks because it is congested.
    pub(super) fn on_loss(&mut self) {
        if self.usage == Usage::Trial {
            (self.usage, self.needless) = (Usage::On, AFTER_TRIAL);
        }
    }
}

impl Sender {
    /// Sets whether both sides agreed on ECN.
    pub(crate) fn set_ecn(&mut self, ecn: bool) {
        self.ecn = ecn;
    }

    /// Whether packets with new data on this path are sent ECN-capable.
    #[inline]
    pub(crate) fn uses_ecn(&self, path: PathId) -> bool {
        self.ecn && self.lanes[path].ecn.usage == Usage::On
    }

    /// Whether a packet with new data may be ECN-capable: probes of a closed window are not (RFC 3168 section 6.1.6).
    pub(crate) fn is_probing_window(&self) -> bool {
        self.window.is_probed()
    }

    /// Handles the peer's report that a packet was marked, which carried this TSN first.
    pub(crate) fn on_congestion_echo(&mut self, now: Instant, tsn: Tsn, paths: &mut Paths) {
        let tsn = tsn::unwrap(self.outstanding.base(), tsn.0);
        // If it was acknowledged, the first report came with that acknowledgement, and only the answer was lost.
        let Some(slot) = self.outstanding.get(tsn) else { return };
        let (path, packet) = (slot.path, slot.packet);
        let retransmitted = self.outstanding.retransmission(tsn).is_some();
        let lane = &self.lanes[path];
        // A window that was lowered, for a mark or a loss, was lowered for all packets sent before.
        if retransmitted || packet < lane.lowered_at || !self.uses_ecn(path) {
            mark!(OldEcho);
            return;
        }
        mark!(CongestionEcho);
        self.lower_windows(now, path, Loss::Marked, paths);
        paths[path].stats.troubles().ecn_reductions += 1;
        if self.is_marked_needlessly(path, paths) {
            let ecn = &mut self.lanes[path].ecn;
            (ecn.usage, ecn.needless) = (Usage::Trial, TRIAL);
        }
    }

    /// Whether the path marks packets although it has no queue.
    fn is_marked_needlessly(&mut self, path: PathId, paths: &Paths) -> bool {
        let srtt = paths[path].rtt.srtt().map_or(0, |srtt| srtt.as_micros());
        let lane = &mut self.lanes[path];
        let no_queue =
            srtt < u128::from(lane.congestion.min_rtt_micros().saturating_add(NO_QUEUE_MICROS));
        let small = lane.congestion.cwnd() <= SMALL_WINDOW_PACKETS * paths[path].pmdcs();
        lane.ecn.needless = if no_queue && small { lane.ecn.needless + 1 } else { 0 };
        lane.ecn.needless >= NEEDLESS
    }

    /// Records that T3-rtx of a path expired: what follows is not ECN-capable, which shows whether that was the reason.
    pub(super) fn doubt_ecn(&mut self, path: PathId) {
        let ecn = &mut self.lanes[path].ecn;
        ecn.on_loss();
        if ecn.usage == Usage::On {
            ecn.usage = Usage::Paused;
        }
    }

    /// Evaluates the current acknowledgement: whether the paths carry ECN-capable packets. Retransmissions are in
    /// packets that are not.
    pub(crate) fn judge_ecn(&mut self, paths: &mut Paths) {
        if !self.ecn {
            return;
        }
        let cumulative = Tsn((self.outstanding.base() - 1) as u32);
        for path in self.lanes.ids_now() {
            let Some(ack) = self.summary.paths.get(path) else { continue };
            let (first, again) = (ack.first, ack.again);
            let ecn = &mut self.lanes[path].ecn;
            if ecn.judge(cumulative, first, again) {
                mark!(LeavesEcn);
                ecn.usage = Usage::Off;
                paths[path].stats.troubles().ecn_failures += 1;
            }
        }
    }
}
