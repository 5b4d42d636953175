//! Two endpoints on a scripted network.

mod keys;
mod paths;
mod records;

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::PATHS;
use crate::question::KeyQuestion;
use crate::record::OVERHEAD;

const V4: Families = Families { ipv4: true, ipv6: false };

fn secret(byte: u8) -> SecretKey {
    SecretKey::from_bytes([byte; 32])
}

fn server() -> SocketAddr {
    ([198, 51, 100, 1], 9899).into()
}

/// A client with uplinks behind translators, and a server.
struct World {
    now: Instant,
    near: Endpoint,
    far: Endpoint,
    /// The translated address of each uplink; a missing one is cut.
    outside: BTreeMap<u8, SocketAddr>,
    /// What each side's layer above has received, with its path.
    near_got: Vec<(u8, Vec<u8>)>,
    far_got: Vec<(u8, Vec<u8>)>,
    /// The client's virtual network as the server has seen it.
    client: Option<VirtualNetwork>,
    /// All datagrams, with whether they went to the server.
    seen: Vec<(bool, Vec<u8>)>,
    /// Bytes to addresses that are not the client's.
    astray: BTreeMap<SocketAddr, usize>,
    /// Hellos are lost.
    loses_hellos: bool,
    /// How far the clocks of the client and the server are ahead of [`now`](Self::now).
    ahead: [Duration; 2],
}

impl World {
    fn new(near_key: u8, allow: Allow, token: Option<Token>) -> Self {
        let far = Endpoint::listening(secret(2), allow, [12; 32]);
        let now = Instant::from_secs(1);
        let mut near = Endpoint::connecting(secret(near_key), [near_key; 32]);
        near.add_host(secret(2).public(), vec![server()], token);
        let mut outside = BTreeMap::new();
        for path in 0..2 {
            near.set_uplink(now, path, V4);
            outside.insert(path, ([203, 0, 113, path], 1000).into());
        }
        let (near_got, far_got, seen) = (Vec::new(), Vec::new(), Vec::new());
        let (astray, loses_hellos) = (BTreeMap::new(), false);
        let client = None;
        let ahead = [Duration::ZERO; 2];
        Self {
            now,
            near,
            far,
            outside,
            near_got,
            far_got,
            client,
            seen,
            astray,
            loses_hellos,
            ahead,
        }
    }

    fn open() -> Self {
        Self::new(1, Allow::Any, None)
    }

    fn near_now(&self) -> Instant {
        self.now + self.ahead[0]
    }

    fn far_now(&self) -> Instant {
        self.now + self.ahead[1]
    }

    /// Sends a packet of the layer above from the client.
    fn send(&mut self, path: u8, content: &[u8]) -> Result<Sealed, SealError> {
        let to = VirtualNetwork::of(&secret(2).public(), 0).address(path);
        let from = self.near.network().address(path);
        let mut out = Vec::new();
        let size = content.len();
        let sealed =
            self.near.seal(self.near_now(), (from.into(), to.into()), content, size, &mut out)?;
        if let Sealed::Send { route, .. } = &sealed {
            self.carry_to_server(route, &out);
        }
        Ok(sealed)
    }

    /// Sends a packet of the layer above from the server.
    fn answer(&mut self, path: u8, content: &[u8]) -> Result<Sealed, SealError> {
        let client = self.client.unwrap_or(self.far.network());
        let addresses = (self.far.network().address(path).into(), client.address(path).into());
        let mut out = Vec::new();
        let sealed = self.far.seal(self.far_now(), addresses, content, content.len(), &mut out)?;
        if let Sealed::Send { route, .. } = &sealed {
            self.carry_to_client(route, &out);
        }
        Ok(sealed)
    }

    fn carry_to_server(&mut self, route: &Route, datagram: &[u8]) {
        assert_eq!(route.remote, server());
        let Some(source) = self.outside.get(&((route.socket / 2) as u8)).copied() else { return };
        self.seen.push((true, datagram.to_vec()));
        if !self.loses_hellos || datagram[..4] != [0; 4] {
            self.deliver_to_server(source, datagram);
        }
    }

    fn deliver_to_server(&mut self, source: SocketAddr, datagram: &[u8]) {
        let route = Route { socket: 0, local: None, remote: source };
        let mut buffer = datagram.to_vec();
        let size = buffer.len();
        if let Some(opened) = self.far.open(self.far_now(), &route, &mut buffer, size) {
            let (network, path) = VirtualNetwork::split(opened.remote.into()).unwrap();
            assert_eq!(opened.local, self.far.network().address(path));
            self.client = Some(network);
            self.far_got.push((path, buffer[..opened.len].to_vec()));
        }
    }

    fn carry_to_client(&mut self, route: &Route, datagram: &[u8]) {
        self.seen.push((false, datagram.to_vec()));
        let path = self.outside.iter().find(|(_, outside)| **outside == route.remote);
        let Some(path) = path.map(|(path, _)| *path) else {
            *self.astray.entry(route.remote).or_default() += datagram.len();
            return;
        };
        self.deliver_to_client(path, datagram);
    }

    fn deliver_to_client(&mut self, path: u8, datagram: &[u8]) {
        let route = Route { socket: usize::from(path) * 2, local: None, remote: server() };
        let mut buffer = datagram.to_vec();
        let size = buffer.len();
        if let Some(opened) = self.near.open(self.near_now(), &route, &mut buffer, size) {
            let (_, path) = VirtualNetwork::split(opened.remote.into()).unwrap();
            self.near_got.push((path, buffer[..opened.len].to_vec()));
        }
    }

    /// Delivers until nothing is left to send.
    fn settle(&mut self) {
        loop {
            if let Some(transmit) = self.near.poll_transmit() {
                self.carry_to_server(&transmit.route, &transmit.contents);
            } else if let Some(transmit) = self.far.poll_transmit() {
                self.carry_to_client(&transmit.route, &transmit.contents);
            } else {
                break;
            }
        }
        for endpoint in [&self.near, &self.far] {
            assert_eq!(endpoint.check_invariants(), Ok(()));
        }
    }

    /// Lets time pass.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        self.settle();
        loop {
            let next = [(&self.near, self.ahead[0]), (&self.far, self.ahead[1])];
            let next = next.map(|(endpoint, ahead)| {
                endpoint
                    .next_deadline()
                    .map(|at| Instant::ZERO + at.saturating_since(Instant::ZERO + ahead))
            });
            let Some(next) = next.into_iter().flatten().min().filter(|next| *next <= end) else {
                break;
            };
            self.now = self.now.max(next);
            self.near.handle_timeout(self.near_now());
            self.far.handle_timeout(self.far_now());
            self.settle();
        }
        self.now = end;
    }

    fn connected() -> Self {
        let mut world = Self::open();
        world.send(0, b"first").unwrap();
        world.pass(Duration::from_secs(1));
        world.far_got.clear();
        world
    }

    /// The shards, of 64, of the datagrams to the server in this time. Both paths carry data all along.
    fn seen_shards_of(&mut self, seconds: u32) -> BTreeSet<usize> {
        for number in 0..seconds {
            for path in 0..2 {
                self.send(path, &number.to_be_bytes()).unwrap();
            }
            self.pass(Duration::from_secs(1));
        }
        assert!(self.far_got.len() > 500);
        let hellos = self.seen.iter().filter(|(_, datagram)| datagram.starts_with(&[0; 4]));
        assert!(hellos.count() > 2, "keys were replaced");
        let to_server = self.seen.iter().filter(|(to_server, _)| *to_server);
        to_server.map(|(_, datagram)| crate::shard_of(datagram, 64)).collect()
    }

    fn far_route(&self, path: u8) -> Option<SocketAddr> {
        let paths = self.far.paths();
        let path = paths.iter().find(|status| status.number == path)?;
        path.route.as_ref().map(|route| route.remote)
    }
}
