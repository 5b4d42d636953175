//! Files over SCTP, over UDP or as IP protocol 132.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anabranch::config::SchedulerKind;
use anabranch::{Association, AssociationConfig, ConnectOptions};
use anabranch_http::{Authority, FetchError, Host, StreamTotals, serve_connection};

use super::{Delivery, Order, Service};
use crate::client::ClientOptions;
use crate::endpoint::{Binding, Watch, accept_all, end, file_config, paths};
use crate::failure::Failure;
use crate::options::{SctpOptions, Transport};
use crate::report::{PathEvent, Traffic};
use crate::sealed::{SealOptions, SealedServer, ServerSealOptions};
use crate::sockets::Sockets;

/// Maximum number of streams that one client of `serve` may use. Before its request is processed, a
/// stream needs no more memory than the request; requests in progress are limited separately.
const SERVED_STREAMS: u16 = 1024;

/// Serves until the user stops it.
pub(crate) async fn serve(
    service: Service,
    transport: Transport,
    options: &SctpOptions,
    udp_port: Option<u16>,
    seal: &ServerSealOptions,
) -> Result<(), Failure> {
    let mut config = file_config(options)?;
    config.sending.outbound_streams = SERVED_STREAMS;
    config.receiving.inbound_streams = SERVED_STREAMS;
    // The answers of an association share the path to their client fairly, unless the user chooses
    // another scheduler.
    if options.profile.is_none() && !options.policies.given().any(|name| name == "--scheduler") {
        config.sending.scheduler = SchedulerKind::RoundRobin;
    }
    if seal.sealed {
        return serve_sealed(service, options, udp_port, config, seal).await;
    }
    let addresses = &service.listen.addresses;
    let port = service.listen.port;
    let binding = Binding { transport, addresses, udp_port, remote_udp_port: None, options };
    let (endpoint, listener) = binding.server(port, config)?;
    service.listening(transport, port, transport.udp_port(&endpoint), None)?;
    let handle = |association: Association| {
        let peer = primary_address(&association);
        answer(service.clone(), association, peer, false)
    };
    accept_all(&endpoint, listener, &service.interrupt, service.grace, handle).await;
    Ok(())
}

/// Serves over sealed paths until the user stops it.
async fn serve_sealed(
    service: Service,
    options: &SctpOptions,
    udp_port: Option<u16>,
    config: AssociationConfig,
    seal: &ServerSealOptions,
) -> Result<(), Failure> {
    let server = seal.server(&service.listen, udp_port, config, options)?;
    let SealedServer { endpoint, listener, identity, clients, mut wish } = server;
    let port = service.listen.port;
    service.listening(Transport::SctpUdp, port, Some(endpoint.udp_port()), Some(&identity))?;
    let handle = |association: Association| {
        let (service, clients) = (service.clone(), clients.clone());
        async move {
            let peer = clients.real_address(&association).map(|address| address.to_string());
            clients.during(&association, answer(service, association.clone(), peer, true)).await;
        }
    };
    let serving = accept_all(&endpoint, listener, &service.interrupt, service.grace, handle);
    tokio::select! {
        () = serving => Ok(()),
        failure = clients.follow(&mut wish, |line| service.invited(port, line)) => Err(failure),
    }
}

async fn answer(service: Service, association: Association, peer: Option<String>, sealed: bool) {
    let watch = Watch::accepted(&association);
    let peer = peer.as_deref().unwrap_or("-");
    let (files, options) = (service.files_for(peer), service.options_for(peer));
    let served = serve_connection(association.clone(), files, &options).await;
    let error = end(&association).await.err();
    let traffic = traffic(&association, &served.streams, watch.stop(), sealed);
    service.ended(peer, error, &traffic);
}

/// The peer's address with its SCTP port; `None` if the association has already ended.
fn primary_address(association: &Association) -> Option<String> {
    let statistics = association.statistics();
    let path = statistics.path(statistics.primary)?;
    Some(SocketAddr::new(path.remote, association.ports().1).to_string())
}

/// What a client needs for all its associations.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    sockets: Sockets,
    options: ConnectOptions,
}

impl Client {
    /// Opens the sockets for associations with these hosts.
    pub(crate) fn bind<'h>(
        hosts: impl Iterator<Item = &'h Host>,
        peer_port: Option<u16>,
        transport: Transport,
        client: &ClientOptions,
        seal: Option<&SealOptions>,
        streams: u16,
    ) -> Result<Self, Failure> {
        let options = client.connect_options(client.file_config()?, streams, None)?;
        let sockets = Sockets::bind(hosts, peer_port, transport, client, seal)?;
        Ok(Self { sockets, options })
    }

    /// Sets up an association with a server at these addresses.
    pub(crate) async fn associate(
        &self,
        authority: &Authority,
        addresses: Vec<SocketAddr>,
        timeout: Duration,
    ) -> Result<Association, Failure> {
        self.sockets.associate(authority, addresses, self.options.clone(), timeout).await
    }

    /// Fetches over one association.
    pub(crate) async fn fetch_all(&self, order: Order<'_>) -> Result<Delivery, Failure> {
        let connecting =
            self.associate(order.authority, order.remotes.clone(), order.connect_timeout);
        let association = tokio::select! {
            connected = connecting => connected?,
            () = order.interrupt.wait() => return Err(Failure::Interrupted),
        };
        let watch = Watch::connected(&association);
        let Order { work, observer, .. } = order;
        let fetching = work.run(&association, &order.fetch, observer);
        let report = tokio::select! {
            report = fetching => report,
            () = order.interrupt.wait() => {
                association.abort(b"interrupted by the user");
                return Err(Failure::Interrupted);
            }
        };
        let done = Instant::now();
        let silent = |result: &Result<_, _>| matches!(result, Err(FetchError::Silent(_)));
        let ended = if report.results.iter().any(silent) {
            // The server would not answer a SHUTDOWN either. The error is reported for the files.
            association.abort(b"the server was silent for too long");
            Ok(())
        } else {
            end(&association).await
        };
        // If all files have arrived, the way in which the association ended does not matter.
        let error = ended.err().filter(|_| report.results.iter().any(Result::is_err));
        let sealed = matches!(self.sockets, Sockets::Sealed(_));
        let traffic = traffic(&association, &report.streams, watch.stop(), sealed);
        Ok(Delivery { results: report.results, traffic, done, error })
    }

    /// Shuts down the remaining associations and closes the sockets; then the capture is complete.
    pub(crate) async fn close(&self) {
        self.sockets.close().await;
    }
}

fn traffic(
    association: &Association,
    streams: &[StreamTotals],
    events: Vec<PathEvent>,
    sealed: bool,
) -> Traffic {
    let statistics = association.statistics();
    let streams = streams.iter().copied().map(Into::into).collect();
    let traffic = Traffic { paths: paths(&statistics), streams, events };
    if sealed { traffic.sealed() } else { traffic }
}
