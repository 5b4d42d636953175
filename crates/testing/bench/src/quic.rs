//! The common part of quinn endpoints.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;

use quinn::{Endpoint, EndpointConfig, ServerConfig};

use crate::Result;

/// Socket buffers in bytes, as for the other transports.
const SOCKET_BUFFER: usize = 4 << 20;

/// An endpoint on a free port of the loopback interface.
///
/// # Errors
/// Fails if no socket can be opened.
pub fn endpoint(server: Option<ServerConfig>) -> Result<Endpoint> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let handle = socket2::SockRef::from(&socket);
    handle.set_send_buffer_size(SOCKET_BUFFER)?;
    handle.set_recv_buffer_size(SOCKET_BUFFER)?;
    let runtime = Arc::new(quinn::TokioRuntime);
    Ok(Endpoint::new(EndpointConfig::default(), server, socket, runtime)?)
}
