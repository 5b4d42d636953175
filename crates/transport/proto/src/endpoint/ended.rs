//! Remembers ended associations for the lifetime of their cookies. Otherwise a late or repeated COOKIE
//! ECHO could revive them, with data that was already delivered. A peer that waits for SHUTDOWN COMPLETE must
//! not get an ABORT.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::cookie::CookieContents;
use crate::time::Instant;

/// Maximum number of remembered tags: enough for 546 ends per second during a cookie's lifetime.
const MOST: usize = 32_768;

/// Local tags of the associations that have ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// Local and peer's tags in the order in which their associations ended.
    order: VecDeque<(Instant, u32, u32)>,
    /// Whether each association ended by SHUTDOWN.
    tags: BTreeMap<u32, bool>,
    /// When the association with each of the peers' tags ended.
    peers: BTreeMap<u32, Instant>,
    /// Maximum time that a cookie can be used.
    life: Duration,
    /// When the latest association ended that was forgotten early, for lack of room.
    forgotten: Option<Instant>,
}

/// Why a cookie is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// Its association has ended.
    Used,
    /// It is too old to be sure, by this much.
    TooOld(Duration),
}

impl Ended {
    pub(super) fn new(life: Duration) -> Self {
        Self {
            order: VecDeque::new(),
            tags: BTreeMap::new(),
            peers: BTreeMap::new(),
            life,
            forgotten: None,
        }
    }

    /// Remembers the tags of an association that has ended, or whose tag changed because its peer
    /// restarted. `graceful`: it ended by SHUTDOWN.
    pub(super) fn push(&mut self, now: Instant, tag: u32, peer_tag: u32, graceful: bool) {
        while self.order.front().is_some_and(|(end, ..)| *end + self.life < now) {
            self.pop();
        }
        if self.tags.insert(tag, graceful).is_none() {
            self.order.push_back((now, tag, peer_tag));
            self.peers.insert(peer_tag, now);
        }
        if self.order.len() > MOST {
            self.forgotten = self.pop();
        }
        if self.order.capacity() > 1024 && self.order.len() < self.order.capacity() / 4 {
            self.order.shrink_to(self.order.len() * 2);
        }
    }

    /// Whether the association that had this tag is remembered.
    pub(super) fn has(&self, tag: u32) -> bool {
        self.tags.contains_key(&tag)
    }

    /// Whether the association that had this tag is remembered, and ended by SHUTDOWN.
    pub(super) fn has_shut_down(&self, tag: u32) -> bool {
        self.tags.get(&tag).copied().unwrap_or(false)
    }

    /// Forgets the association that ended first. Returns the time of its end.
    fn pop(&mut self) -> Option<Instant> {
        let (end, tag, peer_tag) = self.order.pop_front()?;
        self.tags.remove(&tag);
        // The peer may have used its tag again.
        if self.peers.get(&peer_tag).is_some_and(|latest| *latest <= end) {
            self.peers.remove(&peer_tag);
        }
        Some(end)
    }

    /// Whether a cookie must not create an association, and why.
    ///
    /// A cookie that was made after the end of the last forgotten association cannot belong to that.
    /// If it is older, the peer must ask for another one.
    pub(super) fn refuses(&self, cookie: &CookieContents) -> Option<Refused> {
        // In a collision there are two cookies, with one tag of the peer, and only one of them becomes the association.
        let ended = self.peers.get(&cookie.peer_tag);
        if self.has(cookie.local_tag) || ended.is_some_and(|end| cookie.created <= *end) {
            return Some(Refused::Used);
        }
        let forgotten = self.forgotten.filter(|forgotten| cookie.created <= *forgotten)?;
        Some(Refused::TooOld(forgotten.saturating_since(cookie.created)))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    const LIFE: Duration = Duration::from_secs(60);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn cookie(created: Instant, local_tag: u32) -> CookieContents {
        cookie_of(created, local_tag, 9)
    }

    fn cookie_of(created: Instant, local_tag: u32, peer_tag: u32) -> CookieContents {
        let nowhere = IpAddr::V4(Ipv4Addr::LOCALHOST);
        CookieContents {
            created,
            lifetime: LIFE,
            local_port: 7,
            remote_port: 8,
            local_tag,
            peer_tag,
            local_initial_tsn: 1,
            peer_initial_tsn: 1,
            peer_rwnd: 1500,
            outbound_streams: 1,
            inbound_streams: 1,
            local_tie_tag: 0,
            peer_tie_tag: 0,
            local: nowhere,
            remote: nowhere,
            remote_udp_port: 0,
            features: crate::features::Features::NONE,
            adaptation_indication: None,
            addresses: Vec::new(),
        }
    }

    #[test]
    fn the_other_cookie_of_a_collision_is_refused() {
        let mut ended = Ended::new(LIFE);
        ended.push(at(1000), 5, 9, true);
        assert_eq!(ended.refuses(&cookie_of(at(900), 6, 9)), Some(Refused::Used));
        assert_eq!(ended.refuses(&cookie_of(at(900), 6, 8)), None);
        assert_eq!(ended.refuses(&cookie_of(at(1100), 6, 9)), None, "the peer uses its tag again");
        ended.push(at(1200), 6, 9, true);
        ended.push(at(61_100), 7, 1, true);
        assert_eq!(ended.refuses(&cookie_of(at(1100), 10, 9)), Some(Refused::Used));
        ended.push(at(61_300), 8, 1, true);
        assert!(ended.peers.len() == 1 && ended.order.len() == 2);
    }

    #[test]
    fn a_used_cookie_stays_used_for_its_life_and_is_forgotten_then() {
        let mut ended = Ended::new(LIFE);
        ended.push(at(1000), 5, 0, false);
        assert_eq!(ended.refuses(&cookie(at(900), 5)), Some(Refused::Used));
        assert_eq!(ended.refuses(&cookie(at(900), 6)), None);
        ended.push(at(61_000), 7, 0, false);
        assert_eq!(ended.refuses(&cookie(at(900), 5)), Some(Refused::Used));
        ended.push(at(61_001), 8, 0, false);
        assert_eq!(ended.tags.len(), 2);
    }

    #[test]
    fn what_cannot_be_remembered_ages_the_cookies_made_before_its_end() {
        let mut ended = Ended::new(LIFE);
        for number in 0..MOST as u32 + 10 {
            ended.push(at(u64::from(number)), number, 0, false);
        }
        assert_eq!(ended.order.len(), MOST);
        assert_eq!(ended.tags.len(), MOST);
        // The last forgotten one ended at 9 ms.
        let by = Duration::from_millis(4);
        assert_eq!(ended.refuses(&cookie(at(5), 3)), Some(Refused::TooOld(by)));
        assert_eq!(ended.refuses(&cookie(at(10), u32::MAX)), None);
        assert_eq!(ended.refuses(&cookie(at(10), 10)), Some(Refused::Used));
    }

    #[test]
    fn a_burst_of_ends_does_not_keep_its_memory() {
        let mut ended = Ended::new(LIFE);
        (0..20_000).for_each(|tag| ended.push(at(1), tag, 0, false));
        (0..4).for_each(|tag| ended.push(at(100_000), 30_000 + tag, 0, false));
        assert!(ended.order.capacity() < 1024, "{}", ended.order.capacity());
    }
}
