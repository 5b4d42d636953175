//! Which association a packet belongs to.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, Hasher};
use std::net::IpAddr;

use siphasher::sip::SipHasher13;

use crate::event::AssociationId;

/// What identifies an association in a packet: the peer's transport address and this side's
/// port. The local address does not matter: all of them are this endpoint's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    remote: IpAddr,
    remote_port: u16,
    local_port: u16,
}

impl Key {
    pub(super) fn new(remote: IpAddr, remote_port: u16, local_port: u16) -> Self {
        Self { remote, remote_port, local_port }
    }
}

/// Keyed, so that peers cannot choose addresses that collide.
#[derive(Clone, Debug)]
struct Keyed((u64, u64));

impl BuildHasher for Keyed {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0.0, self.0.1)
    }
}

/// The table of associations by [`Key`]. It is never iterated in hash order.
#[derive(Debug)]
pub(super) struct Demux {
    by_key: HashMap<Key, AssociationId, Keyed>,
    /// The same the other way round, for events that concern an address.
    by_remote: BTreeSet<(IpAddr, AssociationId)>,
    /// The key that was looked up last: packets come in trains.
    last: Option<(Key, AssociationId)>,
}

impl Demux {
    pub(super) fn new(key: (u64, u64)) -> Self {
        // The hasher's quality matters, so it is exercised once where a failure would be seen.
        debug_assert_ne!(Keyed(key).build_hasher().finish(), 0);
        Self { by_key: HashMap::with_hasher(Keyed(key)), by_remote: BTreeSet::new(), last: None }
    }

    /// Whether `key` is the last one looked up and belongs to `id`.
    pub(super) fn is_last(&self, key: &Key, id: AssociationId) -> bool {
        self.last.as_ref() == Some(&(*key, id))
    }

    pub(super) fn find(&mut self, key: &Key) -> Option<AssociationId> {
        if let Some((last, id)) = &self.last
            && last == key
        {
            return Some(*id);
        }
        let id = self.by_key.get(key).copied()?;
        self.last = Some((*key, id));
        Some(id)
    }

    /// Adds an address of an association; one that another association has stays with it.
    /// Returns the association that has the address now.
    pub(super) fn insert(&mut self, key: Key, id: AssociationId) -> AssociationId {
        let owner = *self.by_key.entry(key).or_insert(id);
        if owner == id {
            self.by_remote.insert((key.remote, id));
        }
        owner
    }

    pub(super) fn remove(&mut self, key: &Key, id: AssociationId) {
        if self.by_key.get(key) == Some(&id) {
            self.by_key.remove(key);
            self.by_remote.remove(&(key.remote, id));
        }
        self.last = None;
    }

    /// The associations that have this remote address.
    pub(super) fn with_remote(&self, remote: IpAddr) -> Vec<AssociationId> {
        let from = (remote, AssociationId { slot: 0, generation: 0 });
        self.by_remote
            .range(from..)
            .take_while(|(address, _)| *address == remote)
            .map(|(_, id)| *id)
            .collect()
    }
}
