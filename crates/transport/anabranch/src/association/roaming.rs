//! Addresses of this host that join and leave an association that is up (RFC 5061).

use std::net::IpAddr;

use anabranch_proto::{AddressError, Association as Engine, Instant};

use super::Association;

impl Association {
    /// Adds an address of this host. Once the peer has agreed, both sides use it. The endpoint must have a socket there:
    /// one that is bound to the unspecified address has. With the option `roam` this happens by itself.
    ///
    /// Both sides need the option `address_reconfiguration`. The end is reported by
    /// [`Notification::AddressChanged`](crate::Notification::AddressChanged).
    ///
    /// ```
    /// # use anabranch::{AddressError, Association};
    /// # fn example(association: &Association) -> Result<(), AddressError> {
    /// // A laptop got an address in another network, and leaves the old one.
    /// association.add_address("192.0.2.7".parse().unwrap())?;
    /// association.remove_address("198.51.100.9".parse().unwrap())?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`AddressError`]; then nothing has happened.
    pub fn add_address(&self, local: IpAddr) -> Result<(), AddressError> {
        self.change(|association, now| association.add_address(now, local))
    }

    /// Removes an address of this host: nothing is sent from it any more, and the peer is asked to forget it. If it is the
    /// only one that works, that waits until another one was added.
    ///
    /// # Errors
    /// [`AddressError`]; then nothing has happened.
    pub fn remove_address(&self, local: IpAddr) -> Result<(), AddressError> {
        self.change(|association, now| association.remove_address(now, local))
    }

    /// Asks the peer to send data to this address of this host rather than to the others. It may ignore that.
    ///
    /// # Errors
    /// [`AddressError`]; then nothing has happened.
    pub fn prefer_address(&self, local: IpAddr) -> Result<(), AddressError> {
        self.change(|association, now| association.prefer_address(now, local))
    }

    fn change(
        &self,
        what: impl FnOnce(&mut Engine, Instant) -> Result<(), AddressError>,
    ) -> Result<(), AddressError> {
        self.inner.engine(what).unwrap_or(Err(AddressError::NotUp))
    }
}
