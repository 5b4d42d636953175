//! Two endpoints, the packets between them, and what must hold.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch_proto::{
    AssociationConfig, AssociationId, ConnectRequest, Encapsulation, Endpoint, EndpointConfig,
    Event, IcmpKind, IcmpMessage, Instant, OutgoingMessage, Ppid, Received, SchedulerKind,
};
use anabranch_wire::{Chunk, Header, Packet};
use bytes::Bytes;

use super::forge::{self, Seen};
use super::operation::{Icmp, Operation, Setup, Side, Tag};

const SERVER_PORT: u16 = 7;
const CLIENT_PORT: u16 = 5000;
/// Packets that one input may make an endpoint send before it has to wait for another one.
/// The largest window is a send buffer, in packets of the smallest size.
const MAX_BURST_BYTES: usize = 4 << 20;
/// Packets that the network holds; further ones are lost.
const MAX_IN_FLIGHT: usize = 512;
/// Virtual time in which a network without faults brings everything to an end: longer than
/// eight retransmissions at the largest RTO, and a handshake.
const PATIENCE: Duration = Duration::from_secs(1200);

#[derive(Clone, Debug)]
struct Flying {
    to: Side,
    from_address: IpAddr,
    to_address: IpAddr,
    bytes: Vec<u8>,
}

/// One endpoint and its user.
#[derive(Debug)]
struct End {
    endpoint: Endpoint,
    associations: Vec<AssociationId>,
    closed: Vec<AssociationId>,
    /// What the user holds of the receive buffer.
    held: Vec<(AssociationId, u32)>,
    config: Arc<AssociationConfig>,
    /// Last message received on each stream, by its number.
    received: BTreeMap<(AssociationId, u16), u32>,
    sent: u64,
    /// What went to this side.
    seen: Seen,
}

pub(crate) struct World {
    now: Instant,
    ends: [End; 2],
    flying: VecDeque<Flying>,
    /// Packets that a replay can bring back.
    history: VecDeque<Flying>,
    /// Something was forged with knowledge of the tags, so that the ends need not agree.
    hostile: bool,
    raw: bool,
    /// Print what happens: set by the environment variable `FUZZ_TRACE`.
    trace: bool,
}

fn address(side: Side, second: bool) -> IpAddr {
    IpAddr::from([10, u8::from(second), 0, 1 + side.index() as u8])
}

fn other(side: Side) -> Side {
    match side {
        Side::Client => Side::Server,
        Side::Server => Side::Client,
    }
}

fn association_config(setup: Setup, small: bool) -> AssociationConfig {
    let mut config = match setup.profile % 4 {
        0 => AssociationConfig::default(),
        1 => AssociationConfig::rfc9260(),
        2 => AssociationConfig::rfc4960(),
        _ => AssociationConfig::rfc2960(),
    };
    config.scheduler = match setup.scheduler % 3 {
        0 => SchedulerKind::Fifo,
        1 => SchedulerKind::RoundRobin,
        _ => SchedulerKind::Priority,
    };
    config.send_buffer = 64 << 10;
    config.receive_buffer = if small { 1500 } else { 64 << 10 };
    config.outbound_streams = if setup.few_streams { 1 } else { 300 };
    config.inbound_streams = if setup.few_streams { 2 } else { 65_535 };
    config.nagle = setup.nagle;
    config.mtu.max = if setup.large_mtu { 9000 } else { 1500 };
    config.autoclose = setup.autoclose.then_some(Duration::from_secs(20));
    if setup.partial_delivery {
        config.partial_delivery_point = 2000;
    }
    config
}

impl World {
    pub(crate) fn new(setup: Setup) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let end = |side: Side| {
            let mut config = EndpointConfig::default();
            config.max_associations = 8;
            config.max_stateless_replies = 16;
            if setup.raw {
                config.encapsulation = Encapsulation::Ip;
            }
            let mut endpoint = Endpoint::new(config, [1 + side.index() as u8; 32]);
            endpoint.set_local_addresses(now, &[address(side, false), address(side, true)]);
            End {
                endpoint,
                associations: Vec::new(),
                closed: Vec::new(),
                held: Vec::new(),
                config: Arc::new(association_config(setup, setup.small[side.index()])),
                received: BTreeMap::new(),
                sent: 0,
                seen: Seen::default(),
            }
        };
        let mut ends = [end(Side::Client), end(Side::Server)];
        let config = Arc::clone(&ends[1].config);
        ends[1].endpoint.listen(SERVER_PORT, config).expect("a free port and a valid config");
        let mut world = Self {
            now,
            ends,
            flying: VecDeque::new(),
            history: VecDeque::new(),
            hostile: false,
            raw: setup.raw,
            trace: std::env::var_os("FUZZ_TRACE").is_some(),
        };
        world.connect(Side::Client, true, false);
        world.drain();
        world
    }

    fn udp_port(&self) -> u16 {
        if self.raw { 0 } else { 9899 }
    }

    fn end(&mut self, side: Side) -> &mut End {
        &mut self.ends[side.index()]
    }

    fn connect(&mut self, side: Side, fixed_port: bool, second: bool) {
        let mut request = ConnectRequest::new(vec![address(other(side), second)], SERVER_PORT);
        request.remote_udp_port = self.udp_port();
        request.config = Arc::clone(&self.ends[side.index()].config);
        request.local_port = Some(match side {
            Side::Client if fixed_port => CLIENT_PORT,
            Side::Client => CLIENT_PORT + 1,
            // Both ends open the same association at once.
            Side::Server => SERVER_PORT,
        });
        if let Side::Server = side {
            request.remote_port = CLIENT_PORT;
        }
        let now = self.now;
        let end = self.end(side);
        // Ports in use and too many associations are refused.
        if let Ok(id) = end.endpoint.connect(now, request) {
            end.associations.push(id);
        }
    }

    pub(crate) fn apply(&mut self, operation: &Operation) {
        if self.trace {
            println!("{:?} {operation:?}", self.now);
        }
        match operation {
            Operation::Connect { side, fixed_port, second_address } => {
                self.connect(*side, *fixed_port, *second_address);
            }
            Operation::Send { side, stream, len, unordered, immediately, lifetime } => {
                let lifetime =
                    (*lifetime > 128).then(|| Duration::from_millis(u64::from(*lifetime)));
                self.send(*side, u16::from(*stream), *len, *unordered, *immediately, lifetime);
            }
            Operation::Receive { side, messages, keep } => {
                self.receive(*side, usize::from(*messages), *keep);
            }
            Operation::Shutdown(side) => self.with(*side, |now, a| a.shutdown(now)),
            Operation::Abort(side) => self.with(*side, |now, a| a.abort(now, b"tired")),
            Operation::Remove(side) => self.remove(*side),
            Operation::StopListening => self.ends[1].endpoint.stop_listening(SERVER_PORT),
            Operation::SetPrimary { side, second } => {
                let remote = address(other(*side), *second);
                self.with(*side, |now, a| _ = a.set_primary(now, remote));
            }
            Operation::Heartbeat { side, second } => {
                let remote = address(other(*side), *second);
                self.with(*side, |now, a| _ = a.request_heartbeat(now, remote));
            }
            Operation::SendError { side, second } => {
                let (local, remote) = (address(*side, *second), address(other(*side), *second));
                let now = self.now;
                self.end(*side).endpoint.handle_send_error(now, local, remote);
            }
            Operation::TooBig { side, second, mtu } => {
                let (local, remote) = (address(*side, *second), address(other(*side), *second));
                let now = self.now;
                self.end(*side).endpoint.handle_message_too_big(now, local, remote, *mtu);
            }
            Operation::Advance { milliseconds } => {
                self.advance(Duration::from_millis(u64::from(*milliseconds)));
            }
            Operation::Deadline => {
                if let Some(deadline) = self.next_deadline() {
                    self.advance(deadline.saturating_since(self.now));
                }
            }
            Operation::Deliver { packets } => {
                for _ in 0..*packets {
                    let Some(packet) = self.flying.pop_front() else { break };
                    self.deliver(packet);
                }
            }
            Operation::DeliverOne { packet } => {
                if let Some(packet) = self.pick(*packet) {
                    self.deliver(packet);
                }
            }
            Operation::Lose { packet } => {
                if let Some(packet) = self.pick(*packet) {
                    self.remember(packet);
                }
            }
            Operation::Replay { packet } => {
                let index = usize::from(*packet) % self.history.len().max(1);
                if let Some(packet) = self.history.get(index).cloned() {
                    self.deliver(packet);
                }
            }
            Operation::Mutate { packet, at, mask, mend } => self.mutate(*packet, *mend, |bytes| {
                let at = usize::from(*at) % bytes.len();
                bytes[at] ^= mask;
            }),
            Operation::Cut { packet, len, mend } => self.mutate(*packet, *mend, |bytes| {
                let len = usize::from(*len) % bytes.len();
                bytes.truncate(len.max(1));
            }),
            Operation::Inject { to, tag, known_address, chunks } => {
                let bytes = {
                    let header = self.header(*to, *tag);
                    let (to, from) =
                        (&self.ends[to.index()].seen, &self.ends[other(*to).index()].seen);
                    forge::packet(header, to, from, chunks)
                };
                let from_address = if *known_address {
                    address(other(*to), false)
                } else {
                    IpAddr::from([10, 9, 9, 9])
                };
                self.inject(*to, from_address, bytes);
            }
            Operation::Icmp { to, kind, tag, second } => self.icmp(*to, *kind, *tag, *second),
        }
        self.drain();
        self.check();
    }

    /// Lets `change` happen to the latest association of a side.
    fn with(
        &mut self,
        side: Side,
        change: impl FnOnce(Instant, &mut anabranch_proto::Association),
    ) {
        let now = self.now;
        let end = self.end(side);
        let Some(id) = end.associations.last().copied() else { return };
        if let Some(mut association) = end.endpoint.association_mut(now, id) {
            change(now, &mut association);
        }
    }

    fn send(
        &mut self,
        side: Side,
        stream: u16,
        len: u16,
        unordered: bool,
        immediately: bool,
        lifetime: Option<Duration>,
    ) {
        let end = self.end(side);
        end.sent += 1;
        // A message starts with its number, and the rest can be told from it.
        let number = end.sent as u32;
        let mut data = vec![number as u8; usize::from(len)];
        if let Some(head) = data.first_chunk_mut() {
            *head = number.to_be_bytes();
        }
        let mut message = OutgoingMessage::new(stream, Ppid(9), data);
        message.unordered = unordered;
        message.sack_immediately = immediately;
        message.lifetime = lifetime;
        // A full buffer, a stream that does not exist, an empty message: refused.
        self.with(side, |now, association| drop(association.send(now, message)));
    }

    fn receive(&mut self, side: Side, messages: usize, keep: bool) {
        let (now, hostile) = (self.now, self.hostile);
        let end = self.end(side);
        for id in end.associations.clone() {
            let Some(mut association) = end.endpoint.association_mut(now, id) else { continue };
            for _ in 0..messages {
                let Some(message) = association.receive() else { break };
                let (begin, whole, ordered) =
                    (message.begin, message.is_whole(), !message.unordered);
                let (stream, charge) = (message.stream, message.charge());
                let bytes = message.payload.into_bytes();
                if keep {
                    end.held.push((id, charge));
                } else {
                    association.release(charge);
                }
                if hostile || !begin {
                    continue;
                }
                let Some(head) = bytes.first_chunk() else { continue };
                let number = u32::from_be_bytes(*head);
                if whole {
                    let same = bytes.iter().skip(4).all(|byte| *byte == number as u8);
                    assert!(same, "message {number} was damaged");
                }
                if ordered {
                    let last = end.received.insert((id, stream), number);
                    assert!(last < Some(number), "{number} after {last:?} on stream {stream}");
                }
            }
        }
        if !keep {
            for (id, charge) in std::mem::take(&mut end.held) {
                if let Some(mut association) = end.endpoint.association_mut(now, id) {
                    association.release(charge);
                }
            }
        }
    }

    fn remove(&mut self, side: Side) {
        let end = self.end(side);
        let Some(id) = end.associations.pop() else { return };
        end.endpoint.remove(id);
        end.closed.retain(|closed| *closed != id);
        assert!(end.endpoint.association(id).is_none());
    }

    fn pick(&mut self, packet: u8) -> Option<Flying> {
        let index = usize::from(packet) % self.flying.len().max(1);
        self.flying.remove(index)
    }

    fn mutate(&mut self, packet: u8, mend: bool, change: impl FnOnce(&mut Vec<u8>)) {
        let Some(mut packet) = self.pick(packet) else { return };
        change(&mut packet.bytes);
        if mend && packet.bytes.len() >= anabranch_wire::HEADER_LEN {
            packet.bytes[8..12].fill(0);
            let checksum = anabranch_wire::crc32c(&packet.bytes);
            packet.bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
            self.hostile = true;
        }
        self.flying.push_front(packet);
    }

    fn header(&self, to: Side, tag: Tag) -> Header {
        let (source_port, destination_port) = match to {
            Side::Client => (SERVER_PORT, CLIENT_PORT),
            Side::Server => (CLIENT_PORT, SERVER_PORT),
        };
        let verification_tag = match tag {
            Tag::Zero => 0,
            Tag::Right => self.ends[to.index()].seen.tag,
            Tag::Reflected => self.ends[other(to).index()].seen.tag,
            Tag::Other(tag) => tag,
        };
        Header { source_port, destination_port, verification_tag }
    }

    /// A packet from elsewhere arrives. It is answered with one packet at the most unless it
    /// carries a tag that only the peer knows.
    fn inject(&mut self, to: Side, from_address: IpAddr, bytes: Vec<u8>) {
        let packet = Packet::parse(&bytes).expect("forged with a header");
        let tag = packet.header().verification_tag;
        let known = self.ends.iter().any(|end| end.seen.tag == tag);
        let has_cookie = (packet.chunks().map_while(Result::ok))
            .any(|chunk| chunk.kind == anabranch_wire::kind::COOKIE_ECHO);
        self.hostile |= known || has_cookie;
        self.drain();
        let before = self.flying.len();
        let length = bytes.len();
        let to_address = address(to, false);
        self.deliver(Flying { to, from_address, to_address, bytes });
        self.drain();
        let answers: Vec<_> = self.flying.iter().skip(before).collect();
        if !known && !has_cookie {
            assert!(answers.len() <= 1, "{} answers to a stranger", answers.len());
            // A cookie and what an INIT ACK has to say.
            let size: usize = answers.iter().map(|packet| packet.bytes.len()).sum();
            assert!(size <= 1024 + 2 * length, "{size} bytes for {length} of a stranger");
        }
    }

    fn icmp(&mut self, to: Side, kind: Icmp, tag: Tag, second: bool) {
        // What is quoted was sent by this side, with the tag that the other one expects.
        let header = self.header(other(to), tag);
        let mut quoted = Vec::new();
        quoted.extend_from_slice(&header.source_port.to_be_bytes());
        quoted.extend_from_slice(&header.destination_port.to_be_bytes());
        quoted.extend_from_slice(&header.verification_tag.to_be_bytes());
        self.hostile |= header.verification_tag == self.ends[other(to).index()].seen.tag;
        let now = self.now;
        let message = IcmpMessage {
            local: address(to, second),
            remote: address(other(to), second),
            kind: match kind {
                Icmp::TooBig(mtu) => IcmpKind::PacketTooBig { mtu },
                Icmp::Protocol => IcmpKind::ProtocolUnreachable,
                Icmp::Port => IcmpKind::PortUnreachable,
                Icmp::Other => IcmpKind::OtherUnreachable,
            },
            quoted: &quoted,
        };
        self.end(to).endpoint.handle_icmp(now, &message);
    }

    fn remember(&mut self, packet: Flying) {
        if self.history.len() == 64 {
            self.history.pop_front();
        }
        self.history.push_back(packet);
    }

    fn deliver(&mut self, packet: Flying) {
        let received = Received {
            local: packet.to_address,
            remote: packet.from_address,
            remote_udp_port: self.udp_port(),
            ecn: None,
            segment_size: packet.bytes.len(),
        };
        let now = self.now;
        let bytes = Bytes::from(packet.bytes.clone());
        self.end(packet.to).endpoint.handle_batch(now, &received, bytes);
        self.remember(packet);
        self.drain();
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.ends.iter().filter_map(|end| end.endpoint.next_deadline()).min()
    }

    fn advance(&mut self, by: Duration) {
        let until = self.now + by;
        // A timer that has nothing to do does not come back at once: a millisecond each on
        // average is far more than any of them needs, whatever is lost.
        let most = 2_000 + 4 * by.as_millis();
        let mut rounds = 0;
        while let Some(deadline) = self.next_deadline().filter(|deadline| *deadline <= until) {
            self.now = self.now.max(deadline);
            let now = self.now;
            for end in &mut self.ends {
                end.endpoint.handle_timeout(now);
                let next = end.endpoint.next_deadline();
                assert!(next.is_none_or(|next| next > now), "{next:?} is still due at {now:?}");
            }
            self.drain();
            rounds += 1;
            assert!(rounds < most, "{rounds} deadlines within {by:?}");
        }
        self.now = until;
    }

    /// Takes out what the endpoints have to say.
    fn drain(&mut self) {
        for side in [Side::Client, Side::Server] {
            self.drain_packets(side);
            self.drain_events(side);
        }
    }

    fn drain_packets(&mut self, side: Side) {
        let now = self.now;
        let mut total = 0;
        loop {
            let mut buffer = Vec::new();
            let Some(transmit) = self.end(side).endpoint.poll_transmit(now, 10, &mut buffer) else {
                break;
            };
            assert_eq!(transmit.len, buffer.len());
            assert!(transmit.segment_size > 0 && transmit.len > 0);
            assert!(transmit.len.div_ceil(transmit.segment_size) <= 10);
            total += buffer.len();
            assert!(total < MAX_BURST_BYTES, "{total} bytes at once");
            for bytes in buffer.chunks(transmit.segment_size) {
                self.inspect(other(side), bytes);
                let packet = Flying {
                    to: other(side),
                    from_address: transmit.local,
                    to_address: transmit.remote,
                    bytes: bytes.to_vec(),
                };
                if self.flying.len() < MAX_IN_FLIGHT {
                    self.flying.push_back(packet);
                }
            }
        }
    }

    /// Every packet that leaves is whole, has a right checksum, and its chunks make sense.
    fn inspect(&mut self, to: Side, bytes: &[u8]) {
        let packet = Packet::parse(bytes).expect("a header");
        if self.trace {
            println!("{:?} to {to:?}: {packet}", self.now);
        }
        assert!(packet.checksum_ok());
        assert!(packet.chunks().next().is_some(), "an empty packet");
        let header = packet.header();
        let (mut lone, mut count) = (false, 0);
        for chunk in packet.chunks() {
            let raw = chunk.expect("a chunk that does not fit its packet");
            count += 1;
            let seen = &mut self.ends[to.index()].seen;
            match raw.decode().expect("a malformed chunk") {
                Chunk::Init(_) => {
                    lone = true;
                    assert_eq!(header.verification_tag, 0);
                }
                Chunk::InitAck(ack) => {
                    lone = true;
                    let cookie = ack.parameters.find(anabranch_wire::parameter_kind::STATE_COOKIE);
                    let cookie = cookie.expect("an INIT ACK without a cookie");
                    self.ends[other(to).index()].seen.cookie = cookie.value.to_vec();
                }
                Chunk::ShutdownComplete(_) => lone = true,
                Chunk::Data(data) => {
                    assert!(!data.payload.is_empty(), "DATA without data");
                    seen.tsn = data.tsn.0;
                    seen.tag = header.verification_tag;
                }
                Chunk::CookieEcho(_) | Chunk::CookieAck | Chunk::Sack(_) => {
                    seen.tag = header.verification_tag;
                }
                _ => {}
            }
        }
        assert!(!lone || count == 1, "a chunk that has to be alone is not");
    }

    fn drain_events(&mut self, side: Side) {
        let end = &mut self.ends[side.index()];
        let mut events = 0;
        while let Some((id, event)) = end.endpoint.poll_event() {
            events += 1;
            assert!(events < 10_000, "events without end");
            assert!(!end.closed.contains(&id), "{event:?} after the last event");
            if self.trace {
                println!("{:?} {side:?} {id} {event:?}", self.now);
            }
            match event {
                Event::Connected { incoming: true, .. } => {
                    assert!(!end.associations.contains(&id));
                    end.associations.push(id);
                }
                Event::Closed(_) => end.closed.push(id),
                Event::Restarted => end.received.retain(|(of, _), _| *of != id),
                _ => {}
            }
        }
    }

    /// What holds after every operation.
    fn check(&self) {
        for end in &self.ends {
            assert!(end.endpoint.associations().count() <= 8);
            for id in end.endpoint.associations() {
                let Some(association) = end.endpoint.association(id) else { continue };
                let stats = association.statistics();
                assert!(stats.paths.len() <= 16);
                let flight: usize = stats.paths.iter().map(|path| path.flight).sum();
                assert!(flight >= stats.outstanding_bytes);
                // One message more than the limit, and the bookkeeping.
                let buffered = stats.send_queue_bytes + stats.outstanding_bytes;
                assert!(buffered <= end.config.send_buffer + (64 << 10) + 1, "{buffered} buffered");
                let used = stats.receive_buffer_used;
                assert!(used <= 2 * end.config.receive_buffer + 4096, "{used} received");
                if stats.outstanding_chunks > 0 && !association.is_closed() {
                    let deadline = end.endpoint.next_deadline();
                    assert!(deadline.is_some(), "data outstanding and no timer runs: {stats:?}");
                }
                for path in &stats.paths {
                    assert!(path.cwnd >= 256 && path.rto <= Duration::from_secs(60));
                }
            }
        }
    }

    /// The network works from now on: whatever was sent arrives, or its association ends.
    pub(crate) fn finish(&mut self) {
        let end = self.now + PATIENCE;
        let mut turns = 0u32;
        while self.now < end {
            turns += 1;
            while let Some(packet) = self.flying.pop_front() {
                self.deliver(packet);
            }
            for side in [Side::Client, Side::Server] {
                self.receive(side, usize::MAX, false);
            }
            self.drain();
            if !self.flying.is_empty() {
                assert!(turns < 1_000_000, "packets without end");
                self.now += Duration::from_millis(1);
                self.advance(Duration::ZERO);
                continue;
            }
            self.check();
            if self.is_idle() {
                return;
            }
            let Some(deadline) = self.next_deadline() else { break };
            self.advance(deadline.saturating_since(self.now));
        }
        assert!(
            self.hostile || self.is_idle(),
            "stuck: {:#?}",
            self.ends
                .iter()
                .flat_map(|end| end.endpoint.associations().filter_map(|id| {
                    end.endpoint.association(id).map(anabranch_proto::Association::statistics)
                }))
                .collect::<Vec<_>>()
        );
    }

    /// Nothing waits to be sent or acknowledged.
    fn is_idle(&self) -> bool {
        self.ends.iter().all(|end| {
            end.endpoint.associations().all(|id| {
                end.endpoint.association(id).is_none_or(|association| {
                    let stats = association.statistics();
                    association.is_closed()
                        || (association.is_established()
                            && stats.send_queue_bytes == 0
                            && stats.outstanding_chunks == 0)
                })
            })
        })
    }
}
