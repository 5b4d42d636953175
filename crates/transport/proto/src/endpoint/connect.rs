//! Starts associations from this side.

use std::net::IpAddr;
use std::sync::Arc;

use super::Endpoint;
use super::demux::Key;
use crate::association::{Association, Initiation};
use crate::config::{AssociationConfig, IpVersions};
use crate::error::ConnectError;
use crate::event::AssociationId;
use crate::rng::Rng;
use crate::time::Instant;

/// First port of the range for ephemeral SCTP ports (RFC 6335).
const EPHEMERAL: u16 = 49_152;

/// Number of ports drawn at random before all are tried in order.
const DRAWS: u32 = 8;

/// Draws a random ephemeral port, which an off-path attacker cannot guess. Hosts that share an
/// address rarely choose the same (RFC 6056 section 3.3.1).
pub(super) fn draw_port(rng: &mut Rng) -> u16 {
    EPHEMERAL + rng.below(u64::from(u16::MAX - EPHEMERAL) + 1) as u16
}

/// Parameters of [`Endpoint::connect`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConnectRequest {
    /// Addresses of the peer, the preferred one first.
    pub remotes: Vec<IpAddr>,
    /// SCTP port of the peer.
    pub remote_port: u16,
    /// UDP port of the peer; 0 for IP protocol 132. Default: 9,899.
    pub remote_udp_port: u16,
    /// SCTP port of this side; `None` picks a free one.
    pub local_port: Option<u16>,
    /// The local addresses to use; `None` means all of the endpoint. Other addresses are possible,
    /// such as link-local ones that are only useful to peers on their link.
    pub locals: Option<Vec<IpAddr>>,
    /// The versions of IP to use.
    pub ip_versions: IpVersions,
    /// Options of the association.
    pub config: Arc<AssociationConfig>,
}

impl ConnectRequest {
    /// A request with default options, over UDP encapsulation.
    pub fn new(remotes: Vec<IpAddr>, remote_port: u16) -> Self {
        Self {
            remotes,
            remote_port,
            remote_udp_port: 9899,
            local_port: None,
            locals: None,
            ip_versions: IpVersions::Both,
            config: Arc::new(AssociationConfig::default()),
        }
    }
}

impl Endpoint {
    /// Starts an association.
    ///
    /// # Errors
    /// [`ConnectError`]; then nothing is sent.
    pub fn connect(
        &mut self,
        now: Instant,
        request: ConnectRequest,
    ) -> Result<AssociationId, ConnectError> {
        let ConnectRequest {
            remotes,
            remote_port,
            remote_udp_port,
            local_port,
            locals,
            ip_versions,
            config,
        } = request;
        let first = *remotes.first().ok_or(ConnectError::NoAddress)?;
        // req: rfc9260 3.1 "Destination Port Number 0 MUST NOT be used"
        if remote_port == 0 || local_port == Some(0) {
            return Err(ConnectError::InvalidPort);
        }
        config.validate().map_err(ConnectError::Config)?;
        if self.is_full() {
            return Err(ConnectError::TooManyAssociations);
        }
        if !self.memory().takes_newcomers() {
            return Err(ConnectError::OutOfMemory);
        }
        let local_port = match local_port {
            Some(port) => port,
            None => self.ephemeral_port(&remotes, (remote_udp_port, remote_port))?,
        };
        if self.is_taken(&remotes, (remote_udp_port, remote_port), local_port) {
            return Err(ConnectError::AlreadyConnected);
        }
        let initiation = Initiation {
            local_port,
            remote_port,
            remotes: remotes.clone(),
            udp_port: remote_udp_port,
            config,
        };
        let mut surroundings = self.surroundings.within(ip_versions, |_| true);
        if let Some(locals) = locals {
            surroundings.locals =
                locals.into_iter().filter(|local| ip_versions.include(*local)).collect();
        }
        let association = Association::initiate(now, initiation, surroundings, self.rng.fork())
            .ok_or(ConnectError::Unreachable(first))?;
        Ok(self.insert(now, association))
    }

    /// Whether there is an association with any of these transport addresses: two associations
    /// never share one (RFC 9260 section 1.3).
    fn is_taken(&self, remotes: &[IpAddr], peer: (u16, u16), local_port: u16) -> bool {
        remotes.iter().any(|remote| {
            let key = Key::new(*remote, peer.0, peer.1, local_port);
            self.demux.owner(&key.of_any_port()).or_else(|| self.demux.owner(&key)).is_some()
        })
    }

    /// Finds a port that no association with these addresses uses.
    fn ephemeral_port(
        &mut self,
        remotes: &[IpAddr],
        peer: (u16, u16),
    ) -> Result<u16, ConnectError> {
        let range = u32::from(u16::MAX - EPHEMERAL) + 1;
        for attempt in 0..DRAWS + range {
            let port = self.next_port;
            self.next_port = if attempt < DRAWS {
                draw_port(&mut self.rng)
            } else {
                port.checked_add(1).unwrap_or(EPHEMERAL)
            };
            if !self.listeners.contains_key(&port) && !self.is_taken(remotes, peer, port) {
                return Ok(port);
            }
        }
        Err(ConnectError::TooManyAssociations)
    }
}
