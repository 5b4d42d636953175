//! Relays for UDP.

use std::sync::Arc;

use anabranch_emulator::{Notify, Relay, RelayAddress};
use anabranch_impair::file::ImpairmentFile;

use super::{report, tell};
use crate::failure::Failure;
use crate::impairment;
use crate::interrupt::Interrupt;

/// Relays until the user stops it.
pub(crate) async fn run(
    file: ImpairmentFile,
    addresses: Vec<RelayAddress>,
    json: bool,
) -> Result<(), Failure> {
    let interrupt = Interrupt::install()?;
    let (seed, mut relays) = (impairment::seed(), Vec::new());
    for address in addresses {
        relays.push(Relay::bind(&file, address, seed).await?);
    }
    let lines: Vec<_> = relays.iter().map(|relay| relay.address().to_string()).collect();
    report::tell_ready(lines, json)?;
    let notify: Notify = Arc::new(|notice| tell(&notice, false));
    let mut running = tokio::task::JoinSet::new();
    for relay in relays {
        running.spawn(relay.run(interrupt.stop(), Arc::clone(&notify)));
    }
    let mut reports = Vec::new();
    for ended in running.join_all().await {
        reports.extend(ended?);
    }
    report::tell_links(&reports, json)
}
