//! An initiator's path: one uplink, and which of the peer's real addresses answers over it.

use std::time::Duration;

use anabranch_units::Instant;

use crate::Route;
use crate::followed::Challenge;

/// If something was sent and nothing arrived for this time, the peer's addresses are probed.
const SILENCE: Duration = Duration::from_secs(5);

/// A path that carries nothing is probed after this time, so that translators of addresses keep its state.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// Time to the second probe; it doubles with every second one.
const FIRST_REPEAT: Duration = Duration::from_millis(300);
/// The same as long as no address has answered: an uplink that has just come has its address before its routes.
const QUICK_REPEAT: Duration = Duration::from_millis(100);
const MOST_REPEAT: Duration = Duration::from_secs(15);

/// Bytes sent to an address that has never answered.
const MOST_UNVERIFIED: usize = 16_384;

/// The search for an address that answers.
#[derive(Clone, Debug)]
struct Search {
    /// The challenge; the same one for all addresses, because each tells by its source which one answered.
    challenge: Challenge,
    next: Instant,
    probes: u32,
}

/// One path of an initiator.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dialled {
    /// The peer's address in use.
    route: Option<Route>,
    verified: bool,
    unverified_bytes: usize,
    search: Option<Search>,
    /// The last packet sent.
    sent: Option<Instant>,
    /// The first packet sent since the last one received.
    unanswered: Option<Instant>,
}

impl Dialled {
    /// The peer's address that has answered.
    pub(crate) fn verified(&self) -> Option<&Route> {
        self.route.as_ref().filter(|_| self.verified)
    }

    /// Starts over, because the uplink came, went or changed.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Begins to look for an address that answers, unless that has begun.
    pub(crate) fn search(&mut self, now: Instant, draw: impl FnOnce() -> Challenge) {
        self.search.get_or_insert_with(|| Search { challenge: draw(), next: now, probes: 0 });
    }

    /// Records an authentic packet.
    pub(crate) fn heard(&mut self) {
        self.unanswered = None;
    }

    /// Records that this address has answered the handshake. Returns whether it is the first one since the uplink came.
    pub(crate) fn verify(&mut self, route: Route) -> bool {
        let first = !self.verified;
        (self.route, self.verified, self.unverified_bytes) = (Some(route), true, 0);
        first
    }

    /// Handles an answer to a challenge, which came from `route`. Returns whether it is the first one since the uplink
    /// came.
    pub(crate) fn answered(&mut self, route: &Route, challenge: &Challenge) -> bool {
        let own = self.search.take_if(|search| search.challenge == *challenge).is_some();
        own && self.verify(route.clone())
    }

    /// Where packets go: the address in use, or the first one that may work.
    pub(crate) fn route(&mut self, now: Instant, routes: &[Route], bytes: usize) -> Option<Route> {
        if self.route.is_none() {
            self.route = routes.first().cloned();
        }
        if !self.verified {
            self.unverified_bytes = self.unverified_bytes.saturating_add(bytes);
            if self.unverified_bytes > MOST_UNVERIFIED {
                return None;
            }
        }
        self.note_sent(now);
        self.route.clone()
    }

    fn note_sent(&mut self, now: Instant) {
        self.sent = Some(now);
        self.unanswered.get_or_insert(now);
    }

    /// The challenge that is due, and where to send it.
    pub(crate) fn probe(
        &mut self,
        now: Instant,
        routes: &[Route],
        draw: impl FnOnce() -> Challenge,
    ) -> Option<(Route, Challenge)> {
        if self.search.is_none() && self.is_due(now) {
            self.search(now, draw);
        }
        let search = self.search.as_mut().filter(|search| now >= search.next)?;
        // The address in use is tried first, and again after each other one.
        let index = search.probes as usize;
        let others = || routes.get(index / 2 % routes.len().max(1)).cloned();
        let route = self.route.clone().filter(|_| index.is_multiple_of(2)).or_else(others)?;
        let first = if self.verified { FIRST_REPEAT } else { QUICK_REPEAT };
        let wait = first * (1 << (search.probes / 2).min(8));
        search.next = now + wait.min(MOST_REPEAT);
        search.probes = search.probes.saturating_add(1);
        let challenge = search.challenge;
        self.note_sent(now);
        Some((route, challenge))
    }

    fn is_due(&self, now: Instant) -> bool {
        self.due().is_some_and(|due| now >= due)
    }

    /// When a search begins by itself.
    fn due(&self) -> Option<Instant> {
        let silent = self.unanswered.map(|since| since + SILENCE);
        let idle = self.sent.map(|sent| sent + KEEPALIVE);
        [silent, idle].into_iter().flatten().min()
    }

    /// When [`probe`](Self::probe) may have something to send.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.search.as_ref().map(|search| search.next).or_else(|| self.due())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes() -> [Route; 2] {
        [1, 2].map(|host| Route { socket: 0, local: None, remote: ([192, 0, 2, host], 7).into() })
    }

    #[test]
    fn addresses_are_tried_in_turn_until_one_answers() {
        let (mut path, routes) = (Dialled::default(), routes());
        let mut now = Instant::ZERO;
        assert_eq!((path.next_deadline(), path.probe(now, &routes, || [0; 8])), (None, None));
        path.search(now, || [1; 8]);
        let mut tried = Vec::new();
        for _ in 0..6 {
            now = path.next_deadline().unwrap();
            let (route, challenge) = path.probe(now, &routes, || [2; 8]).unwrap();
            assert_eq!(challenge, [1; 8]);
            tried.push(route);
            assert_eq!(path.probe(now, &routes, || [2; 8]), None);
        }
        assert!(routes.iter().all(|route| tried.contains(route)));
        assert!(!path.answered(&routes[1], &[2; 8]) && path.verified().is_none());
        assert!(path.answered(&routes[1], &[1; 8]), "the first answer since the uplink came");
        assert_eq!(path.verified(), Some(&routes[1]));
        assert_eq!(path.route(now, &routes, 1 << 20), Some(routes[1].clone()));
    }

    #[test]
    fn silent_and_idle_paths_are_probed() {
        let (mut path, routes) = (Dialled::default(), routes());
        path.verify(routes[0].clone());
        let now = Instant::from_secs(1);
        path.route(now, &routes, 100);
        assert_eq!(path.next_deadline(), Some(now + SILENCE));
        path.heard();
        assert_eq!(path.next_deadline(), Some(now + KEEPALIVE));
        assert_eq!(path.probe(now + SILENCE, &routes, || [1; 8]), None);
        let idle = now + KEEPALIVE;
        assert_eq!(path.probe(idle, &routes, || [1; 8]), Some((routes[0].clone(), [1; 8])));
        assert_eq!(path.next_deadline(), Some(idle + FIRST_REPEAT));
        assert!(!path.answered(&routes[0], &[1; 8]), "it has answered before");
    }

    #[test]
    fn an_uplink_that_just_came_is_probed_quickly() {
        let (mut path, routes) = (Dialled::default(), routes());
        path.search(Instant::ZERO, || [1; 8]);
        assert!(path.probe(Instant::ZERO, &routes, || [2; 8]).is_some());
        assert_eq!(path.next_deadline(), Some(Instant::ZERO + QUICK_REPEAT));
    }

    #[test]
    fn an_address_that_never_answered_gets_little() {
        let (mut path, routes) = (Dialled::default(), routes());
        assert!(path.route(Instant::ZERO, &routes, MOST_UNVERIFIED).is_some());
        assert!(path.route(Instant::ZERO, &routes, 1).is_none());
        path.verify(routes[0].clone());
        assert!(path.route(Instant::ZERO, &routes, 1).is_some());
        path.reset();
        assert!(path.route(Instant::ZERO, &[], 1).is_none());
    }
}
