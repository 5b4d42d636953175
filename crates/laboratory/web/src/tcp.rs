//! TCP connections between the hosts, as byte streams.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use anabranch::runtime::Instant;
use anabranch_http::{AcceptStreams, ByteStream, OpenStreams, TakeBytes};
use anabranch_impair::Rng;
use anabranch_tcp::{Config, Connection, Stats};
use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::executor::{State, World};
use crate::network::{Host, Payload, Wires};

/// The server's port, and the client's first port.
const SERVER_PORT: u16 = 80;
const FIRST_PORT: u16 = 49_152;

/// The most bytes accepted by one write.
const MOST_WRITTEN: usize = 64 << 10;

/// All connections, with two ends each: the client's has an even number, the server's the next one.
#[derive(Debug)]
pub(crate) struct Connections {
    ends: Vec<End>,
    accepted: VecDeque<usize>,
    acceptor: Option<Waker>,
    rng: Rng,
}

#[derive(Debug)]
struct End {
    connection: Connection,
    host: Host,
    /// Data read from the connection, but not by the application yet.
    unread: Bytes,
    is_known: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl End {
    /// Sends everything that is ready.
    fn flush(&mut self, now: u64, wires: &mut Wires, number: usize) {
        while let Some(segment) = self.connection.poll_transmit(Instant::from_nanos(now)) {
            wires.send(now, self.host, Payload::Tcp { end: number ^ 1, segment });
        }
    }
}

impl Connections {
    pub(crate) fn new(seed: u64) -> Self {
        let rng = Rng::stream(seed, 3);
        Self { ends: Vec::new(), accepted: VecDeque::new(), acceptor: None, rng }
    }

    /// Opens a connection; returns the number of the client's end.
    fn connect(&mut self, now: u64, wires: &mut Wires, config: &Config) -> usize {
        let number = self.ends.len();
        let port = FIRST_PORT + u16::try_from(number / 2).unwrap_or(0) % (u16::MAX - FIRST_PORT);
        let mut isn = || (self.rng.next_u64() >> 32) as u32;
        let (near, far) = (isn(), isn());
        let end = |connection, host| End {
            connection,
            host,
            unread: Bytes::new(),
            is_known: host == Host::Client,
            reader: None,
            writer: None,
        };
        let near = Connection::connect(config.clone(), (port, SERVER_PORT), near);
        self.ends.push(end(near, Host::Client));
        let far = Connection::accept(config.clone(), SERVER_PORT, far);
        self.ends.push(end(far, Host::Server));
        self.act(now, wires, number, &mut Vec::new(), |_| {});
        number
    }

    /// Acts on an end, and then handles the consequences.
    fn act<T>(
        &mut self,
        now: u64,
        wires: &mut Wires,
        number: usize,
        woken: &mut Vec<Waker>,
        act: impl FnOnce(&mut End) -> T,
    ) -> Option<T> {
        let end = self.ends.get_mut(number)?;
        let done = act(end);
        end.flush(now, wires, number);
        if end.connection.is_open() && !std::mem::replace(&mut end.is_known, true) {
            self.accepted.push_back(number);
            woken.extend(self.acceptor.take());
        }
        Some(done)
    }

    pub(crate) fn deliver(
        &mut self,
        now: u64,
        wires: &mut Wires,
        number: usize,
        segment: Bytes,
        woken: &mut Vec<Waker>,
    ) {
        self.act(now, wires, number, woken, |end| {
            end.connection.handle(Instant::from_nanos(now), segment);
        });
        self.wake(number, woken);
    }

    /// Wakes the tasks that wait for an end.
    fn wake(&mut self, number: usize, woken: &mut Vec<Waker>) {
        if let Some(end) = self.ends.get_mut(number) {
            woken.extend(end.reader.take());
            woken.extend(end.writer.take());
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let deadlines = self.ends.iter().filter_map(|end| end.connection.next_deadline());
        deadlines.min().map(|at| at.as_nanos())
    }

    /// Handles expired timers.
    pub(crate) fn expire(&mut self, now: u64, wires: &mut Wires, woken: &mut Vec<Waker>) {
        let at = Instant::from_nanos(now);
        for number in 0..self.ends.len() {
            let due = |end: &End| end.connection.next_deadline().is_some_and(|next| next <= at);
            if !self.ends.get(number).is_some_and(due) {
                continue;
            }
            self.act(now, wires, number, woken, |end| end.connection.handle_timeout(at));
            self.wake(number, woken);
        }
    }

    /// Counters of a host's ends.
    pub(crate) fn stats(&self, host: Host) -> impl Iterator<Item = Stats> {
        self.ends.iter().filter(move |end| end.host == host).map(|end| end.connection.stats())
    }
}

/// The client's side: a TCP connection for each stream.
#[derive(Debug)]
pub(crate) struct TcpClient {
    world: World,
    config: Config,
}

impl TcpClient {
    pub(crate) fn new(world: World, config: Config) -> Self {
        Self { world, config }
    }

    /// A new connection, once it is established.
    pub(crate) async fn connect(&self) -> io::Result<TcpStream> {
        let number = {
            let mut state = self.world.state();
            let now = state.now;
            let (tcp, wires) = state.network.tcp_and_wires();
            tcp.connect(now, wires, &self.config)
        };
        let stream = TcpStream { world: self.world.clone(), number };
        std::future::poll_fn(|cx| {
            stream.with(|state| {
                let Some(end) = state.network.tcp.ends.get_mut(number) else {
                    return Poll::Ready(Err(io::Error::from(io::ErrorKind::NotConnected)));
                };
                if end.connection.is_dead() {
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
                if end.connection.is_open() {
                    return Poll::Ready(Ok(()));
                }
                end.writer = Some(cx.waker().clone());
                Poll::Pending
            })
        })
        .await?;
        Ok(stream)
    }
}

/// Streams of a client whose first connection already exists.
#[derive(Debug)]
pub(crate) struct TcpStreams {
    pub(crate) client: TcpClient,
    pub(crate) first: std::sync::Mutex<Option<TcpStream>>,
}

impl OpenStreams for TcpStreams {
    type Stream = TcpStream;

    async fn open(&self) -> io::Result<ByteStream<TcpStream>> {
        let first = self.first.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        let io = match first {
            Some(stream) => stream,
            None => self.client.connect().await?,
        };
        let id = u16::try_from(io.number / 2).unwrap_or(u16::MAX);
        Ok(ByteStream { id, io })
    }
}

/// Waits for the next connection to the server.
pub(crate) async fn accept(world: &World) -> TcpServerConnection {
    std::future::poll_fn(|cx| {
        let mut state = world.state();
        match state.network.tcp.accepted.pop_front() {
            Some(number) => {
                let stream = TcpStream { world: world.clone(), number };
                Poll::Ready(TcpServerConnection(Some(stream)))
            }
            None => {
                state.network.tcp.acceptor = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    })
    .await
}

/// The server's side of one connection, which has one stream.
#[derive(Debug)]
pub(crate) struct TcpServerConnection(Option<TcpStream>);

impl AcceptStreams for TcpServerConnection {
    type Stream = TcpStream;

    async fn accept(&mut self) -> io::Result<Option<ByteStream<TcpStream>>> {
        Ok(self.0.take().map(|io| ByteStream { id: 0, io }))
    }
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct TcpStream {
    world: World,
    number: usize,
}

impl TcpStream {
    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.world.state())
    }

    /// Acts on the end, and sends the resulting packets.
    fn act<T>(&self, act: impl FnOnce(&mut End) -> T) -> io::Result<T> {
        let mut woken = Vec::new();
        let done = self.with(|state| {
            let now = state.now;
            let (tcp, wires) = state.network.tcp_and_wires();
            tcp.act(now, wires, self.number, &mut woken, act)
        });
        woken.into_iter().for_each(Waker::wake);
        done.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = self.act(|end| {
            let before = buf.filled().len();
            while buf.remaining() > 0 {
                if end.unread.is_empty() {
                    match end.connection.read() {
                        Some(bytes) => end.unread = bytes,
                        None => break,
                    }
                }
                let len = end.unread.len().min(buf.remaining());
                buf.put_slice(&end.unread[..len]);
                end.unread.advance(len);
            }
            if buf.filled().len() > before || end.connection.is_at_end() {
                return Poll::Ready(Ok(()));
            }
            if end.connection.is_dead() {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            end.reader = Some(cx.waker().clone());
            Poll::Pending
        });
        read.unwrap_or_else(|error| Poll::Ready(Err(error)))
    }
}

impl TakeBytes for TcpStream {}

impl AsyncWrite for TcpStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.act(|end| {
            if end.connection.is_dead() {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            let data = Bytes::copy_from_slice(&buf[..buf.len().min(MOST_WRITTEN)]);
            let len = data.len();
            let taken = len - end.connection.write_some(data).len();
            if taken == 0 && len > 0 {
                end.writer = Some(cx.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(Ok(taken))
        });
        written.unwrap_or_else(|error| Poll::Ready(Err(error)))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.act(|end| end.connection.finish()))
    }
}

impl Drop for TcpStream {
    fn drop(&mut self) {
        // Like a closed socket: written data is still sent.
        let _ = self.act(|end| end.connection.finish());
    }
}
