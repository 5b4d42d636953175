//! The commands, one file each.

mod get;
mod serve;

use clap::Subcommand;

use crate::failure::Failure;

/// What the program can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(serve::Serve),
    Get(get::Get),
}

impl Command {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self {
            Self::Serve(command) => command.run().await,
            Self::Get(command) => command.run().await,
        }
    }
}
