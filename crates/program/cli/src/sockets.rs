//! The sockets of a client: plain ones for all its servers, or sealed paths to each of them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch::{Association, ConnectOptions, Endpoint, VantagePoint};
use anabranch_http::{Authority, Host};
use tokio::sync::Semaphore;

use crate::client::ClientOptions;
use crate::endpoint::{Peer, check_sealed, close};
use crate::failure::Failure;
use crate::options::{Transport, refuse};
use crate::sealed::{SealOptions, Servers, ask};

/// Associations that may ask at the same time whether a silent server is sealed: each has a socket of its own for that.
const ASKING: usize = 8;

/// What a client connects with.
#[derive(Clone, Debug)]
pub(crate) enum Sockets {
    Plain { endpoint: Endpoint, transport: Transport, asking: Arc<Semaphore> },
    Sealed(Arc<Servers>),
}

impl Sockets {
    /// Opens sockets that can reach these hosts; `peer_port` is their UDP port, if an address names it.
    pub(crate) fn bind<'h>(
        hosts: impl Iterator<Item = &'h Host>,
        peer_port: Option<u16>,
        transport: Transport,
        client: &ClientOptions,
        seal: Option<&SealOptions>,
    ) -> Result<Self, Failure> {
        let Some(seal) = seal else {
            let endpoint = client.bind(transport, peer_port, hosts)?;
            return Ok(Self::Plain {
                endpoint,
                transport,
                asking: Arc::new(Semaphore::new(ASKING)),
            });
        };
        let given = [
            (!client.local.is_empty()).then_some("--local"),
            client.udp_port.map(|_| "--udp-port"),
        ];
        refuse(given.into_iter().flatten(), "sealed paths")?;
        // Before a server is asked for its key.
        check_sealed(&client.sctp, VantagePoint::Client)?;
        Ok(Self::Sealed(Arc::new(Servers::new(seal, &client.sctp))))
    }

    /// Sets up an association with a server at these addresses. Its UDP port is that of the options, unless its name has
    /// one.
    pub(crate) async fn associate(
        &self,
        authority: &Authority,
        addresses: Vec<SocketAddr>,
        mut options: ConnectOptions,
        timeout: Duration,
    ) -> Result<Association, Failure> {
        let udp_port = authority.udp_port.unwrap_or(options.remote_udp_port);
        options.remote_udp_port = udp_port;
        let (endpoint, transport, asking) = match self {
            Self::Plain { endpoint, transport, asking } => (endpoint, *transport, asking),
            Self::Sealed(servers) => {
                return servers.associate(authority, &addresses, options, timeout).await;
            }
        };
        let mut real = addresses.clone();
        real.iter_mut().for_each(|address| address.set_port(udp_port));
        let peer = Peer { authority, addresses, transport, timeout };
        let connecting = peer.connect(endpoint, options);
        if transport != Transport::SctpUdp {
            return connecting.await;
        }
        // A sealed server does not answer a client without the seal.
        let sealed = async {
            let _turn = asking.acquire().await;
            ask::unexpected_key(&real, None).await
        };
        tokio::select! {
            connected = connecting => connected,
            _ = sealed => Err(Failure::failed(format!(
                "cannot connect to {authority}: the server is sealed: use --sealed"
            ))),
        }
    }

    /// Shuts down the remaining associations and closes the sockets; then the capture is complete.
    pub(crate) async fn close(&self) {
        match self {
            Self::Plain { endpoint, .. } => close(endpoint).await,
            Self::Sealed(servers) => servers.close().await,
        }
    }
}
