//! Starting an association.

use std::net::IpAddr;
use std::sync::Arc;

use super::Endpoint;
use super::demux::Key;
use crate::association::{Association, Initiation};
use crate::config::AssociationConfig;
use crate::error::ConnectError;
use crate::event::AssociationId;
use crate::time::Instant;

/// First port of the range for ephemeral SCTP ports (RFC 6335).
pub(super) const EPHEMERAL: u16 = 49_152;

/// What [`Endpoint::connect`] needs to know.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConnectRequest {
    /// Addresses of the peer, the preferred one first.
    pub remotes: Vec<IpAddr>,
    /// SCTP port of the peer.
    pub remote_port: u16,
    /// UDP port of the peer; 0 for IP protocol 132. 9,899.
    pub remote_udp_port: u16,
    /// SCTP port of this side; `None` takes a fresh one.
    pub local_port: Option<u16>,
    /// The local addresses to use; `None` means all of the endpoint.
    pub locals: Option<Vec<IpAddr>>,
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
            config: Arc::new(AssociationConfig::default()),
        }
    }
}

impl Endpoint {
    /// Starts an association.
    ///
    /// # Errors
    /// [`ConnectError`]; nothing was sent then.
    pub fn connect(
        &mut self,
        now: Instant,
        request: ConnectRequest,
    ) -> Result<AssociationId, ConnectError> {
        let ConnectRequest { remotes, remote_port, remote_udp_port, local_port, locals, config } =
            request;
        let first = *remotes.first().ok_or(ConnectError::NoAddress)?;
        // req: rfc9260 3.1 "Destination Port Number 0 MUST NOT be used"
        if remote_port == 0 || local_port == Some(0) {
            return Err(ConnectError::InvalidPort);
        }
        config.validate().map_err(ConnectError::Config)?;
        if self.len() >= self.config.max_associations {
            return Err(ConnectError::TooManyAssociations);
        }
        if self.memory().left() == 0 {
            return Err(ConnectError::OutOfMemory);
        }
        let local_port = match local_port {
            Some(port) => port,
            None => self.ephemeral_port(&remotes, remote_port)?,
        };
        let keys = || remotes.iter().map(|remote| Key::new(*remote, remote_port, local_port));
        if keys().any(|key| self.demux.find(&key).is_some()) {
            return Err(ConnectError::AlreadyConnected);
        }
        let initiation = Initiation {
            local_port,
            remote_port,
            remotes: remotes.clone(),
            udp_port: remote_udp_port,
            config,
        };
        let mut surroundings = self.surroundings.clone();
        if let Some(wanted) = locals {
            let locals = surroundings.locals.iter().copied();
            surroundings.locals = locals.filter(|local| wanted.contains(local)).collect();
        }
        let association = Association::initiate(now, initiation, surroundings, self.rng.fork())
            .ok_or(ConnectError::Unreachable(first))?;
        Ok(self.insert(now, association))
    }

    /// A port that no association with these addresses uses: two associations never share
    /// their transport addresses (RFC 9260 section 1.3).
    fn ephemeral_port(
        &mut self,
        remotes: &[IpAddr],
        remote_port: u16,
    ) -> Result<u16, ConnectError> {
        for _ in EPHEMERAL..=u16::MAX {
            let port = self.next_port;
            self.next_port = port.checked_add(1).unwrap_or(EPHEMERAL);
            let taken = self.listeners.contains_key(&port)
                || remotes
                    .iter()
                    .any(|remote| self.demux.find(&Key::new(*remote, remote_port, port)).is_some());
            if !taken {
                return Ok(port);
            }
        }
        Err(ConnectError::TooManyAssociations)
    }
}
