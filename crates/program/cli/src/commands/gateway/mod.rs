//! `anabranch gateway`.

mod far;
mod near;
mod report;

pub(crate) use near::page_token;

use std::time::Duration;

use anabranch::AssociationConfig;
use anabranch::config::SchedulerKind;
use clap::{Args, Subcommand};

use crate::endpoint::file_config;
use crate::failure::Failure;
use crate::options::SctpOptions;

/// The SCTP port of the far side. Users see the UDP port only.
pub(crate) const PORT: u16 = 9080;

/// Streams of an association, each for one connection.
const STREAMS: u16 = 8192;

/// A proxy in two halves, with one association over all links between them
///
/// The far side runs on a server. The near side runs beside the programs: it is a proxy for HTTP and SOCKS5, with
/// which browsers, curl, git and ssh reach the network through the far side.
#[derive(Debug, Args)]
pub(crate) struct Gateway {
    #[command(subcommand)]
    side: Side,
}

#[derive(Debug, Subcommand)]
enum Side {
    Far(far::Far),
    Near(near::Near),
}

impl Gateway {
    pub(crate) fn sctp(&self) -> &SctpOptions {
        match &self.side {
            Side::Far(far) => far.sctp(),
            Side::Near(near) => near.sctp(),
        }
    }

    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self.side {
            Side::Far(far) => far.run().await,
            Side::Near(near) => near.run().await,
        }
    }
}

/// The options of the association. Those that the user gives go before what the gateway prefers.
pub(crate) fn config(options: &SctpOptions) -> Result<AssociationConfig, Failure> {
    let mut config = file_config(options)?;
    if !options.policies.given().any(|name| name == "--multipath") {
        // All uplinks carry data. For a single path this changes nothing.
        config.set("multipath", "cmt-pf").map_err(Failure::usage)?;
    }
    config.sending.outbound_streams = STREAMS;
    config.receiving.inbound_streams = STREAMS;
    let given = |name| options.profile.is_some() || options.policies.given().any(|is| is == name);
    if !given("--scheduler") {
        config.sending.scheduler = SchedulerKind::Priority;
    }
    // An address translation on the way forgets a silent association after half a minute, and the loss of the other
    // side is noticed within a minute.
    if !given("--heartbeat-interval") {
        config.timers.heartbeat_interval = Some(Duration::from_secs(10));
    }
    if !given("--rto-max") && config.timers.rto_min <= LONGEST_RTO {
        config.timers.rto_max = config.timers.rto_max.min(LONGEST_RTO);
        config.timers.rto_initial = config.timers.rto_initial.min(LONGEST_RTO);
    }
    config.validate().map_err(Failure::usage)?;
    Ok(config)
}

/// The longest retransmission timeout of a gateway.
const LONGEST_RTO: Duration = Duration::from_secs(8);
