//! Handshakes, keys that are replaced, and who is admitted.

use super::*;

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

/// Over all of its uplinks and in all of its sessions, so the system can keep its datagrams together.
#[test]
fn all_datagrams_of_a_client_go_to_one_shard() {
    let mut shards = BTreeSet::new();
    for seed in 0..20 {
        let mut world = World::open();
        world.near = Endpoint::connecting(secret(1), [seed; 32]);
        world.near.add_host(secret(2).public(), vec![server()], None);
        (0..2).for_each(|path| world.near.set_uplink(world.now, path, V4));
        let index = world.seen_shards_of(5 * 60);
        assert_eq!(index.len(), 1, "{index:?}");
        shards.extend(index);
    }
    assert!(shards.len() > 10, "clients are spread: {shards:?}");
}

/// What a shard knows of admissions, the others know.
#[test]
fn shards_admit_the_same_keys() {
    let token = Token::from_bytes([7; 16]);
    let mut first = Endpoint::listening(secret(2), Allow::nobody(), [12; 32]);
    first.announce();
    first.set_key_life(KeyLife { records: 7, ..KeyLife::default() });
    let mut second = first.shard([13; 32]);
    assert_eq!((second.network(), second.announces), (first.network(), true));
    assert_eq!(second.life.records, 7);
    first.invite(token.clone());
    let mut guest = World::new(1, Allow::nobody(), Some(token.clone()));
    std::mem::swap(&mut guest.far, &mut second);
    guest.send(0, b"invited").unwrap();
    guest.pass(Duration::from_secs(2));
    assert_eq!(guest.far_got, [(0, b"invited".to_vec())]);
    let mut late = World::new(5, Allow::nobody(), Some(token));
    std::mem::swap(&mut late.far, &mut first);
    late.send(0, b"too late").unwrap();
    late.pass(Duration::from_secs(5));
    assert!(late.far_got.is_empty());
    late.far.allow(secret(5).public());
    guest.far.revoke(&secret(1).public());
    late.pass(Duration::from_secs(10));
    guest.send(0, b"revoked").unwrap();
    guest.pass(Duration::from_secs(10));
    assert_eq!((late.far_got.len(), guest.far_got.len()), (1, 1));
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
    assert!(world.far.poll_gone().is_none());
    world.far.revoke(&secret(1).public());
    let addresses: Vec<_> = world.far.poll_gone().unwrap().collect();
    assert_eq!(addresses.len(), usize::from(PATHS));
    assert!(world.far.poll_gone().is_none(), "it is reported once");
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
