//! QUIC with quinn, on one stream.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anabranch_bench::quic::endpoint;
use anabranch_bench::trust;
use bytes::Bytes;
use quinn::rustls::pki_types::PrivatePkcs8KeyDer;
use quinn::{ClientConfig, ServerConfig, TransportConfig};

use crate::measure::{self, Meter};
use crate::options::Options;
use crate::{IP_MTU, Result, UDP_HEADERS};

const NAME: &str = "localhost";

fn transport() -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config.initial_mtu(IP_MTU - UDP_HEADERS).mtu_discovery_config(None);
    Arc::new(config)
}

/// Receives everything on one stream.
pub(crate) async fn sink() -> Result<()> {
    let issued = rcgen::generate_simple_self_signed(vec![NAME.to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(issued.signing_key.serialize_der());
    let mut config = ServerConfig::with_single_cert(vec![issued.cert.der().clone()], key.into())?;
    config.transport_config(transport());
    let endpoint = endpoint(Some(config))?;
    measure::listening(endpoint.local_addr()?.port())?;
    let connection = endpoint.accept().await.ok_or("the endpoint was closed")?.await?;
    let mut stream = connection.accept_uni().await?;
    let mut meter = Meter::default();
    let mut chunks: [Bytes; 32] = std::array::from_fn(|_| Bytes::new());
    while let Some(count) = stream.read_chunks(&mut chunks).await? {
        for chunk in chunks.iter_mut().take(count) {
            meter.add(chunk.len());
            *chunk = Bytes::new();
        }
    }
    meter.stop();
    meter.report();
    // Let the last acknowledgement leave before the process ends.
    connection.closed().await;
    Ok(())
}

/// Sends messages as the bytes of one stream for a while.
pub(crate) async fn source(options: &Options) -> Result<()> {
    let mut tls = rustls::ClientConfig::builder()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(trust::Anyone::default()))
        .with_no_client_auth();
    tls.alpn_protocols.clear();
    let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(tls)?;
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(transport());
    let endpoint = endpoint(None)?;
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, options.port));
    let connection = endpoint.connect_with(config, to, NAME)?.await?;
    let mut stream = connection.open_uni().await?;
    let data = Bytes::from(vec![0x5a; options.size]);
    let mut meter = Meter::started();
    while meter.elapsed() < options.duration {
        for _ in 0..16 {
            stream.write_chunk(data.clone()).await?;
            meter.add(data.len());
        }
    }
    stream.finish()?;
    stream.stopped().await?;
    meter.stop();
    meter.report();
    connection.close(0_u32.into(), b"");
    endpoint.wait_idle().await;
    Ok(())
}
