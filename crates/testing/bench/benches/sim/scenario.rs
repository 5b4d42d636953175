//! The dual dumbbell of caro 2.3 in our simulator.

use std::time::Duration;

use anabranch_proto::{AssociationConfig, MtuConfig, RetransmissionPolicy};
use anabranch_sim::{
    Instant, LinkConfig, Loss, Network, Outcome, Probability, QueueLimit, SimError, Transfer,
};

/// One point of the study: losses in percent, and a policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) primary_loss: u32,
    pub(crate) alternate_loss: u32,
    pub(crate) policy: RetransmissionPolicy,
}

/// The point of the long transfer.
pub(crate) const LONG_POINT: Point =
    Point { primary_loss: 3, alternate_loss: 3, policy: RetransmissionPolicy::AllRtxSame };

const PRIMARY: [u32; 3] = [3, 5, 8];
const ALTERNATE: [u32; 6] = [0, 2, 4, 6, 8, 10];
const POLICIES: [RetransmissionPolicy; 3] = [
    RetransmissionPolicy::AllRtxAlt,
    RetransmissionPolicy::AllRtxSame,
    RetransmissionPolicy::FrSameRtoAlt,
];

/// Number of points of the grid.
pub(crate) const GRID: usize = PRIMARY.len() * ALTERNATE.len() * POLICIES.len();

/// The grid of caro 2.5.
pub(crate) fn grid() -> impl Iterator<Item = Point> {
    POLICIES.into_iter().flat_map(|policy| {
        PRIMARY.into_iter().flat_map(move |primary_loss| {
            ALTERNATE.map(|alternate_loss| Point { primary_loss, alternate_loss, policy })
        })
    })
}

/// Twice the bandwidth-delay product in packets of 1,500 bytes.
fn queue(rate: u64, delay: Duration) -> QueueLimit {
    let bits = 2 * u128::from(rate) * delay.as_nanos() / 1_000_000_000;
    QueueLimit::Packets((bits / 8 / 1500) as usize)
}

fn link(rate: u64, delay_ms: u64) -> LinkConfig {
    let delay = Duration::from_millis(delay_ms);
    LinkConfig::new().rate(rate).delay(delay).queue(queue(rate, delay))
}

/// One transfer; returns its duration.
pub(crate) fn transfer(bytes: u64, point: &Point, seed: u64) -> Result<Duration, String> {
    let mut network = Network::new(seed);
    simulate(&mut network, bytes, point)
        .map_err(|error| error.to_string())?
        .ok_or_else(|| format!("a transfer did not end: {point:?}, seed {seed}"))
}

fn simulate(
    network: &mut Network,
    bytes: u64,
    point: &Point,
) -> Result<Option<Duration>, SimError> {
    let (sender, receiver) = (network.add_host("A"), network.add_host("B"));
    for loss in [point.primary_loss, point.alternate_loss] {
        let (left, right) = (network.add_router("left"), network.add_router("right"));
        let edge = link(100_000_000, 10);
        network.connect_both(sender, left, edge.clone())?;
        let core = link(10_000_000, 25).loss(Loss::Uniform(Probability::percent(loss)));
        network.connect_both(left, right, core)?;
        network.connect_both(right, receiver, edge)?;
    }
    network.routes_by_hops();
    let (from, to) = (network.add_endpoint(sender)?, network.add_endpoint(receiver)?);
    let mut config = AssociationConfig::rfc2960();
    config.mtu = MtuConfig::fixed(1500);
    config.receiving.receive_buffer = 65_536;
    config.paths.retransmission = point.policy;
    let transfer = network.add_transfer(Transfer::bulk(from, to, bytes).config(config))?;
    network.run(Instant::from_secs(5000));
    let result = network.transfer(transfer);
    Ok(result.transfer_time().filter(|_| result.outcome == Outcome::Complete))
}
