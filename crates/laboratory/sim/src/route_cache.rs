//! Reactive routing: routes that are discovered when needed and forgotten when idle (caro 4.2).

use std::collections::VecDeque;
use std::time::Duration;

use anabranch_proto::Instant;

use crate::packet::Packet;

/// How a host finds routes to its destinations; see
/// [`Network::set_route_cache`](crate::Network::set_route_cache).
///
/// If nothing was sent to a destination for longer than `lifetime`, the next packet (even a
/// heartbeat) waits until a discovery of `discovery` is done, and so does everything sent
/// meanwhile. The first packet to a destination always waits. This only applies to the host's own
/// packets, never to the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteCache {
    /// A route unused for longer than this is forgotten.
    pub lifetime: Duration,
    /// How long a discovery takes.
    pub discovery: Duration,
    /// Whether a route that was found is kept until the next packet after those that waited for it,
    /// however late: the SCTP module of ns-2.35 does that.
    pub keeps_unused: bool,
}

/// Counters of a host's route cache for one destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteCacheCounters {
    /// Discoveries started.
    pub discoveries: u64,
    /// Packets that waited for one.
    pub delayed_packets: u64,
}

/// The route to one destination.
#[derive(Debug)]
pub(crate) struct CachedRoute {
    pub(crate) config: RouteCache,
    /// When a packet was last sent; `None` before the first discovery is complete.
    used: Option<Instant>,
    /// Whether the route is kept for the next packet, whenever that is.
    kept: bool,
    /// End of the current discovery.
    found_at: Option<Instant>,
    waiting: VecDeque<Box<Packet>>,
    pub(crate) counters: RouteCacheCounters,
    /// Its entry in the calendar.
    pub(crate) source: usize,
}

impl CachedRoute {
    pub(crate) fn new(config: RouteCache, source: usize) -> Self {
        Self {
            config,
            used: None,
            kept: false,
            found_at: None,
            waiting: VecDeque::new(),
            counters: RouteCacheCounters::default(),
            source,
        }
    }

    /// Handles a packet to send. Returns it if it may be sent now; otherwise stores it.
    pub(crate) fn send(&mut self, now: Instant, packet: Box<Packet>) -> Option<Box<Packet>> {
        if self.found_at.is_none() {
            let fresh =
                self.used.is_some_and(|used| now.saturating_since(used) <= self.config.lifetime);
            if fresh || self.kept {
                self.used = Some(now);
                self.kept = false;
                return Some(packet);
            }
            self.counters.discoveries += 1;
            self.found_at = Some(now + self.config.discovery);
        }
        self.counters.delayed_packets += 1;
        self.waiting.push_back(packet);
        None
    }

    /// When the current discovery will be complete.
    pub(crate) fn found_at(&self) -> Option<Instant> {
        self.found_at
    }

    /// Completes the discovery and returns the packets that waited for it.
    pub(crate) fn found(&mut self, now: Instant) -> VecDeque<Box<Packet>> {
        self.found_at = None;
        self.used = Some(now);
        self.kept = self.config.keeps_unused;
        std::mem::take(&mut self.waiting)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::packet::Kind;

    fn packet(size: u32) -> Box<Packet> {
        Box::new(Packet {
            bytes: Bytes::new(),
            size,
            source: 0,
            destination: 1,
            kind: Kind::Sctp,
            hops: 0,
            dont_fragment: false,
            ecn: None,
        })
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn config(keeps_unused: bool) -> RouteCache {
        RouteCache {
            lifetime: Duration::from_millis(500),
            discovery: Duration::from_secs(1),
            keeps_unused,
        }
    }

    #[test]
    fn a_route_that_was_found_may_be_kept_until_it_is_used() {
        let mut route = CachedRoute::new(config(true), 0);
        assert!(route.send(at(0), packet(1)).is_none());
        assert_eq!(route.found(at(1000)).len(), 1);
        assert!(route.send(at(60_000), packet(2)).is_some());
        assert!(
            route.send(at(60_501), packet(3)).is_none(),
            "its lifetime begins with that packet"
        );
    }

    #[test]
    fn a_route_is_discovered_kept_and_forgotten() {
        let config = config(false);
        let mut route = CachedRoute::new(config, 0);
        // The first packet and the next one wait.
        assert!(route.send(at(0), packet(1)).is_none());
        assert!(route.send(at(900), packet(2)).is_none());
        assert_eq!(route.found_at(), Some(at(1000)));
        let sizes: Vec<u32> = route.found(at(1000)).iter().map(|packet| packet.size).collect();
        assert_eq!(sizes, [1, 2]);
        // Idling for exactly the lifetime does not exceed it; each packet refreshes the route.
        assert!(route.send(at(1500), packet(3)).is_some());
        assert!(route.send(at(2000), packet(4)).is_some());
        assert!(route.send(at(2501), packet(5)).is_none());
        assert_eq!(route.found_at(), Some(at(3501)));
        assert_eq!(route.found(at(3501)).len(), 1);
        assert_eq!(route.counters, RouteCacheCounters { discoveries: 2, delayed_packets: 3 });
    }
}
