//! Changes of the addresses of an association that is up (RFC 5061), as its user sees them.

use std::fmt;

use crate::named::named;

/// What happens to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddressChange {
    /// It becomes an address of the association.
    Added,
    /// It is no longer an address of the association.
    Removed,
    /// Data should go to it rather than to the other addresses of that side.
    Preferred,
}

named!(AddressChange { Added = "added", Removed = "removed", Preferred = "preferred", });

/// Why a request to change an address was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddressError {
    /// The peer does not support address reconfiguration, or the option `address_reconfiguration` is off.
    NotNegotiated,
    /// The address already belongs to the association, or is being added.
    Known,
    /// The address does not belong to the association.
    Unknown,
    /// The association has no other address.
    Last,
    /// No address of the peer can be reached from this one: it is of another IP version or scope.
    Unreachable,
    /// Too many earlier changes wait for the peer, or the association has as many paths as it can.
    TooMany,
    /// The association is not up yet, is shutting down, or is closed.
    NotUp,
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotNegotiated => "the peer does not support address reconfiguration",
            Self::Known => "the association already has this address",
            Self::Unknown => "the association does not have this address",
            Self::Last => "the association has no other address",
            Self::Unreachable => "no address of the peer can be reached from this one",
            Self::TooMany => "too many changes of addresses wait for the peer",
            Self::NotUp => "the association is not up, or is shutting down",
        })
    }
}

impl std::error::Error for AddressError {}
