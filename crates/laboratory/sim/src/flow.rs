//! TCP connections between hosts. They serve as greedy, responsive cross-traffic, as a baseline for comparisons, and as
//! the transport of [`WebTraffic`](crate::WebTraffic).

use std::net::IpAddr;
use std::time::Duration;

use anabranch_proto::{Ecn, Instant};
use anabranch_tcp::{Config, Connection, MetricCache, Stats};
use bytes::Bytes;

mod messages;

use messages::Messages;
pub use messages::TcpMessages;

use crate::error::SimError;
use crate::measure::Histogram;
use crate::network::{Network, NodeId, Source, purpose};
use crate::packet::{AddressId, Kind, Packet};

/// Size of a segment's IP header in bytes.
const IP_HEADER: usize = 20;

/// The data to send; its contents do not matter.
static BLOCK: [u8; 16 * 1024] = [0; 16 * 1024];

/// Identifies a TCP connection of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TcpFlowId(u32);

/// A TCP connection that sends as fast as it can; see
/// [`Network::add_tcp_flow`](crate::Network::add_tcp_flow).
#[derive(Clone, Debug, PartialEq)]
pub struct TcpFlow {
    /// The sending host; uses its first address that reaches the receiver.
    pub from: NodeId,
    /// The receiving host.
    pub to: NodeId,
    /// Bytes to send; `None` means endless.
    pub bytes: Option<u64>,
    /// Messages to send instead of `bytes`.
    pub messages: Option<TcpMessages>,
    /// Which metrics it reuses from earlier connections between the same addresses, and stores for later connections.
    pub metric_cache: MetricCache,
    /// Bytes that the receiver sends back when it has received everything; 0 for none.
    pub answer: u64,
    /// When it connects.
    pub start: Instant,
    /// Options of both ends.
    pub config: Config,
    /// Addresses of both hosts; by default the first ones that reach each other.
    pub pair: Option<(IpAddr, IpAddr)>,
}

impl TcpFlow {
    /// An endless connection with the options of the RFCs.
    pub fn greedy(from: NodeId, to: NodeId) -> Self {
        Self {
            from,
            to,
            bytes: None,
            messages: None,
            metric_cache: MetricCache::Off,
            answer: 0,
            start: Instant::ZERO,
            config: Config::default(),
            pair: None,
        }
    }
}

/// The state of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TcpFlowResult {
    /// When it connects or connected.
    pub started_at: Instant,
    /// Bytes read in order by the receiver; with an answer, by both ends.
    pub delivered: u64,
    /// When the first bytes arrived.
    pub first_data_at: Option<Instant>,
    /// When the latest bytes arrived.
    pub last_data_at: Option<Instant>,
    /// Whether all data to be sent has arrived.
    pub all_delivered: bool,
    /// The longest time without arriving data since the connection was established.
    pub longest_gap: Duration,
    /// Start of that time.
    pub longest_gap_at: Instant,
    /// When the receiver had all data.
    pub completed_at: Option<Instant>,
    /// Whether it has finished: all data has arrived, or an end has given up.
    pub is_over: bool,
    /// Counters of the sender.
    pub stats: Stats,
}

/// A running connection.
#[derive(Debug)]
pub(crate) struct Flow {
    /// The sender and the receiver.
    ends: [Connection; 2],
    addresses: [AddressId; 2],
    /// The channel through which each end's packets leave.
    channels: [usize; 2],
    /// Its entry in the calendar.
    source: usize,
    started_at: Instant,
    started: bool,
    /// Bytes that have not been written yet.
    rest: Option<u64>,
    messages: Option<Messages>,
    metric_cache: MetricCache,
    /// Whether the receiver answers, and the number of bytes that it has not written yet.
    answers: bool,
    answer: u64,
    /// Total bytes to deliver; `None` is unlimited.
    wanted: Option<u64>,
    delivered: u64,
    connected_at: Option<Instant>,
    first_data_at: Option<Instant>,
    last_data_at: Option<Instant>,
    /// The longest time without data, and its start.
    longest_gap: (Duration, Instant),
    completed_at: Option<Instant>,
    /// Whether the network waits for it.
    awaited: bool,
    /// The web traffic to which it belongs, if any.
    web: Option<usize>,
    /// Counts the connections at this index, so that a connection does not receive packets for its predecessor.
    turn: u32,
}

/// Writes as much of `rest` bytes (or of endless data) as fits. Finishes after them if they are the `last`.
fn write(end: &mut Connection, rest: &mut Option<u64>, last: bool) {
    loop {
        let most = rest.unwrap_or(u64::MAX).min(BLOCK.len() as u64) as usize;
        let refused = end.write_some(Bytes::from_static(&BLOCK[..most]));
        *rest = rest.map(|rest| rest - (most - refused.len()) as u64);
        if most == 0 || !refused.is_empty() {
            break;
        }
    }
    if *rest == Some(0) && last {
        end.finish();
    }
}

impl Flow {
    /// Acts as the user at both ends: writes as much as fits and reads everything.
    fn use_ends(&mut self, now: Instant) {
        let before = self.delivered;
        let [sender, receiver] = &mut self.ends;
        if self.connected_at.is_none() && sender.is_open() {
            self.connected_at = Some(now);
        }
        if let (Some(messages), Some(connected)) = (&mut self.messages, self.connected_at) {
            let due = messages.due(connected, now);
            self.rest = self.rest.map(|rest| rest + due);
        }
        let last = self.messages.as_ref().is_none_or(Messages::are_given);
        write(sender, &mut self.rest, last);
        while let Some(data) = receiver.read() {
            self.delivered += data.len() as u64;
        }
        if let (Some(messages), Some(connected)) = (&mut self.messages, self.connected_at) {
            messages.delivered(self.delivered, connected, now);
        }
        let mut done = receiver.is_at_end();
        if self.answers {
            if done {
                let mut rest = Some(self.answer);
                write(receiver, &mut rest, true);
                self.answer = rest.unwrap_or(0);
            }
            while let Some(data) = sender.read() {
                self.delivered += data.len() as u64;
            }
            done = sender.is_at_end();
        }
        if done && self.completed_at.is_none() {
            self.completed_at = Some(now);
        }
        if self.delivered > before {
            self.arrived(now);
        }
    }

    /// Records that data has arrived.
    fn arrived(&mut self, now: Instant) {
        self.first_data_at.get_or_insert(now);
        if let Some(since) = self.last_data_at.or(self.connected_at) {
            let gap = now.saturating_since(since);
            if gap > self.longest_gap.0 {
                self.longest_gap = (gap, since);
            }
        }
        self.last_data_at = Some(now);
    }

    fn result(&self) -> TcpFlowResult {
        TcpFlowResult {
            started_at: self.started_at,
            delivered: self.delivered,
            first_data_at: self.first_data_at,
            last_data_at: self.last_data_at,
            all_delivered: self.wanted == Some(self.delivered),
            longest_gap: self.longest_gap.0,
            longest_gap_at: self.longest_gap.1,
            completed_at: self.completed_at,
            is_over: self.is_over(),
            stats: self.ends[0].stats(),
        }
    }

    /// Whether the network need not wait for it any more.
    fn is_over(&self) -> bool {
        self.completed_at.is_some() || self.ends.iter().any(Connection::is_dead)
    }

    /// Whether neither end needs anything more from the other.
    fn is_closed(&self) -> bool {
        self.ends.iter().any(Connection::is_dead)
            || (self.completed_at.is_some() && self.ends.iter().all(Connection::is_finished))
    }
}

impl Network {
    /// Adds a TCP connection. [`run`](Self::run) waits for it unless it is endless.
    ///
    /// # Errors
    /// [`SimError::Option`], [`SimError::NotAHost`], [`SimError::NoRoute`], [`SimError::Past`].
    pub fn add_tcp_flow(&mut self, flow: TcpFlow) -> Result<TcpFlowId, SimError> {
        if flow.start < self.now {
            return Err(SimError::Past);
        }
        if flow.messages.as_ref().is_some_and(|messages| !messages.is_valid()) {
            return Err(SimError::Option {
                option: "tcp messages",
                reason: "must have a byte each, and times in order".into(),
            });
        }
        if flow.bytes == Some(0) {
            return Err(SimError::Option {
                option: "tcp bytes",
                reason: "must be at least 1".into(),
            });
        }
        let addresses = match flow.pair {
            None => self.pair_both_ways(flow.from, flow.to)?,
            Some((local, remote)) => [self.own(flow.from, local)?, self.own(flow.to, remote)?],
        };
        let awaited = flow.bytes.is_some() || flow.messages.is_some();
        let mut draws = self.draws(purpose::FLOW, self.flows.len());
        let isns = [(); 2].map(|()| (draws.next_u64() >> 32) as u32);
        let number = self.open_flow(&flow, addresses, isns, None);
        self.flows[number].awaited = awaited;
        self.busy += usize::from(awaited);
        Ok(TcpFlowId(number as u32))
    }

    /// The number of an address, which must belong to the host.
    fn own(&self, host: NodeId, address: IpAddr) -> Result<AddressId, SimError> {
        let id = self.address_id(address)?;
        match self.addresses[id as usize].node == host.index() {
            true => Ok(id),
            false => Err(SimError::NotAHost(self.name(host).to_owned())),
        }
    }

    /// The first pair of addresses over which two hosts reach each other in both directions.
    pub(crate) fn pair_both_ways(
        &self,
        from: NodeId,
        to: NodeId,
    ) -> Result<[AddressId; 2], SimError> {
        let (local, remote) = self.pair(from, to)?;
        if self.pair(to, from)? != (remote, local) {
            return Err(SimError::NoRoute {
                from: self.name(to).to_owned(),
                to: self.name(from).to_owned(),
            });
        }
        Ok([local, remote])
    }

    /// Creates a connection, reusing a free index if there is one, and returns its number.
    pub(crate) fn open_flow(
        &mut self,
        flow: &TcpFlow,
        addresses: [AddressId; 2],
        isns: [u32; 2],
        web: Option<usize>,
    ) -> usize {
        // Packets carry the number of their connection, so the ports need not be unique.
        let sender = Connection::connect(flow.config.clone(), (49_152, 9), isns[0]);
        let mut receiver = Connection::accept(flow.config.clone(), 9, isns[1]);
        if flow.answer == 0 {
            receiver.finish();
        }
        let place = self.closed_flows.pop();
        let number = place.unwrap_or(self.flows.len());
        let (source, turn) = match self.flows.get(number) {
            Some(before) => (before.source, before.turn),
            None => (self.source(Source::Flow(number)), 0),
        };
        self.calendar.set(source, Some(flow.start));
        let flow = Flow {
            ends: [sender, receiver],
            addresses,
            channels: addresses.map(|id| self.addresses[id as usize].channel),
            source,
            started_at: flow.start,
            started: false,
            rest: if flow.messages.is_some() { Some(0) } else { flow.bytes },
            messages: flow.messages.clone().map(Messages::new),
            metric_cache: flow.metric_cache,
            answers: flow.answer > 0,
            answer: flow.answer,
            wanted: (flow.messages.as_ref().map(TcpMessages::bytes).or(flow.bytes))
                .map(|bytes| bytes.saturating_add(flow.answer)),
            delivered: 0,
            connected_at: None,
            first_data_at: None,
            last_data_at: None,
            longest_gap: (Duration::ZERO, flow.start),
            completed_at: None,
            awaited: false,
            web,
            turn,
        };
        match self.flows.get_mut(number) {
            Some(place) => *place = flow,
            None => self.flows.push(flow),
        }
        number
    }

    /// The state of a TCP connection so far.
    pub fn tcp_flow(&self, flow: TcpFlowId) -> TcpFlowResult {
        self.flows[flow.0 as usize].result()
    }

    /// The current state of all TCP connections except those of web traffic.
    pub fn tcp_flows(&self) -> impl Iterator<Item = (TcpFlowId, TcpFlowResult)> + '_ {
        let numbered = (0..).map(TcpFlowId).zip(&self.flows);
        numbered.filter(|(_, flow)| flow.web.is_none()).map(|(id, flow)| (id, flow.result()))
    }

    /// Handles the timer of a connection.
    pub(crate) fn flow_wakes(&mut self, number: usize) {
        let flow = &mut self.flows[number];
        if std::mem::replace(&mut flow.started, true) {
            flow.ends.iter_mut().for_each(|end| end.handle_timeout(self.now));
        } else if flow.metric_cache != MetricCache::Off {
            self.start_with_what_was_learnt(number);
        }
        self.flow_sends(number);
    }

    /// Handles a packet that has arrived at one of a connection's hosts.
    pub(crate) fn flow_receives(&mut self, (number, turn): (usize, u32), packet: &mut Packet) {
        let flow = &mut self.flows[number];
        if flow.turn != turn {
            return;
        }
        let end = usize::from(packet.destination == flow.addresses[1]);
        let bytes = std::mem::take(&mut packet.bytes);
        match packet.ecn {
            Some(Ecn::Ce) => flow.ends[end].handle_marked(self.now, bytes),
            _ => flow.ends[end].handle(self.now, bytes),
        }
        self.flow_sends(number);
    }

    fn flow_sends(&mut self, number: usize) {
        let now = self.now;
        let mut segments = std::mem::take(&mut self.segments);
        let flow = &mut self.flows[number];
        flow.use_ends(now);
        for (end, connection) in flow.ends.iter_mut().enumerate() {
            while let Some(bytes) = connection.poll_transmit(now) {
                let packet = Packet {
                    size: (bytes.len() + IP_HEADER) as u32,
                    bytes,
                    source: flow.addresses[end],
                    destination: flow.addresses[1 - end],
                    kind: Kind::Tcp(number as u32, flow.turn),
                    hops: 0,
                    dont_fragment: false,
                    ecn: connection.is_ecn_capable().then_some(Ecn::Ect0),
                };
                segments.push((flow.channels[end], self.packets.boxed(packet)));
            }
        }
        let deadlines = flow.ends.iter().filter_map(Connection::next_deadline);
        let due = flow.messages.as_ref().zip(flow.connected_at);
        let next = deadlines.chain(due.and_then(|(messages, at)| messages.next(at))).min();
        self.calendar.set(flow.source, next);
        if flow.awaited && flow.is_over() {
            flow.awaited = false;
            self.busy -= 1;
            self.leave_what_was_learnt(number);
        }
        let flow = &self.flows[number];
        let closed = flow.is_closed() && flow.web.is_some();
        for (channel, packet) in segments.drain(..) {
            self.trace.packet(now, packet.source, packet.destination, &packet.bytes);
            self.launch(channel, packet);
        }
        self.segments = segments;
        if closed {
            self.close_web_flow(number);
        }
    }

    /// Delays of a connection's messages, measured from their due times.
    pub fn tcp_delays(&self, flow: TcpFlowId) -> Option<&Histogram> {
        Some(&self.flows[flow.0 as usize].messages.as_ref()?.delays)
    }

    /// Starts a connection with metrics of other connections.
    fn start_with_what_was_learnt(&mut self, number: usize) {
        let [from, to] = self.flows[number].addresses;
        let mode = self.flows[number].metric_cache;
        if mode == MetricCache::Informed {
            // Open connections have metrics too (ensemble sharing, RFC 9040 section 7).
            let live =
                |flow: &Flow| flow.addresses == [from, to] && flow.started && !flow.is_over();
            let others =
                self.flows.iter().enumerate().filter(|(at, flow)| *at != number && live(flow));
            for metrics in others.map(|(_, flow)| flow.ends[0].metrics()).collect::<Vec<_>>() {
                self.learnt.note(mode, self.now, (from, to), metrics);
            }
        }
        for (end, key) in [(0, (from, to)), (1, (to, from))] {
            if let Some(metrics) = self.learnt.get(mode, self.now, &key) {
                self.flows[number].ends[end].start_with(&metrics);
            }
        }
    }

    /// Stores the metrics of a connection that is over.
    fn leave_what_was_learnt(&mut self, number: usize) {
        let flow = &self.flows[number];
        let [from, to] = flow.addresses;
        let learnt = [0, 1].map(|end| flow.ends[end].metrics());
        let mode = flow.metric_cache;
        self.learnt.note(mode, self.now, (from, to), learnt[0]);
        if flow.answers {
            self.learnt.note(mode, self.now, (to, from), learnt[1]);
        }
    }

    /// Frees the place of a web traffic connection that is over.
    fn close_web_flow(&mut self, number: usize) {
        let flow = &mut self.flows[number];
        let Some(web) = flow.web else { return };
        let result = flow.result();
        // Packets still in flight to it now belong to no connection.
        flow.turn = flow.turn.wrapping_add(1);
        self.calendar.set(flow.source, None);
        self.closed_flows.push(number);
        self.web[web].closed(&result);
    }
}
