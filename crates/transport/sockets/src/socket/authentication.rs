//! Authenticated chunks (RFC 6458 sections 8.1.17, 8.1.18, 8.2.3, 8.2.4 and 8.3).

use anabranch::config::{KeyError, SharedKeys};
use anabranch::{AuthenticationChange, ChunkTypes, Features, HmacAlgorithm};

use super::send::Target;
use super::{Socket, Style};
use crate::assoc_id::AssocId;
use crate::error::Error;
use crate::notification::Event;
use crate::option::AuthSupported;

impl Socket {
    /// SCTP_AUTH_SUPPORTED: for an established association, whether both sides authenticate chunks; otherwise whether this
    /// side will offer that.
    ///
    /// # Errors
    /// As [`option`](Self::option).
    pub fn authentication(&self, id: AssocId) -> Result<bool, Error> {
        let AuthSupported(wanted) = self.option(AssocId::FUTURE)?;
        Ok(self.agreed(id, Features::AUTHENTICATION).unwrap_or(wanted))
    }

    /// SCTP_AUTH_CHUNK: future associations accept this chunk type only if it is authenticated, and offer authentication.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the type cannot be authenticated. [`Error::NotSupported`]: the only association of the socket
    /// has begun.
    pub fn authenticate_chunk(&self, kind: u8) -> Result<(), Error> {
        if !ChunkTypes::default().insert(kind) {
            return Err(Error::Invalid);
        }
        self.configure(AssocId::FUTURE, |config| {
            config.authentication.authentication = true;
            config.authentication.authenticated_chunks.insert(kind);
        })
    }

    /// SCTP_HMAC_IDENT: the algorithms that peers of future associations are asked to use, the best first.
    ///
    /// # Errors
    /// [`Error::Invalid`]: one is unknown, or SHA-1 is missing. [`Error::NotSupported`]: SHA-1 before SHA-256, or the only
    /// association of the socket has begun.
    pub fn set_hmac_identifiers(&self, identifiers: &[u16]) -> Result<(), Error> {
        let (sha1, sha256) = (HmacAlgorithm::Sha1.identifier(), HmacAlgorithm::Sha256.identifier());
        let best = match *identifiers {
            [one] if one == sha1 => HmacAlgorithm::Sha1,
            [first, second] if (first, second) == (sha256, sha1) => HmacAlgorithm::Sha256,
            [first, second] if (first, second) == (sha1, sha256) => {
                return Err(Error::NotSupported);
            }
            _ => return Err(Error::Invalid),
        };
        self.configure(AssocId::FUTURE, |config| config.authentication.authentication_hmac = best)
    }

    /// SCTP_HMAC_IDENT of future associations.
    ///
    /// # Errors
    /// As [`option`](Self::option).
    pub fn hmac_identifiers(&self) -> Result<Vec<u16>, Error> {
        let best = self.configuration(AssocId::FUTURE)?.authentication.authentication_hmac;
        Ok(best.accepted().iter().map(|algorithm| algorithm.identifier()).collect())
    }

    /// SCTP_AUTH_KEY: adds a secret, or replaces the one with this number. Future associations offer authentication.
    ///
    /// # Errors
    /// [`Error::Invalid`]: there are too many secrets, or no such association. [`Error::NotConnected`]: it has ended.
    pub fn set_auth_key(&self, id: AssocId, key: u16, secret: &[u8]) -> Result<(), Error> {
        let begun = self.style == Style::OneToOne && self.with(|state| !state.peers.is_empty());
        if !begun && matches!(id, AssocId::FUTURE | AssocId::ALL) {
            self.configure(AssocId::FUTURE, |config| config.authentication.authentication = true)?;
        }
        self.change_keys(id, |keys| keys.set(key, secret))
    }

    /// SCTP_AUTH_ACTIVE_KEY: what is sent is authenticated with this secret from now on.
    ///
    /// # Errors
    /// [`Error::Invalid`]: there is no such secret or association. [`Error::NotConnected`]: it has ended.
    pub fn activate_auth_key(&self, id: AssocId, key: u16) -> Result<(), Error> {
        self.change_keys(id, |keys| keys.activate(key))
    }

    /// The number of the active secret.
    ///
    /// # Errors
    /// As [`option`](Self::option).
    pub fn active_auth_key(&self, id: AssocId) -> Result<u16, Error> {
        Ok(self.configuration(id)?.keys.active())
    }

    /// Checks that a message that is sent now is authenticated with this secret.
    pub(super) fn check_active_key(&self, target: &Target, key: u16) -> Result<(), Error> {
        let keys = self.configuration(self.meant(target))?.keys;
        match keys.check_inactive(key) {
            Err(KeyError::Active(_)) => Ok(()),
            Ok(()) => Err(Error::NotSupported),
            Err(_) => Err(Error::Invalid),
        }
    }

    /// SCTP_AUTH_DEACTIVATE_KEY: the secret is no longer needed for sending. Packets are authenticated when they leave, so
    /// it is free at once, which is reported for each association.
    ///
    /// # Errors
    /// As [`delete_auth_key`](Self::delete_auth_key).
    pub fn deactivate_auth_key(&self, id: AssocId, key: u16) -> Result<(), Error> {
        self.change_keys(id, |keys| keys.check_inactive(key))?;
        let (change, everywhere) =
            (AuthenticationChange::FreeKey, self.style == Style::OneToOne || id == AssocId::ALL);
        self.with(|state| {
            let known: Vec<AssocId> = state.peers.keys().copied().collect();
            let meant = |known: &AssocId| everywhere || id == AssocId::CURRENT || *known == id;
            for known in known.into_iter().filter(meant) {
                state.report(known, Event::Authentication { change, key });
            }
        });
        Ok(())
    }

    /// SCTP_AUTH_DELETE_KEY: what is authenticated with this secret is no longer accepted.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the secret is active or does not exist, or the association does not exist.
    /// [`Error::NotConnected`]: it has ended.
    pub fn delete_auth_key(&self, id: AssocId, key: u16) -> Result<(), Error> {
        self.change_keys(id, |keys| keys.delete(key))
    }

    /// SCTP_LOCAL_AUTH_CHUNKS: the chunk types that this side accepts only if they are authenticated.
    ///
    /// # Errors
    /// As [`option`](Self::option).
    pub fn local_auth_chunks(&self, id: AssocId) -> Result<Vec<u8>, Error> {
        let agreed = self.with_association(id, anabranch::Association::authenticated_chunks);
        let chunks = match agreed {
            Ok((local, _)) => local,
            Err(_) => self.configuration(id)?.authentication.authenticated_chunks,
        };
        Ok(chunks.iter().collect())
    }

    /// SCTP_PEER_AUTH_CHUNKS: the chunk types that the peer accepts only if they are authenticated.
    ///
    /// # Errors
    /// [`Error::Invalid`]: there is no such association. [`Error::NotConnected`]: it has ended.
    pub fn peer_auth_chunks(&self, id: AssocId) -> Result<Vec<u8>, Error> {
        let (_, peer) = self.with_association(id, anabranch::Association::authenticated_chunks)?;
        Ok(peer.iter().collect())
    }

    /// Changes secrets. All that are meant are as those of `id`, where it is about several.
    fn change_keys(
        &self,
        id: AssocId,
        change: impl Fn(&mut SharedKeys) -> Result<(), KeyError>,
    ) -> Result<(), Error> {
        let mut keys = self.configuration(id)?.keys;
        change(&mut keys).map_err(|_| Error::Invalid)?;
        self.configure(id, |config| {
            // Another association may have other secrets, to which the change does not apply.
            let _ = change(&mut config.keys);
        })
    }
}
