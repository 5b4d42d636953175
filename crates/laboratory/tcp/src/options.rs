//! Options with named values, which have the same names as in the SCTP engine.

/// Defines an option's values; `NAMES` lists them in order.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            /// The values and their names in files.
            pub const NAMES: &[(&'static str, Self)] = &[$(($text, Self::$variant)),*];
        }
    };
}

words! {
    /// What marks a segment lost before the timer expires.
    LossDetection {
        /// Duplicate acknowledgements, or blocks above it (RFC 5681, RFC 6675).
        #[default]
        MissingReports = "missing-reports",
        /// A later segment has arrived, and this one had enough time to arrive too (RACK, RFC 8985).
        TimeThreshold = "time-threshold",
    }
}

words! {
    /// The values that all options begin with.
    Profile {
        /// The RFCs of a standard sender.
        #[default]
        Standard = "standard",
        /// Current Linux kernels; see [`Config::linux`](crate::Config::linux).
        Linux = "linux",
    }
}

words! {
    /// How the congestion window changes.
    Congestion {
        /// RFC 5681, in bytes: a loss leaves half of what is outstanding, and with detection by time a lost
        /// retransmission halves it once more (RFC 8985 section 9.3).
        #[default]
        Reno = "reno",
        /// The same as in Linux: a loss leaves half of the window in whole segments, once for each recovery. What is
        /// lost during a recovery and was sent after its start begins another one.
        LinuxReno = "linux-reno",
        /// CUBIC with HyStart++ and proportional rate reduction (RFC 9438, RFC 9406, RFC 9937), by the controller of
        /// the SCTP engine; once for each recovery, as in Linux.
        Cubic = "cubic",
        /// BBR version 3 (draft-ietf-ccwg-bbr), by the controller of the SCTP engine: segments leave at the rate at which
        /// the path delivers them, whatever random losses do.
        Bbr = "bbr",
    }
}

words! {
    /// The most segments by which one acknowledgement widens the window in slow start: L of RFC 3465 section 2.3
    /// (Appropriate Byte Counting).
    SlowStartLimit {
        /// One, as RFC 5681 section 3.1 recommends.
        #[default]
        One = "1",
        /// Two, the experimental value of RFC 3465, as in the BSDs. One after a timeout, until what was outstanding
        /// then is acknowledged.
        Two = "2",
        /// As many as it acknowledges, up to the threshold, as in Linux.
        Unlimited = "none",
    }
}

impl SlowStartLimit {
    /// The limit in segments, if there is one.
    pub(crate) fn segments(self, after_timeout: bool) -> Option<u64> {
        match self {
            Self::One => Some(1),
            Self::Two => Some(if after_timeout { 1 } else { 2 }),
            Self::Unlimited => None,
        }
    }
}

words! {
    /// How many later segments distinguish a loss from reordering.
    Reordering {
        /// The threshold is three.
        #[default]
        Fixed = "fixed",
        /// The threshold grows to the longest reordering seen, and is reset by a timeout (Linux).
        Adaptive = "adaptive",
        /// Two thirds of the outstanding data; meanwhile one new segment is sent for every two that have arrived (RFC
        /// 4653).
        NcrCareful = "ncr-careful",
        /// Half of the outstanding data; meanwhile one new segment is sent for each that has arrived (RFC 4653).
        NcrAggressive = "ncr-aggressive",
    }
}

words! {
    /// How a spurious recovery is recognised.
    Undo {
        /// Never.
        #[default]
        Off = "off",
        /// All retransmissions are reported as duplicates (RFC 3708). Needs D-SACKs.
        Duplicates = "duplicates",
        /// An echo shows that the first transmission was answered (Eifel, RFC 3522). Needs timestamps.
        Timestamps = "timestamps",
        /// Either.
        Both = "both",
    }
}

words! {
    /// Whether the acknowledgements after a timeout are checked to detect a spurious timeout (F-RTO, RFC 5682).
    ForwardRto {
        /// They are not checked.
        #[default]
        Off = "off",
        /// By the cumulative acknowledgement (section 2).
        Basic = "basic",
        /// Also by selective acknowledgements (section 3).
        Sack = "sack",
    }
}

words! {
    /// The metrics that a new connection reuses from earlier ones to the same host (RFC 9040).
    MetricCache {
        /// None.
        #[default]
        Off = "off",
        /// All metrics of the last connection: times, reordering, slow-start threshold.
        Full = "full",
        /// No congestion state, only times and reordering.
        Selective = "selective",
        /// The threshold too, but only from connections that have measured it. It is merged with that of others and
        /// grows with age. Metrics of open connections are used too.
        Informed = "informed",
    }
}

impl Undo {
    /// Whether duplicates count.
    pub fn by_duplicates(self) -> bool {
        matches!(self, Self::Duplicates | Self::Both)
    }

    /// Whether timestamps count.
    pub fn by_timestamps(self) -> bool {
        matches!(self, Self::Timestamps | Self::Both)
    }
}

impl Reordering {
    /// Whether it is TCP-NCR.
    pub fn is_ncr(self) -> bool {
        matches!(self, Self::NcrCareful | Self::NcrAggressive)
    }
}
