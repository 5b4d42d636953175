//! Transfers over simulated paths in virtual time: the figures are the same on every machine.

use std::time::Duration;

use anabranch_proto::AssociationConfig;
use anabranch_proto::config::MtuConfig;
use anabranch_sim::{
    EndpointId, Instant, LinkConfig, LinkId, Network, Outcome, QueueLimit, Transfer, TransferId,
};

/// Virtual seconds after which a transfer counts as failed.
const LIMIT: u64 = 20_000;

/// A path: rate in kb/s, one-way delay in ms, and queue in packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path(pub(crate) u64, pub(crate) u64, pub(crate) usize);

/// Two hosts and the paths between them.
pub(crate) struct Paths {
    pub(crate) network: Network,
    ends: [EndpointId; 2],
}

impl Paths {
    /// Creates two hosts with these paths between them. Also returns the links.
    pub(crate) fn new(paths: &[Path]) -> Result<(Self, Vec<LinkId>), String> {
        let mut network = Network::new(1);
        let (a, b) = (network.add_host("A"), network.add_host("B"));
        let mut links = Vec::new();
        for Path(rate, delay, queue) in paths {
            let link = LinkConfig::new()
                .rate(rate * 1000)
                .delay(Duration::from_millis(*delay))
                .queue(QueueLimit::Packets(*queue));
            links.push(network.connect_both(a, b, link).map_err(text)?);
        }
        network.routes_by_hops();
        let ends = [network.add_endpoint(a).map_err(text)?, network.add_endpoint(b).map_err(text)?];
        Ok((Self { network, ends }, links))
    }

    /// Adds a transfer of `bytes` bytes. `change` may modify it.
    pub(crate) fn add(
        &mut self,
        bytes: u64,
        config: &AssociationConfig,
        change: impl FnOnce(&mut Transfer),
    ) -> Result<TransferId, String> {
        let mut config = config.clone();
        config.mtu = MtuConfig::fixed(1500);
        let [from, to] = self.ends;
        let mut transfer = Transfer::bulk(from, to, bytes).config(config);
        transfer.message_size = 1400;
        change(&mut transfer);
        self.network.add_transfer(transfer).map_err(text)
    }

    /// Runs until a transfer is complete.
    pub(crate) fn complete(&mut self, transfer: TransferId) -> Result<Duration, String> {
        self.network.run(Instant::from_secs(LIMIT));
        let result = self.network.transfer(transfer);
        match (&result.outcome, result.transfer_time()) {
            (Outcome::Complete, Some(time)) => Ok(time),
            (outcome, _) => Err(format!("a transfer did not end well: {outcome:?}")),
        }
    }
}

pub(crate) fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A profile with a fixed path MTU.
pub(crate) fn profile(name: &str) -> Result<AssociationConfig, String> {
    AssociationConfig::profile(name).ok_or_else(|| format!("there is no profile {name}"))
}
