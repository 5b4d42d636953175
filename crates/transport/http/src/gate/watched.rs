//! The two ends of an answer: the body from which it is read, and the transport to which it is written.

use std::any::Any;
use std::io::{self, IoSlice};
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Buf;
use http::StatusCode;
use http_body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::{LEAST_PATIENCE, Stream};
use crate::handed::{Handed, Next};
use crate::stream::TakeBytes;

/// How often progress is checked.
const LOOK: Duration = Duration::from_secs(1);

/// How long an answer may stall before it loses its place to a waiting request.
const STILL: Duration = Duration::from_millis(250);

/// The body of an answer; reports when it is complete or abandoned.
pub(crate) struct Answer<B> {
    /// `None` for an answer that the server itself generates.
    body: Option<Pin<Box<B>>>,
    stream: Arc<Stream>,
}

impl<B> Answer<B> {
    pub(crate) fn new(body: B, stream: Arc<Stream>) -> Self {
        Self { body: Some(Box::pin(body)), stream }
    }

    pub(crate) fn empty(stream: Arc<Stream>) -> Self {
        Self { body: None, stream }
    }
}

impl<B> Drop for Answer<B> {
    fn drop(&mut self) {
        self.stream.answered();
    }
}

impl<B: Body + 'static> Body for Answer<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let Self { body: Some(body), stream } = &mut *self else { return Poll::Ready(None) };
        if !stream.may_read_on(cx) {
            return Poll::Pending;
        }
        let polled = body.as_mut().poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            stream.hand_on(data.remaining(), (data as &dyn Any).downcast_ref());
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(|body| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), |body| body.size_hint())
    }
}

/// A stream whose requests wait for places. It breaks if its peer stops reading.
#[derive(Debug)]
pub(crate) struct Watched<S> {
    inner: S,
    stream: Arc<Stream>,
    /// When writing stalled, and the timer for the next check.
    stalled: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl<S: TakeBytes + Unpin> Watched<S> {
    pub(crate) fn new(inner: S, stream: Arc<Stream>) -> Self {
        stream.state().handed = inner.takes_bytes().then(Handed::default);
        Self { inner, stream, stalled: None }
    }

    /// Answers a malformed request, if possible, and ends the stream. Earlier requests were answered, so the client
    /// expects an answer to this one, too.
    pub(crate) fn refuse(&mut self, cx: &mut Context<'_>, status: StatusCode) {
        let reason = status.canonical_reason().unwrap_or_default();
        let answer = format!(
            "HTTP/1.1 {} {reason}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
            status.as_u16()
        );
        if Pin::new(&mut self.inner).poll_write(cx, answer.as_bytes()).is_ready() {
            let _ = Pin::new(&mut self.inner).poll_shutdown(cx);
        }
        self.stream.state().refused = Some(status);
    }

    /// Tracks progress after a successful or blocked write.
    fn watch(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let connection = &self.stream.connection;
        if let Poll::Ready(result) = written {
            self.stalled = None;
            connection.moved().0 = Instant::now();
            if let Ok(count) = result {
                self.stream.wrote(count);
            }
            return Poll::Ready(result);
        }
        let begin = || (Instant::now(), Box::pin(sleep(STILL)));
        let (since, look) = self.stalled.get_or_insert_with(begin);
        while look.as_mut().poll(cx).is_ready() {
            let crowded = connection.places.line().has_waiters();
            let parked = self.stream.stood_still(crowded);
            let patience = connection.places.limits.patience;
            let patience = if crowded && !parked { patience.min(LEAST_PATIENCE) } else { patience };
            let since = (*since).max(connection.last_moved());
            if since.elapsed() >= patience {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            look.as_mut().reset(Instant::now() + if parked { LOOK } else { STILL });
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + TakeBytes + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(room) = self.stream.room().map(NonZeroUsize::get) else {
            self.refuse(cx, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "too long a request",
            )));
        };
        let before = buf.filled().len();
        let result = if buf.remaining() <= room {
            Pin::new(&mut self.inner).poll_read(cx, buf)
        } else {
            let mut part = ReadBuf::new(buf.initialize_unfilled_to(room));
            let result = Pin::new(&mut self.inner).poll_read(cx, &mut part);
            let read = part.filled().len();
            buf.advance(read);
            result
        };
        let read = buf.filled().len().saturating_sub(before);
        if matches!(result, Poll::Ready(Ok(()))) && read > 0 {
            self.stream.read(read);
        }
        result
    }
}

impl<S: TakeBytes + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.inner).poll_write(cx, buf);
        this.watch(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let inner = Pin::new(&mut this.inner);
        let written = match this.stream.next(bufs) {
            Next::Bytes(bytes) => inner.poll_take_bytes(cx, &bytes),
            Next::Slices(count) => inner.poll_write_vectored(cx, &bufs[..count]),
        };
        this.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(cx);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.stream.flushed();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
