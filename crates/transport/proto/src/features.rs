//! Extensions to RFC 9260 that the two sides negotiate in the handshake.
//!
//! The table below has one row for each feature: the option that enables it, how it is announced, and its
//! requirements. The contents of INIT and INIT ACK, the negotiation, the contents of the cookie, and the
//! names in statistics and events are derived from it. Code that implements a feature calls
//! [`Features::has`].

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

use anabranch_wire::{Parameter, kind};

/// A set of features. `Display` lists their names, separated by commas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Features(u32);

/// A negotiated feature.
struct Row {
    feature: Features,
    name: &'static str,
    /// Chunk types that announce the feature in the parameter Supported Extensions (RFC 5061 section
    /// 4.2.7): all of them must be listed. Empty if it has no chunks.
    chunks: &'static [u8],
    /// A parameter that announces the feature, whichever chunks are listed.
    parameter: Option<Parameter<'static>>,
    /// Features that must be negotiated as well.
    needs: Features,
}

/// Passes the rows of the table to the macro `$then`. The bits are part of cookies and must not change.
macro_rules! features {
    ($then:ident) => {
        $then! {
            /// Acknowledgements travel in NR-SACK chunks (draft-natarajan-tsvwg-sctp-nrsack).
            NR_SACK = 2, "nr-sack", wanted by acknowledging.nr_sack {
                chunks: &[kind::NR_SACK],
                parameter: None,
                needs: Features::NONE,
            }
            /// Messages of different streams may be interleaved: data travels in I-DATA chunks (RFC 8260).
            INTERLEAVING = 16, "interleaving", wanted by sending.interleaving {
                chunks: &[kind::I_DATA],
                parameter: None,
                needs: Features::NONE,
            }
            /// Interleaved messages may be given up (RFC 8260 section 2.3.1).
            I_FORWARD_TSN = 32, "i-forward-tsn", wanted by sending.interleaving {
                chunks: &[kind::I_FORWARD_TSN],
                parameter: None,
                needs: Features(4 | 16),
            }
            /// Messages that were sent may be given up (RFC 3758).
            PARTIAL_RELIABILITY = 4, "partial-reliability", wanted by sending.partial_reliability {
                chunks: &[kind::FORWARD_TSN],
                parameter: Some(Parameter::ForwardTsnSupported),
                needs: Features::NONE,
            }
            /// Streams may be reset and added (RFC 6525).
            STREAM_RECONFIGURATION = 8, "stream-reconfiguration", wanted by sending.stream_reconfiguration {
                chunks: &[kind::RE_CONFIG],
                parameter: None,
                needs: Features::NONE,
            }
            /// Routers may mark packets in place of dropping them (RFC 4960 appendix A, RFC 3168).
            ECN = 64, "ecn", wanted by congestion.ecn {
                chunks: &[],
                parameter: Some(Parameter::EcnCapable),
                needs: Features::NONE,
            }
            /// Chunks may be authenticated (RFC 4895).
            AUTHENTICATION = 128, "authentication", wanted by authentication.authentication {
                chunks: &[kind::AUTH],
                parameter: None,
                needs: Features::NONE,
            }
            /// Addresses may come and go (RFC 5061).
            ADDRESS_RECONFIGURATION = 256, "address-reconfiguration", wanted by addresses.address_reconfiguration {
                chunks: &[kind::ASCONF, kind::ASCONF_ACK],
                parameter: None,
                needs: Features(128),
            }
            /// Packets carry timestamps (caro 2.4.2).
            TIMESTAMPS = 1, "timestamps", wanted by recovery.timestamps {
                chunks: &[kind::TIMESTAMP],
                parameter: None,
                needs: Features::NONE,
            }
        }
    };
}

/// Generates the constants and [`TABLE`]. The options are in `config`, which reads `wanted by`.
macro_rules! table {
    ($($(#[$doc:meta])* $feature:ident = $bit:literal, $name:literal,
        wanted by $section:ident.$option:ident { $($row:tt)* })*) => {
        impl Features {
            $($(#[$doc])* pub const $feature: Self = Self($bit);)*
        }

        /// All features, in the order in which they are announced.
        const TABLE: &[Row] =
            &[$(Row { feature: Features::$feature, name: $name, $($row)* },)*];
    };
}

features!(table);

pub(crate) use features;

impl Row {
    fn is_announced_by_chunks(&self, listed: &[u8]) -> bool {
        !self.chunks.is_empty() && self.chunks.iter().all(|kind| listed.contains(kind))
    }

    fn is_announced_by_parameter(&self, kind: u16) -> bool {
        self.parameter.is_some_and(|parameter| parameter.kind() == kind)
    }
}

impl Features {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// Whether all of `other` are in the set.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Names of the features in the set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        TABLE.iter().filter(move |row| self.has(row.feature)).map(|row| row.name)
    }

    /// The features that this list of chunk types announces.
    pub(crate) fn announced(chunks: &[u8]) -> Self {
        Self::of(|row| row.is_announced_by_chunks(chunks))
    }

    /// The features that a parameter of this type announces.
    pub(crate) fn announced_by_parameter(kind: u16) -> Self {
        Self::of(|row| row.is_announced_by_parameter(kind))
    }

    /// Parameters that announce features of the set.
    pub(crate) fn parameters(self) -> impl Iterator<Item = Parameter<'static>> {
        TABLE.iter().filter(move |row| self.has(row.feature)).filter_map(|row| row.parameter)
    }

    /// Chunk types that announce the set.
    pub(crate) fn chunks(self) -> Vec<u8> {
        let rows = TABLE.iter().filter(|row| self.has(row.feature));
        rows.flat_map(|row| row.chunks.iter().copied()).collect()
    }

    /// The features that both sides want, except those whose requirements are not met.
    ///
    /// Interleaved messages can be given up only if both sides have I-FORWARD-TSN as well (RFC 8260 section 2.3.1).
    // req: rfc8260 2 "it is REQUIRED to implement the corresponding changes"
    pub(crate) fn agreed(self, peer: Self) -> Self {
        let agreed = Self(self.0 & peer.0).consistent();
        if agreed.has(Self::INTERLEAVING) && !agreed.has(Self::I_FORWARD_TSN) {
            return Self(agreed.0 & !Self::PARTIAL_RELIABILITY.0);
        }
        agreed
    }

    /// The set without features whose requirements are not met.
    pub(crate) fn consistent(self) -> Self {
        let mut consistent = self;
        loop {
            let before = consistent;
            consistent = Self::of(|row| before.has(row.feature) && before.has(row.needs));
            if consistent == before {
                return consistent;
            }
        }
    }

    /// The set without these, and without what needs them.
    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0).consistent()
    }

    /// The set as a number in cookies.
    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    /// The set from a cookie.
    pub(crate) fn from_bits(bits: u32) -> Self {
        Self::of(|row| bits & row.feature.0 != 0)
    }

    fn of(which: impl Fn(&Row) -> bool) -> Self {
        TABLE.iter().filter(|row| which(row)).fold(Self::NONE, |all, row| all | row.feature)
    }
}

impl BitOr for Features {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Features {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, name) in self.names().enumerate() {
            write!(f, "{}{name}", if at > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

/// Serialises the set as a list of names.
#[cfg(feature = "serde")]
impl serde::Serialize for Features {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.names())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_has_a_bit_and_a_name_of_its_own() {
        for (at, row) in TABLE.iter().enumerate() {
            assert_eq!(row.feature.0.count_ones(), 1, "{}", row.name);
            for other in &TABLE[at + 1..] {
                assert!(!row.feature.has(other.feature) && row.name != other.name);
            }
            assert_eq!(row.feature.chunks(), row.chunks);
            assert!(row.needs == Features::NONE || !row.needs.has(row.feature), "{}", row.name);
        }
    }

    #[test]
    fn chunks_or_a_parameter_announce_a_feature() {
        let row = |chunks, parameter| Row {
            feature: Features(1),
            name: "",
            chunks,
            parameter,
            needs: Features::NONE,
        };
        let both = row(&[kind::FORWARD_TSN, 9], Some(Parameter::ForwardTsnSupported));
        let forward_tsn_supported = Parameter::ForwardTsnSupported.kind();
        assert!(both.is_announced_by_chunks(&[9, 7, kind::FORWARD_TSN]));
        assert!(!both.is_announced_by_chunks(&[kind::FORWARD_TSN]), "all of them");
        assert!(both.is_announced_by_parameter(forward_tsn_supported));
        let chunks = row(&[9], None);
        assert!(!chunks.is_announced_by_parameter(forward_tsn_supported));
        let parameter = row(&[], Some(Parameter::ZeroChecksumAcceptable(1)));
        assert!(!parameter.is_announced_by_chunks(&[9]));
        assert!(!parameter.is_announced_by_parameter(forward_tsn_supported));
    }

    #[test]
    fn what_both_want_is_agreed_on() {
        let ours = Features::NR_SACK | Features::TIMESTAMPS;
        assert_eq!(ours.chunks(), [kind::NR_SACK, kind::TIMESTAMP]);
        let theirs = Features::announced(&[kind::TIMESTAMP, 99]);
        assert_eq!(ours.agreed(theirs), Features::TIMESTAMPS);
        assert_eq!(Features::NONE.agreed(theirs), Features::NONE);
        assert_eq!(Features::from_bits(ours.bits() | 1 << 31), ours);
        assert_eq!(ours.to_string(), "nr-sack,timestamps");
    }
}
