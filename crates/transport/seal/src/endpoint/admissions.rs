//! Who may connect to an endpoint. Its shards share this, so a one-time token admits one key only.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::keys::PublicKey;
use crate::token::Token;

/// The keys that may connect to an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allow {
    /// Every key.
    Any,
    /// Only these keys, and those that bring a one-time token.
    Keys(BTreeSet<PublicKey>),
}

impl Allow {
    /// No key, except those that bring a one-time token.
    pub fn nobody() -> Self {
        Self::Keys(BTreeSet::new())
    }
}

/// Why a key may connect.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Permission {
    /// It is allowed.
    Allowed,
    /// It brings this token, if that is still unused when the handshake ends.
    ByToken(Token),
}

/// The allowed keys, and the tokens that nobody has used.
#[derive(Clone, Debug)]
pub(super) struct Admissions(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    allow: Allow,
    tokens: Vec<Token>,
}

impl Admissions {
    pub(super) fn new(allow: Allow) -> Self {
        Self(Arc::new(Mutex::new(State { allow, tokens: Vec::new() })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn allow(&self, key: PublicKey) {
        self.lock().allow(key);
    }

    pub(super) fn revoke(&self, key: &PublicKey) {
        if let Allow::Keys(keys) = &mut self.lock().allow {
            keys.remove(key);
        }
    }

    pub(super) fn invite(&self, token: Token) {
        let mut state = self.lock();
        if !state.tokens.contains(&token) {
            state.tokens.push(token);
        }
    }

    /// Whether this key may connect, and why.
    pub(super) fn permission(&self, key: &PublicKey, token: Option<&Token>) -> Option<Permission> {
        let state = self.lock();
        let allowed = match &state.allow {
            Allow::Any => true,
            Allow::Keys(keys) => keys.contains(key),
        };
        if allowed {
            return Some(Permission::Allowed);
        }
        let token = token?;
        // All of them are compared, in constant time each.
        let known = state.tokens.iter().fold(false, |known, other| known | (other == token));
        known.then(|| Permission::ByToken(token.clone()))
    }

    /// Uses up a token and allows this key. Returns false if another key has used the token.
    pub(super) fn use_up(&self, token: &Token, key: PublicKey) -> bool {
        let mut state = self.lock();
        let Some(index) = state.tokens.iter().position(|other| other == token) else {
            return false;
        };
        state.tokens.swap_remove(index);
        state.allow(key);
        true
    }
}

impl State {
    fn allow(&mut self, key: PublicKey) {
        if let Allow::Keys(keys) = &mut self.allow {
            keys.insert(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::SecretKey;

    #[test]
    fn a_token_admits_one_key_in_all_shards() {
        let [one, other] = [1, 2].map(|byte| SecretKey::from_bytes([byte; 32]).public());
        let token = Token::from_bytes([9; Token::LEN]);
        let shards = [(); 2].map({
            let admissions = Admissions::new(Allow::nobody());
            move |()| admissions.clone()
        });
        shards[0].invite(token.clone());
        shards[1].invite(token.clone());
        let permission = |key| shards[1].permission(key, Some(&token));
        assert_eq!(permission(&one), Some(Permission::ByToken(token.clone())));
        assert_eq!(shards[0].permission(&one, None), None);
        // Both handshakes are on the way when the first of them ends.
        assert!(shards[0].use_up(&token, one) && !shards[1].use_up(&token, other));
        assert_eq!((permission(&one), permission(&other)), (Some(Permission::Allowed), None));
        shards[0].revoke(&one);
        assert_eq!(permission(&one), None);
    }
}
