//! A byte stream of the association, which is given up cleanly when it is dropped.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use anabranch::{RecvStream, SendStream};
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};

use crate::urgency::Urgency;

/// The receiving half. Dropping it tells the peer to send no more, even if nothing was read yet.
#[derive(Debug)]
pub(crate) struct Reader(Option<RecvStream>);

impl Reader {
    pub(crate) fn new(stream: RecvStream) -> Self {
        Self(Some(stream))
    }

    fn inner(&mut self) -> io::Result<Pin<&mut RecvStream>> {
        self.0.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Reader {
    /// Waits for bytes, and writes at most `most` of them. Returns how many: 0 at the end.
    pub(crate) async fn write_to(
        &mut self,
        writer: &mut (impl AsyncWrite + Unpin),
        most: usize,
    ) -> io::Result<usize> {
        self.inner()?.write_to(writer, most).await
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(stream) = self.0.take() {
            stream.stop();
        }
    }
}

impl AsyncRead for Reader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.inner()?.poll_read(cx, buf)
    }
}

impl AsyncBufRead for Reader {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        self.get_mut().inner()?.poll_fill_buf(cx)
    }

    fn consume(mut self: Pin<&mut Self>, amount: usize) {
        if let Ok(stream) = self.inner() {
            stream.consume(amount);
        }
    }
}

/// Both halves of a stream. If the sending half is dropped before its end, the peer learns that the rest is missing.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) writer: SendStream,
    pub(crate) reader: Reader,
}

impl Stream {
    pub(crate) fn new((mut writer, reader): (SendStream, RecvStream)) -> Self {
        writer.begin_bytes();
        // Before the first message: what waits keeps its place, and all that follows would go with it.
        writer.set_priority(Urgency::first());
        Self { writer, reader: Reader::new(reader) }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.reader).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.writer).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.writer).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.writer.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_shutdown(cx)
    }
}
