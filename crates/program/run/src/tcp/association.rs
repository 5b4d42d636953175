//! Associations that carry a TCP connection: its bytes are on stream 0, in byte mode.
//!
//! The first message there is a greeting of the side that accepts: it says that the peer carries TCP connections, and
//! that a program has accepted this one. So a peer that has SCTP for something else is noticed.

use std::net::SocketAddr;
use std::sync::Arc;

use anabranch::{
    Association, AssociationConfig, AssociationState, CloseReason, ConnectError, ConnectOptions,
    Endpoint, Ppid, RecvStream, SendStream,
};
use anabranch_sockets::{Binding, Error, Lease, Local};
use bytes::Buf as _;

use super::Tcp;

/// The stream that carries the bytes.
const STREAM: u16 = 0;

/// The payload protocol identifier of the greeting ("anbt").
const GREETING: Ppid = Ppid(0x616e_6274);

/// The greeting: the version of these rules.
const VERSION: &[u8] = &[1];

/// An association that carries a connection. It is aborted when this is dropped, unless it was closed.
#[derive(Debug)]
pub(super) struct Carrier {
    pub(super) association: Association,
    pub(super) send: SendStream,
    pub(super) recv: RecvStream,
    aborts: Aborts,
}

/// Aborts an association when it is dropped.
#[derive(Debug)]
struct Aborts(Option<Association>);

impl Drop for Aborts {
    fn drop(&mut self) {
        if let Some(association) = self.0.take() {
            association.abort(b"the connection was reset");
        }
    }
}

/// Why there is no association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The host does not answer, or has no SCTP.
    Silent,
    /// The host does not carry connections to this port.
    Refused,
}

impl Carrier {
    fn new(association: Association) -> Option<Self> {
        let aborts = Aborts(Some(association.clone()));
        let (send, recv) = association.stream(STREAM).ok()?;
        Some(Self { association, send, recv, aborts })
    }

    /// Connects to a port of a peer.
    pub(super) async fn connect(tcp: &Arc<Tcp>, remote: SocketAddr) -> Result<Self, Refusal> {
        let endpoint = tcp.client().await.map_err(|_| Refusal::Silent)?;
        let mut options = ConnectOptions::from(tcp.config());
        options.remote_udp_port = tcp.engine.remote_udp_port;
        let association = endpoint.connect(remote, options).await.map_err(|error| match error {
            ConnectError::Failed {
                reason: CloseReason::PeerAbort { .. } | CloseReason::HandshakeFailed(_),
                ..
            } => Refusal::Refused,
            _ => Refusal::Silent,
        })?;
        let mut carrier = Self::new(association).ok_or(Refusal::Refused)?;
        match carrier.recv.recv().await {
            Ok(Some(message)) if message.ppid == GREETING && message.payload.chunk() == VERSION => {
                Ok(carrier)
            }
            _ => Err(Refusal::Refused),
        }
    }

    /// Accepts an association that carries a connection.
    pub(super) fn accept(association: Association) -> Option<Self> {
        Self::new(association)
    }

    /// Tells the peer that a program has the connection.
    pub(super) async fn greet(&self) -> Result<(), Refusal> {
        self.send.send(GREETING, VERSION).await.map_err(|_| Refusal::Refused)
    }

    /// Its own address and its peer's, of the primary path.
    pub(super) fn names(&self) -> Option<[SocketAddr; 2]> {
        let first = |list: Vec<SocketAddr>| list.first().copied();
        let own = first(self.association.local_addresses())?;
        Some([own, first(self.association.peer_addresses())?])
    }

    /// Shuts the association down after what was sent. What the peer still sends is thrown away.
    pub(super) async fn close(self) {
        let Self { association, send, recv, mut aborts } = self;
        aborts.0 = None;
        drop((send, recv));
        let _ = association.close().await;
    }
}

impl Tcp {
    /// Options of associations.
    pub(super) fn config(&self) -> AssociationConfig {
        self.engine.config.clone()
    }

    /// Sockets with these local addresses, or all if there is none, and this UDP port unless IP carries SCTP.
    pub(super) fn binding(&self, mut addresses: Vec<Local>, udp_port: u16) -> Binding {
        addresses.sort_unstable();
        let udp_port = (!self.engine.raw).then_some(udp_port);
        let interface = self.engine.interface.clone();
        Binding { addresses, udp_port, interface, ..Binding::default() }
    }

    /// The endpoint with these local addresses; all if there is none.
    pub(super) async fn endpoint(&self, binding: Binding) -> Result<Arc<Lease>, Error> {
        let host = self.host.clone();
        // It may wait for a UDP port.
        let found = tokio::task::spawn_blocking(move || host.endpoint(&binding)).await;
        found.unwrap_or(Err(Error::Io))
    }

    /// The endpoint that connects. It has a UDP port of its own if one that listens has the wanted one.
    async fn client(&self) -> Result<Endpoint, Error> {
        let with = |port| self.endpoint(self.binding(self.engine.addresses.clone(), port));
        let open = || async {
            match with(self.engine.udp_port.unwrap_or(0)).await {
                Err(Error::AddressInUse) => with(0).await,
                opened => opened,
            }
        };
        Ok(self.client.get_or_try_init(open).await?.endpoint())
    }

    /// Whether the peer has answered while an association with this port is being set up. It may take time, but only
    /// connections for which TCP was faster ask.
    pub(super) fn has_answered(&self, remote: SocketAddr) -> bool {
        use AssociationState::{CookieEchoed, Established};
        let Some(lease) = self.client.get() else { return false };
        lease.endpoint().snapshot().associations.iter().any(|known| {
            let answered = matches!(known.statistics.state, CookieEchoed | Established);
            let is_remote = |path: &anabranch::PathStatistics| path.remote == remote.ip();
            answered
                && !known.incoming
                && known.remote_port == remote.port()
                && known.statistics.paths.iter().any(is_remote)
        })
    }
}
