//! Sealed paths between the nodes of a run. Node 0 is the client, with an uplink for each of its addresses behind a
//! translator; node 1 is the server. The endpoints see virtual addresses, the links carry sealed datagrams.

mod ledger;
mod strangers;
mod translator;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use anabranch_proto::{Ecn, Instant, Received};
use anabranch_seal::{
    Allow, Endpoint, Families, PATHS, Route, SealError, Sealed, SecretKey, Token, VirtualNetwork,
};
use anabranch_testnet::{Datagram, Layer};
use bytes::Bytes;

use self::ledger::Ledger;
use self::translator::Translator;
use crate::options::{Admits, Options, Sealing};

/// The server's port, and the one that endpoints see at all virtual addresses.
const PORT: u16 = 9899;

const CLIENT: usize = 0;
const SERVER: usize = 1;

/// Datagrams that a third party has recorded.
const MOST_RECORDED: usize = 64;

/// Totals of the seal.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) datagrams: u64,
    pub(crate) hellos: u64,
    pub(crate) welcomes: u64,
    pub(crate) cookies: u64,
    pub(crate) astray: u64,
}

impl Totals {
    fn count(&mut self, datagram: &[u8]) {
        self.datagrams += 1;
        // No record has such a byte at this place.
        match datagram.get(4) {
            Some(0x81) => self.hellos += 1,
            Some(0x82) => self.welcomes += 1,
            Some(0x83) => self.cookies += 1,
            _ => {}
        }
    }
}

/// The seals of both nodes and the network that belongs to them.
#[derive(Debug)]
pub(crate) struct Paths {
    sealing: Sealing,
    seed: u64,
    /// How often each node has lost its state.
    lives: [u8; 2],
    ends: [Option<Endpoint>; 2],
    /// Real addresses of both nodes, and those that they have now.
    real: [Vec<IpAddr>; 2],
    present: [Vec<IpAddr>; 2],
    /// The server has admitted the client by its token.
    admitted: bool,
    translator: Translator,
    ledger: Ledger,
    transmits: VecDeque<(usize, Datagram)>,
    answers: VecDeque<(usize, IpAddr, IpAddr)>,
    /// The latest datagrams, and who sent them.
    recorded: VecDeque<(usize, Datagram)>,
    pub(crate) totals: Totals,
}

/// [`Paths`], for the network and the run.
#[derive(Clone, Debug)]
pub(crate) struct SealedPaths(Rc<RefCell<Paths>>);

impl SealedPaths {
    pub(crate) fn new(options: &Options, now: Instant, present: [&[IpAddr]; 2]) -> Option<Self> {
        let sealing = options.sealing.clone()?;
        let real = options.addresses.clone();
        let mut paths = Paths {
            translator: Translator::new(&real[CLIENT], sealing.translator_life),
            sealing,
            seed: options.seed,
            lives: [0; 2],
            ends: [None, None],
            real,
            present: [Vec::new(), Vec::new()],
            admitted: false,
            ledger: Ledger::default(),
            transmits: VecDeque::new(),
            answers: VecDeque::new(),
            recorded: VecDeque::new(),
            totals: Totals::default(),
        };
        (0..2).for_each(|node| paths.start(now, node, present[node]));
        Some(Self(Rc::new(RefCell::new(paths))))
    }

    /// The virtual addresses of a node, one for each real address.
    pub(crate) fn addresses(&self, node: usize) -> Vec<IpAddr> {
        let paths = self.0.borrow();
        (0..paths.real[node].len()).map(|path| paths.address(node, path)).collect()
    }

    /// The virtual addresses that the endpoint of a node has: all of them on the server, and those of its uplinks on the
    /// client.
    pub(crate) fn present(&self, node: usize) -> Vec<IpAddr> {
        let paths = self.0.borrow();
        if node == SERVER {
            return (0..usize::from(PATHS)).map(|path| paths.address(node, path)).collect();
        }
        let numbers = 0..paths.real[node].len();
        let is_there = |path: &usize| paths.present[node].contains(&paths.real[node][*path]);
        numbers.filter(is_there).map(|path| paths.address(node, path)).collect()
    }

    /// A node loses its state and has these real addresses afterwards.
    pub(crate) fn reboot(&self, now: Instant, node: usize, present: &[IpAddr]) {
        let mut paths = self.0.borrow_mut();
        paths.lives[node] += 1;
        paths.start(now, node, present);
    }

    /// An uplink of the client comes or goes. Returns whether the client has it at all.
    pub(crate) fn set_uplink(&self, now: Instant, number: usize, up: bool) -> bool {
        let mut paths = self.0.borrow_mut();
        let ip = paths.real[CLIENT][number];
        if !paths.present[CLIENT].contains(&ip) {
            return false;
        }
        let families = if up { family(ip) } else { Families::default() };
        if let Some(end) = &mut paths.ends[CLIENT] {
            end.set_uplink(now, number as u8, families);
        }
        paths.collect(now, CLIENT);
        true
    }

    /// A translator gives an uplink another outer address.
    pub(crate) fn translate_anew(&self, uplink: usize) {
        self.0.borrow_mut().translator.renew(uplink);
    }

    /// The client ends without a word.
    pub(crate) fn close_client(&self) {
        self.0.borrow_mut().ends[CLIENT] = None;
    }

    /// The totals, and the number of outer addresses that uplinks had after the first ones.
    pub(crate) fn totals(&self) -> (Totals, u64) {
        let paths = self.0.borrow();
        let first = paths.real[CLIENT].len() as u64;
        (paths.totals, u64::from(paths.translator.mappings).saturating_sub(first))
    }
}

impl Paths {
    fn secret(node: usize) -> SecretKey {
        SecretKey::from_bytes([node as u8 + 1; 32])
    }

    fn token() -> Token {
        Token::from_bytes([7; Token::LEN])
    }

    /// Begins the life of a seal.
    fn start(&mut self, now: Instant, node: usize, present: &[IpAddr]) {
        let mut seed = [self.lives[node] * 2 + node as u8; 32];
        seed[..8].copy_from_slice(&self.seed.to_le_bytes());
        self.present[node] = present.to_vec();
        let secret = Self::secret(node);
        let mut end = match node {
            CLIENT => {
                let mut end = Endpoint::connecting(secret, seed);
                let addresses = self.real[SERVER].iter().map(|ip| (*ip, PORT).into()).collect();
                let token = (self.sealing.admits == Admits::Token).then(Self::token);
                end.add_host(Self::secret(SERVER).public(), addresses, token);
                end
            }
            _ => {
                let key = Self::secret(CLIENT).public();
                let allow = match self.sealing.admits {
                    Admits::Anybody => Allow::Any,
                    Admits::Token if !self.admitted => Allow::nobody(),
                    Admits::Key | Admits::Token => Allow::Keys([key].into()),
                };
                let mut end = Endpoint::listening(secret, allow, seed);
                if self.sealing.admits == Admits::Token && !self.admitted {
                    end.invite(Self::token());
                }
                // It knows nothing of the addresses that have answered.
                self.ledger = Ledger::default();
                end
            }
        };
        if let Some(life) = self.sealing.key_life {
            end.set_key_life(life);
        }
        if node == CLIENT {
            for (number, ip) in (0..).zip(&self.real[CLIENT]) {
                if present.contains(ip) {
                    end.set_uplink(now, number, family(*ip));
                }
            }
        }
        self.ends[node] = Some(end);
        self.collect(now, node);
    }

    /// A virtual address; one that nobody has if the seal of the node has ended.
    fn address(&self, node: usize, path: usize) -> IpAddr {
        let network = self.ends[node].as_ref().map(Endpoint::network);
        let network = network.unwrap_or(VirtualNetwork::of(&Self::secret(node).public(), u64::MAX));
        network.address(path as u8).into()
    }

    /// The node that has a real address now.
    fn host_of(&self, address: IpAddr) -> Option<usize> {
        (0..2).find(|node| self.present[*node].contains(&address))
    }

    /// Takes what a seal has to send and to report, and checks its tables.
    fn collect(&mut self, now: Instant, node: usize) {
        let Some(mut end) = self.ends[node].take() else { return };
        while let Some(transmit) = end.poll_transmit() {
            self.transmit(now, node, &transmit.route, transmit.contents, None, true);
        }
        while let Some((local, remote)) = end.poll_reached() {
            self.answers.push_back((node, local.into(), remote.into()));
        }
        self.admitted |= node == SERVER && !end.take_admitted().is_empty();
        if let Err(what) = end.check_invariants() {
            panic!("the seal of node {node} at {now:?}: {what}");
        }
        self.ends[node] = Some(end);
    }

    /// Puts a datagram of a seal on the network.
    fn transmit(
        &mut self,
        now: Instant,
        node: usize,
        route: &Route,
        contents: Vec<u8>,
        ecn: Option<Ecn>,
        dont_fragment: bool,
    ) {
        self.totals.count(&contents);
        let way = match node {
            CLIENT => self.way_to_server(now, route),
            _ => {
                self.ledger.sent(route.remote, contents.len());
                self.way_to_client(route)
            }
        };
        let Some((from, to, udp_port)) = way else {
            self.totals.astray += 1;
            return;
        };
        let datagram = Datagram { from, to, udp_port, ecn, dont_fragment, bytes: contents.into() };
        if self.recorded.len() == MOST_RECORDED {
            self.recorded.pop_front();
        }
        self.recorded.push_back((node, datagram.clone()));
        self.transmits.push_back((node, datagram));
    }

    /// Source, destination and outer port of a datagram of the client.
    fn way_to_server(&mut self, now: Instant, route: &Route) -> Option<(IpAddr, IpAddr, u16)> {
        let uplink = route.socket / 2;
        let from = self.real[CLIENT].get(uplink).copied()?;
        assert!(self.present[CLIENT].contains(&from), "an uplink that there is not: {route:?}");
        assert!(
            route.remote.port() == PORT && self.real[SERVER].contains(&route.remote.ip()),
            "an address that the invitation has not: {route:?}"
        );
        assert_eq!(route.socket % 2 == 1, route.remote.is_ipv6(), "{route:?}");
        Some((from, route.remote.ip(), self.translator.outward(now, uplink)?))
    }

    /// The same for a datagram of the server; the port is the outer one of the client.
    fn way_to_client(&self, route: &Route) -> Option<(IpAddr, IpAddr, u16)> {
        let uplink = self.translator.uplink(route.remote)?;
        let from = match self.sealing.wildcard {
            true => route.local?,
            false => *self.present[SERVER].get(route.socket)?,
        };
        Some((from, self.real[CLIENT][uplink], route.remote.port()))
    }

    /// The way of datagrams that have arrived at a node; `None` if they do not get there.
    fn way_of(
        &mut self,
        now: Instant,
        node: usize,
        received: &Received,
        len: usize,
    ) -> Option<Route> {
        let (ip, port) = (received.remote, received.remote_udp_port);
        if node == CLIENT {
            let uplink = self.real[CLIENT].iter().position(|own| *own == received.local)?;
            if !self.translator.lets_in(now, uplink, port) {
                return None;
            }
            self.ledger.reached(self.translator.address(port)?);
            let socket = uplink * 2 + usize::from(ip.is_ipv6());
            return Some(Route { socket, local: None, remote: (ip, PORT).into() });
        }
        let inner = self.real[CLIENT].contains(&ip);
        let remote: SocketAddr =
            if inner { self.translator.address(port)? } else { (ip, port).into() };
        self.ledger.arrived(remote, len);
        Some(match self.sealing.wildcard {
            true => Route { socket: 0, local: Some(received.local), remote },
            false => {
                let own = self.present[SERVER].iter().position(|own| *own == received.local)?;
                Route { socket: own, local: None, remote }
            }
        })
    }
}

/// The version of IP that an uplink with this address has.
fn family(ip: IpAddr) -> Families {
    Families { ipv4: ip.is_ipv4(), ipv6: ip.is_ipv6() }
}

impl Layer for SealedPaths {
    fn send(&mut self, now: Instant, node: usize, packet: Datagram) -> bool {
        let mut paths = self.0.borrow_mut();
        let Some(end) = &mut paths.ends[node] else { return false };
        let (addresses, mut out) = ((packet.from, packet.to), Vec::new());
        let sealed = end.seal(now, addresses, &packet.bytes, packet.bytes.len(), &mut out);
        match sealed {
            Ok(Sealed::Send { route, segment_size }) => {
                assert_eq!(segment_size, out.len(), "one packet, one record");
                paths.transmit(now, node, &route, out, packet.ecn, packet.dont_fragment);
            }
            Ok(Sealed::Queued) | Err(SealError::Unverified | SealError::UsedUp) => {}
            Err(SealError::NoPeer | SealError::Down) => return false,
        }
        paths.collect(now, node);
        true
    }

    fn receive(
        &mut self,
        now: Instant,
        node: usize,
        received: &Received,
        bytes: Bytes,
    ) -> Option<(Received, Bytes)> {
        let mut paths = self.0.borrow_mut();
        let route = paths.way_of(now, node, received, bytes.len())?;
        let mut buffer = bytes.to_vec();
        let end = paths.ends[node].as_mut()?;
        let opened = end.open(now, &route, &mut buffer, received.segment_size);
        paths.collect(now, node);
        let opened = opened?;
        buffer.truncate(opened.len);
        let inner = Received {
            local: opened.local.into(),
            remote: opened.remote.into(),
            remote_udp_port: PORT,
            ecn: received.ecn,
            segment_size: opened.segment_size,
        };
        Some((inner, buffer.into()))
    }

    fn poll_transmit(&mut self) -> Option<(usize, Datagram)> {
        self.0.borrow_mut().transmits.pop_front()
    }

    fn poll_answer(&mut self) -> Option<(usize, IpAddr, IpAddr)> {
        self.0.borrow_mut().answers.pop_front()
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.0.borrow().ends.iter().flatten().filter_map(Endpoint::next_deadline).min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        let mut paths = self.0.borrow_mut();
        for node in 0..2 {
            if let Some(end) = &mut paths.ends[node]
                && end.next_deadline().is_some_and(|deadline| deadline <= now)
            {
                end.handle_timeout(now);
                paths.collect(now, node);
            }
        }
    }

    fn host(&self, address: IpAddr) -> Option<usize> {
        self.0.borrow().host_of(address)
    }
}
