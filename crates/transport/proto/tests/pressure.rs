//! Which association is evicted when an endpoint has no memory or no place left, and which never is.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use anabranch_harness::craft;
use anabranch_harness::hostile::Target;
use anabranch_proto::{
    AssociationConfig, AssociationId, CloseReason, EndpointConfig, OutgoingMessage, Ppid,
};
use anabranch_wire::{Chunk, Data, DataFlags, Header, Packet, Ssn, Tsn, cause_code, kind};

const WHOLE: u8 = DataFlags::BEGIN | DataFlags::END;
const FLOOR: usize = 16 * 1024;
const MEMORY: usize = 2 << 20;
const WINDOW: u32 = 1 << 20;

fn config() -> AssociationConfig {
    let mut config = AssociationConfig::default();
    config.timers.heartbeat_interval = None;
    config.mtu.discovery = false;
    config
}

/// An endpoint and the peers that are made by hand.
struct World {
    target: Target,
}

/// One of them.
#[derive(Clone, Copy)]
struct Peer {
    id: AssociationId,
    from: IpAddr,
    header: Header,
    tsn: u32,
    sent: u32,
}

impl World {
    fn new(limits: impl FnOnce(&mut EndpointConfig), config: AssociationConfig) -> Self {
        let mut endpoint = EndpointConfig::default();
        limits(&mut endpoint);
        Self { target: Target::new(endpoint, config) }
    }

    /// A peer at an address of the network of this number; `None` if it is refused.
    fn peer(&mut self, host: u8, port: u16) -> Option<Peer> {
        self.peer_at(IpAddr::V4(Ipv4Addr::new(10, 0, 1, host)), port)
    }

    fn peer_at(&mut self, from: IpAddr, port: u16) -> Option<Peer> {
        let header = Header { source_port: port, ..Target::header(0) };
        let cookie = self.target.cookie(from, header, &[])?;
        self.target.take(from, &cookie);
        self.target.drain();
        let id = self.target.connected_now()?;
        let header = Header { verification_tag: self.target.tag, ..header };
        Some(Peer { id, from, header, tsn: self.target.tsn, sent: 0 })
    }

    /// The peer sends a message of 1,400 bytes, `ahead` TSNs beyond what it has sent so far.
    fn message(&mut self, peer: &mut Peer, ahead: u32) {
        peer.sent += 1;
        let data = Data {
            flags: DataFlags(WHOLE),
            tsn: Tsn(peer.sent + ahead),
            stream: 0,
            ssn: Ssn((peer.sent + ahead - 1) as u16),
            ppid: Ppid(0),
            payload: &[7; 1400],
        };
        let packet = craft::packet(peer.header, |packet| packet.data(&data));
        self.target.take(peer.from, &packet);
        self.target.drain();
    }

    /// The peer fills the memory that it gets with what lies behind a hole.
    fn fill(&mut self, peer: &mut Peer) {
        for _ in 0..800 {
            self.message(peer, 1);
        }
    }

    fn sack(&mut self, peer: &Peer, count: u32, window: u32) {
        let cumulative = Tsn(peer.tsn.wrapping_add(count).wrapping_sub(1));
        let packet = craft::packet(peer.header, |p| p.sack(cumulative, window, &[], &[]));
        self.target.take(peer.from, &packet);
        self.target.drain();
    }

    /// The user sends until the buffer is full; the peer receives the first packets and goes silent.
    fn ask_much(&mut self, peer: &Peer) {
        let now = self.target.now;
        let mut association = self.target.association(peer.id);
        while association.send(now, OutgoingMessage::new(0, Ppid(0), vec![1; 8000])).is_ok() {}
        drop(association);
        self.target.drain();
    }

    fn held(&self, peer: &Peer) -> usize {
        let association = self.target.endpoint.association(peer.id).expect("not removed");
        association.statistics().receive_buffer_used
    }

    fn is_up(&self, peer: &Peer) -> bool {
        self.target.endpoint.association(peer.id).is_some_and(|a| !a.is_closed())
    }

    fn used(&self) -> usize {
        self.target.endpoint.memory_used()
    }

    fn wait(&mut self, seconds: u64) {
        self.target.pass(Duration::from_secs(seconds), |_, _| {});
    }
}

/// The first cause of an ABORT.
fn cause_of_abort(bytes: &[u8]) -> Option<u16> {
    let packet = Packet::parse(bytes).ok()?;
    let abort = packet.chunks().map_while(Result::ok).find(|chunk| chunk.kind == kind::ABORT)?;
    Some(u16::from_be_bytes(*abort.value.first_chunk()?))
}

/// Data behind holes fills the memory of the endpoint. It is dropped, and the next association has all
/// the room.
// test: rfc9260 6.2 "It MAY drop these DATA chunks even though"
// test: rfc9260 6.2 "include them in Gap Ack Blocks in subsequent"
#[test]
fn what_lies_behind_holes_is_given_back() {
    const MEMORY: usize = 1 << 20;
    let mut world = World::new(|endpoint| endpoint.memory_limit = MEMORY, config());
    let mut hogs: Vec<_> = (1..=1).map(|host| world.peer(host, 5000).unwrap()).collect();
    hogs.iter_mut().for_each(|hog| world.fill(hog));
    assert!(world.used() > MEMORY / 4 * 3, "{}", world.used());
    assert!(world.used() <= MEMORY + 65_536, "{}", world.used());
    world.wait(60);
    assert!(world.used() > MEMORY / 4 * 3, "nobody else needs it");
    let mut honest = world.peer(9, 5000).expect("a floor");
    world.message(&mut honest, 0);
    world.wait(2);
    assert!(world.used() < MEMORY * 3 / 4, "{}", world.used());
    assert!(hogs.iter().all(|hog| world.is_up(hog)), "they send it again");
    // The first of them fills its hole: what had been dropped is not acknowledged with it.
    let dropped = hogs.iter().position(|hog| world.held(hog) == 0).expect("who held most");
    let mut hog = hogs[dropped];
    hog.sent = 0;
    world.message(&mut hog, 0);
    assert_eq!(world.target.read(hog.id), 1, "one message");
    (0..100).for_each(|_| world.message(&mut honest, 0));
    assert_eq!(world.target.read(honest.id), 101);
}

fn lowest_tsn(bytes: &[u8]) -> Option<u32> {
    let packet = Packet::parse(bytes).ok()?;
    let chunks = packet.chunks().map_while(Result::ok).map_while(|chunk| chunk.decode().ok());
    chunks
        .filter_map(|chunk| if let Chunk::Data(data) = chunk { Some(data.tsn.0) } else { None })
        .min()
}

/// What NR-SACKs have promised stays, whoever wants the room.
#[test]
fn what_was_promised_for_good_is_not_given_back() {
    let mut options = config();
    options.acknowledging.nr_sack = true;
    let mut pair = anabranch_harness::Pair::with(
        [0, 1].map(|node| anabranch_harness::addresses(node, 1)),
        [EndpointConfig::default(), {
            let mut endpoint = EndpointConfig::default();
            endpoint.memory_limit = 200_000;
            endpoint
        }],
        options.clone(),
    );
    pair.connect(options);
    assert!(pair.run_until(Duration::from_secs(5), |pair| pair.both_up()));
    // The first packet with data is lost again and again.
    let mut first = None;
    let end = pair.net.now() + Duration::from_secs(9);
    pair.net.script(move |sight| {
        let lowest = lowest_tsn(sight.packet.bytes()).filter(|_| sight.node == 0);
        first = first.or(lowest);
        let lost = lowest.is_some() && lowest == first && sight.now < end;
        if lost { anabranch_harness::Verdict::Drop } else { anabranch_harness::Verdict::Pass }
    });
    for _ in 0..40 {
        assert!(pair.send(0, 0, vec![7; 10_000]));
    }
    assert!(pair.run_until(Duration::from_secs(60), |pair| pair.received_len(1) == 400_000));
    assert_eq!(pair.statistics(1).counters.reneged_chunks, 0);
    assert_eq!(pair.closed, [None, None]);
}

/// Peers that take nothing hold all memory with what waits for them: they are evicted after a while, and
/// one that takes it slowly does not.
// test: rfc9260 9.1 "it MUST send an ABORT chunk to its"
#[test]
fn peers_that_take_nothing_give_way() {
    let mut world = World::new(|endpoint| endpoint.memory_limit = MEMORY, config());
    let slow = world.peer(1, 5000).unwrap();
    world.ask_much(&slow);
    let hogs: Vec<_> = (2..=9).map(|host| world.peer(host, 5000).unwrap()).collect();
    hogs.iter().for_each(|hog| world.ask_much(hog));
    let begun = world.target.now;
    let mut aborts = Vec::new();
    let mut ended = None;
    for second in 1..100 {
        world.sack(&slow, second, WINDOW);
        hogs.iter().for_each(|hog| world.sack(hog, 0, 0));
        // One is accepted in any case, and has its floor.
        let newcomer = world.peer(100 + second as u8, 6000);
        let newcomer = newcomer.unwrap_or_else(|| panic!("no floor in second {second}"));
        let now = world.target.now;
        let hello = OutgoingMessage::new(0, Ppid(0), vec![1; FLOOR / 2]);
        world.target.association(newcomer.id).send(now, hello).expect("room for it");
        world.target.pass(Duration::from_secs(1), |_, sent| {
            aborts.extend(cause_of_abort(&sent.bytes));
        });
        if ended.is_none() && hogs.iter().any(|hog| !world.is_up(hog)) {
            ended = Some(world.target.now.saturating_since(begun));
        }
        world.target.endpoint.remove(newcomer.id);
    }
    let ended = ended.expect("one was evicted");
    assert!(ended >= Duration::from_secs(10), "not before it was at rest for long: {ended:?}");
    assert!(world.is_up(&slow), "it makes progress");
    assert!(!aborts.is_empty() && aborts.iter().all(|code| *code == cause_code::OUT_OF_RESOURCE));
    assert!(world.used() < MEMORY * 3 / 4, "{}", world.used());
}

/// As long as there is room, quiet associations are not examined.
#[test]
fn quiet_ones_of_one_address_stay_while_there_is_room() {
    let mut world = World::new(|endpoint| endpoint.max_associations = 2000, config());
    let peers: Vec<_> = (1..=1500).map(|port| world.peer(1, port).unwrap()).collect();
    world.wait(24 * 3600);
    assert!(peers.iter().all(|peer| world.is_up(peer)));
}

/// All places are taken by peers that never sent anything; a newcomer takes the place of one of them.
#[test]
fn places_that_nobody_uses_are_given_to_newcomers() {
    let mut world = World::new(|endpoint| endpoint.max_associations = 20, config());
    let mut busy = world.peer(1, 5000).unwrap();
    let idle: Vec<_> = (2..=20).map(|host| world.peer(host, 5000).unwrap()).collect();
    assert!(world.peer(100, 5000).is_none(), "nobody has been at rest for long");
    world.wait(20);
    world.message(&mut busy, 0);
    for host in 101..=110 {
        let newcomer = world.peer(host, 5000).expect("a place");
        assert!(world.is_up(&newcomer));
        let ended: Vec<_> = idle.iter().filter(|peer| !world.is_up(peer)).collect();
        ended.iter().for_each(|peer| world.target.endpoint.remove(peer.id));
        world.wait(1);
    }
    assert!(world.is_up(&busy), "it carries data");
    assert_eq!(idle.iter().filter(|peer| !world.is_up(peer)).count(), 10);
}

/// A peer that was of use keeps its place, unless its address has more than its share and the newcomer's has
/// not.
#[test]
fn an_address_with_most_places_gives_way_to_others() {
    let mut world = World::new(|endpoint| endpoint.max_associations = 20, config());
    let mut crowd: Vec<_> = (1..=15).map(|port| world.peer(1, port).unwrap()).collect();
    let mut others: Vec<_> = (2..=6).map(|host| world.peer(host, 5000).unwrap()).collect();
    crowd.iter_mut().chain(&mut others).for_each(|peer| {
        world.message(peer, 0);
        world.target.read(peer.id);
        world.wait(1);
    });
    world.wait(60);
    assert!(world.peer(1, 99).is_none(), "its address has more than its share");
    for host in 10..14 {
        world.wait(2);
        assert!(world.peer(host, 5000).is_some(), "{host}");
    }
    assert!(others.iter().all(|peer| world.is_up(peer)));
    assert_eq!(crowd.iter().filter(|peer| !world.is_up(peer)).count(), 4);
}

/// A host that has nearly all places does not keep them by saying something every eight seconds. It
/// keeps a quarter.
#[test]
fn a_byte_now_and_then_does_not_keep_most_places() {
    let mut world = World::new(|endpoint| endpoint.max_associations = 20, config());
    let mut others = vec![world.peer(2, 5000).unwrap()];
    let mut crowd: Vec<_> = (1..=19).map(|port| world.peer(1, port).unwrap()).collect();
    let up = |world: &World, peers: &[Peer]| peers.iter().filter(|peer| world.is_up(peer)).count();
    for second in 0..120_u8 {
        let due = crowd.iter_mut().skip(usize::from(second % 8)).step_by(8);
        for peer in due.chain(&mut others) {
            if world.is_up(peer) {
                world.message(peer, 0);
                world.target.read(peer.id);
            }
        }
        world.wait(1);
        if second >= 10 && second % 5 == 0 {
            assert!(world.peer(1, 99).is_none(), "its own host has more than its share");
            let newcomer = world.peer(100 + second, 5000);
            assert_eq!(newcomer.is_some(), others.len() < 15, "{} came", others.len());
            others.extend(newcomer);
            let ended: Vec<_> = crowd.iter().filter(|peer| !world.is_up(peer)).collect();
            ended.iter().for_each(|peer| world.target.endpoint.remove(peer.id));
        }
    }
    assert_eq!(up(&world, &others), 15, "they have few places each");
    assert_eq!(up(&world, &crowd), 5, "a quarter is its share");
}

/// Many users behind one address keep all places, however little they send, as long as no other host needs
/// one. Each new host that needs a place gets one, from the association that has been quiet for longest.
#[test]
fn those_who_share_an_address_lose_no_more_places_than_others_need() {
    let mut world = World::new(|endpoint| endpoint.max_associations = 40, config());
    let mut users: Vec<_> = (1..=40).map(|port| world.peer(1, port).unwrap()).collect();
    for peer in &mut users {
        world.message(peer, 0);
        world.target.read(peer.id);
    }
    world.wait(3600);
    assert!(users.iter().all(|peer| world.is_up(peer)), "nobody needs their places");
    // The first ten are quiet for longest.
    for peer in &mut users[10..] {
        world.message(peer, 0);
        world.target.read(peer.id);
    }
    world.wait(4);
    let newcomers: Vec<_> = (10..13).map(|host| world.peer(host, 5000).expect("a place")).collect();
    world.wait(60);
    assert!(newcomers.iter().all(|peer| world.is_up(peer)));
    let up = |users: &[Peer]| users.iter().filter(|peer| world.is_up(peer)).count();
    assert_eq!(up(&users[..10]), 7);
    assert_eq!(up(&users[10..]), 30);
}

/// A /64 network counts as one host, because a single host may have all its addresses.
#[test]
fn all_addresses_of_one_network_are_one_host() {
    let mut world = World::new(|endpoint| endpoint.max_associations = 20, config());
    let address = |network: u128, host: u128| {
        IpAddr::V6(Ipv6Addr::from_bits((0x2001_0db8 << 96) | (network << 64) | host))
    };
    let mut other = world.peer_at(address(2, 1), 5000).unwrap();
    let mut crowd: Vec<_> =
        (1..=19).map(|host| world.peer_at(address(1, host), 5000).unwrap()).collect();
    crowd.iter_mut().chain([&mut other]).for_each(|peer| {
        world.message(peer, 0);
        world.target.read(peer.id);
    });
    world.wait(20);
    assert!(world.peer_at(address(1, 99), 5000).is_none(), "its network has more than its share");
    world.wait(2);
    assert!(world.peer_at(address(3, 1), 5000).is_some());
    assert!(world.is_up(&other));
}

/// IPv4 hosts behind a translator have IPv6 addresses that differ in the last 32 bits only.
#[test]
fn hosts_behind_a_translator_are_several() {
    let mut world = World::new(|endpoint| endpoint.max_associations = 20, config());
    let address = |host: u128| IpAddr::V6(Ipv6Addr::from_bits((0x64_ff9b << 96) | host));
    let mut users: Vec<_> =
        (1..=20).map(|host| world.peer_at(address(host), 5000).unwrap()).collect();
    for peer in &mut users {
        world.message(peer, 0);
        world.target.read(peer.id);
    }
    world.wait(60);
    assert!(world.peer(1, 5000).is_none(), "each has one place");
    assert!(users.iter().all(|peer| world.is_up(peer)));
}

/// The same for memory: a chunk taken every eight seconds does not keep it from others. A host keeps
/// its share.
#[test]
fn a_chunk_now_and_then_does_not_keep_the_memory() {
    let mut world = World::new(|endpoint| endpoint.memory_limit = MEMORY, config());
    let hogs: Vec<_> = (1..=8).map(|port| world.peer(1, port).unwrap()).collect();
    hogs.iter().for_each(|hog| world.ask_much(hog));
    let honest = world.peer(2, 5000).unwrap();
    for second in 0..40_u32 {
        for (number, hog) in hogs.iter().enumerate() {
            if second % 8 == number as u32 && world.is_up(hog) {
                world.sack(hog, 1 + second / 8, WINDOW);
            }
        }
        world.ask_much(&honest);
        world.sack(&honest, 1, WINDOW);
        world.wait(1);
    }
    assert!(hogs.iter().any(|hog| !world.is_up(hog)), "some yielded");
    assert!(hogs.iter().any(|hog| world.is_up(hog)), "a quarter is its share");
    assert!(world.is_up(&honest));
}

/// A host that has all memory with several downloads keeps them while each takes a chunk a second: it
/// makes progress.
#[test]
fn several_slow_downloads_of_one_host_go_on() {
    let mut world = World::new(|endpoint| endpoint.memory_limit = MEMORY, config());
    let slow: Vec<_> = (1..=8).map(|port| world.peer(1, port).unwrap()).collect();
    slow.iter().for_each(|peer| world.ask_much(peer));
    let honest = world.peer(2, 5000).unwrap();
    for second in 0..40_u32 {
        slow.iter().for_each(|peer| {
            world.sack(peer, 1 + second, WINDOW);
            world.ask_much(peer);
        });
        world.ask_much(&honest);
        world.sack(&honest, 1, WINDOW);
        world.wait(1);
    }
    assert!(slow.iter().all(|peer| world.is_up(peer)));
}

/// The user hears why an association ended.
#[test]
fn the_user_is_told() {
    let mut world = World::new(|endpoint| endpoint.max_associations = 1, config());
    let first = world.peer(1, 5000).unwrap();
    world.wait(60);
    let header = Header { source_port: 5000, ..Target::header(0) };
    let from = IpAddr::V4(Ipv4Addr::new(10, 0, 1, 2));
    let cookie = world.target.cookie(from, header, &[]).unwrap();
    world.target.take(from, &cookie);
    let closed = std::iter::from_fn(|| world.target.endpoint.poll_event()).any(|(id, event)| {
        id == first.id
            && matches!(
                event,
                anabranch_proto::Event::Notification(anabranch_proto::Notification::Closed(
                    CloseReason::GaveWay
                ))
            )
    });
    assert!(closed);
}
