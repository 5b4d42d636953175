//! Two endpoints and their users.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::forge::{self, Seen};
use super::operation::{Forged, Operation, Setup, Side, Tag};
use anabranch_proto::config::Bundling;
use anabranch_proto::{
    Association, AssociationConfig, AssociationId, ConnectRequest, Encapsulation, Endpoint,
    EndpointConfig, Instant, OutgoingMessage, Ppid, Reliability, SchedulerKind,
};
use anabranch_testnet::pump;

pub(super) const SERVER_PORT: u16 = 7;
pub(super) const CLIENT_PORT: u16 = 5000;

#[derive(Clone, Debug)]
pub(super) struct Flying {
    pub(super) to: Side,
    pub(super) from_address: IpAddr,
    pub(super) to_address: IpAddr,
    pub(super) bytes: Vec<u8>,
}

/// One endpoint and its user.
#[derive(Debug)]
pub(super) struct End {
    pub(super) endpoint: Endpoint,
    pub(super) associations: Vec<AssociationId>,
    pub(super) closed: Vec<AssociationId>,
    /// The part of the receive buffer that the user has not returned.
    pub(super) held: Vec<(AssociationId, u32)>,
    pub(super) config: Arc<AssociationConfig>,
    /// Number of the last message received on each stream.
    pub(super) received: BTreeMap<(AssociationId, u16), u32>,
    pub(super) sent: u64,
    /// What was seen in packets to this side.
    pub(super) seen: Seen,
}

pub(crate) struct World {
    pub(super) now: Instant,
    pub(super) ends: [End; 2],
    pub(super) flying: VecDeque<Flying>,
    /// Old packets that can be replayed.
    pub(super) history: VecDeque<Flying>,
    /// Whether a packet was forged with knowledge of the tags; then the ends need not agree.
    pub(super) hostile: bool,
    pub(super) raw: bool,
    /// Whether to print events: set by the environment variable `FUZZ_TRACE`.
    pub(super) trace: bool,
}

pub(super) fn address(side: Side, second: bool) -> IpAddr {
    IpAddr::from([10, u8::from(second), 0, 1 + side.index() as u8])
}

pub(super) fn other(side: Side) -> Side {
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
    config.sending.interleaving = setup.scheduler & 0x80 != 0;
    let kinds = [
        SchedulerKind::Fifo,
        SchedulerKind::RoundRobin,
        SchedulerKind::Priority,
        SchedulerKind::RoundRobinPacket,
        SchedulerKind::Fair,
        SchedulerKind::WeightedFair,
    ];
    let used = if config.sending.interleaving { kinds.len() } else { 3 };
    config.sending.scheduler = kinds[usize::from(setup.scheduler & 0x7f) % used];
    config.sending.send_buffer = 64 << 10;
    config.receiving.receive_buffer = if small { 1500 } else { 64 << 10 };
    config.sending.outbound_streams = if setup.few_streams { 1 } else { 300 };
    config.receiving.inbound_streams = if setup.few_streams { 2 } else { 65_535 };
    config.sending.bundling = match setup.bundling % 5 {
        0 => Bundling::None,
        1 => Bundling::Nagle,
        2 => Bundling::Minshall,
        3 => Bundling::Prompt,
        _ => Bundling::MinshallPathMtu,
    };
    config.mtu.max = if setup.large_mtu { 9000 } else { 1500 };
    config.timers.autoclose = setup.autoclose.then_some(Duration::from_secs(20));
    if setup.partial_delivery {
        config.receiving.partial_delivery_point = 2000;
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

    pub(super) fn udp_port(&self) -> u16 {
        if self.raw { 0 } else { 9899 }
    }

    pub(super) fn end(&mut self, side: Side) -> &mut End {
        &mut self.ends[side.index()]
    }

    /// The first bytes of packets from a side's associations.
    fn starts(&mut self, side: Side) -> Vec<[u8; 20]> {
        let endpoint = &self.end(side).endpoint;
        let associations = endpoint.associations().filter_map(|id| endpoint.association(id));
        associations.map(Association::start_of_packet).collect()
    }

    pub(super) fn connect(&mut self, side: Side, fixed_port: bool, second: bool) {
        let mut request = ConnectRequest::new(vec![address(other(side), second)], SERVER_PORT);
        request.remote_udp_port = self.udp_port();
        request.config = Arc::clone(&self.ends[side.index()].config);
        request.local_port = Some(match side {
            Side::Client if fixed_port => CLIENT_PORT,
            Side::Client => CLIENT_PORT + 1,
            // Both ends open the same association simultaneously.
            Side::Server => SERVER_PORT,
        });
        if let Side::Server = side {
            request.remote_port = CLIENT_PORT;
        }
        let now = self.now;
        let end = self.end(side);
        // Refused if the port is in use or there are too many associations.
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
                let reliability = reliability(*lifetime);
                self.send(*side, u16::from(*stream), *len, *unordered, *immediately, reliability);
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
                self.with(*side, |_, a| _ = a.set_primary(remote));
            }
            Operation::Heartbeat { side, second } => {
                let remote = address(other(*side), *second);
                self.with(*side, |now, a| _ = a.request_heartbeat(now, remote));
            }
            Operation::SendError { side, second } => self.report_send_error(*side, *second),
            Operation::TooBig { side, second, mtu } => self.report_too_big(*side, *second, *mtu),
            Operation::Advance { milliseconds } => {
                self.advance(Duration::from_millis(u64::from(*milliseconds)));
            }
            Operation::Deadline => {
                if let Some(deadline) = self.next_deadline() {
                    self.advance(deadline.saturating_since(self.now));
                }
            }
            Operation::Deliver { packets } => self.deliver_next(*packets),
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
            Operation::Replay { packet } => self.replay(*packet),
            Operation::Mutate { packet, at, mask, mend } => self.mutate(*packet, *mend, |bytes| {
                let at = usize::from(*at) % bytes.len();
                bytes[at] ^= mask;
            }),
            Operation::Cut { packet, len, mend } => self.mutate(*packet, *mend, |bytes| {
                let len = usize::from(*len) % bytes.len();
                bytes.truncate(len.max(1));
            }),
            Operation::Inject { to, tag, known_address, chunks } => {
                self.inject_chunks(*to, *tag, *known_address, chunks);
            }
            Operation::Icmp { to, kind, tag, second } => self.icmp(*to, *kind, *tag, *second),
        }
        self.drain();
        self.check();
    }

    /// Reports that the host cannot send the packets of a side's associations over a path.
    fn report_send_error(&mut self, side: Side, second: bool) {
        let (local, remote) = (address(side, second), address(other(side), second));
        let now = self.now;
        for quoted in self.starts(side) {
            self.end(side).endpoint.handle_send_error(now, local, remote, &quoted);
        }
    }

    /// Reports that the packets of a side's associations are too big for a path.
    fn report_too_big(&mut self, side: Side, second: bool, mtu: u16) {
        let (local, remote) = (address(side, second), address(other(side), second));
        let now = self.now;
        for quoted in self.starts(side) {
            let endpoint = &mut self.end(side).endpoint;
            endpoint.handle_message_too_big(now, local, remote, mtu, &quoted);
        }
    }

    /// Delivers the next packets in order.
    fn deliver_next(&mut self, packets: u8) {
        for _ in 0..packets {
            let Some(packet) = self.flying.pop_front() else { break };
            self.deliver(packet);
        }
    }

    /// Delivers an old packet again.
    fn replay(&mut self, packet: u8) {
        let index = usize::from(packet) % self.history.len().max(1);
        if let Some(packet) = self.history.get(index).cloned() {
            self.deliver(packet);
        }
    }

    /// Delivers a packet with these chunks from the peer's address or from a stranger's.
    fn inject_chunks(
        &mut self,
        to: Side,
        tag: Tag,
        known_address: bool,
        chunks: &[Option<Forged>; 3],
    ) {
        let header = self.header(to, tag);
        let (seen, sender) = (&self.ends[to.index()].seen, &self.ends[other(to).index()].seen);
        let bytes = forge::packet(header, seen, sender, chunks);
        let from_address =
            if known_address { address(other(to), false) } else { IpAddr::from([10, 9, 9, 9]) };
        self.inject(to, from_address, bytes);
    }

    /// Applies `change` to the latest association of a side.
    pub(super) fn with(
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

    pub(super) fn send(
        &mut self,
        side: Side,
        stream: u16,
        len: u16,
        unordered: bool,
        immediately: bool,
        reliability: Reliability,
    ) {
        let end = self.end(side);
        end.sent += 1;
        // A message starts with its number, which determines the other bytes.
        let number = end.sent as u32;
        let mut data = vec![number as u8; usize::from(len)];
        if let Some(head) = data.first_chunk_mut() {
            *head = number.to_be_bytes();
        }
        let mut message = OutgoingMessage::new(stream, Ppid(9), data);
        message.unordered = unordered;
        message.sack_immediately = immediately;
        message.reliability = reliability;
        // Refused if the buffer is full, the stream does not exist or the message is empty.
        self.with(side, |now, association| drop(association.send(now, message)));
    }

    pub(super) fn receive(&mut self, side: Side, messages: usize, keep: bool) {
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

    pub(super) fn remove(&mut self, side: Side) {
        let end = self.end(side);
        let Some(id) = end.associations.pop() else { return };
        end.endpoint.remove(id);
        end.closed.retain(|closed| *closed != id);
        assert!(end.endpoint.association(id).is_none());
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        pump::next_deadline(self.ends.iter().map(|end| &end.endpoint))
    }

    pub(super) fn advance(&mut self, by: Duration) {
        let until = self.now + by;
        // A timer must not expire again immediately without having done anything. One expiry per
        // millisecond on average is far more than necessary, whatever is lost.
        let most = 2_000 + 4 * by.as_millis();
        let mut rounds = 0;
        while let Some(deadline) = self.next_deadline().filter(|deadline| *deadline <= until) {
            self.now = self.now.max(deadline);
            let now = self.now;
            for end in &mut self.ends {
                pump::expire(&mut end.endpoint, now);
            }
            self.drain();
            rounds += 1;
            assert!(rounds < most, "{rounds} deadlines within {by:?}");
        }
        self.now = until;
    }
}

/// When a message is given up; small numbers mean never.
fn reliability(number: u8) -> Reliability {
    match number {
        0..=100 => Reliability::Usual,
        101..=115 => Reliability::Retransmissions(u16::from(number - 101) / 4),
        116..=128 => Reliability::Priority(u32::from(number)),
        _ => Reliability::Lifetime(Duration::from_millis(u64::from(number))),
    }
}
