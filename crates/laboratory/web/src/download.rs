//! One download of a file over one or two paths that may be cut.

use std::io;
use std::sync::Mutex;
use std::time::Duration;

use anabranch::config::AssociationConfig;
use anabranch_http::OpenStreams;
use anabranch_impair::LinkConfig;
use anabranch_tcp::Config as TcpConfig;
use bytes::{Buf, Bytes};
use http::{Request, StatusCode};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

use crate::executor::World;
use crate::hosts::{HOST, associate, connect_tcp};
use crate::load::{LoadError, lock};
use crate::network::Network;
use crate::quic::{QuicCongestion, QuicOptions, connect_http3};
use crate::site::Site;

/// The path of the file.
const FILE: &str = "/file.bin";

/// The longest head of an answer in bytes.
const LONGEST_HEAD: usize = 16 << 10;

/// How long the server waits for a client that reads nothing: the transport decides when a connection is dead.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// The transport of a download.
#[derive(Clone, Debug)]
pub enum Carrier {
    /// One SCTP association over all paths, with these options at both ends.
    Sctp(Box<AssociationConfig>),
    /// One TCP connection over the first path, with these options at both ends.
    Tcp(Box<TcpConfig>),
    /// HTTP/3 over one QUIC connection on the first path, by quinn with its defaults: a connection without packets
    /// ends after 30 s. Neither end moves it to another path.
    Http3(QuicCongestion),
}

/// A file that a client downloads with HTTP: HTTP/1.1 over SCTP and TCP, or HTTP/3.
///
/// The cuts of the links ([`LinkConfig::cut`]) count from the start of the handshake. What happens before a cut does
/// not depend on it: the same download without it is the same until then.
#[derive(Clone, Debug)]
pub struct Download {
    /// Length of the file in bytes.
    pub bytes: usize,
    /// The transport.
    pub carrier: Carrier,
    /// The paths, each with a network of its own, at least 1 and at most 127: for each the link from the client to the
    /// server, and back.
    pub paths: Vec<[LinkConfig; 2]>,
    /// Seed for all random choices.
    pub seed: u64,
    /// Virtual time after which the download is given up.
    pub limit: Duration,
    /// Length of the intervals of [`Downloaded::carried`].
    pub interval: Duration,
}

/// The result of a download.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Downloaded {
    /// When the client was connected.
    pub connected: Option<Duration>,
    /// When bytes of the file arrived: the time, and the number of bytes by then.
    pub arrivals: Vec<(Duration, u64)>,
    /// When the last byte arrived.
    pub completed: Option<Duration>,
    /// When and why the connection ended before that.
    pub failed: Option<(Duration, String)>,
    /// For each path, the bytes of the IP packets that reached the client in each interval, up to the last interval
    /// with a packet.
    pub carried: Vec<Vec<u64>>,
    /// When the download was complete, failed or was given up.
    pub ended: Duration,
    /// A hash of all packets and their times.
    pub trace: u64,
}

impl Downloaded {
    /// The pauses: periods between two arrivals, and until the end if the file is not complete. A download in which
    /// nothing arrived is one pause. Only those that are longer than all before them.
    pub fn record_pauses(&self) -> Vec<(Duration, Duration)> {
        let mut last = self.arrivals.first().map_or(Duration::ZERO, |(at, _)| *at);
        let mut longest = Duration::ZERO;
        let mut records = Vec::new();
        let end = self.completed.is_none().then_some(self.ended);
        for at in self.arrivals.iter().map(|(at, _)| *at).chain(end) {
            let pause = at.saturating_sub(last);
            if pause > longest {
                longest = pause;
                records.push((last, at));
            }
            last = at;
        }
        records
    }

    /// The bytes of the file that had arrived at a time.
    pub fn bytes_at(&self, at: Duration) -> u64 {
        let count = self.arrivals.partition_point(|(arrived, _)| *arrived <= at);
        count.checked_sub(1).and_then(|last| self.arrivals.get(last)).map_or(0, |(_, bytes)| *bytes)
    }
}

impl Download {
    /// Downloads the file. A connection that ends early is a result.
    ///
    /// # Errors
    /// The description is invalid.
    pub fn run(&self) -> Result<Downloaded, LoadError> {
        let world = World::new(Network::new(&self.paths, self.seed)?);
        let interval = u64::try_from(self.interval.as_nanos()).unwrap_or(u64::MAX);
        world.state().network.meter(interval);
        let file = (FILE.to_owned(), Bytes::from(vec![0; self.bytes]));
        let site = Site::new([file]);
        let work = Work { world: &world, site: &site, progress: Mutex::default() };
        let done = match &self.carrier {
            Carrier::Sctp(config) => world.run(self.over_sctp(&work, config), self.limit),
            Carrier::Tcp(config) => world.run(self.over_tcp(&work, config), self.limit),
            Carrier::Http3(congestion) => {
                world.run(self.over_http3(&work, *congestion), self.limit)
            }
        }?;
        let (completed, failed, ended) = match done {
            None => (None, None, self.limit),
            Some(Ok(())) => (Some(world.now()), None, world.now()),
            Some(Err(error @ (LoadError::Bind(_) | LoadError::Listen(_)))) => return Err(error),
            Some(Err(error)) => (None, Some((world.now(), error.to_string())), world.now()),
        };
        let Progress { connected, arrivals } = std::mem::take(&mut *lock(&work.progress));
        let state = world.state();
        let (carried, trace) = (state.network.carried(), state.network.trace());
        drop(state);
        Ok(Downloaded { connected, arrivals, completed, failed, carried, ended, trace })
    }

    async fn over_sctp(
        &self,
        work: &Work<'_>,
        config: &AssociationConfig,
    ) -> Result<(), LoadError> {
        let configs = [config.clone(), config.clone()];
        let pair = associate(work.world, work.site, configs, self.seed, PATIENCE).await?;
        work.connected();
        Ok(self.fetch(work, &pair.client).await?)
    }

    async fn over_tcp(&self, work: &Work<'_>, config: &TcpConfig) -> Result<(), LoadError> {
        let streams = connect_tcp(work.world, work.site, config, PATIENCE).await?;
        work.connected();
        Ok(self.fetch(work, &streams).await?)
    }

    /// Requests the file on a stream, and reads it to its end.
    async fn fetch<C: OpenStreams>(&self, work: &Work<'_>, connection: &C) -> io::Result<()> {
        let mut stream = connection.open().await?.io;
        let request = format!("GET {FILE} HTTP/1.1\r\nHost: {HOST}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await?;
        let mut buffer = vec![0; 64 << 10];
        let mut head = Vec::new();
        let end = loop {
            let count = read_some(&mut stream, &mut buffer).await?;
            head.extend_from_slice(&buffer[..count]);
            if let Some(end) = head.windows(4).position(|end| end == b"\r\n\r\n") {
                break end + 4;
            }
            if head.len() > LONGEST_HEAD {
                return Err(io::Error::other("the head of the answer has no end"));
            }
        };
        if !head.starts_with(b"HTTP/1.1 200 ") {
            return Err(io::Error::other("the server has not answered with the file"));
        }
        let mut received = head.len() - end;
        work.arrived(received);
        while received < self.bytes {
            let count = read_some(&mut stream, &mut buffer).await?;
            received += count;
            work.arrived(count);
        }
        Ok(())
    }

    async fn over_http3(
        &self,
        work: &Work<'_>,
        congestion: QuicCongestion,
    ) -> Result<(), LoadError> {
        let options = QuicOptions { congestion, idle_timeout: true };
        let pair = connect_http3(work.world, work.site, options, self.seed).await?;
        work.connected();
        let request = Request::get(format!("https://{HOST}{FILE}")).body(());
        let request = request.map_err(io::Error::other)?;
        let opened = pair.sender.clone().send_request(request).await;
        let mut stream = opened.map_err(io::Error::other)?;
        stream.finish().await.map_err(io::Error::other)?;
        let answer = stream.recv_response().await.map_err(io::Error::other)?;
        if answer.status() != StatusCode::OK {
            return Err(io::Error::other("the server has not answered with the file").into());
        }
        let mut received = 0;
        while let Some(piece) = stream.recv_data().await.map_err(io::Error::other)? {
            received += piece.remaining();
            work.arrived(piece.remaining());
        }
        if received < self.bytes {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        Ok(())
    }
}

/// Reads at least one byte.
async fn read_some<S: AsyncRead + Unpin>(stream: &mut S, buffer: &mut [u8]) -> io::Result<usize> {
    match stream.read(buffer).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        count => Ok(count),
    }
}

/// A download in progress.
struct Work<'a> {
    world: &'a World,
    site: &'a Site,
    progress: Mutex<Progress>,
}

/// What has happened so far.
#[derive(Debug, Default)]
struct Progress {
    connected: Option<Duration>,
    arrivals: Vec<(Duration, u64)>,
}

impl Work<'_> {
    fn connected(&self) {
        lock(&self.progress).connected = Some(self.world.now());
    }

    /// Records that bytes of the file have arrived.
    fn arrived(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let (now, mut progress) = (self.world.now(), lock(&self.progress));
        let before = progress.arrivals.last().copied();
        let sum = before.map_or(0, |(_, sum)| sum) + bytes as u64;
        if before.is_some_and(|(at, _)| at == now) {
            progress.arrivals.pop();
        }
        progress.arrivals.push((now, sum));
    }
}
