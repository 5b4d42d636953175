//! [`Engine`] for anabranch.
//!
//! Packets are sent in the batches of one send call with segmentation offload, and received as
//! slices of such batches. Messages are passed in and out as reference-counted slices.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use anabranch_proto::{
    Association, AssociationConfig, AssociationId, CloseReason, ConnectRequest, Encapsulation,
    Endpoint, EndpointConfig, Event, Instant, MtuConfig, Notification, OutgoingMessage, Ppid,
    Received as Arrival,
};
use anabranch_testnet::pump;
use bytes::Bytes;

use crate::config::{Config, Role};
use crate::engine::{Body, Engine, Packets, Received};

/// The SCTP port of both sides: the other engines support no other.
const PORT: u16 = 5000;

/// The UDP port of both sides.
const UDP_PORT: u16 = 9899;

/// WebRTC binary, the identifier that the other engines also send.
const PPID: Ppid = Ppid(53);

/// Number of packets in a batch. GSO allows more, but here every batch is a new allocation, and
/// larger ones would measure the allocator.
const SEGMENTS: usize = 16;

pub(crate) struct Anabranch {
    endpoint: Endpoint,
    config: Arc<AssociationConfig>,
    /// Local and remote addresses, by path.
    local: Vec<IpAddr>,
    remote: Vec<IpAddr>,
    association: Option<AssociationId>,
    now: Instant,
    closed: Option<CloseReason>,
    /// Parts of incomplete messages, by stream and ordering.
    parts: BTreeMap<(u16, bool), Vec<Bytes>>,
    buffer: Vec<u8>,
}

impl Anabranch {
    pub(crate) fn new(config: &Config, role: Role) -> Self {
        let address = |host| move |path| IpAddr::from(Ipv4Addr::new(192, 0, 2, 10 * path + host));
        let paths = 0..config.paths.clamp(1, 16);
        let client: Vec<IpAddr> = paths.clone().map(address(1)).collect();
        let server: Vec<IpAddr> = paths.map(address(2)).collect();
        let (local, remote, seed) = match role {
            Role::Client => (client, server, [1; 32]),
            Role::Server => (server, client, [2; 32]),
        };
        let mut options = config.anabranch.association(config);
        let overhead = remote.first().map_or(0, |&to| Encapsulation::Udp.overhead(to));
        let packet = config.packet.saturating_add(overhead);
        options.mtu = MtuConfig::fixed(u16::try_from(packet).unwrap_or(u16::MAX));
        options.receiving.receive_buffer = config.receive_window;
        options.sending.send_buffer = config.send_buffer;
        (options.receiving.receive_buffer_start, options.sending.send_buffer_start) = (None, None);
        options.sending.max_message_size = config.message;
        options.sending.outbound_streams = config.streams;
        options.receiving.inbound_streams = config.streams;
        options.timers.rto_min = Duration::from_millis(config.rto_min);
        options.timers.rto_initial = options.timers.rto_initial.max(options.timers.rto_min);
        let options = Arc::new(options);
        let mut endpoint = Endpoint::new(EndpointConfig::default(), seed);
        endpoint.set_local_addresses(Instant::ZERO, &local);
        if role == Role::Server {
            let listens = endpoint.listen(PORT, Arc::clone(&options));
            listens.unwrap_or_else(|error| panic!("anabranch cannot listen: {error}"));
        }
        Anabranch {
            endpoint,
            config: options,
            local,
            remote,
            association: None,
            now: Instant::ZERO,
            closed: None,
            parts: BTreeMap::new(),
            buffer: Vec::with_capacity(SEGMENTS * config.packet),
        }
    }

    fn poll_events(&mut self) {
        while let Some((id, event)) = self.endpoint.poll_event() {
            match event {
                Event::Notification(Notification::Up { .. }) => self.association = Some(id),
                Event::Notification(Notification::Closed(reason)) => self.closed = Some(reason),
                _ => {}
            }
        }
    }
}

impl Engine for Anabranch {
    fn name(&self) -> &'static str {
        "anabranch"
    }

    fn connect(&mut self, now: u64) {
        let mut request = ConnectRequest::new(self.remote.clone(), PORT);
        request.remote_udp_port = UDP_PORT;
        request.local_port = Some(PORT);
        request.config = Arc::clone(&self.config);
        let now = Instant::from_nanos(now);
        let id = self.endpoint.connect(now, request);
        self.association =
            Some(id.unwrap_or_else(|error| panic!("anabranch cannot connect: {error}")));
    }

    fn established(&self) -> bool {
        let association = self.association.and_then(|id| self.endpoint.association(id));
        association.is_some_and(|a| a.is_established())
    }

    fn closed(&self) -> bool {
        self.closed.is_some()
    }

    fn send(&mut self, now: u64, stream: u16, ordered: bool, message: &Bytes) -> bool {
        let now = Instant::from_nanos(now);
        let Some(mut association) =
            self.association.and_then(|id| self.endpoint.association_mut(now, id))
        else {
            return false;
        };
        if association.send_buffer_free() == 0 {
            return false;
        }
        let mut outgoing = OutgoingMessage::new(stream, PPID, message.clone());
        outgoing.unordered = !ordered;
        association.send(now, outgoing).is_ok()
    }

    fn buffered(&mut self) -> usize {
        let association = self.association.and_then(|id| self.endpoint.association(id));
        association.map_or(0, Association::pending_bytes)
    }

    fn receive(&mut self) -> Option<Received> {
        let id = self.association?;
        if !self.endpoint.association(id)?.is_readable() {
            return None;
        }
        let mut association = self.endpoint.association_mut(self.now, id)?;
        while let Some(message) = association.receive() {
            association.release(message.charge());
            let stream = message.stream;
            if message.is_whole() {
                let body = Body::Payload(message.payload);
                return Some(Received { stream, body });
            }
            let key = (stream, message.unordered);
            let parts = self.parts.entry(key).or_default();
            parts.extend(message.payload.into_pieces());
            if message.end {
                let body = Body::Parts(self.parts.remove(&key).unwrap_or_default());
                return Some(Received { stream, body });
            }
        }
        None
    }

    fn handle(&mut self, now: u64, packets: Packets) {
        self.now = Instant::from_nanos(now);
        let (from, to) = (usize::from(packets.path >> 4), usize::from(packets.path & 15));
        let (Some(&local), Some(&remote)) = (self.local.get(to), self.remote.get(from)) else {
            return;
        };
        let arrival = Arrival {
            local,
            remote,
            remote_udp_port: UDP_PORT,
            ecn: None,
            segment_size: packets.segment,
        };
        self.endpoint.handle_batch(self.now, &arrival, packets.data);
        self.poll_events();
    }

    fn transmit(&mut self, now: u64, out: &mut dyn FnMut(Packets)) {
        self.now = Instant::from_nanos(now);
        while let Some(transmit) =
            pump::poll(&mut self.endpoint, self.now, SEGMENTS, &mut self.buffer)
        {
            let from = self.local.iter().position(|&ip| ip == transmit.local).unwrap_or(0);
            let to = self.remote.iter().position(|&ip| ip == transmit.remote).unwrap_or(0);
            // Pass a batch on with its buffer: no engine pays here for the copy that a send call
            // makes. A few packets would leave most of a buffer unused, so they are copied.
            let data = if transmit.len * 4 <= self.buffer.capacity() {
                let data = Bytes::copy_from_slice(&self.buffer);
                self.buffer.clear();
                data
            } else {
                let next = Vec::with_capacity(self.buffer.capacity());
                Bytes::from(std::mem::replace(&mut self.buffer, next))
            };
            // There are fewer than sixteen addresses on either side.
            out(Packets { data, segment: transmit.segment_size, path: (from << 4 | to) as u8 });
        }
        self.poll_events();
    }

    fn deadline(&mut self) -> Option<u64> {
        self.endpoint.next_deadline().map(Instant::as_nanos)
    }

    fn timeout(&mut self, now: u64) {
        self.now = Instant::from_nanos(now);
        self.endpoint.handle_timeout(self.now);
        self.poll_events();
    }

    fn shutdown(&mut self, now: u64) {
        let now = Instant::from_nanos(now);
        if let Some(id) = self.association
            && let Some(mut association) = self.endpoint.association_mut(now, id)
        {
            association.shutdown(now);
        }
        self.poll_events();
    }

    fn describe(&self) -> String {
        let association = self.association.and_then(|id| self.endpoint.association(id));
        association.map_or("anabranch, no association".into(), |a| {
            format!("anabranch, {:?}, {:?}", self.closed, a.statistics())
        })
    }

    fn abort(&mut self, now: u64) {
        let now = Instant::from_nanos(now);
        if let Some(id) = self.association
            && let Some(mut association) = self.endpoint.association_mut(now, id)
        {
            association.abort(now, b"end of the test");
        }
        self.poll_events();
    }
}
