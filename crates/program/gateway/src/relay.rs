//! Carries bytes between a TCP connection and a stream, in both directions, until both have ended.
//!
//! An end in one direction is passed on, and the other direction goes on. A failure ends both: TCP is reset, and the
//! peer learns from the stream that the rest is missing. Each direction reads only what the other end has taken.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::Poll;
use std::time::{Duration, Instant};

use anabranch::SendStream;
use bytes::{Bytes, BytesMut};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::time::timeout;

use crate::accounts::{Account, Direction, Turn};
use crate::stream::{Reader, Stream};
use crate::urgency::Urgency;

/// How long one direction may be silent after the other has ended. A peer that only wanted to end both would
/// otherwise hold the stream for ever.
const HALF_CLOSED: Duration = Duration::from_secs(600);

/// Bytes of the smallest and the largest buffer to read into.
const BUFFERS: std::ops::RangeInclusive<usize> = 4 << 10..=64 << 10;

/// Times after which a silent TCP peer is asked whether it is alive, and asked again.
const ALIVE: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(15));

/// Bytes that were carried in each direction.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// From TCP to the stream.
    pub(crate) from_tcp: AtomicU64,
    /// From the stream to TCP.
    pub(crate) to_tcp: AtomicU64,
}

/// Sets what all relayed connections have: no delay of small packets, and questions whether the peer is alive.
pub(crate) fn prepare(tcp: &TcpStream) {
    let keepalive = TcpKeepalive::new().with_time(ALIVE.0).with_interval(ALIVE.1);
    // Both are improvements only.
    let _ = SockRef::from(tcp).set_tcp_keepalive(&keepalive);
    let _ = tcp.set_nodelay(true);
}

/// Carries bytes until both directions have ended. `first` was read from TCP before. An account is that of the user on
/// the far side.
///
/// # Errors
/// One side failed or gave up, or the account allows nothing more; TCP was reset.
pub(crate) async fn relay(
    mut tcp: TcpStream,
    first: Bytes,
    stream: Stream,
    meter: &Meter,
    account: Option<&Arc<Account>>,
) -> io::Result<()> {
    let turn = |direction| match account {
        Some(account) => Turn::of(account, direction),
        None => Turn::unlimited(direction),
    };
    let turns = (turn(Direction::FromTarget), turn(Direction::ToTarget));
    let Stream { mut writer, mut reader } = stream;
    let (tcp_reader, tcp_writer) = tcp.split();
    let ended = {
        let up = outward(tcp_reader, first, &mut writer, meter, turns.0);
        let down = inward(&mut reader, tcp_writer, meter, turns.1);
        tokio::pin!(up, down);
        tokio::select! {
            ended = &mut up => match ended {
                Ok(()) => rest(down, &meter.to_tcp).await,
                failed => failed,
            },
            ended = &mut down => match ended {
                Ok(()) => rest(up, &meter.from_tcp).await,
                failed => failed,
            },
        }
    };
    if ended.is_err() {
        // Closing the connection sends RST instead of FIN, so its peer does not take the part for the whole.
        let _ = SockRef::from(&tcp).set_linger(Some(Duration::ZERO));
    }
    ended
}

/// Waits for the second direction after the first has ended, as long as it moves.
async fn rest(
    direction: impl Future<Output = io::Result<()>>,
    carried: &AtomicU64,
) -> io::Result<()> {
    tokio::pin!(direction);
    let mut before = carried.load(Relaxed);
    loop {
        match timeout(HALF_CLOSED, &mut direction).await {
            Ok(ended) => return ended,
            Err(_) if carried.load(Relaxed) == before => {
                let error = "one direction had ended, and the other was silent for too long";
                return Err(io::Error::new(io::ErrorKind::TimedOut, error));
            }
            Err(_) => before = carried.load(Relaxed),
        }
    }
}

/// From TCP to the stream.
async fn outward(
    mut tcp: ReadHalf<'_>,
    first: Bytes,
    stream: &mut SendStream,
    meter: &Meter,
    mut turn: Turn,
) -> io::Result<()> {
    let mut urgency = Urgency::new(Instant::now());
    let mut size = *BUFFERS.start();
    let mut buffer = BytesMut::new();
    let mut next = first;
    loop {
        while !next.is_empty() {
            let piece = next.split_to(next.len().min(turn.most()));
            let length = piece.len();
            if let Some(priority) = urgency.sends(Instant::now(), length) {
                stream.set_priority(priority);
            }
            stream.write_bytes(piece).await?;
            meter.from_tcp.fetch_add(length as u64, Relaxed);
            turn.carried(length)?;
            turn.ready().await;
        }
        // An idle connection has no buffer.
        if buffer.capacity() == 0 {
            tcp.readable().await?;
            buffer.reserve(size);
        }
        match read_now(&mut tcp, &mut buffer).await {
            Poll::Ready(Ok(0)) => return end(stream).await,
            Poll::Ready(read) => read.map(drop)?,
            Poll::Pending => (size, buffer) = (*BUFFERS.start(), BytesMut::new()),
        }
        // What comes fast is read in large pieces.
        if buffer.len() == size {
            size = (size * 2).min(*BUFFERS.end());
        }
        next = buffer.split().freeze();
        if buffer.capacity() < *BUFFERS.start() / 4 {
            buffer = BytesMut::new();
        }
    }
}

/// Reads without waiting. Unlike `try_read_buf`, this takes a read that fills less than the buffer for the last one, which
/// saves a system call for each small piece.
async fn read_now(tcp: &mut ReadHalf<'_>, buffer: &mut BytesMut) -> Poll<io::Result<usize>> {
    let read = tcp.read_buf(buffer);
    tokio::pin!(read);
    poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx))).await
}

/// Ends the stream. If its reader has given up meanwhile, it has missed nothing.
async fn end(stream: &mut SendStream) -> io::Result<()> {
    match stream.finish().await {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        ended => ended,
    }
}

/// From the stream to TCP.
async fn inward(
    stream: &mut Reader,
    mut tcp: WriteHalf<'_>,
    meter: &Meter,
    mut turn: Turn,
) -> io::Result<()> {
    loop {
        let written = stream.write_to(&mut tcp, turn.most()).await?;
        if written == 0 {
            return tcp.shutdown().await;
        }
        meter.to_tcp.fetch_add(written as u64, Relaxed);
        turn.carried(written)?;
        turn.ready().await;
    }
}
