//! Strangers, watchers and clients of sealed paths (docs/sealed.md).

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use anabranch_seal::{
    Allow, Endpoint, Families, KeyQuestion, Route, Sealed, SecretKey, Transmit, VirtualNetwork,
};
use anabranch_units::Instant;

use crate::{Attack, Memory, attack, figure};

/// The real address of the server.
const SERVER: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 1)), 9899);

pub(crate) fn all() -> Vec<Attack> {
    vec![
        without_the_key(),
        with_a_forbidden_key(),
        repeated_hello(),
        endpoints_of_one_key(),
        hellos_in_a_second(1),
        hellos_in_a_second(200_000),
        questions(),
        unsent_answers(),
        flood_during_a_session(),
        altered_records(),
        repeated_record(),
    ]
}

fn secret(byte: u8) -> SecretKey {
    SecretKey::from_bytes([byte; 32])
}

fn server(allow: Allow) -> Endpoint {
    Endpoint::listening(secret(2), allow, [12; 32])
}

/// A client with this key; the seed makes it an endpoint of its own.
fn client(key: u8, seed: u16) -> Endpoint {
    let mut bytes = [key; 32];
    bytes[..2].copy_from_slice(&seed.to_be_bytes());
    let mut client = Endpoint::connecting(secret(key), bytes);
    client.add_host(secret(2).public(), vec![SERVER], None);
    client.set_uplink(Instant::ZERO, 0, Families { ipv4: true, ipv6: false });
    client
}

/// The first packet of a client.
fn hello(client: &mut Endpoint, now: Instant) -> Vec<u8> {
    let sent = send(client, now, secret(2).public().remotes(1)[0], b"first");
    assert!(sent.is_none(), "no session yet");
    client.poll_transmit().expect("a hello").contents
}

/// Seals a message to a virtual address on path 0.
fn send(
    sender: &mut Endpoint,
    now: Instant,
    to: SocketAddr,
    message: &[u8],
) -> Option<(Route, Vec<u8>)> {
    let (local, mut out) = (sender.network().address(0).into(), Vec::new());
    match sender.seal(now, (local, to.ip()), message, message.len(), &mut out) {
        Ok(Sealed::Send { route, .. }) => Some((route, out)),
        _ => None,
    }
}

fn from(number: u32) -> Route {
    let [_, a, b, c] = number.to_be_bytes();
    Route { socket: 0, local: None, remote: ([100, a, b, c], 1000).into() }
}

/// What an endpoint has sent.
#[derive(Default)]
struct Sent {
    packets: u64,
    longest: u64,
}

impl Sent {
    fn take(&mut self, endpoint: &mut Endpoint) {
        while let Some(Transmit { contents, .. }) = endpoint.poll_transmit() {
            self.packets += 1;
            self.longest = self.longest.max(contents.len() as u64);
        }
    }
}

/// Opens a copy of a datagram; returns whether it had something for the layer above.
fn open(endpoint: &mut Endpoint, now: Instant, route: &Route, datagram: &[u8]) -> bool {
    let (mut buffer, size) = (datagram.to_vec(), datagram.len());
    endpoint.open(now, route, &mut buffer, size).is_some()
}

fn after(milliseconds: u32) -> Instant {
    Instant::from_secs(1) + Duration::from_millis(u64::from(milliseconds))
}

fn without_the_key() -> Attack {
    let mut server = server(Allow::Any);
    let mut stranger = Endpoint::connecting(secret(1), [1; 32]);
    stranger.add_host(secret(3).public(), vec![SERVER], None);
    stranger.set_uplink(Instant::ZERO, 0, Families { ipv4: true, ipv6: false });
    send(&mut stranger, after(0), secret(3).public().remotes(1)[0], b"first");
    let hello = stranger.poll_transmit().expect("a hello").contents;
    let (mut memory, mut sent) = (Memory::now(), Sent::default());
    for number in 0..100_000 {
        open(&mut server, after(number), &from(number), &hello);
        sent.take(&mut server);
        memory.grown();
    }
    let figures =
        [figure("packets sent", 0, sent.packets), figure("bytes held", 4096, memory.most())];
    attack("100,000 hellos for another key, from as many addresses", figures)
}

fn with_a_forbidden_key() -> Attack {
    let mut server = server(Allow::nobody());
    let hellos: Vec<_> = (0..1000).map(|seed| hello(&mut client(1, seed), after(0))).collect();
    let (mut memory, mut sent) = (Memory::now(), Sent::default());
    for (number, hello) in (0..).zip(&hellos) {
        open(&mut server, after(number), &from(number), hello);
        sent.take(&mut server);
        memory.grown();
    }
    let figures = [
        figure("bytes in the longest answer", 40, sent.longest),
        figure("bytes held", 16_384, memory.most()),
    ];
    attack("1,000 hellos in a second from a key that is not allowed", figures)
}

fn repeated_hello() -> Attack {
    let mut server = server(Allow::Any);
    let hello = hello(&mut client(1, 1), after(0));
    let (mut memory, mut sent) = (Memory::now(), Sent::default());
    for number in 0..10_000 {
        open(&mut server, after(0), &from(number), &hello);
        sent.take(&mut server);
        memory.grown();
    }
    let figures = [
        figure("packets sent", 10_000, sent.packets),
        figure("bytes in each", 64, sent.longest),
        figure("bytes held", 65_536, memory.most()),
    ];
    attack("one hello of 1,200 bytes 10,000 times", figures)
}

fn endpoints_of_one_key() -> Attack {
    let mut server = server(Allow::Any);
    let mut clients: Vec<_> = (0..200).map(|seed| client(1, seed)).collect();
    let mut memory = Memory::now();
    for (number, client) in (0..).zip(&mut clients) {
        let now = after(number * 100);
        connect(client, &mut server, now, &from(number));
        memory.grown();
    }
    let network = |ip| VirtualNetwork::split(ip).map(|(network, _)| network);
    let networks: BTreeSet<_> =
        server.paths().iter().filter_map(|path| network(path.address.into())).collect();
    let figures = [
        figure("endpoints", 64, networks.len()),
        figure("bytes held for each", 65_536, memory.most() / networks.len().max(1)),
    ];
    attack("200 endpoints of one key", figures)
}

/// Carries out a handshake and delivers one message.
fn connect(client: &mut Endpoint, server: &mut Endpoint, now: Instant, outside: &Route) {
    let to = secret(2).public().remotes(1)[0];
    let back = Route { socket: 0, local: None, remote: SERVER };
    if let Some((_, datagram)) = send(client, now, to, b"first") {
        open(server, now, outside, &datagram);
    }
    for _ in 0..20 {
        while let Some(transmit) = client.poll_transmit() {
            open(server, now, outside, &transmit.contents);
        }
        while let Some(transmit) = server.poll_transmit() {
            open(client, now, &back, &transmit.contents);
        }
    }
}

/// A flood of hellos. Without a limit, each would get a cookie.
fn hellos_in_a_second(addresses: u32) -> Attack {
    let mut server = server(Allow::nobody());
    let hellos: Vec<_> = (0..100).map(|seed| hello(&mut client(1, seed), after(0))).collect();
    let (mut memory, mut sent) = (Memory::now(), Sent::default());
    for (number, hello) in (0..200_000).zip(hellos.iter().cycle()) {
        let now = after(0) + Duration::from_micros(5) * number;
        open(&mut server, now, &from(number % addresses), hello);
        sent.take(&mut server);
        memory.grown();
    }
    let (bound, name) = match addresses {
        // Those of an address, and those of an address and a port: 50 a second and a burst of 32.
        1 => (2 * (50 + 32), "200,000 hellos in a second from one address"),
        _ => (2 * 256 * (50 + 32), "200,000 hellos in a second from as many addresses"),
    };
    let figures =
        [figure("packets sent", bound, sent.packets), figure("bytes held", 8192, memory.most())];
    attack(name, figures)
}

fn questions() -> Attack {
    let mut server = server(Allow::Any);
    server.announce();
    let question = KeyQuestion::new().expect("random numbers").datagram();
    let (mut memory, mut sent) = (Memory::now(), Sent::default());
    for number in 0..100_000 {
        open(&mut server, after(number), &from(number), &question);
        sent.take(&mut server);
        memory.grown();
    }
    let figures = [
        figure("packets sent", 100_000, sent.packets),
        figure("bytes in each", 56, sent.longest),
        figure("bytes held", 8192, memory.most()),
    ];
    attack("100,000 questions of 64 bytes to a server that announces its key", figures)
}

fn unsent_answers() -> Attack {
    let mut server = server(Allow::Any);
    server.announce();
    let question = KeyQuestion::new().expect("random numbers").datagram();
    let mut memory = Memory::now();
    for number in 0..100_000 {
        open(&mut server, after(number), &from(number), &question);
        memory.grown();
    }
    let held = memory.most();
    let mut sent = Sent::default();
    sent.take(&mut server);
    let figures = [figure("answers wait", 1024, sent.packets), figure("bytes held", 262_144, held)];
    attack("100,000 questions for the key, while the driver cannot send", figures)
}

/// A client and a server with a session, and the client's outer address.
fn connected() -> (Endpoint, Endpoint, Route) {
    let (mut client, mut server, outside) = (client(1, 1), server(Allow::Any), from(1));
    connect(&mut client, &mut server, after(0), &outside);
    assert!(server.paths().iter().any(|path| path.has_session && path.route.is_some()));
    (client, server, outside)
}

fn record(client: &mut Endpoint) -> Vec<u8> {
    send(client, after(1), secret(2).public().remotes(1)[0], &[7; 100]).expect("a record").1
}

fn altered_records() -> Attack {
    let (mut client, mut server, outside) = connected();
    let record = record(&mut client);
    let (mut memory, mut sent, mut opened) = (Memory::now(), Sent::default(), 0_u64);
    for number in 0..10_000 {
        let mut altered = record.clone();
        let bit = number as usize % (8 * altered.len());
        altered[bit / 8] ^= 1 << (bit % 8);
        opened += u64::from(open(&mut server, after(1), &outside, &altered));
        sent.take(&mut server);
        memory.grown();
    }
    let intact = open(&mut server, after(1), &outside, &record);
    let figures = [
        figure("packets opened", 0, opened),
        figure("packets sent", 0, sent.packets),
        figure("sessions harmed", 0, u64::from(!intact)),
        figure("bytes held", 4096, memory.most()),
    ];
    attack("10,000 records with one bit changed", figures)
}

fn repeated_record() -> Attack {
    let (mut client, mut server, outside) = connected();
    let record = record(&mut client);
    let forged = from(99);
    let (mut memory, mut sent, mut opened) = (Memory::now(), Sent::default(), 0_u64);
    for number in 0..10_000 {
        // The attacker delivers it before the client does, from an address of its own.
        let route = if number == 0 { &forged } else { &outside };
        opened += u64::from(open(&mut server, after(1), route, &record));
        while let Some(transmit) = server.poll_transmit() {
            sent.packets += transmit.contents.len() as u64;
        }
        memory.grown();
    }
    let led_away = server
        .paths()
        .iter()
        .any(|path| path.route.as_ref().is_some_and(|route| route.remote == forged.remote));
    let figures = [
        figure("packet opened", 1, opened),
        figure("bytes sent to the other address", 3 * record.len() as u64, sent.packets),
        figure("paths led there", 0, u64::from(led_away)),
        figure("bytes held", 4096, memory.most()),
    ];
    attack("one record 10,000 times, the first time from another address", figures)
}

/// Strangers begin handshakes while a client and the server exchange records.
fn flood_during_a_session() -> Attack {
    let (mut client, mut server, outside) = connected();
    let back = Route { socket: 0, local: None, remote: SERVER };
    let hellos: Vec<_> =
        (0..1000).map(|seed| hello(&mut self::client(3, seed), after(0))).collect();
    let to_client = SocketAddr::new(client.network().address(0).into(), 1);
    let (mut memory, mut computed, mut lost) = (Memory::now(), 0_u64, 0_u64);
    for (number, hello) in (0..).zip(&hellos) {
        let now = after(1) + Duration::from_micros(100 * number);
        open(&mut server, now, &from(100 + number as u32), hello);
        while let Some(transmit) = server.poll_transmit() {
            // A cookie is shorter than a welcome, which costs four Diffie-Hellman computations.
            computed += u64::from(transmit.contents.len() == 64);
        }
        let request = send(&mut client, now, secret(2).public().remotes(1)[0], &[7; 1000]);
        lost += u64::from(
            !request.is_some_and(|(_, record)| open(&mut server, now, &outside, &record)),
        );
        let answer = send(&mut server, now, to_client, &[8; 1000]);
        lost +=
            u64::from(!answer.is_some_and(|(_, record)| open(&mut client, now, &back, &record)));
        memory.grown();
    }
    let figures = [
        figure("handshakes computed", 37, computed),
        figure("of 2,000 records of the session lost", 0, lost),
        figure("bytes held for each handshake", 16_384, memory.most() as u64 / computed.max(1)),
    ];
    attack("1,000 hellos in 0.1 s to a server that has a session", figures)
}
