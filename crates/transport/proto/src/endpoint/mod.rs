//! An endpoint: any number of associations that share a set of addresses.
//!
//! The endpoint finds the association of a packet, answers packets without one, and stores nothing
//! for a peer until the peer has returned its cookie. It does no I/O: see [`Endpoint`].

mod authentication;
mod connect;
mod deadlines;
mod demux;
mod ended;
mod icmp;
#[cfg(any(test, feature = "invariants"))]
mod invariants;
mod log;
mod metric_cache;
mod pressure;
mod routing;
mod schedule;
mod stateless;
mod table;
mod whose;

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

pub use self::connect::ConnectRequest;
use self::demux::Demux;
use self::ended::Ended;
pub use self::icmp::{IcmpKind, IcmpMessage};
pub use self::log::{Log, LoggedPacket};
use self::metric_cache::Metrics;
use self::pressure::Pressure;
use self::schedule::Schedule;
pub use self::table::AssociationMut;
use self::table::Slot;
use crate::association::{Association, Common, Surroundings};
use crate::config::{AssociationConfig, EndpointConfig, IpVersions};
use crate::cookie::CookieJar;
pub use crate::datagram::{Ecn, Received, Transmit};
use crate::encapsulation::Headers;
use crate::error::ListenError;
use crate::event::{AssociationId, Event};
use crate::memory::Memory;
use crate::rng::{self, Rng};
use crate::time::Instant;

/// An SCTP endpoint without I/O.
///
/// Its methods are of four kinds:
/// - getters;
/// - input: `handle_batch`, `handle_icmp`, `handle_send_error`, `handle_message_too_big`,
///   `handle_timeout`;
/// - commands: `listen`, `connect`, and through [`association_mut`](Self::association_mut) everything
///   that the user of an association can do;
/// - output: [`poll_transmit`](Self::poll_transmit), [`poll_event`](Self::poll_event),
///   [`next_deadline`](Self::next_deadline).
///
/// After any input or command, drain `poll_transmit` and `poll_event` until they return `None`, then
/// wait for a packet or the deadline.
#[derive(Debug)]
pub struct Endpoint {
    config: EndpointConfig,
    surroundings: Surroundings,
    rng: Rng,
    cookies: CookieJar,
    listeners: BTreeMap<u16, Listener>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    demux: Demux,
    schedule: Schedule,
    pressure: Pressure,
    /// Number of associations that have ended but are not removed yet.
    ending: usize,
    /// Answers to packets without an association, as (destination, packet).
    replies: VecDeque<(Transmit, Vec<u8>)>,
    /// The port at which the next search for an ephemeral SCTP port begins.
    next_port: u16,
    /// Ended associations, whose cookies must not be used again.
    ended: Ended,
    /// The stored metrics of pairs of addresses.
    metrics: Metrics,
    /// The latest time at which something happened to an association.
    latest: Instant,
    discarded: u64,
    /// Number of packets that began with INIT or COOKIE ECHO, minus two for each association that
    /// they created.
    setups: u64,
    /// The log of all activity of associations.
    log: Option<Box<dyn Log>>,
}

/// The parameters of associations that peers begin on a port.
#[derive(Clone, Debug)]
struct Listener {
    config: Arc<AssociationConfig>,
    ip_versions: IpVersions,
}

impl Endpoint {
    /// Creates an endpoint without addresses or ports. All its randomness comes from `seed`, which
    /// must be unpredictable outside of tests.
    pub fn new(config: EndpointConfig, seed: [u8; 32]) -> Self {
        let mut rng = rng::public(&seed);
        let demux = Demux::new((rng.next_u64(), rng.next_u64()));
        let next_port = connect::draw_port(&mut rng);
        Self {
            surroundings: Surroundings {
                locals: Arc::from(Vec::new()),
                ip_versions: IpVersions::Both,
                common: Arc::new(Common {
                    routes: config.routes.clone(),
                    memory: Memory::new(config.memory_limit),
                    tag_mark: config.tag_mark,
                }),
                headers: Headers { encapsulation: config.encapsulation, shim: config.shim },
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
            pressure: Pressure::default(),
            ending: 0,
            replies: VecDeque::new(),
            next_port,
            // A peer may request the same time in addition.
            ended: Ended::new(config.valid_cookie_life * 2),
            metrics: Metrics::new(config.metric_cache_entries, config.metric_cache_life),
            latest: Instant::ZERO,
            discarded: 0,
            setups: 0,
            log: None,
            config,
        }
    }

    /// Sets the addresses of this host that associations may use from now on.
    // req: rfc9260 1.3 "MUST use the same port number but can"
    pub fn set_local_addresses(&mut self, _now: Instant, addresses: &[IpAddr]) {
        self.surroundings.locals = Arc::from(addresses);
        self.metrics.retain(|local| addresses.contains(&local));
    }

    /// Handles the loss or return of a local address: its interface is down, or it was removed.
    ///
    /// A lost address is no longer used if there are other paths. One that returned is tried
    /// immediately. [`set_local_addresses`](Self::set_local_addresses) sets the addresses for new
    /// associations.
    pub fn handle_local_address(&mut self, now: Instant, local: IpAddr, usable: bool) {
        // An address that returns may be in another network.
        self.metrics.retain(|known| known != local);
        let ids: Vec<AssociationId> = self.associations().collect();
        for id in ids {
            let Some(association) = self.get_mut(id) else { continue };
            association.on_local_address(now, local, usable);
            self.after(now, id);
        }
    }

    /// Handles a report of the layer below that the path between two addresses leads to the peer again, after packets may have
    /// been lost there. It is tried at once.
    pub fn handle_path_answer(&mut self, now: Instant, local: IpAddr, remote: IpAddr) {
        for id in self.demux.with(remote) {
            let asked =
                self.get_mut(id).is_some_and(|known| known.on_path_answer(now, local, remote));
            if asked {
                self.after(now, id);
            }
        }
    }

    /// Handles a report of the layer below that nothing comes from a peer's address any more, and nothing that is sent reaches it,
    /// because that layer has dropped the peer. Its associations end.
    pub fn handle_peer_gone(&mut self, now: Instant, remote: IpAddr) {
        for id in self.demux.with(remote) {
            if let Some(mut association) = self.association_mut(now, id) {
                association.abort(now, b"the peer was dropped");
            }
        }
    }

    /// Addresses of this host.
    pub fn local_addresses(&self) -> &[IpAddr] {
        &self.surroundings.locals
    }

    /// Accepts associations on an SCTP port. [`Notification::Up`](crate::Notification::Up) announces
    /// each of them.
    ///
    /// # Errors
    /// [`ListenError`] if the port is 0 or in use, or an option is out of range.
    pub fn listen(&mut self, port: u16, config: Arc<AssociationConfig>) -> Result<(), ListenError> {
        self.listen_within(port, config, IpVersions::Both)
    }

    /// As [`listen`](Self::listen), but only for peers that reach this side with these versions of
    /// IP. The associations do not use the other version.
    ///
    /// # Errors
    /// As for [`listen`](Self::listen).
    pub fn listen_within(
        &mut self,
        port: u16,
        config: Arc<AssociationConfig>,
        ip_versions: IpVersions,
    ) -> Result<(), ListenError> {
        // req: rfc9260 3.1 "Source Port Number 0 MUST NOT be used"
        if port == 0 {
            return Err(ListenError::InvalidPort);
        }
        config.validate().map_err(ListenError::Config)?;
        if self.listeners.contains_key(&port) {
            return Err(ListenError::InUse);
        }
        self.listeners.insert(port, Listener { config, ip_versions });
        Ok(())
    }

    /// Accepts no more associations on a port; existing ones continue.
    pub fn stop_listening(&mut self, port: u16) {
        self.listeners.remove(&port);
    }

    /// Handles everything due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.note_deadlines();
        while let Some(id) = self.schedule.pop_due(now) {
            if let Some(association) = self.get_mut(id) {
                association.handle_timeout(now);
                debug_assert!(
                    association.next_deadline().is_none_or(|deadline| deadline > now),
                    "a deadline that its handling does not move"
                );
            }
            self.after(now, id);
            // Looking for something to send may start a timer that is due at once.
            self.note_deadlines();
        }
        self.relieve_if_due(now);
    }

    /// When [`handle_timeout`](Self::handle_timeout) must be called next.
    pub fn next_deadline(&self) -> Option<Instant> {
        let known = [self.schedule.next_deadline(), self.pressure.next_deadline()];
        // There are none if all packets were taken, as they should be.
        let changed = self.schedule.changed().iter();
        let changed = changed.filter_map(|id| self.association(*id)?.next_deadline());
        known.into_iter().flatten().chain(changed).min()
    }

    /// Enters the deadlines that may have changed in the schedule.
    fn note_deadlines(&mut self) {
        while let Some(id) = self.schedule.pop_changed() {
            let deadline = self.association(id).and_then(Association::next_deadline);
            self.schedule.deadline(id, deadline);
        }
    }

    /// Appends the next packets to `buf`: up to `max_segments` of equal size (the last one may be
    /// shorter) for one destination, as required for a GSO send.
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
            // With the headers, so that what is taken at once also fits one call of the system, sealed or not.
            let packet = association.largest_mtu();
            let segments = max_segments.min((quantum / packet.max(1)).max(1));
            let transmit = association.poll_transmit(now, segments, buf);
            let has_events = association.has_events();
            if has_events {
                self.schedule.has_events(id);
            }
            self.schedule.deadline_changed(id);
            match transmit {
                Some(transmit) => {
                    self.schedule.sent(id, transmit.len, quantum);
                    self.log_sent(now, id, &transmit, buf);
                    return Some(transmit);
                }
                None => self.schedule.done(id),
            }
        }
        self.note_deadlines();
        None
    }

    /// The next event of any association.
    pub fn poll_event(&mut self) -> Option<(AssociationId, Event)> {
        while let Some(id) = self.schedule.next_with_events() {
            let event = self.get_mut(id).and_then(Association::poll_event);
            match event {
                Some(event) => {
                    self.log_event(id, &event);
                    return Some((id, event));
                }
                None => self.schedule.events_drained(id),
            }
        }
        None
    }

    fn memory(&self) -> &Memory {
        &self.surroundings.common.memory
    }

    /// Bytes in the receive and send buffers of all associations.
    pub fn memory_used(&self) -> usize {
        self.memory().used()
    }

    /// Number of packets discarded because they were malformed or damaged, or had a wrong tag.
    pub fn discarded_packets(&self) -> u64 {
        self.discarded
    }

    /// Number of packets without effect: those that were discarded, and those that should set up an
    /// association but have not done so yet. The number grows in a flood; otherwise it varies with
    /// the number of handshakes in progress.
    pub fn unsolicited_packets(&self) -> u64 {
        self.discarded + self.setups
    }
}
