//! Two endpoints with many associations between them, and a network that delays and loses packets.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use anabranch_proto::config::{MtuConfig, Routes};
use anabranch_proto::{
    AssociationConfig, AssociationId, ConnectRequest, Endpoint, EndpointConfig, Event, Instant,
    Notification, OutgoingMessage, Ppid, Received,
};
use anabranch_testnet::pump;
use bytes::Bytes;

const PORT: u16 = 5000;
const ADDRESSES: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2))];
const UDP_PORT: u16 = 9899;
/// One-way delay.
const DELAY: Duration = Duration::from_millis(50);
/// Seconds within which all associations are set up despite losses.
const SET_UP: u32 = 120;
/// Time between setup and the first sample.
const WARM_UP: Duration = Duration::from_secs(5);
/// User bytes of a message; one chunk.
const MESSAGE: usize = 1400;
/// Maximum number of packets sent together.
const BATCH: usize = 16;

/// Node 0 sends, node 1 receives.
pub(crate) struct Network {
    ends: Vec<Endpoint>,
    now: Instant,
    /// Packets in flight in the order of their arrival: arrival time, node and packet.
    packets: VecDeque<(Instant, usize, Bytes)>,
    /// The sender's associations by local port.
    senders: HashMap<u16, AssociationId>,
    received: u64,
    /// Percentage of lost packets.
    loss: u64,
    random: u64,
}

impl Network {
    /// Sets up the associations at slightly different times.
    pub(crate) fn new(
        associations: usize,
        loss: u64,
        nr_sack: bool,
        seed: u64,
    ) -> Result<Self, String> {
        let mut config = AssociationConfig::default();
        config.mtu = MtuConfig::fixed(1500);
        config.acknowledging.nr_sack = nr_sack;
        let config = Arc::new(config);
        let mut ends = Vec::new();
        for node in 0..2 {
            let mut options = EndpointConfig::default();
            options.checksum = false;
            options.routes = Routes::Pairs(vec![(ADDRESSES[node], ADDRESSES[1 - node])]);
            let mut endpoint = Endpoint::new(options, [(2 * seed) as u8 + node as u8; 32]);
            endpoint.set_local_addresses(Instant::ZERO, &ADDRESSES[node..=node]);
            ends.push(endpoint);
        }
        ends[1].listen(PORT, Arc::clone(&config)).map_err(|error| error.to_string())?;
        let mut network = Self {
            ends,
            now: Instant::ZERO,
            packets: VecDeque::new(),
            senders: HashMap::new(),
            received: 0,
            loss,
            random: seed,
        };
        for _ in 0..associations {
            let mut request = ConnectRequest::new(vec![ADDRESSES[1]], PORT);
            request.config = Arc::clone(&config);
            let connected = network.ends[0].connect(network.now, request);
            connected.map_err(|error| error.to_string())?;
            network.run(Duration::from_millis(1))?;
        }
        for _ in 0..SET_UP {
            if network.senders.len() == associations {
                network.run(WARM_UP)?;
                return Ok(network);
            }
            network.run(Duration::from_secs(1))?;
        }
        Err(format!("{} of {associations} associations came up", network.senders.len()))
    }

    /// Runs for some time.
    pub(crate) fn run(&mut self, time: Duration) -> Result<(), String> {
        let until = self.now + time;
        self.transmit(0);
        self.transmit(1);
        loop {
            let arrival = self.packets.front().map(|(at, ..)| *at);
            let due = pump::next_deadline(&self.ends);
            let next = due.into_iter().chain(arrival).min().filter(|next| *next <= until);
            let Some(next) = next else { break };
            self.now = self.now.max(next);
            for node in 0..2 {
                pump::expire(&mut self.ends[node], self.now);
                self.take_events(node)?;
                self.transmit(node);
            }
            while self.packets.front().is_some_and(|(at, ..)| *at <= self.now) {
                let Some((_, to, bytes)) = self.packets.pop_front() else { break };
                self.arrive(to, bytes)?;
            }
        }
        self.now = until;
        Ok(())
    }

    fn arrive(&mut self, to: usize, bytes: Bytes) -> Result<(), String> {
        let port = bytes.get(2..4).map_or(0, |port| u16::from_be_bytes([port[0], port[1]]));
        let received = Received {
            local: ADDRESSES[to],
            remote: ADDRESSES[1 - to],
            remote_udp_port: UDP_PORT,
            ecn: None,
            segment_size: bytes.len(),
        };
        self.ends[to].handle_batch(self.now, &received, bytes);
        self.take_events(to)?;
        self.transmit(to);
        match self.senders.get(&port).copied() {
            Some(id) if to == 0 => self.top_up(id),
            _ => Ok(()),
        }
    }

    fn take_events(&mut self, node: usize) -> Result<(), String> {
        while let Some((id, event)) = self.ends[node].poll_event() {
            match event {
                Event::Notification(Notification::Up { incoming: false, .. }) => {
                    let association = self.ends[node].association(id).ok_or("it is gone")?;
                    self.senders.insert(association.local_port(), id);
                    self.top_up(id)?;
                }
                Event::Readable => {
                    let association = self.ends[node].association_mut(self.now, id);
                    let mut association = association.ok_or("an association is gone")?;
                    while let Some(message) = association.receive() {
                        self.received += message.payload.len() as u64;
                        association.release(message.charge());
                    }
                }
                Event::Notification(Notification::Closed(reason)) => {
                    return Err(format!("an association ended: {reason}"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Sends messages on an association until one has to wait.
    fn top_up(&mut self, id: AssociationId) -> Result<(), String> {
        loop {
            let association = self.ends[0].association_mut(self.now, id);
            let mut association = association.ok_or("an association is gone")?;
            if association.statistics().send_queue_bytes > 0 {
                return Ok(());
            }
            let data = vec![7; MESSAGE];
            let message =
                OutgoingMessage { unordered: true, ..OutgoingMessage::new(0, Ppid(0), data) };
            association.send(self.now, message).map_err(|error| error.to_string())?;
            drop(association);
            self.transmit(0);
        }
    }

    /// Sends the packets of a node and drops the lost ones.
    fn transmit(&mut self, node: usize) {
        let mut buffer = Vec::new();
        while let Some(sent) = pump::poll(&mut self.ends[node], self.now, BATCH, &mut buffer) {
            for packet in buffer.chunks(sent.segment_size.max(1)) {
                if self.random() % 100 >= self.loss {
                    let arrival = self.now + DELAY;
                    self.packets.push_back((arrival, 1 - node, Bytes::copy_from_slice(packet)));
                }
            }
            buffer.clear();
        }
    }

    /// SplitMix64.
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// User bytes that the receiver has received.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// User bytes in the sender's retransmission queues.
    pub(crate) fn kept(&self) -> Result<usize, String> {
        let mut sum = 0;
        for id in self.senders.values() {
            let association = self.ends[0].association(*id).ok_or("an association is gone")?;
            sum += association.statistics().retransmission_queue.bytes;
        }
        Ok(sum)
    }

    /// Bytes that the sender charges for its buffers.
    pub(crate) fn accounted(&self) -> usize {
        self.ends[0].memory_used()
    }

    /// Drops the sender with all of its memory.
    pub(crate) fn drop_sender(&mut self) {
        self.ends.remove(0);
    }
}
