//! Slow start and congestion avoidance of RFC 9260 section 7.2, with byte counting.
//!
//! This is the standard's controller, and the baseline for others. After a loss it needs many round trips to fill a
//! long fat path again.

use crate::congestion::coupling::LossIntervals;
use crate::congestion::window::Window;
use crate::congestion::{Acked, CongestionEvent, Controller, Coupled, Idle, Loss, Needs, NewPath};
use crate::revision::Revision;
use crate::time::Instant;

/// State of one path.
#[derive(Clone, Debug)]
pub(super) struct Rfc9260 {
    window: Window,
    /// cwnd and ssthresh before the last loss.
    before_loss: Option<Box<(usize, usize)>>,
    partial_bytes_acked: usize,
    /// Change of the window that is due in congestion avoidance, less than a packet, in bytes.
    change_due: isize,
    losses: LossIntervals,
}

impl Rfc9260 {
    pub(super) fn new(path: &NewPath<'_>) -> Self {
        Self {
            window: Window::new(path, false),
            before_loss: None,
            partial_bytes_acked: 0,
            change_due: 0,
            losses: LossIntervals::default(),
        }
    }

    /// Changes the window by `bytes` in congestion avoidance, in whole packets as in RFC 6356 section 4.2: a window
    /// with part of a packet would allow the whole packet to be sent.
    fn change(&mut self, bytes: isize) {
        let window = &mut self.window;
        self.change_due += bytes;
        let pmdcs = window.pmdcs as isize;
        if self.change_due >= pmdcs {
            self.change_due -= pmdcs;
            window.cwnd += window.pmdcs;
        } else if self.change_due <= -pmdcs {
            self.change_due += pmdcs;
            window.cwnd = window.cwnd.saturating_sub(window.pmdcs).max(window.pmdcs);
            // Slow start must not regain the window that was moved to other paths.
            window.ssthresh = window.ssthresh.min(window.cwnd - 1);
        }
    }

    fn reduce_threshold(&mut self, coupled: &Coupled<'_>) {
        self.losses.on_loss();
        self.change_due = 0;
        let least = self.window.least_ssthresh();
        self.window.ssthresh = coupled.threshold(self.window.cwnd, least);
        self.partial_bytes_acked = 0;
    }
}

impl Controller for Rfc9260 {
    fn cwnd(&self) -> usize {
        self.window.cwnd
    }

    fn ssthresh(&self) -> usize {
        self.window.ssthresh
    }

    fn needs(&self) -> Needs {
        self.window.needs()
    }

    fn loss_interval(&self) -> u64 {
        self.losses.longest()
    }

    // req: rfc9260 7.2.2 "SHOULD be incremented by PMDCS per RTT"
    fn on_acked(&mut self, acked: &Acked<'_>) {
        self.window.on_answer();
        self.losses.on_ack(acked.bytes);
        let cwnd = self.window.cwnd;
        let full = acked.is_window_used(cwnd);
        // RFC 2960 and RFC 4960 sections 7.2.1, 7.2.2: acknowledgements that do not advance the Cumulative TSN Ack
        // Point do not change the window.
        if self.window.revision < Revision::Rfc9260 && !acked.cumulative_advanced {
            return;
        }
        if cwnd <= self.window.ssthresh {
            let growth = self.window.growth(acked);
            // req: rfc9260 7.2.1 "otherwise, the cwnd MUST NOT be increased"
            if full && !acked.in_fast_recovery {
                self.window.slow_start(acked, growth);
            }
        } else {
            // req: rfc9260 7.2.2 "SCTP SHOULD increment cwnd by PMDCS once per"
            // req: rfc9260 7.2.2 "MUST NOT increment cwnd by more than PMDCS"
            self.partial_bytes_acked += acked.bytes;
            if full && self.partial_bytes_acked >= cwnd {
                self.partial_bytes_acked -= cwnd;
                self.change(acked.coupled.avoidance(self.window.pmdcs));
            } else if !full {
                self.partial_bytes_acked = self.partial_bytes_acked.min(cwnd);
            }
        }
        if acked.all {
            self.partial_bytes_acked = 0;
        }
    }

    fn on_congestion_event(&mut self, congestion: &CongestionEvent<'_>) {
        if congestion.cause == Loss::Timeout && self.window.is_same_outage() {
            self.window.cwnd = self.window.pmdcs;
            return;
        }
        self.before_loss = Some(Box::new((self.window.cwnd, self.window.ssthresh)));
        self.reduce_threshold(&congestion.coupled);
        self.window.cwnd = match congestion.cause {
            // req: rfc9260 7.2.3 "an endpoint SHOULD do the following"
            // RFC 3168 section 6.1.2: as for the loss of one packet.
            Loss::Reported | Loss::Marked => self.window.ssthresh,
            // req: rfc9260 7.2.3 "SCTP SHOULD perform slow start by"
            // req: rfc9260 7.2.1 "MUST be no more than PMDCS"
            Loss::Timeout => self.window.pmdcs,
        };
    }

    fn undo(&mut self, _now: Instant) {
        if let Some(before) = self.before_loss.take() {
            let (cwnd, ssthresh) = *before;
            self.window.cwnd = self.window.cwnd.max(cwnd);
            self.window.ssthresh = self.window.ssthresh.max(ssthresh);
        }
    }

    fn on_recovered(&mut self, _now: Instant, packets: u32) {
        self.window.on_recovered(packets);
    }

    fn on_burst_limit(&mut self, _now: Instant, flight: usize, packets: u32) {
        self.window.on_burst_limit(flight, packets);
    }

    fn on_idle(&mut self, idle: &Idle) {
        self.window.on_idle(idle.rtos);
    }

    fn on_pmdcs_change(&mut self, _now: Instant, pmdcs: usize) {
        self.window.on_pmdcs_change(pmdcs);
    }

    fn on_recalled(&mut self, _now: Instant, ssthresh: usize) {
        self.window.on_recalled(ssthresh);
    }

    fn reinitialize(&mut self, _now: Instant) {
        self.window.reinitialize();
        self.partial_bytes_acked = 0;
        self.change_due = 0;
        self.losses = LossIntervals::default();
        self.before_loss = None;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::AssociationConfig;
    use crate::congestion::{ControllerChoice, Coupling, IdleCwnd, PathView};

    const PMDCS: usize = 1460;
    const NOW: Instant = Instant::ZERO;

    fn of(config: &AssociationConfig) -> Rfc9260 {
        Rfc9260::new(&NewPath::new(&config.congestion, config.revision, PMDCS))
    }

    fn controller() -> Rfc9260 {
        of(&AssociationConfig::rfc9260())
    }

    /// A controller in congestion avoidance with a window of `packets`.
    fn avoiding(packets: usize) -> Rfc9260 {
        let mut c = controller();
        c.window.cwnd = packets * PMDCS;
        c.window.ssthresh = c.window.cwnd - 1;
        c
    }

    /// Acknowledges `bytes` of a full window.
    fn ack(bytes: usize, c: &Rfc9260) -> Acked<'static> {
        Acked { flight_before: c.window.cwnd, ..Acked::new(NOW, bytes) }
    }

    /// The same, coupled with other paths.
    fn ack_with<'a>(bytes: usize, c: &Rfc9260, coupled: &Coupled<'a>) -> Acked<'a> {
        Acked { coupled: *coupled, ..ack(bytes, c) }
    }

    fn congestion(cause: Loss) -> CongestionEvent<'static> {
        CongestionEvent::new(NOW, cause, 0)
    }

    fn idle(rtos: u32) -> Idle {
        Idle { now: NOW, rtos }
    }

    #[test]
    // test: rfc9260 7.2.1 "initial cwnd before data transmission MUST be set"
    // test: rfc9260 7.2.1 "initial value of ssthresh SHOULD be arbitrarily high"
    fn initial_windows() {
        let cwnd = |config: &AssociationConfig, pmdcs, ipv6| {
            let (options, revision) = (&config.congestion, config.revision);
            let path = NewPath { ipv6, ..NewPath::new(options, revision, pmdcs) };
            let c = ControllerChoice::default().build(&path);
            assert!(c.ssthresh() > 1 << 31);
            c.cwnd()
        };
        let config = AssociationConfig::rfc9260();
        assert_eq!(cwnd(&config, PMDCS, false), 4404);
        assert_eq!(cwnd(&config, PMDCS, true), 4344);
        assert_eq!(cwnd(&config, 500, false), 2000);
        assert_eq!(cwnd(&config, 8940, false), 17_880);
        assert_eq!(cwnd(&AssociationConfig::rfc4960(), PMDCS, true), 4380);
        assert_eq!(cwnd(&AssociationConfig::rfc2960(), PMDCS, false), 2 * PMDCS);
        assert_eq!(cwnd(&AssociationConfig::default(), PMDCS, false), 10 * PMDCS);
    }

    #[test]
    // test: rfc9260 7.2.1 "cwnd MUST be increased by, at most"
    // test: rfc9260 7.2.1 "otherwise, the cwnd MUST NOT be increased"
    // test: rfc9260 7.2.1 "MUST use the slow-start algorithm to increase"
    fn slow_start() {
        let mut c = controller();
        c.on_acked(&ack(1000, &c));
        assert_eq!(c.cwnd(), 5404, "by what was acknowledged");
        c.on_acked(&ack(3000, &c));
        assert_eq!(c.cwnd(), 5404 + PMDCS, "by one PMDCS at the most");
        let before = c.cwnd();
        c.on_acked(&Acked { flight_before: before - 1, ..ack(1000, &c) });
        c.on_acked(&Acked { in_fast_recovery: true, ..ack(1000, &c) });
        assert_eq!(c.cwnd(), before);
        let mut config = AssociationConfig::rfc9260();
        config.congestion.slow_start_limit_mtus = 8;
        let mut c = of(&config);
        c.on_acked(&ack(4000, &c));
        assert_eq!(c.cwnd(), 8404);
        (c.window.cwnd, c.window.ssthresh) = (10 * PMDCS, 13 * PMDCS);
        c.on_acked(&ack(8 * PMDCS, &c));
        assert_eq!(c.cwnd(), 13 * PMDCS, "up to the threshold");
        c.on_congestion_event(&congestion(Loss::Reported));
        let lowered = c.cwnd();
        c.on_acked(&ack(8 * PMDCS, &c));
        assert_eq!(c.cwnd(), lowered + 2 * PMDCS, "as for two packets");
    }

    #[test]
    // test: rfc9260 7.2.2 "SCTP SHOULD increment cwnd by PMDCS once per"
    // test: rfc9260 7.2.2 "MUST NOT increment cwnd by more than PMDCS"
    // test: rfc9260 7.2 "slow-start and congestion avoidance algorithms MUST be used"
    fn congestion_avoidance_adds_one_packet_per_window() {
        let mut c = avoiding(10);
        for _ in 0..4 {
            c.on_acked(&ack(2 * PMDCS, &c));
            assert_eq!(c.cwnd(), 10 * PMDCS);
        }
        c.on_acked(&ack(3 * PMDCS, &c));
        assert_eq!((c.cwnd(), c.partial_bytes_acked), (11 * PMDCS, PMDCS), "the rest is carried");
        c.on_acked(&ack(40 * PMDCS, &c));
        assert_eq!(c.cwnd(), 12 * PMDCS, "one packet for one acknowledgement");
    }

    #[test]
    fn before_rfc_9260_only_cumulative_acks_open_the_window() {
        for (config, grows) in [
            (AssociationConfig::rfc2960(), false),
            (AssociationConfig::rfc4960(), false),
            (AssociationConfig::rfc9260(), true),
        ] {
            let mut c = of(&config);
            let before = c.window.cwnd;
            c.on_acked(&Acked { cumulative_advanced: false, ..ack(1000, &c) });
            assert_eq!(c.window.cwnd > before, grows, "{:?}", config.revision);
            c.window.ssthresh = c.window.cwnd - 1;
            c.on_acked(&Acked { cumulative_advanced: false, ..ack(1000, &c) });
            assert_eq!(c.partial_bytes_acked > 0, grows, "{:?}", config.revision);
        }
    }

    #[test]
    fn acks_of_an_unused_window_count_up_to_the_window() {
        let mut c = avoiding(10);
        for _ in 0..20 {
            c.on_acked(&Acked { flight_before: 5 * PMDCS, ..ack(PMDCS, &c) });
        }
        assert_eq!((c.cwnd(), c.partial_bytes_acked), (10 * PMDCS, 10 * PMDCS));
        c.on_acked(&ack(PMDCS, &c));
        assert_eq!((c.cwnd(), c.partial_bytes_acked), (11 * PMDCS, PMDCS));
        c.on_acked(&Acked { all: true, ..ack(PMDCS, &c) });
        assert_eq!(c.partial_bytes_acked, 0);
    }

    #[test]
    // test: rfc9260 7.2.3 "an endpoint SHOULD do the following"
    fn a_fast_retransmit_halves() {
        let mut c = avoiding(20);
        c.on_acked(&ack(PMDCS, &c));
        c.on_congestion_event(&congestion(Loss::Reported));
        assert_eq!((c.cwnd(), c.ssthresh(), c.partial_bytes_acked), (10 * PMDCS, 10 * PMDCS, 0));
        c.on_congestion_event(&congestion(Loss::Reported));
        c.on_congestion_event(&congestion(Loss::Reported));
        assert_eq!((c.cwnd(), c.ssthresh()), (4 * PMDCS, 4 * PMDCS));
    }

    #[test]
    // test: rfc9260 7.2.3 "SCTP SHOULD perform slow start by"
    // test: rfc9260 7.2.1 "MUST be no more than PMDCS"
    fn a_timeout_starts_over() {
        let mut c = avoiding(20);
        c.on_congestion_event(&congestion(Loss::Timeout));
        assert_eq!((c.cwnd(), c.ssthresh()), (PMDCS, 10 * PMDCS));
        c.on_acked(&ack(PMDCS, &c));
        assert_eq!(c.cwnd(), 2 * PMDCS);
        c.on_congestion_event(&congestion(Loss::Timeout));
        assert_eq!((c.cwnd(), c.ssthresh()), (PMDCS, 4 * PMDCS));
        let mut c = of(&AssociationConfig::rfc2960());
        c.on_congestion_event(&congestion(Loss::Timeout));
        assert_eq!(c.ssthresh(), 2 * PMDCS);
    }

    #[test]
    fn before_rfc_9260_idle_time_leaves_the_threshold_alone() {
        for config in [AssociationConfig::rfc2960(), AssociationConfig::rfc4960()] {
            let mut c = of(&config);
            (c.window.cwnd, c.window.ssthresh) = (40 * PMDCS, 8 * PMDCS);
            c.on_idle(&idle(2));
            assert_eq!((c.cwnd(), c.ssthresh()), (10 * PMDCS, 8 * PMDCS), "{:?}", config.revision);
        }
    }

    #[test]
    // test: rfc9260 7.2.1 "the cwnd of the transport address SHOULD be"
    // test: rfc9260 7.2.1 "adjustment, the ssthresh of the transport address SHOULD"
    fn idle_windows_decay() {
        let mut c = avoiding(40);
        c.on_idle(&idle(0));
        assert_eq!(c.cwnd(), 40 * PMDCS);
        c.on_idle(&idle(2));
        assert_eq!((c.cwnd(), c.ssthresh()), (10 * PMDCS, 40 * PMDCS));
        c.on_idle(&idle(1000));
        assert_eq!((c.cwnd(), c.ssthresh()), (4 * PMDCS, 10 * PMDCS));
        c.on_congestion_event(&congestion(Loss::Timeout));
        c.on_idle(&idle(5));
        assert_eq!((c.cwnd(), c.ssthresh()), (PMDCS, 4 * PMDCS), "never raised");
        let mut config = AssociationConfig::default();
        config.congestion.idle_cwnd = IdleCwnd::Keep;
        let mut c = of(&config);
        c.on_idle(&idle(9));
        assert_eq!(c.cwnd(), 10 * PMDCS);
    }

    #[test]
    fn idle_time_teaches_the_default_profile_nothing() {
        let ours = ["default", "bulk", "signalling", "web"];
        for config in ours.map(|name| AssociationConfig::profile(name).unwrap()) {
            let mut c = of(&config);
            c.on_idle(&idle(9));
            assert_eq!((c.cwnd(), c.ssthresh()), (10 * PMDCS, usize::MAX), "never used");
            c.window.cwnd = 80 * PMDCS;
            c.on_idle(&idle(2));
            assert_eq!((c.cwnd(), c.ssthresh()), (20 * PMDCS, usize::MAX), "no loss yet");
            (c.window.cwnd, c.window.ssthresh) = (80 * PMDCS, 30 * PMDCS);
            c.on_idle(&idle(1));
            assert_eq!((c.cwnd(), c.ssthresh()), (40 * PMDCS, 60 * PMDCS), "three quarters");
            c.on_idle(&idle(1000));
            assert_eq!((c.cwnd(), c.ssthresh()), (10 * PMDCS, 60 * PMDCS), "the initial window");
            (c.window.cwnd, c.window.ssthresh) = (3 * PMDCS, 20 * PMDCS);
            c.on_idle(&idle(1000));
            assert_eq!((c.cwnd(), c.ssthresh()), (3 * PMDCS, 20 * PMDCS), "never raised");
        }
    }

    #[test]
    fn the_timeouts_of_one_outage_lower_the_default_threshold_once() {
        let mut c = of(&AssociationConfig::default());
        c.window.cwnd = 80 * PMDCS;
        for _ in 0..5 {
            c.on_congestion_event(&congestion(Loss::Timeout));
            assert_eq!((c.cwnd(), c.ssthresh()), (PMDCS, 40 * PMDCS));
        }
        c.on_acked(&ack(PMDCS, &c));
        assert_eq!(c.cwnd(), 2 * PMDCS, "slow start");
        c.window.cwnd = 50 * PMDCS;
        c.on_congestion_event(&congestion(Loss::Timeout));
        assert_eq!(c.ssthresh(), 25 * PMDCS, "another outage");
        c.on_congestion_event(&congestion(Loss::Timeout));
        c.undo(NOW);
        assert_eq!((c.cwnd(), c.ssthresh()), (50 * PMDCS, 40 * PMDCS), "back before the first one");
    }

    #[test]
    fn slow_start_ends_before_a_loss_only_by_option() {
        let mut config = AssociationConfig::rfc9260();
        for (slow_start, ends) in [("usual", false), ("standard", false), ("hystart++", true)] {
            config.set("slow_start", slow_start).unwrap();
            let mut c = of(&config);
            assert_eq!(c.needs().packet_rtts, ends, "nothing is measured for nothing");
            for number in 0..200 {
                // The window doubles at first, and the round-trip time rises with each packet.
                let rtt = Some(Duration::from_millis(20 + number));
                let in_flight = c.window.cwnd - PMDCS;
                c.on_acked(&Acked { packet_rtt: rtt, in_flight, ..ack(PMDCS, &c) });
            }
            assert_eq!(c.ssthresh() < usize::MAX, ends, "{slow_start}");
        }
        let mut c = of(&config);
        c.on_congestion_event(&congestion(Loss::Timeout));
        for number in 0..200 {
            let rtt = Some(Duration::from_millis(20 + number));
            c.on_acked(&Acked { packet_rtt: rtt, ..ack(PMDCS, &c) });
            assert_eq!(c.ssthresh(), 4 * PMDCS, "only the first slow start");
        }
    }

    /// Two paths with equal windows.
    fn beside_its_like(c: &Rfc9260, rtt_millis: u64) -> [PathView; 2] {
        [PathView {
            window: c.window.cwnd,
            ssthresh: c.window.ssthresh,
            pmdcs: PMDCS,
            rtt: Duration::from_millis(rtt_millis),
            loss_interval: c.loss_interval(),
        }; 2]
    }

    #[test]
    fn a_coupled_window_changes_when_one_alone_does_and_by_less() {
        let mut c = avoiding(20);
        let paths = beside_its_like(&c, 100);
        let lia = Coupled::new(Coupling::Lia, &paths, 0);
        c.on_acked(&ack_with(19 * PMDCS, &c, &lia));
        assert_eq!(c.cwnd(), 20 * PMDCS);
        c.on_acked(&ack_with(PMDCS, &c, &lia));
        assert_eq!((c.cwnd(), c.change_due), (20 * PMDCS, PMDCS as isize / 4));
        assert_eq!(c.loss_interval(), 20 * PMDCS as u64);
        for _ in 0..3 {
            assert_eq!((c.cwnd(), c.partial_bytes_acked), (20 * PMDCS, 0));
            c.on_acked(&ack_with(20 * PMDCS, &c, &lia));
        }
        assert_eq!((c.cwnd(), c.change_due), (21 * PMDCS, 0), "whole packets");
        let rp = Coupled::new(Coupling::CmtRpV2, &paths, 0);
        c.on_congestion_event(&CongestionEvent { coupled: rp, ..congestion(Loss::Reported) });
        assert_eq!((c.cwnd(), c.ssthresh()), (2 * PMDCS, 2 * PMDCS));
        c.on_acked(&ack_with(PMDCS, &c, &rp));
        assert_eq!(c.cwnd(), 2 * PMDCS + 1, "slow start ends at the threshold");
        c.on_congestion_event(&CongestionEvent { coupled: rp, ..congestion(Loss::Timeout) });
        assert_eq!((c.cwnd(), c.ssthresh()), (PMDCS, 2 * PMDCS));
        c.on_acked(&ack_with(PMDCS, &c, &rp));
        assert_eq!(c.cwnd(), PMDCS + PMDCS / 2, "slow start by its share");
    }

    #[test]
    fn what_another_path_takes_over_does_not_come_back_by_slow_start() {
        let mut c = avoiding(10);
        let mut paths = beside_its_like(&c, 1000);
        (paths[1].window, paths[1].loss_interval) = (5 * PMDCS, 1 << 30);
        paths[1].rtt = Duration::from_millis(1);
        // 10 packets per second next to 5,000: nothing is added, and half a packet is moved.
        for cwnd in [10, 10, 10, 9] {
            assert_eq!(c.cwnd(), cwnd * PMDCS);
            let due = c.change_due;
            let olia = Coupled::new(Coupling::Olia, &paths, 0);
            c.on_acked(&ack_with(c.window.cwnd, &c, &olia));
            assert!(c.change_due != due && c.ssthresh() < c.cwnd());
        }
        (c.window.cwnd, c.window.ssthresh, c.change_due) = (PMDCS + 1, PMDCS, 1 - PMDCS as isize);
        (paths[0].window, paths[1].window) = (c.window.cwnd, PMDCS);
        let olia = Coupled::new(Coupling::Olia, &paths, 0);
        c.on_acked(&ack_with(2 * PMDCS, &c, &olia));
        assert_eq!(c.cwnd(), PMDCS, "there is room for a packet");
    }

    #[test]
    fn burst_limit_cuts_to_flight_and_burst() {
        let mut c = avoiding(60);
        c.on_burst_limit(NOW, 36 * PMDCS, 4);
        assert_eq!(c.cwnd(), 40 * PMDCS);
        c.on_burst_limit(NOW, 3 * PMDCS, 4);
        assert_eq!(c.cwnd(), 7 * PMDCS);
    }

    #[test]
    // test: rfc9260 5.2.4 "related to this peer MUST be reset"
    // test: rfc8899 3 "PLPMTU (or MPS) MUST NOT increase the congestion"
    // exempt: rfc8899 3 "PLPMTU (or MPS) MUST NOT increase the congestion" a window smaller than one packet grows to one, since nothing could be sent otherwise
    fn other_packet_sizes_and_fresh_starts() {
        let mut c = controller();
        c.on_congestion_event(&congestion(Loss::Timeout));
        c.on_pmdcs_change(NOW, 8900);
        assert_eq!(c.cwnd(), 8900, "room for one packet");
        c.on_pmdcs_change(NOW, PMDCS);
        assert_eq!(c.cwnd(), 8900);
        let mut c = avoiding(30);
        c.reinitialize(NOW);
        assert_eq!((c.cwnd(), c.ssthresh()), (4404, usize::MAX));
    }

    #[test]
    fn a_loss_that_was_none_is_undone() {
        for loss in [Loss::Reported, Loss::Timeout] {
            let mut c = avoiding(20);
            let before = (c.cwnd(), c.ssthresh());
            c.on_congestion_event(&congestion(loss));
            assert!(c.cwnd() < before.0);
            c.undo(NOW);
            assert_eq!((c.cwnd(), c.ssthresh()), before);
            c.undo(NOW);
            assert_eq!((c.cwnd(), c.ssthresh()), before, "once");
        }
    }
}
