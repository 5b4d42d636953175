//! A stream to a target on which bytes are written before the far side's reply is there.
//!
//! This saves a round trip to the far side for each request.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::protocol::parse_reply;
use crate::status::{Refusal, Status};
use crate::stream::Stream;
use crate::target::Parsed;

/// Where the reason is found if the far side has refused a tunnel.
pub(crate) type Refused = Arc<OnceLock<Refusal>>;

/// A stream that begins with the far side's reply, which its reader does not see.
#[derive(Debug)]
pub(crate) struct Tunnel {
    stream: Stream,
    /// The bytes of an incomplete reply; `None` after it.
    reply: Option<Vec<u8>>,
    refused: Refused,
}

impl Tunnel {
    pub(crate) fn new(stream: Stream) -> Self {
        Self { stream, reply: Some(Vec::new()), refused: Refused::default() }
    }

    pub(crate) fn refused(&self) -> Refused {
        Arc::clone(&self.refused)
    }

    fn refuse(&self, refusal: Refusal) -> io::Error {
        let error = io::Error::new(io::ErrorKind::ConnectionRefused, refusal.clone());
        // The first reason stays.
        let _ = self.refused.set(refusal);
        error
    }

    /// Reads the reply.
    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(mut bytes) = self.reply.take() {
            let more = match parse_reply(&bytes) {
                Ok(Parsed::Done(Ok(()))) => return Poll::Ready(Ok(())),
                Ok(Parsed::Done(Err(refusal))) => return Poll::Ready(Err(self.refuse(refusal))),
                Ok(Parsed::Needs(more)) => more,
                Err(_) => return Poll::Ready(Err(self.refuse(Status::Failed.into()))),
            };
            let before = bytes.len();
            bytes.resize(more, 0);
            let mut buffer = ReadBuf::new(&mut bytes[before..]);
            let read = Pin::new(&mut self.stream).poll_read(cx, &mut buffer);
            let count = buffer.filled().len();
            bytes.truncate(before + count);
            self.reply = Some(bytes);
            let lost = match ready!(read) {
                Ok(()) if count > 0 => continue,
                Ok(()) => io::ErrorKind::UnexpectedEof.into(),
                Err(error) => error,
            };
            let lost = Refusal::new(Status::Lost, format!("the far side was lost: {lost}"));
            return Poll::Ready(Err(self.refuse(lost)));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Tunnel {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_reply(cx))?;
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Tunnel {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
