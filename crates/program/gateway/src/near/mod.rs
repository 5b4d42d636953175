//! The near side: a proxy for HTTP and SOCKS5 on one TCP port.

mod associate;
pub(crate) mod body;
#[cfg(target_os = "linux")]
pub(crate) mod command;
pub(crate) mod fields;
pub(crate) mod http;
mod link;
mod pac;
mod page;
pub(crate) mod socks5;
mod tunnel;
mod udp;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

pub(crate) use self::link::number;
pub use self::link::{Connect, Link, LinkEvent};
pub use self::page::Page;
use crate::access::{Access, Asked, Log};
use crate::protocol::Content;
use crate::reading::read;
use crate::relay::{Meter, prepare, relay};
use crate::status::{Refusal, Status};
use crate::stream::Stream;
use crate::target::Target;
use crate::traffic::{Amount, Carries, Connection, Traffic};
use crate::udp::counters::UdpStatistics;

/// How long the first byte of a connection, and each step of SOCKS5, may take.
const HANDSHAKE: Duration = Duration::from_secs(30);

/// How long the far side may take to connect to a target. It has a limit of its own, which is shorter.
const REPLY: Duration = Duration::from_secs(120);

/// Most hosts that the status page tells apart.
const HOSTS: usize = 200;

/// Options of the near side.
#[derive(Clone, Debug)]
pub struct NearOptions {
    /// Most connections of clients at the same time; others wait.
    pub connections: usize,
    /// How long a target may take to answer a request through the HTTP proxy.
    pub answer_timeout: Duration,
    /// How long the body of a request through the HTTP proxy may be silent.
    pub body_timeout: Duration,
    /// The status page, if there is to be one.
    pub page: Option<Page>,
}

impl Default for NearOptions {
    fn default() -> Self {
        Self {
            connections: 4096,
            answer_timeout: Duration::from_secs(300),
            body_timeout: Duration::from_secs(120),
            page: None,
        }
    }
}

/// The near side of a gateway.
pub struct Near {
    link: Arc<Link>,
    log: Log,
    answer_timeout: Duration,
    body_timeout: Duration,
    places: Arc<Semaphore>,
    traffic: Arc<Traffic>,
    page: Option<Page>,
}

impl fmt::Debug for Near {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Near").field("link", &self.link).finish_non_exhaustive()
    }
}

impl Near {
    /// `log` is called for each connection and request that ends.
    pub fn new(link: Arc<Link>, options: &NearOptions, log: Log) -> Arc<Self> {
        let places = Arc::new(Semaphore::new(options.connections));
        let NearOptions { answer_timeout, body_timeout, .. } = *options;
        let traffic = Traffic::new(HOSTS);
        let log = traffic.counting(log);
        let page = options.page.clone();
        Arc::new(Self { link, log, answer_timeout, body_timeout, places, traffic, page })
    }

    /// What was carried.
    pub fn traffic(&self) -> &Arc<Traffic> {
        &self.traffic
    }

    /// Counts a connection or request to a target until the guard is dropped.
    fn count(&self, target: &Target, carries: impl Carries + 'static) -> Connection {
        self.traffic.begin(&target.host.to_string(), carries)
    }

    /// What happened to datagrams so far.
    pub fn udp(&self) -> UdpStatistics {
        self.link.flows().statistics()
    }

    /// Serves clients. Never returns; dropping the future ends all their connections. Must be called within a tokio
    /// runtime.
    pub async fn serve(self: &Arc<Self>, listener: TcpListener) {
        let mut clients = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.accept(&listener) => accepted,
                Some(_) = clients.join_next() => continue,
            };
            match accepted {
                Ok((place, tcp, client)) => {
                    let near = Arc::clone(self);
                    clients.spawn(async move {
                        let _place = place;
                        near.client(tcp, client).await;
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection to the proxy cannot be accepted");
                    // The system may be out of descriptors.
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    /// Cancel-safe, except that the turn of waiting for a place is lost.
    async fn accept(
        &self,
        listener: &TcpListener,
    ) -> io::Result<(tokio::sync::OwnedSemaphorePermit, TcpStream, SocketAddr)> {
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(io::Error::other)?;
        let (tcp, client) = listener.accept().await?;
        Ok((place, tcp, client))
    }

    /// Tells by the first byte what a client speaks.
    async fn client(self: Arc<Self>, tcp: TcpStream, client: SocketAddr) {
        prepare(&tcp);
        let mut first = [0];
        match timeout(HANDSHAKE, tcp.peek(&mut first)).await {
            Ok(Ok(1)) => {}
            _ => return,
        }
        match first {
            [socks5::VERSION] => self.socks5(tcp, client).await,
            [b'A'..=b'Z' | b'a'..=b'z' | b'\r' | b'\n'] => http::serve(self, tcp, client).await,
            [other] => {
                tracing::info!(%client, first = other, "a client speaks neither HTTP nor SOCKS5");
            }
        }
    }

    async fn socks5(&self, mut tcp: TcpStream, client: SocketAddr) {
        let asked = match timeout(HANDSHAKE, negotiate(&mut tcp)).await {
            Ok(Ok(asked)) => asked,
            Ok(Err(error)) => return tracing::debug!(%client, %error, "SOCKS5 failed"),
            Err(_) => return,
        };
        let began = Instant::now();
        let (status, stream) = match asked {
            Ok(Wanted::Associate(port)) => {
                match associate::serve(self.link.flows(), tcp, client, port).await {
                    Ok(access) => (self.log)(access),
                    Err(error) => tracing::debug!(%client, %error, "UDP ASSOCIATE failed"),
                }
                return;
            }
            Ok(Wanted::Connect(target)) => match self.connect(&target).await {
                Ok(stream) => (Status::Connected, Some((stream, target))),
                Err(refusal) => {
                    self.refused((Asked::Socks5, client), &target, &refusal, began);
                    (refusal.status, None)
                }
            },
            Err(status) => (status, None),
        };
        if tcp.write_all(&socks5::reply(status)).await.is_ok()
            && let Some((stream, target)) = stream
        {
            self.tunnel(tcp, Bytes::new(), stream, (Asked::Socks5, client), target).await;
        }
    }

    /// Opens a stream to a target, and waits until the far side has connected. If the association is lost meanwhile,
    /// tries again on the next one: nothing of the client was sent yet.
    async fn connect(&self, target: &Target) -> Result<Stream, Refusal> {
        let mut stream = self.link.open(Content::Bytes, target).await?;
        match reply(&mut stream).await {
            Err(refusal) if refusal.status == Status::Lost => {}
            replied => return replied.map(|()| stream),
        }
        let mut stream = self.link.open(Content::Bytes, target).await?;
        reply(&mut stream).await.map(|()| stream)
    }

    /// Carries bytes between a client and its target until both have ended.
    async fn tunnel(
        &self,
        tcp: TcpStream,
        first: Bytes,
        stream: Stream,
        (asked, client): (Asked, SocketAddr),
        target: Target,
    ) {
        let began = Instant::now();
        let meter = Arc::new(Meter::default());
        let counted = self.count(&target, Arc::clone(&meter));
        let ended = relay(tcp, first, stream, &meter, None).await;
        drop(counted);
        (self.log)(Access {
            asked,
            client: Some(client),
            target: target.to_string(),
            address: None,
            status: Status::Connected,
            code: None,
            bytes_sent: meter.from_tcp.load(Relaxed),
            bytes_received: meter.to_tcp.load(Relaxed),
            took: began.elapsed(),
            error: ended.err().map(|error| error.to_string()),
        });
    }

    /// Logs a connection that could not be established.
    fn refused(
        &self,
        (asked, client): (Asked, SocketAddr),
        target: &Target,
        refusal: &Refusal,
        began: Instant,
    ) {
        let http = matches!(asked, Asked::Connect);
        (self.log)(Access {
            asked,
            client: Some(client),
            target: target.to_string(),
            address: None,
            status: refusal.status,
            code: http.then(|| refusal.status.http().as_u16()),
            bytes_sent: 0,
            bytes_received: 0,
            took: began.elapsed(),
            error: Some(refusal.to_string()),
        });
    }
}

impl Carries for Arc<Meter> {
    fn carried(&self) -> Amount {
        Amount::new(self.from_tcp.load(Relaxed), self.to_tcp.load(Relaxed))
    }
}

/// Waits for the far side's reply.
async fn reply(stream: &mut Stream) -> Result<(), Refusal> {
    let late = |_| Refusal::new(Status::TimedOut, "the far side has not answered in time");
    timeout(REPLY, link::reply(stream)).await.map_err(late)?
}

/// What a client of SOCKS5 wants.
enum Wanted {
    Connect(Target),
    /// A UDP socket, to which it will send from this port.
    Associate(u16),
}

/// The first half of SOCKS5: what the client asks for, or with which status it is to be refused.
async fn negotiate(tcp: &mut TcpStream) -> io::Result<Result<Wanted, Status>> {
    let malformed = || io::Error::from(io::ErrorKind::InvalidData);
    let accepted = read(tcp, socks5::parse_greeting).await?.map_err(|_| malformed())?;
    tcp.write_all(&socks5::method(accepted)).await?;
    if !accepted {
        return Err(io::Error::other("the client insists on authentication"));
    }
    Ok(match read(tcp, socks5::parse_request).await? {
        Ok(socks5::Request::Connect(target)) => Ok(Wanted::Connect(target)),
        Ok(socks5::Request::Associate(port)) => Ok(Wanted::Associate(port)),
        Ok(socks5::Request::NoTarget) | Err(_) => Err(Status::Malformed),
        Ok(socks5::Request::Unsupported) => Err(Status::Unsupported),
    })
}
