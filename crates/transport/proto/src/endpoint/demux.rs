//! Finds the association of a packet.
//!
//! Hosts that share an address, because of a NAT or on one machine, may choose the same SCTP ports. Only the
//! UDP port distinguishes them, so it is part of the key of associations that a peer began. Only addresses
//! that are known to be the peer's are keys, because an address that was listed but not verified may belong
//! to any host. For packets from such an address, or from a port that a NAT has changed, the verification tag
//! identifies the association.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hash, Hasher};
use std::net::IpAddr;

use anabranch_wire::Header;
use siphasher::sip::SipHasher13;

use crate::association::Association;
use crate::event::AssociationId;

/// UDP port in the keys of associations that this side began, and of those without encapsulation: there is
/// only one such peer at an address, whatever its source port is.
pub(super) const ANY: u16 = 0;

/// The fields of a packet that identify an association: the peer's transport address, its UDP port and this
/// side's port. The local address does not matter, because all of them belong to this endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    remote: IpAddr,
    udp_port: u16,
    remote_port: u16,
    local_port: u16,
}

impl Key {
    pub(super) fn new(remote: IpAddr, udp_port: u16, remote_port: u16, local_port: u16) -> Self {
        Self { remote, udp_port, remote_port, local_port }
    }

    /// The same for an association that this side began.
    pub(super) fn of_any_port(self) -> Self {
        Self { udp_port: ANY, ..self }
    }

    /// Sort order that groups the associations with a remote address, and those with its ports.
    fn entry(&self, id: AssociationId) -> (IpAddr, u16, u16, AssociationId) {
        (self.remote, self.remote_port, self.local_port, id)
    }
}

/// An association's own verification tag and its ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tag {
    pub(super) tag: u32,
    remote_port: u16,
    local_port: u16,
}

impl Tag {
    /// The tag of an association.
    pub(super) fn of(association: &Association) -> Self {
        let (remote_port, local_port) = (association.remote_port(), association.local_port());
        Self { tag: association.verification_tag(), remote_port, local_port }
    }

    /// The tag of an arriving packet with this header, if its verification tag were `tag`.
    pub(super) fn arriving(tag: u32, header: Header) -> Self {
        Self { tag, remote_port: header.source_port, local_port: header.destination_port }
    }
}

/// A keyed hash, so that peers cannot choose addresses that collide.
#[derive(Clone, Debug)]
struct Keyed((u64, u64));

impl BuildHasher for Keyed {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0.0, self.0.1)
    }
}

#[expect(clippy::disallowed_types, reason = "keyed from the seed, and never iterated")]
type Table<K> = std::collections::HashMap<K, AssociationId, Keyed>;

/// The table of associations by [`Key`] and by [`Tag`]. It is never iterated in hash order.
#[derive(Debug)]
pub(super) struct Demux {
    by_key: Table<Key>,
    by_tag: Table<Tag>,
    /// Associations whose tag another association already has.
    twins: Vec<(Tag, AssociationId)>,
    /// By remote address, verified or not, and ports: to find associations by address for network
    /// errors.
    by_remote: BTreeSet<(IpAddr, u16, u16, AssociationId)>,
    /// The key that was last looked up, because packets arrive in trains.
    last: Option<(Key, AssociationId)>,
}

impl Demux {
    pub(super) fn new(key: (u64, u64)) -> Self {
        // The hasher must work, so use it once where a failure would be noticed.
        debug_assert_ne!(Keyed(key).build_hasher().finish(), 0);
        Self {
            by_key: Table::with_hasher(Keyed(key)),
            by_tag: Table::with_hasher(Keyed(key)),
            twins: Vec::new(),
            by_remote: BTreeSet::new(),
            last: None,
        }
    }

    /// Whether `key` is the last one looked up and belongs to `id`.
    pub(super) fn is_last(&self, key: &Key, id: AssociationId) -> bool {
        self.last.as_ref() == Some(&(*key, id))
    }

    /// Finds the association of packets with this key, by addresses and ports alone.
    pub(super) fn find(&mut self, key: &Key) -> Option<AssociationId> {
        if let Some((last, id)) = &self.last
            && last == key
        {
            return Some(*id);
        }
        let id = self.owner(key).or_else(|| self.owner(&key.of_any_port()))?;
        self.last = Some((*key, id));
        Some(id)
    }

    /// The association that has exactly this key.
    pub(super) fn owner(&self, key: &Key) -> Option<AssociationId> {
        self.by_key.get(key).copied()
    }

    /// The association whose packets carry this tag.
    pub(super) fn find_tag(&self, tag: &Tag) -> Option<AssociationId> {
        self.by_tag.get(tag).copied()
    }

    /// Records that packets with this key belong to `id`, which was found by their tag.
    pub(super) fn remember(&mut self, key: Key, id: AssociationId) {
        self.last = Some((key, id));
    }

    /// Adds the tag of an association. An established association takes precedence over one in setup: a
    /// cookie of a collision may have created it, with the tag of an association that its peer no longer
    /// uses. Other pairs share a tag with a probability of 2^-32; the association that does not get the
    /// entry is found only by its verified addresses, until the other one ends.
    pub(super) fn insert_tag(&mut self, tag: Tag, id: AssociationId, is_up: bool) {
        let first = *self.by_tag.entry(tag).or_insert(id);
        if first == id {
            return;
        }
        let back = if is_up { self.by_tag.insert(tag, id).unwrap_or(first) } else { id };
        self.twins.push((tag, back));
    }

    pub(super) fn remove_tag(&mut self, tag: &Tag, id: AssociationId) {
        if self.by_tag.get(tag) == Some(&id) {
            match self.twins.iter().position(|(other, _)| other == tag) {
                Some(heir) => self.by_tag.insert(*tag, self.twins.swap_remove(heir).1),
                None => self.by_tag.remove(tag),
            };
        } else {
            self.twins.retain(|twin| *twin != (*tag, id));
        }
        self.last = None;
    }

    /// Records that an association has the address of `key`, without making it the owner of the key.
    pub(super) fn note(&mut self, key: &Key, id: AssociationId) {
        self.by_remote.insert(key.entry(id));
    }

    /// Adds a verified address of an association, unless another association has it. Returns the
    /// association that has the address now.
    pub(super) fn insert(&mut self, key: Key, id: AssociationId) -> AssociationId {
        self.last = None;
        *self.by_key.entry(key).or_insert(id)
    }

    pub(super) fn remove(&mut self, key: &Key, id: AssociationId) {
        if self.by_key.get(key) == Some(&id) {
            self.by_key.remove(key);
        }
        self.by_remote.remove(&key.entry(id));
        self.last = None;
    }

    /// Associations that may claim a key that has become free.
    pub(super) fn heirs(&self, key: &Key) -> Vec<AssociationId> {
        match self.owner(key) {
            Some(_) => Vec::new(),
            None => self.between(key.remote, key.remote_port, key.local_port).collect(),
        }
    }

    /// The associations that have this remote address, verified or not.
    pub(super) fn with(&self, remote: IpAddr) -> Vec<AssociationId> {
        let from = (remote, 0, 0, AssociationId { slot: 0, generation: 0 });
        let theirs = self.by_remote.range(from..).take_while(|entry| entry.0 == remote);
        theirs.map(|(.., id)| *id).collect()
    }

    /// The associations that have this remote address, verified or not, and these ports, whatever
    /// their UDP ports; at most 64.
    pub(super) fn between(
        &self,
        remote: IpAddr,
        remote_port: u16,
        local_port: u16,
    ) -> impl Iterator<Item = AssociationId> + '_ {
        let ends = (remote, remote_port, local_port);
        let from = (remote, remote_port, local_port, AssociationId { slot: 0, generation: 0 });
        self.by_remote
            .range(from..)
            .take_while(move |entry| (entry.0, entry.1, entry.2) == ends)
            .map(|(.., id)| *id)
            .take(64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn associations_are_found_by_their_address_alone() {
        let mut demux = Demux::new((1, 2));
        let ids = [0, 1, 2, 3].map(|slot| AssociationId { slot, generation: 0 });
        let remotes = [1, 2, 2, 3].map(|last| IpAddr::from([192, 0, 2, last]));
        for ((id, remote), port) in ids.into_iter().zip(remotes).zip([7, 9, u16::MAX, 8]) {
            demux.note(&Key::new(remote, ANY, port, port), id);
        }
        assert_eq!(demux.with(remotes[1]), [ids[1], ids[2]]);
        assert_eq!(demux.with(remotes[3]), [ids[3]]);
        assert_eq!(demux.with([192, 0, 2, 4].into()), []);
    }

    #[test]
    fn who_stood_back_has_the_tag_when_the_other_one_ends() {
        let mut demux = Demux::new((1, 2));
        let tag = Tag { tag: 7, remote_port: 1, local_port: 2 };
        let [first, second, third] = [0, 1, 2].map(|slot| AssociationId { slot, generation: 0 });
        demux.insert_tag(tag, first, true);
        demux.insert_tag(tag, first, true);
        demux.insert_tag(tag, second, true);
        demux.insert_tag(tag, third, false);
        assert_eq!(demux.find_tag(&tag), Some(second), "the later one of two that are up");
        demux.remove_tag(&tag, second);
        assert_eq!(demux.find_tag(&tag), Some(first));
        demux.remove_tag(&tag, third);
        demux.remove_tag(&tag, first);
        assert_eq!(demux.find_tag(&tag), None);
        assert!(demux.twins.is_empty());
    }
}
