//! Copies of small messages on a second path: the time of the slowest hundredth relative to the better single path, and
//! what a bulk transfer beside them loses; simulated in virtual time.

use std::time::Duration;

use anabranch_proto::{AssociationConfig, MultipathMode};
use anabranch_sim::{
    Instant, LinkConfig, Loss, Network, Probability, QueueLimit, Transfer, Workload,
};

use crate::network::{profile, text};

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

pub(crate) fn compare(quick: bool) -> Result<(), String> {
    let messages = if quick { 500 } else { 10_000 };
    let [near, far] = DELAYS;
    let once = profile("default")?;
    let mut copies = once.clone();
    copies.paths.copies_up_to = Some(MESSAGE);
    let share = f64::from(copies.paths.copies_share) / 100.0;
    println!("{MESSAGE}-byte messages, two paths that lose 3 %, {near} and {far} ms one way");
    let single = run([near, far], &once, false, messages)?;
    let other = run([far, near], &once, false, messages)?;
    let both = run([near, far], &copies, false, messages)?;
    let millis = |ran: &Ran| ran.p99.as_secs_f64() * 1e3;
    println!(
        "p99 near {:.1} ms, far {:.1}, copies {:.1}",
        millis(&single),
        millis(&other),
        millis(&both)
    );
    println!("copies_p99 {:.2}", millis(&both) / millis(&single).min(millis(&other)));
    let mut cost: f64 = 0.0;
    for mode in [MultipathMode::Off, MultipathMode::CmtPf] {
        let [once, copies] = [&once, &copies].map(|config| config.clone().with_multipath(mode));
        let without = run([near, far], &once, true, messages)?;
        let with = run([near, far], &copies, true, messages)?;
        let lost = 1.0 - with.bulk as f64 / without.bulk as f64;
        println!(
            "beside bulk, multipath {mode}: p99 {:.1} ms, copies {:.1}; bulk loses {lost:.3}",
            millis(&without),
            millis(&with)
        );
        cost = cost.max(lost);
    }
    println!("copies_cost {cost:.3} of a share of {share:.2}");
    Ok(())
}
