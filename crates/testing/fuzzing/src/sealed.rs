//! Two endpoints with sealed paths on a network that the bytes control: it loses, repeats, alters and forges datagrams.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use anabranch_seal::{
    Allow, Endpoint, Families, KeyLife, PublicKey, Route, Sealed, SecretKey, Token, VirtualNetwork,
};
use anabranch_units::Instant;

/// Operations in one run.
const MOST_OPERATIONS: usize = 400;

/// Datagrams that can be repeated.
const MOST_KEPT: usize = 256;

const V4: Families = Families { ipv4: true, ipv6: false };

/// Reads `bytes` as operations on two endpoints. What one side receives must have been sent by the
/// other one, and arrives once; an address that never answered gets at most three times what came from it.
pub fn sealed(bytes: &[u8]) {
    let mut run = Run::new(bytes.first().copied().unwrap_or(0));
    let mut rest = bytes.get(1..).unwrap_or_default();
    for _ in 0..MOST_OPERATIONS {
        let Some((operation, after)) = rest.split_first_chunk::<4>() else { break };
        rest = after;
        run.step(*operation, &mut rest);
        run.settle();
    }
}

fn server() -> SocketAddr {
    ([198, 51, 100, 1], 9899).into()
}

fn client(number: u8) -> SocketAddr {
    ([203, 0, 113, number], 1000).into()
}

/// A datagram that was sent, and the direction.
#[derive(Clone)]
struct Datagram {
    to_server: bool,
    path: u8,
    bytes: Vec<u8>,
}

struct Run {
    now: Instant,
    near: Endpoint,
    far: Endpoint,
    far_key: PublicKey,
    /// The number in the outer address of each path.
    outside: [u8; 2],
    /// The next datagrams are lost.
    deaf: bool,
    kept: Vec<Datagram>,
    /// Messages that were sent and not received yet, by direction.
    sent: [BTreeSet<Vec<u8>>; 2],
    next: u32,
    client: Option<VirtualNetwork>,
    /// Bytes from and to each outer address.
    traffic: BTreeMap<SocketAddr, (usize, usize)>,
    /// Outer addresses at which the client has received something.
    reached: BTreeSet<SocketAddr>,
}

impl Run {
    fn new(variant: u8) -> Self {
        let (near_key, far_key) = (SecretKey::from_bytes([1; 32]), SecretKey::from_bytes([2; 32]));
        let token = Token::from_bytes([7; Token::LEN]);
        let invited = variant & 1 != 0;
        let allow = if invited { Allow::nobody() } else { Allow::Any };
        let public = far_key.public();
        let mut far = Endpoint::listening(far_key, allow, [3; 32]);
        let mut near = Endpoint::connecting(near_key, [4; 32]);
        near.add_host(public, vec![server()], invited.then(|| token.clone()));
        far.invite(token);
        if variant & 2 != 0 {
            // Replaced often, and sometimes used up before that.
            let life = KeyLife { records: 8, ..KeyLife::default() };
            [&mut near, &mut far].into_iter().for_each(|end| end.set_key_life(life));
        }
        let now = Instant::from_secs(1);
        (0..2).for_each(|path| near.set_uplink(now, path, V4));
        Self {
            now,
            near,
            far,
            far_key: public,
            outside: [0, 1],
            deaf: false,
            kept: Vec::new(),
            sent: Default::default(),
            next: 0,
            client: None,
            traffic: BTreeMap::new(),
            reached: BTreeSet::new(),
        }
    }

    fn step(&mut self, [kind, first, second, third]: [u8; 4], rest: &mut &[u8]) {
        let path = first & 1;
        match kind % 10 {
            0 => self.send(true, path, second),
            1 => self.send(false, path, second),
            2 => self.deaf = first & 1 != 0,
            3 => self.pass(Duration::from_millis(u64::from(first) << (second % 12))),
            4 => self.outside[usize::from(path)] = second,
            5 => {
                let families = if second & 1 != 0 { V4 } else { Families::default() };
                self.near.set_uplink(self.now, path, families);
            }
            6 => self.again(usize::from(first), |_| {}),
            7 => self.again(usize::from(first), |bytes| {
                let index = usize::from(second) % bytes.len().max(1);
                bytes.iter_mut().skip(index).take(1).for_each(|byte| *byte ^= third | 1);
            }),
            8 => self.again(usize::from(first), |bytes| {
                bytes.truncate(usize::from(second) << (third % 4));
            }),
            _ => {
                // A datagram of these bytes, with the beginning of one that was sent.
                let (raw, after) = rest.split_at(rest.len().min(usize::from(second)));
                *rest = after;
                let keep = usize::from(third % 14);
                self.again(usize::from(first), |bytes| {
                    bytes.truncate(keep);
                    bytes.extend(raw);
                });
            }
        }
    }

    /// Sends a message of its own content.
    fn send(&mut self, to_server: bool, path: u8, len: u8) {
        self.next += 1;
        let message = [&self.next.to_be_bytes()[..], &vec![len; usize::from(len)]].concat();
        let far = VirtualNetwork::of(&self.far_key, 0);
        let near = if to_server { self.near.network() } else { self.client.unwrap_or(far) };
        let (near, far) = (near.address(path).into(), far.address(path).into());
        let (sender, addresses) = match to_server {
            true => (&mut self.near, (near, far)),
            false => (&mut self.far, (far, near)),
        };
        let (mut out, size) = (Vec::new(), message.len());
        let sealed = sender.seal(self.now, addresses, &message, size, &mut out);
        if sealed.is_ok() {
            self.sent[usize::from(to_server)].insert(message);
        }
        if let Ok(Sealed::Send { route, segment_size }) = sealed {
            assert_eq!(segment_size, out.len());
            self.carry(to_server, &route, out);
        }
    }

    fn again(&mut self, index: usize, change: impl FnOnce(&mut Vec<u8>)) {
        let index = index % self.kept.len().max(1);
        if let Some(mut datagram) = self.kept.get(index).cloned() {
            change(&mut datagram.bytes);
            self.deliver(datagram);
        }
    }

    fn carry(&mut self, to_server: bool, route: &Route, bytes: Vec<u8>) {
        let path = if to_server {
            assert_eq!(route.remote, server());
            (route.socket / 2) as u8
        } else {
            let counts = self.traffic.entry(route.remote).or_default();
            counts.1 += bytes.len();
            let (from, to) = *counts;
            assert!(to <= 3 * from || self.reached.contains(&route.remote), "{to} for {from}");
            let path = self.outside.iter().position(|outside| client(*outside) == route.remote);
            let Some(path) = path else { return };
            path as u8
        };
        let datagram = Datagram { to_server, path, bytes };
        if self.kept.len() < MOST_KEPT {
            self.kept.push(datagram.clone());
        }
        if !self.deaf {
            self.deliver(datagram);
        }
    }

    fn deliver(&mut self, Datagram { to_server, path, mut bytes }: Datagram) {
        let outside = client(self.outside[usize::from(path)]);
        let (receiver, socket, remote) = match to_server {
            true => (&mut self.far, 0, outside),
            false => (&mut self.near, usize::from(path) * 2, server()),
        };
        if to_server {
            self.traffic.entry(outside).or_default().0 += bytes.len();
        } else {
            self.reached.insert(outside);
        }
        let route = Route { socket, local: None, remote };
        let size = bytes.len();
        let Some(opened) = receiver.open(self.now, &route, &mut bytes, size) else { return };
        if to_server {
            self.client = VirtualNetwork::split(opened.remote.into()).map(|(network, _)| network);
        }
        let message = &bytes[..opened.len];
        assert!(self.sent[usize::from(to_server)].remove(message), "forged or repeated");
    }

    fn settle(&mut self) {
        for _ in 0..10_000 {
            if let Some(transmit) = self.near.poll_transmit() {
                self.carry(true, &transmit.route, transmit.contents);
            } else if let Some(transmit) = self.far.poll_transmit() {
                self.carry(false, &transmit.route, transmit.contents);
            } else {
                for endpoint in [&self.near, &self.far] {
                    assert_eq!(endpoint.check_invariants(), Ok(()));
                }
                return;
            }
        }
        panic!("they never stop");
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        for _ in 0..100_000 {
            let next = [self.near.next_deadline(), self.far.next_deadline()];
            let Some(next) = next.into_iter().flatten().min().filter(|next| *next <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(next);
            self.near.handle_timeout(self.now);
            self.far.handle_timeout(self.now);
            self.settle();
        }
        panic!("their timers never rest");
    }
}
