//! Who gives way when an endpoint has no room left.
//!
//! As long as there is room nobody is asked, however long an association is quiet and however many
//! come from one address: 10,000 quiet ones behind a NAT are a normal thing to hold. Only when
//! associations wait for memory, or newcomers for a place, all are looked at, once in a second at
//! the most.
//!
//! *Memory*: somebody who holds little has to need it; those who hold much are not asked for the sake of
//! each other. What waits behind a hole goes first, for those on which nothing moves before others;
//! the peers send it again. If that is not enough, associations whose peers have them hold more than
//! their floor and that have been at rest for several RTOs are ended; what a user does not read is
//! not the peer's fault. Addresses come before associations: who holds much with many associations is
//! asked before who holds as much with one.
//!
//! *Places*: an association that never carried data, or waits for a peer that is at rest, is ended
//! for one that comes. If there are none, the address that holds the most places gives up quiet ones,
//! for the benefit of addresses with fewer.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use super::Endpoint;
use crate::association::Association;
use crate::event::AssociationId;
use crate::time::Instant;

/// Time between two looks at all associations.
const PERIOD: Duration = Duration::from_secs(1);

/// Places that one look finds at the most.
const MOST_PLACES: usize = 1024;

/// The part of an endpoint's memory, and of its places, that one address may have when others want
/// it.
const SHARE: usize = 4;

/// What is known of who could give way.
#[derive(Debug, Default)]
pub(super) struct Pressure {
    /// When all are looked at for memory.
    at: Option<Instant>,
    /// Associations may be restricted to their floors.
    restricted: bool,
    /// When all were last looked at for places.
    looked: Option<Instant>,
    /// Those who could give up their place, with the places that their addresses have.
    places: VecDeque<(AssociationId, usize)>,
    /// Associations looked at, for tests that count work.
    #[cfg(test)]
    pub(super) looks: u64,
}

/// An association that holds memory.
struct Holder {
    id: AssociationId,
    held: usize,
    address: IpAddr,
    at_rest: bool,
    /// It could be ended for others.
    stuck: bool,
}

impl Pressure {
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.at
    }

    /// Associations may wait for memory.
    pub(super) fn note(&mut self, now: Instant, short: bool) {
        if short && self.at.is_none() {
            self.at = Some(now + PERIOD);
        }
    }
}

impl Endpoint {
    /// Looks for memory if that is due.
    pub(super) fn relieve_if_due(&mut self, now: Instant) {
        if self.pressure.at.is_none_or(|at| at > now) {
            return;
        }
        // Ended or asked to give back, they announce their needs anew.
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
        let mut by_address: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for holder in &holders {
            *by_address.entry(holder.address).or_default() += holder.held;
        }
        let of_address = |address: &IpAddr| by_address.get(address).copied().unwrap_or(0);
        holders.sort_by_key(|holder| {
            Reverse((holder.at_rest, of_address(&holder.address), holder.held))
        });
        for holder in &holders {
            if self.memory().is_relieved() {
                return;
            }
            let association = self.get_mut(holder.id);
            if association.is_some_and(|association| association.give_back() > 0) {
                self.after(now, holder.id);
            }
        }
        for holder in holders.iter().filter(|holder| holder.stuck) {
            if self.memory().is_relieved() {
                return;
            }
            self.end(now, holder.id);
        }
        // Who still holds too much gets no more.
        let most = self.config.memory_limit / SHARE;
        if by_address.len() > 1 && by_address.values().any(|held| *held > most) {
            self.pressure.restricted = true;
            self.restrict(|address| by_address.get(&address).is_some_and(|held| *held > most));
        }
    }

    /// The associations that hold more than their floor.
    fn holders(&mut self, now: Instant) -> Vec<Holder> {
        let floor = self.memory().floor();
        #[cfg(test)]
        {
            self.pressure.looks += self.slots.len() as u64;
        }
        let holder = |id| {
            let association = self.association(id)?;
            let (held, at_rest) = (association.memory(), association.is_at_rest(now));
            let address = association.remotes().next()?;
            let stuck = at_rest && association.held_for_peer() > floor;
            (held > floor).then_some(Holder { id, held, address, at_rest, stuck })
        };
        self.associations().filter_map(holder).collect()
    }

    fn restrict(&mut self, restricted: impl Fn(IpAddr) -> bool) {
        for slot in &mut self.slots {
            let Some(association) = slot.association.as_deref_mut() else { continue };
            let address = association.remotes().next();
            association.restrict(address.is_some_and(&restricted));
        }
    }

    /// Ends an association that is at rest.
    fn end(&mut self, now: Instant, id: AssociationId) {
        if let Some(association) = self.get_mut(id) {
            association.yield_to_others();
        }
        self.after(now, id);
    }

    /// Whether no association more is taken, unless another one gives way.
    pub(super) fn is_full(&self) -> bool {
        let most = self.config.max_associations;
        // Those that have ended and wait to be removed are few, or nobody removes them.
        self.len() - self.ending >= most || self.len() > most + most / SHARE
    }

    /// Whether one more may be taken, if another gives way.
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

    /// Has one that is at rest give way to an association with `newcomer` if there is no room.
    /// Whether there is room now.
    pub(super) fn make_room(&mut self, now: Instant, newcomer: IpAddr) -> bool {
        if !self.memory().takes_newcomers() {
            return false;
        }
        if !self.is_full() {
            return true;
        }
        self.find_places_if_due(now);
        let own = self.places_of(newcomer);
        while let Some((id, of_address)) = self.pressure.places.pop_front() {
            let Some(association) = self.association(id) else { continue };
            if association.is_closed() || !association.is_at_rest(now) {
                continue;
            }
            if !is_idle_place(association) && of_address <= own + 1 {
                // Another one may have fewer.
                self.pressure.places.push_front((id, of_address));
                return false;
            }
            self.end(now, id);
            return !self.is_full();
        }
        false
    }

    fn find_places_if_due(&mut self, now: Instant) {
        let looked = self.pressure.looked;
        let due = looked.is_none_or(|at| now.saturating_since(at) >= PERIOD);
        if self.pressure.places.is_empty() && due {
            self.find_places(now);
        }
    }

    /// Places that an address has among those that were found.
    fn places_of(&self, address: IpAddr) -> usize {
        let found = self.pressure.places.iter().find(|(id, _)| {
            let association = self.association(*id);
            association.and_then(|association| association.remotes().next()) == Some(address)
        });
        found.map_or(0, |(_, count)| *count)
    }

    fn find_places(&mut self, now: Instant) {
        self.pressure.looked = Some(now);
        #[cfg(test)]
        {
            self.pressure.looks += self.slots.len() as u64;
        }
        let mut by_address: BTreeMap<IpAddr, usize> = BTreeMap::new();
        let all = || self.associations().filter_map(|id| Some((id, self.association(id)?)));
        for (_, association) in all() {
            if let Some(address) = association.remotes().next() {
                *by_address.entry(address).or_default() += 1;
            }
        }
        let most = self.config.max_associations / SHARE;
        let mut places: Vec<_> = all()
            .filter(|(_, association)| association.is_incoming() && association.is_at_rest(now))
            .filter_map(|(id, association)| {
                let address = association.remotes().next()?;
                let count = by_address.get(&address).copied().unwrap_or(0);
                let idle = is_idle_place(association);
                let key = (Reverse(idle), Reverse(count), Reverse(association.quiet_for(now)));
                (idle || count > most).then_some((key, id, count))
            })
            .collect();
        places.sort_unstable();
        places.truncate(MOST_PLACES);
        self.pressure.places = places.into_iter().map(|(_, id, count)| (id, count)).collect();
    }
}

/// Whether an association that is at rest is of no use to anybody: it never carried anything, or
/// holds what its peer does not take or complete.
fn is_idle_place(association: &Association) -> bool {
    !association.carried_data() || association.held_for_peer() > 0
}
