//! Loads pages over HTTP/3 (RFC 9114), with quinn for QUIC and h3 for requests. This client is for
//! comparison, with any HTTP/3 server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anabranch_http::{Host, PageLoad, PageRequest, Scheme, Url, load_page_http3};
use bytes::Bytes;
use clap::Args;
use h3::client::SendRequest;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::rustls::crypto::ring;
use quinn::rustls::pki_types::CertificateDer;
use quinn::rustls::pki_types::pem::PemObject;
use quinn::rustls::{self, RootCertStore};
use quinn::{ClientConfig, Connection, Endpoint, VarInt};

use super::Get;
use super::page_report::Carried;
use crate::address::{Address, resolve};
use crate::failure::{Failure, complain};
use crate::options::refuse;

/// The ALPN identifier of HTTP/3 (RFC 9114 section 3.1).
const ALPN: &[u8] = b"h3";

/// H3_NO_ERROR (RFC 9114 section 8.1).
const NO_ERROR: VarInt = VarInt::from_u32(0x100);

/// Options of HTTP/3.
#[derive(Clone, Debug, Args)]
pub(super) struct Http3Options {
    /// Load a page of an https URL over HTTP/3, for comparison: each object on a stream of its own
    #[arg(long, help_heading = "Pages", hide_short_help = true, requires = "page", conflicts_with_all = ["transport", "connections", "one_by_one", "retry"])]
    pub(super) http3: bool,
    /// Certificates (PEM) to trust instead of the system's
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Pages",
        hide_short_help = true,
        requires = "http3"
    )]
    pub(super) ca: Option<PathBuf>,
}

impl Get {
    /// Whether to use HTTP/3, given `--http3` and the URL's scheme.
    pub(super) fn is_http3(&self, url: &Url) -> Result<bool, Failure> {
        match (self.page.http3.http3, url.scheme) {
            (true, Scheme::Https) => {}
            (true, _) => return Err(Failure::usage("--http3 is for https URLs")),
            (false, _) => return Ok(false),
        }
        let ports = [
            self.client.udp_port.map(|_| "--udp-port"),
            self.client.remote_udp_port.map(|_| "--remote-udp-port"),
        ];
        refuse(ports.into_iter().flatten().chain(self.client.sctp.given()), "HTTP/3")?;
        Ok(true)
    }

    /// Loads a page over HTTP/3.
    pub(super) async fn carry_http3(&self, url: &Url) -> Result<(PageLoad, Carried), Failure> {
        let remotes = resolve(&url.authority).await?;
        let tls = Arc::new(tls(self.page.http3.ca.as_deref())?);
        let begun = Instant::now();
        let timeout = self.client.connect_timeout;
        let connecting = connect(url, &remotes, &self.client.local, tls);
        let (endpoint, connection) =
            tokio::time::timeout(timeout, connecting).await.unwrap_or_else(|_| {
                Err(Failure::failed(format!(
                    "cannot connect to {}: no answer within {timeout:?}",
                    url.authority
                )))
            })?;
        let quic = h3_quinn::Connection::new(connection.clone());
        let http3 = h3::client::new(quic).await;
        let (mut driver, sender) = http3.map_err(|error| failed(url, &error))?;
        let driving = tokio::spawn(async move {
            std::future::poll_fn(|cx| driver.poll_close(cx)).await;
        });
        let connecting = begun.elapsed();
        let page = self.load_with(url, Some(u16::MAX), Over { sender: &sender }).await;
        let stats = connection.stats();
        connection.close(NO_ERROR, b"");
        endpoint.wait_idle().await;
        driving.abort();
        Ok((page?, Carried::http3(connecting, stats.path.lost_packets)))
    }
}

/// Loads a page over a connection.
pub(super) struct Over<'a> {
    sender: &'a SendRequest<h3_quinn::OpenStreams, Bytes>,
}

impl super::page::Loader for Over<'_> {
    async fn load(
        &self,
        request: &PageRequest,
        clock: &(dyn Fn() -> Duration + Sync),
    ) -> Result<PageLoad, anabranch_http::FetchError> {
        load_page_http3(self.sender, request, clock).await
    }
}

/// Connects to the first of these addresses that accepts a connection.
async fn connect(
    url: &Url,
    remotes: &[SocketAddr],
    locals: &[Address],
    tls: Arc<QuicClientConfig>,
) -> Result<(Endpoint, Connection), Failure> {
    let name = match url.authority.hosts.first() {
        Some(Host::Name(name)) => name.clone(),
        Some(Host::Address(address)) => address.to_string(),
        Some(Host::LinkLocal(address, _)) => address.to_string(),
        None => String::new(),
    };
    let mut refused = Failure::failed(format!("cannot connect to {}: no address", url.authority));
    for remote in remotes {
        let endpoint =
            Endpoint::client(local_for(*remote, locals)?).map_err(|e| failed(url, &e))?;
        let config = ClientConfig::new(Arc::clone(&tls) as _);
        let connecting = endpoint.connect_with(config, *remote, &name);
        match connecting.map_err(|error| failed(url, &error))?.await {
            Ok(connection) => return Ok((endpoint, connection)),
            Err(error) => {
                let untrusted = error.to_string().contains("certificate");
                let hint = if untrusted { "; --ca FILE names certificates to trust" } else { "" };
                refused = Failure::failed(format!("cannot connect to {remote}: {error}{hint}"));
            }
        }
    }
    Err(refused)
}

/// The local address to send from.
fn local_for(remote: SocketAddr, locals: &[Address]) -> Result<SocketAddr, Failure> {
    if let Some(local) = locals.iter().find(|local| local.ip.is_ipv4() == remote.is_ipv4()) {
        return local.socket(0);
    }
    let any: IpAddr = match remote {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    Ok((any, 0).into())
}

/// The TLS configuration, which trusts these certificates, or those of the system.
fn tls(ca: Option<&Path>) -> Result<QuicClientConfig, Failure> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(file) => {
            let wrong = |error: &dyn std::fmt::Display| {
                Failure::failed(format!("{}: no certificate in PEM: {error}", file.display()))
            };
            let certificates = CertificateDer::pem_file_iter(file).map_err(|e| wrong(&e))?;
            for certificate in certificates {
                roots.add(certificate.map_err(|e| wrong(&e))?).map_err(|e| wrong(&e))?;
            }
            if roots.is_empty() {
                return Err(wrong(&"the file has none"));
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            for error in &found.errors {
                complain(&format!("certificates of the system: {error}"));
            }
            roots.add_parsable_certificates(found.certs);
        }
    }
    let mut tls = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(Failure::failed)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    QuicClientConfig::try_from(tls).map_err(Failure::failed)
}

fn failed(url: &Url, error: &dyn std::fmt::Display) -> Failure {
    Failure::failed(format!("cannot connect to {}: {error}", url.authority))
}
