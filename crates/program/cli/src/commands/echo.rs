//! `anabranch echo`.

use anabranch::{
    Association, AssociationError, CloseReason, OutgoingMessage, SendError, SendErrorReason,
};
use clap::Args;

use crate::failure::Failure;
use crate::options::{SctpOptions, size};
use crate::parts::{Parts, Refused};
use crate::service::{Served, ServiceOptions};

/// Send every message of any SCTP peer back to it
///
/// A message is sent back whole, with its payload protocol identifier and its order, on its own
/// stream (or, if this side has fewer streams, on that number modulo their count). Runs until
/// Ctrl-C. Prints how much arrived, and over which path, for each association that ends.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch echo --listen 127.0.0.1:7
  anabranch echo --listen 192.0.2.1,[2001:db8::1]:7 --json")]
pub(crate) struct Echo {
    /// Longest message; an association that sends a longer one is aborted
    #[arg(long, value_name = "SIZE", default_value = "16Mi", value_parser = size)]
    max_message: usize,
    #[command(flatten)]
    options: ServiceOptions,
}

impl Echo {
    pub(crate) fn sctp(&self) -> &SctpOptions {
        &self.options.sctp
    }

    pub(crate) async fn run(self) -> Result<(), Failure> {
        let most = self.max_message;
        self.options.run("echo", None, move |association| echo(association, most)).await
    }
}

async fn echo(association: Association, most: usize) -> Served {
    let mut served = Served::default();
    let mut parts = Parts::new(&association, most);
    loop {
        let message = match association.recv().await {
            Ok(Some(message)) => message,
            Ok(None) => return served,
            Err(error) => {
                served.error = Some(error.to_string());
                return served;
            }
        };
        served.bytes_received += message.payload.len() as u64;
        served.messages_received += u64::from(message.end);
        let whole = match parts.add(message).await {
            Ok(Some(whole)) => whole,
            Ok(None) => continue,
            Err(refused) => {
                let (reason, error) = refusal(refused, most);
                association.abort(reason.as_bytes());
                served.error = Some(error);
                return served;
            }
        };
        let _until_sent = whole.reserved;
        let mut answer = OutgoingMessage::new(
            whole.stream % association.outbound_streams().max(1),
            whole.ppid,
            whole.data,
        );
        answer.unordered = whole.unordered;
        let length = answer.data.len() as u64;
        match association.send(answer).await {
            Ok(()) => {}
            // The peer is shutting down and accepts no more messages.
            Err(SendError {
                reason:
                    SendErrorReason::Association(
                        AssociationError::ShuttingDown
                        | AssociationError::Closed(CloseReason::Shutdown),
                    ),
                ..
            }) => return served,
            Err(error) => {
                served.error = Some(error.to_string());
                return served;
            }
        }
        served.messages_sent += 1;
        served.bytes_sent += length;
    }
}

/// What the peer and the user get to know if a message cannot be echoed.
fn refusal(refused: Refused, most: usize) -> (&'static str, String) {
    match refused {
        Refused::TooLong => (
            "a message is too long to be echoed",
            format!("a message was longer than {most} bytes"),
        ),
        Refused::NoMemory => (
            "no memory for a message",
            "no memory was left for a message: see --memory-limit, --max-message".to_owned(),
        ),
        Refused::TooMany => (
            "too many messages are incomplete",
            "too many messages were incomplete at the same time".to_owned(),
        ),
    }
}
