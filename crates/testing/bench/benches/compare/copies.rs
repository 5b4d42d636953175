//! Copies of small messages on a second path: the time of the slowest hundredth relative to the better single path, and
//! what a bulk transfer beside them loses; simulated in virtual time.

use std::time::Duration;

use anabranch_proto::{AssociationConfig, MultipathMode};
use anabranch_sim::{
    Instant, LinkConfig, Loss, Network, Probability, QueueLimit, Transfer, Workload,
};

use crate::measure::Sample;

/// One-way delays of the paths in milliseconds, for round trips of 20 and 30 ms. Each has 10 Mb/s, a queue of 100 packets, and loses 3 % in each
/// direction.
const DELAYS: [u64; 2] = [10, 15];

/// Small messages, one every 20 ms.
const MESSAGE: usize = 256;
const INTERVAL: Duration = Duration::from_millis(20);

/// What a run has shown.
struct Ran {
    /// The 99th percentile of the small messages' delay.
    p99: Duration,
    /// Bytes that the bulk transfer delivered.
    bulk: u64,
}

/// Small messages over paths with these delays, and a bulk transfer if `beside`.
fn run(
    delays: [u64; 2],
    config: &AssociationConfig,
    beside: bool,
    messages: u64,
) -> Result<Ran, String> {
    let mut network = Network::new(1);
    let (a, b) = (network.add_host("A"), network.add_host("B"));
    for delay in delays {
        let link = LinkConfig::new()
            .rate(10_000_000)
            .delay(Duration::from_millis(delay))
            .queue(QueueLimit::Packets(100))
            .loss(Loss::Uniform(Probability::percent(3)));
        network.connect_both(a, b, link).map_err(text)?;
    }
    network.routes_by_hops();
    let [from, to] = [a, b].map(|host| network.add_endpoint(host).map_err(text));
    let (from, to) = (from?, to?);
    let mut small = Transfer::bulk(from, to, 1).config(config.clone());
    small.workload = Workload::Periodic { interval: INTERVAL, messages };
    small.message_size = MESSAGE;
    let small = network.add_transfer(small).map_err(text)?;
    let bulk = if beside {
        let mut bulk = Transfer::bulk(from, to, 1 << 30).config(config.clone());
        bulk.message_size = 1400;
        Some(network.add_transfer(bulk).map_err(text)?)
    } else {
        None
    };
    let seconds = messages * INTERVAL.as_millis() as u64 / 1000 + 5;
    network.run(Instant::from_secs(seconds));
    let delays = &network.transfer(small).delays;
    if delays.count() != messages {
        return Err(format!("{} of {messages} messages arrived", delays.count()));
    }
    let p99 = delays.quantile(990).ok_or("no message was measured")?;
    Ok(Ran { p99, bulk: bulk.map_or(0, |bulk| network.transfer(bulk).bytes) })
}

fn messages(quick: bool) -> u64 {
    if quick { 500 } else { 10_000 }
}

/// The default options, without and with copies.
fn configs() -> Result<[AssociationConfig; 2], String> {
    let once = AssociationConfig::profile("default").ok_or("there is no profile default")?;
    let mut copies = once.clone();
    copies.paths.copies_up_to = Some(MESSAGE);
    Ok([once, copies])
}

/// The 99th percentile of the delay in milliseconds: with copies on both paths, or on the better path alone.
pub(crate) fn p99(copied: bool, quick: bool) -> Result<f64, String> {
    let [once, copies] = configs()?;
    let [near, far] = DELAYS;
    let run = |delays, config| run(delays, config, false, messages(quick)).map(|ran| ran.p99);
    let p99 = match copied {
        true => run([near, far], &copies)?,
        false => run([near, far], &once)?.min(run([far, near], &once)?),
    };
    Ok(p99.as_secs_f64() * 1e3)
}

/// The part of its bytes that a bulk transfer loses to the copies beside it, on one path or on both: the larger one.
pub(crate) fn cost(quick: bool) -> Result<Sample, String> {
    let cost = |mode| -> Result<f64, String> {
        let [without, with] = configs()?.map(|config| {
            let config = config.with_multipath(mode);
            run(DELAYS, &config, true, messages(quick)).map(|ran| ran.bulk as f64)
        });
        Ok(1.0 - with? / without?)
    };
    let (one, both) = (cost(MultipathMode::Off)?, cost(MultipathMode::CmtPf)?);
    Ok(Sample { value: one.max(both), cpu: 0.0, notes: vec![("one_path", one), ("both", both)] })
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
