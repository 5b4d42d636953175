//! Two endpoints on a scripted network.

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

    fn far_route(&self, path: u8) -> Option<SocketAddr> {
        let paths = self.far.paths();
        let path = paths.iter().find(|status| status.number == path)?;
        path.route.as_ref().map(|route| route.remote)
    }
}

#[test]
fn two_uplinks_behind_translators_are_two_paths() {
    let mut world = World::open();
    assert_eq!(world.send(0, b"first"), Ok(Sealed::Queued));
    world.pass(Duration::from_secs(1));
    assert_eq!(world.far_got, [(0, b"first".to_vec())]);
    for path in 0..2 {
        assert_eq!(world.far_route(path), world.outside.get(&path).copied());
        world.answer(path, &[path; 1000]).unwrap();
        world.send(path, &[path; 999]).unwrap();
    }
    assert_eq!(world.near_got, [(0, vec![0; 1000]), (1, vec![1; 1000])]);
    assert_eq!(world.far_got[1..], [(0, vec![0; 999]), (1, vec![1; 999])]);
    assert_eq!(world.answer(2, b"x"), Err(SealError::Down));
    assert_eq!(world.send(2, b"x"), Err(SealError::Down));
    let client = world.client.unwrap();
    assert_eq!(world.far.peer_of(client.address(5).into()), Some(secret(1).public()));
}

#[test]
fn nothing_can_be_read_and_nothing_is_accepted_twice() {
    let mut world = World::connected();
    let content = b"a secret that is long enough".repeat(20);
    world.send(0, &content).unwrap();
    world.answer(1, &content).unwrap();
    let part = &content[..12];
    for (to_server, datagram) in world.seen.clone() {
        assert!(!datagram.windows(part.len()).any(|window| window == part));
        let (far, near) = (world.far_got.len(), world.near_got.len());
        world.deliver_to_server(server(), &datagram);
        world.deliver_to_client(0, &datagram);
        world.settle();
        assert_eq!((world.far_got.len(), world.near_got.len()), (far, near), "{to_server}");
    }
    // Replayed from elsewhere, they do not move a path, either.
    for path in 0..2 {
        assert_eq!(world.far_route(path), world.outside.get(&path).copied());
    }
}

impl World {
    /// A record of the client with this content, which is not delivered.
    fn record(&mut self, content: &[u8]) -> Vec<u8> {
        let to = VirtualNetwork::of(&secret(2).public(), 0).address(0);
        let addresses = (self.near.network().address(0).into(), to.into());
        let mut out = Vec::new();
        let sealed = self.near.seal(self.near_now(), addresses, content, content.len(), &mut out);
        assert!(matches!(sealed, Ok(Sealed::Send { .. })), "{sealed:?}");
        out
    }

    /// What is visible of the server's state: its paths, what it has to send, and what it has received.
    fn state_of_server(&mut self) -> (Vec<PathStatus>, Option<Transmit>, usize, usize) {
        let transmit = self.far.poll_transmit();
        (self.far.paths(), transmit, self.far_got.len(), self.far.words.len())
    }
}

/// Every byte of a record matters: its word, kind, path number, number, content and tag. So does its length.
#[test]
fn a_record_that_was_altered_anywhere_changes_nothing() {
    let mut world = World::connected();
    let stranger = ([192, 0, 2, 66], 53).into();
    let record = world.record(&[7; 40]);
    let before = world.state_of_server();
    for index in 0..record.len() {
        for bit in 0..8 {
            let mut altered = record.clone();
            altered[index] ^= 1 << bit;
            world.deliver_to_server(stranger, &altered);
            assert_eq!(world.state_of_server(), before, "bit {bit} of byte {index}");
        }
        world.deliver_to_server(stranger, &record[..index]);
        let longer = [&record[..], &vec![0; index + 1]].concat();
        world.deliver_to_server(stranger, &longer);
        assert_eq!(world.state_of_server(), before, "length {index}");
    }
    world.deliver_to_server(world.outside[&0], &record);
    assert_eq!(world.far_got, [(0, vec![7; 40])]);
}

/// Records of another session, whose keys somebody else knows, with the word of this one; and this one's on another path.
#[test]
fn records_under_other_keys_change_nothing() {
    let (mut world, mut other) = (World::connected(), World::connected());
    other.near = Endpoint::connecting(secret(5), [5; 32]);
    other.near.add_host(secret(2).public(), vec![server()], None);
    other.near.set_uplink(other.now, 0, V4);
    other.send(0, b"first").unwrap();
    other.pass(Duration::from_secs(1));
    let before = world.state_of_server();
    let word = world.record(b"own")[..4].to_vec();
    for number in 0..200u32 {
        let mut foreign = other.record(&number.to_be_bytes());
        foreign[..4].copy_from_slice(&word);
        world.deliver_to_server(world.outside[&0], &foreign);
        let mut moved = world.record(&number.to_be_bytes());
        moved[4] ^= 1;
        world.deliver_to_server(world.outside[&1], &moved);
    }
    assert_eq!(world.state_of_server(), before);
}

/// A record may be late by as many others as the window has, and no more.
#[test]
fn records_are_reordered_within_the_window() {
    let mut world = World::connected();
    let (early, late) = (world.record(b"beyond"), world.record(b"within"));
    for _ in 2..crate::replay::WINDOW {
        world.record(b"lost");
    }
    let last = world.record(b"last");
    let outside = world.outside[&0];
    for record in [&last, &early, &late, &late] {
        world.deliver_to_server(outside, record);
    }
    assert_eq!(world.far_got, [(0, b"last".to_vec()), (0, b"within".to_vec())]);
}

#[test]
fn wrong_keys_get_no_answer() {
    let near = secret(1).public();
    for (allow, answers) in [
        (Allow::Keys([near].into()), true),
        (Allow::Keys([secret(3).public()].into()), false),
        (Allow::nobody(), false),
    ] {
        let mut world = World::new(1, allow, None);
        world.send(0, b"first").unwrap();
        world.pass(Duration::from_secs(30));
        assert_eq!(world.seen.iter().any(|(to_server, _)| !to_server), answers);
        assert_eq!(world.far.peers.is_empty(), !answers);
    }
    // The client has another key of the server.
    let mut world = World::open();
    world.far = Endpoint::listening(secret(4), Allow::Any, [1; 32]);
    world.send(0, b"first").unwrap();
    world.pass(Duration::from_secs(30));
    assert!(world.seen.len() > 5 && world.seen.iter().all(|(to_server, _)| *to_server));
}

#[test]
fn only_a_server_that_announces_its_key_answers_a_question() {
    let question = KeyQuestion::new().unwrap();
    let asked = |server: &mut Endpoint| {
        let remote = ([203, 0, 113, 9], 5000).into();
        let route = Route { socket: 0, local: None, remote };
        let mut datagram = question.datagram();
        let size = datagram.len();
        assert_eq!(server.open(Instant::from_secs(1), &route, &mut datagram, size), None);
        let answer = server.poll_transmit()?;
        assert_eq!(answer.route, route);
        assert!(server.poll_transmit().is_none() && server.peers.is_empty());
        question.answered(&answer.contents)
    };
    let mut server = Endpoint::listening(secret(2), Allow::Any, [1; 32]);
    assert_eq!(asked(&mut server), None);
    server.announce();
    assert_eq!(asked(&mut server), Some(secret(2).public()));
    let mut client = Endpoint::connecting(secret(1), [1; 32]);
    client.announce();
    assert_eq!(asked(&mut client), None, "clients have nothing to announce");
}

#[test]
fn a_token_admits_the_first_key_only() {
    let token = Token::from_bytes([7; 16]);
    let mut world = World::new(1, Allow::nobody(), Some(token.clone()));
    world.send(0, b"too early").unwrap();
    world.pass(Duration::from_secs(2));
    assert!(world.far_got.is_empty());
    world.far.invite(token.clone());
    world.pass(Duration::from_secs(10));
    assert_eq!(world.far_got, [(0, b"too early".to_vec())]);
    assert_eq!(world.far.take_admitted(), [secret(1).public()]);
    let mut other = World::new(5, Allow::nobody(), Some(token));
    std::mem::swap(&mut other.far, &mut world.far);
    other.now = world.now;
    other.send(0, b"too late").unwrap();
    other.pass(Duration::from_secs(20));
    assert!(other.far_got.is_empty() && other.far.take_admitted().is_empty());
    // The first key needs no token any more.
    let mut again = World::new(1, Allow::nobody(), None);
    std::mem::swap(&mut again.far, &mut other.far);
    again.now = other.now;
    again.near = Endpoint::connecting(secret(1), [55; 32]);
    again.near.add_host(secret(2).public(), vec![server()], None);
    again.near.set_uplink(again.now, 0, V4);
    again.send(0, b"again").unwrap();
    again.pass(Duration::from_secs(1));
    assert_eq!(again.far_got, [(0, b"again".to_vec())]);
    again.far.revoke(&secret(1).public());
    again.send(0, b"revoked").unwrap();
    again.pass(Duration::from_secs(30));
    assert_eq!(again.far_got.len(), 1);
}

#[test]
fn a_path_follows_its_peer() {
    let mut world = World::connected();
    for round in 0..10u16 {
        let moved: SocketAddr = ([203, 0, 113, 9], 2000 + round).into();
        world.outside.insert(0, moved);
        world.send(0, &[1; 100]).unwrap();
        assert_ne!(world.far_route(0), Some(moved));
        world.settle();
        assert_eq!(world.far_route(0), Some(moved));
        world.answer(0, b"there").unwrap();
        assert_eq!(world.near_got.pop(), Some((0, b"there".to_vec())));
    }
}

/// Somebody on the way sends the client's packets from the address of a victim.
#[test]
fn a_stolen_address_gets_little() {
    let mut world = World::connected();
    let victim: SocketAddr = ([192, 0, 2, 66], 53).into();
    let mut stolen = 0;
    for round in 0..20u8 {
        let before = world.seen.len();
        let own = world.outside.remove(&0);
        world.outside.insert(0, victim);
        world.send(0, &[round; 100]).unwrap();
        stolen += world.seen[before].1.len();
        // The answers to the victim do not reach the client.
        world.outside.remove(&0);
        world.settle();
        let _ = world.answer(0, &[0; 1000]);
        world.outside.extend(own.map(|own| (0, own)));
        world.pass(Duration::from_millis(50));
    }
    let got = world.astray.get(&victim).copied().unwrap_or(0);
    assert!(got > 0 && got <= 3 * stolen, "{got} {stolen}");
    // The rest went to the address that had answered.
    assert!(world.far_route(0).is_some_and(|route| route != victim));
}

#[test]
fn keys_are_replaced_while_data_flows() {
    let mut world = World::connected();
    let words = |world: &World| world.near.words.keys().copied().collect::<Vec<_>>();
    let before = words(&world);
    for second in 0..300u16 {
        let content = second.to_be_bytes();
        world.send(0, &content).unwrap();
        world.answer(1, &content).unwrap();
        world.pass(Duration::from_secs(1));
    }
    assert!(words(&world).iter().all(|word| !before.contains(word)));
    let expected = |path| move |second: u16| (path, second.to_be_bytes().to_vec());
    assert_eq!(world.far_got, (0..300).map(expected(0)).collect::<Vec<_>>());
    assert_eq!(world.near_got, (0..300).map(expected(1)).collect::<Vec<_>>());
    let hellos = world.seen.iter().filter(|(_, datagram)| datagram[..4] == [0; 4]);
    assert!((3..=4).contains(&hellos.count()));
    // Replaced keys and words are forgotten.
    assert!(words(&world).len() <= 2 && world.far.words.len() <= 2 && world.far.hellos.is_empty());
}

#[test]
fn keys_are_replaced_after_few_records_if_the_user_wants_it() {
    let mut world = World::open();
    let life = KeyLife { time: Duration::MAX, records: 10, bytes: u64::MAX };
    world.near.set_key_life(life);
    assert_eq!(world.near.life, KeyLife { records: 10, ..KeyLife::default() });
    world.send(0, b"first").unwrap();
    world.pass(Duration::from_secs(1));
    let hellos =
        |world: &World| world.seen.iter().filter(|(_, datagram)| datagram[..4] == [0; 4]).count();
    for number in 0..100 {
        world.send(0, &[number]).unwrap();
        world.settle();
    }
    assert_eq!(world.far_got.len(), 101);
    assert!((10..20).contains(&hellos(&world)), "{}", hellos(&world));
}

/// A server that is heard does not replace the keys: the client must ask for it.
#[test]
fn keys_that_are_used_up_are_replaced_as_soon_as_a_handshake_is_possible() {
    let mut world = World::open();
    world.near.set_key_life(KeyLife { bytes: 2000, ..KeyLife::default() });
    world.send(0, b"first").unwrap();
    world.pass(Duration::from_secs(1));
    world.loses_hellos = true;
    let mut last = Ok(Sealed::Queued);
    for _ in 0..70 {
        last = world.send(0, &[1; 500]);
        world.answer(0, b"heard").unwrap();
        world.pass(Duration::from_secs(1));
    }
    assert_eq!(last, Err(SealError::UsedUp));
    world.loses_hellos = false;
    for _ in 0..10 {
        last = world.send(0, &[2; 500]);
        world.answer(0, b"heard").unwrap();
        world.pass(Duration::from_secs(1));
    }
    assert!(last.is_ok(), "{last:?}");
}

/// Either clock jumps, in both directions: data goes on, and a new client gets in. A suspended laptop looks like a server
/// whose clock jumps forward.
#[test]
fn clocks_may_jump() {
    const HOUR: Duration = Duration::from_secs(3600);
    for (side, to) in [(0, 0), (0, 5), (1, 0), (1, 5)] {
        let mut world = World::open();
        world.ahead = [HOUR * 2; 2];
        (0..2).for_each(|path| world.near.set_uplink(world.near_now(), path, V4));
        world.send(0, b"first").unwrap();
        world.pass(Duration::from_secs(1));
        world.ahead[side] = HOUR * to;
        for _ in 0..20 {
            let _ = world.send(0, b"on");
            let _ = world.answer(0, b"and on");
            world.pass(Duration::from_secs(1));
        }
        assert!(world.far_got.len() > 10 && world.near_got.len() > 10, "{side} {to}");
        let mut other = World::new(5, Allow::Any, None);
        std::mem::swap(&mut other.far, &mut world.far);
        (other.now, other.ahead) = (world.now, world.ahead);
        (0..2).for_each(|path| other.near.set_uplink(other.near_now(), path, V4));
        other.send(0, b"a new one").unwrap();
        other.pass(Duration::from_secs(1));
        assert_eq!(other.far_got, [(0, b"a new one".to_vec())], "{side} {to}");
    }
}

#[test]
fn a_revoked_key_gets_no_answer() {
    let mut world = World::new(1, Allow::Keys([secret(1).public()].into()), None);
    world.send(0, b"first").unwrap();
    world.pass(Duration::from_secs(1));
    assert_eq!(world.far_got.len(), 1);
    world.far.revoke(&secret(1).public());
    world.seen.clear();
    for _ in 0..30 {
        let _ = world.send(0, b"anybody there?");
        assert_eq!(world.answer(0, b"no"), Err(SealError::NoPeer));
        world.pass(Duration::from_secs(1));
    }
    assert!(world.seen.len() > 30 && world.seen.iter().all(|(to_server, _)| *to_server));
    assert!(world.far_got.len() == 1 && world.far.peers.is_empty() && world.far.words.is_empty());
}

#[test]
fn a_server_that_starts_again_is_found_again() {
    let mut world = World::connected();
    world.far = Endpoint::listening(secret(2), Allow::Any, [99; 32]);
    for _ in 0..20 {
        world.send(0, b"anybody there?").unwrap();
        world.pass(Duration::from_secs(1));
    }
    assert!(!world.far_got.is_empty());
}

#[test]
fn a_client_that_starts_again_is_a_new_peer() {
    let mut world = World::connected();
    let before = world.client;
    world.near = Endpoint::connecting(secret(1), [77; 32]);
    world.near.add_host(secret(2).public(), vec![server()], None);
    world.near.set_uplink(world.now, 0, V4);
    world.send(0, b"again").unwrap();
    world.pass(Duration::from_secs(1));
    assert_eq!(world.far_got, [(0, b"again".to_vec())]);
    assert!(world.client != before);
    // The old one is forgotten some time later, and the new one as well.
    world.near = Endpoint::connecting(secret(1), [78; 32]);
    world.pass(Duration::from_secs(1000));
    assert!(world.far.peers.is_empty() && world.far.words.is_empty());
    assert_eq!(world.far.next_deadline(), None);
}

#[test]
fn uplinks_come_and_go() {
    let mut world = World::connected();
    world.near.set_uplink(world.now, 0, Families::default());
    assert_eq!(world.send(0, b"x"), Err(SealError::Down));
    world.send(1, b"y").unwrap();
    world.near.set_uplink(world.now, 5, V4);
    world.outside.insert(5, ([203, 0, 113, 5], 1).into());
    world.settle();
    assert_eq!(world.far_route(5), Some(([203, 0, 113, 5], 1).into()));
    world.answer(5, b"z").unwrap();
    assert_eq!((world.far_got.len(), world.near_got.len()), (1, 1));
}

/// The numbers of the paths that an endpoint reports.
fn reached(endpoint: &mut Endpoint) -> Vec<u8> {
    let mut numbers = Vec::new();
    while let Some((local, remote)) = endpoint.poll_reached() {
        let [local, remote] = [local, remote].map(|ip| VirtualNetwork::split(ip.into()).unwrap().1);
        assert_eq!(local, remote);
        numbers.push(local);
    }
    numbers.sort_unstable();
    numbers
}

/// An uplink has its address before its routes, so what goes there first is lost; and the server follows a peer only when
/// it has answered.
#[test]
fn a_path_is_reported_when_its_uplink_first_carries_something() {
    let mut world = World::connected();
    assert_eq!((reached(&mut world.near), reached(&mut world.far)), (vec![0, 1], vec![0, 1]));
    world.outside.remove(&1);
    world.near.set_uplink(world.now, 1, Families::default());
    world.near.set_uplink(world.now, 1, V4);
    world.pass(Duration::from_millis(90));
    assert_eq!((reached(&mut world.near), reached(&mut world.far)), (vec![], vec![]));
    world.outside.insert(1, ([203, 0, 113, 1], 2000).into());
    world.pass(Duration::from_millis(10));
    assert_eq!((reached(&mut world.near), reached(&mut world.far)), (vec![1], vec![1]));
    // Later answers from the same address are no news.
    world.pass(Duration::from_secs(60));
    assert_eq!((reached(&mut world.near), reached(&mut world.far)), (vec![], vec![]));
}

#[test]
fn a_handshake_survives_losses_and_a_dead_uplink() {
    let mut world = World::open();
    world.outside.remove(&0);
    world.send(1, b"first").unwrap();
    world.pass(Duration::from_millis(300));
    assert_eq!(world.far_got, [(1, b"first".to_vec())]);
    // Nobody there for a while: the attempt ends, and what waited for it.
    let mut world = World::open();
    let outside = std::mem::take(&mut world.outside);
    world.send(0, b"lost").unwrap();
    world.pass(Duration::from_secs(100));
    assert_eq!(world.near.next_deadline(), None);
    assert!(world.near.words.is_empty());
    world.outside = outside;
    world.send(0, b"found").unwrap();
    world.pass(Duration::from_secs(1));
    assert_eq!(world.far_got, [(0, b"found".to_vec())]);
}

#[test]
fn a_flood_of_handshakes_leaves_no_state_and_stops_nobody() {
    let mut world = World::connected();
    // Strangers with all kinds of keys, who know the server's public key, from forged addresses.
    let (mut answers, mut sent) = (0, 0);
    for stranger in 0..400u32 {
        let mut random = Random::new([2; 32]);
        random.fill(&mut stranger.to_be_bytes());
        let mut seed = [3; 32];
        seed[..4].copy_from_slice(&stranger.to_be_bytes());
        let offer = crate::handshake::Offer { instance: 1, number: 1, fast_aes: true, token: None };
        let begun = crate::handshake::Attempt::begin(
            &SecretKey::from_bytes(seed),
            &secret(2).public(),
            1,
            &offer,
            Random::new(seed),
        );
        let before = world.seen.len();
        world.deliver_to_server(([10, 0, 0, 1], stranger as u16).into(), begun.unwrap().hello());
        world.settle();
        sent += crate::handshake::HELLO;
        answers += world.seen[before..].iter().map(|(_, answer)| answer.len()).sum::<usize>();
    }
    assert!(answers * 5 < sent, "{answers} {sent}");
    assert!(world.far.peers.len() <= 40, "{}", world.far.peers.len());
    // A client from another address proves it, and gets in.
    let mut client = World::new(8, Allow::nobody(), None);
    std::mem::swap(&mut client.far, &mut world.far);
    client.now = world.now;
    client.send(0, b"let me in").unwrap();
    client.settle();
    assert_eq!(client.far_got, [(0, b"let me in".to_vec())]);
    assert!(client.seen.iter().any(|(_, datagram)| datagram[4] == 0x83));
    client.pass(Duration::from_secs(15));
    assert!(client.far.peers.len() <= 2);
}

#[test]
fn batches_are_opened_in_place() {
    let mut world = World::connected();
    let to = VirtualNetwork::of(&secret(2).public(), 0).address(0);
    let addresses = (world.near.network().address(0).into(), to.into());
    let content: Vec<u8> = (0..4100).map(|index| index as u8).collect();
    let mut out = vec![1, 2, 3];
    let sealed = world.near.seal(world.now, addresses, &content, 1000, &mut out).unwrap();
    let Sealed::Send { segment_size, .. } = sealed else { panic!("{sealed:?}") };
    assert_eq!((segment_size, out.len()), (1000 + OVERHEAD, 3 + 4100 + 5 * OVERHEAD));
    let route = Route { socket: 0, local: None, remote: world.outside[&0] };
    let mut altered = out[3..].to_vec();
    altered[segment_size + 40] ^= 1;
    let opened = world.far.open(world.now, &route, &mut altered, segment_size).unwrap();
    assert_eq!((opened.len, opened.segment_size), (3100, 1000));
    assert_eq!(altered[..3100], [&content[..1000], &content[2000..]].concat());
    // The damaged one may still arrive whole.
    let second = &out[3 + segment_size..][..segment_size];
    world.deliver_to_server(world.outside[&0], second);
    assert_eq!(world.far_got, [(0, content[1000..2000].to_vec())]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Everything is delivered at most once and unaltered, whatever the network does.
    #[test]
    fn what_arrives_was_sent_and_arrives_once(
        fates in prop::collection::vec((0u8..6, any::<prop::sample::Index>(), 0..PATHS), 1..150),
    ) {
        let mut world = World::connected();
        let mut sent: Vec<(u8, Vec<u8>)> = Vec::new();
        world.seen.clear();
        for (number, (fate, index, path)) in (0u32..).zip(&fates) {
            let path = path % 2;
            let outside = world.outside.clone();
            let content = [&number.to_be_bytes()[..], &[path; 50]].concat();
            if *fate == 0 {
                // It is lost, but can still arrive later.
                world.outside.clear();
                let _ = world.send(path, &content);
            } else {
                let _ = world.send(path, &content);
            }
            sent.push((path, content));
            world.outside = outside;
            let old: Vec<_> = world.seen.iter().filter(|(to, _)| *to).cloned().collect();
            if let (2.., false) = (*fate, old.is_empty()) {
                let mut datagram = index.get(&old).1.clone();
                let at = index.index(datagram.len());
                match fate {
                    2 => datagram[at] ^= 0x10,
                    3 => datagram.truncate(at),
                    4 => datagram.push(0),
                    _ => {}
                }
                world.deliver_to_server(world.outside[&path], &datagram);
            }
            world.pass(Duration::from_millis(u64::from(index.index(3000) as u32)));
        }
        for got in &world.far_got {
            prop_assert!(sent.contains(got));
            prop_assert_eq!(world.far_got.iter().filter(|other| *other == got).count(), 1);
        }
    }

    /// No datagram harms an endpoint, in any state.
    #[test]
    fn any_bytes_are_survived(mut bytes: Vec<u8>, first: u8, own: bool, size in 0usize..100) {
        let mut world = World::connected();
        let (near, far) = (*world.near.words.keys().next().unwrap(), *world.far.words.keys().next().unwrap());
        if own && bytes.len() > 5 {
            bytes[..4].copy_from_slice(&far.to_be_bytes());
            bytes[4] = first;
        }
        let route = Route { socket: 0, local: None, remote: server() };
        prop_assert_eq!(world.far.open(world.now, &route, &mut bytes.clone(), size), None);
        if own && bytes.len() > 5 {
            bytes[..4].copy_from_slice(&near.to_be_bytes());
        }
        prop_assert_eq!(world.near.open(world.now, &route, &mut bytes, size), None);
        world.send(0, b"still works").unwrap();
        prop_assert_eq!(world.far_got.len(), 1);
    }
}
