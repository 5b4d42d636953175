//! UDP ASSOCIATE of SOCKS5 (RFC 1928 section 7): a UDP socket for one client.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};

use super::socks5;
use super::udp::{Answer, Flow, Flows};
use crate::access::{Access, Asked};
use crate::status::Status;
use crate::udp::{MOST_PAYLOAD, send_now};

/// Most bytes before the payload of a datagram of a client: three, and a target.
const LONGEST_HEAD: usize = 3 + 259;

/// Carries datagrams of a client until it closes its TCP connection. `port` is the one from which the client has said
/// it will send; 0 if it has not.
pub(super) async fn serve(
    flows: &Arc<Flows>,
    mut tcp: TcpStream,
    client: SocketAddr,
    port: u16,
) -> io::Result<Access> {
    let began = Instant::now();
    let local = SocketAddr::new(tcp.local_addr()?.ip(), 0);
    let socket = match UdpSocket::bind(local).await {
        Ok(socket) => socket,
        Err(error) => {
            tcp.write_all(&socks5::reply(Status::Failed)).await?;
            return Err(error);
        }
    };
    tcp.write_all(&socks5::associated(socket.local_addr()?)).await?;
    let mut relay = Relay {
        flow: flows.begin(),
        socket,
        client: client.ip(),
        port: Some(port).filter(|port| *port != 0),
        refusal: None,
        sent: 0,
        received: 0,
    };
    let ended = tokio::select! {
        ended = relay.run(flows) => ended,
        ended = end_of(&mut tcp) => ended,
    };
    let refusal = relay.refusal.take();
    Ok(Access {
        asked: Asked::Udp,
        client: Some(client),
        target: String::new(),
        address: None,
        status: Status::Connected,
        code: None,
        bytes_sent: relay.sent,
        bytes_received: relay.received,
        took: began.elapsed(),
        error: ended.err().map(|error| error.to_string()).or(refusal),
    })
}

/// Waits until the client closes its connection. What it sends there has no meaning.
async fn end_of(tcp: &mut TcpStream) -> io::Result<()> {
    let mut ignored = [0; 256];
    while tcp.read(&mut ignored).await? > 0 {}
    Ok(())
}

struct Relay {
    flow: Flow,
    socket: UdpSocket,
    client: IpAddr,
    /// The client's port, as soon as it is known.
    port: Option<u16>,
    refusal: Option<String>,
    sent: u64,
    received: u64,
}

impl Relay {
    async fn run(&mut self, flows: &Flows) -> io::Result<()> {
        // One byte more, to notice what is longer than any datagram that can be passed on.
        let mut buffer = vec![0; LONGEST_HEAD + MOST_PAYLOAD + 1];
        loop {
            tokio::select! {
                received = self.socket.recv_from(&mut buffer) => match received {
                    Ok((length, from)) => {
                        if self.forward(&buffer[..length], from).is_none() {
                            flows.drop_one();
                        }
                    }
                    // An earlier answer did not arrive: the client may have another port by now.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                    Err(error) => return Err(error),
                },
                answer = self.flow.recv() => self.answer(answer),
            }
        }
    }

    /// Passes a datagram on. `None` if it is not from the client, malformed, or a fragment.
    fn forward(&mut self, datagram: &[u8], from: SocketAddr) -> Option<()> {
        let is_client = from.ip().to_canonical() == self.client.to_canonical()
            && self.port.is_none_or(|port| port == from.port());
        let (target, payload) = socks5::parse_datagram(datagram).filter(|_| is_client)?;
        // Only now, so that nobody else can take the place of the client with something malformed.
        self.port = Some(from.port());
        self.sent += payload.len() as u64;
        self.flow.send(target, Bytes::copy_from_slice(payload));
        Some(())
    }

    fn answer(&mut self, answer: Answer) {
        match answer {
            Answer::Datagram { from, payload, .. } => {
                let Some(port) = self.port else { return };
                self.received += payload.len() as u64;
                let bytes = socks5::datagram(from, &payload);
                // As with any network, what finds no room is lost.
                let _ = send_now(&self.socket, &bytes, SocketAddr::new(self.client, port));
            }
            Answer::Refused(target, status) => {
                self.refusal = Some(format!("datagrams to {target} are dropped: {status}"));
            }
        }
    }
}
