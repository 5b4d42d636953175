//! Prints the memory of one idle association on one side in bytes.
//!
//! Two endpoints with two addresses each hold 100 associations with 1024 streams in both
//! directions. Each transfers 1 MB each way over sixteen of its streams, or as many as the argument
//! says (1 to 1000), and is left alone until nothing more has to be sent. The growth of the
//! allocator's memory since before the first association is then divided by the 200 ends.
#![forbid(unsafe_code)]

use std::alloc::System;
use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anabranch_proto::config::Routes;
use anabranch_proto::{
    AssociationConfig, AssociationId, ConnectRequest, Endpoint, EndpointConfig, Event, Instant,
    Notification, OutgoingMessage, Ppid,
};
use anabranch_testnet::pump;
use bytes::Bytes;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const ASSOCIATIONS: usize = 100;
const STREAMS: u16 = 1024;
/// Streams that carry data, unless the argument says otherwise: if all of them did, two bytes of stream sequence number
/// each way would fill 4 KB alone.
const USED_STREAMS: u16 = 16;
/// Messages of each association and direction, so that each stream gets one.
const MESSAGES: u16 = 1000;
const MEGABYTE: usize = 1_000_000;
const PORT: u16 = 5000;
const CLIENT: [IpAddr; 2] = [host(1, 1), host(2, 1)];
const SERVER: [IpAddr; 2] = [host(1, 2), host(2, 2)];

const fn host(network: u8, host: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, network, host))
}

/// Number of bytes that the allocator holds.
fn held() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated.wrapping_sub(stats.bytes_deallocated)
}

fn main() -> ExitCode {
    let used = std::env::args().nth(1).map_or(Ok(USED_STREAMS), |used| used.parse());
    let measured = match used {
        Ok(used @ 1..=MESSAGES) => measure(used),
        _ => Err(format!("the number of streams that carry data is 1 to {MESSAGES}")),
    };
    match measured {
        Ok(bytes) => {
            println!("{bytes}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn measure(used: u16) -> Result<usize, String> {
    let mut options = AssociationConfig::default();
    options.sending.outbound_streams = STREAMS;
    options.receiving.inbound_streams = STREAMS;
    let options = Arc::new(options);
    let mut run = Run::new(&options)?;
    let before = held();
    for number in 0..ASSOCIATIONS {
        run.transfer(&options, used).map_err(|e| format!("association {number}: {e}"))?;
    }
    run.rest(Duration::from_secs(20));
    for (end, id) in &run.established {
        let association = run.ends[*end].association(*id).ok_or("an association is gone")?;
        let statistics = association.statistics();
        let counters = statistics.counters;
        let drained = association.is_established()
            && association.pending_bytes() == 0
            && statistics.receive_buffer_used == 0
            && counters.message_bytes_received == MEGABYTE as u64
            && statistics.paths.len() == 2
            && association.outbound_streams() == STREAMS
            && association.inbound_streams() == STREAMS;
        if !drained {
            return Err(format!("not idle: {statistics:?}"));
        }
    }
    Ok((held() - before) / run.established.len())
}

/// Two endpoints that are connected directly.
struct Run {
    ends: [Endpoint; 2],
    now: Instant,
    established: Vec<(usize, AssociationId)>,
}

impl Run {
    fn new(options: &Arc<AssociationConfig>) -> Result<Self, String> {
        // Two separate networks: each address reaches only its counterpart.
        let endpoint = |seed, local: [IpAddr; 2], remote: [IpAddr; 2]| {
            let mut config = EndpointConfig::default();
            config.routes = Routes::Pairs(local.into_iter().zip(remote).collect());
            let mut endpoint = Endpoint::new(config, [seed; 32]);
            endpoint.set_local_addresses(Instant::ZERO, &local);
            endpoint
        };
        let mut ends = [endpoint(1, CLIENT, SERVER), endpoint(2, SERVER, CLIENT)];
        ends[1].listen(PORT, Arc::clone(options)).map_err(|e| e.to_string())?;
        let established = Vec::with_capacity(2 * ASSOCIATIONS);
        Ok(Run { ends, now: Instant::ZERO, established })
    }

    /// Sets up an association and transfers a megabyte each way over `used` streams.
    fn transfer(&mut self, options: &Arc<AssociationConfig>, used: u16) -> Result<(), String> {
        let mut request = ConnectRequest::new(SERVER.to_vec(), PORT);
        request.config = Arc::clone(options);
        self.ends[0].connect(self.now, request).map_err(|e| e.to_string())?;
        let first = self.established.len();
        self.exchange();
        let new: Vec<(usize, AssociationId)> =
            self.established.get(first..).unwrap_or_default().to_vec();
        if new.len() != 2 {
            return Err(format!("{} ends came up", new.len()));
        }
        let message = Bytes::from(vec![7; MEGABYTE / usize::from(MESSAGES)]);
        for number in 0..MESSAGES {
            for (end, id) in &new {
                let stream = number % used;
                loop {
                    let mut association = self.ends[*end]
                        .association_mut(self.now, *id)
                        .ok_or("an association is gone")?;
                    let outgoing = OutgoingMessage::new(stream, Ppid(0), message.clone());
                    if association.send(self.now, outgoing).is_ok() {
                        break;
                    }
                    drop(association);
                    if !self.step(Instant::FAR_FUTURE) {
                        return Err("nothing more happens".into());
                    }
                }
            }
        }
        self.rest(Duration::from_secs(1));
        Ok(())
    }

    /// Runs for some time.
    fn rest(&mut self, time: Duration) {
        let until = self.now + time;
        self.exchange();
        while self.step(until) {}
        self.now = until;
    }

    /// Advances to the next deadline, if it is not after `until`.
    fn step(&mut self, until: Instant) -> bool {
        self.exchange();
        match pump::next_deadline(&self.ends) {
            Some(at) if at <= until => {
                self.now = self.now.max(at);
                for end in &mut self.ends {
                    pump::expire(end, self.now);
                }
                self.exchange();
                true
            }
            _ => false,
        }
    }

    /// Exchanges packets until there are none, and reads all messages.
    fn exchange(&mut self) {
        let mut buffer = Vec::new();
        loop {
            let mut quiet = true;
            for from in 0..2 {
                while let Some(sent) = pump::poll(&mut self.ends[from], self.now, 16, &mut buffer) {
                    // Copy it to a buffer of its size, because it may be stored.
                    let batch = Bytes::copy_from_slice(&buffer);
                    buffer.clear();
                    let received = pump::arrival(&sent, 9899);
                    self.ends[1 - from].handle_batch(self.now, &received, batch);
                    quiet = false;
                }
            }
            for end in 0..2 {
                while let Some((id, event)) = self.ends[end].poll_event() {
                    match event {
                        Event::Notification(Notification::Up { .. }) => {
                            self.established.push((end, id));
                        }
                        Event::Readable => self.read(end, id),
                        _ => {}
                    }
                }
            }
            if quiet {
                return;
            }
        }
    }

    fn read(&mut self, end: usize, id: AssociationId) {
        if let Some(mut association) = self.ends[end].association_mut(self.now, id) {
            while let Some(message) = association.receive() {
                association.release(message.charge());
            }
        }
    }
}
