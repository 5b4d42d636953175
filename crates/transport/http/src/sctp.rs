//! SCTP associations as connections: both directions of a stream form a byte stream.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use anabranch::config::SchedulerKind;
use anabranch::{Association, RecvStream, SendStream, StreamPriority};
use bytes::Bytes;
use tokio::io::Join;

use crate::priority::Priority;
use crate::stream::{AcceptStreams, ByteStream, OpenStreams, Pending, Prioritise, TakeBytes};

/// Both directions of an SCTP stream as one byte stream.
pub type SctpStream = Join<RecvStream, SendStream>;

impl OpenStreams for Association {
    type Stream = SctpStream;

    /// Opens the next free stream; waits for one if all are in use.
    async fn open(&self) -> io::Result<ByteStream<SctpStream>> {
        Ok(byte_stream(self.open_stream().await?))
    }
}

impl TakeBytes for SctpStream {
    fn takes_bytes(&self) -> bool {
        true
    }

    fn poll_take_bytes(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &Bytes,
    ) -> Poll<io::Result<usize>> {
        self.writer_mut().poll_write_bytes(cx, bytes)
    }
}

impl AcceptStreams for Association {
    type Stream = SctpStream;

    async fn accept(&mut self) -> io::Result<Option<ByteStream<SctpStream>>> {
        let accepted = self.accept_stream().await?;
        Ok(accepted.map(|(mut sender, receiver)| {
            // The client expects an answer, or a signal that there will be none.
            sender.begin_bytes();
            byte_stream((sender, receiver))
        }))
    }

    fn pending(&self) -> Option<Pending> {
        let association = self.clone();
        Some(Arc::new(move || {
            let statistics = association.statistics();
            (statistics.send_queue_bytes + statistics.outstanding_bytes) as u64
        }))
    }

    /// Priorities have an effect only if the association's option `scheduler` is `priority`.
    fn prioritise(&self) -> Option<Prioritise> {
        if self.config().sending.scheduler != SchedulerKind::Priority {
            return None;
        }
        let association = self.clone();
        Some(Arc::new(move |stream, priority: Priority| {
            let Priority { urgency, incremental } = priority;
            let urgency = urgency.into();
            association.set_stream_priority(stream, StreamPriority { urgency, incremental });
        }))
    }
}

fn byte_stream((sender, receiver): (SendStream, RecvStream)) -> ByteStream<SctpStream> {
    ByteStream { id: sender.id(), io: tokio::io::join(receiver, sender) }
}
