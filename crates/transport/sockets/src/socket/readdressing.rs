//! Addresses that join and leave associations that are up (RFC 5061; RFC 6458 sections 8.3.1 and 9.1).

use std::net::{IpAddr, SocketAddr};

use anabranch::{AddressChange, AddressError, Features};

use super::{Socket, State};
use crate::assoc_id::AssocId;
use crate::error::Error;
use crate::option::AsconfSupported;

impl Socket {
    /// SCTP_ASCONF_SUPPORTED: for an established association, whether addresses can change; otherwise whether this side
    /// will offer that.
    ///
    /// # Errors
    /// As [`option`](Self::option).
    pub fn address_reconfiguration(&self, id: AssocId) -> Result<bool, Error> {
        let AsconfSupported(wanted) = self.option(AssocId::FUTURE)?;
        Ok(self.agreed(id, Features::ADDRESS_RECONFIGURATION).unwrap_or(wanted))
    }

    /// SCTP_SET_PEER_PRIMARY_ADDR: asks the peer to send to this local address rather than to the others. Does not wait for
    /// its answer.
    ///
    /// # Errors
    /// [`Error::NotPermitted`]: the association cannot change its addresses. [`Error::AddressNotAvailable`]: it does not
    /// have this one. [`Error::NotConnected`]: it is not established. [`Error::NoBuffers`]: too many requests wait.
    /// [`Error::Invalid`]: it does not exist.
    pub fn set_peer_primary(&self, id: AssocId, local: IpAddr) -> Result<(), Error> {
        let asked = self.with_association(id, |known| known.prefer_address(local))?;
        asked.map_err(|error| match error {
            AddressError::NotNegotiated => Error::NotPermitted,
            AddressError::Unknown => Error::AddressNotAvailable,
            other => refused(other),
        })
    }
}

impl State {
    /// Adds addresses to all associations, or removes them. Those that cannot change stay as they are.
    pub(super) fn change_addresses(
        &self,
        change: AddressChange,
        addresses: &[SocketAddr],
    ) -> Result<(), Error> {
        let endpoint = self.endpoint.as_ref().ok_or(Error::NotSupported)?.endpoint();
        let here = endpoint.local_addresses();
        let mut outcome = Err(Error::NotSupported);
        for ip in addresses.iter().map(SocketAddr::ip).filter(|ip| !here.contains(ip)) {
            if change == AddressChange::Removed {
                return Err(Error::NotSupported);
            }
            // Later associations have it, also if those that are up cannot change.
            endpoint.add_local_address(ip)?;
            outcome = Ok(());
        }
        for association in self.peers.values().filter_map(|peer| peer.association.as_ref()) {
            for local in addresses.iter().map(SocketAddr::ip) {
                let asked = match change {
                    AddressChange::Added => association.add_address(local),
                    _ => association.remove_address(local),
                };
                match asked {
                    Err(AddressError::NotNegotiated | AddressError::NotUp) => {}
                    Err(error) => return Err(refused(error)),
                    Ok(()) => outcome = Ok(()),
                }
            }
        }
        outcome
    }
}

fn refused(error: AddressError) -> Error {
    match error {
        AddressError::Known => Error::AddressInUse,
        AddressError::NotUp => Error::NotConnected,
        AddressError::NotNegotiated => Error::NotSupported,
        AddressError::Unreachable => Error::AddressNotAvailable,
        AddressError::TooMany => Error::NoBuffers,
        _ => Error::Invalid,
    }
}
