//! The engine's performance with two paths relative to one, and the effect of a slow second path on a transfer.
//!
//! `cargo bench -p anabranch-bench --bench multipath -- [engine|slow-path|latency] [--quick]`
//!
//! `engine`: both ends run on this thread; a path is a queue of packets in memory without delay. One end sends
//! 1,400-byte messages as fast as windows allow, up to 64 packets per call, and the other one reads them. Prints DATA
//! packets per second of CPU time of both ends (the median of alternating runs), and the ratio. The target is 0.7.
//!
//! `slow-path`: goodput in a simulated network, the same on every machine. The bound is 0.95.
//!
//! `latency`: small messages with copies on a second path, and what a bulk transfer beside them loses; simulated, too.
//! The bounds are 0.35 for `copies_p99`, and the share that copies may take for `copies_cost`.
#![forbid(unsafe_code)]

mod latency;
#[path = "../paths/network.rs"]
mod network;
mod slow_path;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;
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
/// Number of packets per run, and of those before it as warm-up.
const WARM_UP: u64 = 200_000;
const PACKETS: u64 = 1_500_000;
const RUNS: usize = 7;
/// Virtual time between two exchanges.
const STEP: Duration = Duration::from_micros(100);

fn address(node: u8, path: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, path, 0, node + 1))
}

struct Pair {
    ends: [Endpoint; 2],
    now: Instant,
    /// Batches in flight, each with the number of the receiving end.
    batches: VecDeque<(usize, Batch)>,
    sender: Option<AssociationId>,
    received: u64,
    message: Bytes,
}

impl Pair {
    fn new(paths: u8, mode: MultipathMode) -> Result<Self, String> {
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
    fn first_share(&self) -> Option<f64> {
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
fn measure(pair: &mut Pair, packets: u64) -> Result<f64, String> {
    let (before, received) = (cpu()?, pair.received);
    pair.run(packets)?;
    Ok((pair.received - received) as f64 / (cpu()? - before))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A part of this benchmark. The argument says whether to be quick.
type Part = fn(bool) -> Result<(), String>;

fn main() -> ExitCode {
    // Without `--bench`, which cargo adds, this is only a test that it works.
    let mut quick = !std::env::args().any(|argument| argument == "--bench");
    let (mut engine, mut slow, mut latencies) = (false, false, false);
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--bench" => {}
            "--quick" => quick = true,
            "engine" => engine = true,
            "slow-path" => slow = true,
            "latency" => latencies = true,
            other => {
                eprintln!(
                    "multipath: '{other}' is unknown; it takes engine, slow-path, latency and --quick"
                );
                return ExitCode::from(2);
            }
        }
    }
    let all = !(engine || slow || latencies);
    let parts: [(bool, Part); 3] =
        [(engine, compare), (slow, slow_path::compare), (latencies, latency::compare)];
    let mut chosen = parts.iter().filter(|(asked, _)| all || *asked);
    match chosen.try_for_each(|(_, part)| part(quick)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("multipath: {message}");
            ExitCode::FAILURE
        }
    }
}

fn compare(quick: bool) -> Result<(), String> {
    let (runs, packets) = if quick { (1, PACKETS / 100) } else { (RUNS, PACKETS) };
    let mut pairs = [
        ("one path", Pair::new(1, MultipathMode::Off)?),
        ("two paths, CMT", Pair::new(2, MultipathMode::Cmt)?),
        ("two paths, CMT-PF", Pair::new(2, MultipathMode::CmtPf)?),
    ];
    let mut rates = [(); 3].map(|()| Vec::with_capacity(runs));
    for _ in 0..runs {
        for ((_, pair), rates) in pairs.iter_mut().zip(&mut rates) {
            rates.push(measure(pair, packets)?);
        }
    }
    let medians = rates.map(median);
    println!("{:<20} {:>14} {:>9} {:>12}", "engine", "packets/CPU s", "of one", "first path");
    for ((name, pair), rate) in pairs.iter().zip(medians) {
        let share = pair.first_share().unwrap_or(0.0);
        println!("{name:<20} {rate:>14.0} {:>9.2} {share:>12.2}", rate / medians[0]);
    }
    Ok(())
}
