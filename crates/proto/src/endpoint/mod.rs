//! An endpoint: any number of associations behind one set of addresses.
//!
//! The endpoint finds the association of a packet, answers what belongs to none, and holds
//! nothing for a peer before its cookie has come back. It does no I/O: see [`Endpoint`].

pub(crate) mod cookie;
mod demux;
mod icmp;
#[cfg(any(test, feature = "invariants"))]
mod invariants;
pub(crate) mod memory;
mod schedule;
mod stateless;

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use anabranch_wire::Packet;
use bytes::Bytes;

use self::cookie::CookieJar;
use self::demux::{Demux, Key};
pub use self::icmp::{IcmpKind, IcmpMessage};
use self::memory::Memory;
use self::schedule::Schedule;
use crate::association::{Arrival, Association, Common, Initiation, Surroundings, TagCheck};
use crate::config::{AssociationConfig, EndpointConfig};
use crate::error::{ConnectError, ListenError};
use crate::event::{AssociationId, Event};
use crate::rng::{self, Rng};
use crate::time::Instant;

/// Associations that have ended and are remembered, so that a COOKIE ECHO that comes late does
/// not bring them back to life with data that was delivered before.
const ENDED: usize = 128;

/// First port of the range for ephemeral SCTP ports (RFC 6335).
const EPHEMERAL: u16 = 49_152;

/// ECN codepoint of an IP packet (RFC 3168).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// ECN-capable transport, codepoint 10.
    Ect0,
    /// ECN-capable transport, codepoint 01.
    Ect1,
    /// Congestion experienced.
    Ce,
}

impl Ecn {
    /// The two bits of the IP header's field; none of the three is 00, 'not ECN-capable'.
    pub const fn bits(self) -> u8 {
        match self {
            Self::Ect1 => 1,
            Self::Ect0 => 2,
            Self::Ce => 3,
        }
    }
}

/// Where a batch of packets came from.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Address of this host that they were sent to.
    pub local: IpAddr,
    /// Address that they came from.
    pub remote: IpAddr,
    /// UDP port that they came from; 0 for IP protocol 132.
    pub remote_udp_port: u16,
    /// ECN codepoint.
    pub ecn: Option<Ecn>,
    /// Bytes of each packet of the batch but the last, which may be shorter.
    pub segment_size: usize,
}

/// Packets to be sent: `len` bytes at the end of the buffer given to
/// [`Endpoint::poll_transmit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Source address.
    pub local: IpAddr,
    /// Destination address.
    pub remote: IpAddr,
    /// Destination UDP port; 0 for IP protocol 132.
    pub remote_udp_port: u16,
    /// ECN codepoint to set.
    pub ecn: Option<Ecn>,
    /// Bytes in all.
    pub len: usize,
    /// Bytes of each packet but the last, which may be shorter.
    pub segment_size: usize,
    /// Routers must not fragment these packets.
    pub dont_fragment: bool,
    /// Answers a packet that belongs to no association and no listener of this endpoint. Where
    /// another stack gets the same packets, it may be that one's to answer.
    pub out_of_the_blue: bool,
}

/// What [`Endpoint::connect`] needs to know.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConnectRequest {
    /// Addresses of the peer, the preferred one first.
    pub remotes: Vec<IpAddr>,
    /// SCTP port of the peer.
    pub remote_port: u16,
    /// UDP port of the peer; 0 for IP protocol 132. 9,899.
    pub remote_udp_port: u16,
    /// SCTP port of this side; `None` takes a fresh one.
    pub local_port: Option<u16>,
    /// The local addresses to use; `None` means all of the endpoint.
    pub locals: Option<Vec<IpAddr>>,
    /// Options of the association.
    pub config: Arc<AssociationConfig>,
}

impl ConnectRequest {
    /// A request with default options, over UDP encapsulation.
    pub fn new(remotes: Vec<IpAddr>, remote_port: u16) -> Self {
        Self {
            remotes,
            remote_port,
            remote_udp_port: 9899,
            local_port: None,
            locals: None,
            config: Arc::new(AssociationConfig::default()),
        }
    }
}

/// An SCTP endpoint without I/O.
///
/// Its methods are of four kinds:
/// - getters;
/// - input: `handle_batch`, `handle_icmp`, `handle_send_error`, `handle_message_too_big`,
///   `handle_timeout`;
/// - commands: `listen`, `connect`, and through [`association_mut`](Self::association_mut) all
///   that an association's user may do;
/// - output: [`poll_transmit`](Self::poll_transmit), [`poll_event`](Self::poll_event),
///   [`next_deadline`](Self::next_deadline).
///
/// After any input or command drain `poll_transmit` and `poll_event` until they return `None`,
/// then wait for a packet or the deadline.
#[derive(Debug)]
pub struct Endpoint {
    config: EndpointConfig,
    surroundings: Surroundings,
    rng: Rng,
    cookies: CookieJar,
    listeners: BTreeMap<u16, Arc<AssociationConfig>>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    demux: Demux,
    schedule: Schedule,
    /// Answers to packets without an association, as (where to, packet).
    replies: VecDeque<(Transmit, Vec<u8>)>,
    next_port: u16,
    /// Local tags of the associations that ended last: their cookies are used up.
    ended: VecDeque<u32>,
    discarded: u64,
    /// Packets that began with INIT or COOKIE ECHO, less two for each association they made.
    setups: u64,
}

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    /// Its memory as the account has it.
    held: u32,
    association: Option<Box<Association>>,
    /// What the association is entered under in the demultiplexer.
    keys: Vec<Key>,
}

impl Endpoint {
    /// An endpoint without addresses or ports. All its randomness comes from `seed`, which must
    /// be unpredictable outside of tests.
    pub fn new(config: EndpointConfig, seed: [u8; 32]) -> Self {
        let mut rng = rng::public(&seed);
        let demux = Demux::new((rng.next_u64(), rng.next_u64()));
        let next_port = EPHEMERAL + rng.below(u64::from(u16::MAX - EPHEMERAL) + 1) as u16;
        Self {
            surroundings: Surroundings {
                locals: Arc::from(Vec::new()),
                common: Arc::new(Common {
                    routes: config.routes.clone(),
                    memory: Memory::new(config.memory_limit),
                }),
                encapsulation: config.encapsulation,
                checksum: config.checksum,
                initial_tsn: config.initial_tsn,
                #[cfg(feature = "invariants")]
                buggify: config.buggify,
            },
            cookies: CookieJar::new(&config, rng::derive(&seed, b"cookie")),
            rng,
            listeners: BTreeMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            demux,
            schedule: Schedule::default(),
            replies: VecDeque::new(),
            next_port,
            ended: VecDeque::new(),
            discarded: 0,
            setups: 0,
            config,
        }
    }

    /// Sets the addresses of this host that associations may use from now on.
    // req: rfc9260 1.3 "MUST use the same port number but can"
    pub fn set_local_addresses(&mut self, _now: Instant, addresses: &[IpAddr]) {
        self.surroundings.locals = Arc::from(addresses);
    }

    /// A local address went away (its interface is down, or it was removed) or came back.
    ///
    /// What goes away is no longer used while there are other paths; what comes back is tried at
    /// once. [`set_local_addresses`](Self::set_local_addresses) says what new associations use.
    pub fn handle_local_address(&mut self, now: Instant, local: IpAddr, usable: bool) {
        let ids: Vec<AssociationId> = self.associations().collect();
        for id in ids {
            let Some(association) = self.get_mut(id) else { continue };
            association.on_local_address(now, local, usable);
            self.after(now, id);
        }
    }

    /// Addresses of this host.
    pub fn local_addresses(&self) -> &[IpAddr] {
        &self.surroundings.locals
    }

    /// Accepts associations on an SCTP port; each announces itself with
    /// [`Event::Connected`].
    ///
    /// # Errors
    /// [`ListenError`] if the port is 0 or taken, or an option out of range.
    pub fn listen(&mut self, port: u16, config: Arc<AssociationConfig>) -> Result<(), ListenError> {
        // req: rfc9260 3.1 "Source Port Number 0 MUST NOT be used"
        if port == 0 {
            return Err(ListenError::InvalidPort);
        }
        config.validate().map_err(ListenError::Config)?;
        if self.listeners.contains_key(&port) {
            return Err(ListenError::InUse);
        }
        self.listeners.insert(port, config);
        Ok(())
    }

    /// Accepts no more associations on a port; those that exist stay.
    pub fn stop_listening(&mut self, port: u16) {
        self.listeners.remove(&port);
    }

    /// Starts an association.
    ///
    /// # Errors
    /// [`ConnectError`]; nothing was sent then.
    pub fn connect(
        &mut self,
        now: Instant,
        request: ConnectRequest,
    ) -> Result<AssociationId, ConnectError> {
        let ConnectRequest { remotes, remote_port, remote_udp_port, local_port, locals, config } =
            request;
        let first = *remotes.first().ok_or(ConnectError::NoAddress)?;
        // req: rfc9260 3.1 "Destination Port Number 0 MUST NOT be used"
        if remote_port == 0 || local_port == Some(0) {
            return Err(ConnectError::InvalidPort);
        }
        config.validate().map_err(ConnectError::Config)?;
        if self.len() >= self.config.max_associations {
            return Err(ConnectError::TooManyAssociations);
        }
        if self.memory().left() == 0 {
            return Err(ConnectError::OutOfMemory);
        }
        let local_port = match local_port {
            Some(port) => port,
            None => self.ephemeral_port(&remotes, remote_port)?,
        };
        let keys = || remotes.iter().map(|remote| Key::new(*remote, remote_port, local_port));
        if keys().any(|key| self.demux.find(&key).is_some()) {
            return Err(ConnectError::AlreadyConnected);
        }
        let initiation = Initiation {
            local_port,
            remote_port,
            remotes: remotes.clone(),
            udp_port: remote_udp_port,
            config,
        };
        let mut surroundings = self.surroundings.clone();
        if let Some(wanted) = locals {
            let locals = surroundings.locals.iter().copied();
            surroundings.locals = locals.filter(|local| wanted.contains(local)).collect();
        }
        let association = Association::initiate(now, initiation, surroundings, self.rng.fork())
            .ok_or(ConnectError::Unreachable(first))?;
        Ok(self.insert(now, association))
    }

    /// A port that no association with these addresses uses: two associations never share
    /// their transport addresses (RFC 9260 section 1.3).
    fn ephemeral_port(
        &mut self,
        remotes: &[IpAddr],
        remote_port: u16,
    ) -> Result<u16, ConnectError> {
        for _ in EPHEMERAL..=u16::MAX {
            let port = self.next_port;
            self.next_port = port.checked_add(1).unwrap_or(EPHEMERAL);
            let taken = self.listeners.contains_key(&port)
                || remotes
                    .iter()
                    .any(|remote| self.demux.find(&Key::new(*remote, remote_port, port)).is_some());
            if !taken {
                return Ok(port);
            }
        }
        Err(ConnectError::TooManyAssociations)
    }

    fn insert(&mut self, now: Instant, association: Association) -> AssociationId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        let generation = self.slots[slot as usize].generation;
        let id = AssociationId { slot, generation };
        self.slots[slot as usize].association = Some(Box::new(association));
        self.after(now, id);
        id
    }

    fn get_mut(&mut self, id: AssociationId) -> Option<&mut Association> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        if slot.generation != id.generation {
            return None;
        }
        slot.association.as_deref_mut()
    }

    /// Brings the endpoint's tables up to date after something happened to an association.
    fn after(&mut self, now: Instant, id: AssociationId) {
        let Some(slot) = self.slots.get_mut(id.slot as usize) else { return };
        if slot.generation != id.generation {
            return;
        }
        let Some(association) = slot.association.as_deref_mut() else { return };
        slot.held = self.surroundings.common.memory.account(slot.held, association.memory());
        // What comes for an association that has ended is out of the blue.
        let ended = association.is_closed() && !slot.keys.is_empty();
        if ended {
            self.ended.truncate(ENDED - 1);
            self.ended.push_front(association.local_tag);
        }
        if association.take_paths_changed() || ended {
            for key in slot.keys.drain(..) {
                self.demux.remove(&key, id);
            }
        }
        if slot.keys.is_empty() && !association.is_closed() {
            let (remote_port, local_port) = (association.remote_port, association.local_port);
            slot.keys.extend(
                association.remotes().map(|remote| Key::new(remote, remote_port, local_port)),
            );
            let mut shared = false;
            for key in &slot.keys {
                shared |= self.demux.insert(*key, id) != id;
            }
            // Associations that were begun to different addresses may find out that their peer
            // is the same one. An ABORT would end the other one, whose tags it would carry.
            // req: rfc9260 1.3 "MUST NOT have more than one SCTP association"
            if shared {
                association.give_way();
                for key in slot.keys.drain(..) {
                    self.demux.remove(&key, id);
                }
            }
        }
        // Looking for what to send may give messages up, which is told by an event.
        if association.wants_to_send(now) {
            self.schedule.ready(id);
        }
        if association.has_events() {
            self.schedule.has_events(id);
        }
        self.schedule.deadline(id, association.next_deadline());
    }

    /// Takes a batch of packets from one source to one destination: what one receive call
    /// gave, with GRO.
    pub fn handle_batch(&mut self, now: Instant, received: &Received, bytes: Bytes) {
        let mut touched: Option<AssociationId> = None;
        // What the association in `touched` had accepted when its first packet had been read.
        let mut accepted = 0;
        let size = received.segment_size.max(1);
        let mut start = 0;
        while start < bytes.len() {
            let end = (start + size).min(bytes.len());
            let id = self.handle_packet(now, received, &bytes, start..end, touched);
            if touched != id {
                touched
                    .into_iter()
                    .for_each(|id| self.after_batch(now, id, accepted, &bytes, size));
                touched = id;
                accepted = id.and_then(|id| self.association(id)).map_or(0, Association::accepted);
            }
            start = end;
        }
        touched.into_iter().for_each(|id| self.after_batch(now, id, accepted, &bytes, size));
    }

    /// Packets of a batch were for an association, which had accepted so much user data after the
    /// first of them.
    fn after_batch(
        &mut self,
        now: Instant,
        id: AssociationId,
        accepted: usize,
        batch: &Bytes,
        size: usize,
    ) {
        if batch.len() > size
            && let Some(association) = self.get_mut(id)
        {
            association.end_batch(accepted, batch.len() - size);
        }
        self.after(now, id);
    }

    /// One packet; returns the association that it changed. `last` is the association of the
    /// packet before, most likely the same.
    fn handle_packet(
        &mut self,
        now: Instant,
        received: &Received,
        batch: &Bytes,
        range: std::ops::Range<usize>,
        last: Option<AssociationId>,
    ) -> Option<AssociationId> {
        let Ok(packet) = Packet::parse(&batch[range]) else {
            self.discarded += 1;
            return last;
        };
        // req: rfc9260 6.8 "the receiver MUST first check the"
        if self.config.checksum && !packet.checksum_ok() {
            self.discarded += 1;
            return last;
        }
        let header = packet.header();
        // An answer would have to use the port.
        // req: rfc9260 3.1 "Source Port Number 0 MUST NOT be used"
        // req: rfc9260 3.1 "Destination Port Number 0 MUST NOT be used"
        if header.source_port == 0 || header.destination_port == 0 {
            self.discarded += 1;
            return last;
        }
        let Some(Ok(first)) = packet.chunks().next() else {
            self.discarded += 1;
            return last;
        };
        let arrival = Arrival {
            local: received.local,
            remote: received.remote,
            remote_udp_port: received.remote_udp_port,
            congestion_experienced: received.ecn == Some(Ecn::Ce),
        };
        if anabranch_wire::kind::INIT == first.kind
            || anabranch_wire::kind::COOKIE_ECHO == first.kind
        {
            return self.handle_setup(now, &arrival, &packet, first, batch).or(last);
        }
        let key = Key::new(received.remote, header.source_port, header.destination_port);
        let id = match last {
            Some(id) if self.demux.is_last(&key, id) => Some(id),
            _ => self.demux.find(&key).or_else(|| self.find_by_listed_address(&packet, first)),
        };
        let Some(id) = id else {
            // req: rfc9260 6 "SHOULD be handled per Section 8.4"
            // req: rfc9260 6 "SHOULD be processed according to the rules"
            self.out_of_the_blue(&arrival, &packet);
            return last;
        };
        let Some(association) = self.get_mut(id) else { return last };
        match association.check_tag(&packet, first) {
            TagCheck::Valid => {
                association.handle_packet(now, arrival, &packet, false, batch);
                Some(id)
            }
            TagCheck::OutOfTheBlue => {
                self.out_of_the_blue(&arrival, &packet);
                last
            }
            TagCheck::Discard => {
                self.discarded += 1;
                last
            }
        }
    }

    /// The driver could not send to `remote` from `local`: no route, network down or the like.
    /// It counts against the path and is never fatal by itself.
    pub fn handle_send_error(&mut self, now: Instant, local: IpAddr, remote: IpAddr) {
        for id in self.demux.with_remote(remote) {
            if let Some(association) = self.get_mut(id) {
                association.on_send_error(now, local, remote);
            }
            self.after(now, id);
        }
    }

    /// The local interface takes IP packets of `mtu` bytes at the most from `local` to
    /// `remote`.
    pub fn handle_message_too_big(
        &mut self,
        now: Instant,
        local: IpAddr,
        remote: IpAddr,
        mtu: u16,
    ) {
        for id in self.demux.with_remote(remote) {
            if let Some(association) = self.get_mut(id) {
                association.on_packet_too_big(now, (local, remote), mtu, true);
            }
            self.after(now, id);
        }
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(id) = self.schedule.pop_due(now) {
            if let Some(association) = self.get_mut(id) {
                association.handle_timeout(now);
                debug_assert!(
                    association.next_deadline().is_none_or(|deadline| deadline > now),
                    "a deadline that its handling does not move"
                );
            }
            self.after(now, id);
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called next.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.schedule.next_deadline()
    }

    /// Appends the next packets to `buf`: up to `max_segments` of equal size (the last one may
    /// be shorter) for one destination, as one GSO send takes them.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        max_segments: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if let Some((transmit, packet)) = self.replies.pop_front() {
            buf.extend_from_slice(&packet);
            return Some(transmit);
        }
        if self.memory().take_returned() {
            let ids: Vec<AssociationId> = self.associations().collect();
            for id in ids {
                self.get_mut(id).into_iter().for_each(Association::on_memory_returned);
                self.after(now, id);
            }
        }
        while let Some(id) = self.schedule.next_ready() {
            let quantum = self.config.quantum;
            let Some(association) = self.get_mut(id) else {
                self.schedule.done(id);
                continue;
            };
            let packet = association.largest_packet();
            let segments = max_segments.min((quantum / packet.max(1)).max(1));
            let transmit = association.poll_transmit(now, segments, buf);
            let deadline = association.next_deadline();
            let has_events = association.has_events();
            if has_events {
                self.schedule.has_events(id);
            }
            self.schedule.deadline(id, deadline);
            match transmit {
                Some(transmit) => {
                    self.schedule.sent(id, transmit.len, quantum);
                    return Some(transmit);
                }
                None => self.schedule.done(id),
            }
        }
        None
    }

    /// The next event of any association.
    pub fn poll_event(&mut self) -> Option<(AssociationId, Event)> {
        while let Some(id) = self.schedule.next_with_events() {
            let event = self.get_mut(id).and_then(Association::poll_event);
            match event {
                Some(event) => return Some((id, event)),
                None => self.schedule.events_drained(id),
            }
        }
        None
    }

    /// An association, to look at.
    pub fn association(&self, id: AssociationId) -> Option<&Association> {
        let slot = self.slots.get(id.slot as usize)?;
        if slot.generation != id.generation {
            return None;
        }
        slot.association.as_deref()
    }

    /// An association, to use. The endpoint learns what happened to it when the guard is
    /// dropped.
    pub fn association_mut(
        &mut self,
        now: Instant,
        id: AssociationId,
    ) -> Option<AssociationMut<'_>> {
        self.association(id)?;
        Some(AssociationMut { endpoint: self, now, id })
    }

    /// Forgets an association. One that is not closed is gone without a word to the peer; the
    /// last packet of one that is closed still leaves.
    pub fn remove(&mut self, id: AssociationId) {
        let Some(slot) = self.slots.get_mut(id.slot as usize) else { return };
        if slot.generation != id.generation {
            return;
        }
        let Some(mut association) = slot.association.take() else { return };
        slot.generation = slot.generation.wrapping_add(1);
        slot.held = self.surroundings.common.memory.account(slot.held, 0);
        for key in slot.keys.drain(..) {
            self.demux.remove(&key, id);
        }
        // Its last word, an ABORT or SHUTDOWN COMPLETE, is still said.
        let mut bytes = Vec::new();
        if association.is_closed()
            && self.replies.len() < self.config.max_stateless_replies
            && let Some(transmit) = association.poll_transmit(Instant::ZERO, 1, &mut bytes)
        {
            self.replies.push_back((transmit, bytes));
        }
        self.schedule.forget(id);
        self.free.push(id.slot);
    }

    /// All associations.
    pub fn associations(&self) -> impl Iterator<Item = AssociationId> + '_ {
        self.slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| slot.association.is_some())
            .map(|(index, slot)| AssociationId { slot: index as u32, generation: slot.generation })
    }

    /// Number of associations.
    fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn memory(&self) -> &Memory {
        &self.surroundings.common.memory
    }

    /// Bytes in the receive and send buffers of all associations.
    pub fn memory_used(&self) -> usize {
        self.memory().used()
    }

    /// Packets discarded because they were malformed, damaged or had a wrong tag.
    pub fn discarded_packets(&self) -> u64 {
        self.discarded
    }

    /// Packets that led to nothing: those that were discarded, and those that were to set an
    /// association up and have not yet done so. It grows in a flood, and goes up and down by the
    /// handshakes under way at other times.
    pub fn unsolicited_packets(&self) -> u64 {
        self.discarded + self.setups
    }
}

/// An association in use; see [`Endpoint::association_mut`].
#[derive(Debug)]
pub struct AssociationMut<'a> {
    endpoint: &'a mut Endpoint,
    now: Instant,
    id: AssociationId,
}

impl AssociationMut<'_> {
    fn slot(&self) -> &Slot {
        &self.endpoint.slots[self.id.slot as usize]
    }
}

impl Deref for AssociationMut<'_> {
    type Target = Association;

    fn deref(&self) -> &Association {
        self.slot().association.as_deref().expect("checked when the guard was made")
    }
}

impl DerefMut for AssociationMut<'_> {
    fn deref_mut(&mut self) -> &mut Association {
        let slot = &mut self.endpoint.slots[self.id.slot as usize];
        slot.association.as_deref_mut().expect("checked when the guard was made")
    }
}

impl Drop for AssociationMut<'_> {
    fn drop(&mut self) {
        self.endpoint.after(self.now, self.id);
    }
}
