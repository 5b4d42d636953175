//! The window of a path, and the changes that all built-in controllers share.

use super::hystart::{Growth, HyStart};
use super::{Acked, IdleCwnd, InitialCwnd, Needs, NewPath, SlowStart};
use crate::revision::Revision;

/// Three full Ethernet packets, as in RFC 9260 section 7.2.1 for IPv4, and for IPv6.
const THREE_PACKETS: (u32, u32) = (4404, 4344);

/// cwnd and ssthresh of one path in bytes, and the options that they follow.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) cwnd: usize,
    pub(super) ssthresh: usize,
    pub(super) pmdcs: usize,
    pub(super) revision: Revision,
    initial: InitialCwnd,
    idle: IdleCwnd,
    /// L of RFC 9260 section 7.2.1.
    limit_mtus: u16,
    min_ssthresh_mtus: u16,
    outage: Outage,
    /// The first slow start ends as RFC 9406 says; its state once data was acknowledged.
    uses_hystart: bool,
    hystart: Option<Box<HyStart>>,
}

/// What a timeout says about ssthresh (the option `hold_ssthresh`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outage {
    /// Each timeout lowers it.
    EachCounts,
    /// The next one lowers it.
    NextCounts,
    /// It was lowered, and nothing has been acknowledged since.
    Counted,
}

impl Window {
    /// The window of a new path. `hystart`: its first slow start ends as RFC 9406 says, unless the option
    /// `slow_start` decides.
    pub(super) fn new(path: &NewPath<'_>, hystart: bool) -> Self {
        let config = path.options;
        let initial = match config.initial_cwnd {
            InitialCwnd::Bytes(bytes) if path.ipv6 && bytes == THREE_PACKETS.0 => {
                InitialCwnd::Bytes(THREE_PACKETS.1)
            }
            other => other,
        };
        let mut window = Self {
            cwnd: 0,
            ssthresh: 0,
            pmdcs: path.pmdcs,
            revision: path.revision,
            initial,
            idle: config.idle_cwnd,
            limit_mtus: config.slow_start_limit_mtus as u16,
            min_ssthresh_mtus: config.min_ssthresh_mtus as u16,
            outage: if config.hold_ssthresh { Outage::NextCounts } else { Outage::EachCounts },
            uses_hystart: match config.slow_start {
                SlowStart::Usual => hystart,
                SlowStart::Standard => false,
                SlowStart::HyStart => true,
            },
            hystart: None,
        };
        window.reinitialize();
        window
    }

    pub(super) fn reinitialize(&mut self) {
        // req: rfc9260 7.2.1 "initial cwnd before data transmission MUST be set"
        self.cwnd = self.initial();
        // req: rfc9260 7.2.1 "initial value of ssthresh SHOULD be arbitrarily high"
        self.ssthresh = usize::MAX;
        self.on_answer();
        self.hystart = None;
    }

    /// What the window requires of the engine.
    pub(super) fn needs(&self) -> Needs {
        if self.uses_hystart { Needs::default().with_packet_rtts() } else { Needs::default() }
    }

    /// Evaluates an acknowledgement in slow start: how the window may grow if it is full.
    pub(super) fn growth(&mut self, acked: &Acked<'_>) -> Growth {
        // Later slow starts end at the threshold of the first (RFC 9406 section 4.3).
        if self.ssthresh < usize::MAX || !self.uses_hystart {
            self.hystart = None;
            return Growth::SlowStart;
        }
        self.hystart.get_or_insert_default().on_acked(acked)
    }

    /// Records that data was acknowledged, so the next timeout begins a new outage.
    pub(super) fn on_answer(&mut self) {
        if self.outage == Outage::Counted {
            self.outage = Outage::NextCounts;
        }
    }

    /// Records that T3-rtx expired. Returns `true` if this is a repeated timeout of an outage that
    /// has already reduced ssthresh: a path that is cut says nothing about its capacity.
    pub(super) fn is_same_outage(&mut self) -> bool {
        let counted = self.outage == Outage::Counted;
        if self.outage == Outage::NextCounts {
            self.outage = Outage::Counted;
        }
        counted
    }

    fn initial(&self) -> usize {
        match self.initial {
            InitialCwnd::Mtus(packets) => self.pmdcs * packets as usize,
            InitialCwnd::Bytes(bytes) => (2 * self.pmdcs).max(bytes as usize).min(4 * self.pmdcs),
        }
    }

    /// The minimum of ssthresh after a loss.
    pub(super) fn least_ssthresh(&self) -> usize {
        usize::from(self.min_ssthresh_mtus) * self.pmdcs
    }

    /// Grows the window after an acknowledgement below ssthresh, with a full window.
    // req: rfc9260 7.2.1 "MUST use the slow-start algorithm to increase"
    pub(super) fn slow_start(&mut self, acked: &Acked<'_>, growth: Growth) {
        if growth == Growth::Over {
            self.ssthresh = self.cwnd;
            return;
        }
        // req: rfc9260 7.2.1 "cwnd MUST be increased by, at most"
        let bytes = growth.of(acked.bytes.min(usize::from(self.limit_mtus) * self.pmdcs));
        // A recovery ends at the threshold, where the RFC still has slow start. If one acknowledgement for many
        // packets counted in full there, it would give back what the loss took. Two packets are what receivers
        // usually acknowledge at once.
        let left = self.ssthresh.saturating_sub(self.cwnd);
        self.cwnd += acked.coupled.slow_start(bytes.min(left.max(2 * self.pmdcs)), left);
    }

    pub(super) fn on_idle(&mut self, rtos: u32) {
        let validates = self.idle == IdleCwnd::WindowValidation;
        let floor = match self.idle {
            IdleCwnd::HalvePerRto => 4 * self.pmdcs,
            IdleCwnd::HalvePerRtoToTwo => 2 * self.pmdcs,
            IdleCwnd::WindowValidation => self.initial(),
            IdleCwnd::Keep => return,
        };
        // Idle time does not raise a window that is below the floor after a timeout.
        if rtos == 0 || self.cwnd <= floor {
            return;
        }
        // Earlier, a threshold that a loss had reduced was never raised (RFC 8540 section 3.27).
        // req: rfc9260 7.2.1 "adjustment, the ssthresh of the transport address SHOULD"
        if validates {
            self.ssthresh = self.ssthresh.max(self.cwnd / 4 * 3);
        } else if self.revision >= Revision::Rfc9260 {
            self.ssthresh = self.cwnd;
        }
        // req: rfc9260 7.2.1 "the cwnd of the transport address SHOULD be"
        self.cwnd = self.cwnd.checked_shr(rtos).unwrap_or(0).max(floor);
    }

    pub(super) fn on_recovered(&mut self, packets: u32) {
        self.cwnd = self.cwnd.max(self.pmdcs.saturating_mul(packets as usize));
    }

    pub(super) fn on_burst_limit(&mut self, flight: usize, packets: u32) {
        let limit = self.pmdcs.saturating_mul(packets as usize);
        self.cwnd = self.cwnd.min(flight.saturating_add(limit));
    }

    pub(super) fn on_pmdcs_change(&mut self, pmdcs: usize) {
        self.pmdcs = pmdcs;
        self.cwnd = self.cwnd.max(pmdcs);
    }

    pub(super) fn on_recalled(&mut self, ssthresh: usize) {
        self.ssthresh = ssthresh.max(self.least_ssthresh());
    }
}
