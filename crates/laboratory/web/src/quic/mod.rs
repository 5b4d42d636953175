//! HTTP/3: quinn's QUIC between the hosts, with the server's site at one end.

mod config;
mod runtime;

use std::io;
use std::sync::{Arc, Mutex};

use anabranch_http::load_page_http3;
use bytes::Bytes;
use h3::client::SendRequest;
use http_body_util::BodyExt;
use quinn::{Connection, Endpoint};

use crate::executor::World;
use crate::hosts::HOST;
use crate::load::{Load, LoadError, Loaded, Transport, lock};
use crate::network::Host;
use crate::site::Site;

/// The congestion control of quinn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuicCongestion {
    /// CUBIC (RFC 9438), quinn's default.
    #[default]
    Cubic,
    /// NewReno (RFC 9002 section 7).
    NewReno,
}

/// Options of both ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuicOptions {
    pub(crate) congestion: QuicCongestion,
    /// Whether a connection without packets ends after 30 s, quinn's default.
    pub(crate) idle_timeout: bool,
}

/// CRYPTO frames that each host sends without losses: the client ClientHello and Finished; the server
/// ServerHello, then EncryptedExtensions to Finished, and finally its tickets.
const CRYPTO_FRAMES: [u64; 2] = [2, 3];

impl Load {
    pub(crate) async fn over_http3(
        &self,
        world: &World,
        congestion: QuicCongestion,
    ) -> Result<Loaded, LoadError> {
        // Slow links and many losses must not end the connection: the load has its own limit.
        let options = QuicOptions { congestion, idle_timeout: false };
        let pair = connect_http3(world, &self.site, options, self.seed).await?;
        let request = self.request(u16::MAX, false);
        let mut loaded = Loaded::begin(world);
        let clock = world.clone();
        loaded.page = load_page_http3(&pair.sender, &request, &move || clock.now()).await?;
        let server = lock(&pair.server).as_ref().map(|server| transport(server, Host::Server));
        loaded.transport = [transport(&pair.client, Host::Client), server.unwrap_or_default()];
        Ok(loaded)
    }
}

/// A connection of HTTP/3 between the hosts.
pub(crate) struct Http3 {
    pub(crate) sender: SendRequest<h3_quinn::OpenStreams, Bytes>,
    client: Connection,
    /// The server's end, once it has accepted it.
    server: Arc<Mutex<Option<Connection>>>,
    /// Without it the connection would end.
    _endpoint: Endpoint,
}

/// A connection of HTTP/3 to a server of a site, over the first path.
pub(crate) async fn connect_http3(
    world: &World,
    site: &Site,
    options: QuicOptions,
    seed: u64,
) -> Result<Http3, LoadError> {
    let server = config::endpoint(world, Host::Server, options, seed)?;
    let client = config::endpoint(world, Host::Client, options, seed)?;
    let served: Arc<Mutex<Option<Connection>>> = Arc::default();
    let (site, spawner, at_work) = (site.clone(), world.clone(), Arc::clone(&served));
    world.spawn(Box::pin(async move {
        while let Some(incoming) = server.accept().await {
            let Ok(connection) = incoming.await else { continue };
            *lock(&at_work) = Some(connection.clone());
            spawner.spawn(Box::pin(serve(spawner.clone(), site.clone(), connection)));
        }
    }));
    let connecting = client.connect(runtime::address(Host::Server), HOST);
    let connection = connecting.map_err(io::Error::other)?.await.map_err(io::Error::from)?;
    // Random greasing frames would not depend on the seed.
    let mut http3 = h3::client::builder();
    http3.send_grease(false);
    let quic = h3_quinn::Connection::new(connection.clone());
    let (mut driver, sender) = http3.build::<_, _, Bytes>(quic).await.map_err(io::Error::other)?;
    world.spawn(Box::pin(async move {
        std::future::poll_fn(|cx| driver.poll_close(cx)).await;
    }));
    Ok(Http3 { sender, client: connection, server: served, _endpoint: client })
}

fn transport(connection: &Connection, host: Host) -> Transport {
    let stats = connection.stats();
    Transport {
        // quinn does not report how often its timer expired.
        timeouts: None,
        fast_retransmits: stats.path.lost_packets,
        handshake_retransmissions: stats
            .frame_tx
            .crypto
            .saturating_sub(CRYPTO_FRAMES[host as usize]),
    }
}

/// Answers the requests of a connection, each concurrently with all others.
async fn serve(world: World, site: Site, connection: Connection) {
    let mut http3 = h3::server::builder();
    http3.send_grease(false);
    let quic = h3_quinn::Connection::new(connection);
    let Ok(mut http3) = http3.build::<_, Bytes>(quic).await else { return };
    while let Ok(Some(request)) = http3.accept().await {
        let site = site.clone();
        world.spawn(Box::pin(async move {
            // If it cannot be answered, the client is gone.
            let _ = answer(&site, request).await;
        }));
    }
}

type Request = h3::server::RequestResolver<h3_quinn::Connection, Bytes>;

async fn answer(site: &Site, request: Request) -> Result<(), h3::error::StreamError> {
    let (request, mut stream) = request.resolve_request().await?;
    let Ok(answer) = site.answer(&request);
    let (head, body) = answer.into_parts();
    stream.send_response(http::Response::from_parts(head, ())).await?;
    let Ok(body) = body.collect().await;
    let body = body.to_bytes();
    if !body.is_empty() {
        stream.send_data(body).await?;
    }
    stream.finish().await
}
