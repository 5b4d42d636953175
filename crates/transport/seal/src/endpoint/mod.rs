//! An endpoint: its key, its peers and their sessions.
//!
//! The driver passes received datagrams to [`open`](Endpoint::open) and packets to send to [`seal`](Endpoint::seal).
//! After each call it sends what [`poll_transmit`](Endpoint::poll_transmit) returns, and calls
//! [`handle_timeout`](Endpoint::handle_timeout) at [`next_deadline`](Endpoint::next_deadline).

mod admissions;
mod initiator;
#[cfg(any(test, feature = "invariants"))]
mod invariants;
mod open;
mod peer;
mod responder;
mod seal;
mod timers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use anabranch_units::Instant;

use self::admissions::Admissions;
use self::peer::{Host, Peer, Sessions, Side};
use crate::followed::Challenge;
use crate::handshake::Mac;
use crate::keys::{PublicKey, SecretKey};
use crate::limit::Limit;
use crate::random::Random;
use crate::session::KeyLife;
use crate::strangers::Strangers;
use crate::token::Token;
use crate::virtual_network::VirtualNetwork;
use crate::{PATHS, Route, lane};

pub use self::admissions::Allow;
pub use self::open::Opened;
pub use self::seal::{SealError, Sealed};

/// Datagrams of this layer that wait for the driver; further ones are lost.
const MOST_TRANSMITS: usize = 1024;

/// Paths that wait to be reported; the layer above finds further ones by its own timers.
const MOST_REACHED: usize = 256;

/// Peers that connect to this side, and those of one key.
const MOST_GUESTS: usize = 4096;
const MOST_OF_ONE_KEY: usize = 64;

/// The IP versions that an uplink has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Families {
    /// IPv4.
    pub ipv4: bool,
    /// IPv6.
    pub ipv6: bool,
}

impl Families {
    /// Whether it has the version of this address.
    fn includes(self, address: &SocketAddr) -> bool {
        if address.is_ipv4() { self.ipv4 } else { self.ipv6 }
    }

    /// Whether the uplink has none: it is down.
    pub fn is_empty(self) -> bool {
        !self.ipv4 && !self.ipv6
    }
}

/// A datagram of this layer to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The way.
    pub route: Route,
    /// The datagram.
    pub contents: Vec<u8>,
}

/// What is known about one path of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathStatus {
    /// The peer's key.
    pub key: PublicKey,
    /// Its virtual address on this path.
    pub address: Ipv6Addr,
    /// The path number.
    pub number: u8,
    /// The way to the peer, if it has answered over it.
    pub route: Option<Route>,
    /// Whether there is a session.
    pub has_session: bool,
}

/// One side of sealed paths.
#[derive(Debug)]
pub struct Endpoint {
    secret: SecretKey,
    own: VirtualNetwork,
    /// 0 for an endpoint that listens.
    instance: u64,
    fast_aes: bool,
    random: Random,
    /// The lane of an endpoint that connects.
    lane: u8,
    admissions: Admissions,
    /// Keys that were admitted by a token and not reported yet.
    admitted: Vec<PublicKey>,
    limit: Limit,
    strangers: Strangers,
    life: KeyLife,
    /// This side gives its public key to anyone who asks.
    announces: bool,
    peers: BTreeMap<VirtualNetwork, Peer>,
    /// The peers that this side connects to, which have timers.
    hosts: BTreeSet<VirtualNetwork>,
    /// The peers by this side's words for sessions and attempts.
    words: BTreeMap<u32, VirtualNetwork>,
    /// The peers with pending sessions by the hello.
    hellos: BTreeMap<Mac, VirtualNetwork>,
    uplinks: [Families; PATHS as usize],
    /// The peers and paths that an answer has come from for the first time at an address, and which were not reported.
    reached: VecDeque<(VirtualNetwork, u8)>,
    /// The peers whose keys were revoked, and which were not reported.
    gone: VecDeque<VirtualNetwork>,
    transmits: VecDeque<Transmit>,
    /// When peers and sessions that have expired are removed.
    sweep: Option<Instant>,
}

impl Endpoint {
    /// An endpoint that accepts peers. The seed has 256 random bits.
    pub fn listening(secret: SecretKey, allow: Allow, seed: [u8; 32]) -> Self {
        Self::new(secret, 0, Admissions::new(allow), Random::new(seed))
    }

    /// Another shard of this endpoint, which accepts peers: it has the same key and the same virtual addresses, and admits
    /// the same peers. Each peer belongs to the shard that [`shard_of`](crate::shard_of) tells, and the driver gives its
    /// datagrams to no other one. The seed has 256 random bits, which no other shard had.
    pub fn shard(&self, seed: [u8; 32]) -> Self {
        let (secret, admissions) = (self.secret.clone(), self.admissions.clone());
        let mut shard = Self::new(secret, self.instance, admissions, Random::new(seed));
        (shard.announces, shard.life) = (self.announces, self.life);
        shard
    }

    /// An endpoint that connects to peers. The seed has 256 random bits.
    pub fn connecting(secret: SecretKey, seed: [u8; 32]) -> Self {
        let mut random = Random::new(seed);
        let instance = u64::from_be_bytes(random.array()).max(1);
        Self::new(secret, instance, Admissions::new(Allow::nobody()), random)
    }

    fn new(secret: SecretKey, instance: u64, admissions: Admissions, mut random: Random) -> Self {
        let [lane] = random.array();
        Self {
            own: VirtualNetwork::of(&secret.public(), instance),
            secret,
            instance,
            fast_aes: crate::record::has_fast_aes(),
            limit: Limit::new(&mut random),
            strangers: Strangers::new(&mut random),
            life: KeyLife::default(),
            random,
            announces: false,
            lane,
            admissions,
            admitted: Vec::new(),
            peers: BTreeMap::new(),
            hosts: BTreeSet::new(),
            words: BTreeMap::new(),
            hellos: BTreeMap::new(),
            uplinks: [Families::default(); PATHS as usize],
            reached: VecDeque::new(),
            gone: VecDeque::new(),
            transmits: VecDeque::new(),
            sweep: None,
        }
    }

    fn listens(&self) -> bool {
        self.instance == 0
    }

    /// This side's virtual addresses.
    pub fn network(&self) -> VirtualNetwork {
        self.own
    }

    /// Adds a peer to connect to, with its real addresses and the token of an invitation. The handshake begins with the
    /// first packet to it.
    pub fn add_host(&mut self, key: PublicKey, addresses: Vec<SocketAddr>, token: Option<Token>) {
        let network = VirtualNetwork::of(&key, 0);
        if self.listens() || self.peers.contains_key(&network) {
            return;
        }
        let side = Side::Host(Box::new(Host::new(addresses, token)));
        let peer = Peer { key, side, sessions: Sessions::default(), heard: Instant::ZERO };
        self.peers.insert(network, peer);
        self.hosts.insert(network);
    }

    /// Admits the key of whoever uses this token first.
    pub fn invite(&mut self, token: Token) {
        self.admissions.invite(token);
    }

    /// Allows a key.
    pub fn allow(&mut self, key: PublicKey) {
        self.admissions.allow(key);
    }

    /// Gives the public key of a listening endpoint to anyone who asks ([`KeyQuestion`](crate::KeyQuestion)). Without it,
    /// nobody gets an answer who does not know the key.
    pub fn announce(&mut self) {
        self.announces = self.listens();
    }

    /// Replaces the keys of later sessions sooner than by default. Values above the default have no effect.
    pub fn set_key_life(&mut self, life: KeyLife) {
        self.life = life.bounded();
    }

    /// No longer allows a key, and ends its sessions: [`poll_gone`](Self::poll_gone) has its addresses. With [`Allow::Any`] it
    /// may connect again. Call it for each [shard](Self::shard): each ends its own sessions.
    pub fn revoke(&mut self, key: &PublicKey) {
        self.admissions.revoke(key);
        let gone = |peer: &Peer| peer.key == *key && matches!(peer.side, Side::Guest(_));
        let gone = self.peers.iter().filter(|(_, peer)| gone(peer));
        let gone: Vec<_> = gone.map(|(network, _)| *network).collect();
        for network in gone {
            self.remove(network);
            self.gone.push_back(network);
        }
    }

    /// The next peer whose key was revoked, as all of its virtual addresses. Nothing is received from it any more, and
    /// nothing reaches it.
    pub fn poll_gone(&mut self) -> Option<impl Iterator<Item = Ipv6Addr> + use<>> {
        let network = self.gone.pop_front()?;
        Some((0..PATHS).map(move |path| network.address(path)))
    }

    /// Whether [`poll_gone`](Self::poll_gone) has one.
    pub fn has_gone(&self) -> bool {
        !self.gone.is_empty()
    }

    /// Keys that one-time tokens have admitted since the last call. They stay allowed as long as this endpoint; a
    /// program that wants more writes them down.
    pub fn take_admitted(&mut self) -> Vec<PublicKey> {
        std::mem::take(&mut self.admitted)
    }

    /// The next path that leads to the peer again, because its uplink came or its address changed: this side's virtual
    /// address and the peer's. What was sent there before may be lost: an uplink has its address before its routes, and a
    /// peer that has moved is followed only when it has answered.
    pub fn poll_reached(&mut self) -> Option<(Ipv6Addr, Ipv6Addr)> {
        let (network, path) = self.reached.pop_front()?;
        Some((self.own.address(path), network.address(path)))
    }

    /// Whether [`poll_reached`](Self::poll_reached) has one.
    pub fn has_reached(&self) -> bool {
        !self.reached.is_empty()
    }

    fn note_reached(&mut self, network: VirtualNetwork, path: u8) {
        if self.reached.len() < MOST_REACHED && !self.reached.contains(&(network, path)) {
            self.reached.push_back((network, path));
        }
    }

    /// The peer with this virtual address.
    pub fn peer_of(&self, address: IpAddr) -> Option<PublicKey> {
        let (network, _) = VirtualNetwork::split(address)?;
        self.peers.get(&network).map(|peer| peer.key)
    }

    /// The paths of all peers that are in use, or were.
    pub fn paths(&self) -> Vec<PathStatus> {
        let mut paths = Vec::new();
        for (network, peer) in &self.peers {
            for number in 0..PATHS {
                let index = usize::from(number);
                let (route, used) = match &peer.side {
                    Side::Host(host) => {
                        (host.paths[index].verified(), !self.uplinks[index].is_empty())
                    }
                    Side::Guest(guest) => {
                        (guest.paths[index].verified(), guest.paths[index].is_known())
                    }
                };
                if used {
                    let address = network.address(number);
                    let (key, route) = (peer.key, route.cloned());
                    let has_session = peer.sessions.current.is_some();
                    paths.push(PathStatus { key, address, number, route, has_session });
                }
            }
        }
        paths
    }

    /// The next datagram of this layer to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    fn transmit(&mut self, route: Route, contents: Vec<u8>) {
        if self.transmits.len() < MOST_TRANSMITS {
            self.transmits.push_back(Transmit { route, contents });
        }
    }

    /// A word in this lane that names no session yet.
    fn new_word(&mut self, lane: u8) -> u32 {
        loop {
            let word = lane::with_lane(lane, self.random.word());
            if word != 0 && !self.words.contains_key(&word) {
                return word;
            }
        }
    }

    /// Forgets a peer that has connected to this side.
    fn remove(&mut self, network: VirtualNetwork) {
        self.hellos.retain(|_, owner| *owner != network);
        if let Some(peer) = self.peers.remove(&network) {
            peer.sessions.words().for_each(|word| _ = self.words.remove(&word));
        }
    }

    fn draw_challenge(&mut self) -> Challenge {
        self.random.array()
    }
}

#[cfg(test)]
mod tests;
