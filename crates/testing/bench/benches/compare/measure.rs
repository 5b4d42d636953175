//! One measurement of one engine.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anabranch_peers::transfer::{self, Load};
use anabranch_peers::{Config, Kind, Network, Packets, Pair, Role, SECOND};
use bytes::Bytes;

use crate::cpu::Stopwatch;

/// Number of bytes between two readings of the clock.
const SLICE: u64 = 1 << 20;

/// A measured value and the CPU seconds used.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) value: f64,
    pub(crate) cpu: f64,
    /// Additional values.
    pub(crate) notes: Vec<(&'static str, f64)>,
}

/// The result of a run in CPU time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    pub(crate) bytes: u64,
    pub(crate) messages: u64,
    /// Packets that the client sent.
    pub(crate) packets: u64,
    pub(crate) cpu: f64,
    /// CPU seconds in which a [`Network`] that copies did so; `cpu` does not include them.
    pub(crate) copying: f64,
}

/// Whether packets are copied into memory of the network and out of it, as a kernel does.
///
/// Otherwise a pair of engines hands over the memory itself. With a large window in flight, that
/// memory has left the cache by the time the receiver reads it. With sockets the kernel bears this
/// cost: it copies to the driver's receive buffer, which is in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copies {
    None,
    Uncounted,
}

/// Makes a pair copy packets twice. Returns the CPU seconds spent on that.
fn copy_packets(pair: &mut Pair) -> Rc<Cell<f64>> {
    let seconds = Rc::new(Cell::new(0.0));
    let count = Rc::clone(&seconds);
    pair.set_carriage(Box::new(move |packets| {
        let watch = Stopwatch::start();
        let copy = Packets { data: Bytes::copy_from_slice(&packets.data), ..packets };
        count.set(count.get() + watch.seconds());
        copy
    }));
    seconds
}

fn connect(kind: Kind, config: &Config, network: Network) -> Result<Pair, String> {
    let client = kind.build(config, Role::Client);
    let server = kind.build(config, Role::Server);
    let mut pair = Pair::new(client, server, network);
    let failed = |e| format!("{} with itself: no handshake: {e}", kind.name());
    pair.connect().map_err(failed)?;
    Ok(pair)
}

/// Runs both ends of one engine on this thread for about `seconds` of CPU time, after a tenth of
/// that for windows and memory to settle.
pub(crate) fn work(
    kind: Kind,
    config: &Config,
    network: Network,
    copies: Copies,
    load: &Load,
    seconds: f64,
) -> Result<Work, String> {
    let mut pair = connect(kind, config, network)?;
    let copying = match copies {
        Copies::None => Rc::default(),
        Copies::Uncounted => copy_packets(&mut pair),
    };
    let failed = |e| format!("{} with itself: {e}", kind.name());
    let settle = Stopwatch::start();
    while settle.seconds() < seconds / 10.0 {
        transfer::bytes(&mut pair, load, SLICE).map_err(failed)?;
    }
    let before = pair.counts(0).sent;
    let mut work = Work::default();
    copying.set(0.0);
    let watch = Stopwatch::start();
    while work.cpu < seconds {
        let delivered = transfer::bytes(&mut pair, load, SLICE).map_err(failed)?;
        work.bytes += delivered.bytes;
        work.messages += delivered.messages;
        work.copying = copying.get();
        work.cpu = watch.seconds() - work.copying;
    }
    work.packets = pair.counts(0).sent - before;
    Ok(work)
}

/// Megabytes per virtual second for each seed, over `seconds` of virtual time. Uses all cores,
/// because virtual time is not affected by that.
pub(crate) fn rates(
    kind: Kind,
    config: &Config,
    network: &Network,
    load: &Load,
    seconds: u64,
    seeds: &[u64],
) -> Result<Vec<Sample>, String> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(vec![None; seeds.len()]);
    let one = |seed| -> Result<Sample, String> {
        let network = Network { seed, ..network.clone() };
        let watch = Stopwatch::start();
        let mut pair = connect(kind, config, network)?;
        let delivered = transfer::time(&mut pair, load, seconds * SECOND)
            .map_err(|e| format!("{} with itself: {e}", kind.name()))?;
        let value = delivered.bytes as f64 / 1e6 / seconds as f64;
        Ok(Sample { value, cpu: watch.seconds(), notes: Vec::new() })
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&seed) = seeds.get(index) else {
                        break;
                    };
                    let result = one(seed);
                    if let Ok(mut results) = results.lock() {
                        results[index] = Some(result);
                    }
                }
            });
        }
    });
    let results = results.into_inner().map_err(|e| e.to_string())?;
    let missing = || Err("a run did not end".to_owned());
    results.into_iter().map(|result| result.unwrap_or_else(missing)).collect()
}
