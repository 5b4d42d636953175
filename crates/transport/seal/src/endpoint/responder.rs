//! Answers handshakes.

use std::time::Duration;

use anabranch_units::Instant;

use super::admissions::Permission;
use super::peer::{Guest, Peer, Pending, Sessions, Side};
use super::{Endpoint, MOST_GUESTS, MOST_OF_ONE_KEY};
use crate::handshake::{self, Choice, Hello, Offer};
use crate::keys::PublicKey;
use crate::limit::Admission;
use crate::record::Suite;
use crate::session::Session;
use crate::virtual_network::VirtualNetwork;
use crate::{Route, lane};

/// A welcome must be confirmed within this time.
const PENDING_LIFE: Duration = Duration::from_secs(10);

/// A guest that has been silent for this time may make room for another one.
const IDLE: Duration = Duration::from_secs(60);

impl Endpoint {
    /// Handles a hello. Nobody gets an answer who does not know this side's public key, or whose own key is not
    /// allowed.
    pub(super) fn handle_hello(&mut self, now: Instant, route: &Route, packet: &[u8]) {
        let Some(hello) = Hello::read(packet, &self.secret.public()) else { return };
        if self.repeat_welcome(route, &hello) {
            return;
        }
        match self.limit.admit(now, route.remote, &hello, &mut self.random) {
            Admission::Admit => {}
            Admission::Prove(cookie) => {
                let reply = hello.cookie_reply(&cookie);
                return self.transmit(route.clone(), reply);
            }
            Admission::Drop => return,
        }
        let Some(guest) = hello.decrypt(&self.secret, self.random.fork()) else { return };
        let (key, offer) = (guest.key(), guest.offer.clone());
        let permission = self.admissions.permission(&key, offer.token.as_ref());
        let Some(permission) = permission else { return };
        let Some(network) = self.make_room(now, key, &offer) else { return };
        let suite = if offer.fast_aes && self.fast_aes {
            Suite::Aes256Gcm
        } else {
            Suite::ChaCha20Poly1305
        };
        let word = self.new_word(lane::of_word(guest.word));
        let choice = Choice { word, suite };
        let words = (choice.word, guest.word);
        let Some((welcome, split)) = guest.welcome(choice) else { return };
        let Some(session) = Session::new(now, self.life, words, choice, &split) else { return };
        let token = match permission {
            Permission::Allowed => None,
            Permission::ByToken(token) => Some(token),
        };
        let pending = Pending {
            session,
            hello: hello.key_proof,
            welcome: welcome.clone(),
            expires: now + PENDING_LIFE,
            token,
        };
        self.add_pending(now, network, key, &offer, pending);
        self.transmit(route.clone(), welcome);
    }

    /// Answers a copy of a hello as before. Copies may arrive over other paths.
    fn repeat_welcome(&mut self, route: &Route, hello: &Hello<'_>) -> bool {
        let network = self.hellos.get(&hello.key_proof).copied();
        let peer = network.and_then(|network| self.peers.get_mut(&network));
        let Some(pending) = peer.and_then(|peer| peer.sessions.pending.as_mut()) else {
            return false;
        };
        if pending.hello != hello.key_proof {
            return false;
        }
        let welcome = pending.welcome.clone();
        self.transmit(route.clone(), welcome);
        true
    }

    /// The network of a guest, if the handshake is new and there is room for the guest.
    fn make_room(&mut self, now: Instant, key: PublicKey, offer: &Offer) -> Option<VirtualNetwork> {
        let network = VirtualNetwork::of(&key, offer.instance);
        if offer.instance == 0 || network == self.own {
            return None;
        }
        if let Some(peer) = self.peers.get(&network) {
            let Side::Guest(guest) = &peer.side else { return None };
            return (offer.number > guest.number).then_some(network);
        }
        let of_key = self.peers.values().filter(|peer| peer.key == key).count();
        if of_key >= MOST_OF_ONE_KEY {
            self.evict(|peer| peer.key == key);
        }
        if self.peers.len() >= MOST_GUESTS {
            // Those without a session first, and none that was heard a moment ago.
            let is_idle = |peer: &Peer| now.saturating_since(peer.heard) > IDLE;
            if !self.evict(|peer| peer.sessions.current.is_none()) && !self.evict(is_idle) {
                return None;
            }
        }
        Some(network)
    }

    /// Removes the peer of these that was not heard for longest. Returns whether there was one.
    fn evict(&mut self, of: impl Fn(&Peer) -> bool) -> bool {
        let candidates = self.peers.iter().filter(|(_, peer)| of(peer));
        let oldest = candidates.min_by_key(|(_, peer)| peer.heard).map(|(network, _)| *network);
        oldest.map(|network| self.remove(network)).is_some()
    }

    fn add_pending(
        &mut self,
        now: Instant,
        network: VirtualNetwork,
        key: PublicKey,
        offer: &Offer,
        pending: Pending,
    ) {
        let new = || Peer {
            key,
            side: Side::Guest(Box::new(Guest::new())),
            sessions: Sessions::default(),
            heard: now,
        };
        let peer = self.peers.entry(network).or_insert_with(new);
        if let Side::Guest(guest) = &mut peer.side {
            guest.number = offer.number;
        }
        self.words.insert(pending.session.local_word, network);
        let hello: handshake::Mac = pending.hello;
        if let Some(replaced) = peer.sessions.pending.replace(pending) {
            self.words.remove(&replaced.session.local_word);
            self.hellos.remove(&replaced.hello);
        }
        self.hellos.insert(hello, network);
        self.plan_sweep(now);
    }
}
