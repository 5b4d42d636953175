//! UDP between near and far: the messages, and the streams of the association that carry them.
//!
//! A datagram is one unordered message that is given up after [`LIFETIME`]: what comes later than that is as good as
//! lost, and applications of UDP expect losses. Two streams that both sides find by their numbers carry the messages of
//! all flows. A flow is what one socket of a client is: near chooses its number and never uses it again, and far opens
//! sockets for it when its first datagram arrives. So neither waits for the other.

pub(crate) mod counters;
pub(crate) mod message;
mod outlet;
pub(crate) mod recent;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use anabranch::{Association, RecvStream, SendStream};
use bytes::{Buf as _, Bytes};
use socket2::SockRef;
use tokio::net::UdpSocket;

pub(crate) use self::outlet::Outlet;

/// How long a datagram may wait for being sent, or be sent again after a loss.
pub(crate) const LIFETIME: Duration = Duration::from_millis(100);

/// Most payload of a datagram: that of IPv4. That of IPv6 is 20 bytes longer, but no system sends it by default.
pub(crate) const MOST_PAYLOAD: usize = 65_507;

/// An association with fewer streams than this carries no UDP.
const FEWEST_STREAMS: u16 = 16;

/// The streams of an association for datagrams: urgent ones, and those of flows that carry much.
pub(crate) struct Streams {
    senders: [SendStream; 2],
    receivers: [RecvStream; 2],
}

impl Streams {
    /// Takes the two last streams, before others can. `None` if the association has ended or has few streams.
    pub(crate) fn take(association: &Association) -> Option<Self> {
        let count = association.outbound_streams().min(association.inbound_streams());
        if count < FEWEST_STREAMS {
            return None;
        }
        let (urgent, from_urgent) = association.stream(count - 1).ok()?;
        let (bulk, from_bulk) = association.stream(count - 2).ok()?;
        Some(Self { senders: [urgent, bulk], receivers: [from_urgent, from_bulk] })
    }

    /// Both directions. Must be called within a tokio runtime.
    pub(crate) fn split(self, counters: counters::Shared) -> (Outlet, Inlet) {
        let [urgent, bulk] = self.receivers;
        (Outlet::new(self.senders, counters), Inlet { urgent, bulk })
    }
}

/// Sends a datagram now or not at all. tokio's sockets do not know that they can send until their first turn, so their
/// own method would refuse the first datagram of each.
pub(crate) fn send_now(socket: &UdpSocket, payload: &[u8], to: SocketAddr) -> io::Result<()> {
    SockRef::from(socket).send_to(payload, &to.into()).map(drop)
}

/// Receives the messages of both streams.
#[derive(Debug)]
pub(crate) struct Inlet {
    urgent: RecvStream,
    bulk: RecvStream,
}

impl Inlet {
    /// The next whole message; `None` after the end of the association or if the peer ends one of the streams.
    /// Cancel-safe.
    pub(crate) async fn recv(&mut self) -> Option<Bytes> {
        loop {
            let message = tokio::select! {
                message = self.urgent.recv() => message,
                message = self.bulk.recv() => message,
            };
            let mut message = message.ok()??;
            // A message in parts is larger than any datagram of a client of ours.
            if message.is_whole() {
                let length = message.payload.remaining();
                return Some(message.payload.copy_to_bytes(length));
            }
        }
    }
}
