//! Streams on which a server writes so many bytes at a time.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use anabranch_http::{AcceptStreams, ByteStream, Pending};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection whose streams take no more than `most` bytes of a write: each write is a message of its own
/// where messages carry bytes, and streams take turns by messages.
#[derive(Debug)]
pub(crate) struct InPieces<C> {
    pub(crate) connection: C,
    pub(crate) most: usize,
}

impl<C: AcceptStreams> AcceptStreams for InPieces<C>
where
    C::Stream: Unpin,
{
    type Stream = Piecewise<C::Stream>;

    async fn accept(&mut self) -> io::Result<Option<ByteStream<Self::Stream>>> {
        let accepted = self.connection.accept().await?;
        Ok(accepted.map(|ByteStream { id, io }| ByteStream {
            id,
            io: Piecewise { io, most: self.most.max(1) },
        }))
    }

    fn pending(&self) -> Option<Pending> {
        self.connection.pending()
    }
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Piecewise<S> {
    io: S,
    most: usize,
}

impl<S: AsyncRead + Unpin> AsyncRead for Piecewise<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

// It takes no vectors, so that headers and the beginning of a body share a piece.
impl<S: AsyncWrite + Unpin> AsyncWrite for Piecewise<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let most = buf.len().min(self.most);
        Pin::new(&mut self.io).poll_write(cx, buf.get(..most).unwrap_or(buf))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
