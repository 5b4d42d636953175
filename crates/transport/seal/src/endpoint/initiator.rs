//! Begins handshakes, and sends the hello until there is an answer.

use std::time::Duration;

use anabranch_units::Instant;

use super::peer::{Dialling, Host, Side};
use super::{Endpoint, Families};
use crate::control::{Message, encode};
use crate::handshake::{Attempt, HELLO, Offer};
use crate::record::OVERHEAD;
use crate::session::Session;
use crate::virtual_network::VirtualNetwork;
use crate::{PATHS, Route};

/// Time to the second hello. The first few go to different addresses over different uplinks.
const FIRST_REPEAT: Duration = Duration::from_millis(200);
const MOST_REPEAT: Duration = Duration::from_secs(5);

/// Hellos before the time between them grows.
const QUICK: u32 = 4;

/// An attempt ends after this time; the next packet begins another one.
const ATTEMPT_LIFE: Duration = Duration::from_secs(60);

/// Cookies that one attempt answers. A hello is longer than a cookie, so whoever repeats cookies must not cause many.
const MOST_COOKIES: u32 = 32;

/// Content of a probe of an address that has not answered: it is as long as a hello.
const PADDED: usize = HELLO - OVERHEAD;

/// If nothing was received for this time after something was sent, the peer has probably lost the session.
const SILENCE: Duration = Duration::from_secs(3);

impl Endpoint {
    /// Begins a handshake with a peer, unless there is one.
    pub(super) fn dial(&mut self, now: Instant, network: VirtualNetwork) {
        let word = self.new_word(self.lane);
        let random = self.random.fork();
        let Some(peer) = self.peers.get_mut(&network) else { return };
        let Side::Host(host) = &mut peer.side else { return };
        if host.dialling.is_some() {
            return;
        }
        host.number += 1;
        let offer = Offer {
            instance: self.instance,
            number: host.number,
            fast_aes: self.fast_aes,
            token: host.token.clone(),
        };
        let Some(attempt) = Attempt::begin(&self.secret, &peer.key, word, &offer, random) else {
            return;
        };
        host.dialling = Some(Dialling { attempt, begun: now, hellos: 0, cookies: 0, next: now });
        self.words.insert(word, network);
        self.send_hello(now, network);
    }

    /// Sends the hello if it is due.
    fn send_hello(&mut self, now: Instant, network: VirtualNetwork) {
        let routes = self.first_routes(network);
        let Some(host) = self.host(network) else { return };
        let Some(dialling) = host.dialling.as_mut().filter(|dialling| now >= dialling.next) else {
            return;
        };
        if now.saturating_since(dialling.begun) >= ATTEMPT_LIFE {
            let word = dialling.attempt.word;
            host.dialling = None;
            host.waiting.clear();
            self.words.remove(&word);
            return;
        }
        let index = dialling.hellos as usize;
        dialling.hellos = dialling.hellos.saturating_add(1);
        let grown = FIRST_REPEAT * (1 << dialling.hellos.saturating_sub(QUICK).min(8));
        dialling.next = now + grown.min(MOST_REPEAT);
        let hello = dialling.attempt.hello().to_vec();
        if let Some(route) = routes.get(index % routes.len().max(1)) {
            self.transmit(route.clone(), hello);
        }
    }

    /// All ways to a peer: the first address over each uplink, then the second ones.
    fn first_routes(&self, network: VirtualNetwork) -> Vec<Route> {
        let by_uplink: Vec<_> = (0..PATHS).map(|path| self.routes(network, path)).collect();
        let most = by_uplink.iter().map(Vec::len).max().unwrap_or(0);
        let nth = |index| by_uplink.iter().filter_map(move |routes| routes.get(index)).cloned();
        (0..most).flat_map(nth).collect()
    }

    fn host(&mut self, network: VirtualNetwork) -> Option<&mut Host> {
        match &mut self.peers.get_mut(&network)?.side {
            Side::Host(host) => Some(host),
            Side::Guest(_) => None,
        }
    }

    /// Handles a cookie: the next hello proves the address.
    pub(super) fn handle_cookie(&mut self, now: Instant, word: u32, packet: &[u8]) {
        let Some(network) = self.words.get(&word).copied() else { return };
        let Some(dialling) = self.host(network).and_then(|host| host.dialling.as_mut()) else {
            return;
        };
        // The cookie is for the address that the last hello came from, so the next one goes the same way.
        let counts = dialling.attempt.word == word && dialling.cookies < MOST_COOKIES;
        if counts && dialling.attempt.take_cookie(packet) {
            dialling.cookies += 1;
            dialling.hellos = dialling.hellos.saturating_sub(1);
            dialling.next = now;
            self.send_hello(now, network);
        }
    }

    /// Handles a welcome: the session is used at once.
    pub(super) fn handle_welcome(&mut self, now: Instant, route: &Route, word: u32, packet: &[u8]) {
        let Some(network) = self.words.get(&word).copied() else { return };
        let Some(peer) = self.peers.get_mut(&network) else { return };
        let Side::Host(host) = &mut peer.side else { return };
        let Some(dialling) = host.dialling.as_mut().filter(|d| d.attempt.word == word) else {
            return;
        };
        let Some((choice, split)) = dialling.attempt.finish(packet) else { return };
        let words = (word, choice.word);
        let Some(session) = Session::new(now, self.life, words, choice, &split) else { return };
        host.dialling = None;
        host.unanswered = None;
        peer.heard = now;
        if let Some(word) = peer.sessions.replace(now, session) {
            self.words.remove(&word);
        }
        let path = route.socket / 2;
        let mut reached = false;
        if host.addresses.contains(&route.remote)
            && let Some(path) = host.paths.get_mut(path)
        {
            reached = path.verify(Route { local: None, ..route.clone() });
        }
        let waiting = std::mem::take(&mut host.waiting);
        if reached {
            self.note_reached(network, path as u8);
        }
        self.plan_sweep(now);
        self.search(now, network);
        for (path, packet) in waiting {
            let addresses = (self.own.address(path).into(), network.address(path).into());
            let mut sealed = Vec::new();
            if let Ok(super::Sealed::Send { route, .. }) =
                self.seal(now, addresses, &packet, packet.len(), &mut sealed)
            {
                self.transmit(route, sealed);
            }
        }
    }

    /// Looks for addresses that answer on all paths with an uplink. The first probe also confirms a new session.
    fn search(&mut self, now: Instant, network: VirtualNetwork) {
        for path in 0..PATHS {
            if self.uplinks[usize::from(path)].is_empty() {
                continue;
            }
            let challenge = self.draw_challenge();
            if let Some(host) = self.host(network) {
                host.paths[usize::from(path)].search(now, || challenge);
            }
        }
        self.probe(now, network);
    }

    /// Sends the challenges that are due.
    fn probe(&mut self, now: Instant, network: VirtualNetwork) {
        for path in 0..PATHS {
            let routes = self.routes(network, path);
            let random = &mut self.random;
            let Some(peer) = self.peers.get_mut(&network) else { return };
            let Side::Host(host) = &mut peer.side else { return };
            if routes.is_empty() || peer.sessions.current.is_none() {
                continue;
            }
            let path_state = &mut host.paths[usize::from(path)];
            if let Some((route, challenge)) = path_state.probe(now, &routes, || random.array()) {
                host.unanswered.get_or_insert(now);
                let known = path_state.verified() == Some(&route);
                let mut content = encode(&[Message::Challenge(challenge)]);
                if !known {
                    // The peer may send three times this length before this side's address has answered.
                    content.resize(PADDED, 0);
                }
                self.send_control(network, path, route, &content);
            }
        }
    }

    /// Reports that an uplink came, went or changed. One that is there must answer again.
    pub fn set_uplink(&mut self, now: Instant, path: u8, families: Families) {
        let Some(uplink) = self.uplinks.get_mut(usize::from(path)) else { return };
        *uplink = families;
        for network in self.hosts.clone() {
            if let Some(host) = self.host(network) {
                host.paths[usize::from(path)].reset();
                // A handshake that nobody heard goes over the new uplink at once.
                if let Some(dialling) = &mut host.dialling {
                    dialling.next = now;
                }
            }
            if !families.is_empty() {
                self.search(now, network);
                self.send_hello(now, network);
            }
        }
    }

    /// Does what is due for the peers that this side connects to.
    pub(super) fn handle_host_timers(&mut self, now: Instant) {
        for network in self.hosts.clone() {
            let Some(peer) = self.peers.get_mut(&network) else { continue };
            let Side::Host(host) = &mut peer.side else { continue };
            let silent = host.unanswered.is_some_and(|since| now >= since + SILENCE);
            if silent && peer.sessions.current.is_some() {
                // Counted again from now, if the attempt fails.
                host.unanswered = Some(now);
                self.dial(now, network);
            }
            self.send_hello(now, network);
            self.probe(now, network);
        }
    }

    /// When that may have something to do.
    pub(super) fn next_host_deadline(&self) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        let mut add = |at: Option<Instant>| next = [next, at].into_iter().flatten().min();
        for network in &self.hosts {
            let Some(peer) = self.peers.get(network) else { continue };
            let Side::Host(host) = &peer.side else { continue };
            add(host.dialling.as_ref().map(|dialling| dialling.next));
            if peer.sessions.current.is_none() {
                continue;
            }
            add(host.unanswered.map(|since| since + SILENCE));
            for (path, uplink) in host.paths.iter().zip(&self.uplinks) {
                add(path.next_deadline().filter(|_| host.reaches(*uplink)));
            }
        }
        next
    }
}
