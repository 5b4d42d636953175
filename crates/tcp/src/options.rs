//! Options that are one of several words, with the names and values that the engine of SCTP has for the same.

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
        /// One that left later has arrived, and there was time for this one to arrive, too (RACK, RFC 8985).
        TimeThreshold = "time-threshold",
    }
}

words! {
    /// How reordering is told from loss, where later segments are counted.
    Reordering {
        /// The threshold is three.
        #[default]
        Fixed = "fixed",
        /// It grows to the longest reordering seen, and begins anew at a timeout (Linux).
        Adaptive = "adaptive",
        /// Two thirds of what is outstanding; meanwhile one segment leaves for two that have arrived (RFC 4653).
        NcrCareful = "ncr-careful",
        /// Half of what is outstanding; meanwhile one segment leaves for each that has arrived (RFC 4653).
        NcrAggressive = "ncr-aggressive",
    }
}

words! {
    /// What takes a recovery back that was begun for nothing.
    Undo {
        /// Nothing does.
        #[default]
        Off = "off",
        /// All that was sent again is reported as duplicate (RFC 3708). Needs D-SACKs.
        Duplicates = "duplicates",
        /// An echo tells that the first transmission was answered (Eifel, RFC 3522). Needs timestamps.
        Timestamps = "timestamps",
        /// Either.
        Both = "both",
    }
}

words! {
    /// Whether what comes after a timeout tells if it was for nothing (F-RTO, RFC 5682).
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
    /// What a new connection takes over from earlier ones to the same host (RFC 9040).
    MetricCache {
        /// Nothing.
        #[default]
        Off = "off",
        /// What the last one knew: times, reordering, slow start threshold.
        Full = "full",
        /// Nothing of congestion: times and reordering.
        Selective = "selective",
        /// A threshold only from one that has found it out, merged with what others knew, and fading; what live
        /// connections know, too.
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
