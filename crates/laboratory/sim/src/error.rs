//! Reasons why a network cannot be built or run.

use std::net::IpAddr;

use anabranch_proto::{ConnectError, ListenError};

/// Errors of requests to a [`Network`](crate::Network).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// A link from a node to itself.
    #[error("a link needs two different nodes, and {0:?} was given twice")]
    SameNode(String),
    /// The link does not end at the node.
    #[error("link {link} does not end at {node:?}")]
    NotAtNode {
        /// The link's number.
        link: usize,
        /// The node's name.
        node: String,
    },
    /// A router cannot do this; only hosts can.
    #[error("{0:?} is a router, not a host")]
    NotAHost(String),
    /// A host without a link.
    #[error("host {0:?} has no link")]
    NoInterface(String),
    /// A host runs one endpoint only.
    #[error("host {0:?} has an endpoint already")]
    EndpointExists(String),
    /// The address is already used by another interface.
    #[error("the address {0} is taken")]
    AddressTaken(IpAddr),
    /// No interface has the address.
    #[error("no host has the address {0}")]
    UnknownAddress(IpAddr),
    /// No route leads from one host to the other.
    #[error("no route leads from {from:?} to {to:?}")]
    NoRoute {
        /// Name of the source.
        from: String,
        /// Name of the destination.
        to: String,
    },
    /// A link's options are invalid.
    #[error("link between {a:?} and {b:?}: {error}")]
    Link {
        /// Name of one end.
        a: String,
        /// Name of the other end.
        b: String,
        /// The error.
        error: anabranch_impair::ConfigError,
    },
    /// An option of a transfer or a generator is invalid.
    #[error("{option}: {reason}")]
    Option {
        /// Its name.
        option: &'static str,
        /// The reason.
        reason: std::borrow::Cow<'static, str>,
    },
    /// The time has already passed.
    #[error("the time lies in the past")]
    Past,
    /// The endpoint refused to listen.
    #[error("listen: {0}")]
    Listen(#[from] ListenError),
    /// The endpoint refused to connect.
    #[error("connect: {0}")]
    Connect(#[from] ConnectError),
}
