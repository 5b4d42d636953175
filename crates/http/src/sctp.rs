//! SCTP associations as connections: each stream in both directions is a byte stream.

use std::io;
use std::sync::Arc;

use anabranch::{Association, RecvStream, SendStream};
use tokio::io::Join;

use crate::stream::{AcceptStreams, ByteStream, OpenStreams, Pending};

/// Both directions of an SCTP stream as one byte stream.
pub type SctpStream = Join<RecvStream, SendStream>;

impl OpenStreams for Association {
    type Stream = SctpStream;

    /// Takes the next free stream; waits for one if all are in use.
    async fn open(&self) -> io::Result<ByteStream<SctpStream>> {
        Ok(byte_stream(self.open_stream().await?))
    }
}

impl AcceptStreams for Association {
    type Stream = SctpStream;

    async fn accept(&mut self) -> io::Result<Option<ByteStream<SctpStream>>> {
        Ok(self.accept_stream().await?.map(byte_stream))
    }

    fn pending(&self) -> Option<Pending> {
        let association = self.clone();
        Some(Arc::new(move || {
            let statistics = association.statistics();
            (statistics.send_queue_bytes + statistics.outstanding_bytes) as u64
        }))
    }
}

fn byte_stream((sender, receiver): (SendStream, RecvStream)) -> ByteStream<SctpStream> {
    ByteStream { id: sender.id(), io: tokio::io::join(receiver, sender) }
}
