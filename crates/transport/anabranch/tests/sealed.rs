//! Sealed paths through a translator of addresses, over real sockets.
#![cfg(feature = "seal")]

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch::config::MultipathMode;
use anabranch::seal::{Allow, Invitation, PublicKey, Seal, SecretKey, Token, Uplink};
use anabranch::{
    Association, AssociationConfig, ConnectOptions, Endpoint, Listener, PathState, PathStatistics,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UdpSocket;

/// A translator between a client and a server: the server sees one address for each of the client's, and none that the
/// client knows.
#[derive(Clone)]
struct Translator {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Packets from and to these addresses are lost.
    cut: Vec<IpAddr>,
    /// Changes with each new set of outer addresses.
    generation: u32,
    outer: BTreeMap<(SocketAddr, u32), Arc<UdpSocket>>,
    /// Packets of each client address.
    packets: BTreeMap<IpAddr, usize>,
    /// Contents of all packets.
    seen: Vec<Vec<u8>>,
    /// Packets are altered, repeated, cut short and held back.
    meddles: bool,
    /// The packets that are held back, by client and direction.
    held: BTreeMap<(SocketAddr, bool), Vec<u8>>,
}

impl Translator {
    async fn before(server: SocketAddr) -> Self {
        let inner = Arc::new(UdpSocket::bind("127.0.0.9:0").await.unwrap());
        let address = inner.local_addr().unwrap();
        let this = Self { address, state: Arc::default() };
        let translator = this.clone();
        tokio::spawn(async move {
            let mut buffer = vec![0; 65_536];
            while let Ok((len, client)) = inner.recv_from(&mut buffer).await {
                if translator.loses(client.ip(), &buffer[..len]) {
                    continue;
                }
                let outer = translator.outer(&inner, client).await;
                for packet in translator.made_of(client, true, &buffer[..len]) {
                    let _ = outer.send_to(&packet, server).await;
                }
            }
        });
        this
    }

    fn loses(&self, client: IpAddr, packet: &[u8]) -> bool {
        let mut state = self.state.lock().unwrap();
        *state.packets.entry(client).or_default() += 1;
        state.seen.push(packet.to_vec());
        state.cut.contains(&client)
    }

    /// What is sent on in the place of a packet: all kinds of forged ones, and the packet itself, now or later.
    fn made_of(&self, client: SocketAddr, to_server: bool, packet: &[u8]) -> Vec<Vec<u8>> {
        let mut state = self.state.lock().unwrap();
        if !state.meddles {
            return vec![packet.to_vec()];
        }
        let (number, len) = (state.seen.len(), packet.len());
        // The word, the kind, the path, the number, the content and the tag.
        let places = [0, 4, 5, 11, 12, len / 2, len - 16, len - 1];
        let place = places[number % places.len()].min(len - 1);
        let mut altered = packet.to_vec();
        altered[place] ^= 1 << (number / places.len() % 8);
        let again = state.seen[number.saturating_sub(50)].clone();
        let first = state.seen[number / 2].clone();
        let (short, long) = (packet[..number % len].to_vec(), [packet, &[0]].concat());
        let mut made = vec![altered, again, first, short, long];
        // Each fourth one is overtaken by the next.
        let way = (client, to_server);
        if number.is_multiple_of(4) && !state.held.contains_key(&way) {
            state.held.insert(way, packet.to_vec());
        } else {
            made.push(packet.to_vec());
            made.extend(state.held.remove(&way));
        }
        made
    }

    /// The outer socket of a client's address.
    async fn outer(&self, inner: &Arc<UdpSocket>, client: SocketAddr) -> Arc<UdpSocket> {
        let generation = self.state.lock().unwrap().generation;
        if let Some(outer) = self.state.lock().unwrap().outer.get(&(client, generation)) {
            return outer.clone();
        }
        let address = SocketAddr::from(([127, 0, 8, generation as u8], 0));
        let outer = Arc::new(UdpSocket::bind(address).await.unwrap());
        let (back, inner, translator) = (outer.clone(), inner.clone(), self.clone());
        tokio::spawn(async move {
            let mut buffer = vec![0; 65_536];
            while let Ok((len, _)) = back.recv_from(&mut buffer).await {
                // An outer address that was replaced leads nowhere.
                let current = translator.state.lock().unwrap().generation == generation;
                if current && !translator.loses(client.ip(), &buffer[..len]) {
                    for packet in translator.made_of(client, false, &buffer[..len]) {
                        let _ = inner.send_to(&packet, client).await;
                    }
                }
            }
        });
        self.state.lock().unwrap().outer.insert((client, generation), outer.clone());
        outer
    }

    fn cut(&self, clients: &[IpAddr]) {
        self.state.lock().unwrap().cut = clients.to_vec();
    }

    fn rebind(&self) {
        self.state.lock().unwrap().generation += 1;
    }
}

fn uplink(number: u8) -> IpAddr {
    [127, 0, 0, 20 + number].into()
}

fn config() -> AssociationConfig {
    let mut config = AssociationConfig::default();
    config.multipath.mode = MultipathMode::CmtPf;
    config.timers.rto_min = Duration::from_millis(100);
    config.timers.rto_initial = Duration::from_millis(500);
    config
}

struct Setup {
    server: Endpoint,
    listener: Listener,
    invitation: Invitation,
    translator: Translator,
    server_seal: anabranch::seal::SealHandle,
    /// Keys that tokens have admitted.
    admitted: Arc<Mutex<Vec<PublicKey>>>,
}

async fn set_up(allow: Allow) -> Setup {
    let secret = SecretKey::generate().unwrap();
    let seal = Seal::listen(secret.clone(), ["127.0.0.1:0".parse().unwrap()]).allow(allow);
    let admitted = Arc::<Mutex<Vec<_>>>::default();
    let seal = seal.on_admitted({
        let admitted = admitted.clone();
        move |key| admitted.lock().unwrap().push(key)
    });
    let server_seal = seal.handle();
    let server = Endpoint::builder().seal(seal).bind().unwrap();
    let listener = server.listen(5000, config()).unwrap();
    let real = SocketAddr::from(([127, 0, 0, 1], server.udp_port()));
    let translator = Translator::before(real).await;
    let invitation = Invitation::new(secret.public(), [translator.address]);
    Setup { server, listener, invitation, translator, server_seal, admitted }
}

fn client(invitation: &Invitation, secret: SecretKey) -> (Endpoint, anabranch::seal::SealHandle) {
    let uplinks = [0, 1].map(|number| Uplink::address(uplink(number)));
    let seal = Seal::connect(secret, invitation).uplinks(uplinks);
    let handle = seal.handle();
    (Endpoint::builder().seal(seal).bind().unwrap(), handle)
}

async fn connect(setup: &Setup, client: &Endpoint) -> (Association, Association) {
    let remotes = setup.invitation.key().remotes(5000);
    let options = ConnectOptions::from(config());
    let (near, far) = tokio::join!(client.connect(remotes, options), setup.listener.accept());
    (near.unwrap(), far.unwrap())
}

/// Sends blocks, calling `before` with the number of each, and checks that they arrive.
async fn transfer(from: &Association, to: &Association, blocks: u32, before: impl Fn(u32)) {
    let (mut send, _) = from.open_stream().await.unwrap();
    let sending = async {
        for block in 0..blocks {
            before(block);
            send.write_all(&block.to_be_bytes().repeat(2500)).await.unwrap();
        }
        send.shutdown().await.unwrap();
    };
    let receiving = async {
        let (_, mut receive) = to.accept_stream().await.unwrap().unwrap();
        let mut block = vec![0; 10_000];
        for number in 0..blocks {
            receive.read_exact(&mut block).await.unwrap();
            assert_eq!(block, number.to_be_bytes().repeat(2500));
        }
        assert_eq!(receive.read(&mut block).await.unwrap(), 0);
    };
    tokio::join!(sending, receiving);
}

fn usable(association: &Association) -> Vec<PathStatistics> {
    let paths = association.statistics().paths;
    paths.into_iter().filter(|path| path.state == PathState::Active).collect()
}

async fn until(what: &str, done: impl Fn() -> bool) {
    for _ in 0..1500 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

#[tokio::test]
async fn two_uplinks_behind_translators_carry_one_transfer_and_one_may_go() {
    let setup = set_up(Allow::Any).await;
    let secret = SecretKey::generate().unwrap();
    let (client, handle) = client(&setup.invitation, secret.clone());
    let (near, far) = connect(&setup, &client).await;
    until("two paths", || usable(&near).len() == 2 && usable(&far).len() == 2).await;
    assert_eq!(handle.paths().iter().filter(|path| path.remote.is_some()).count(), 2);
    let remote = usable(&far)[0].remote;
    assert_eq!(setup.server_seal.peer_of(remote), Some(secret.public()));
    // A path whose packets the system drops may pause for a while.
    let carry = |association: &Association| {
        let paths = association.statistics().paths;
        paths.iter().filter(|path| path.bytes_sent > 300_000).count()
    };
    while carry(&near) < 2 || carry(&far) < 2 {
        transfer(&near, &far, 100, |_| {}).await;
        transfer(&far, &near, 100, |_| {}).await;
    }
    let cut = setup.translator.clone();
    transfer(&near, &far, 300, |block| {
        if block == 100 {
            cut.cut(&[uplink(0)]);
        }
    })
    .await;
    transfer(&far, &near, 100, |_| {}).await;
    // It comes back.
    cut.cut(&[]);
    until("the path is back", || usable(&near).len() == 2).await;
    drop((near, far));
    client.close().await;
    setup.server.close().await;
}

#[tokio::test]
async fn addresses_and_ports_change_ten_times_in_a_transfer() {
    let setup = set_up(Allow::Any).await;
    let (client, _) = client(&setup.invitation, SecretKey::generate().unwrap());
    let (near, far) = connect(&setup, &client).await;
    let translator = setup.translator.clone();
    for (from, to) in [(&near, &far), (&far, &near)] {
        transfer(from, to, 330, |block| {
            if block > 0 && block % 30 == 0 {
                translator.rebind();
            }
        })
        .await;
    }
    let state = translator.state.lock().unwrap();
    assert_eq!(state.generation, 20);
    let used: BTreeSet<_> = state.outer.keys().map(|(_, generation)| *generation).collect();
    assert!(used.len() > 10, "{used:?}");
}

/// The SCTP packets of a capture.
fn captured(file: &[u8]) -> Vec<&[u8]> {
    let word = |at: usize| u32::from_ne_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    let (mut packets, mut at) = (Vec::new(), 0);
    while at + 12 <= file.len() {
        // An enhanced packet block, with an IPv6 header, and perhaps one of UDP.
        if word(at) == 6 {
            let packet = &file[at + 28..at + 28 + word(at + 20)];
            let header = if packet[6] == 17 { 48 } else { 40 };
            packets.push(&packet[header..]);
        }
        at += word(at + 4);
    }
    packets
}

/// Somebody between the two reads all packets, alters, repeats, reorders and truncates them.
#[tokio::test]
async fn who_is_between_reads_nothing_and_changes_nothing() {
    let setup = set_up(Allow::Any).await;
    let capture = std::env::temp_dir().join(format!("anabranch-sealed-{}", std::process::id()));
    let uplinks = [0, 1].map(|number| Uplink::address(uplink(number)));
    let seal = Seal::connect(SecretKey::generate().unwrap(), &setup.invitation).uplinks(uplinks);
    let client = Endpoint::builder().seal(seal).capture(&capture).bind().unwrap();
    setup.translator.state.lock().unwrap().meddles = true;
    let (near, far) = connect(&setup, &client).await;
    transfer(&near, &far, 40, |_| {}).await;
    transfer(&far, &near, 40, |_| {}).await;
    drop((near, far));
    client.close().await;
    let file = std::fs::read(&capture).unwrap();
    std::fs::remove_file(&capture).unwrap();
    let state = setup.translator.state.lock().unwrap();
    let outside: HashSet<&[u8]> = state.seen.iter().flat_map(|packet| packet.windows(12)).collect();
    let inside = captured(&file);
    assert!(inside.len() > 100 && state.seen.len() > 100, "{}", inside.len());
    let ports = |packet: &&[u8]| packet[..2] == [0x13, 0x88] || packet[2..4] == [0x13, 0x88];
    assert!(inside.iter().all(ports), "these are not packets of SCTP");
    for packet in inside {
        // The header, chunks, and payload. A hello has zeros in the place of a proof.
        for part in packet.as_chunks::<12>().0.iter().filter(|part| **part != [0; 12]) {
            assert!(!outside.contains(&part[..]), "{part:?} can be read");
        }
    }
}

#[tokio::test]
async fn uplinks_are_switched_off_and_on() {
    let setup = set_up(Allow::Any).await;
    let uplinks = [0, 1, 2].map(|number| Uplink::address(uplink(number)));
    let seal = Seal::connect(SecretKey::generate().unwrap(), &setup.invitation).uplinks(uplinks);
    let handle = seal.handle();
    // The last one is not there yet, and the first one not at the beginning.
    handle.set_uplink(0, false);
    handle.set_uplink(2, false);
    let client = Endpoint::builder().seal(seal).bind().unwrap();
    let (near, far) = connect(&setup, &client).await;
    until("one path", || usable(&near).len() == 1 && usable(&far).len() == 1).await;
    handle.set_uplink(0, true);
    handle.set_uplink(2, true);
    until("three paths", || usable(&near).len() == 3 && usable(&far).len() == 3).await;
    handle.set_uplink(0, false);
    until("two paths", || usable(&near).len() == 2).await;
    transfer(&near, &far, 20, |_| {}).await;
    transfer(&far, &near, 20, |_| {}).await;
    handle.set_uplink(0, true);
    until("three paths again", || usable(&near).len() == 3 && usable(&far).len() == 3).await;
    transfer(&near, &far, 20, |_| {}).await;
}

/// A network that has just come has its address before its routes: what is sent there first is lost. The association must
/// not wait for its own timers, which here would take an hour.
#[tokio::test]
async fn an_uplink_whose_first_packets_are_lost_is_used_when_it_works() {
    let mut setup = set_up(Allow::Any).await;
    let mut patient = config();
    patient.timers.heartbeat_interval = Some(Duration::from_secs(3600));
    drop(setup.listener);
    setup.listener = setup.server.listen(5001, patient.clone()).unwrap();
    let (client, handle) = client(&setup.invitation, SecretKey::generate().unwrap());
    let remotes = setup.invitation.key().remotes(5001);
    let connecting = client.connect(remotes, ConnectOptions::from(patient));
    let (near, far) = tokio::join!(connecting, setup.listener.accept());
    let (near, far) = (near.unwrap(), far.unwrap());
    until("two paths", || usable(&near).len() == 2 && usable(&far).len() == 2).await;
    handle.set_uplink(1, false);
    until("one path", || usable(&near).len() == 1).await;
    setup.translator.cut(&[uplink(1)]);
    let asked = |near: &Association| -> u64 {
        near.statistics().paths.iter().map(|path| path.heartbeats_sent).sum()
    };
    let before = asked(&near);
    let lost = || setup.translator.state.lock().unwrap().packets.get(&uplink(1)).copied();
    let seen = lost();
    handle.set_uplink(1, true);
    // The seal has probed the path, and the association has asked the peer.
    until("lost packets", || asked(&near) > before && lost() > seen.map(|seen| seen + 2)).await;
    setup.translator.cut(&[]);
    until("two paths again", || usable(&near).len() == 2).await;
}

#[tokio::test]
async fn uplinks_come_in_the_place_of_others() {
    let setup = set_up(Allow::Any).await;
    let (client, handle) = client(&setup.invitation, SecretKey::generate().unwrap());
    let (near, far) = connect(&setup, &client).await;
    until("two paths", || usable(&near).len() == 2 && usable(&far).len() == 2).await;
    handle.replace_uplink(4, Uplink::address(uplink(4)));
    handle.replace_uplink(8, Uplink::address(uplink(8)));
    until("three paths", || usable(&near).len() == 3 && usable(&far).len() == 3).await;
    // One that is not there closes the sockets of the one before it.
    handle.replace_uplink(0, Uplink::interface("missing"));
    until("two paths", || usable(&near).len() == 2).await;
    handle.replace_uplink(0, Uplink::address(uplink(9)));
    until("three paths again", || usable(&near).len() == 3 && usable(&far).len() == 3).await;
    transfer(&near, &far, 20, |_| {}).await;
    transfer(&far, &near, 20, |_| {}).await;
    let packets = &setup.translator.state.lock().unwrap().packets;
    assert!(packets.contains_key(&uplink(4)) && packets.contains_key(&uplink(9)));
    assert!(!packets.contains_key(&uplink(8)));
}

#[tokio::test]
async fn only_invited_keys_connect() {
    let setup = set_up(Allow::nobody()).await;
    let secret = SecretKey::generate().unwrap();
    let (stranger, _) = client(&setup.invitation, secret.clone());
    let remotes = setup.invitation.key().remotes(5000);
    let attempt = stranger.connect(remotes, ConnectOptions::from(config()));
    assert!(tokio::time::timeout(Duration::from_millis(300), attempt).await.is_err());
    // No packet went back.
    let packets = setup.translator.state.lock().unwrap().seen.len();
    assert!(packets > 0);
    let token = Token::generate().unwrap();
    setup.server_seal.invite(token.clone());
    let invited = setup.invitation.clone().with_token(token);
    let guest = SecretKey::generate().unwrap();
    let (client, _) = client(&invited, guest.clone());
    let remotes = setup.invitation.key().remotes(5000);
    let near = client.connect(remotes, ConnectOptions::from(config())).await.unwrap();
    // Nobody has accepted yet: a server that ends here knows its client when it comes back.
    assert_eq!(*setup.admitted.lock().unwrap(), [guest.public()]);
    let far = setup.listener.accept().await.unwrap();
    transfer(&near, &far, 5, |_| {}).await;
    setup.server_seal.allow(secret.public());
    connect(&setup, &stranger).await;
}

/// Nothing reaches the peer any more: waiting for its answer would only hold memory.
#[tokio::test]
async fn who_is_locked_out_has_no_association_left() {
    let setup = set_up(Allow::Any).await;
    let secret = SecretKey::generate().unwrap();
    let (client, _) = client(&setup.invitation, secret.clone());
    let (near, far) = connect(&setup, &client).await;
    let (_near2, closing) = connect(&setup, &client).await;
    transfer(&near, &far, 1, |_| {}).await;
    let (mut send, _) = far.open_stream().await.unwrap();
    send.write_all(b"nobody acknowledges this").await.unwrap();
    setup.server_seal.revoke(secret.public());
    drop(closing);
    let ended = tokio::time::timeout(Duration::from_secs(5), far.closed()).await;
    assert!(ended.is_ok(), "the association is still there");
    let idle = tokio::time::timeout(Duration::from_secs(5), setup.server.wait_idle()).await;
    assert!(idle.is_ok(), "one that is closing is still there");
}

/// The clients of a server with several shards are divided among them, with both of their uplinks.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn shards_divide_the_clients() {
    const CLIENTS: usize = 40;
    let any = "127.0.0.1:0".parse().unwrap();
    let secret = SecretKey::generate().unwrap();
    let seal = Seal::listen(secret.clone(), [any, "[::1]:0".parse().unwrap()]);
    let server_seal = seal.handle();
    let server = Endpoint::builder().seal(seal).shards(4).bind().unwrap();
    let listener = server.listen(5000, config()).unwrap();
    let port = server.udp_port();
    let [v4, v6] = ["127.0.0.1", "::1"].map(|ip| SocketAddr::new(ip.parse().unwrap(), port));
    let mut ends = Vec::new();
    let mut keys = Vec::new();
    for number in 0..CLIENTS {
        // Tokens and keys are those of the whole endpoint.
        let token = Token::generate().unwrap();
        server_seal.invite(token.clone());
        let invitation = Invitation::new(secret.public(), [if number % 4 == 0 { v6 } else { v4 }]);
        let invitation = invitation.with_token(token);
        let own = SecretKey::generate().unwrap();
        keys.push(own.public());
        let client = if number % 4 == 0 {
            let uplinks = [Uplink::address("::1".parse().unwrap())];
            let seal = Seal::connect(own, &invitation).uplinks(uplinks);
            Endpoint::builder().seal(seal).bind().unwrap()
        } else {
            self::client(&invitation, own).0
        };
        let remotes = invitation.key().remotes(5000);
        let options = ConnectOptions::from(config());
        let (near, far) = tokio::join!(client.connect(remotes, options), listener.accept());
        let (near, far) = (near.unwrap(), far.unwrap());
        let peer = server_seal.peer_of(far.statistics().paths[0].remote);
        assert_eq!(peer, keys.last().copied());
        ends.push((client, near, far));
    }
    for (_, near, far) in &ends {
        transfer(near, far, 3, |_| {}).await;
        transfer(far, near, 3, |_| {}).await;
    }
    let (_, near, far) = &ends[1];
    until("both uplinks are used", || usable(near).len() == 2 && usable(far).len() == 2).await;
    let mut by_shard = BTreeMap::<String, usize>::new();
    for association in server.snapshot().associations {
        let shard = association.id.split_once('/').unwrap().0.to_owned();
        *by_shard.entry(shard).or_default() += 1;
    }
    assert!(by_shard.len() == 4 && by_shard.values().sum::<usize>() == CLIENTS, "{by_shard:?}");
    assert!(server_seal.paths().len() >= CLIENTS);
    // A key is revoked in every shard.
    keys.iter().for_each(|key| server_seal.revoke(*key));
    for (_, _, far) in &ends {
        let ended = tokio::time::timeout(Duration::from_secs(5), far.closed()).await;
        assert!(ended.is_ok(), "the association is still there");
    }
    drop(listener);
    server.close().await;
    assert!([v4, v6].into_iter().all(|address| std::net::UdpSocket::bind(address).is_ok()));
}

#[test]
fn only_servers_are_divided() {
    let invitation =
        Invitation::new(SecretKey::from_bytes([1; 32]).public(), ["127.0.0.1:9".parse().unwrap()]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _context = runtime.enter();
    let seal = Seal::connect(SecretKey::from_bytes([2; 32]), &invitation);
    let error = Endpoint::builder().seal(seal).shards(2).bind().unwrap_err();
    assert!(error.to_string().contains("more than one shard of a client"), "{error}");
}

#[tokio::test]
async fn the_first_uplink_may_be_missing() {
    let setup = set_up(Allow::Any).await;
    let uplinks = [Uplink::interface("no-such-device"), Uplink::address(uplink(1))];
    let seal = Seal::connect(SecretKey::generate().unwrap(), &setup.invitation).uplinks(uplinks);
    let client = Endpoint::builder().seal(seal).bind().unwrap();
    let (near, far) = connect(&setup, &client).await;
    transfer(&near, &far, 5, |_| {}).await;
    transfer(&far, &near, 5, |_| {}).await;
}

/// Handles may outlive the endpoint.
#[tokio::test]
async fn a_closed_endpoint_gives_its_port_back() {
    let Setup { server, server_seal, listener, .. } = set_up(Allow::Any).await;
    let address = SocketAddr::from(([127, 0, 0, 1], server.udp_port()));
    assert!(std::net::UdpSocket::bind(address).is_err());
    drop(listener);
    server.close().await;
    assert!(std::net::UdpSocket::bind(address).is_ok());
    assert!(server_seal.paths().is_empty());
}
