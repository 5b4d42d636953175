//! Options with a choice of words, with the same names and values as in the SCTP engine.

/// Defines an option's words: `NAMES` has them in order.
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
    /// What makes a segment lost before the timer expires.
    LossDetection {
        /// Duplicate acknowledgements, or blocks above it (RFC 5681, RFC 6675).
        #[default]
        MissingReports = "missing-reports",
        /// A segment that was sent later has arrived, and there was time for this one to arrive, too (RACK,
        /// RFC 8985).
        TimeThreshold = "time-threshold",
    }
}

words! {
    /// Distinguishes reordering from loss by counting later segments.
    Reordering {
        /// The threshold is three.
        #[default]
        Fixed = "fixed",
        /// It grows to the longest reordering seen, and starts again at a timeout (Linux).
        Adaptive = "adaptive",
        /// Two thirds of the outstanding data; meanwhile one segment is sent for every two that have arrived
        /// (RFC 4653).
        NcrCareful = "ncr-careful",
        /// Half of the outstanding data; meanwhile one segment is sent for each that has arrived (RFC
        /// 4653).
        NcrAggressive = "ncr-aggressive",
    }
}

words! {
    /// How a spurious recovery is recognised.
    Undo {
        /// Nothing does.
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
    /// Whether the acknowledgements after a timeout are checked for a spurious one (F-RTO, RFC
    /// 5682).
    ForwardRto {
        /// It is not asked.
        #[default]
        Off = "off",
        /// By the cumulative acknowledgement (section 2).
        Basic = "basic",
        /// By selective acknowledgements, too (section 3).
        Sack = "sack",
    }
}

words! {
    /// The metrics that a new connection takes from earlier ones to the same host (RFC 9040).
    MetricCache {
        /// Nothing.
        #[default]
        Off = "off",
        /// Those of the last one: times, reordering, slow-start threshold.
        Full = "full",
        /// Nothing of congestion: times and reordering.
        Selective = "selective",
        /// A threshold only from a connection that has measured it, merged with those of others, and fading;
        /// also from live connections.
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
