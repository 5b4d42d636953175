//! Connects over SCTP, or over TCP where the peer does not answer in time.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Tcp;
use super::association::{Carrier, Refusal};
use super::memory::Known;
use crate::lock::lock;

/// How long SCTP alone is tried. A host without SCTP costs this once. In a local network, the peer answers
/// within a millisecond; where it takes longer than this, the answer still counts before TCP's, which is asked later.
const HEAD_START: Duration = Duration::from_millis(40);

/// The same for hosts that have carried connections over SCTP: an INIT may be lost, and is sent again after a second.
const LONG_HEAD_START: Duration = Duration::from_secs(3);

/// How long a peer that has answered to INIT may take for the rest, when TCP is connected already.
const PATIENCE: Duration = Duration::from_secs(1);

/// A connection with a peer.
#[derive(Debug)]
pub(super) enum Peer {
    Sctp(Box<Carrier>),
    Tcp(TcpStream),
}

impl Tcp {
    /// Connects to a peer: with an INIT, and after a head start with TCP as well. The error is a number of `errno`.
    pub(super) async fn connect(self: &Arc<Self>, remote: SocketAddr) -> Result<Peer, i32> {
        let mut sctp = pin!(self.over_sctp(remote));
        if self.settings.required {
            return sctp.await.map_err(|refusal| match refusal {
                Refusal::Silent => libc::EHOSTUNREACH,
                Refusal::Refused => libc::ECONNREFUSED,
            });
        }
        let known = lock(&self.memory).of(remote);
        let head_start = if known == Known::Sctp { LONG_HEAD_START } else { HEAD_START };
        match timeout(head_start, &mut sctp).await {
            Ok(Ok(peer)) => return Ok(peer),
            Ok(Err(_)) => return over_tcp(remote).await,
            Err(_) => {}
        }
        let mut plain = pin!(over_tcp(remote));
        let tcp = tokio::select! {
            result = &mut sctp => match result {
                Ok(peer) => return Ok(peer),
                Err(_) => return plain.await,
            },
            result = &mut plain => result,
        };
        let has_answered = self.has_answered(remote);
        match tcp {
            Ok(_) if !has_answered => lock(&self.memory).is_silent(remote),
            Ok(_) => match timeout(PATIENCE, &mut sctp).await {
                Ok(Ok(peer)) => return Ok(peer),
                _ => lock(&self.memory).refuses(remote),
            },
            Err(_) if known == Known::Sctp || has_answered => return sctp.await.or(tcp),
            Err(_) => {}
        }
        tcp
    }

    async fn over_sctp(self: &Arc<Self>, remote: SocketAddr) -> Result<Peer, Refusal> {
        let result = Carrier::connect(self, remote).await;
        let mut memory = lock(&self.memory);
        match result {
            Ok(_) => memory.has_sctp(remote),
            Err(Refusal::Silent) => memory.is_silent(remote),
            Err(Refusal::Refused) => memory.refuses(remote),
        }
        result.map(|carrier| Peer::Sctp(Box::new(carrier)))
    }
}

async fn over_tcp(remote: SocketAddr) -> Result<Peer, i32> {
    let number = |error: io::Error| error.raw_os_error().unwrap_or(libc::EIO);
    let stream = TcpStream::connect(remote).await.map_err(number)?;
    // Its program decides when bytes are sent, and may count on either.
    stream.set_nodelay(true).map_err(number)?;
    let _ = sockopt::set_socket_keepalive(&stream, true);
    let _ = sockopt::set_socket_oobinline(&stream, true);
    Ok(Peer::Tcp(stream))
}
