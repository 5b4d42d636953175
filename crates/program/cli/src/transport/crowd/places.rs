//! Decides which connections have a place, and which lose theirs to a new connection.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

use tokio::task::AbortHandle;

/// When others need a place, an address may keep 1/SHARE of all.
const SHARE: usize = 4;

/// An IPv4 address, or the first 64 bits of an IPv6 address, because a host may use all addresses with its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Site(IpAddr);

impl Site {
    pub(super) fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
            v4 @ IpAddr::V4(_) => v4,
        })
    }
}

/// The state of a connection. If places are needed, connections are closed in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    /// It has not sent a request yet.
    Silent,
    /// It has received all answers; the number is the turn when that happened.
    Idle(u64),
    /// An answer is in progress.
    Busy,
}

#[derive(Debug)]
struct Connection {
    site: Site,
    state: State,
    task: Option<AbortHandle>,
}

/// The connections of a site, in the order in which they are closed.
type Members = BTreeSet<(State, u64)>;

/// All places.
#[derive(Debug, Default)]
pub(super) struct Places {
    most: usize,
    /// Incremented for each new connection, and whenever one changes its state.
    turn: u64,
    connections: BTreeMap<u64, Connection>,
    sites: BTreeMap<Site, Members>,
    /// The sites by their number of places.
    sizes: BTreeSet<(usize, Site)>,
    /// The same, for sites with at least one connection without an answer in progress.
    idle: BTreeSet<(usize, Site)>,
}

impl Places {
    pub(super) fn new(most: usize) -> Self {
        Self { most: most.max(1), ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.connections.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() >= self.most
    }

    /// Whether there is a connection without an answer in progress.
    pub(super) fn has_idle(&self) -> bool {
        !self.idle.is_empty()
    }

    /// The number of places that each site may keep.
    fn share(&self) -> usize {
        self.most.div_ceil(SHARE)
    }

    /// Whether a site has more than its share.
    pub(super) fn has_greedy(&self) -> bool {
        self.sizes.last().is_some_and(|(size, _)| *size > self.share())
    }

    /// Makes room for a connection from this site by closing another one if all places are taken. Returns `false` if
    /// that is impossible.
    ///
    /// Prefers connections without a request or with all of their answers, from the site that has the most
    /// connections. If all are being answered, a site with less than its share takes a place from one with more.
    pub(super) fn make_room(&mut self, site: Site) -> bool {
        if !self.is_full() {
            return true;
        }
        if let Some((_, largest)) = self.idle.last().copied() {
            return self.end_one(largest, false);
        }
        let own = self.sites.get(&site).map_or(0, BTreeSet::len);
        match self.sizes.last().copied() {
            Some((size, largest)) if own < self.share() && size > self.share() => {
                self.end_one(largest, true)
            }
            _ => false,
        }
    }

    /// Closes one of a site's connections: the first or the last in their order.
    fn end_one(&mut self, site: Site, last: bool) -> bool {
        let members = self.sites.get(&site);
        let one = members.and_then(|members| if last { members.last() } else { members.first() });
        let Some((_, number)) = one.copied() else { return false };
        let task = self.remove(number);
        if let Some(task) = task {
            task.abort();
        }
        true
    }

    /// Adds a connection and returns its number.
    pub(super) fn add(&mut self, site: Site) -> u64 {
        let number = self.next_turn();
        self.connections.insert(number, Connection { site, state: State::Silent, task: None });
        self.change(site, |members| {
            members.insert((State::Silent, number));
        });
        number
    }

    /// Sets the task that serves a connection.
    pub(super) fn set_task(&mut self, number: u64, task: AbortHandle) {
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.task = Some(task);
        }
    }

    /// Sets whether a connection has an answer in progress.
    pub(super) fn set_busy(&mut self, number: u64, busy: bool) {
        let turn = self.next_turn();
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let before = connection.state;
        connection.state = if busy { State::Busy } else { State::Idle(turn) };
        let (site, after) = (connection.site, connection.state);
        self.change(site, |members| {
            members.remove(&(before, number));
            members.insert((after, number));
        });
    }

    /// Removes a connection that has ended. Returns its task.
    pub(super) fn remove(&mut self, number: u64) -> Option<AbortHandle> {
        let Connection { site, state, task } = self.connections.remove(&number)?;
        self.change(site, |members| {
            members.remove(&(state, number));
        });
        task
    }

    fn next_turn(&mut self) -> u64 {
        self.turn += 1;
        self.turn
    }

    fn change(&mut self, site: Site, change: impl FnOnce(&mut Members)) {
        let members = self.sites.entry(site).or_default();
        let before = (members.len(), site);
        change(members);
        let after = (members.len(), site);
        let has_idle = members.first().is_some_and(|(state, _)| *state != State::Busy);
        if members.is_empty() {
            self.sites.remove(&site);
        }
        self.sizes.remove(&before);
        self.idle.remove(&before);
        if after.0 > 0 {
            self.sizes.insert(after);
        }
        if has_idle {
            self.idle.insert(after);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(number: u8) -> Site {
        Site::of([10, 0, 0, number].into())
    }

    /// The numbers of the open connections.
    fn numbers(places: &Places) -> Vec<u64> {
        places.connections.keys().copied().collect()
    }

    #[test]
    fn a_host_has_a_whole_prefix() {
        let of = |text: &str| Site::of(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    }

    #[test]
    fn the_silent_go_first_and_then_the_idle() {
        let mut places = Places::new(4);
        let [busy, idle, silent, later] = [(); 4].map(|()| {
            assert!(places.make_room(site(1)));
            places.add(site(1))
        });
        places.set_busy(busy, true);
        for number in [later, idle] {
            places.set_busy(number, true);
            places.set_busy(number, false);
        }
        for gone in [silent, later, idle] {
            assert!(places.has_idle() && places.make_room(site(1)));
            assert!(!numbers(&places).contains(&gone));
            let new = places.add(site(1));
            places.set_busy(new, true);
        }
        assert!(numbers(&places).contains(&busy) && !places.has_idle());
        assert!(!places.make_room(site(1)), "all of them are being answered");
    }

    #[test]
    fn a_site_with_more_than_its_share_loses_it_to_others_only() {
        let mut places = Places::new(8);
        let greedy: Vec<_> = (0..8).map(|_| places.add(site(1))).collect();
        greedy.iter().for_each(|number| places.set_busy(*number, true));
        assert!(places.has_greedy() && !places.make_room(site(1)));
        for _ in 0..2 {
            assert!(places.make_room(site(2)));
            let number = places.add(site(2));
            places.set_busy(number, true);
        }
        assert_eq!(numbers(&places)[..6], greedy[..6], "the last ones are closed");
        assert!(!places.make_room(site(2)), "it has its share");
        for other in 3..=4 {
            for _ in 0..2 {
                assert!(places.make_room(site(other)));
                let number = places.add(site(other));
                places.set_busy(number, true);
            }
        }
        assert!(!places.has_greedy() && !places.make_room(site(9)), "every site has a share");
        for number in numbers(&places) {
            places.remove(number);
            places.set_busy(number, false);
        }
        assert!(places.sites.is_empty() && places.sizes.is_empty() && places.idle.is_empty());
    }

    #[test]
    fn the_site_with_most_gives_its_idle_ones() {
        let mut places = Places::new(10);
        let few = places.add(site(2));
        let many: Vec<_> = (0..9).map(|_| places.add(site(1))).collect();
        for (gone, number) in many.iter().enumerate().take(8) {
            assert!(places.make_room(site(3)));
            assert!(!numbers(&places).contains(number), "{gone}");
            places.add(Site::of([10, 1, 0, gone as u8].into()));
        }
        assert!(numbers(&places).contains(&few));
    }
}
