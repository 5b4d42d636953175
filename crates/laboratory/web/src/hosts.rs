//! Connects a client to a server of a site.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch::config::{AssociationConfig, Encapsulation, EndpointConfig};
use anabranch::{Association, BindError, ConnectOptions, Endpoint};
use anabranch_http::{AcceptStreams, ServerOptions, serve_connection};
use anabranch_impair::Rng;
use anabranch_tcp::Config as TcpConfig;

use crate::executor::World;
use crate::load::{LoadError, lock};
use crate::network::Host;
use crate::sctp::VirtualRuntime;
use crate::site::Site;
use crate::tcp::{TcpClient, TcpStreams, accept};

/// The port of the server.
pub(crate) const PORT: u16 = 80;

/// The server's name in requests.
pub(crate) const HOST: &str = "server";

/// How long a client may read nothing of an answer: the default of [`ServerOptions`].
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// An association between the hosts.
pub(crate) struct Associated {
    pub(crate) client: Association,
    /// The server's end, once it has accepted it.
    pub(crate) server: Arc<Mutex<Option<Association>>>,
    /// Without them the association would end.
    _endpoints: [Endpoint; 2],
}

/// An association over all paths, with these options of the client and of the server.
pub(crate) async fn associate(
    world: &World,
    site: &Site,
    [of_client, of_server]: [AssociationConfig; 2],
    seed: u64,
    patience: Duration,
) -> Result<Associated, LoadError> {
    let [client, server] = Host::BOTH.map(|host| endpoint(world, host, seed));
    let (client, server) = (client?, server?);
    let listener = server.listen(PORT, of_server)?;
    let accepted: Arc<Mutex<Option<Association>>> = Arc::default();
    let (site, spawner, at_work) = (site.clone(), world.clone(), Arc::clone(&accepted));
    world.spawn(Box::pin(async move {
        while let Some(association) = listener.accept().await {
            *lock(&at_work) = Some(association.clone());
            serve(&spawner, &site, association, patience);
        }
    }));
    let paths = world.state().network.paths();
    let remotes = paths.map(|path| SocketAddr::new(Host::Server.address_on(path), PORT));
    let remotes: Vec<_> = remotes.collect();
    let association = client.connect(remotes, ConnectOptions::from(of_client)).await?;
    Ok(Associated { client: association, server: accepted, _endpoints: [client, server] })
}

/// An endpoint of a host, with its addresses on all paths.
pub(crate) fn endpoint(world: &World, host: Host, seed: u64) -> Result<Endpoint, BindError> {
    let mut rng = Rng::stream(seed, 4 + host as u64);
    let mut seed = [0; 32];
    for part in seed.chunks_mut(8) {
        part.copy_from_slice(&rng.next_u64().to_be_bytes());
    }
    let paths = world.state().network.paths();
    Endpoint::builder()
        .runtime(Arc::new(VirtualRuntime::new(world.clone(), host)))
        .local_addresses(paths.map(|path| host.address_on(path)))
        .config(EndpointConfig::default())
        .encapsulation(Encapsulation::Ip)
        .seed(seed)
        .bind()
}

/// A first TCP connection to a server that accepts more, over the first path.
pub(crate) async fn connect_tcp(
    world: &World,
    site: &Site,
    config: &TcpConfig,
    patience: Duration,
) -> io::Result<TcpStreams> {
    let (site, server) = (site.clone(), world.clone());
    world.spawn(Box::pin(async move {
        loop {
            let connection = accept(&server).await;
            serve(&server, &site, connection, patience);
        }
    }));
    let client = TcpClient::new(world.clone(), config.clone());
    let first = Mutex::new(Some(client.connect().await?));
    Ok(TcpStreams { client, first })
}

/// Answers the requests of a connection, concurrently with all other tasks.
pub(crate) fn serve<C>(world: &World, site: &Site, connection: C, patience: Duration)
where
    C: AcceptStreams + 'static,
{
    let site = site.clone();
    world.spawn(Box::pin(async move {
        let service = hyper::service::service_fn(move |request| {
            let answer: Result<_, Infallible> = site.answer(&request);
            std::future::ready(answer)
        });
        // There are no other clients, so no request has to wait for a place.
        let options = ServerOptions::default().with_requests(1 << 16).with_patience(patience);
        serve_connection(connection, service, &options).await;
    }));
}
