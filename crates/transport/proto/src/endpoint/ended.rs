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
    /// Tags in the order in which their associations ended.
    order: VecDeque<(Instant, u32)>,
    /// Whether the peer of each association may still wait for SHUTDOWN COMPLETE.
    tags: BTreeMap<u32, bool>,
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
        Self { order: VecDeque::new(), tags: BTreeMap::new(), life, forgotten: None }
    }

    /// Remembers the tag of an association that has ended, or whose tag changed because its peer
    /// restarted. `peer_waits`: the peer may still wait for SHUTDOWN COMPLETE.
    pub(super) fn push(&mut self, now: Instant, tag: u32, peer_waits: bool) {
        self.forget_old(now);
        if self.tags.insert(tag, peer_waits).is_none() {
            self.order.push_back((now, tag));
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

    /// Whether the peer of the association that had this tag may still wait for SHUTDOWN COMPLETE. After the lifetime of a
    /// cookie it does not: what still comes is of an association that a cookie has revived.
    pub(super) fn peer_waits(&mut self, now: Instant, tag: u32) -> bool {
        self.forget_old(now);
        self.tags.get(&tag).copied().unwrap_or(false)
    }

    /// Forgets associations whose cookies can be used no more.
    fn forget_old(&mut self, now: Instant) {
        while self.order.front().is_some_and(|(end, _)| *end + self.life < now) {
            self.pop();
        }
    }

    /// Forgets the association that ended first. Returns the time of its end.
    fn pop(&mut self) -> Option<Instant> {
        let (end, tag) = self.order.pop_front()?;
        self.tags.remove(&tag);
        Some(end)
    }

    /// Whether a cookie must not create an association, and why.
    ///
    /// A cookie that was made after the end of the last forgotten association cannot belong to that.
    /// If it is older, the peer must ask for another one.
    pub(super) fn refuses(&self, cookie: &CookieContents) -> Option<Refused> {
        if self.has(cookie.local_tag) {
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
        let nowhere = IpAddr::V4(Ipv4Addr::LOCALHOST);
        CookieContents {
            created,
            lifetime: LIFE,
            local_port: 7,
            remote_port: 8,
            local_tag,
            peer_tag: 9,
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
            vectors: None,
            addresses: Vec::new(),
        }
    }

    #[test]
    fn a_used_cookie_stays_used_for_its_life_and_is_forgotten_then() {
        let mut ended = Ended::new(LIFE);
        ended.push(at(1000), 5, false);
        assert_eq!(ended.refuses(&cookie(at(900), 5)), Some(Refused::Used));
        assert_eq!(ended.refuses(&cookie(at(900), 6)), None);
        ended.push(at(61_000), 7, false);
        assert_eq!(ended.refuses(&cookie(at(900), 5)), Some(Refused::Used));
        ended.push(at(61_001), 8, false);
        assert_eq!(ended.tags.len(), 2);
    }

    #[test]
    fn what_cannot_be_remembered_ages_the_cookies_made_before_its_end() {
        let mut ended = Ended::new(LIFE);
        for number in 0..MOST as u32 + 10 {
            ended.push(at(u64::from(number)), number, false);
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
        (0..20_000).for_each(|tag| ended.push(at(1), tag, false));
        (0..4).for_each(|tag| ended.push(at(100_000), 30_000 + tag, false));
        assert!(ended.order.capacity() < 1024, "{}", ended.order.capacity());
    }

    #[test]
    fn no_peer_waits_for_ever() {
        let mut ended = Ended::new(LIFE);
        ended.push(at(0), 1, true);
        ended.push(at(0), 2, false);
        assert!(ended.peer_waits(at(60_000), 1) && !ended.peer_waits(at(0), 2));
        assert!(!ended.peer_waits(at(60_001), 1), "also if no other association has ended since");
    }
}
