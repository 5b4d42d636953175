//! The endpoint under test, and packets to and from it.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use anabranch_harness::pump;
use anabranch_proto::{
    AssociationConfig, AssociationId, AssociationMut, ConnectRequest, Endpoint, EndpointConfig,
    Event, Instant, Notification, Received, Transmit,
};
use anabranch_wire::{
    Chunk, Data, DataFlags, Header, Init, Packet, PacketWriter, Parameter, Parameters, Ppid, Ssn,
    Tsn,
};
use bytes::Bytes;

pub(crate) const NOW: Instant = Instant::from_nanos(1_000_000_000);
pub(crate) const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
pub(crate) const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
pub(crate) const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 9, 0, 9));
/// Verification tag of the peer.
pub(crate) const PEER: u32 = 77;

/// An endpoint at `HERE`, with port 7 listening and port 5000 to connect from.
pub(crate) struct Victim {
    pub(crate) endpoint: Endpoint,
    pub(crate) now: Instant,
    /// Its verification tag and first TSN, once it has sent an INIT.
    pub(crate) tag: u32,
    pub(crate) tsn: u32,
}

impl Victim {
    pub(crate) fn listening() -> Self {
        let mut endpoint = Endpoint::new(EndpointConfig::default(), [7; 32]);
        endpoint.set_local_addresses(NOW, &[HERE]);
        endpoint.listen(7, Arc::new(AssociationConfig::rfc9260())).unwrap();
        Self { endpoint, now: NOW, tag: 0, tsn: 0 }
    }

    /// In COOKIE-WAIT towards port 7 of `THERE`.
    pub(crate) fn connecting() -> (Self, AssociationId) {
        let mut victim = Self::listening();
        let mut config = AssociationConfig::rfc9260();
        // The tests count packets.
        config.mtu.discovery = false;
        config.timers.heartbeat_interval = None;
        let mut request = ConnectRequest::new(vec![THERE], 7);
        request.local_port = Some(5000);
        request.config = Arc::new(config);
        let id = victim.endpoint.connect(NOW, request).unwrap();
        let sent = victim.sent();
        let (Chunk::Init(init), 0) = decode(&sent[0]) else { panic!("no INIT") };
        victim.tag = init.initiate_tag;
        victim.tsn = init.initial_tsn.0;
        (victim, id)
    }

    /// Established, as far as the victim knows. The peer's first TSN is 1.
    pub(crate) fn connected() -> (Self, AssociationId) {
        let (mut victim, id) = Self::connecting();
        let cookie = parameter(Parameter::StateCookie(b"biscuit"));
        victim.chunk(&Chunk::InitAck(init(PEER, 100_000, &cookie)));
        assert_eq!(victim.kinds(), [vec![anabranch_wire::kind::COOKIE_ECHO]]);
        victim.chunk(&Chunk::CookieAck);
        assert!(matches!(
            victim.endpoint.poll_event(),
            Some((_, Event::Notification(Notification::Up { .. })))
        ));
        assert_eq!(victim.sent(), Vec::<Vec<u8>>::new());
        (victim, id)
    }

    /// Takes one chunk from the peer.
    pub(crate) fn chunk(&mut self, chunk: &Chunk<'_>) {
        self.take(THERE, self.tag, |w| w.chunk(chunk).unwrap());
    }

    pub(crate) fn take(
        &mut self,
        from: IpAddr,
        tag: u32,
        write: impl FnOnce(&mut PacketWriter<'_>),
    ) {
        let header = Header { source_port: 7, destination_port: 5000, verification_tag: tag };
        self.take_with(header, from, write);
    }

    pub(crate) fn take_with(
        &mut self,
        header: Header,
        from: IpAddr,
        write: impl FnOnce(&mut PacketWriter<'_>),
    ) {
        let mut bytes = Vec::new();
        let mut writer = PacketWriter::new(&mut bytes, header, 1452);
        write(&mut writer);
        writer.finish();
        self.take_bytes(from, bytes);
    }

    pub(crate) fn take_bytes(&mut self, from: IpAddr, bytes: Vec<u8>) {
        let received = Received {
            local: HERE,
            remote: from,
            remote_udp_port: 9899,
            ecn: None,
            segment_size: bytes.len(),
        };
        self.endpoint.handle_batch(self.now, &received, Bytes::from(bytes));
    }

    /// The next packet and where it goes.
    pub(crate) fn poll(&mut self) -> Option<(Transmit, Vec<u8>)> {
        let mut buffer = Vec::new();
        let transmit = pump::poll(&mut self.endpoint, self.now, 1, &mut buffer)?;
        Some((transmit, buffer))
    }

    /// All packets that leave now.
    pub(crate) fn sent(&mut self) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.poll()).map(|(_, bytes)| bytes).collect()
    }

    /// The types of the chunks of all packets that leave now.
    pub(crate) fn kinds(&mut self) -> Vec<Vec<u8>> {
        let of = |bytes: &Vec<u8>| {
            Packet::parse(bytes).unwrap().chunks().map(|chunk| chunk.unwrap().kind).collect()
        };
        self.sent().iter().map(of).collect()
    }

    /// Lets time pass up to the next deadline, and returns how much.
    pub(crate) fn wait(&mut self) -> Duration {
        let then = self.endpoint.next_deadline().expect("a deadline");
        let passed = then.saturating_since(self.now);
        self.now = then;
        self.endpoint.handle_timeout(then);
        passed
    }

    pub(crate) fn association(&mut self, id: AssociationId) -> AssociationMut<'_> {
        self.endpoint.association_mut(self.now, id).unwrap()
    }

    pub(crate) fn state(&self, id: AssociationId) -> &'static str {
        self.endpoint.association(id).unwrap().statistics().state.name()
    }

    /// A SACK of the first `count` chunks of the victim.
    pub(crate) fn acknowledge(&mut self, count: u32, a_rwnd: u32) {
        let cumulative = Tsn(self.tsn.wrapping_add(count).wrapping_sub(1));
        self.take(THERE, self.tag, |w| w.sack(cumulative, a_rwnd, &[], &[]).unwrap());
    }
}

/// The first chunk of a packet, and its tag.
pub(crate) fn decode(bytes: &[u8]) -> (Chunk<'_>, u32) {
    let packet = Packet::parse(bytes).unwrap();
    let chunk = packet.chunks().next().unwrap().unwrap().decode().unwrap();
    (chunk, packet.header().verification_tag)
}

/// All DATA chunks of some packets.
pub(crate) fn data_of(packets: &[Vec<u8>]) -> Vec<Data<'_>> {
    packets
        .iter()
        .flat_map(|bytes| Packet::parse(bytes).unwrap().chunks())
        .filter_map(|chunk| match chunk.unwrap().decode().unwrap() {
            Chunk::Data(data) => Some(data),
            _ => None,
        })
        .collect()
}

pub(crate) fn init(tag: u32, a_rwnd: u32, parameters: &[u8]) -> Init<'_> {
    Init {
        initiate_tag: tag,
        a_rwnd,
        outbound_streams: 10,
        inbound_streams: 10,
        initial_tsn: Tsn(1),
        parameters: Parameters::new(parameters),
    }
}

pub(crate) fn parameter(parameter: Parameter<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    parameter.encode(&mut bytes);
    bytes
}

/// A whole message of the peer on stream 0.
pub(crate) fn message(tsn: u32, ssn: u16) -> Chunk<'static> {
    Chunk::Data(Data {
        flags: DataFlags(DataFlags::BEGIN | DataFlags::END),
        tsn: Tsn(tsn),
        stream: 0,
        ssn: Ssn(ssn),
        ppid: Ppid(0),
        payload: b"text",
    })
}
