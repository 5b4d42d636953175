//! Evicts associations when an endpoint is full.
//!
//! As long as there is room, no association is evicted, however long it is idle and however many there
//! are at one address: 10,000 idle ones behind one NAT are normal. Only when associations wait for
//! memory, or new ones for a place, all are examined, at most once per second.
//!
//! *Memory*: associations that hold much release memory only if one that holds little needs it.
//! Out-of-order data is dropped first, starting with associations that make no progress; the peers
//! retransmit it. If that is not enough, associations are ended that hold more than their guaranteed
//! amount because of their peers and have been at rest for several RTOs. Data that the user does not
//! read does not count, because it is not the peer's fault. Holders are compared by host: a host that
//! holds much with many associations comes before one that holds as much with one.
//!
//! *Places*: a new association replaces one that never carried data, or that waits for a peer at rest.
//! If there is none, the host with the most places loses quiet ones to hosts with fewer.
//!
//! A host that uses more than a quarter of the memory or of the places with several associations cannot
//! keep it by moving a byte from time to time: its associations may be evicted after two to five
//! seconds without progress, until it is down to its share, a quarter. A host is an IPv4 address, or
//! the first 64 bits of an IPv6 address: a single machine can use every address with that prefix,
//! though many machines may share it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use super::Endpoint;
use crate::association::Association;
use crate::event::AssociationId;
use crate::time::Instant;

/// Time between two examinations of all associations.
const PERIOD: Duration = Duration::from_secs(1);

/// Maximum number of evictable associations that one examination collects.
const MOST_PLACES: usize = 1024;

/// If others need it, a host may have 1/SHARE of an endpoint's memory and of its places.
const SHARE: usize = 4;

/// State for choosing the associations to evict.
#[derive(Debug, Default)]
pub(super) struct Pressure {
    /// When all associations are next examined for memory.
    at: Option<Instant>,
    /// Associations may be restricted to their guaranteed memory.
    restricted: bool,
    /// When all associations were last examined for places.
    looked: Option<Instant>,
    /// Associations that can be evicted, with the number of places of their hosts.
    places: VecDeque<(AssociationId, usize)>,
    /// Number of associations examined, for tests that count work.
    #[cfg(test)]
    pub(super) looks: u64,
}

/// An association that holds memory.
struct Holder {
    id: AssociationId,
    held: usize,
    host: IpAddr,
    at_rest: bool,
    /// Bytes that this side cannot release because of the peer.
    for_peer: usize,
    /// There was no progress for long enough if its host has more than its share.
    quiet: bool,
}

/// The memory that a host's associations hold, counting those above the guaranteed amount.
#[derive(Debug, Default, Clone, Copy)]
struct Held {
    bytes: usize,
    associations: usize,
}

impl Held {
    fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.associations += 1;
    }

    fn remove(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.associations -= 1;
    }
}

impl Pressure {
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.at
    }

    /// Records whether associations may wait for memory.
    pub(super) fn note(&mut self, now: Instant, short: bool) {
        if short && self.at.is_none() {
            self.at = Some(now + PERIOD);
        }
    }
}

impl Endpoint {
    /// Releases memory if that is due.
    pub(super) fn relieve_if_due(&mut self, now: Instant) {
        if self.pressure.at.is_none_or(|at| at > now) {
            return;
        }
        // Associations request memory again after others have ended or released memory.
        self.pressure.at = Some(now + PERIOD);
        if self.memory().is_short() && self.memory().is_needed() && !self.memory().is_relieved() {
            self.relieve(now);
        }
        if !self.memory().is_short() || self.memory().is_relieved() {
            self.pressure.at = None;
            if std::mem::take(&mut self.pressure.restricted) {
                self.restrict(|_| false);
            }
        }
    }

    fn relieve(&mut self, now: Instant) {
        let mut holders = self.holders(now);
        let mut by_host: BTreeMap<IpAddr, Held> = BTreeMap::new();
        for holder in &holders {
            by_host.entry(holder.host).or_default().add(holder.held);
        }
        let of_host = |host: &IpAddr| by_host.get(host).map_or(0, |held| held.bytes);
        holders.sort_by_key(|holder| Reverse((holder.at_rest, of_host(&holder.host), holder.held)));
        for holder in &holders {
            if self.memory().is_relieved() {
                return;
            }
            let association = self.get_mut(holder.id);
            if association.is_some_and(|association| association.give_back() > 0) {
                self.after(now, holder.id);
            }
        }
        let (floor, most) = (self.memory().floor(), self.config.memory_limit / SHARE);
        let several = self.has_several_hosts();
        let mut left = by_host.clone();
        for holder in holders.iter().filter(|holder| holder.for_peer > floor) {
            if self.memory().is_relieved() {
                return;
            }
            let Some(left) = left.get_mut(&holder.host) else { continue };
            // A single association cannot hold more than its buffers.
            let has_many = several && left.associations > 1 && left.bytes > most;
            if holder.at_rest || has_many && holder.quiet {
                left.remove(holder.held);
                self.end(now, holder.id);
            }
        }
        // A host that still holds too much does not get more.
        if by_host.len() > 1 && by_host.values().any(|held| held.bytes > most) {
            self.pressure.restricted = true;
            self.restrict(|host| by_host.get(&host).is_some_and(|held| held.bytes > most));
        }
    }

    fn has_several_hosts(&self) -> bool {
        let mut hosts = self.associations().filter_map(|id| host_of(self.association(id)?));
        let first = hosts.next();
        hosts.any(|host| Some(host) != first)
    }

    /// The associations that hold more than the guaranteed amount.
    fn holders(&mut self, now: Instant) -> Vec<Holder> {
        let floor = self.memory().floor();
        #[cfg(test)]
        {
            self.pressure.looks += self.slots.len() as u64;
        }
        let holder = |id| {
            let association = self.association(id)?;
            let held = association.memory();
            (held > floor).then_some(Holder {
                id,
                held,
                host: host_of(association)?,
                at_rest: association.is_at_rest(now),
                quiet: association.is_quiet(now),
                for_peer: association.held_for_peer(),
            })
        };
        self.associations().filter_map(holder).collect()
    }

    fn restrict(&mut self, restricted: impl Fn(IpAddr) -> bool) {
        for slot in &mut self.slots {
            let Some(association) = slot.association.as_deref_mut() else { continue };
            let host = host_of(association);
            association.restrict(host.is_some_and(&restricted));
        }
    }

    /// Ends an association that is at rest.
    fn end(&mut self, now: Instant, id: AssociationId) {
        if let Some(association) = self.get_mut(id) {
            association.yield_to_others();
        }
        self.after(now, id);
    }

    /// Whether another one must be evicted for a further association.
    pub(super) fn is_full(&self) -> bool {
        let most = self.config.max_associations;
        // Usually few ended associations wait to be removed, but the user may not remove any.
        self.len() - self.ending >= most || self.len() > most + most / SHARE
    }

    /// Whether there is room for another association, possibly by evicting one.
    pub(super) fn may_take(&mut self, now: Instant) -> bool {
        if !self.memory().takes_newcomers() {
            return false;
        }
        if !self.is_full() {
            return true;
        }
        self.find_places_if_due(now);
        !self.pressure.places.is_empty()
    }

    /// If there is no room, evicts an association without progress for one from `newcomer`. Returns
    /// whether there is room now.
    pub(super) fn make_room(&mut self, now: Instant, newcomer: IpAddr) -> bool {
        if !self.memory().takes_newcomers() {
            return false;
        }
        if !self.is_full() {
            return true;
        }
        self.find_places_if_due(now);
        let own = self.places_of(newcomer);
        while let Some((id, of_host)) = self.pressure.places.pop_front() {
            let Some(association) = self.association(id) else { continue };
            if association.is_closed() || !self.yields(now, association, of_host) {
                continue;
            }
            if !is_idle_place(now, association) && of_host <= own + 1 {
                // An association from another host may succeed.
                self.pressure.places.push_front((id, of_host));
                return false;
            }
            self.end(now, id);
            return !self.is_full();
        }
        false
    }

    fn find_places_if_due(&mut self, now: Instant) {
        let looked = self.pressure.looked;
        // Do not keep earlier results, because a host may have fewer places now.
        if looked.is_none_or(|at| now.saturating_since(at) >= PERIOD) {
            self.find_places(now);
        }
    }

    /// Whether an association can be evicted, because it makes no progress. `of_host`: number of places
    /// of its host.
    fn yields(&self, now: Instant, association: &Association, of_host: usize) -> bool {
        let has_many = of_host > 1 && of_host > self.config.max_associations / SHARE;
        association.is_at_rest(now) || has_many && association.is_quiet(now)
    }

    /// Number of places of an address's host, if the last examination collected any of them.
    fn places_of(&self, address: IpAddr) -> usize {
        let host = host(address);
        let found = self
            .pressure
            .places
            .iter()
            .find(|(id, _)| self.association(*id).and_then(host_of) == Some(host));
        found.map_or(0, |(_, count)| *count)
    }

    fn find_places(&mut self, now: Instant) {
        self.pressure.looked = Some(now);
        #[cfg(test)]
        {
            self.pressure.looks += self.slots.len() as u64;
        }
        let mut by_host: BTreeMap<IpAddr, usize> = BTreeMap::new();
        let all = || self.associations().filter_map(|id| Some((id, self.association(id)?)));
        for (_, association) in all() {
            if let Some(host) = host_of(association) {
                *by_host.entry(host).or_default() += 1;
            }
        }
        let most = self.config.max_associations / SHARE;
        let mut places: Vec<_> = all()
            .filter(|(_, association)| association.is_incoming())
            .filter_map(|(id, association)| {
                let host = host_of(association)?;
                let count = by_host.get(&host).copied().unwrap_or(0);
                let idle = is_idle_place(now, association);
                let key = (Reverse(idle), Reverse(count), Reverse(association.quiet_for(now)));
                let could = (idle || count > most) && self.yields(now, association, count);
                could.then_some((key, id, count, host))
            })
            .collect();
        places.sort_unstable();
        // A host keeps a quarter, unless it does not use them.
        places.retain(|((Reverse(idle), ..), _, _, host)| {
            let left = by_host.entry(*host).or_default();
            let ends = *idle || *left > most;
            *left = left.saturating_sub(usize::from(ends));
            ends
        });
        places.truncate(MOST_PLACES);
        self.pressure.places = places.into_iter().map(|(_, id, count, _)| (id, count)).collect();
    }
}

/// The prefix of IPv4 hosts behind a translator, which is followed by their address (RFC 6052, RFC
/// 7755).
const TRANSLATED: u128 = 0x64_ff9b << 96;

/// The host that has an address, as far as is known. A machine with an IPv6 address can use all
/// addresses with the same first 64 bits, except on a link, and where IPv4 addresses are embedded.
fn host(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address.to_canonical() else { return address.to_canonical() };
    let bits = v6.to_bits();
    if v6.is_unicast_link_local() || bits >> 32 << 32 == TRANSLATED {
        return address;
    }
    IpAddr::V6(Ipv6Addr::from_bits(bits >> 64 << 64))
}

/// The host of an association's peer.
fn host_of(association: &Association) -> Option<IpAddr> {
    association.remotes().next().map(host)
}

/// Whether an association is at rest and useless: it never carried data, or holds data that its peer
/// does not accept or complete.
fn is_idle_place(now: Instant, association: &Association) -> bool {
    let unused = !association.carried_data() || association.held_for_peer() > 0;
    unused && association.is_at_rest(now)
}
