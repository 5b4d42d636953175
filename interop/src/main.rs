//! anabranch with other SCTP implementations over real sockets: every peer, transport, IP version
//! and case, as a table.
//!
//! Each column of work, a *lane* (one peer over one transport and IP version), runs in network,
//! mount and process namespaces of its own: two hosts with three links between them. What a lane
//! starts ends with it.
#![forbid(unsafe_code)]

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
    /// Print one line of JSON a case instead of the table.
    #[arg(long)]
    json: bool,
    /// Lanes that run at once.
    #[arg(long, default_value_t = 6)]
    jobs: usize,
}

/// What is run; by default everything.
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
    /// Runs one lane within namespaces of its own. Used by the program itself.
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
        /// Where the chart goes.
        #[arg(long, default_value = "docs/failover.svg")]
        svg: std::path::PathBuf,
    },
    /// Measures what an association carries while its endpoint is flooded with INIT, random
    /// bytes and wrong verification tags.
    Flood,
    /// The floods over one transport, within namespaces of its own. Used by the program itself.
    #[command(hide = true)]
    FloodLane {
        #[command(flatten)]
        selection: Selection,
    },
    /// Sends a flood. Used by the program itself.
    #[command(hide = true)]
    Flooder(flood::Options),
    /// One run of `failover`, within namespaces of its own. Used by the program itself.
    #[command(hide = true)]
    FailoverLane {
        #[command(flatten)]
        selection: Selection,
        /// Path.Max.Retrans of both sides.
        #[arg(long)]
        pmr: u32,
    },
    /// Runs programs that were written for the kernel's SCTP on the C library, with themselves on the
    /// Linux kernel, in both roles.
    Lksctp,
    /// Runs one of its lanes within namespaces of its own. Used by the program itself.
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
