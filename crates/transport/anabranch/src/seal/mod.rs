//! Sealed paths: everything between two endpoints is encrypted, and a path is a number instead of a pair of addresses.
//!
//! Each uplink of a client is a path, behind any address translator, and may change its address at any time. Endpoints
//! know each other by their public keys. Associations, listeners and streams are used as without the seal.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use anabranch::seal::{Allow, Invitation, Seal, SecretKey, Uplink};
//! use anabranch::{AssociationConfig, ConnectOptions, Endpoint};
//!
//! // The server prints an invitation.
//! let secret = SecretKey::generate()?;
//! let seal = Seal::listen(secret.clone(), ["127.0.0.1:0".parse()?]).allow(Allow::Any);
//! let server = Endpoint::builder().seal(seal).bind()?;
//! let listener = server.listen(5000, AssociationConfig::default())?;
//! let address = ([127, 0, 0, 1], server.udp_port()).into();
//! let line = Invitation::new(secret.public(), [address]).to_string();
//!
//! // The client uses two uplinks.
//! let invitation: Invitation = line.parse()?;
//! let uplinks = [[127, 0, 0, 2], [127, 0, 0, 3]].map(|ip| Uplink::address(ip.into()));
//! let seal = Seal::connect(SecretKey::generate()?, &invitation).uplinks(uplinks);
//! let client = Endpoint::builder().seal(seal).bind()?;
//! let remotes = invitation.key().remotes(5000);
//! let (near, far) = tokio::join!(client.connect(remotes, ConnectOptions::default()), listener.accept());
//! let (near, far) = (near?, far.unwrap());
//! # let _ = (near, far);
//! # Ok(())
//! # }
//! ```

mod core;
mod handle;
mod runtime;
mod socket;
mod uplink;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

pub use anabranch_seal::{
    Allow, Invitation, KeyFileError, KeyQuestion, KnownServers, KnownServersError, PATHS,
    ParseError, PublicKey, SecretKey, Token, VirtualNetwork,
};

pub use self::handle::{SealHandle, SealedPath};
pub(crate) use self::runtime::SealedRuntime;
pub use self::uplink::Uplink;
use crate::runtime::LocalAddress;

/// Bytes that the seal adds to each packet.
pub(crate) const OVERHEAD: u8 = anabranch_seal::OVERHEAD as u8;

/// Removes virtual addresses of paths whose uplink is down, unless all are. INITs go to the addresses in turn: one that
/// is lost would be followed by seven that go nowhere. The peer lists all of its addresses in its answer.
pub(crate) fn keep_usable(remotes: &mut Vec<SocketAddr>, locals: &[LocalAddress]) {
    let number = |ip| VirtualNetwork::split(ip).map(|(_, number)| number);
    let up = locals.iter().filter(|local| local.index != 0);
    let up: Vec<_> = up.filter_map(|local| number(local.ip)).collect();
    let is_up = |remote: &SocketAddr| number(remote.ip()).is_some_and(|path| up.contains(&path));
    if remotes.iter().any(is_up) {
        remotes.retain(is_up);
    }
}

/// What to listen on or to connect to.
#[derive(Clone, Debug)]
pub(crate) enum Role {
    /// Real addresses with UDP ports.
    Listen(Vec<SocketAddr>),
    /// Peers, and the uplinks to use.
    Connect(Vec<Host>, Vec<Uplink>),
}

/// A peer to connect to.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    pub(crate) key: PublicKey,
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) token: Option<Token>,
}

/// The callback for keys that tokens admit.
#[derive(Clone)]
pub(crate) struct OnAdmitted(pub(crate) Arc<dyn Fn(PublicKey) + Send + Sync>);

impl fmt::Debug for OnAdmitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnAdmitted")
    }
}

/// The sealed paths of an endpoint, for [`Builder::seal`](crate::Builder::seal).
#[derive(Clone, Debug)]
pub struct Seal {
    pub(crate) secret: SecretKey,
    pub(crate) role: Role,
    pub(crate) allow: Allow,
    pub(crate) announces: bool,
    pub(crate) on_admitted: Option<OnAdmitted>,
    pub(crate) handle: SealHandle,
}

impl Seal {
    /// Accepts clients on these real addresses. Port 0 means any free one. A wildcard address is of one version of IP:
    /// `0.0.0.0` and `[::]` together are all addresses, and a version that the host lacks is ignored. No client is allowed until
    /// [`allow`](Self::allow) or an [invitation](SealHandle::invite) says so.
    pub fn listen(secret: SecretKey, addresses: impl IntoIterator<Item = SocketAddr>) -> Self {
        let role = Role::Listen(addresses.into_iter().collect());
        Self::new(secret, role)
    }

    /// Connects to the server of an invitation.
    pub fn connect(secret: SecretKey, invitation: &Invitation) -> Self {
        let role = Role::Connect(Vec::new(), vec![Uplink::any()]);
        Self::new(secret, role).peer(invitation)
    }

    fn new(secret: SecretKey, role: Role) -> Self {
        let (allow, handle) = (Allow::nobody(), SealHandle::default());
        Self { secret, role, allow, announces: false, on_admitted: None, handle }
    }

    /// Adds another server to connect to.
    #[must_use]
    pub fn peer(mut self, invitation: &Invitation) -> Self {
        if let Role::Connect(hosts, _) = &mut self.role {
            hosts.push(Host {
                key: invitation.key(),
                addresses: invitation.addresses().to_vec(),
                token: invitation.token().cloned(),
            });
        }
        self
    }

    /// The uplinks of a client, at most [`PATHS`]; uplink k is path k. By default there is one, and the system's routes
    /// decide where it leads.
    #[must_use]
    pub fn uplinks(mut self, uplinks: impl IntoIterator<Item = Uplink>) -> Self {
        if let Role::Connect(_, before) = &mut self.role {
            *before = uplinks.into_iter().collect();
        }
        self
    }

    /// The keys that may connect to this server.
    #[must_use]
    pub fn allow(mut self, allow: Allow) -> Self {
        self.allow = allow;
        self
    }

    /// Gives the public key of this server to anyone who asks ([`KeyQuestion`]), so that clients without it can trust the
    /// first answer. Without it, nobody gets an answer who does not know the key.
    #[must_use]
    pub fn announce(mut self) -> Self {
        self.announces = true;
        self
    }

    /// Calls this with each key that a one-time [token](SealHandle::invite) admits, so that a program can store it.
    ///
    /// The endpoint calls it before it handles the first packet of that client: a client that has an association is
    /// stored already. The endpoint waits meanwhile, so the call should be short.
    #[must_use]
    pub fn on_admitted(mut self, store: impl Fn(PublicKey) + Send + Sync + 'static) -> Self {
        self.on_admitted = Some(OnAdmitted(Arc::new(store)));
        self
    }

    /// A handle with which a program follows and changes the sealed paths before and after the endpoint is bound.
    pub fn handle(&self) -> SealHandle {
        self.handle.clone()
    }
}

/// Why sealed paths cannot be set up.
#[derive(Debug)]
#[non_exhaustive]
pub enum SetupError {
    /// There is no address to listen on, no server, or no uplink.
    Missing(&'static str),
    /// More uplinks than paths.
    TooManyUplinks(usize),
    /// An option of the builder does not go together with sealed paths.
    Conflict(&'static str),
    /// Another endpoint was bound with this [`Seal`].
    Used,
    /// A real address cannot be bound.
    Socket {
        /// The address.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// No uplink can be used now: none has an address.
    Uplinks(io::Error),
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(what) => write!(f, "sealed paths need {what}"),
            Self::TooManyUplinks(count) => {
                write!(f, "{count} uplinks are too many for sealed paths: at most {PATHS}")
            }
            Self::Conflict(option) => {
                write!(f, "{option} cannot be set with sealed paths: leave it out")
            }
            Self::Used => f.write_str("this seal has an endpoint already: make another one"),
            Self::Socket { address, source } => {
                write!(f, "cannot bind {address} for sealed paths: {source}")
            }
            Self::Uplinks(source) => write!(f, "cannot use the uplinks: {source}"),
        }
    }
}

impl std::error::Error for SetupError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Socket { source, .. } | Self::Uplinks(source) => Some(source),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn associations_begin_over_paths_with_an_uplink() {
        let [near, far] = [1, 2].map(|byte| SecretKey::from_bytes([byte; 32]).public());
        let local = |(number, ip): (u32, std::net::Ipv6Addr)| LocalAddress {
            ip: ip.into(),
            interface: String::new(),
            index: number % 2,
        };
        let locals: Vec<_> =
            (0..).zip(VirtualNetwork::of(&near, 1).addresses()).map(local).collect();
        let numbers = |locals: &[LocalAddress]| -> Vec<u8> {
            let mut remotes = far.remotes(5000);
            keep_usable(&mut remotes, locals);
            let split = |remote: &SocketAddr| VirtualNetwork::split(remote.ip());
            remotes.iter().filter_map(split).map(|(_, number)| number).collect()
        };
        assert_eq!(numbers(&locals), [1, 3, 5, 7]);
        let mut down = locals;
        down.iter_mut().for_each(|local| local.index = 0);
        assert_eq!(numbers(&down).len(), 8, "an uplink may come");
    }
}
