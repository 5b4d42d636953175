//! Options of congestion control.

use super::CongestionControl;
use crate::named::named;
use crate::options::{Kind, OptionValue, section, words};

section! {
    /// How much may be in flight, and how it leaves.
    pub struct CongestionConfig {
        /// How the congestion window changes, unless the program brings a controller.
        /// `usual`: CUBIC, or RFC 9260's controller where a coupling changes how windows grow.
        congestion_control ["congestion"]: CongestionControl = CongestionControl::Rfc9260,
            Kind::Word(CongestionControl::NAMES);
        /// How the first slow start of a path ends: at a loss (`standard`), or before it, when the round-trip time
        /// rises (`hystart++`, RFC 9406). `usual`: `hystart++` with CUBIC, `standard` with RFC 9260's controller.
        slow_start: SlowStart = SlowStart::Usual, Kind::Word(SlowStart::NAMES);
        /// How bursts are bounded.
        burst: BurstControl = BurstControl::MaxBurst(4), BURSTS, live;
        /// Initial congestion window of a path.
        initial_cwnd: InitialCwnd = InitialCwnd::Bytes(4404), WINDOWS;
        /// Smallest slow-start threshold after a loss, in PMDCS. 4 (RFC 2960: 2).
        min_ssthresh_mtus: u32 = 4, Kind::count(1, 1000);
        /// L of RFC 9260 section 7.2.1: growth of cwnd in slow start for one SACK, in PMDCS. Slow start passes the
        /// threshold by 2 at most.
        slow_start_limit_mtus: u32 = 1, Kind::count(1, 1000);
        /// Offer and accept explicit congestion notification (RFC 4960 appendix A, RFC 3168): routers may mark packets
        /// with new data in place of dropping them, and a mark lowers the window as a loss does. Off.
        ecn: bool = false, Kind::Switch;
        /// What idle time does to cwnd.
        idle_cwnd: IdleCwnd = IdleCwnd::HalvePerRto, Kind::Word(IdleCwnd::NAMES);
        /// Only the first of several timeouts in a row lowers ssthresh; the others, with nothing
        /// acknowledged in between, say that the path is cut, not how much it carries (RFC 5681 section 3.1).
        /// Off: each one does (RFC 9260 section 7.2.3).
        hold_ssthresh: bool = false, Kind::Switch;
    }
}

const BURSTS: Kind = Kind::Form {
    forms: &["max-burst N", "max-burst-cuts-cwnd N", "pacing N", "unlimited"],
    least: 1,
    most: 1000,
};

const WINDOWS: Kind = Kind::Form { forms: &["N mtus", "N B"], least: 1, most: 1 << 30 };

/// How bursts of packets are bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BurstControl {
    /// Max.Burst: at most this many packets more than those in flight when sending starts (RFC 9260
    /// section 6.1 D).
    MaxBurst(u32),
    /// The same, but cwnd itself is cut, and stays so (RFC 4960 section 6.1 D).
    MaxBurstCutsCwnd(u32),
    /// Packets are sent at a little above cwnd per smoothed RTT, in quanta of `packets`.
    Pacing {
        /// Packets that may leave back to back.
        quantum: u32,
    },
    /// Nothing but cwnd bounds a burst.
    Unlimited,
}

impl OptionValue for BurstControl {
    fn read(text: &str) -> Option<Self> {
        let (name, number) = text.split_once([' ', ':']).unwrap_or((text, ""));
        match name {
            "max-burst" => number.parse().ok().map(Self::MaxBurst),
            "max-burst-cuts-cwnd" => number.parse().ok().map(Self::MaxBurstCutsCwnd),
            "pacing" => number.parse().ok().map(|quantum| Self::Pacing { quantum }),
            "unlimited" if number.is_empty() => Some(Self::Unlimited),
            // As RFC 9260 section 16 has it: Max.Burst.
            packets if number.is_empty() => packets.parse().ok().map(Self::MaxBurst),
            _ => None,
        }
    }

    fn write(&self, _kind: &Kind) -> String {
        match self {
            Self::MaxBurst(packets) => format!("max-burst {packets}"),
            Self::MaxBurstCutsCwnd(packets) => format!("max-burst-cuts-cwnd {packets}"),
            Self::Pacing { quantum } => format!("pacing {quantum}"),
            Self::Unlimited => "unlimited".to_owned(),
        }
    }

    fn is_within(&self, kind: &Kind) -> bool {
        match self {
            Self::MaxBurst(packets)
            | Self::MaxBurstCutsCwnd(packets)
            | Self::Pacing { quantum: packets } => kind.admits(u64::from(*packets)),
            Self::Unlimited => true,
        }
    }
}

/// How the first slow start of a path ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SlowStart {
    /// As is usual with the controller: with HyStart++ for CUBIC (RFC 9438 section 4.10), else at a loss.
    Usual,
    /// At a loss (RFC 9260 section 7.2.1).
    Standard,
    /// When the round-trip time rises (RFC 9406), or at a loss.
    HyStart,
}

named!(SlowStart {
    Usual = "usual",
    Standard = "standard",
    HyStart = "hystart++" | "hystart",
});
words!(SlowStart);

/// Initial congestion window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialCwnd {
    /// This many PMDCS (RFC 2960: 2).
    Mtus(u32),
    /// min(4 * PMDCS, max(2 * PMDCS, this many bytes)): 4,380 in RFC 4960, 4,404 in RFC 9260.
    Bytes(u32),
}

impl OptionValue for InitialCwnd {
    fn read(text: &str) -> Option<Self> {
        match text.strip_suffix("mtus") {
            Some(mtus) => mtus.trim_end().parse().ok().map(Self::Mtus),
            None => u32::read(text).map(Self::Bytes),
        }
    }

    fn write(&self, _kind: &Kind) -> String {
        match self {
            Self::Mtus(mtus) => format!("{mtus} mtus"),
            Self::Bytes(bytes) => format!("{bytes} B"),
        }
    }

    fn is_within(&self, kind: &Kind) -> bool {
        let (Self::Mtus(number) | Self::Bytes(number)) = self;
        kind.admits(u64::from(*number))
    }
}

/// The effect of idle time on cwnd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleCwnd {
    /// cwnd = max(cwnd / 2, 4 * PMDCS) once per RTO without data (RFC 4960 and 9260, 7.2.1).
    HalvePerRto,
    /// cwnd = max(cwnd / 2, 2 * PMDCS) once per RTO without data (RFC 2960 section 7.2.1).
    HalvePerRtoToTwo,
    /// Congestion window validation (RFC 2861, RFC 7661): cwnd = max(cwnd / 2, initial window) once per RTO
    /// without data; before that ssthresh is raised to 3/4 of cwnd. It is never lowered, because idle time
    /// says nothing about the capacity of the path.
    WindowValidation,
    /// Kept.
    Keep,
}

named!(IdleCwnd {
    HalvePerRto = "halve-per-rto",
    HalvePerRtoToTwo = "halve-per-rto-to-two",
    WindowValidation = "window-validation",
    Keep = "keep",
});
words!(IdleCwnd);
