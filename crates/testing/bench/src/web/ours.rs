//! This project's HTTP: the file server over SCTP and TCP as in `anabranch serve`, and associations with it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use anabranch::config::SchedulerKind;
use anabranch::{Association, AssociationConfig, ConnectOptions, Endpoint};
use anabranch_http::tcp::TcpServerConnection;
use anabranch_http::{Files, ServerOptions, serve_connection};
use tokio::net::TcpListener;

use super::listening;
use crate::Result;

/// The server's SCTP port.
pub const PORT: u16 = 80;

/// Maximum number of streams of an association.
pub const STREAMS: u16 = 1024;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn config() -> AssociationConfig {
    let mut config = AssociationConfig::default();
    config.sending.outbound_streams = STREAMS;
    config.receiving.inbound_streams = STREAMS;
    config.sending.scheduler = SchedulerKind::RoundRobin;
    config
}

/// Server options without an idle timeout.
fn options() -> ServerOptions {
    ServerOptions::default().with_idle_timeout(None)
}

/// Serves a directory over associations, on [`PORT`] and a UDP port that it prints.
///
/// # Errors
/// Fails if the directory does not exist or no socket can be opened.
pub async fn serve_sctp(directory: &Path) -> Result<()> {
    let files = Files::open(directory)?;
    let endpoint = Endpoint::builder().local_addresses([HERE]).udp_port(0).bind()?;
    let listener = endpoint.listen(PORT, config())?;
    listening(endpoint.udp_port())?;
    let options = options();
    while let Some(association) = listener.accept().await {
        let (files, options) = (files.clone(), options.clone());
        tokio::spawn(async move { serve_connection(association, files, &options).await });
    }
    Ok(())
}

/// Serves a directory over TCP connections, on a port that it prints.
///
/// # Errors
/// Fails if the directory does not exist or no socket can be opened.
pub async fn serve_tcp(directory: &Path) -> Result<()> {
    let files = Files::open(directory)?;
    let listener = TcpListener::bind((HERE, 0)).await?;
    listening(listener.local_addr()?.port())?;
    let options = options();
    loop {
        let (stream, _) = listener.accept().await?;
        let connection = TcpServerConnection::new(stream)?;
        let (files, options) = (files.clone(), options.clone());
        tokio::spawn(async move { serve_connection(connection, files, &options).await });
    }
}

/// Connects to a server on this host. Also returns the association's endpoint.
///
/// # Errors
/// Fails if the server does not answer.
pub async fn connect(udp_port: u16, port: u16) -> Result<(Endpoint, Association)> {
    let endpoint = Endpoint::builder().local_addresses([HERE]).udp_port(0).bind()?;
    let mut options = ConnectOptions::from(config());
    options.remote_udp_port = udp_port;
    let association = endpoint.connect(SocketAddr::from((HERE, port)), options).await?;
    Ok((endpoint, association))
}
