//! Requests of HTTP on a stream, when pictures are converted: each goes to the target, and its answer back.
//!
//! Without conversion, nothing here is used, and bytes are carried as they are.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use anabranch_pictures::Converter;
use http::{Request, Response, Version};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use super::pictures::{Error, Passed, Wish};
use crate::accounts::{Account, Direction, Turn};
use crate::near::http::{client_builder, server_builder};
use crate::relay::Meter;
use crate::stream::Stream;
use crate::urgency::Urgency;

/// Serves the requests of a stream. All are for the target of this connection.
///
/// # Errors
/// A side failed or gave up, or the account allows nothing more; TCP was reset.
pub(super) async fn serve(
    tcp: TcpStream,
    stream: Stream,
    meter: Arc<Meter>,
    account: &Arc<Account>,
    converter: Arc<Converter>,
) -> io::Result<()> {
    let clean = Arc::new(AtomicBool::new(false));
    let turns = [Direction::ToTarget, Direction::FromTarget].map(|way| Turn::of(account, way));
    let target = Target { tcp, meter, turns, clean: Arc::clone(&clean) };
    let handshake = client_builder().handshake(TokioIo::new(target)).await;
    let (sender, mut connection) = handshake.map_err(io::Error::other)?;
    let sender = Arc::new(Mutex::new(sender));
    let service = service_fn(move |request: Request<Incoming>| {
        let (sender, converter) = (Arc::clone(&sender), Arc::clone(&converter));
        async move {
            let wish = Wish::of(&request);
            let answer = sender.lock().await.send_request(request).await?;
            let answer = answer.map(|body| body.map_err(Error::from).boxed_unsync());
            let mut answer: Response<Passed> = wish.answer(answer, &converter).await;
            *answer.version_mut() = Version::HTTP_11;
            Ok::<_, hyper::Error>(answer)
        }
    });
    let mut http = server_builder();
    // The near side decides how long it keeps an idle stream, and the target what a date is.
    http.header_read_timeout(None).auto_date_header(false);
    let mut serving =
        std::pin::pin!(http.serve_connection(TokioIo::new(Near::new(stream)), service));
    let mut connected = true;
    let ended = loop {
        tokio::select! {
            ended = &mut serving => break ended,
            // The last answer may still be on its way to the near side.
            _ = &mut connection, if connected => {
                connected = false;
                serving.as_mut().graceful_shutdown();
            }
        }
    };
    clean.store(ended.is_ok(), Relaxed);
    ended.map_err(io::Error::other)
}

/// The connection to the target.
struct Target {
    tcp: TcpStream,
    meter: Arc<Meter>,
    /// Of writing and of reading.
    turns: [Turn; 2],
    /// It ends as it should.
    clean: Arc<AtomicBool>,
}

impl Drop for Target {
    fn drop(&mut self) {
        if !self.clean.load(Relaxed) {
            // The target must not take a part of a request for the whole: see `relay`.
            let _ = SockRef::from(&self.tcp).set_linger(Some(Duration::ZERO));
        }
    }
}

impl AsyncRead for Target {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.turns[1].poll_ready(cx));
        let most = self.turns[1].most();
        let bytes = if most < buf.remaining() {
            let mut piece = ReadBuf::new(buf.initialize_unfilled_to(most));
            ready!(Pin::new(&mut self.tcp).poll_read(cx, &mut piece))?;
            let bytes = piece.filled().len();
            buf.advance(bytes);
            bytes
        } else {
            let before = buf.filled().len();
            ready!(Pin::new(&mut self.tcp).poll_read(cx, buf))?;
            buf.filled().len() - before
        };
        self.meter.from_tcp.fetch_add(bytes as u64, Relaxed);
        Poll::Ready(self.turns[1].carried(bytes))
    }
}

impl AsyncWrite for Target {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.turns[0].poll_ready(cx));
        let piece = &buf[..buf.len().min(self.turns[0].most())];
        let written = ready!(Pin::new(&mut self.tcp).poll_write(cx, piece))?;
        self.meter.to_tcp.fetch_add(written as u64, Relaxed);
        Poll::Ready(self.turns[0].carried(written).map(|()| written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}

/// The stream of the near side, whose priority follows what it carries.
struct Near {
    stream: Stream,
    urgency: Urgency,
}

impl Near {
    fn new(stream: Stream) -> Self {
        Self { stream, urgency: Urgency::new(Instant::now()) }
    }
}

impl AsyncRead for Near {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Near {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, buf))?;
        if let Some(priority) = self.urgency.sends(Instant::now(), written) {
            self.stream.writer.set_priority(priority);
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(match ready!(Pin::new(&mut self.stream).poll_shutdown(cx)) {
            // A reader that has given up has missed nothing.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            ended => ended,
        })
    }
}
