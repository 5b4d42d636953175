//! One load of a page.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anabranch::config::{AssociationConfig, MtuConfig};
use anabranch::{Association, BindError, ConnectError, ListenError};
use anabranch_http::{FetchError, OpenStreams, PageLoad, PageRequest, load_page};
use anabranch_impair::{ConfigError, LinkConfig, LinkStats, QueueLimit};
use anabranch_tcp::{Config as TcpConfig, ForwardRto, Undo};

use crate::executor::World;
use crate::hosts::{HOST, PATIENCE, associate, connect_tcp};
use crate::network::{Host, Network};
use crate::quic::QuicCongestion;
use crate::site::Site;

/// The transport of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carriage {
    /// One SCTP association.
    Sctp {
        /// Number of streams, including that of the index; 1 to 65,535.
        streams: u16,
    },
    /// TCP connections: the index over the first one, then all.
    Tcp {
        /// Number of connections, at least 1.
        connections: u16,
        /// Whether requests are written without waiting for earlier answers.
        pipelined: bool,
    },
    /// HTTP/3 over one QUIC connection, by quinn: a stream for each object, all requested immediately.
    Http3 {
        /// The congestion control.
        congestion: QuicCongestion,
    },
}

/// A page, the path to its server, and its transport.
#[derive(Clone, Debug)]
pub struct Load {
    /// The files of the server.
    pub site: Site,
    /// The transport.
    pub carriage: Carriage,
    /// The link from the client to the server.
    pub up: LinkConfig,
    /// The link from the server to the client.
    pub down: LinkConfig,
    /// Options of the server's end of an association. The number of streams is raised as needed.
    pub sctp_server: AssociationConfig,
    /// Options of the client's end.
    pub sctp_client: AssociationConfig,
    /// Options of both ends of TCP connections.
    pub tcp: TcpConfig,
    /// Seed for all random choices.
    pub seed: u64,
    /// Virtual time after which the load is given up.
    pub limit: Duration,
    /// Whether bodies are stored.
    pub keep: bool,
}

/// The result of a load.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Loaded {
    /// How the page arrived.
    pub page: PageLoad,
    /// Duration of the preceding handshake.
    pub connecting: Duration,
    /// Counters of the client's transport, and of the server's.
    pub transport: [Transport; 2],
    /// Counters of the links: from the client, from the server.
    pub links: [LinkStats; 2],
    /// A hash of all packets and their times.
    pub trace: u64,
}

impl Loaded {
    /// The values known once the connection is established.
    pub(crate) fn begin(world: &World) -> Self {
        Self {
            page: PageLoad::default(),
            connecting: world.now(),
            transport: Default::default(),
            links: Default::default(),
            trace: 0,
        }
    }
}

/// Counters of one end of all connections of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transport {
    /// Expiries of retransmission timers on data; `None` if they are not reported, as by QUIC.
    pub timeouts: Option<u64>,
    /// Chunks or segments that were retransmitted before a timer expired; for QUIC, packets that it considered lost.
    pub fast_retransmits: u64,
    /// Retransmitted packets of handshakes; for QUIC, CRYPTO frames beyond those of a handshake
    /// without losses.
    pub handshake_retransmissions: u64,
}

/// Why a page could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The description of a link is invalid.
    #[error("the link: {0}")]
    Link(#[from] ConfigError),
    /// The description of an endpoint is invalid.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The description of the association is invalid.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The server could not be reached over SCTP.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The server could not be reached over TCP or QUIC, or virtual time is not available.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The index failed.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// It took too long.
    #[error("the page was not there after {0:?}")]
    Limit(Duration),
}

impl Load {
    /// A page over 1 Mb/s with a round trip of 350 ms, a queue of 50 packets and no losses. The association has the
    /// options of RFC 9260, with packets of 1,500 bytes, and schedules streams round-robin. TCP has selective
    /// acknowledgements, timestamps, F-RTO and undo of spurious recoveries, and acknowledges every second segment from
    /// the first one on, as FreeBSD does.
    pub fn new(site: Site, carriage: Carriage) -> Self {
        let link = LinkConfig::new()
            .rate(1_000_000)
            .delay(Duration::from_millis(175))
            .queue(QueueLimit::Packets(50));
        let mut sctp = AssociationConfig::rfc9260();
        sctp.sending.scheduler = anabranch::config::SchedulerKind::RoundRobin;
        sctp.mtu = MtuConfig::fixed(1500);
        let mut tcp = TcpConfig::default();
        (tcp.timestamps, tcp.f_rto, tcp.undo) = (true, ForwardRto::Sack, Undo::Timestamps);
        tcp.quick_acks = 0;
        Self {
            site,
            carriage,
            up: link.clone(),
            down: link,
            sctp_server: sctp.clone(),
            sctp_client: sctp,
            tcp,
            seed: 1,
            limit: Duration::from_secs(3600),
            keep: false,
        }
    }

    /// Loads the page.
    ///
    /// # Errors
    /// The description is invalid, or the page did not arrive in time.
    pub fn run(&self) -> Result<Loaded, LoadError> {
        let path = [self.up.clone(), self.down.clone()];
        let world = World::new(Network::new(&[path], self.seed)?);
        let done = match self.carriage {
            Carriage::Sctp { streams } => world.run(self.over_sctp(&world, streams), self.limit),
            Carriage::Tcp { connections, pipelined } => {
                world.run(self.over_tcp(&world, connections, pipelined), self.limit)
            }
            Carriage::Http3 { congestion } => {
                world.run(self.over_http3(&world, congestion), self.limit)
            }
        };
        let mut loaded = done?.ok_or(LoadError::Limit(self.limit))??;
        let network = &world.state().network;
        loaded.links = Host::BOTH.map(|host| network.link(host));
        loaded.trace = network.trace();
        Ok(loaded)
    }

    pub(crate) fn request(&self, streams: u16, pipelined: bool) -> PageRequest {
        let mut request = PageRequest::new(HOST, Site::INDEX);
        request.streams = Some(usize::from(streams));
        (request.pipelined, request.keep) = (pipelined, self.keep);
        request
    }

    async fn page<C: OpenStreams>(
        &self,
        world: &World,
        connection: &C,
        request: &PageRequest,
    ) -> Result<Loaded, LoadError> {
        let mut loaded = Loaded::begin(world);
        let clock = world.clone();
        loaded.page = load_page(connection, request, &move || clock.now()).await?;
        Ok(loaded)
    }

    async fn over_sctp(&self, world: &World, streams: u16) -> Result<Loaded, LoadError> {
        let with_streams = |config: &AssociationConfig| {
            let mut config = config.clone();
            config.sending.outbound_streams = config.sending.outbound_streams.max(streams);
            config.receiving.inbound_streams = config.receiving.inbound_streams.max(streams);
            config
        };
        let configs = [&self.sctp_client, &self.sctp_server].map(with_streams);
        let pair = associate(world, &self.site, configs, self.seed, PATIENCE).await?;
        let mut loaded = self.page(world, &pair.client, &self.request(streams, true)).await?;
        let resent = world.state().network.handshakes_resent();
        let server = lock(&pair.server).as_ref().map(|server| of_association(server, resent[1]));
        loaded.transport = [of_association(&pair.client, resent[0]), server.unwrap_or_default()];
        Ok(loaded)
    }

    async fn over_tcp(
        &self,
        world: &World,
        connections: u16,
        pipelined: bool,
    ) -> Result<Loaded, LoadError> {
        let streams = connect_tcp(world, &self.site, &self.tcp, PATIENCE).await?;
        let mut loaded = self.page(world, &streams, &self.request(connections, pipelined)).await?;
        let state = world.state();
        loaded.transport = Host::BOTH.map(|host| {
            state.network.tcp.stats(host).fold(Transport::default(), |sum, stats| Transport {
                timeouts: Some(sum.timeouts.unwrap_or_default() + stats.timeouts),
                fast_retransmits: sum.fast_retransmits + stats.fast_retransmissions,
                handshake_retransmissions: sum.handshake_retransmissions
                    + stats.handshake_retransmissions,
            })
        });
        Ok(loaded)
    }
}

fn of_association(association: &Association, handshake_retransmissions: u64) -> Transport {
    let counters = association.statistics().counters;
    Transport {
        timeouts: Some(counters.timeouts),
        fast_retransmits: counters.fast_retransmitted_chunks,
        handshake_retransmissions,
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
