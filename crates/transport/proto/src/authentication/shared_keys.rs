//! Secrets that both sides of an association have.

use std::fmt;
use std::sync::Arc;

/// Most secrets of an association.
const MOST: usize = 64;

/// Secrets for authentication, by their identifiers: the endpoint pair shared keys of RFC 4895 section 6.1.
///
/// By default there is an empty one with the identifier 0, and it is active: packets are authenticated with it. It stays
/// until it is deleted, and whoever saw the handshake knows it, so [`new`](Self::new) has none.
#[derive(Clone, PartialEq, Eq)]
pub struct SharedKeys {
    keys: Vec<(u16, Arc<[u8]>)>,
    active: u16,
}

// req: rfc4895 6.2 "it MUST use Shared Key Identifier zero with an empty"
impl Default for SharedKeys {
    fn default() -> Self {
        Self { keys: vec![(0, Arc::default())], active: 0 }
    }
}

impl SharedKeys {
    /// Only this secret, which is active.
    pub fn new(id: u16, secret: &[u8]) -> Self {
        Self { keys: vec![(id, secret.into())], active: id }
    }

    /// Adds a secret, or replaces the one with this identifier.
    ///
    /// # Errors
    /// [`KeyError::TooMany`] beyond 64.
    pub fn set(&mut self, id: u16, secret: &[u8]) -> Result<(), KeyError> {
        if let Some((_, known)) = self.keys.iter_mut().find(|(known, _)| *known == id) {
            *known = secret.into();
            return Ok(());
        }
        if self.keys.len() >= MOST {
            return Err(KeyError::TooMany);
        }
        self.keys.push((id, secret.into()));
        Ok(())
    }

    /// Authenticates packets with this secret from now on.
    ///
    /// # Errors
    /// [`KeyError::Unknown`].
    pub fn activate(&mut self, id: u16) -> Result<(), KeyError> {
        self.secret(id).ok_or(KeyError::Unknown(id))?;
        self.active = id;
        Ok(())
    }

    /// Checks that this secret is not in use for sending.
    ///
    /// # Errors
    /// [`KeyError::Unknown`], and [`KeyError::Active`] for the active one.
    pub fn check_inactive(&self, id: u16) -> Result<(), KeyError> {
        self.secret(id).ok_or(KeyError::Unknown(id))?;
        if id == self.active { Err(KeyError::Active(id)) } else { Ok(()) }
    }

    /// Forgets a secret: packets that were authenticated with it are no longer accepted.
    ///
    /// # Errors
    /// [`KeyError::Unknown`], and [`KeyError::Active`] for the active one.
    pub fn delete(&mut self, id: u16) -> Result<(), KeyError> {
        self.check_inactive(id)?;
        self.keys.retain(|(known, _)| *known != id);
        Ok(())
    }

    /// The identifier of the active secret.
    pub fn active(&self) -> u16 {
        self.active
    }

    /// The identifiers.
    pub fn ids(&self) -> impl Iterator<Item = u16> + '_ {
        self.keys.iter().map(|(id, _)| *id)
    }

    /// The secret with this identifier.
    pub(crate) fn secret(&self, id: u16) -> Option<&[u8]> {
        self.keys.iter().find(|(known, _)| *known == id).map(|(_, secret)| &**secret)
    }
}

/// The secrets are not shown.
impl fmt::Debug for SharedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<u16> = self.ids().collect();
        f.debug_struct("SharedKeys").field("ids", &ids).field("active", &self.active).finish()
    }
}

/// Why a change of the secrets was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// There are 64 secrets already.
    TooMany,
    /// There is no secret with this identifier.
    Unknown(u16),
    /// The secret is in use for sending.
    Active(u16),
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany => write!(f, "there are {MOST} keys already"),
            Self::Unknown(id) => write!(f, "there is no key {id}"),
            Self::Active(id) => write!(f, "key {id} is active; activate another one first"),
        }
    }
}

impl std::error::Error for KeyError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_active_key_stays() {
        let mut keys = SharedKeys::default();
        assert_eq!((keys.active(), keys.secret(0)), (0, Some(&[][..])));
        assert_eq!(keys.activate(7), Err(KeyError::Unknown(7)));
        keys.set(7, b"secret").unwrap();
        keys.activate(7).unwrap();
        assert_eq!(keys.delete(7), Err(KeyError::Active(7)));
        keys.delete(0).unwrap();
        assert_eq!(keys.delete(0), Err(KeyError::Unknown(0)));
        keys.set(7, b"another").unwrap();
        assert_eq!(keys.secret(7), Some(&b"another"[..]));
        assert!(!format!("{keys:?}").contains("an"), "{keys:?}");
        for id in 100..163 {
            keys.set(id, b"").unwrap();
        }
        assert_eq!(keys.set(1, b""), Err(KeyError::TooMany));
        assert_eq!(keys.set(7, b""), Ok(()));
    }
}
