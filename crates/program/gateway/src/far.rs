//! The far side: connects streams of associations to their targets.

mod http;
mod pictures;
mod udp;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use anabranch::Association;
use anabranch_pictures::Converter;
use bytes::Bytes;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use self::udp::Udp;
use crate::access::{Access, Asked, Log};
use crate::accounts::Account;
use crate::dial::Dialler;
use crate::protocol::{Content, Request, parse_request, reply};
use crate::reading::read;
use crate::relay::{Meter, prepare, relay};
use crate::rules::Rules;
use crate::status::{Refusal, Status};
use crate::stream::Stream;
use crate::target::{Malformed, Target};
use crate::traffic::{Amount, Carries, Traffic};
use crate::udp::counters::{self, UdpStatistics};

/// How long the request of a stream may take to arrive. It is the first thing on it, so usually it is there.
const REQUEST: Duration = Duration::from_secs(30);

/// How long the streams of an association may take to end after it.
const LAST: Duration = Duration::from_secs(1);

/// Options of the far side.
#[derive(Clone, Debug)]
pub struct FarOptions {
    /// Which targets may be connected to.
    pub rules: Rules,
    /// Most connections at the same time, over all associations.
    pub connections: usize,
    /// How long connecting to a target may take, with resolving its name.
    pub connect_timeout: Duration,
    /// Most flows of UDP at the same time, over all associations.
    pub udp_flows: usize,
    /// How long a flow of UDP may send nothing. At least two minutes, so that applications need not keep it alive more
    /// often than behind an address translator (RFC 4787 section 4.3).
    pub udp_idle: Duration,
    /// Makes pictures progressive in answers to plain http. `None` passes all bytes on as they are.
    pub pictures: Option<Arc<Converter>>,
}

impl Default for FarOptions {
    fn default() -> Self {
        let rules = Rules::default();
        Self {
            rules,
            connections: 4096,
            connect_timeout: Duration::from_secs(20),
            udp_flows: 1024,
            udp_idle: Duration::from_secs(120),
            pictures: None,
        }
    }
}

/// The far side of a gateway.
#[derive(Clone)]
pub struct Far {
    dialler: Arc<Dialler>,
    places: Arc<Semaphore>,
    udp: Arc<Udp>,
    pictures: Option<Arc<Converter>>,
    log: Log,
    traffic: Arc<Traffic>,
}

impl fmt::Debug for Far {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Far").field("places", &self.places.available_permits()).finish()
    }
}

/// The bytes of a stream of the near side: those to TCP are towards the target.
struct FromStream(Arc<Meter>);

impl Carries for FromStream {
    fn carried(&self) -> Amount {
        Amount::new(self.0.to_tcp.load(Relaxed), self.0.from_tcp.load(Relaxed))
    }
}

/// What is known about a stream when it ends.
#[derive(Default)]
struct Ended {
    target: Option<Target>,
    address: Option<std::net::SocketAddr>,
    status: Option<Status>,
    error: Option<String>,
}

impl Far {
    /// `log` is called for each connection that ends.
    pub fn new(options: FarOptions, log: Log) -> Self {
        let FarOptions { rules, connections, connect_timeout, udp_flows, udp_idle, pictures } =
            options;
        // Which hosts are reached is not recorded here.
        let traffic = Traffic::new(0);
        let log = traffic.counting(log);
        let dialler = Arc::new(Dialler::new(rules, connect_timeout));
        let udp = Udp {
            dialler: Arc::clone(&dialler),
            places: Arc::new(Semaphore::new(udp_flows)),
            idle: udp_idle,
            log: Arc::clone(&log),
            counters: counters::Shared::default(),
            buffer: udp::buffer(),
        };
        let places = Arc::new(Semaphore::new(connections));
        Self { dialler, places, udp: Arc::new(udp), pictures, log, traffic }
    }

    /// What was carried, without hosts.
    pub fn traffic(&self) -> &Arc<Traffic> {
        &self.traffic
    }

    /// The converter of pictures, if there is one.
    pub fn pictures(&self) -> Option<&Arc<Converter>> {
        self.pictures.as_ref()
    }

    /// What happened to datagrams so far.
    pub fn udp(&self) -> UdpStatistics {
        self.udp.counters.statistics()
    }

    /// Serves the streams and datagrams of an association of a user until it ends. Connections still open then are
    /// reset. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The association was lost.
    pub async fn serve(&self, association: &Association, account: &Arc<Account>) -> io::Result<()> {
        let client = association.peer_addresses().first().copied();
        let mut streams = JoinSet::new();
        let datagrams = self.udp.serve(association, client, account);
        let mut datagrams = std::pin::pin!(datagrams);
        let mut carries_datagrams = true;
        let end = loop {
            tokio::select! {
                () = &mut datagrams, if carries_datagrams => carries_datagrams = false,
                accepted = association.accept_stream() => match accepted {
                    Ok(Some(halves)) => {
                        let (far, account) = (self.clone(), Arc::clone(account));
                        let stream = Stream::new(halves);
                        streams.spawn(async move { far.stream(stream, client, &account).await });
                    }
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(error.into()),
                },
                Some(_) = streams.join_next() => {}
            }
        };
        // Each notices the end by itself, and resets its connection. Those that are still connecting are dropped.
        let all = async { while streams.join_next().await.is_some() {} };
        let _ = timeout(LAST, all).await;
        end
    }

    async fn stream(
        &self,
        stream: Stream,
        client: Option<std::net::SocketAddr>,
        account: &Arc<Account>,
    ) {
        let began = Instant::now();
        let meter = Arc::new(Meter::default());
        let counted = self.traffic.begin("", FromStream(Arc::clone(&meter)));
        let mut ended = Ended::default();
        self.answer(stream, &meter, account, &mut ended).await;
        drop(counted);
        (self.log)(Access {
            asked: Asked::Stream,
            client,
            target: ended.target.map(|target| target.to_string()).unwrap_or_default(),
            address: ended.address,
            status: ended.status.unwrap_or(Status::Malformed),
            code: None,
            bytes_sent: meter.to_tcp.load(Relaxed),
            bytes_received: meter.from_tcp.load(Relaxed),
            took: began.elapsed(),
            error: ended.error,
        });
    }

    /// Reads the request of a stream, and does what it asks for.
    async fn answer(
        &self,
        mut stream: Stream,
        meter: &Arc<Meter>,
        account: &Arc<Account>,
        ended: &mut Ended,
    ) {
        let asked = match timeout(REQUEST, read(&mut stream.reader, parse_request)).await {
            Ok(Ok(Ok(Request::Connect(content, target)))) => Ok((content, target)),
            Ok(Ok(Ok(Request::NoTarget))) => {
                Err(Refusal::new(Status::Malformed, "this host or port cannot exist"))
            }
            Ok(Ok(Ok(Request::Unknown))) => {
                Err(Refusal::new(Status::Unsupported, "the far side has another version"))
            }
            Ok(Ok(Err(Malformed))) => Err(Status::Malformed.into()),
            Ok(Err(error)) => {
                ended.error = Some(error.to_string());
                return;
            }
            Err(_) => {
                Err(Refusal::new(Status::TimedOut, "the request of the stream is incomplete"))
            }
        };
        let places = account.place().and_then(|own| {
            let place = self.places.try_acquire().map_err(|_| Refusal::from(Status::Busy))?;
            Ok((own, place))
        });
        let connected = match asked {
            Ok((content, target)) => {
                let connected = match &places {
                    Ok(_) => self.dialler.dial(&target).await,
                    Err(refusal) => Err(refusal.clone()),
                };
                ended.target = Some(target);
                connected.map(|tcp| (content, tcp))
            }
            Err(refusal) => Err(refusal),
        };
        if let Err(error) = self.connected(connected, stream, meter, account, ended).await {
            ended.error = Some(error.to_string());
        }
    }

    async fn connected(
        &self,
        connected: Result<(Content, TcpStream), Refusal>,
        mut stream: Stream,
        meter: &Arc<Meter>,
        account: &Arc<Account>,
        ended: &mut Ended,
    ) -> io::Result<()> {
        let status =
            connected.as_ref().map_or_else(|refusal| refusal.status, |_| Status::Connected);
        ended.status = Some(status);
        match connected {
            Ok((content, tcp)) => {
                prepare(&tcp);
                ended.address = tcp.peer_addr().ok();
                stream.writer.write_bytes(reply(&Ok(()))).await?;
                match &self.pictures {
                    Some(converter) if content == Content::Http => {
                        http::serve(tcp, stream, Arc::clone(meter), account, Arc::clone(converter))
                            .await
                    }
                    _ => relay(tcp, Bytes::new(), stream, meter, Some(account)).await,
                }
            }
            Err(refusal) => {
                ended.error = Some(refusal.to_string());
                stream.writer.write_bytes(reply(&Err(refusal))).await?;
                stream.writer.finish().await
            }
        }
    }
}
