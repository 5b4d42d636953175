//! What a program sees of sealed paths, and can change.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::core::Core;
use super::{PATHS, PublicKey, Token, Uplink};

/// A change that waits for the endpoint to be bound.
#[derive(Debug)]
enum Change {
    Invite(Token),
    Allow(PublicKey),
    Revoke(PublicKey),
    SetUplink(u8, bool),
    ReplaceUplink(u8, Uplink),
}

#[derive(Default)]
enum State {
    #[default]
    Unbound,
    Waiting(Vec<Change>),
    Bound(Bound),
}

/// The sealed paths of an endpoint that is bound, for each shard.
#[derive(Clone)]
struct Bound(Arc<[Arc<Mutex<Core>>]>);

/// One sealed path to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SealedPath {
    /// The peer's key.
    pub key: PublicKey,
    /// The peer's virtual address on this path, which an association names as the remote one.
    pub address: IpAddr,
    /// The path number.
    pub number: u8,
    /// The peer's real address, if it has answered.
    pub remote: Option<SocketAddr>,
    /// The handshake with the peer is done.
    pub has_session: bool,
}

/// Follows and changes the sealed paths of an endpoint. Changes before the endpoint is bound take effect then. Clones
/// refer to the same endpoint.
#[derive(Clone, Default)]
pub struct SealHandle(Arc<Mutex<State>>);

impl SealHandle {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bound(&self) -> Option<Bound> {
        match &*self.lock() {
            State::Bound(bound) => Some(bound.clone()),
            State::Unbound | State::Waiting(_) => None,
        }
    }

    /// Attaches an endpoint. Returns false if there is one.
    pub(super) fn attach(&self, shards: &Arc<[Arc<Mutex<Core>>]>) -> bool {
        let bound = Bound(shards.clone());
        let mut state = self.lock();
        let changes = match &mut *state {
            State::Bound(_) => return false,
            State::Unbound => Vec::new(),
            State::Waiting(changes) => std::mem::take(changes),
        };
        *state = State::Bound(bound.clone());
        drop(state);
        changes.iter().for_each(|change| bound.apply(change));
        true
    }

    fn change(&self, change: Change) {
        let mut state = self.lock();
        match &mut *state {
            State::Unbound => *state = State::Waiting(vec![change]),
            State::Waiting(changes) => changes.push(change),
            State::Bound(bound) => {
                let bound = bound.clone();
                drop(state);
                bound.apply(&change);
            }
        }
    }

    /// Admits the key of whoever uses this token first. The key stays allowed until the endpoint ends;
    /// [`Seal::on_admitted`](super::Seal::on_admitted) can store it.
    pub fn invite(&self, token: Token) {
        self.change(Change::Invite(token));
    }

    /// Allows a key.
    pub fn allow(&self, key: PublicKey) {
        self.change(Change::Allow(key));
    }

    /// No longer allows a key, and ends its sessions and associations. The peer is not told and gets no more answers; abort
    /// its associations before to tell it.
    pub fn revoke(&self, key: PublicKey) {
        self.change(Change::Revoke(key));
    }

    /// Switches an uplink of a client off or on again: its path is down, or up if the uplink is there.
    pub fn set_uplink(&self, number: u8, on: bool) {
        self.change(Change::SetUplink(number, on));
    }

    /// Uses another uplink of a client for this path; a path that had none gets one. Numbers from [`PATHS`] on are
    /// ignored.
    pub fn replace_uplink(&self, number: u8, uplink: Uplink) {
        if number < PATHS {
            self.change(Change::ReplaceUplink(number, uplink));
        }
    }

    /// The key of the peer with this virtual address.
    pub fn peer_of(&self, address: IpAddr) -> Option<PublicKey> {
        self.bound()?.shards().find_map(|core| core.engine.peer_of(address))
    }

    /// The paths to all peers. Empty before the endpoint is bound.
    pub fn paths(&self) -> Vec<SealedPath> {
        let Some(bound) = self.bound() else { return Vec::new() };
        let path = |path: anabranch_seal::PathStatus| SealedPath {
            key: path.key,
            address: path.address.into(),
            number: path.number,
            remote: path.route.map(|route| route.remote),
            has_session: path.has_session,
        };
        bound.shards().flat_map(|core| core.engine.paths()).map(path).collect()
    }
}

impl Bound {
    /// The shards, each locked while the caller looks at it.
    fn shards(&self) -> impl Iterator<Item = MutexGuard<'_, Core>> {
        self.0.iter().map(|core| core.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn apply(&self, change: &Change) {
        for mut core in self.shards() {
            match change {
                Change::Invite(token) => core.engine.invite(token.clone()),
                Change::Allow(key) => core.engine.allow(*key),
                Change::Revoke(key) => {
                    core.engine.revoke(key);
                    // The endpoint's task ends the associations.
                    core.wake();
                }
                Change::SetUplink(number, on) => {
                    if let Some(uplink) = core.uplinks.get_mut(usize::from(*number)) {
                        uplink.enabled = *on;
                    }
                    core.look_again();
                }
                Change::ReplaceUplink(number, uplink) => {
                    core.replace_uplink((*number).into(), uplink.clone());
                }
            }
        }
    }
}

impl fmt::Debug for SealHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = matches!(*self.lock(), State::Bound(_));
        f.debug_struct("SealHandle").field("bound", &bound).finish()
    }
}
