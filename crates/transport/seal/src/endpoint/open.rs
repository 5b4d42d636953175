//! Opens received datagrams.

use std::net::Ipv6Addr;

use anabranch_units::Instant;

use super::Endpoint;
use super::peer::{Pending, Side};
use crate::control::{Message, decode, encode};
use crate::handshake::{Packet, has_address_proof};
use crate::record::{Header, Kind, OVERHEAD};
use crate::virtual_network::VirtualNetwork;
use crate::{PATHS, Route, question};

/// Packets of one peer and path that were opened. Their contents are at the start of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// This side's virtual address.
    pub local: Ipv6Addr,
    /// The peer's virtual address.
    pub remote: Ipv6Addr,
    /// Bytes in the buffer.
    pub len: usize,
    /// Size of every packet except the last one.
    pub segment_size: usize,
}

/// The packets that were opened so far.
#[derive(Clone, Copy, Debug)]
struct Run {
    network: VirtualNetwork,
    path: u8,
    segment_size: usize,
    len: usize,
    /// A packet was shorter than the first one, so it is the last.
    ended: bool,
}

impl Endpoint {
    /// Opens datagrams that arrived together from one sender, each of `segment_size` bytes except the last one. Returns
    /// where the packets for the layer above are, if there are any.
    ///
    /// Datagrams that are not authentic, or have arrived before, change nothing but the buffer.
    pub fn open(
        &mut self,
        now: Instant,
        route: &Route,
        buffer: &mut [u8],
        segment_size: usize,
    ) -> Option<Opened> {
        let size = if segment_size == 0 { buffer.len() } else { segment_size };
        let mut run: Option<Run> = None;
        let mut begin = 0;
        while begin < buffer.len() {
            let end = buffer.len().min(begin + size);
            self.open_one(now, route, &mut buffer[..end], begin, &mut run);
            begin = end;
        }
        let run = run.filter(|run| run.len > 0)?;
        let (local, remote) = (self.own.address(run.path), run.network.address(run.path));
        Some(Opened { local, remote, len: run.len, segment_size: run.segment_size })
    }

    /// Opens the datagram from `begin` to the end of `buffer`.
    fn open_one(
        &mut self,
        now: Instant,
        route: &Route,
        buffer: &mut [u8],
        begin: usize,
        run: &mut Option<Run>,
    ) {
        let Some(datagram) = buffer.get(begin..) else { return };
        if let Some(packet) = Packet::of(datagram) {
            match packet {
                Packet::Hello => {
                    let proves = has_address_proof(datagram);
                    if self.listens() && self.strangers.hears(now, route.remote, proves) {
                        self.handle_hello(now, route, datagram);
                    }
                }
                Packet::Welcome(word) => self.handle_welcome(now, route, word, datagram),
                Packet::Cookie(word) => self.handle_cookie(now, word, datagram),
            }
            return;
        }
        if self.announces
            && let Some(answer) = question::answer(datagram, &self.secret.public())
        {
            if self.strangers.hears(now, route.remote, false) {
                self.transmit(route.clone(), answer);
            }
            return;
        }
        let bytes = datagram.len();
        let Some(header) = Header::decode(datagram) else { return };
        let Some(network) = self.words.get(&header.word).copied() else { return };
        let Some(peer) = self.peers.get_mut(&network) else { return };
        let Some((session, pending)) = peer.sessions.by_word(header.word) else { return };
        // Contents are moved together.
        let to = run.map_or(0, |run| run.len);
        let Some(opened) = session.open(&header, &mut buffer[to..], begin - to) else { return };
        peer.heard = now;
        if pending && !self.confirm(now, network) {
            return;
        }
        self.follow(now, network, header.path, route, bytes, opened.newest);
        let content = to..to + opened.len;
        match header.kind {
            Kind::Control => {
                let messages: Vec<_> =
                    buffer.get(content).map(decode).into_iter().flatten().collect();
                self.handle_control(network, header.path, route, &messages);
            }
            Kind::Data => {
                let path = header.path;
                let (segment_size, ended) = (opened.len, false);
                let run = run.get_or_insert(Run { network, path, segment_size, len: 0, ended });
                // One real address belongs to one path; whoever mixes them loses packets.
                let fits = (run.network, run.path) == (network, path)
                    && !run.ended
                    && opened.len <= run.segment_size;
                if fits {
                    run.len += opened.len;
                    run.ended = opened.len < run.segment_size;
                }
            }
        }
    }

    /// Handles the first record under the keys of a pending session, which proves that the peer received the welcome.
    /// Returns whether the peer is admitted.
    fn confirm(&mut self, now: Instant, network: VirtualNetwork) -> bool {
        let Some(peer) = self.peers.get_mut(&network) else { return false };
        let key = peer.key;
        let Some(pending) = peer.sessions.pending.take() else { return false };
        let Pending { session, hello, token, .. } = pending;
        self.hellos.remove(&hello);
        if let Some(token) = token {
            // Another key may have used it meanwhile.
            if !self.admissions.use_up(&token, key) {
                self.words.remove(&session.local_word);
                self.remove(network);
                return false;
            }
            self.admitted.push(key);
        }
        let Some(peer) = self.peers.get_mut(&network) else { return false };
        if let Some(word) = peer.sessions.replace(now, session) {
            self.words.remove(&word);
        }
        true
    }

    /// Records where an authentic packet came from.
    fn follow(
        &mut self,
        now: Instant,
        network: VirtualNetwork,
        path: u8,
        route: &Route,
        bytes: usize,
        newest: bool,
    ) {
        let random = &mut self.random;
        let Some(peer) = self.peers.get_mut(&network) else { return };
        let path_index = usize::from(path);
        let due = match &mut peer.side {
            Side::Host(host) => {
                host.unanswered = None;
                // The peer has admitted this side's key.
                host.token = None;
                host.paths[path_index].heard();
                None
            }
            Side::Guest(guest) => {
                let followed = &mut guest.paths[path_index];
                let due = followed.heard(now, route, bytes, newest, || random.array());
                let content = due.map(|challenge| encode(&[Message::Challenge(challenge)]));
                content.filter(|content| followed.may_send_to(route, content.len() + OVERHEAD))
            }
        };
        if let Some(content) = due {
            self.send_control(network, path, route.clone(), &content);
        }
    }

    /// Handles messages of this layer.
    fn handle_control(
        &mut self,
        network: VirtualNetwork,
        path: u8,
        route: &Route,
        messages: &[Message],
    ) {
        debug_assert!(path < PATHS);
        for message in messages {
            let Some(peer) = self.peers.get_mut(&network) else { return };
            match (message, &mut peer.side) {
                (Message::Answer(challenge), Side::Guest(guest)) => {
                    if guest.paths[usize::from(path)].answered(challenge) {
                        self.note_reached(network, path);
                    }
                }
                (Message::Answer(challenge), Side::Host(host)) => {
                    // Only addresses that the user has named are used.
                    if host.addresses.contains(&route.remote)
                        && route.socket
                            == usize::from(path) * 2 + usize::from(route.remote.is_ipv6())
                    {
                        let route = Route { local: None, ..route.clone() };
                        if host.paths[usize::from(path)].answered(&route, challenge) {
                            self.note_reached(network, path);
                        }
                    }
                }
                (Message::Challenge(challenge), side) => {
                    let answer = encode(&[Message::Answer(*challenge)]);
                    let bytes = answer.len() + OVERHEAD;
                    let allowed = match side {
                        Side::Guest(guest) => {
                            guest.paths[usize::from(path)].may_send_to(route, bytes)
                        }
                        Side::Host(host) => host.addresses.contains(&route.remote),
                    };
                    if allowed {
                        self.send_control(network, path, route.clone(), &answer);
                    }
                }
            }
        }
    }
}
