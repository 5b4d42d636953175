//! [`Engine`] for rtc-sctp.
//!
//! Messages are passed in as reference-counted slices (`write_chunk_with_ppi`), and packets in and
//! out as `Bytes`: nothing is copied here. SCTP ports are 5000 on both sides, and RTO.Min is 1 s;
//! the crate has no option for either.

use std::collections::{HashMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rtc_sctp::{
    Association, AssociationError, AssociationHandle, ClientConfig, DatagramEvent, Endpoint,
    EndpointConfig, Event, Payload, PayloadProtocolIdentifier, ReliabilityType, ServerConfig,
    StreamEvent, TransportConfig, max_payload_size_for_mtu,
};
use rtc_shared::TransportProtocol;

use crate::config::{Config, Role};
use crate::engine::{Body, Engine, Packets, Received};
use crate::engines::{aborts, completes_shutdown};

pub(crate) struct RtcSctp {
    epoch: Instant,
    endpoint: Endpoint,
    remote: SocketAddr,
    transport: TransportConfig,
    association: Option<(AssociationHandle, Association)>,
    connected: bool,
    completed: bool,
    /// Streams opened here, with the ordering last set.
    ordered: HashMap<u16, bool>,
    /// The stream last used for sending and its ordering, so that consecutive sends on one stream
    /// need no lookup.
    last: Option<(u16, bool)>,
    readable: VecDeque<u16>,
    /// Streams that the other side has reset. The crate has closed them, and resets its own direction.
    reset: VecDeque<u16>,
    buffered: usize,
    send_buffer: usize,
}

impl RtcSctp {
    pub(crate) fn new(config: &Config, role: Role) -> Self {
        let limit = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        let transport = TransportConfig::default()
            .with_max_receive_buffer_size(limit(config.receive_window))
            .with_max_message_size(limit(config.message))
            .with_max_num_inbound_streams(config.streams)
            .with_max_num_outbound_streams(config.streams);
        let mut endpoint = EndpointConfig::new();
        endpoint.max_payload_size(max_payload_size_for_mtu(limit(config.packet)));
        let address = |last| SocketAddr::from((Ipv4Addr::new(192, 0, 2, last), 9899));
        let (local, remote, server) = match role {
            Role::Client => (address(1), address(2), None),
            Role::Server => {
                let server = ServerConfig::new(transport.clone());
                (address(2), address(1), Some(Arc::new(server)))
            }
        };
        RtcSctp {
            epoch: Instant::now(),
            endpoint: Endpoint::new(local, TransportProtocol::UDP, Arc::new(endpoint), server),
            remote,
            transport,
            association: None,
            connected: false,
            completed: false,
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
                Event::AssociationLost { reason: AssociationError::Reset, id } => {
                    self.ordered.remove(&id);
                    self.last = None;
                    self.reset.push_back(id);
                }
                Event::Stream(StreamEvent::Readable { id })
                    if self.readable.back() != Some(&id) =>
                {
                    self.readable.push_back(id);
                }
                Event::Stream(StreamEvent::BufferedAmountReleased { n_bytes, .. }) => {
                    self.buffered = self.buffered.saturating_sub(n_bytes);
                }
                _ => {}
            }
        }
    }
}

impl Engine for RtcSctp {
    fn name(&self) -> &'static str {
        "rtc-sctp"
    }

    fn connect(&mut self, now: u64) {
        let config = ClientConfig::new(self.transport.clone());
        let now = self.at(now);
        self.association = self.endpoint.connect(now, config, self.remote).ok();
    }

    fn established(&self) -> bool {
        let open = |(_, a): &(_, Association)| !a.is_handshaking() && !a.is_closed();
        !self.completed && self.association.as_ref().is_some_and(open)
    }

    fn closed(&self) -> bool {
        let ended = |(_, a): &(_, Association)| self.connected && a.is_closed();
        self.completed || self.association.as_ref().is_some_and(ended)
    }

    fn send(&mut self, now: u64, stream: u16, ordered: bool, message: &Bytes) -> bool {
        if self.buffered >= self.send_buffer {
            self.poll_events();
            if self.buffered >= self.send_buffer {
                return false;
            }
        }
        let now = self.at(now);
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
        match handle.write_chunk_with_ppi(now, message, PayloadProtocolIdentifier::Binary) {
            Ok(length) => {
                self.buffered += length;
                true
            }
            Err(_) => false,
        }
    }

    fn buffered(&mut self) -> usize {
        self.poll_events();
        self.buffered
    }

    fn receive(&mut self) -> Option<Received> {
        self.poll_events();
        let (_, association) = self.association.as_mut()?;
        while let Some(&stream) = self.readable.front() {
            if let Ok(mut handle) = association.stream(stream)
                && let Ok(Some(chunks)) = handle.read_sctp()
            {
                let body = Body::RtcSctp(chunks);
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
            match self.endpoint.handle(now, self.remote, None, packet) {
                Some((handle, DatagramEvent::NewAssociation(association))) => {
                    self.association = Some((handle, association));
                }
                Some((_, DatagramEvent::AssociationEvent(event))) => {
                    if let Some((_, association)) = &mut self.association {
                        association.handle_event(event);
                    }
                }
                _ => {}
            }
        }
    }

    fn transmit(&mut self, now: u64, out: &mut dyn FnMut(Packets)) {
        let now = self.at(now);
        let Some((_, association)) = &mut self.association else {
            return;
        };
        while let Some(message) = association.poll_transmit(now) {
            if let Payload::RawEncode(packets) = message.message {
                for packet in packets {
                    self.completed |= completes_shutdown(&packet);
                    out(Packets::one(packet));
                }
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
        // The association immediately asks its endpoint to forget it. Do not pass that on: the
        // answers to the SHUTDOWN would have no receiver.
        if let Some((_, association)) = &mut self.association {
            let _ = association.shutdown();
        }
    }

    fn reset_stream(&mut self, now: u64, stream: u16) -> bool {
        let now = self.at(now);
        let Some((_, association)) = &mut self.association else { return false };
        association.stream(stream).is_ok_and(|mut stream| stream.close(now).is_ok())
    }

    fn next_reset(&mut self) -> Option<u16> {
        self.poll_events();
        self.reset.pop_front()
    }

    fn abort(&mut self, _now: u64) {
        if let Some((_, association)) = &mut self.association {
            let _ = association.abort();
        }
    }

    fn shutdown_flushes(&self) -> bool {
        // In SHUTDOWN-PENDING it does not send what is in its pending queue.
        false
    }
}
