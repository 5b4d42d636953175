//! The wait of short messages on one stream while another stream sends 64 MB, in virtual time: the same on every
//! machine.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use anabranch_proto::config::MtuConfig;
use anabranch_proto::{
    AssociationConfig, AssociationId, ConnectRequest, EndpointConfig, Event, Instant, Notification,
    OutgoingMessage, Ppid, SchedulerKind, StreamPriority,
};
use anabranch_sim::{LinkConfig, QueueLimit};
use anabranch_testnet::Network;
use bytes::Bytes;

const PORT: u16 = 5000;
const RATE: u64 = 10_000_000;
const DELAY: Duration = Duration::from_millis(20);
/// The queue of the link in packets: about the product of bandwidth and round trip.
const QUEUE: usize = 50;

/// The long messages.
const LONG: usize = 1 << 20;
const COUNT: usize = 64;
const LONG_STREAM: u16 = 0;

/// The short messages, and the time between two of them. It is not a multiple of the time that a packet takes.
const SHORT: usize = 100;
const SHORT_STREAM: u16 = 1;
const INTERVAL: Duration = Duration::from_micros(50_700);

const LIMIT: Duration = Duration::from_secs(600);

struct Run {
    network: Network,
    ids: [Option<AssociationId>; 2],
    /// Long messages that were given.
    given: usize,
    /// When each short message was given, and how long it took.
    sent: Vec<Instant>,
    waits: Vec<Duration>,
    received: usize,
}

/// The longest wait of a short message, without the worst one in a hundred, in milliseconds.
pub(crate) fn slowest(interleaving: bool) -> Result<f64, String> {
    let config = AssociationConfig::default().with(|config| {
        config.sending.interleaving = interleaving;
        config.sending.scheduler = SchedulerKind::Priority;
        config.sending.send_buffer = 4 * LONG;
        config.sending.send_buffer_start = None;
        config.mtu = MtuConfig::fixed(1500);
    });
    let mut run = Run::new(config)?;
    run.transfer(COUNT)?;
    run.waits.sort_unstable();
    let place = (run.waits.len() * 99).div_ceil(100).saturating_sub(1);
    let wait = run.waits.get(place).ok_or("no short message arrived")?;
    Ok(wait.as_secs_f64() * 1e3)
}

impl Run {
    fn new(config: AssociationConfig) -> Result<Self, String> {
        let link = LinkConfig::new().rate(RATE).delay(DELAY).queue(QueueLimit::Packets(QUEUE));
        let mut network = Network::new(link, 1);
        network.check = false;
        let addresses = [1, 2].map(|host| IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)));
        for (seed, address) in (1..).zip(addresses) {
            network.add_node(EndpointConfig::default(), [seed; 32], &[address]);
        }
        let config = Arc::new(config);
        let now = network.now();
        let text = |error: &dyn std::fmt::Display| error.to_string();
        network
            .node_mut(1)
            .endpoint
            .listen(PORT, Arc::clone(&config))
            .map_err(|error| text(&error))?;
        let mut request = ConnectRequest::new(vec![addresses[1]], PORT);
        request.config = config;
        network.node_mut(0).endpoint.connect(now, request).map_err(|error| text(&error))?;
        let (ids, sent, waits) = ([None; 2], Vec::new(), Vec::new());
        let mut run = Self { network, ids, given: 0, sent, waits, received: 0 };
        let limit = run.network.now() + LIMIT;
        while run.ids.contains(&None) {
            run.step(limit)?;
        }
        let now = run.network.now();
        let mut association = run.association(0, now)?;
        association.set_stream_priority(LONG_STREAM, StreamPriority::from(5));
        association.set_stream_priority(SHORT_STREAM, StreamPriority::from(1));
        drop(association);
        Ok(run)
    }

    fn association(
        &mut self,
        node: usize,
        now: Instant,
    ) -> Result<anabranch_proto::AssociationMut<'_>, String> {
        let id = self.ids[node].ok_or("no association")?;
        let endpoint = &mut self.network.node_mut(node).endpoint;
        endpoint.association_mut(now, id).ok_or_else(|| "the association is gone".to_owned())
    }

    /// Sends `count` long messages, and short ones until the long ones have arrived.
    fn transfer(&mut self, count: usize) -> Result<(), String> {
        let limit = self.network.now() + LIMIT;
        let long = Bytes::from(vec![7; LONG]);
        let mut next = self.network.now();
        while self.received < count * LONG {
            let now = self.network.now();
            let is_due = now >= next;
            let (given, sent) = (self.given, self.sent.len());
            let mut association = self.association(0, now)?;
            let mut more = 0;
            while given + more < count && association.send_buffer_free() > 2 * LONG {
                let message = OutgoingMessage::new(LONG_STREAM, Ppid(0), long.clone());
                association.send(now, message).map_err(|error| error.to_string())?;
                more += 1;
            }
            if is_due {
                let mut number = vec![0; SHORT];
                number[..8].copy_from_slice(&(sent as u64).to_be_bytes());
                let message = OutgoingMessage::new(SHORT_STREAM, Ppid(0), number);
                association.send(now, message).map_err(|error| error.to_string())?;
            }
            drop(association);
            self.given += more;
            if is_due {
                self.sent.push(now);
                next = now + INTERVAL;
            }
            self.step(next.min(limit))?;
            if self.network.now() >= limit {
                return Err("it does not end".to_owned());
            }
        }
        Ok(())
    }

    /// Lets the next thing happen, at the latest at `until`.
    fn step(&mut self, until: Instant) -> Result<(), String> {
        self.network.settle();
        self.network.step(until);
        for node in [0, 1] {
            while let Some((id, event)) = self.network.node_mut(node).events.pop_front() {
                match event {
                    Event::Notification(Notification::Up { .. }) => self.ids[node] = Some(id),
                    Event::Notification(Notification::Closed(reason)) => {
                        return Err(reason.to_string());
                    }
                    _ => {}
                }
            }
        }
        self.read()?;
        self.network.trace.forget();
        self.network.settle();
        Ok(())
    }

    fn read(&mut self) -> Result<(), String> {
        if self.ids[1].is_none() {
            return Ok(());
        }
        let now = self.network.now();
        let mut messages = Vec::new();
        let mut association = self.association(1, now)?;
        while let Some(message) = association.receive() {
            association.release(message.charge());
            messages.push(message);
        }
        drop(association);
        for message in messages {
            if message.stream == LONG_STREAM {
                self.received += message.payload.len();
                continue;
            }
            let bytes = message.payload.into_bytes();
            let number = bytes.first_chunk().map(|number| u64::from_be_bytes(*number));
            let sent = number.and_then(|number| self.sent.get(usize::try_from(number).ok()?));
            let sent = sent.ok_or("an unknown message")?;
            self.waits.push(now.saturating_since(*sent));
        }
        Ok(())
    }
}
