//! The sending half of a stream: messages, or bytes.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use anabranch_proto::{OutgoingMessage, Ppid};
use bytes::{Bytes, BytesMut};
use tokio::io::AsyncWrite;

use crate::byte_mode::{BYTES, MAX_MESSAGE, Mark};
use crate::error::{SendError, SendErrorReason};
use crate::handle::StreamOf;
use crate::wakers::Key;

/// Sends on one stream: whole messages with [`send`](Self::send), or bytes as an [`AsyncWrite`].
///
/// Bytes written go out as ordered messages under the identifier
/// [`BYTES`](crate::byte_mode::BYTES); `shutdown` ends them with the
/// [`MARK`](crate::byte_mode::MARK), at which the peer's reader comes to its end. A stream that
/// is dropped after bytes were written and before `shutdown` tells the peer that the rest is
/// missing.
///
/// ```
/// # async fn example(association: anabranch::Association) -> Result<(), Box<dyn std::error::Error>> {
/// use tokio::io::AsyncWriteExt;
///
/// let (mut send, _) = association.open_stream().await?;
/// send.write_all(b"bytes without boundaries").await?;
/// send.shutdown().await?;
/// let (send, _) = association.open_stream().await?;
/// send.send(anabranch::Ppid(0), "a message").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SendStream {
    of: StreamOf,
    /// Place in the queue of a writer that waits for room.
    key: Option<Key>,
    bytes: ByteState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ByteState {
    /// No byte was written.
    Unused,
    /// The end mark is due.
    Open,
    /// The end mark was sent.
    Ended,
}

impl SendStream {
    pub(crate) fn new(of: StreamOf) -> Self {
        Self { of, key: None, bytes: ByteState::Unused }
    }

    /// The stream's number.
    pub fn id(&self) -> u16 {
        self.of.stream
    }

    /// Sends an ordered message, waiting for room in the send buffer. Cancel-safe: a message
    /// whose future was dropped before it was ready is not sent.
    ///
    /// # Errors
    /// The message comes back with the reason.
    pub async fn send(&self, ppid: Ppid, data: impl Into<Bytes>) -> Result<(), SendError> {
        self.send_message(OutgoingMessage::new(self.of.stream, ppid, data)).await
    }

    /// Sends a message with all its options; its stream is set to this one.
    ///
    /// # Errors
    /// The message comes back with the reason.
    pub async fn send_message(&self, mut message: OutgoingMessage) -> Result<(), SendError> {
        message.stream = self.of.stream;
        self.of.association.send(Some(self.of.incarnation), message).await
    }

    /// Ends the byte stream, as `shutdown` of [`AsyncWrite`] does.
    ///
    /// # Errors
    /// The association is no more.
    pub async fn finish(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_finish(cx)).await
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.bytes == ByteState::Ended {
            return Poll::Ready(Ok(()));
        }
        let mut mark = Some(Mark::End.message(self.of.stream));
        let incarnation = Some(self.of.incarnation);
        match self.of.association.offer(incarnation, &mut self.key, Some(cx.waker()), &mut mark) {
            Ok(()) => {
                self.bytes = ByteState::Ended;
                Poll::Ready(Ok(()))
            }
            Err(SendErrorReason::Blocked) => Poll::Pending,
            Err(reason) => Poll::Ready(Err(reason.into())),
        }
    }

    /// Sends the bytes of `slices`, as many as one message takes.
    fn poll_write_slices(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.bytes == ByteState::Ended {
            let error = "written after the end of the byte stream";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::BrokenPipe, error)));
        }
        let len = slices.iter().map(|slice| slice.len()).sum::<usize>().min(MAX_MESSAGE);
        if len == 0 {
            return Poll::Ready(Ok(0));
        }
        // Bytes are copied only when there is room for them.
        let (stream, incarnation) = (self.of.stream, Some(self.of.incarnation));
        let send = |association: &mut anabranch_proto::Association, now| {
            let message = OutgoingMessage::new(stream, BYTES, gather(slices, len));
            association.send(now, message).map_err(|refused| refused.reason)
        };
        let association = &self.of.association;
        match association.offer_with(stream, incarnation, &mut self.key, Some(cx.waker()), send) {
            Ok(()) => {
                self.bytes = ByteState::Open;
                Poll::Ready(Ok(len))
            }
            Err(SendErrorReason::Blocked) => Poll::Pending,
            Err(reason) => Poll::Ready(Err(reason.into())),
        }
    }
}

/// Copies the first `len` bytes of `slices`.
fn gather(slices: &[IoSlice<'_>], len: usize) -> Bytes {
    let mut data = BytesMut::with_capacity(len);
    for slice in slices {
        let take = slice.len().min(len - data.len());
        data.extend_from_slice(&slice[..take]);
    }
    data.freeze()
}

impl AsyncWrite for SendStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_write_slices(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_write_slices(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Nothing is held back.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_finish(cx)
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        let owed = (self.bytes == ByteState::Open).then_some(Mark::Abandoned);
        self.of.give_back_sender(self.key, owed);
    }
}
