//! Sets up quinn's endpoints so that the same seed gives the same packets.

use std::io;
use std::sync::Arc;

use anabranch_impair::Rng;
use quinn::congestion::{CubicConfig, NewRenoConfig};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::rustls::crypto::ring;
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::rustls::version::TLS13;
use quinn::rustls::{self, RootCertStore};
use quinn::{ClientConfig, Endpoint, EndpointConfig, ServerConfig, TransportConfig};

use super::runtime::{VirtualQuic, VirtualSocket, WallClock};
use super::{QuicCongestion, QuicOptions};
use crate::executor::World;
use crate::network::Host;

/// A self-signed certificate for the name `server`, and its key. Ed25519 signatures have a fixed length,
/// so every handshake has the same number of bytes. The certificate protects nothing: the network is
/// virtual.
const CERTIFICATE: &[u8] = include_bytes!("certificate.der");
const KEY: &[u8] = include_bytes!("key.der");

/// The ALPN identifier of HTTP/3 (RFC 9114 section 3.1).
const ALPN: &[u8] = b"h3";

/// Bytes of a UDP datagram that fit into an IP packet of 1,500 bytes.
const UDP_PAYLOAD: u16 = 1500 - 20 - 8;

/// An endpoint of a host; the server's accepts connections.
pub(super) fn endpoint(
    world: &World,
    host: Host,
    options: QuicOptions,
    seed: u64,
) -> io::Result<Endpoint> {
    let mut rng = Rng::stream(seed, 6 + host as u64);
    let mut bytes = [0; 32];
    for part in bytes.chunks_mut(8) {
        part.copy_from_slice(&rng.next_u64().to_be_bytes());
    }
    let mut config = EndpointConfig::default();
    config.rng_seed(Some(bytes));
    let (client, server) = match host {
        Host::Client => (Some(client(world, options)?), None),
        Host::Server => (None, Some(server(world, options)?)),
    };
    let socket = Arc::new(VirtualSocket::open(world.clone(), host)?);
    let runtime = Arc::new(VirtualQuic::new(world.clone()));
    let mut endpoint = Endpoint::new_with_abstract_socket(config, server, socket, runtime)?;
    if let Some(client) = client {
        endpoint.set_default_client_config(client);
    }
    Ok(endpoint)
}

/// quinn's defaults, except for these settings.
fn transport(options: QuicOptions) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config.initial_mtu(UDP_PAYLOAD).mtu_discovery_config(None);
    if !options.idle_timeout {
        config.max_idle_timeout(None);
    }
    match options.congestion {
        QuicCongestion::Cubic => {
            config.congestion_controller_factory(Arc::new(CubicConfig::default()))
        }
        QuicCongestion::NewReno => {
            config.congestion_controller_factory(Arc::new(NewRenoConfig::default()))
        }
    };
    Arc::new(config)
}

fn server(world: &World, options: QuicOptions) -> io::Result<ServerConfig> {
    let (provider, clock) = (Arc::new(ring::default_provider()), WallClock(world.clone()));
    let mut tls = rustls::ServerConfig::builder_with_details(provider, Arc::new(clock.clone()))
        .with_protocol_versions(&[&TLS13])
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from(CERTIFICATE)],
            PrivatePkcs8KeyDer::from(KEY).into(),
        )
        .map_err(io::Error::other)?;
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let tls = QuicServerConfig::try_from(tls).map_err(io::Error::other)?;
    let mut config = ServerConfig::with_crypto(Arc::new(tls));
    config.transport_config(transport(options)).time_source(Arc::new(clock));
    Ok(config)
}

fn client(world: &World, options: QuicOptions) -> io::Result<ClientConfig> {
    let (provider, clock) = (Arc::new(ring::default_provider()), WallClock(world.clone()));
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(CERTIFICATE)).map_err(io::Error::other)?;
    let mut tls = rustls::ClientConfig::builder_with_details(provider, Arc::new(clock))
        .with_protocol_versions(&[&TLS13])
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let tls = QuicClientConfig::try_from(tls).map_err(io::Error::other)?;
    let mut config = ClientConfig::new(Arc::new(tls));
    config.transport_config(transport(options));
    Ok(config)
}
