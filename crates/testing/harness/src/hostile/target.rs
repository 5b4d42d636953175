//! An endpoint and the packets sent to it.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use anabranch_proto::{
    AssociationConfig, AssociationId, AssociationMut, Endpoint, EndpointConfig, Event, Instant,
    Notification, Received, Transmit,
};
use anabranch_wire::{
    Chunk, Data, DataFlags, ForwardTsn, Header, IData, IForwardTsn, Init, List, Packet, Parameter,
    Parameters, Ppid, ReConfig, SkippedMessage, SkippedStream, Ssn, Tsn, kind, parameter_kind,
};
use bytes::Bytes;

use super::Draft;
use crate::{craft, pump};

/// Counters of the traffic in and out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Packets received.
    pub packets_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Packets sent.
    pub packets_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Calls of the engine.
    pub calls: u64,
}

/// A packet sent by the target.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Destination address.
    pub to: IpAddr,
    /// UDP destination port.
    pub port: u16,
    /// The packet.
    pub bytes: Vec<u8>,
}

impl Sent {
    /// Whether it contains a chunk of this type.
    pub fn has(&self, kind: u8) -> bool {
        craft::has(&self.bytes, kind)
    }
}

/// An endpoint at [`Target::HERE`] that listens on port [`Target::PORT`], without a network. Its
/// packets are counted and dropped unless the test collects them.
#[derive(Debug)]
pub struct Target {
    /// The engine.
    pub endpoint: Endpoint,
    /// Virtual time.
    pub now: Instant,
    /// The traffic in and out so far.
    pub work: Work,
    /// The target's verification tag, after an association has been set up.
    pub tag: u32,
    /// Its first TSN.
    pub tsn: u32,
    /// The peer's verification tag in the next INIT. Its first TSN is 1.
    pub peer_tag: u32,
    /// UDP source port of incoming packets.
    pub from_port: u16,
    /// Further parameters of its INITs.
    pub extensions: Vec<u8>,
}

impl Target {
    /// Its address.
    pub const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    /// The peer's address.
    pub const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
    /// Its SCTP port.
    pub const PORT: u16 = 7;
    /// The peer's SCTP port.
    pub const PEER_PORT: u16 = 5000;
    /// The peer's initial verification tag.
    pub const PEER_TAG: u32 = 77;

    /// An endpoint without associations.
    pub fn new(endpoint: EndpointConfig, config: AssociationConfig) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let mut endpoint = Endpoint::new(endpoint, [7; 32]);
        endpoint.set_local_addresses(now, &[Self::HERE]);
        endpoint.listen(Self::PORT, Arc::new(config)).expect("a valid configuration");
        let (peer_tag, from_port) = (Self::PEER_TAG, 9899);
        let (work, tag, tsn, extensions) = (Work::default(), 0, 0, Vec::new());
        Self { endpoint, now, work, tag, tsn, peer_tag, from_port, extensions }
    }

    /// A target with an association whose peer, at [`THERE`](Self::THERE), listed `addresses`.
    pub fn connected(config: AssociationConfig, addresses: &[IpAddr]) -> (Self, AssociationId) {
        let mut target = Self::new(EndpointConfig::default(), config);
        let id = target.connect(addresses);
        (target, id)
    }

    /// The same, and both sides agreed on partial reliability.
    pub fn connected_partial(config: AssociationConfig) -> (Self, AssociationId) {
        let mut target = Self::new(EndpointConfig::default(), config);
        Parameter::ForwardTsnSupported.encode(&mut target.extensions);
        let id = target.connect(&[]);
        (target, id)
    }

    /// The same, and both sides agreed on partial reliability and interleaving.
    pub fn connected_interleaved(mut config: AssociationConfig) -> (Self, AssociationId) {
        config.sending.interleaving = true;
        config.sending.partial_reliability = true;
        let mut target = Self::new(EndpointConfig::default(), config);
        Parameter::ForwardTsnSupported.encode(&mut target.extensions);
        let chunks = [kind::I_DATA, kind::I_FORWARD_TSN];
        Parameter::SupportedExtensions(&chunks).encode(&mut target.extensions);
        let id = target.connect(&[]);
        (target, id)
    }

    /// The same, and both sides agreed on stream reconfiguration.
    pub fn connected_reconfiguring(config: AssociationConfig) -> (Self, AssociationId) {
        let mut target = Self::new(EndpointConfig::default(), config);
        Parameter::SupportedExtensions(&[kind::RE_CONFIG]).encode(&mut target.extensions);
        let id = target.connect(&[]);
        (target, id)
    }

    /// The same, and both sides agreed on explicit congestion notification.
    pub fn connected_with_ecn(mut config: AssociationConfig) -> (Self, AssociationId) {
        config.congestion.ecn = true;
        let mut target = Self::new(EndpointConfig::default(), config);
        Parameter::EcnCapable.encode(&mut target.extensions);
        let id = target.connect(&[]);
        (target, id)
    }

    /// Sets up an association requested by the peer.
    pub fn connect(&mut self, addresses: &[IpAddr]) -> AssociationId {
        let header = Self::header(0);
        let cookie = self.cookie(Self::THERE, header, addresses).expect("an INIT ACK");
        self.take(Self::THERE, &cookie);
        self.drain();
        let id = self.connected_now().expect("an association");
        // Do not count the setup.
        self.work = Work::default();
        id
    }

    /// The association that has reported itself as up, if any.
    pub fn connected_now(&mut self) -> Option<AssociationId> {
        std::iter::from_fn(|| self.endpoint.poll_event())
            .find(|(_, event)| matches!(event, Event::Notification(Notification::Up { .. })))
            .map(|(id, _)| id)
    }

    /// The header of the peer's packets with this tag.
    pub fn header(tag: u32) -> Header {
        Header { source_port: Self::PEER_PORT, destination_port: Self::PORT, verification_tag: tag }
    }

    /// The INIT of a peer that lists `addresses`, followed by `more`.
    pub fn init(header: Header, addresses: &[IpAddr], more: &[u8]) -> Bytes {
        Self::init_with(Self::PEER_TAG, header, addresses, more)
    }

    fn init_with(tag: u32, header: Header, addresses: &[IpAddr], more: &[u8]) -> Bytes {
        let mut parameters = Vec::new();
        for address in addresses {
            match address {
                IpAddr::V4(v4) => Parameter::Ipv4Address(*v4).encode(&mut parameters),
                IpAddr::V6(v6) => Parameter::Ipv6Address(*v6).encode(&mut parameters),
            }
        }
        parameters.extend_from_slice(more);
        let init = Init {
            initiate_tag: tag,
            a_rwnd: 1 << 20,
            outbound_streams: u16::MAX,
            inbound_streams: u16::MAX,
            initial_tsn: Tsn(1),
            parameters: Parameters::new(&parameters),
        };
        craft::packet(header, |packet| packet.chunk(&Chunk::Init(init)))
    }

    /// Requests an association and returns the packet with the COOKIE ECHO that would create it.
    pub fn cookie(&mut self, from: IpAddr, header: Header, listed: &[IpAddr]) -> Option<Bytes> {
        self.take(from, &Self::init_with(self.peer_tag, header, listed, &self.extensions));
        let sent = self.sent();
        let packet = Packet::parse(&sent.first()?.bytes).ok()?;
        let Chunk::InitAck(ack) = packet.chunks().next()?.ok()?.decode().ok()? else {
            return None;
        };
        self.tag = ack.initiate_tag;
        self.tsn = ack.initial_tsn.0;
        let cookie = ack.parameters.find(parameter_kind::STATE_COOKIE)?;
        let header = Header { verification_tag: ack.initiate_tag, ..header };
        Some(Draft::new(header).with(kind::COOKIE_ECHO, 0, cookie.value).bytes())
    }

    /// An empty packet of the peer, to which chunks can be added.
    pub fn draft(&self) -> Draft {
        Draft::new(Self::header(self.tag))
    }

    /// A packet of the peer with one DATA chunk.
    pub fn data(&self, tsn: u32, flags: u8, stream: u16, ssn: u16, payload: &[u8]) -> Bytes {
        let data = Data {
            flags: DataFlags(flags),
            tsn: Tsn(tsn),
            stream,
            ssn: Ssn(ssn),
            ppid: Ppid(0),
            payload,
        };
        craft::packet(Self::header(self.tag), |packet| packet.data(&data))
    }

    /// A packet of the peer with one I-DATA chunk of one byte: `position` is 0 for the first fragment of a message.
    pub fn i_data(&self, tsn: u32, flags: u8, stream: u16, mid: u32, position: u32) -> Bytes {
        let flags = DataFlags(flags);
        let data =
            IData { flags, tsn: Tsn(tsn), stream, mid, ppid_or_fsn: position, payload: b"x" };
        craft::packet(Self::header(self.tag), |packet| packet.i_data(&data))
    }

    /// An I-FORWARD-TSN of the peer that skips these messages and those before them.
    pub fn i_forward_tsn(&self, tsn: u32, messages: impl Iterator<Item = SkippedMessage>) -> Bytes {
        let messages: Vec<_> = messages.collect();
        let mut storage = Vec::new();
        let messages = List::encode(&messages, &mut storage);
        let chunk =
            Chunk::IForwardTsn(IForwardTsn { new_cumulative_tsn: Tsn(tsn), streams: messages });
        craft::packet(Self::header(self.tag), |packet| packet.chunk(&chunk))
    }

    /// A FORWARD TSN of the peer that skips the messages up to this SSN on each of the streams.
    pub fn forward_tsn(&self, tsn: u32, streams: impl Iterator<Item = u16>, ssn: u16) -> Bytes {
        let streams: Vec<_> =
            streams.map(|stream| SkippedStream { stream, ssn: Ssn(ssn) }).collect();
        let mut storage = Vec::new();
        let streams = List::encode(&streams, &mut storage);
        let chunk = Chunk::ForwardTsn(ForwardTsn { new_cumulative_tsn: Tsn(tsn), streams });
        craft::packet(Self::header(self.tag), |packet| packet.chunk(&chunk))
    }

    /// A request of the peer to reset these streams, after everything up to this TSN.
    pub fn reset(&self, request: u32, last_tsn: u32, streams: impl Iterator<Item = u16>) -> Bytes {
        let streams: Vec<_> = streams.collect();
        let (mut storage, mut value) = (Vec::new(), Vec::new());
        let streams = List::encode(&streams, &mut storage);
        let last_tsn = Tsn(last_tsn);
        Parameter::OutgoingResetRequest { request, response: 0, last_tsn, streams }
            .encode(&mut value);
        let chunk = Chunk::ReConfig(ReConfig { parameters: Parameters::new(&value) });
        craft::packet(Self::header(self.tag), |packet| packet.chunk(&chunk))
    }

    /// A SACK of the target's first `count` chunks.
    pub fn sack(&self, count: u32, a_rwnd: u32) -> Bytes {
        let cumulative = Tsn(self.tsn.wrapping_add(count).wrapping_sub(1));
        craft::packet(Self::header(self.tag), |packet| packet.sack(cumulative, a_rwnd, &[], &[]))
    }

    /// Receives one packet. The engine gets a copy of the bytes.
    pub fn take(&mut self, from: IpAddr, packet: &[u8]) {
        self.take_batch(from, packet.len(), Bytes::copy_from_slice(packet));
    }

    /// Receives a batch of packets of `segment` bytes each; the last may be shorter.
    pub fn take_batch(&mut self, from: IpAddr, segment: usize, bytes: Bytes) {
        let received = Received {
            local: Self::HERE,
            remote: from,
            remote_udp_port: self.from_port,
            ecn: None,
            segment_size: segment,
        };
        self.work.packets_in += bytes.len().div_ceil(segment.max(1)) as u64;
        self.work.bytes_in += bytes.len() as u64;
        self.work.calls += 1;
        self.endpoint.handle_batch(self.now, &received, bytes);
    }

    /// The next packet to send.
    pub fn poll(&mut self) -> Option<Sent> {
        let mut bytes = Vec::new();
        self.work.calls += 1;
        let Transmit { remote, remote_udp_port, .. } =
            pump::poll(&mut self.endpoint, self.now, 1, &mut bytes)?;
        self.work.packets_out += 1;
        self.work.bytes_out += bytes.len() as u64;
        Some(Sent { to: remote, port: remote_udp_port, bytes })
    }

    /// All packets that are ready to be sent.
    pub fn sent(&mut self) -> Vec<Sent> {
        std::iter::from_fn(|| self.poll()).collect()
    }

    /// Sends everything that is ready, and drops it.
    pub fn drain(&mut self) {
        while self.poll().is_some() {}
        // The cost of the check grows with the memory in use, so do not check after every packet.
        if self.work.packets_in.is_multiple_of(64) {
            self.check();
        }
    }

    /// Lets time pass. `seen` is called with every packet sent meanwhile.
    pub fn pass(&mut self, time: Duration, mut seen: impl FnMut(&mut Self, &Sent)) {
        let end = self.now + time;
        loop {
            while let Some(sent) = self.poll() {
                seen(self, &sent);
            }
            while self.endpoint.poll_event().is_some() {}
            match self.endpoint.next_deadline() {
                Some(at) if at <= end => {
                    self.now = self.now.max(at);
                    self.work.calls += 1;
                    self.endpoint.handle_timeout(self.now);
                }
                _ => break,
            }
        }
        self.now = end;
        self.check();
    }

    fn check(&mut self) {
        if let Err(what) = self.endpoint.check_invariants(self.now) {
            panic!("at {:?}: {what}", self.now);
        }
    }

    /// Number of associations.
    pub fn associations(&self) -> usize {
        self.endpoint.associations().count()
    }

    /// A mutable association.
    pub fn association(&mut self, id: AssociationId) -> AssociationMut<'_> {
        self.endpoint.association_mut(self.now, id).expect("an association")
    }

    /// Reads everything and returns the buffer space. Returns the number of messages and parts.
    pub fn read(&mut self, id: AssociationId) -> usize {
        let mut association = self.association(id);
        let mut count = 0;
        while let Some(message) = association.receive() {
            association.release(message.charge());
            count += 1;
        }
        count
    }
}
