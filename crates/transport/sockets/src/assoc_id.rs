//! Association ids.

use std::fmt;

/// The id of an association (`sctp_assoc_t`), or one of the three constants that stand for several
/// (RFC 6458 section 7.1). Calls on one-to-one sockets ignore it; pass [`FUTURE`](Self::FUTURE).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AssocId(pub i32);

impl AssocId {
    /// SCTP_FUTURE_ASSOC: future associations.
    pub const FUTURE: Self = Self(0);
    /// SCTP_CURRENT_ASSOC: the associations that the socket has now.
    pub const CURRENT: Self = Self(1);
    /// SCTP_ALL_ASSOC: both.
    pub const ALL: Self = Self(2);

    /// Whether it stands for several associations.
    #[must_use]
    pub const fn is_special(self) -> bool {
        self.0 >= Self::FUTURE.0 && self.0 <= Self::ALL.0
    }
}

impl fmt::Display for AssocId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
