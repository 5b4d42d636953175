//! Sets of chunk types.

use anabranch_wire::kind;

use crate::options::{Kind, OptionValue};

/// A set of chunk types that can be authenticated: all but INIT, INIT ACK, SHUTDOWN COMPLETE and AUTH (RFC 4895 section
/// 3.2).
///
/// As text it is a list of names, separated by commas, such as `data,asconf`, or `none`.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct ChunkTypes([u64; 4]);

/// Declares the names of the chunk types that are known.
macro_rules! names {
    ($($constant:ident $name:literal,)*) => {
        const TYPES: &[u8] = &[$(kind::$constant),*];

        impl ChunkTypes {
            /// The names of the chunk types that have one.
            pub(crate) const NAMES: &'static [&'static str] = &[$($name),*];
        }
    };
}

names! {
    DATA "data",
    SACK "sack",
    HEARTBEAT "heartbeat",
    HEARTBEAT_ACK "heartbeat-ack",
    ABORT "abort",
    SHUTDOWN "shutdown",
    SHUTDOWN_ACK "shutdown-ack",
    ERROR "error",
    COOKIE_ECHO "cookie-echo",
    COOKIE_ACK "cookie-ack",
    ECNE "ecne",
    CWR "cwr",
    NR_SACK "nr-sack",
    I_DATA "i-data",
    ASCONF "asconf",
    ASCONF_ACK "asconf-ack",
    RE_CONFIG "re-config",
    PAD "pad",
    TIMESTAMP "timestamp",
    FORWARD_TSN "forward-tsn",
    I_FORWARD_TSN "i-forward-tsn",
}

impl ChunkTypes {
    /// The empty set.
    pub const NONE: Self = Self([0; 4]);

    /// The set of these types. Those that cannot be authenticated are left out.
    // req: rfc4895 3.2 "CHUNKS parameter is received then the types for INIT"
    pub fn of(types: &[u8]) -> Self {
        let mut set = Self::NONE;
        for kind in types {
            set.insert(*kind);
        }
        set
    }

    /// Adds a type. Returns whether it can be authenticated.
    // req: rfc4895 3.2 "chunks MUST NOT be listed in the CHUNKS parameter"
    pub fn insert(&mut self, kind: u8) -> bool {
        use anabranch_wire::kind;
        if matches!(kind, kind::INIT | kind::INIT_ACK | kind::SHUTDOWN_COMPLETE | kind::AUTH) {
            return false;
        }
        if let Some(word) = self.0.get_mut(usize::from(kind / 64)) {
            *word |= 1 << (kind % 64);
        }
        true
    }

    /// Whether this type is in the set.
    #[inline]
    pub fn has(&self, kind: u8) -> bool {
        self.0.get(usize::from(kind / 64)).is_some_and(|word| word >> (kind % 64) & 1 != 0)
    }

    /// Whether a type of `other` is in the set.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    /// Whether the set is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        *self == Self::NONE
    }

    /// The types, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u8> + '_ {
        (0..=u8::MAX).filter(|kind| self.has(*kind))
    }
}

/// The names, or numbers where there is none.
impl std::fmt::Display for ChunkTypes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        for (at, kind) in self.iter().enumerate() {
            f.write_str(if at > 0 { "," } else { "" })?;
            let name = TYPES.iter().zip(Self::NAMES).find(|(known, _)| **known == kind);
            match name {
                Some((_, name)) => f.write_str(name)?,
                None => write!(f, "{kind}")?,
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for ChunkTypes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ChunkTypes({self})")
    }
}

impl OptionValue for ChunkTypes {
    fn read(text: &str) -> Option<Self> {
        let mut set = Self::NONE;
        if text == "none" {
            return Some(set);
        }
        for name in text.split(',').map(str::trim) {
            let known = TYPES.iter().zip(Self::NAMES).find(|(_, known)| **known == name);
            let kind = known.map(|(kind, _)| *kind).or_else(|| name.parse().ok())?;
            if !set.insert(kind) {
                return None;
            }
        }
        Some(set)
    }

    fn write(&self, _kind: &Kind) -> String {
        self.to_string()
    }

    fn is_within(&self, _kind: &Kind) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    // test: rfc4895 3.2 "chunks MUST NOT be listed in the CHUNKS parameter"
    // test: rfc4895 3.2 "CHUNKS parameter is received then the types for INIT"
    fn all_known_types_have_a_name_or_cannot_be_authenticated() {
        let all = ChunkTypes::of(kind::ALL);
        let never = [kind::INIT, kind::INIT_ACK, kind::SHUTDOWN_COMPLETE, kind::AUTH];
        for kind in kind::ALL {
            assert_eq!(all.has(*kind), !never.contains(kind), "{kind}");
            assert_eq!(TYPES.contains(kind), !never.contains(kind), "{kind}");
        }
        assert_eq!(ChunkTypes::read(&all.to_string()), Some(all));
    }

    #[test]
    fn text() {
        let set = ChunkTypes::read("asconf, data,200").unwrap();
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, kind::ASCONF, 200]);
        assert_eq!(set.to_string(), "data,asconf,200");
        assert!(set.meets(&ChunkTypes::of(&[200])) && !set.meets(&ChunkTypes::of(&[201])));
        assert_eq!(ChunkTypes::read("none"), Some(ChunkTypes::NONE));
        for wrong in ["", "init", "1", "15", "256", "data,", "data;sack", "nothing"] {
            assert_eq!(ChunkTypes::read(wrong), None, "{wrong}");
        }
    }
}
