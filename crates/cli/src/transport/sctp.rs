//! SCTP, over UDP or as IP protocol 132.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anabranch::{
    Association, AssociationConfig, ConnectOptions, Encapsulation, Endpoint, ListenOptions,
    Notification, SCTP_UDP_PORT, Statistics,
};
use anabranch_http::{ServerOptions, StreamTotals, fetch, serve_connection};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use super::{Delivery, Order, Service};
use crate::failure::Failure;
use crate::options::{SctpOptions, Transport};
use crate::report::{PathEvent, PathReport, SctpPath, Traffic};

/// Streams that one client of `serve` may use; each is memory of the server.
const SERVED_STREAMS: u16 = 1024;

/// How long a graceful end may take before the association is aborted.
const GRACE: Duration = Duration::from_secs(5);

/// Serves until the user stops it.
pub(crate) async fn serve(
    service: Service,
    transport: Transport,
    options: &SctpOptions,
    udp_port: Option<u16>,
) -> Result<(), Failure> {
    let mut config = config(options)?;
    config.outbound_streams = SERVED_STREAMS;
    config.inbound_streams = SERVED_STREAMS;
    let mut builder = Endpoint::builder()
        .encapsulation(transport.encapsulation().unwrap_or(Encapsulation::Udp))
        .local_addresses(service.listen.addresses.iter().copied())
        .udp_port(udp_port.unwrap_or(SCTP_UDP_PORT));
    if let Some(capture) = &options.capture {
        builder = builder.capture(capture);
    }
    let endpoint = builder.bind().map_err(Failure::failed)?;
    let port = service.listen.port;
    let listener = endpoint.listen(port, ListenOptions::from(config)).map_err(Failure::failed)?;
    let udp_port = (transport == Transport::SctpUdp).then(|| endpoint.udp_port());
    service.listening(transport, port, udp_port)?;
    let mut associations = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Some(association) => {
                    associations.spawn(answer(service.clone(), association));
                }
                None => return Ok(()),
            },
            Some(_) = associations.join_next() => {}
            () = service.interrupt.wait() => break,
        }
    }
    endpoint.close().await;
    // Each association tells what went over it.
    while associations.join_next().await.is_some() {}
    Ok(())
}

async fn answer(service: Service, association: Association) {
    let watch = Watch::start(&association);
    let served =
        serve_connection(association.clone(), service.files.clone(), &ServerOptions::default())
            .await;
    let error = end(&association).await.err();
    let traffic = traffic(&association, &served.streams, watch.stop());
    let peer = match traffic.paths.iter().find(|path| path.primary).or(traffic.paths.first()) {
        Some(path) => path.remote.to_string(),
        None => "a client".to_owned(),
    };
    service.ended(&peer, error, &traffic);
}

/// The client's end of all associations.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    endpoint: Endpoint,
    transport: Transport,
    options: ConnectOptions,
}

impl Client {
    /// Opens the sockets.
    pub(crate) fn bind(
        transport: Transport,
        options: &SctpOptions,
        locals: &[std::net::IpAddr],
        udp_port: Option<u16>,
        remote_udp_port: Option<u16>,
        streams: u16,
    ) -> Result<Self, Failure> {
        let mut config = config(options)?;
        config.outbound_streams = config.outbound_streams.max(streams);
        let mut connect = ConnectOptions::from(config);
        connect.remote_udp_port = remote_udp_port.unwrap_or(SCTP_UDP_PORT);
        let mut builder = Endpoint::builder()
            .encapsulation(transport.encapsulation().unwrap_or(Encapsulation::Udp))
            .local_addresses(locals.iter().copied())
            .udp_port(udp_port.unwrap_or(0));
        if let Some(capture) = &options.capture {
            builder = builder.capture(capture);
        }
        let endpoint = builder.bind().map_err(Failure::failed)?;
        Ok(Self { endpoint, transport, options: connect })
    }

    /// Fetches over one association.
    pub(crate) async fn fetch_all(&self, order: Order<'_>) -> Result<Delivery, Failure> {
        let association = tokio::select! {
            connected = self.connect(&order) => connected?,
            () = order.interrupt.wait() => return Err(Failure::Interrupted),
        };
        let watch = Watch::start(&association);
        let streams = usize::from(order.streams);
        let report = tokio::select! {
            report = fetch(&association, order.transactions, streams, order.observer) => report,
            () = order.interrupt.wait() => {
                association.abort(b"interrupted by the user");
                return Err(Failure::Interrupted);
            }
        };
        let done = Instant::now();
        let ended = end(&association).await;
        // With all files there, how the association ends matters to nobody.
        let error = ended.err().filter(|_| report.results.iter().any(Result::is_err));
        let traffic = traffic(&association, &report.streams, watch.stop());
        Ok(Delivery { results: report.results, traffic, done, error })
    }

    async fn connect(&self, order: &Order<'_>) -> Result<Association, Failure> {
        let port = order.authority.port;
        let remotes: Vec<_> = order.remotes.iter().map(|&ip| SocketAddr::new(ip, port)).collect();
        let connecting = self.endpoint.connect(remotes, self.options.clone());
        match timeout(order.connect_timeout, connecting).await {
            Ok(connected) => connected.map_err(Failure::failed),
            Err(_) => {
                let (carrier, port) = match self.transport {
                    Transport::Sctp => ("IP protocol 132", String::new()),
                    _ => ("UDP", format!(" port {}", self.options.remote_udp_port)),
                };
                Err(Failure::failed(format!(
                    "cannot connect to {} over {carrier}{port}: no answer within {:?}: check \
                     that a server listens there and that no firewall stops {carrier}",
                    order.authority, order.connect_timeout
                )))
            }
        }
    }

    /// Ends what is left and closes the sockets; the capture is complete then.
    pub(crate) async fn close(&self) {
        // Closing aborts by itself what does not end in time.
        let _ = timeout(GRACE * 2, self.endpoint.close()).await;
    }
}

/// The options of an association.
fn config(options: &SctpOptions) -> Result<AssociationConfig, Failure> {
    let mut config = match &options.profile {
        Some(name) => AssociationConfig::profile(name).ok_or_else(|| {
            Failure::usage(format!(
                "there is no profile '{name}': choose default, rfc9260, rfc4960 or rfc2960"
            ))
        })?,
        None => AssociationConfig::default(),
    };
    if let Some(pmr) = options.pmr {
        config.path_max_retrans = pmr;
    }
    options.policies.apply(&mut config);
    if let Some(time) = options.rto_min {
        config.rto_min = time;
        // A smaller or larger bound than the profile has moves the initial value along.
        if options.rto_initial.is_none() {
            config.rto_initial = config.rto_initial.max(time);
        }
    }
    if let Some(time) = options.rto_max {
        config.rto_max = time;
        if options.rto_initial.is_none() {
            config.rto_initial = config.rto_initial.min(time);
        }
    }
    if let Some(time) = options.rto_initial {
        config.rto_initial = time;
    }
    config.validate().map_err(Failure::usage)?;
    Ok(config)
}

/// Shuts the association down, with all that is on its way delivered; aborts it if that takes
/// too long.
async fn end(association: &Association) -> Result<(), String> {
    match timeout(GRACE, association.close()).await {
        Ok(closed) => closed.map_err(|error| error.to_string()),
        Err(_) => {
            association.abort(b"the shutdown took too long");
            Err("the peer did not complete the shutdown".to_owned())
        }
    }
}

/// Collects what happens to an association's paths.
struct Watch {
    events: Arc<Mutex<Vec<PathEvent>>>,
    task: JoinHandle<()>,
}

impl Watch {
    fn start(association: &Association) -> Self {
        let begun = Instant::now();
        let collected = Arc::new(Mutex::new(Vec::new()));
        let events = Arc::clone(&collected);
        let mut notifications = association.events();
        let task = tokio::spawn(async move {
            while let Some(notification) = notifications.next().await {
                let event = match notification {
                    Notification::PathChanged { local, remote, state } => {
                        format!("{local} -> {remote} is {state}")
                    }
                    Notification::ActivePathChanged { remote } => {
                        format!("new data goes to {remote}")
                    }
                    Notification::FailedOver { remote, permanent: false } => {
                        format!("failover to {remote}")
                    }
                    Notification::FailedOver { remote, permanent: true } => {
                        format!("{remote} is the primary path from now on")
                    }
                    Notification::Dormant => "no path is active".to_owned(),
                    Notification::Recovered { remote } => format!("{remote} answers again"),
                    Notification::Restarted => "the peer restarted".to_owned(),
                    _ => continue,
                };
                let event = PathEvent { seconds: begun.elapsed().as_secs_f64(), event };
                collected.lock().unwrap_or_else(PoisonError::into_inner).push(event);
            }
        });
        Self { events, task }
    }

    fn stop(self) -> Vec<PathEvent> {
        self.task.abort();
        std::mem::take(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn traffic(association: &Association, streams: &[StreamTotals], events: Vec<PathEvent>) -> Traffic {
    let statistics = association.statistics();
    Traffic {
        paths: statistics.as_ref().map(paths).unwrap_or_default(),
        streams: streams.iter().copied().map(Into::into).collect(),
        events,
    }
}

fn paths(statistics: &Statistics) -> Vec<PathReport> {
    let report = statistics.paths.iter().enumerate().map(|(index, path)| PathReport {
        local: path.local,
        remote: path.remote,
        state: path.state.to_string(),
        primary: index == statistics.primary,
        bytes_received: path.bytes_received,
        bytes_sent: path.bytes_sent,
        sctp: Some(SctpPath {
            packets_received: path.packets_received,
            packets_sent: path.packets_sent,
            data_bytes_received: path.data_bytes_received,
            data_bytes_sent: path.data_bytes_sent,
            retransmitted_chunks: path.retransmitted_chunks,
            t3_timeouts: path.t3_timeouts,
            loss: path.loss,
            srtt_seconds: path.srtt.map(|srtt| srtt.as_secs_f64()),
            rto_seconds: path.rto.as_secs_f64(),
            cwnd: path.cwnd,
            mtu: path.mtu,
        }),
    });
    report.collect()
}
