//! What a record protects: its content, its order and its place.

use super::*;

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
