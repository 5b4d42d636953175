//! Encrypted paths for SCTP: what travels between two hosts is sealed, and a path is a number instead of an address.
//!
//! [`Endpoint`] does no I/O: datagrams, time and a seed go in; sealed or opened datagrams and deadlines come out.
//! Handshakes are Noise IK with X25519 (crate `snow`); packets are sealed with AES-256-GCM or ChaCha20-Poly1305 (crate
//! `ring`). `docs/sealed.md` has the format and the threat model.
//!
//! The layer above sees [virtual addresses](VirtualNetwork): each side has [`PATHS`] of them, and path k leads from
//! number k to number k. This layer sends path k to the real address from which authenticated packets of path k came
//! last, after that address has answered a challenge. So translated, changing and additional addresses need nothing in
//! the layer above.
#![forbid(unsafe_code)]

use std::net::{IpAddr, SocketAddr};

mod control;
mod dialled;
mod endpoint;
mod followed;
mod handshake;
mod invitation;
mod key_file;
mod keys;
mod known_servers;
mod lane;
mod limit;
mod meter;
mod noise;
mod question;
mod random;
mod record;
mod replay;
mod session;
mod strangers;
mod text;
mod token;
mod virtual_network;

pub use endpoint::{Allow, Endpoint, Families, Opened, PathStatus, SealError, Sealed, Transmit};
pub use invitation::{Invitation, MOST_ADDRESSES};
pub use key_file::KeyFileError;
pub use keys::{PublicKey, SecretKey};
pub use known_servers::{KnownServers, KnownServersError};
pub use lane::shard_of;
pub use question::KeyQuestion;
pub use record::{OVERHEAD, has_fast_aes};
pub use session::KeyLife;
pub use text::ParseError;
pub use token::Token;
pub use virtual_network::VirtualNetwork;

/// The number of paths between two endpoints. They are numbered from 0.
pub const PATHS: u8 = 8;

/// The way of a datagram: the local socket, the local address if the socket has several, and the remote address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The number of the socket. A connecting endpoint has two sockets for uplink k: 2k for IPv4 and 2k + 1 for IPv6.
    pub socket: usize,
    /// The local address, if the socket has several.
    pub local: Option<IpAddr>,
    /// The remote address.
    pub remote: SocketAddr,
}
