//! `anabranch emulate` on systems without namespaces: relays only.

use std::path::PathBuf;

use anabranch_emulator::RelayAddress;
use clap::Args;

use crate::emulate::relays;
use crate::failure::Failure;
use crate::impairment;

/// Relay UDP over links that lose, delay and reorder packets exactly as configured
///
/// In the impairment file, 'local' is where the relay listens, 'remote' the server, and 'send' the direction
/// to the server. On Linux the command also emulates whole networks.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch emulate --impair slow.toml --relay 127.0.0.1:7000=127.0.0.1:9899")]
pub(crate) struct Emulate {
    /// Impairments of the relays, a TOML file
    #[arg(long, value_name = "FILE")]
    impair: PathBuf,
    /// Where to receive UDP, and where to send it
    #[arg(long = "relay", value_name = "ADDR:PORT=ADDR:PORT", required = true)]
    relays: Vec<RelayAddress>,
    /// Print JSON, one document a line
    #[arg(long)]
    json: bool,
}

impl Emulate {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let file = impairment::read(&self.impair)?;
        relays::run(file, self.relays, self.json).await
    }
}
