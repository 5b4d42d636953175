//! UDP through both sides of the gateway, with SOCKS5's UDP ASSOCIATE.

mod common;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch::seal::SealHandle;
use anabranch_gateway::{Asked, FarOptions, NearOptions, Page, Status, Uplinks};
use common::{HANGS, Pair, allowing, outcome};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

/// Returns each datagram to its sender, with `re:` before it.
async fn echo(address: &str) -> SocketAddr {
    let socket = UdpSocket::bind(address).await.unwrap();
    let local = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = vec![0; 70_000];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            let answer = [b"re:", &buffer[..length]].concat();
            let _ = socket.send_to(&answer, from).await;
        }
    });
    local
}

/// A client with a UDP socket of the proxy.
struct Client {
    socket: UdpSocket,
    tcp: TcpStream,
}

/// A target as SOCKS5 writes it.
fn address(to: SocketAddr) -> Vec<u8> {
    let mut bytes = match to {
        SocketAddr::V4(to) => [&[1], &to.ip().octets()[..]].concat(),
        SocketAddr::V6(to) => [&[4], &to.ip().octets()[..]].concat(),
    };
    bytes.extend(to.port().to_be_bytes());
    bytes
}

fn name(name: &str, port: u16) -> Vec<u8> {
    [&[3, name.len() as u8], name.as_bytes(), &port.to_be_bytes()].concat()
}

impl Client {
    async fn start(pair: &Pair) -> Self {
        let mut tcp = pair.client().await;
        tcp.write_all(&[5, 1, 0, 5, 3, 0, 1, 0, 0, 0, 0, 0, 0]).await.unwrap();
        let mut reply = [0; 12];
        tcp.read_exact(&mut reply).await.unwrap();
        assert_eq!(reply[..10], [5, 0, 5, 0, 0, 1, 127, 0, 0, 1]);
        let port = u16::from_be_bytes([reply[10], reply[11]]);
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.connect(("127.0.0.1", port)).await.unwrap();
        Self { socket, tcp }
    }

    async fn send(&self, fragment: u8, to: &[u8], payload: &[u8]) {
        let datagram = [&[0, 0, fragment], to, payload].concat();
        self.socket.send(&datagram).await.unwrap();
    }

    async fn recv(&self) -> (Vec<u8>, Vec<u8>) {
        let mut buffer = vec![0; 70_000];
        let length = timeout(HANGS, self.socket.recv(&mut buffer)).await.expect("no answer");
        let datagram = &buffer[..length.unwrap()];
        assert_eq!(datagram[..3], [0, 0, 0]);
        let head = if datagram[3] == 1 { 7 } else { 19 };
        (datagram[3..3 + head].to_vec(), datagram[3 + head..].to_vec())
    }

    /// Sends until an answer comes: datagrams may be lost, as anywhere, before the association is there.
    async fn ask(&self, to: &[u8], payload: &[u8]) -> (Vec<u8>, Vec<u8>) {
        loop {
            self.send(0, to, payload).await;
            if let Ok(answer) = timeout(Duration::from_millis(500), self.recv()).await {
                return answer;
            }
        }
    }

    /// Ends the UDP association.
    async fn end(self) {
        drop(self.tcp);
    }
}

#[tokio::test]
async fn addresses_and_names_answer() {
    let mut pair = Pair::start().await;
    let v4 = echo("127.0.0.1:0").await;
    let client = Client::start(&pair).await;
    assert_eq!(client.ask(&address(v4), b"four").await, (address(v4), b"re:four".into()));
    assert_eq!(client.ask(&address(v4), b"").await, (address(v4), b"re:".into()));
    let (from, payload) = client.ask(&name("LOCALHOST.", v4.port()), b"name").await;
    // Where localhost is IPv6 first, nobody is there.
    assert_eq!((from, payload), (address(v4), b"re:name".into()));
    if std::net::UdpSocket::bind("[::1]:0").is_ok() {
        let v6 = echo("[::1]:0").await;
        assert_eq!(client.ask(&address(v6), b"six").await, (address(v6), b"re:six".into()));
    }
    let large = vec![7; 60_000];
    let (_, payload) = client.ask(&address(v4), &large).await;
    assert_eq!(payload.len(), large.len() + 3);
    client.end().await;
    let near = pair.access().await;
    assert_eq!((near.asked, outcome(&near)), (Asked::Udp, (Status::Connected, false)));
    let far = pair.far_access().await;
    assert_eq!((far.asked, far.target, far.address), (Asked::Udp, v4.to_string(), Some(v4)));
    assert!(far.bytes_sent >= 60_000 && far.bytes_received >= 60_000);
}

#[tokio::test]
async fn what_the_rules_refuse_is_dropped_and_said() {
    let mut pair = Pair::with(&["::1"], 100, NearOptions::default()).await;
    let secret = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let to = secret.local_addr().unwrap();
    let client = Client::start(&pair).await;
    // Until the far side has said so.
    for hidden in [address(to), name("localhost", to.port())] {
        for _ in 0..5 {
            client.send(0, &hidden, b"secret").await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    client.end().await;
    let near = pair.access().await;
    assert!(near.error.as_deref().is_some_and(|error| error.contains("not allow")), "{near:?}");
    let far = pair.far_access().await;
    assert_eq!((far.asked, far.status), (Asked::Udp, Status::Forbidden));
    let nothing = secret.try_recv(&mut [0; 10]).unwrap_err();
    assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
}

#[tokio::test]
async fn fragments_and_strangers_are_dropped() {
    let pair = Pair::start().await;
    let to = address(echo("127.0.0.1:0").await);
    let client = Client::start(&pair).await;
    client.ask(&to, b"first").await;
    client.send(1, &to, b"fragment").await;
    client.send(0x80, &to, b"last fragment").await;
    client.send(0, &[9, 9], b"").await;
    client.send(0, &name("no such host!", 1), b"x").await;
    // From another port than the client's.
    let stranger = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let datagram = [&[0, 0, 0], &to[..], b"stranger"].concat();
    stranger.send_to(&datagram, client.socket.peer_addr().unwrap()).await.unwrap();
    let answer = client.ask(&to, b"second").await;
    let mut last = answer;
    // Earlier questions may have been asked twice.
    while last.1 == b"re:first" {
        last = client.recv().await;
    }
    assert_eq!(last, (to, b"re:second".into()));
}

#[tokio::test]
async fn only_who_was_asked_may_answer() {
    let pair = Pair::start().await;
    let (server, stranger) = (
        UdpSocket::bind("127.0.0.1:0").await.unwrap(),
        UdpSocket::bind("127.0.0.9:0").await.unwrap(),
    );
    let to = address(server.local_addr().unwrap());
    let client = Client::start(&pair).await;
    let mut buffer = [0; 10];
    let from = loop {
        client.send(0, &to, b"hi").await;
        let received = server.recv_from(&mut buffer);
        if let Ok(received) = timeout(Duration::from_millis(500), received).await {
            break received.unwrap().1;
        }
    };
    let from = SocketAddr::from(([127, 0, 0, 1], from.port()));
    stranger.send_to(b"from a stranger", from).await.unwrap();
    // Another port of the same host may answer, as with TFTP.
    let other = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    other.send_to(b"other port", from).await.unwrap();
    assert_eq!(client.recv().await, (address(other.local_addr().unwrap()), b"other port".into()));
}

#[tokio::test]
async fn an_idle_flow_frees_its_sockets_and_begins_again() {
    let rules = allowing(&["127.0.0.0/8"]);
    let udp_idle = Duration::from_millis(300);
    let options = FarOptions { rules, udp_idle, udp_flows: 1, ..FarOptions::default() };
    let mut pair = Pair::with_far(options, 100, NearOptions::default()).await;
    let to = address(echo("127.0.0.1:0").await);
    let client = Client::start(&pair).await;
    client.ask(&to, b"one").await;
    let ended = pair.far_access().await;
    assert_eq!((ended.asked, outcome(&ended)), (Asked::Udp, (Status::Connected, false)));
    // There is one place, so another flow shows that the first one is gone.
    let another = Client::start(&pair).await;
    assert_eq!(another.ask(&to, b"two").await.1, b"re:two");
    pair.far_access().await;
    assert_eq!(client.ask(&to, b"three").await.1, b"re:three");
}

#[tokio::test]
async fn fifty_datagrams_a_second_come_back_in_spite_of_a_download() {
    let pair = Pair::start().await;
    let site = common::site().await;
    let to = address(echo("127.0.0.1:0").await);
    let client = Client::start(&pair).await;
    client.ask(&to, b"warm").await;
    let mut download = pair.client().await;
    let request = format!("GET http://{site}/endless HTTP/1.1\r\nHost: {site}\r\n\r\n");
    download.write_all(request.as_bytes()).await.unwrap();
    let reading = tokio::spawn(async move {
        let mut buffer = vec![0; 100_000];
        while download.read(&mut buffer).await.unwrap() > 0 {}
    });
    let mut came = 0;
    for number in 0..50_u8 {
        client.send(0, &to, &[number]).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        while let Ok((_, payload)) = timeout(Duration::from_millis(1), client.recv()).await {
            came += usize::from(payload.len() == 4);
        }
    }
    // A busy machine may delay some for more than their lifetime.
    assert!(came >= 25, "{came} of 50");
    reading.abort();
}

#[tokio::test]
async fn a_flow_outlives_the_association() {
    let mut pair = Pair::start().await;
    let to = address(echo("127.0.0.1:0").await);
    let client = Client::start(&pair).await;
    client.ask(&to, b"before").await;
    pair.stop_far().await;
    pair.start_far();
    loop {
        let (_, payload) = client.ask(&to, b"after").await;
        if payload == b"re:after" {
            break;
        }
    }
}

#[tokio::test]
async fn many_flows_are_bounded() {
    let rules = allowing(&["127.0.0.0/8"]);
    let options = FarOptions { rules, udp_flows: 20, ..FarOptions::default() };
    let mut pair = Pair::with_far(options, 100, NearOptions::default()).await;
    let to = address(echo("127.0.0.1:0").await);
    let mut clients = Vec::new();
    for _ in 0..20 {
        let client = Client::start(&pair).await;
        client.ask(&to, b"in").await;
        clients.push(client);
    }
    let late = Client::start(&pair).await;
    late.send(0, &to, b"no place").await;
    // When one ends, its place is free.
    clients.remove(0).end().await;
    assert_eq!(pair.far_access().await.asked, Asked::Udp);
    assert_eq!(late.ask(&to, b"now").await.1, b"re:now");
}

#[tokio::test]
async fn what_a_user_may_have_holds_for_datagrams() {
    let mut pair = Pair::start().await;
    pair.allow("limit=1kB/d");
    let to = address(echo("127.0.0.1:0").await);
    let client = Client::start(&pair).await;
    client.ask(&to, b"warm").await;
    // The echo of it is too much.
    client.send(0, &to, &[1; 1100]).await;
    client.send(0, &to, b"none").await;
    timeout(Duration::from_millis(300), client.recv()).await.unwrap_err();
    let other = Client::start(&pair).await;
    other.send(0, &to, b"no place for a flow").await;
    timeout(Duration::from_millis(300), other.recv()).await.unwrap_err();
    pair.allow("connections=1");
    assert_eq!(client.ask(&to, b"one").await.1, b"re:one");
    other.send(0, &to, b"no place either").await;
    timeout(Duration::from_millis(300), other.recv()).await.unwrap_err();
    client.end().await;
    assert_eq!(pair.far_access().await.asked, Asked::Udp);
    assert_eq!(other.ask(&to, b"two").await.1, b"re:two");
    // So much in a row exceeds this rate.
    pair.allow("rate=8kb/s");
    let mut came = 0;
    for _ in 0..100 {
        other.send(0, &to, &[2; 100]).await;
    }
    while timeout(Duration::from_millis(300), other.recv()).await.is_ok() {
        came += 1;
    }
    assert!(came < 90, "{came}");
}

#[tokio::test]
async fn the_status_page_counts_datagrams() {
    let uplinks = Arc::new(Uplinks::named(SealHandle::default(), Vec::new(), None).unwrap());
    let page = Some(Page::new("secret".to_owned(), uplinks));
    let options = NearOptions { page, ..NearOptions::default() };
    let pair = Pair::with(&["127.0.0.0/8"], 100, options).await;
    let client = Client::start(&pair).await;
    let to = address(echo("127.0.0.1:0").await);
    for _ in 0..3 {
        assert_eq!(client.ask(&to, b"a").await.1, b"re:a");
    }
    // A fragment.
    client.send(1, &to, b"a").await;
    assert_eq!(client.ask(&to, b"b").await.1, b"re:b");
    let host = pair.proxy;
    let request = format!(
        "GET /status.json?token=secret HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"
    );
    let answer = pair.raw(request).await;
    let view: serde_json::Value =
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    let count = |name: &str| view["udp"][name].as_u64().unwrap();
    // Questions are repeated when an answer is late.
    assert!(count("sent") >= 4 && count("received") >= 4 && count("dropped") >= 1, "{view}");
    assert_eq!(count("flows"), 1);
    client.end().await;
}
