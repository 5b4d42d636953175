//! A transfer over QUIC with quinn for the laboratory: `quinn-transfer receive|send LOCAL REMOTE PORT SIZE MESSAGE`.
//!
//! `docs/lab.md`, section "Programs", describes its output and when it ends.

use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;

use anabranch_bench::trust;
use bytes::Bytes;
use quinn::rustls::pki_types::PrivatePkcs8KeyDer;
use quinn::{ClientConfig, Connection, Endpoint, EndpointConfig, ServerConfig, TransportConfig};
use rustix::time::{ClockId, clock_gettime};

const NAME: &str = "localhost";
/// Bytes of the IPv4 and UDP headers, in packets of 1500 bytes.
const HEADERS: u16 = 28;
const MTU: u16 = 1500;

type Result<V> = std::result::Result<V, Box<dyn std::error::Error>>;

/// The options of the command line.
struct Options {
    sends: bool,
    local: IpAddr,
    remote: SocketAddr,
    size: u64,
    message: usize,
}

impl Options {
    fn read() -> Option<Self> {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let [role, local, remote, port, size, message] = &words[..] else { return None };
        let remote = SocketAddr::new(remote.parse().ok()?, port.parse().ok()?);
        Some(Self {
            sends: match role.as_str() {
                "send" => true,
                "receive" => false,
                _ => return None,
            },
            local: local.parse().ok()?,
            remote,
            size: size.parse().ok()?,
            message: message.parse().ok().filter(|message| *message > 0)?,
        })
    }
}

/// Prints an event with the current time.
fn say(what: &str) -> io::Result<()> {
    let now = clock_gettime(ClockId::Monotonic);
    let ns = i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec);
    let mut out = io::stdout().lock();
    writeln!(out, "{ns} {what}")?;
    out.flush()
}

fn transport() -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    // The MTU of the links is known, and probes would be additional packets.
    config.initial_mtu(MTU - HEADERS).mtu_discovery_config(None);
    Arc::new(config)
}

fn endpoint(local: SocketAddr, server: Option<ServerConfig>) -> Result<Endpoint> {
    let (socket, runtime) = (UdpSocket::bind(local)?, Arc::new(quinn::TokioRuntime));
    Ok(Endpoint::new(EndpointConfig::default(), server, socket, runtime)?)
}

/// Receives what arrives on one stream.
async fn receive(options: &Options) -> Result<()> {
    let issued = rcgen::generate_simple_self_signed(vec![NAME.to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(issued.signing_key.serialize_der());
    let mut config = ServerConfig::with_single_cert(vec![issued.cert.der().clone()], key.into())?;
    config.transport_config(transport());
    let local = SocketAddr::new(options.local, options.remote.port());
    let endpoint = endpoint(local, Some(config))?;
    say("ready")?;
    let connection = endpoint.accept().await.ok_or("the endpoint was closed")?.await?;
    let mut stream = connection.accept_uni().await?;
    let mut chunks: [Bytes; 32] = std::array::from_fn(|_| Bytes::new());
    while let Some(count) = stream.read_chunks(&mut chunks).await? {
        let bytes: usize = chunks.iter().take(count).map(Bytes::len).sum();
        say(&format!("arrived {bytes}"))?;
        chunks.fill(Bytes::new());
    }
    connection.closed().await;
    Ok(())
}

/// Connects and sends. The connection is stored in `kept`, for the caller's report.
async fn send(options: &Options, kept: &mut Option<Connection>) -> Result<()> {
    let tls = rustls::ClientConfig::builder()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(trust::Anyone::default()))
        .with_no_client_auth();
    let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(tls)?;
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(transport());
    let endpoint = endpoint(SocketAddr::new(options.local, 0), None)?;
    say("started")?;
    let connection = endpoint.connect_with(config, options.remote, NAME)?.await?;
    say("connected")?;
    let mut stream = kept.insert(connection).open_uni().await?;
    let data = Bytes::from(vec![0; options.message]);
    let mut left = options.size;
    while left > 0 {
        let length = data.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        stream.write_chunk(data.slice(..length)).await?;
        left -= length as u64;
    }
    // Do not end the stream: that would be an additional packet.
    std::future::pending().await
}

/// Waits for the end of the input, which means that the transfer is over.
async fn end_of_input() {
    let (sender, ended) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        // The receiver is gone if the program ends by itself.
        let _ = sender.send(());
    });
    let _ = ended.await;
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let Some(options) = Options::read() else {
        return Err("quinn-transfer receive|send LOCAL REMOTE PORT SIZE MESSAGE".into());
    };
    let mut kept = None;
    let ended = tokio::select! {
        () = end_of_input() => Ok(()),
        ended = async {
            if options.sends { send(&options, &mut kept).await } else { receive(&options).await }
        } => ended,
    };
    if let Some(connection) = kept {
        let path = connection.stats().path;
        say(&format!("told retransmitted_chunks_path1 {}", path.lost_packets))?;
        say(&format!("told fast_recoveries {}", path.congestion_events))?;
    }
    if let Err(error) = ended {
        // The transfer's metrics show a lost connection; failing to start is an error.
        if error.downcast_ref::<quinn::ConnectionError>().is_none()
            && error.downcast_ref::<quinn::WriteError>().is_none()
            && error.downcast_ref::<quinn::ReadError>().is_none()
        {
            return Err(error);
        }
    }
    Ok(())
}
