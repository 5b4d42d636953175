//! anabranch behind [`Engine`].

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use anabranch_proto::{
    AssociationConfig, AssociationId, ConnectRequest, Endpoint, EndpointConfig, Event, Instant,
    MtuConfig, OutgoingMessage, Ppid, Received as Arrival,
};
use bytes::Bytes;

use crate::config::{Config, Role};
use crate::engine::{Body, Engine, Packets, Received};

/// WebRTC binary, the same identifier that the other peers send.
const PPID: Ppid = Ppid(53);
const PORT: u16 = 5000;
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
/// Bytes of IPv4 and UDP headers around a packet.
const OVERHEAD: usize = 28;
/// Packets of one batch. GSO takes more; here every batch is a fresh allocation, and larger ones
/// measure the allocator.
const SEGMENTS: usize = 16;

pub(crate) struct Anabranch {
    endpoint: Endpoint,
    config: Arc<AssociationConfig>,
    id: Option<AssociationId>,
    role: Role,
    connected: bool,
    ended: bool,
    /// Parts of a message that is being delivered in parts.
    parts: Vec<Bytes>,
    buffer: Vec<u8>,
    packet: usize,
    /// Fills small gaps in time between calls that take none.
    now: Instant,
}

impl Anabranch {
    pub(crate) fn new(config: &Config, role: Role) -> Self {
        let mut options = match config.profile {
            "default" => AssociationConfig::default(),
            name => AssociationConfig::profile(name).unwrap_or_default(),
        };
        options.mtu = MtuConfig::fixed((config.packet + OVERHEAD) as u16);
        options.receive_buffer = config.receive_window;
        options.send_buffer = config.send_buffer;
        options.max_message_size = config.message;
        options.outbound_streams = config.streams;
        options.inbound_streams = config.streams;
        options.rto_min = Duration::from_millis(config.rto_min);
        options.rto_initial = options.rto_initial.max(options.rto_min);
        let options = Arc::new(options);
        let (seed, local) = match role {
            Role::Client => ([1; 32], CLIENT),
            Role::Server => ([2; 32], SERVER),
        };
        let mut endpoint = Endpoint::new(EndpointConfig::default(), seed);
        endpoint.set_local_addresses(Instant::ZERO, &[local]);
        if role == Role::Server {
            // A valid configuration and a fresh endpoint: this cannot fail.
            let _ = endpoint.listen(PORT, Arc::clone(&options));
        }
        Anabranch {
            endpoint,
            config: options,
            id: None,
            role,
            connected: false,
            ended: false,
            parts: Vec::new(),
            buffer: Vec::new(),
            packet: config.packet,
            now: Instant::ZERO,
        }
    }

    fn at(&mut self, now: u64) -> Instant {
        self.now = Instant::from_nanos(now);
        self.now
    }

    fn poll_events(&mut self) {
        while let Some((id, event)) = self.endpoint.poll_event() {
            match event {
                Event::Connected { .. } => {
                    self.id = Some(id);
                    self.connected = true;
                }
                Event::Closed(_) => self.ended = true,
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
        let now = self.at(now);
        let mut request = ConnectRequest::new(vec![SERVER], PORT);
        request.local_port = Some(PORT);
        request.config = Arc::clone(&self.config);
        self.id = self.endpoint.connect(now, request).ok();
    }

    fn established(&self) -> bool {
        self.connected && !self.ended
    }

    fn closed(&self) -> bool {
        self.connected && self.ended
    }

    fn send(&mut self, now: u64, stream: u16, ordered: bool, message: &Bytes) -> bool {
        let now = self.at(now);
        let Some(mut association) = self.id.and_then(|id| self.endpoint.association_mut(now, id))
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
        let association = self.id.and_then(|id| self.endpoint.association(id));
        association.map_or(0, anabranch_proto::Association::pending_bytes)
    }

    fn receive(&mut self) -> Option<Received> {
        let id = self.id?;
        if !self.endpoint.association(id)?.is_readable() {
            return None;
        }
        let mut association = self.endpoint.association_mut(self.now, id)?;
        let message = association.receive()?;
        association.release(message.charge());
        let stream = message.stream;
        if message.is_whole() {
            let parts = message.payload.into_pieces();
            return Some(Received { stream, body: Body::Parts(parts) });
        }
        self.parts.extend(message.payload.into_pieces());
        if !message.end {
            drop(association);
            return self.receive();
        }
        Some(Received { stream, body: Body::Parts(std::mem::take(&mut self.parts)) })
    }

    fn handle(&mut self, now: u64, packets: Packets) {
        let now = self.at(now);
        let (local, remote) = match self.role {
            Role::Client => (CLIENT, SERVER),
            Role::Server => (SERVER, CLIENT),
        };
        let arrival = Arrival {
            local,
            remote,
            remote_udp_port: 9899,
            ecn: None,
            segment_size: packets.segment,
        };
        self.endpoint.handle_batch(now, &arrival, packets.data);
        self.poll_events();
    }

    fn transmit(&mut self, now: u64, out: &mut dyn FnMut(Packets)) {
        let now = self.at(now);
        while let Some(transmit) = self.endpoint.poll_transmit(now, SEGMENTS, &mut self.buffer) {
            // Few packets are copied out of the buffer, many leave with it.
            let data = if transmit.len <= 2 * self.packet {
                let data = Bytes::copy_from_slice(&self.buffer);
                self.buffer.clear();
                data
            } else {
                let fresh = Vec::with_capacity(SEGMENTS * self.packet);
                Bytes::from(std::mem::replace(&mut self.buffer, fresh))
            };
            out(Packets { data, segment: transmit.segment_size, path: 0 });
        }
        self.poll_events();
    }

    fn deadline(&mut self) -> Option<u64> {
        self.endpoint.next_deadline().map(Instant::as_nanos)
    }

    fn timeout(&mut self, now: u64) {
        let now = self.at(now);
        self.endpoint.handle_timeout(now);
        self.poll_events();
    }

    fn shutdown(&mut self, now: u64) {
        let now = self.at(now);
        if let Some(mut association) = self.id.and_then(|id| self.endpoint.association_mut(now, id))
        {
            association.shutdown(now);
        }
    }

    fn abort(&mut self, now: u64) {
        let now = self.at(now);
        if let Some(mut association) = self.id.and_then(|id| self.endpoint.association_mut(now, id))
        {
            association.abort(now, b"the test is over");
        }
        self.poll_events();
    }
}
