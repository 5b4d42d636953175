//! [`Engine`] for sctp-proto.
//!
//! Writing copies the message into the engine, which has no other interface; packets are passed in
//! and out as `Bytes`. An abort is local: the crate has no call that sends an ABORT.

use std::collections::{HashMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use sctp_proto::{
    Association, AssociationHandle, ClientConfig, DatagramEvent, Endpoint, EndpointConfig, Event,
    Payload, PayloadProtocolIdentifier, ReliabilityType, ServerConfig, StreamEvent, Transmit,
    TransportConfig,
};

use crate::config::{Config, Role};
use crate::engine::{Body, Engine, Packets, Received};
use crate::engines::{aborts, completes_shutdown};

/// Common header and DATA chunk header, which the crate subtracts from the packet size itself.
const HEADERS: usize = 28;

pub(crate) struct SctpProto {
    epoch: Instant,
    endpoint: Endpoint,
    remote: SocketAddr,
    transport: Arc<TransportConfig>,
    association: Option<(AssociationHandle, Association)>,
    connected: bool,
    completed: bool,
    lost: bool,
    /// Streams opened here, with the ordering last set.
    ordered: HashMap<u16, bool>,
    /// The stream last used for sending and its ordering, so that consecutive sends on one stream
    /// need no lookup.
    last: Option<(u16, bool)>,
    readable: VecDeque<u16>,
    /// Streams that the other side has reset. The crate has closed them, and resets its own direction.
    reset: VecDeque<u16>,
    /// Bytes written since the streams were last queried, plus those that they held then.
    buffered: usize,
    send_buffer: usize,
}

impl SctpProto {
    pub(crate) fn new(config: &Config, role: Role) -> Self {
        let limit = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        let transport = TransportConfig::default()
            .with_max_receive_buffer_size(limit(config.receive_window))
            .with_max_send_message_size(limit(config.message))
            .with_max_receive_message_size(limit(config.message))
            .with_max_num_inbound_streams(config.streams)
            .with_max_num_outbound_streams(config.streams)
            .with_rto_min_ms(config.rto_min);
        let transport = Arc::new(transport);
        let mut endpoint = EndpointConfig::new();
        // Use a multiple of four, so that a full chunk needs no padding beyond the packet.
        endpoint.max_payload_size(limit(config.packet.saturating_sub(HEADERS)) & !3);
        let address = |last| SocketAddr::from((Ipv4Addr::new(192, 0, 2, last), 9899));
        let (remote, server) = match role {
            Role::Client => (address(2), None),
            Role::Server => {
                let mut server = ServerConfig::new();
                server.transport = Arc::clone(&transport);
                (address(1), Some(Arc::new(server)))
            }
        };
        SctpProto {
            epoch: Instant::now(),
            endpoint: Endpoint::new(Arc::new(endpoint), server),
            remote,
            transport,
            association: None,
            connected: false,
            completed: false,
            lost: false,
            ordered: HashMap::new(),
            last: None,
            readable: VecDeque::new(),
            reset: VecDeque::new(),
            buffered: 0,
            send_buffer: config.send_buffer,
        }
    }

    fn at(&self, now: u64) -> Instant {
        self.epoch + Duration::from_nanos(now)
    }

    fn poll_events(&mut self) {
        let Some((_, association)) = &mut self.association else {
            return;
        };
        while let Some(event) = association.poll() {
            match event {
                Event::Connected => self.connected = true,
                Event::Stream(StreamEvent::Finished { id }) => {
                    self.ordered.remove(&id);
                    self.last = None;
                    self.reset.push_back(id);
                }
                Event::AssociationLost { .. } => self.lost = true,
                Event::Stream(StreamEvent::Readable { id })
                    if self.readable.back() != Some(&id) =>
                {
                    self.readable.push_back(id);
                }
                _ => {}
            }
        }
    }

    /// Queries the buffered bytes of every stream.
    fn recount(&mut self) {
        self.buffered = 0;
        if let Some((_, association)) = &mut self.association {
            for &stream in self.ordered.keys() {
                if let Ok(handle) = association.stream(stream) {
                    self.buffered += handle.buffered_amount().unwrap_or(0);
                }
            }
        }
    }
}

impl Engine for SctpProto {
    fn name(&self) -> &'static str {
        "sctp-proto"
    }

    fn connect(&mut self, _now: u64) {
        let mut config = ClientConfig::new();
        config.transport = Arc::clone(&self.transport);
        self.association = self.endpoint.connect(config, self.remote).ok();
    }

    fn established(&self) -> bool {
        let open = |(_, a): &(_, Association)| !a.is_handshaking() && !a.is_closed();
        !self.completed && self.association.as_ref().is_some_and(open)
    }

    fn closed(&self) -> bool {
        let ended = |(_, a): &(_, Association)| !a.is_handshaking() && a.is_closed();
        self.lost || self.completed || self.association.as_ref().is_some_and(ended)
    }

    fn send(&mut self, _now: u64, stream: u16, ordered: bool, message: &Bytes) -> bool {
        if self.buffered >= self.send_buffer {
            self.recount();
            if self.buffered >= self.send_buffer {
                return false;
            }
        }
        let Some((_, association)) = &mut self.association else {
            return false;
        };
        if self.last != Some((stream, ordered)) {
            let known = self.ordered.get(&stream).copied();
            if known.is_none() {
                // Fails if the other side opened it first, which is fine.
                let _ = association.open_stream(stream, PayloadProtocolIdentifier::Binary);
            }
            if known != Some(ordered) {
                let reliable = ReliabilityType::Reliable;
                let set = association.stream(stream);
                if set.and_then(|mut s| s.set_reliability_params(!ordered, reliable, 0)).is_err() {
                    return false;
                }
                self.ordered.insert(stream, ordered);
            }
            self.last = Some((stream, ordered));
        }
        let Ok(mut handle) = association.stream(stream) else {
            return false;
        };
        match handle.write_with_ppi(message, PayloadProtocolIdentifier::Binary) {
            Ok(length) => {
                self.buffered += length;
                true
            }
            Err(_) => false,
        }
    }

    fn buffered(&mut self) -> usize {
        self.recount();
        self.buffered
    }

    fn receive(&mut self) -> Option<Received> {
        self.poll_events();
        let (_, association) = self.association.as_mut()?;
        while let Some(&stream) = self.readable.front() {
            if let Ok(mut handle) = association.stream(stream)
                && let Ok(Some(chunks)) = handle.read_sctp()
            {
                let body = Body::SctpProto(chunks);
                return Some(Received { stream, body });
            }
            self.readable.pop_front();
        }
        None
    }

    fn handle(&mut self, now: u64, packets: Packets) {
        let now = self.at(now);
        for packet in packets.each() {
            self.completed |= aborts(&packet);
            match self.endpoint.handle(now, self.remote, None, None, packet) {
                Some((handle, DatagramEvent::NewAssociation(association))) => {
                    self.association = Some((handle, association));
                }
                Some((_, DatagramEvent::AssociationEvent(event))) => {
                    if let Some((_, association)) = &mut self.association {
                        association.handle_event(event);
                    }
                }
                None => {}
            }
        }
    }

    fn transmit(&mut self, now: u64, out: &mut dyn FnMut(Packets)) {
        let now = self.at(now);
        let completed = &mut self.completed;
        let mut emit = |transmit: Transmit| {
            if let Payload::RawEncode(packets) = transmit.payload {
                for packet in packets {
                    *completed |= completes_shutdown(&packet);
                    out(Packets::one(packet));
                }
            }
        };
        while let Some(transmit) = self.endpoint.poll_transmit() {
            emit(transmit);
        }
        if let Some((_, association)) = &mut self.association {
            while let Some(transmit) = association.poll_transmit(now) {
                emit(transmit);
            }
        }
    }

    fn deadline(&mut self) -> Option<u64> {
        let at = self.association.as_ref()?.1.poll_timeout()?;
        let after = at.saturating_duration_since(self.epoch);
        u64::try_from(after.as_nanos()).ok()
    }

    fn timeout(&mut self, now: u64) {
        let now = self.at(now);
        if let Some((_, association)) = &mut self.association {
            association.handle_timeout(now);
        }
    }

    fn shutdown(&mut self, _now: u64) {
        // As in rtc-sctp, the endpoint must not yet forget the association.
        if let Some((_, association)) = &mut self.association {
            let _ = association.shutdown();
        }
    }

    fn reset_stream(&mut self, _now: u64, stream: u16) -> bool {
        let Some((_, association)) = &mut self.association else { return false };
        association.stream(stream).is_ok_and(|mut stream| stream.close().is_ok())
    }

    fn next_reset(&mut self) -> Option<u16> {
        self.poll_events();
        self.reset.pop_front()
    }

    fn abort(&mut self, _now: u64) {
        if let Some((_, association)) = &mut self.association {
            let _ = association.close();
        }
    }

    fn sends_abort(&self) -> bool {
        false
    }

    fn shutdown_flushes(&self) -> bool {
        false
    }
}
