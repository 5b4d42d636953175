//! Tests anabranch with other SCTP implementations over real sockets: every peer, transport, IP version
//! and case. Prints a table.
//!
//! A *lane* is one peer over one transport and IP version. It runs in its own network, mount and process
//! namespaces: two hosts with three links between them. When a lane ends, all its processes end.
#![forbid(unsafe_code)]

mod bottleneck;
mod cases;
mod chart;
mod client;
mod engine;
mod failover;
mod flood;
mod lane;
mod lksctp;
mod net;
mod peer;
mod plan;
mod run;
mod side;
mod table;

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::cases::Case;
use crate::lane::{Family, Transport};
use crate::peer::Kind;

/// Runs interoperability cases and prints a table of them.
#[derive(Parser)]
struct Options {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    selection: Selection,
    /// Print one line of JSON per case instead of the table.
    #[arg(long)]
    json: bool,
    /// Lanes that run in parallel.
    #[arg(long, default_value_t = 10)]
    jobs: usize,
}

/// What to run; by default everything.
#[derive(Args, Clone)]
pub(crate) struct Selection {
    /// Only these peers.
    #[arg(long, value_enum, value_delimiter = ',')]
    peer: Vec<Kind>,
    /// Only these transports.
    #[arg(long, value_enum, value_delimiter = ',')]
    transport: Vec<Transport>,
    /// Only these IP versions.
    #[arg(long, value_enum, value_delimiter = ',')]
    family: Vec<Family>,
    /// Only these cases.
    #[arg(long, value_enum, value_delimiter = ',')]
    case: Vec<Case>,
}

#[derive(Subcommand)]
enum Command {
    /// Runs one lane in its own namespaces. Used by the program itself.
    #[command(hide = true)]
    Lane {
        #[command(flatten)]
        selection: Selection,
    },
    /// Runs `anabranch perf` both ways while each of two paths is cut and repaired in turn, for
    /// Path.Max.Retrans 0, 1 and 5, and draws the throughput.
    Failover {
        /// The peer: linux or usrsctp.
        #[arg(long, value_enum, default_value = "linux")]
        peer: Kind,
        /// How packets travel.
        #[arg(long, value_enum, default_value = "native")]
        transport: Transport,
        /// The file for the chart.
        #[arg(long, default_value = "docs/failover.svg")]
        svg: std::path::PathBuf,
    },
    /// Measures what explicit congestion notification does for an association with a peer on a bottleneck of
    /// 10 Mb/s with RED or CoDel, which drops or marks, with either side as the sender.
    Bottleneck {
        /// The peer: linux or usrsctp.
        #[arg(long, value_enum, default_value = "linux")]
        peer: Kind,
        /// How packets travel.
        #[arg(long, value_enum, default_value = "native")]
        transport: Transport,
    },
    /// Runs `bottleneck` in its own namespaces. Used by the program itself.
    #[command(hide = true)]
    BottleneckLane {
        #[command(flatten)]
        selection: Selection,
    },
    /// Measures the goodput of an association while its endpoint is flooded with INIT, random
    /// bytes and wrong verification tags.
    Flood,
    /// Runs the floods over one transport, in its own namespaces. Used by the program itself.
    #[command(hide = true)]
    FloodLane {
        #[command(flatten)]
        selection: Selection,
    },
    /// Sends a flood. Used by the program itself.
    #[command(hide = true)]
    Flooder(flood::Options),
    /// Runs `failover` once, in its own namespaces. Used by the program itself.
    #[command(hide = true)]
    FailoverLane {
        #[command(flatten)]
        selection: Selection,
        /// Path.Max.Retrans of both sides.
        #[arg(long)]
        pmr: u32,
    },
    /// Runs programs written for kernel SCTP with the C library, against the same programs on the Linux
    /// kernel, in both roles.
    Lksctp,
    /// Runs one lane of `lksctp` in its own namespaces. Used by the program itself.
    #[command(hide = true)]
    LksctpLane {
        #[command(flatten)]
        selection: Selection,
    },
    /// Runs an engine from crates.io on a UDP socket. Used by the program itself.
    #[command(hide = true)]
    Engine(engine::Options),
}

fn main() -> ExitCode {
    let options = Options::parse();
    let result = match options.command {
        Some(Command::Engine(options)) => engine::run(&options).map(|()| true),
        Some(Command::Lane { selection }) => lane::run(&selection).map(|()| true),
        Some(Command::Failover { peer, transport, svg }) => {
            failover::run(peer, transport, &svg).map(|()| true)
        }
        Some(Command::FailoverLane { selection, pmr }) => {
            failover::lane(&selection, pmr).map(|()| true)
        }
        Some(Command::Bottleneck { peer, transport }) => {
            bottleneck::run(peer, transport).map(|()| true)
        }
        Some(Command::BottleneckLane { selection }) => bottleneck::lane(&selection).map(|()| true),
        Some(Command::Lksctp) => lksctp::run(),
        Some(Command::LksctpLane { selection }) => lksctp::lane(&selection),
        Some(Command::Flood) => flood::run().map(|()| true),
        Some(Command::FloodLane { selection }) => flood::lane(&selection).map(|()| true),
        Some(Command::Flooder(options)) => flood::send(&options).map(|()| true),
        None => run::run(&options.selection, options.jobs, options.json),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("interop: {error}");
            ExitCode::FAILURE
        }
    }
}
