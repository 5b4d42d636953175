//! Paths that follow their uplinks.

use super::*;

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
