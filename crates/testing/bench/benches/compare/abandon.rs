//! The processor time of a sender for each message that its user gives, if the network takes all of them, and if it
//! takes one in a hundred and the others are given up.
//!
//! Time is virtual. In each step the user gives some messages, and the link takes some of the sender's packets. Only
//! the sender's work counts.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use anabranch_proto::config::{MtuConfig, Routes};
use anabranch_proto::{
    AssociationConfig, AssociationId, ConnectRequest, Endpoint, EndpointConfig, Event, Instant,
    Notification, OutgoingMessage, Ppid, Reliability,
};
use anabranch_testnet::pump::{self, Batch};
use bytes::Bytes;

use crate::cpu::Stopwatch;
use crate::measure::Sample;

const PORT: u16 = 5000;
const UDP_PORT: u16 = 9899;
const MESSAGE: usize = 1000;
/// Virtual time of a step, and messages that the user gives in it.
const STEP: Duration = Duration::from_millis(1);
const GIVEN: usize = 128;
/// Packets that wait at a narrow link. It takes one a step, with one message.
const QUEUE: usize = 64;
/// How long a message is worth sending there.
const LIFETIME: Duration = Duration::from_millis(5);
const WARM_UP: u64 = 2_000;
const STEPS: u64 = 10_000;

struct Run {
    ends: [Endpoint; 2],
    now: Instant,
    /// Packets on their way to the receiver.
    packets: VecDeque<(Batch, Bytes)>,
    narrow: bool,
    sender: Option<AssociationId>,
    receiver: Option<AssociationId>,
    given: u64,
    given_up: u64,
    received: u64,
    cpu: f64,
}

fn address(node: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, node + 1))
}

/// Nanoseconds for each message that is given.
pub(crate) fn cost(abandons: bool, quick: bool) -> Result<Sample, String> {
    let config = AssociationConfig::default().with(|config| {
        config.sending.send_buffer = 8 << 20;
        config.sending.send_buffer_start = None;
        config.sending.reliability =
            if abandons { Reliability::Lifetime(LIFETIME) } else { Reliability::Full };
        config.receiving.receive_buffer = 4 << 20;
        config.receiving.receive_buffer_start = None;
        config.mtu = MtuConfig::fixed(1500);
    });
    let mut run = Run::new(config, abandons)?;
    let (warm_up, steps) = if quick { (WARM_UP / 10, STEPS / 10) } else { (WARM_UP, STEPS) };
    run.run(warm_up)?;
    (run.given, run.given_up, run.received, run.cpu) = (0, 0, 0, 0.0);
    run.run(steps)?;
    let given_up = run.given_up as f64 / run.given as f64;
    let expected = if abandons { 0.98..=0.995 } else { 0.0..=0.0 };
    if !quick && !expected.contains(&given_up) {
        return Err(format!("{:.1} % of the messages were given up", given_up * 100.0));
    }
    let value = run.cpu * 1e9 / run.given as f64;
    let notes = vec![("given_up_percent", given_up * 100.0), ("received", run.received as f64)];
    Ok(Sample { value, cpu: run.cpu, notes })
}

impl Run {
    fn new(config: AssociationConfig, narrow: bool) -> Result<Self, String> {
        let config = Arc::new(config);
        let ends = [0, 1].map(|node: u8| {
            let mut options = EndpointConfig::default();
            options.routes = Routes::Pairs(vec![(address(node), address(1 - node))]);
            let mut endpoint = Endpoint::new(options, [node; 32]);
            endpoint.set_local_addresses(Instant::ZERO, &[address(node)]);
            endpoint
        });
        let mut run = Self {
            ends,
            now: Instant::ZERO,
            packets: VecDeque::new(),
            narrow: false,
            sender: None,
            receiver: None,
            given: 0,
            given_up: 0,
            received: 0,
            cpu: 0.0,
        };
        run.ends[1].listen(PORT, Arc::clone(&config)).map_err(|error| error.to_string())?;
        let mut request = ConnectRequest::new(vec![address(1)], PORT);
        request.config = config;
        run.ends[0].connect(run.now, request).map_err(|error| error.to_string())?;
        for _ in 0..100 {
            run.step()?;
        }
        if run.sender.is_none() || run.receiver.is_none() {
            return Err("no association came up".to_owned());
        }
        run.narrow = narrow;
        Ok(run)
    }

    fn run(&mut self, steps: u64) -> Result<(), String> {
        let message = Bytes::from(vec![7; MESSAGE]);
        for _ in 0..steps {
            let watch = Stopwatch::start();
            self.give(&message)?;
            self.cpu += watch.seconds();
            self.step()?;
        }
        Ok(())
    }

    fn give(&mut self, message: &Bytes) -> Result<(), String> {
        let id = self.sender.ok_or("no association")?;
        let association = self.ends[0].association_mut(self.now, id);
        let mut association = association.ok_or("the association is gone")?;
        for _ in 0..GIVEN {
            // A window that is still small blocks the reliable sender; that costs nothing worth counting.
            if association.send_buffer_free() < 2 * MESSAGE {
                break;
            }
            let message = OutgoingMessage::new(0, Ppid(0), message.clone());
            association.send(self.now, message).map_err(|error| error.to_string())?;
            self.given += 1;
        }
        Ok(())
    }

    /// Lets both ends send and receive, and time go on.
    fn step(&mut self) -> Result<(), String> {
        let watch = Stopwatch::start();
        let mut sent = Vec::new();
        while let Some(batch) = Batch::take(&mut self.ends[0], self.now, 64) {
            sent.push(batch);
        }
        self.take_events(0)?;
        self.cpu += watch.seconds();
        for batch in sent {
            for packet in batch.packets() {
                if !self.narrow || self.packets.len() < QUEUE {
                    self.packets.push_back((batch.clone(), packet));
                }
            }
        }
        let capacity = if self.narrow { 1 } else { usize::MAX };
        for _ in 0..capacity.min(self.packets.len()) {
            let Some((batch, packet)) = self.packets.pop_front() else { break };
            let arrival = pump::arrival(&batch.transmit, UDP_PORT);
            self.ends[1].handle_batch(self.now, &arrival, packet);
        }
        self.take_events(1)?;
        self.read();
        let mut answers = Vec::new();
        while let Some(batch) = Batch::take(&mut self.ends[1], self.now, 64) {
            answers.push(batch);
        }
        self.now += STEP;
        pump::expire(&mut self.ends[1], self.now);
        let watch = Stopwatch::start();
        for batch in answers {
            let arrival = pump::arrival(&batch.transmit, UDP_PORT);
            self.ends[0].handle_batch(self.now, &arrival, batch.bytes);
        }
        pump::expire(&mut self.ends[0], self.now);
        self.take_events(0)?;
        self.cpu += watch.seconds();
        Ok(())
    }

    fn read(&mut self) {
        let Some(id) = self.receiver else { return };
        let Some(mut association) = self.ends[1].association_mut(self.now, id) else { return };
        while let Some(message) = association.receive() {
            association.release(message.charge());
            self.received += u64::from(message.end);
        }
    }

    fn take_events(&mut self, node: usize) -> Result<(), String> {
        while let Some((id, event)) = self.ends[node].poll_event() {
            match event {
                Event::Notification(Notification::Up { incoming: false, .. }) => {
                    self.sender = Some(id);
                }
                Event::Notification(Notification::Up { incoming: true, .. }) => {
                    self.receiver = Some(id);
                }
                Event::Notification(Notification::SendFailed { .. }) => self.given_up += 1,
                Event::Notification(Notification::Closed(reason)) => {
                    return Err(reason.to_string());
                }
                _ => {}
            }
        }
        Ok(())
    }
}
