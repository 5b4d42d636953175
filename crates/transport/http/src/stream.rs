//! The interface between HTTP and its transport: connections with numbered byte streams.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::priority::Priority;

/// A bidirectional byte stream and its number within its connection.
#[derive(Debug)]
pub struct ByteStream<S> {
    /// The stream's number: the stream identifier of SCTP, or a count from 0 for TCP.
    pub id: u16,
    /// The bytes.
    pub io: S,
}

/// A connection on which this side opens the streams, as a client does.
pub trait OpenStreams: Sync {
    /// The type of a stream.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send;

    /// Opens the next stream.
    ///
    /// # Errors
    /// The connection is broken, or has no further stream.
    fn open(&self) -> impl Future<Output = io::Result<ByteStream<Self::Stream>>> + Send;
}

/// A writer that may accept bytes without copying them.
pub trait TakeBytes: AsyncWrite {
    /// Whether this writer does.
    fn takes_bytes(&self) -> bool {
        false
    }

    /// Accepts bytes from the front of `bytes` without copying them, and returns their number, as
    /// `poll_write` does.
    fn poll_take_bytes(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &Bytes,
    ) -> Poll<io::Result<usize>> {
        self.poll_write(cx, bytes)
    }
}

impl TakeBytes for tokio::io::DuplexStream {}

/// A connection on which the peer opens the streams, as on a server.
pub trait AcceptStreams: Send {
    /// The type of a stream.
    type Stream: AsyncRead + TakeBytes + Unpin + Send;

    /// Waits for the next stream; `None` when the peer will open no more. Must be cancel-safe:
    /// dropping the future before it is ready must not lose a stream.
    ///
    /// # Errors
    /// The connection broke.
    fn accept(
        &mut self,
    ) -> impl Future<Output = io::Result<Option<ByteStream<Self::Stream>>>> + Send;

    /// Returns a function that reports the bytes in transit to the peer, to distinguish a peer that
    /// reads slowly from one that reads nothing; `None` if the transport does not know.
    fn pending(&self) -> Option<Pending> {
        None
    }

    /// Returns a function that sets the priority of streams in the transport; `None` if it has no
    /// priorities.
    fn prioritise(&self) -> Option<Prioritise> {
        None
    }
}

/// Sets the priority of the stream with this number for its following answers.
pub type Prioritise = Arc<dyn Fn(u16, Priority) + Send + Sync>;

/// Returns the number of bytes that the transport has accepted and the peer has not read.
pub type Pending = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The traffic of one stream, including HTTP headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamTotals {
    /// The stream's number.
    pub id: u16,
    /// Completed transactions.
    pub transactions: u64,
    /// Bytes written to the stream.
    pub bytes_sent: u64,
    /// Bytes read from the stream.
    pub bytes_received: u64,
}

/// Counters of a stream, which can be read while the stream is in use.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    sent: AtomicU64,
    received: AtomicU64,
    transactions: AtomicU64,
}

impl Counters {
    /// Records that a transaction is complete.
    pub(crate) fn transaction(&self) {
        self.transactions.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn totals(&self, id: u16) -> StreamTotals {
        StreamTotals {
            id,
            transactions: self.transactions.load(Ordering::Relaxed),
            bytes_sent: self.sent.load(Ordering::Relaxed),
            bytes_received: self.received.load(Ordering::Relaxed),
        }
    }
}

/// A stream that counts its bytes.
#[derive(Debug)]
pub(crate) struct Counted<S> {
    inner: S,
    counters: Arc<Counters>,
}

impl<S> Counted<S> {
    pub(crate) fn new(inner: S, counters: Arc<Counters>) -> Self {
        Self { inner, counters }
    }

    fn count_sent(&self, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(written)) = &result {
            self.counters.sent.fetch_add(*written as u64, Ordering::Relaxed);
        }
        result
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let result = Pin::new(&mut self.inner).poll_read(cx, buf);
        let read = buf.filled().len().saturating_sub(before);
        self.counters.received.fetch_add(read as u64, Ordering::Relaxed);
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.count_sent(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.count_sent(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

impl<S: TakeBytes + Unpin> TakeBytes for Counted<S> {
    fn takes_bytes(&self) -> bool {
        self.inner.takes_bytes()
    }

    fn poll_take_bytes(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &Bytes,
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_take_bytes(cx, bytes);
        self.count_sent(result)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn bytes_are_counted_in_both_directions() {
        let (near, mut far) = tokio::io::duplex(64);
        let counters = Arc::new(Counters::default());
        let mut near = Counted::new(near, Arc::clone(&counters));
        near.write_all(b"request").await.unwrap();
        let parts = [IoSlice::new(b"and"), IoSlice::new(b"more")];
        let mut written = 0;
        while written < 3 {
            written += near.write_vectored(&parts).await.unwrap();
        }
        far.write_all(b"answer").await.unwrap();
        let mut answer = [0; 6];
        near.read_exact(&mut answer).await.unwrap();
        counters.transaction();
        let totals = counters.totals(9);
        assert_eq!(totals.id, 9);
        assert_eq!(totals.transactions, 1);
        assert_eq!(totals.bytes_sent, 7 + written as u64);
        assert_eq!(totals.bytes_received, 6);
    }
}
