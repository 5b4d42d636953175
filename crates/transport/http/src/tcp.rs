//! TCP as the baseline: each stream is a separate TCP connection.

use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpSocket, TcpStream};

use crate::stream::{AcceptStreams, ByteStream, OpenStreams, TakeBytes};

/// Maximum unsent bytes that the system buffers in addition to those in flight, where this can be limited.
#[cfg(target_os = "linux")]
const NOT_SENT: u32 = 64 << 10;

/// A client's "connection": a TCP connection for each stream.
#[derive(Debug)]
pub struct TcpClient {
    remotes: Vec<SocketAddr>,
    locals: Vec<SocketAddr>,
    connect_timeout: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The stream that [`TcpClient::connect`] opened to check that the server answers.
    first: Option<TcpStream>,
    /// The remote address that answered first, to which further streams connect.
    chosen: Option<SocketAddr>,
    connections: Vec<TcpPath>,
}

/// The addresses of one stream's TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpPath {
    /// The stream's number.
    pub id: u16,
    /// Local address.
    pub local: SocketAddr,
    /// Remote address.
    pub remote: SocketAddr,
}

impl TcpClient {
    /// Connects to the first of `remotes` that answers, trying each for `connect_timeout`. If `locals` is not
    /// empty, a connection uses the first local address of the remote's family; their port should be 0.
    ///
    /// # Errors
    /// None of them answered. The error is that of the last attempt.
    pub async fn connect(
        remotes: Vec<SocketAddr>,
        locals: Vec<SocketAddr>,
        connect_timeout: Duration,
    ) -> io::Result<Self> {
        let client = Self { remotes, locals, connect_timeout, state: Mutex::default() };
        let mut last = io::Error::new(io::ErrorKind::InvalidInput, "no remote address given");
        for &remote in &client.remotes {
            match client.connect_to(remote).await {
                Ok(stream) => {
                    let mut state = client.state();
                    state.first = Some(stream);
                    state.chosen = Some(remote);
                    drop(state);
                    return Ok(client);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// The connections opened so far, in the order of their numbers.
    pub fn paths(&self) -> Vec<TcpPath> {
        self.state().connections.clone()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connect_to(&self, remote: SocketAddr) -> io::Result<TcpStream> {
        let (socket, local) = if remote.is_ipv4() {
            (TcpSocket::new_v4()?, self.locals.iter().find(|ip| ip.is_ipv4()))
        } else {
            (TcpSocket::new_v6()?, self.locals.iter().find(|ip| ip.is_ipv6()))
        };
        match local {
            Some(&local) => socket.bind(local)?,
            None if self.locals.is_empty() => {}
            None => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("no local address reaches {}", remote.ip()),
                ));
            }
        }
        let stream = tokio::time::timeout(self.connect_timeout, socket.connect(remote))
            .await
            .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "no answer in time"))??;
        // Requests are written as a whole, so waiting for more data to bundle would only delay them.
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

impl OpenStreams for TcpClient {
    type Stream = TcpStream;

    async fn open(&self) -> io::Result<ByteStream<TcpStream>> {
        let (first, chosen) = {
            let mut state = self.state();
            (state.first.take(), state.chosen)
        };
        let io = match (first, chosen) {
            (Some(stream), _) => stream,
            (None, Some(remote)) => self.connect_to(remote).await?,
            (None, None) => return Err(io::ErrorKind::NotConnected.into()),
        };
        let (local, remote) = (io.local_addr()?, io.peer_addr()?);
        let mut state = self.state();
        let id = u16::try_from(state.connections.len())
            .map_err(|_| io::Error::other("all 65,536 streams have been used"))?;
        state.connections.push(TcpPath { id, local, remote });
        Ok(ByteStream { id, io })
    }
}

/// The server side: an accepted TCP connection is a connection with a single stream, number 0.
#[derive(Debug)]
pub struct TcpServerConnection(Option<TcpStream>);

impl TcpServerConnection {
    /// Wraps an accepted connection.
    ///
    /// # Errors
    /// The option TCP_NODELAY cannot be set.
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        // Otherwise the system accepts megabytes at once, and then nothing for a long time, so that a slow peer
        // looks like one that reads nothing. This still happens where the option is not supported.
        #[cfg(target_os = "linux")]
        let _ = socket2::SockRef::from(&stream).set_tcp_notsent_lowat(NOT_SENT);
        Ok(Self(Some(stream)))
    }
}

impl TakeBytes for TcpStream {}

impl AcceptStreams for TcpServerConnection {
    type Stream = TcpStream;

    async fn accept(&mut self) -> io::Result<Option<ByteStream<TcpStream>>> {
        Ok(self.0.take().map(|io| ByteStream { id: 0, io }))
    }
}
