//! `anabranch discard`.

use anabranch::Association;
use clap::Args;

use crate::failure::Failure;
use crate::options::SctpOptions;
use crate::service::{Served, ServiceOptions};

/// Take whatever messages any SCTP peer sends, and discard them
///
/// Runs until Ctrl-C. Prints how much arrived, and over which path, for each association that ends.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch discard --listen 127.0.0.1:9
  anabranch discard --listen 192.0.2.1,[2001:db8::1]:9 --json")]
pub(crate) struct Discard {
    #[command(flatten)]
    options: ServiceOptions,
}

impl Discard {
    pub(crate) fn sctp(&self) -> &SctpOptions {
        &self.options.sctp
    }

    pub(crate) async fn run(self) -> Result<(), Failure> {
        self.options.run("discard", None, discard).await
    }
}

async fn discard(association: Association) -> Served {
    let mut served = Served::default();
    loop {
        match association.recv().await {
            Ok(Some(message)) => {
                served.messages_received += u64::from(message.end);
                served.bytes_received += message.payload.len() as u64;
            }
            Ok(None) => return served,
            Err(error) => {
                served.error = Some(error.to_string());
                return served;
            }
        }
    }
}
