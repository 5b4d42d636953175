//! The sending half of a stream: messages, or bytes.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use anabranch_proto::byte_mode::{self, Mark, Stopped};
use anabranch_proto::{
    Association as Engine, OutgoingMessage, Ppid, SendErrorReason as Refused, StreamPriority,
};
use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::AsyncWrite;

use super::handle::{Held, Left, StreamOf};
use crate::error::{SendError, SendErrorReason};
use crate::streams::{ByteStreams, Wish};
use crate::wakers::Key;

/// Sends on one stream: whole messages with [`send`](Self::send), or bytes as an [`AsyncWrite`].
///
/// Written bytes are sent as ordered messages with the identifier [`BYTES`](crate::byte_mode::BYTES); `shutdown` sends
/// the [`MARK`](crate::byte_mode::MARK), at which the peer's reader ends. If the handle is dropped after bytes were
/// written and before `shutdown`, the peer is notified that the rest is missing. If the peer
/// [stops](crate::RecvStream::stop) reading, queued data is discarded and writing fails with `BrokenPipe`.
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
    prioritised: bool,
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
        Self { of, key: None, bytes: ByteState::Unused, prioritised: false }
    }

    /// The stream's number.
    pub fn id(&self) -> u16 {
        self.of.stream
    }

    /// Sends an ordered message, waiting for room in the send buffer. Cancel-safe: a message
    /// whose future was dropped before it was ready is not sent.
    ///
    /// # Errors
    /// Returns the message with the reason why it could not be sent.
    pub async fn send(&self, ppid: Ppid, data: impl Into<Bytes>) -> Result<(), SendError> {
        self.send_message(OutgoingMessage::new(self.of.stream, ppid, data)).await
    }

    /// Sends a message with all its options; its stream is set to this one.
    ///
    /// # Errors
    /// Returns the message with the reason why it could not be sent.
    pub async fn send_message(&self, mut message: OutgoingMessage) -> Result<(), SendError> {
        message.stream = self.of.stream;
        self.of.association.send(Some(self.of.incarnation), message).await
    }

    /// Sets this stream's priority relative to others with queued data, until the handle is dropped. Only the scheduler
    /// [`Priority`](crate::config::SchedulerKind::Priority) uses it.
    pub fn set_priority(&mut self, priority: StreamPriority) {
        self.prioritised = true;
        let stream = self.of.stream;
        self.of.association.engine(|association, _| {
            association.set_stream_priority(stream, priority);
        });
    }

    /// Begins a byte stream that the peer waits for: if this handle is dropped before `shutdown`, the peer is notified
    /// that the stream is incomplete even if nothing was written.
    pub fn begin_bytes(&mut self) {
        if self.bytes == ByteState::Unused {
            self.bytes = ByteState::Open;
        }
    }

    /// Ends the byte stream, as `shutdown` of [`AsyncWrite`] does.
    ///
    /// # Errors
    /// The association has ended, or the peer stopped reading this stream.
    pub async fn finish(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_finish(cx)).await
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.bytes == ByteState::Ended {
            return Poll::Ready(Ok(()));
        }
        let (stream, incarnation) = (self.of.stream, Some(self.of.incarnation));
        let send = |association: &mut Engine, bytes: &mut ByteStreams, now| {
            bytes.credit(association, stream).map_err(|Stopped| Held::Stopped)?;
            let sent = association.send(now, Mark::End.message(stream));
            sent.map_err(|refused| Held::Engine(refused.reason))?;
            bytes.on_ended(stream);
            Ok(())
        };
        let association = &self.of.association;
        let wish = Wish::on(stream);
        match association.offer_with(wish, incarnation, &mut self.key, Some(cx.waker()), send) {
            Ok(()) => {
                self.bytes = ByteState::Ended;
                Poll::Ready(Ok(()))
            }
            Err(SendErrorReason::Blocked) => Poll::Pending,
            Err(reason) => Poll::Ready(Err(reason.into())),
        }
    }

    /// Writes all of `bytes` without copying them, unlike `write_all` of [`AsyncWrite`]. If the future is dropped, some
    /// of them may have been written.
    ///
    /// # Errors
    /// The association has ended, or the peer stopped reading this stream.
    pub async fn write_bytes(&mut self, bytes: impl Into<Bytes>) -> io::Result<()> {
        let mut bytes = bytes.into();
        while !bytes.is_empty() {
            let written = poll_fn(|cx| self.poll_write_bytes(cx, &bytes)).await?;
            bytes.advance(written);
        }
        Ok(())
    }

    /// Writes as many of `bytes` as fit into one message, without copying them. Returns the number written, as
    /// `poll_write` of [`AsyncWrite`] does.
    ///
    /// # Errors
    /// The association has ended, or the peer stopped reading this stream.
    pub fn poll_write_bytes(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &Bytes,
    ) -> Poll<io::Result<usize>> {
        self.poll_write_some(cx, bytes.len(), |len| bytes.slice(..len))
    }

    /// Sends as many of `len` bytes as fit into one message; `first` is called with a length and returns that many of
    /// the first bytes.
    fn poll_write_some(
        &mut self,
        cx: &mut Context<'_>,
        len: usize,
        first: impl FnOnce(usize) -> Bytes,
    ) -> Poll<io::Result<usize>> {
        if self.bytes == ByteState::Ended {
            let error = "written after the end of the byte stream";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::BrokenPipe, error)));
        }
        if len == 0 {
            return Poll::Ready(Ok(0));
        }
        let (stream, incarnation) = (self.of.stream, Some(self.of.incarnation));
        let mut written = 0;
        let send = |association: &mut Engine, bytes: &mut ByteStreams, now| {
            let credit = bytes.credit(association, stream).map_err(|Stopped| Held::Stopped)?;
            let len = usize::try_from(credit).map_or(len, |credit| len.min(credit));
            if len == 0 {
                return Err(Held::NoCredit);
            }
            // Bytes are copied only when there is room for them.
            let Some(most) = association.room_for_bytes(stream) else {
                return Err(Held::Engine(Refused::Blocked));
            };
            let len = len.min(most);
            let message = byte_mode::bytes(stream, first(len));
            association.send(now, message).map_err(|refused| Held::Engine(refused.reason))?;
            bytes.on_written(stream, len);
            written = len;
            Ok(())
        };
        let association = &self.of.association;
        let wish = Wish::on(stream);
        match association.offer_with(wish, incarnation, &mut self.key, Some(cx.waker()), send) {
            Ok(()) => {
                self.bytes = ByteState::Open;
                Poll::Ready(Ok(written))
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
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let len = bufs.iter().map(|slice| slice.len()).sum();
        self.get_mut().poll_write_some(cx, len, |len| gather(bufs, len))
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
        let left = Left {
            begun: self.bytes == ByteState::Open,
            ended: self.bytes == ByteState::Ended,
            prioritised: self.prioritised,
        };
        self.of.give_back_sender(self.key, left);
    }
}
