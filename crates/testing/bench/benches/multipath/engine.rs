//! Both ends of the engine on this thread. A path is a queue of packets in memory without delay.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use anabranch_proto::config::{MtuConfig, Routes};
use anabranch_proto::{
    AssociationConfig, AssociationId, ConnectRequest, Endpoint, EndpointConfig, Event, Instant,
    MultipathMode, Notification, OutgoingMessage, Ppid,
};
use anabranch_testnet::pump::{self, Batch};
use bytes::Bytes;
use nix::sys::resource::{UsageWho, getrusage};

const PORT: u16 = 5000;
const UDP_PORT: u16 = 9899;
/// User bytes of a message that fills a packet.
const MESSAGE: usize = 1400;
const BATCH: usize = 64;
/// Number of packets before the first run as warm-up.
const WARM_UP: u64 = 200_000;
/// Number of packets per run.
const PACKETS: u64 = 1_500_000;
/// Virtual time between two exchanges.
const STEP: Duration = Duration::from_micros(100);

fn address(node: u8, path: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, path, 0, node + 1))
}

/// Both ends, and the packets between them.
pub(crate) struct Pair {
    ends: [Endpoint; 2],
    now: Instant,
    /// Batches in flight, each with the number of the receiving end.
    batches: VecDeque<(usize, Batch)>,
    sender: Option<AssociationId>,
    received: u64,
    message: Bytes,
}

impl Pair {
    pub(crate) fn new(paths: u8, mode: MultipathMode) -> Result<Self, String> {
        let mut config = AssociationConfig::default().with_multipath(mode);
        config.mtu = MtuConfig::fixed(1500);
        let config = Arc::new(config);
        let ends = [0, 1].map(|node: u8| {
            let mut options = EndpointConfig::default();
            let pairs = (0..paths).map(|path| (address(node, path), address(1 - node, path)));
            options.routes = Routes::Pairs(pairs.collect());
            let mut endpoint = Endpoint::new(options, [node; 32]);
            let locals: Vec<IpAddr> = (0..paths).map(|path| address(node, path)).collect();
            endpoint.set_local_addresses(Instant::ZERO, &locals);
            endpoint
        });
        let mut pair = Self {
            ends,
            now: Instant::ZERO,
            batches: VecDeque::new(),
            sender: None,
            received: 0,
            message: Bytes::from(vec![7; MESSAGE]),
        };
        pair.ends[1].listen(PORT, Arc::clone(&config)).map_err(|error| error.to_string())?;
        let remotes = (0..paths).map(|path| address(1, path)).collect();
        let mut request = ConnectRequest::new(remotes, PORT);
        request.config = config;
        pair.ends[0].connect(pair.now, request).map_err(|error| error.to_string())?;
        pair.run(WARM_UP)?;
        Ok(pair)
    }

    /// Runs until `messages` more messages were received.
    fn run(&mut self, messages: u64) -> Result<(), String> {
        let end = self.received + messages;
        // A stall is detected in virtual time.
        let limit = self.now + Duration::from_secs(10_000);
        while self.received < end {
            if self.now > limit {
                return Err(format!("{} of {end} messages came", self.received));
            }
            self.top_up()?;
            for node in [0, 1] {
                self.transmit(node);
                while let Some((to, batch)) = self.batches.pop_front() {
                    let received = pump::arrival(&batch.transmit, UDP_PORT);
                    self.ends[to].handle_batch(self.now, &received, batch.bytes);
                }
                self.take_events(1 - node)?;
            }
            self.now += STEP;
            for node in [0, 1] {
                if pump::expire(&mut self.ends[node], self.now) {
                    self.take_events(node)?;
                }
            }
        }
        Ok(())
    }

    fn top_up(&mut self) -> Result<(), String> {
        let Some(id) = self.sender else { return Ok(()) };
        let Some(mut association) = self.ends[0].association_mut(self.now, id) else {
            return Err("the association is gone".to_owned());
        };
        while association.send_buffer_free() > 2 * MESSAGE {
            let message = OutgoingMessage::new(0, Ppid(0), self.message.clone());
            association.send(self.now, message).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn transmit(&mut self, node: usize) {
        for _ in 0..4 {
            let mut buffer = Vec::with_capacity(BATCH * 1500);
            let sent = pump::poll(&mut self.ends[node], self.now, BATCH, &mut buffer);
            let Some(transmit) = sent else { break };
            self.batches.push_back((1 - node, Batch { transmit, bytes: buffer.into() }));
        }
    }

    fn take_events(&mut self, node: usize) -> Result<(), String> {
        while let Some((id, event)) = self.ends[node].poll_event() {
            match event {
                Event::Notification(Notification::Up { incoming: false, .. }) => {
                    self.sender = Some(id);
                }
                Event::Readable => {
                    let Some(mut association) = self.ends[node].association_mut(self.now, id)
                    else {
                        return Err("the association is gone".to_owned());
                    };
                    while let Some(message) = association.receive() {
                        self.received += 1;
                        association.release(message.charge());
                    }
                }
                Event::Notification(Notification::Closed(reason)) => {
                    return Err(format!("the association ended: {reason}"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The share of the data that used the first path.
    pub(crate) fn first_share(&self) -> Option<f64> {
        let statistics = self.ends[0].association(self.sender?)?.statistics();
        let of = |path: &anabranch_proto::PathStatistics| path.data_bytes_sent as f64;
        let all: f64 = statistics.paths.iter().map(of).sum();
        Some(of(statistics.paths.first()?) / all)
    }
}

/// Processor time of this process in seconds.
fn cpu() -> Result<f64, String> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).map_err(|error| error.to_string())?;
    let seconds =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 * 1e-6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

/// Packets per second of CPU time.
pub(crate) fn measure(pair: &mut Pair, quick: bool) -> Result<f64, String> {
    let packets = if quick { PACKETS / 100 } else { PACKETS };
    let (before, received) = (cpu()?, pair.received);
    pair.run(packets)?;
    Ok((pair.received - received) as f64 / (cpu()? - before))
}
