//! A UDP relay for programs whose destination can be configured. It needs no namespaces, devices or privileges.
//!
//! Clients send to the relay's address. The relay forwards to the server, from a separate port for each client. All
//! datagrams in one direction share one link.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anabranch_impair::file::{Direction, ImpairmentFile};
use anabranch_impair::pattern::Facts;
use anabranch_impair::{Link, LinkConfig, Packet, Rng, flip};
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::stop::stopped;
use crate::{Error, LinkReport, Notice, Notify};

/// Maximum number of clients. When it is exceeded, the client that was silent longest is evicted.
const MOST_CLIENTS: usize = 1024;
/// Maximum number of datagrams waiting for the relay itself; further ones are lost.
const MOST_WAITING: usize = 4096;
/// Maximum number of datagrams in one link.
const MOST_HELD: usize = 1 << 18;
/// Largest datagram.
const MOST_BYTES: usize = 65_535;
const UDP: u8 = 17;

/// Where a relay listens and where it sends to. In text the two are separated by `=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayAddress {
    /// Where clients send to. With port 0 the system chooses one.
    pub listen: SocketAddr,
    /// The server.
    pub server: SocketAddr,
}

impl FromStr for RelayAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (listen, server) =
            text.split_once('=').ok_or("a relay is two addresses with = between them")?;
        let read = |text: &str| {
            text.parse::<SocketAddr>().map_err(|_| {
                format!("'{text}' is not an address with a port, as in 127.0.0.1:7000")
            })
        };
        let (listen, server) = (read(listen)?, read(server)?);
        if listen.is_ipv4() != server.is_ipv4() {
            return Err("both addresses of a relay are of the same version of IP".into());
        }
        if server.port() == 0 {
            return Err("a relay sends to a port from 1".into());
        }
        if listen == server {
            return Err("a relay must not send to itself".into());
        }
        Ok(Self { listen, server })
    }
}

impl fmt::Display for RelayAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.listen, self.server)
    }
}

/// A datagram in transit.
#[derive(Clone, Debug)]
struct Datagram {
    payload: Vec<u8>,
    client: SocketAddr,
    from: SocketAddr,
    to: SocketAddr,
}

impl Datagram {
    fn headers(&self) -> usize {
        if self.from.is_ipv4() { 28 } else { 48 }
    }
}

impl Packet for Datagram {
    const HAS_FACTS: bool = true;

    fn facts(&self) -> Option<Facts> {
        Facts::of_ip(&self.as_ip())
    }

    fn size(&self) -> usize {
        self.headers() + self.payload.len()
    }

    fn flip(&mut self, bit: i64) -> bool {
        // The headers belong to the system; bits counted from the end belong to the payload.
        let before = i64::try_from(self.headers()).unwrap_or(0) * 8;
        let bit = if bit < 0 { bit } else { bit - before };
        (bit < 0 || self.payload.len() as i64 * 8 > bit) && flip(&mut self.payload, bit)
    }

    fn corrupt(&mut self, rng: &mut Rng) -> bool {
        let bits = self.payload.len() as u64 * 8;
        bits > 0 && flip(&mut self.payload, i64::try_from(rng.below(bits)).unwrap_or(0))
    }

    fn duplicate(&self) -> Option<Self> {
        Some(self.clone())
    }
}

impl Datagram {
    /// The datagram as an IP packet, as far as filters need it.
    fn as_ip(&self) -> Vec<u8> {
        let length = u16::try_from(self.payload.len() + 8).unwrap_or(u16::MAX).to_be_bytes();
        let mut bytes = Vec::with_capacity(self.size());
        match (self.from.ip(), self.to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                bytes.extend_from_slice(&[0x45, 0, 0, 0, 0, 0, 0, 0, 64, UDP, 0, 0]);
                bytes.extend_from_slice(&from.octets());
                bytes.extend_from_slice(&to.octets());
            }
            (from, to) => {
                let six = |address: IpAddr| match address {
                    IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                    IpAddr::V6(v6) => v6,
                };
                bytes.extend_from_slice(&[0x60, 0, 0, 0, length[0], length[1], UDP, 64]);
                bytes.extend_from_slice(&six(from).octets());
                bytes.extend_from_slice(&six(to).octets());
            }
        }
        bytes.extend_from_slice(&self.from.port().to_be_bytes());
        bytes.extend_from_slice(&self.to.port().to_be_bytes());
        bytes.extend_from_slice(&[length[0], length[1], 0, 0]);
        bytes.extend_from_slice(&self.payload);
        bytes
    }
}

/// A client's socket to the server, and the task that reads from the socket.
struct Client {
    socket: Arc<UdpSocket>,
    reading: JoinHandle<()>,
    heard: Instant,
}

impl Drop for Client {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

/// A relay that is listening.
///
/// It belongs to the tokio runtime in which it was bound.
pub struct Relay {
    address: RelayAddress,
    socket: UdpSocket,
    clients: HashMap<SocketAddr, Client>,
    /// To the server, and back.
    links: [Link<Datagram>; 2],
    names: [Option<String>; 2],
    answers: (mpsc::Sender<Datagram>, mpsc::Receiver<Datagram>),
    begun: Instant,
}

impl Relay {
    /// Starts to listen. In the file, `local` is the relay's address, `remote` the server, and `send` the direction to
    /// the server. `seed` is for links without a seed in the file.
    ///
    /// # Errors
    /// Fails if the relay cannot listen at the address or a link cannot be created.
    pub async fn bind(
        file: &ImpairmentFile,
        mut address: RelayAddress,
        seed: u64,
    ) -> Result<Self, Error> {
        let socket = UdpSocket::bind(address.listen)
            .await
            .map_err(|error| Error::Listen { address: address.listen, error })?;
        address.listen = socket.local_addr().map_err(Error::Io)?;
        let (local, remote) = (address.listen.ip(), address.server.ip());
        let link = |direction| {
            let found = file.link(local, remote, direction, seed).map_err(Error::Link)?;
            match found {
                Some(link) => Ok(link),
                None => Link::new(LinkConfig::default(), seed).map_err(Error::Link),
            }
        };
        let name =
            |direction| file.find(local, remote, direction).and_then(|entry| entry.name.clone());
        Ok(Self {
            address,
            socket,
            clients: HashMap::new(),
            links: [link(Direction::Send)?, link(Direction::Receive)?],
            names: [name(Direction::Send), name(Direction::Receive)],
            answers: mpsc::channel(MOST_WAITING),
            begun: Instant::now(),
        })
    }

    /// The address it listens at, with the port that the system chose, and the address it sends to.
    pub fn address(&self) -> RelayAddress {
        self.address
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Relays until `stop` becomes `true`. Returns the statistics of the links.
    ///
    /// # Errors
    /// Fails if a socket can no longer receive.
    pub async fn run(
        mut self,
        stop: watch::Receiver<bool>,
        notify: Notify,
    ) -> Result<Vec<LinkReport>, Error> {
        let mut buffer = vec![0; MOST_BYTES];
        loop {
            self.hand_on(&notify).await;
            let next = self.links.iter().filter_map(Link::next_deadline).min();
            let wait = next.map_or(Duration::from_secs(3600), Duration::from_nanos);
            let until = tokio::time::sleep_until(self.begun + wait);
            tokio::select! {
                () = stopped(&stop) => return Ok(self.reports()),
                () = until, if next.is_some() => {}
                answer = self.answers.1.recv() => {
                    if let Some(answer) = answer {
                        self.offer(1, answer);
                    }
                }
                received = self.socket.recv_from(&mut buffer) => match received {
                    Ok((length, client)) => {
                        let payload = buffer.get(..length).unwrap_or_default().to_vec();
                        let to = self.address.server;
                        self.offer(0, Datagram { payload, client, from: client, to });
                    }
                    // An ICMP error for a datagram to a client that is gone.
                    Err(error) if passing(&error) => {}
                    Err(error) => {
                        return Err(Error::Receive { address: self.address.listen, error });
                    }
                },
            }
        }
    }

    fn offer(&mut self, way: usize, datagram: Datagram) {
        let now = self.now();
        if let Some(link) = self.links.get_mut(way).filter(|link| link.in_transit() < MOST_HELD) {
            // The link's statistics record its fate.
            link.send(now, datagram);
        }
    }

    /// Forwards the datagrams that have reached the ends of the links.
    async fn hand_on(&mut self, notify: &Notify) {
        for way in 0..2 {
            let now = self.now();
            while let Some(datagram) = self.links.get_mut(way).and_then(|link| link.poll(now)) {
                // A datagram that cannot be sent is lost, as on a wire.
                if way == 1 {
                    let _ = self.socket.send_to(&datagram.payload, datagram.client).await;
                } else if let Some(socket) = self.socket_of(datagram.client, notify).await {
                    let _ = socket.send(&datagram.payload).await;
                }
            }
        }
    }

    /// The socket to the server for a client.
    async fn socket_of(&mut self, client: SocketAddr, notify: &Notify) -> Option<Arc<UdpSocket>> {
        if let Some(known) = self.clients.get_mut(&client) {
            known.heard = Instant::now();
            return Some(Arc::clone(&known.socket));
        }
        if self.clients.len() >= MOST_CLIENTS {
            let silent = self.clients.iter().min_by_key(|(_, client)| client.heard);
            let silent = silent.map(|(address, _)| *address)?;
            self.clients.remove(&silent);
        }
        let server = self.address.server;
        match open(server).await {
            Ok(socket) => {
                let socket = Arc::new(socket);
                let reading =
                    tokio::spawn(read(Arc::clone(&socket), client, server, self.answers.0.clone()));
                let kept = Client { socket: Arc::clone(&socket), reading, heard: Instant::now() };
                self.clients.insert(client, kept);
                Some(socket)
            }
            Err(error) => {
                notify(Notice::NoSocket { client, error });
                None
            }
        }
    }

    fn reports(&self) -> Vec<LinkReport> {
        let ways = ["send", "receive"].into_iter().zip(&self.links).zip(&self.names);
        let reports = ways.map(|((direction, link), name)| LinkReport {
            name: name.clone(),
            local: self.address.listen.ip(),
            remote: self.address.server.ip(),
            direction,
            statistics: *link.stats(),
        });
        reports.collect()
    }
}

async fn open(server: SocketAddr) -> io::Result<UdpSocket> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    Ok(socket)
}

/// Reads what the server sends to a client.
async fn read(
    socket: Arc<UdpSocket>,
    client: SocketAddr,
    server: SocketAddr,
    answers: mpsc::Sender<Datagram>,
) {
    let mut buffer = vec![0; MOST_BYTES];
    loop {
        match socket.recv(&mut buffer).await {
            Ok(length) => {
                let payload = buffer.get(..length).unwrap_or_default().to_vec();
                // A relay that falls behind drops packets, as any queue does.
                let _ = answers.try_send(Datagram { payload, client, from: server, to: client });
            }
            Err(error) if passing(&error) => {}
            Err(_) => return,
        }
    }
}

/// Whether a socket stays usable after an error, because the error is about an earlier datagram.
fn passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, HostUnreachable, NetworkUnreachable};
    let kinds = [ConnectionRefused, ConnectionReset, HostUnreachable, NetworkUnreachable];
    kinds.contains(&error.kind())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let relay: RelayAddress = "127.0.0.1:0=[::1]:5".parse().unwrap_or_else(|reason: String| {
            assert!(reason.contains("same version"), "{reason}");
            "127.0.0.1:0=10.0.0.1:5".parse().unwrap()
        });
        assert_eq!(relay.to_string(), "127.0.0.1:0=10.0.0.1:5");
        assert!("127.0.0.1:7000=127.0.0.1:7000".parse::<RelayAddress>().is_err());
        for (text, part) in [
            ("127.0.0.1:1", "two addresses"),
            ("127.0.0.1=127.0.0.1:5", "'127.0.0.1' is not an address with a port"),
            ("127.0.0.1:5=x:5", "'x:5' is not an address"),
            ("127.0.0.1:5=127.0.0.1:0", "a port from 1"),
        ] {
            let reason = text.parse::<RelayAddress>().unwrap_err();
            assert!(reason.contains(part), "{reason}");
        }
    }

    #[test]
    fn filters_see_a_datagram_as_it_is_on_the_wire() {
        let ends = ["10.0.0.1:9", "10.0.0.2:9899"].map(|text| text.parse().unwrap());
        let mut datagram =
            Datagram { payload: vec![0; 12], client: ends[0], from: ends[0], to: ends[1] };
        datagram.payload.extend_from_slice(&[1, 0, 0, 4]);
        let facts = datagram.facts().unwrap();
        assert_eq!((facts.protocol, facts.source_port, facts.destination_port), (17, 9, 9899));
        assert_eq!((datagram.size(), facts.payload), (44, 16));
        assert!(facts.has_chunk(1) && !facts.has_chunk(0));
        assert!(datagram.flip(28 * 8) && datagram.flip(-1) && !datagram.flip(0));
        assert_eq!((datagram.payload[0], datagram.payload[15]), (0x80, 5));
        let six = ["[::1]:1", "[::2]:2"].map(|text| text.parse().unwrap());
        let datagram = Datagram { from: six[0], to: six[1], ..datagram };
        assert_eq!(datagram.facts().unwrap().destination, Some("::2".parse().unwrap()));
    }

    #[tokio::test]
    async fn datagrams_cross_until_it_is_asked_to_stop() {
        let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let file: ImpairmentFile =
            "[[path]]\nlocal = \"127.0.0.1\"\ndirection = \"send\"\nlose_packets = [2]"
                .parse()
                .unwrap();
        let address = RelayAddress {
            listen: "127.0.0.1:0".parse().unwrap(),
            server: server.local_addr().unwrap(),
        };
        let relay = Relay::bind(&file, address, 1).await.unwrap();
        let listen = relay.address().listen;
        let (stop, stopping) = watch::channel(false);
        let running = tokio::spawn(relay.run(stopping, Arc::new(|notice| panic!("{notice:?}"))));
        let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        for payload in [b"one", b"two", b"six"] {
            client.send_to(payload, listen).await.unwrap();
        }
        let mut room = [0; 8];
        for payload in [b"one", b"six"] {
            let (length, from) = server.recv_from(&mut room).await.unwrap();
            assert_eq!(&room[..length], payload);
            server.send_to(payload, from).await.unwrap();
            let (length, from) = client.recv_from(&mut room).await.unwrap();
            assert_eq!((&room[..length], from), (&payload[..], listen));
        }
        stop.send(true).unwrap();
        let reports = running.await.unwrap().unwrap();
        let counts = |link: &LinkReport| {
            let s = link.statistics;
            (link.direction, s.offered, s.lost_model, s.delivered)
        };
        let counts: Vec<_> = reports.iter().map(counts).collect();
        assert_eq!(counts, [("send", 3, 1, 2), ("receive", 2, 0, 2)]);
    }
}
