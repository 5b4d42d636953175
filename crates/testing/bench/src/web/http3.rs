//! HTTP/3 with h3 over quinn: a server and a client of files.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use h3::client::{RequestStream, SendRequest};
use h3_quinn::{BidiStream, OpenStreams};
use http::header::CONTENT_LENGTH;
use http::{Request, Response, StatusCode};
use quinn::rustls::pki_types::PrivatePkcs8KeyDer;
use quinn::{ClientConfig, Endpoint, ServerConfig, TransportConfig};
use tokio::task::JoinSet;

use super::ask::{Plan, Tally};
use super::listening;
use crate::quic::endpoint;
use crate::{Result, trust};

const NAME: &str = "localhost";

/// Largest UDP payload in IP packets of 1500 bytes.
const DATAGRAM: u16 = 1472;

/// Concurrent requests per connection: as many as the streams of an association in the other servers.
const REQUESTS: u32 = 1024;

fn transport() -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config.initial_mtu(DATAGRAM).mtu_discovery_config(None);
    config.max_concurrent_bidi_streams(REQUESTS.into()).max_idle_timeout(None);
    Arc::new(config)
}

/// Serves the files of a directory on a port that it prints.
///
/// Each request reads its file again, on the thread that answers: for files in the page cache nothing is faster.
///
/// # Errors
/// Fails if no socket can be opened.
pub async fn serve(directory: &Path) -> Result<()> {
    let issued = rcgen::generate_simple_self_signed(vec![NAME.to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(issued.signing_key.serialize_der());
    let mut tls = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![issued.cert.der().clone()], key.into())?;
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let crypto = quinn::crypto::rustls::QuicServerConfig::try_from(tls)?;
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(transport());
    let endpoint = endpoint(Some(config))?;
    listening(endpoint.local_addr()?.port())?;
    while let Some(incoming) = endpoint.accept().await {
        let directory = directory.to_owned();
        tokio::spawn(async move { serve_connection(incoming.await?, directory).await });
    }
    Ok(())
}

async fn serve_connection(connection: quinn::Connection, directory: PathBuf) -> Result<()> {
    let mut connection =
        h3::server::Connection::<_, Bytes>::new(h3_quinn::Connection::new(connection)).await?;
    while let Some(resolver) = connection.accept().await? {
        let directory = directory.clone();
        tokio::spawn(async move {
            let (request, mut stream) = resolver.resolve_request().await?;
            // Wait for a client that has not sent everything: this measures the cost of an idle request.
            while stream.recv_data().await?.is_some() {}
            let name = Path::new(request.uri().path()).file_name().map(|name| directory.join(name));
            let body = name.and_then(|name| std::fs::read(name).ok());
            let status = if body.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND };
            let body = body.unwrap_or_default();
            let answer = Response::builder().status(status).header(CONTENT_LENGTH, body.len());
            stream.send_response(answer.body(())?).await?;
            stream.send_data(Bytes::from(body)).await?;
            stream.finish().await?;
            Result::Ok(())
        });
    }
    Ok(())
}

/// A client.
#[derive(Debug)]
pub struct Client(Endpoint);

impl Client {
    /// A client that accepts any certificate.
    ///
    /// # Errors
    /// Fails if no socket can be opened.
    pub fn new() -> Result<Self> {
        let mut tls = rustls::ClientConfig::builder()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(trust::Anyone::default()))
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"h3".to_vec()];
        let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(tls)?;
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(transport());
        let mut endpoint = endpoint(None)?;
        endpoint.set_default_client_config(config);
        Ok(Self(endpoint))
    }

    /// Connects to a server on this host.
    ///
    /// # Errors
    /// Fails if the server does not answer.
    pub async fn connect(&self, port: u16) -> Result<SendRequest<OpenStreams, Bytes>> {
        let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let connection = self.0.connect(to, NAME)?.await?;
        let (mut driver, requests) = h3::client::new(h3_quinn::Connection::new(connection)).await?;
        tokio::spawn(async move { std::future::poll_fn(|cx| driver.poll_close(cx)).await });
        Ok(requests)
    }
}

/// Sends the head of a request.
///
/// # Errors
/// Fails if the connection is lost.
pub async fn begin(
    requests: &mut SendRequest<OpenStreams, Bytes>,
    target: &str,
) -> Result<RequestStream<BidiStream<Bytes>, Bytes>> {
    let request = Request::get(format!("https://{NAME}{target}")).body(())?;
    Ok(requests.send_request(request).await?)
}

/// Sends a request, and reads the answer to its end.
///
/// # Errors
/// Fails if the connection is lost or the answer is wrong.
pub async fn ask_once(
    requests: &mut SendRequest<OpenStreams, Bytes>,
    target: &str,
) -> Result<usize> {
    let mut stream = begin(requests, target).await?;
    stream.finish().await?;
    let answer = stream.recv_response().await?;
    if answer.status() != StatusCode::OK {
        return Err(format!("the server answers with {}", answer.status()).into());
    }
    let mut bytes = 0;
    while let Some(piece) = stream.recv_data().await? {
        bytes += piece.remaining();
    }
    Ok(bytes)
}

/// Requests `target` repeatedly, with concurrent requests over one connection. Returns answers per second.
///
/// # Errors
/// Fails if the connection is lost or an answer is wrong.
pub async fn ask(port: u16, target: &str, plan: &Plan) -> Result<f64> {
    let client = Client::new()?;
    let requests = client.connect(port).await?;
    let tally = Tally::new(plan);
    let mut all = JoinSet::new();
    for _ in 0..plan.streams {
        let (mut requests, target, tally) = (requests.clone(), target.to_owned(), tally.clone());
        all.spawn(async move {
            while tally.answered() {
                ask_once(&mut requests, &target).await?;
            }
            Result::Ok(())
        });
    }
    while let Some(ended) = all.join_next().await {
        ended??;
    }
    Ok(tally.rate())
}
