//! Addresses that come and go while an association is up (RFC 5061).

use std::net::IpAddr;
use std::time::Duration;

use anabranch_harness::{Datagram, Pair, addresses, craft};
use anabranch_proto::config::Routes;
use anabranch_proto::{
    AddressChange, AddressError, AssociationConfig, CloseReason, ConnectRequest, EndpointConfig,
    Event, Features, Notification, PathState, ReconfigurationResult,
};
use anabranch_wire::{Abort, Causes, Chunk, Packet, kind};
use bytes::Bytes;

use AddressChange::{Added, Preferred, Removed};
use ReconfigurationResult::{Failed, Performed};

fn config() -> AssociationConfig {
    AssociationConfig::default().with(|config| {
        config.authentication.authentication = true;
        config.addresses.address_reconfiguration = true;
    })
}

fn roaming() -> AssociationConfig {
    config().with(|config| config.addresses.roam = true)
}

/// Two hosts with these numbers of addresses. The association begins with the first address of each.
fn pair(client: u8, server: u8, config: AssociationConfig) -> Pair {
    let own = [addresses(0, client), addresses(1, server)];
    let mut pair = Pair::with(own.clone(), Default::default(), config.clone());
    for node in [0, 1] {
        let first = [own[node][0]];
        let now = pair.net.now();
        pair.net.node_mut(node).endpoint.set_local_addresses(now, &first);
    }
    let mut request = ConnectRequest::new(vec![own[1][0]], Pair::PORT);
    request.config = std::sync::Arc::new(config);
    pair.connect_with(request);
    assert!(pair.run_until(Duration::from_secs(1), |pair| pair.both_up()));
    pair.run(Duration::from_secs(5));
    pair.forget();
    pair
}

fn change(
    pair: &mut Pair,
    node: usize,
    what: AddressChange,
    local: IpAddr,
) -> Result<(), AddressError> {
    let now = pair.net.now();
    let mut association = pair.association_mut(node);
    match what {
        Added => association.add_address(now, local),
        Removed => association.remove_address(now, local),
        _ => association.prefer_address(now, local),
    }
}

/// A client with two private addresses, and a server with one that is not, so that the client's mean nothing to it.
fn behind_translators(config: AssociationConfig) -> Pair {
    with_networks(2, config)
}

/// The same with this number of private addresses.
fn with_networks(networks: u8, config: AssociationConfig) -> Pair {
    let own = [addresses(0, networks), vec![IpAddr::from([203, 0, 113, 1])]];
    let mut pair = Pair::with(own.clone(), Default::default(), config.clone());
    let now = pair.net.now();
    pair.net.node_mut(0).endpoint.set_local_addresses(now, &own[0][..1]);
    let mut request = ConnectRequest::new(own[1].clone(), Pair::PORT);
    request.config = std::sync::Arc::new(config);
    pair.connect_with(request);
    assert!(pair.run_until(Duration::from_secs(1), |pair| pair.both_up()));
    pair.run(Duration::from_secs(5));
    pair.forget();
    pair
}

/// The addresses in the requests of the ASCONF chunks that a node sent.
fn requested(pair: &Pair, node: usize) -> Vec<String> {
    let packets = pair.sent(node).into_iter();
    let asked = packets.filter(|(_, bytes)| craft::has(bytes, kind::ASCONF));
    asked.map(|(_, bytes)| Packet::parse(&bytes).unwrap().to_string()).collect()
}

/// What a node was told of its own changes.
fn own(pair: &Pair, node: usize) -> Vec<(AddressChange, IpAddr, ReconfigurationResult)> {
    let events = pair.events[node].iter().filter_map(|event| match event {
        Event::Notification(Notification::AddressChanged { change, address, result }) => {
            Some((*change, *address, *result))
        }
        _ => None,
    });
    events.collect()
}

/// What a node was told of the peer's changes.
fn of_peer(pair: &Pair, node: usize) -> Vec<(AddressChange, IpAddr)> {
    let events = pair.events[node].iter().filter_map(|event| match event {
        Event::Notification(Notification::PeerAddressChanged { change, remote }) => {
            Some((*change, *remote))
        }
        _ => None,
    });
    events.collect()
}

fn paths(pair: &Pair, node: usize) -> Vec<(IpAddr, IpAddr, PathState)> {
    let paths = pair.statistics(node).paths;
    paths.iter().map(|path| (path.local, path.remote, path.state)).collect()
}

fn cut(pair: &mut Pair, address: IpAddr, up: bool) {
    for other in addresses(0, 3).into_iter().chain(addresses(1, 3)) {
        pair.net.set_up(address, other, up);
        pair.net.set_up(other, address, up);
    }
}

/// Sends data both ways. Whether all of it arrives within this number of seconds.
fn transfers_within(pair: &mut Pair, seconds: u64) -> bool {
    let before = [0, 1].map(|node| pair.received_len(node));
    for node in [0, 1] {
        assert!(pair.send(node, 0, vec![3; 50_000]));
    }
    let arrived = |pair: &mut Pair| {
        [0, 1].iter().all(|node| pair.received_len(*node) - before[*node] == 50_000)
    };
    pair.run_until(Duration::from_secs(seconds), arrived)
}

/// The same within 20 seconds. Always takes 20 seconds.
fn transfer(pair: &mut Pair) {
    let end = pair.net.now() + Duration::from_secs(20);
    assert!(transfers_within(pair, 20));
    pair.run(end.saturating_since(pair.net.now()));
}

#[test]
fn an_address_is_added_and_the_old_one_removed() {
    let mut pair = pair(2, 1, config());
    assert!(pair.statistics(0).features.has(Features::ADDRESS_RECONFIGURATION));
    let [old, new] = [pair.addresses[0][0], pair.addresses[0][1]];
    let peer = pair.addresses[1][0];
    change(&mut pair, 0, Added, new).unwrap();
    assert_eq!(change(&mut pair, 0, Added, new), Err(AddressError::Known));
    pair.run(Duration::from_secs(1));
    assert_eq!(own(&pair, 0), [(Added, new, Performed)]);
    assert_eq!(of_peer(&pair, 1), [(Added, new)]);
    let both = |a, b| [(a, b, PathState::Active)];
    assert_eq!(paths(&pair, 0), [both(old, peer), both(new, peer)].concat());
    assert_eq!(paths(&pair, 1), [both(peer, old), both(peer, new)].concat());
    transfer(&mut pair);
    change(&mut pair, 0, Removed, old).unwrap();
    assert_eq!(change(&mut pair, 0, Removed, old), Err(AddressError::Unknown));
    assert_eq!(change(&mut pair, 0, Removed, new), Err(AddressError::Last));
    pair.run(Duration::from_secs(1));
    assert_eq!(own(&pair, 0)[1..], [(Removed, old, Performed)]);
    assert_eq!(of_peer(&pair, 1)[1..], [(Removed, old)]);
    assert_eq!(paths(&pair, 0), both(new, peer));
    assert_eq!(paths(&pair, 1), both(peer, new));
    pair.forget();
    transfer(&mut pair);
    assert!(pair.net.trace.kept().iter().all(|(_, packet)| packet.from != old && packet.to != old));
    assert_eq!(pair.closed, [None, None]);
}

/// Nothing but ASCONF leaves from an address before the peer has agreed to it, and every ASCONF is authenticated.
// test: rfc5061 5.3 "containing the add is acknowledged, the sender MUST NOT use the"
// test: rfc5061 4.1.1 "chunk MUST be sent in an authenticated way by using the mechanism"
#[test]
fn a_new_address_is_silent_until_the_peer_agrees() {
    let mut pair = pair(2, 1, config());
    let new = pair.addresses[0][1];
    // The answers are lost for a while.
    let old = pair.addresses[0][0];
    cut(&mut pair, old, false);
    cut(&mut pair, new, false);
    pair.send(0, 0, vec![1; 20_000]);
    change(&mut pair, 0, Added, new).unwrap();
    pair.run(Duration::from_secs(20));
    let of = |pair: &Pair| -> Vec<Vec<u8>> {
        let kept = pair.net.trace.kept().iter().filter(|(_, packet)| packet.from == new);
        kept.map(|(_, packet)| craft::kinds(&packet.bytes)).collect()
    };
    assert!(!of(&pair).is_empty(), "it is tried from the new address as well");
    assert!(of(&pair).iter().all(|kinds| kinds[..] == [kind::AUTH, kind::ASCONF]));
    cut(&mut pair, new, true);
    pair.run(Duration::from_secs(120));
    assert_eq!(pair.closed, [None, None]);
    assert_eq!(own(&pair, 0), [(Added, new, Performed)]);
    assert_eq!(pair.received_len(1), 20_000, "over the new address");
}

/// The old network is gone before the new one is there.
#[test]
fn an_association_moves_from_one_network_to_another() {
    for config in [config(), roaming()] {
        let roams = config.addresses.roam;
        let mut pair = pair(2, 1, config);
        let [old, new] = [pair.addresses[0][0], pair.addresses[0][1]];
        assert!(pair.send(0, 0, vec![1; 300_000]) && pair.send(1, 0, vec![1; 300_000]));
        pair.run(Duration::from_millis(60));
        cut(&mut pair, old, false);
        let now = pair.net.now();
        pair.net.node_mut(0).endpoint.handle_local_address(now, old, false);
        pair.run(Duration::from_secs(4));
        let now = pair.net.now();
        pair.net.node_mut(0).endpoint.handle_local_address(now, new, true);
        if !roams {
            change(&mut pair, 0, Added, new).unwrap();
            change(&mut pair, 0, Removed, old).unwrap();
        }
        let done = |pair: &mut Pair| [0, 1].iter().all(|node| pair.received_len(*node) == 300_000);
        assert!(pair.run_until(Duration::from_secs(20), done), "{:?}", pair.statistics(1));
        pair.run(Duration::from_secs(5));
        assert_eq!(own(&pair, 0), [(Added, new, Performed), (Removed, old, Performed)]);
        assert_eq!(paths(&pair, 0).len(), 1);
        assert_eq!(paths(&pair, 1).len(), 1);
        transfer(&mut pair);
        assert_eq!(pair.closed, [None, None]);
    }
}

/// The old network goes before the new one has been verified, and before the peer is told that it has gone.
#[test]
fn data_moves_when_the_new_network_is_verified_although_the_old_one_may_come_back() {
    let mut pair = pair(2, 1, roaming());
    let [old, new] = [pair.addresses[0][0], pair.addresses[0][1]];
    let now = pair.net.now();
    pair.net.node_mut(0).endpoint.handle_local_address(now, new, true);
    // 200 ms later it is added over the old network.
    let known = |pair: &mut Pair| !of_peer(pair, 1).is_empty();
    assert!(pair.run_until(Duration::from_secs(1), known));
    pair.run(Pair::DELAY);
    assert_eq!(own(&pair, 0), [(Added, new, Performed)]);
    cut(&mut pair, old, false);
    let now = pair.net.now();
    pair.net.node_mut(0).endpoint.handle_local_address(now, old, false);
    assert!(pair.send(0, 0, vec![1; 5_000]));
    let done = |pair: &mut Pair| pair.received_len(1) == 5_000;
    assert!(pair.run_until(Duration::from_millis(200), done), "{:?}", paths(&pair, 0));
    transfer(&mut pair);
    assert_eq!(own(&pair, 0)[1..], [(Removed, old, Performed)]);
}

/// The peer has listed an address that only the new network reaches.
#[test]
fn a_new_address_may_reach_what_the_old_one_did_not() {
    let own = [addresses(0, 2), addresses(1, 2)];
    let pairs: Vec<_> = own[0].iter().copied().zip(own[1].iter().copied()).collect();
    let back = pairs.iter().map(|(a, b)| (*b, *a)).collect();
    let mut configs = [EndpointConfig::default(), EndpointConfig::default()];
    configs[0].routes = Routes::Pairs(pairs);
    configs[1].routes = Routes::Pairs(back);
    let mut pair = Pair::with(own.clone(), configs, config());
    let now = pair.net.now();
    pair.net.node_mut(0).endpoint.set_local_addresses(now, &own[0][..1]);
    let mut request = ConnectRequest::new(vec![own[1][0]], Pair::PORT);
    request.config = std::sync::Arc::new(config());
    pair.connect_with(request);
    assert!(pair.run_until(Duration::from_secs(1), |pair| pair.both_up()));
    let [old, new] = [own[0][0], own[0][1]];
    change(&mut pair, 0, Added, new).unwrap();
    change(&mut pair, 0, Removed, old).unwrap();
    pair.run(Duration::from_secs(5));
    assert_eq!(
        [0, 1].map(|node| paths(&pair, node)),
        [vec![(new, own[1][1], PathState::Active)], vec![(own[1][1], new, PathState::Active)],]
    );
    transfer(&mut pair);
}

/// Data does not go to a new address before a heartbeat was answered there.
// test: rfc5061 5.3 "receiver MUST use the path-verification procedure for the added"
// test: rfc5061 5.3 "put into the UNCONFIRMED state and MUST have path verification"
#[test]
fn a_new_address_of_the_peer_is_verified_first() {
    let mut pair = pair(3, 1, config());
    let [old, new, other] = [0, 1, 2].map(|at| pair.addresses[0][at]);
    let peer = pair.addresses[1][0];
    // Nothing comes back from the new address.
    pair.net.set_up(new, peer, false);
    change(&mut pair, 0, Added, new).unwrap();
    pair.run(Duration::from_secs(1));
    change(&mut pair, 0, Preferred, new).unwrap();
    assert!(pair.send(1, 0, vec![1; 100_000]));
    pair.run(Duration::from_secs(30));
    assert_eq!(pair.received_len(0), 100_000);
    let to_new = pair.net.trace.kept().iter().filter(|(_, packet)| packet.to == new);
    assert!(to_new.clone().count() > 0);
    assert!(to_new.clone().all(|(_, packet)| craft::kinds(&packet.bytes) == [kind::HEARTBEAT]));
    let now = paths(&pair, 1).into_iter().find(|(_, remote, _)| *remote == new);
    assert_ne!(now.map(|(.., state)| state), Some(PathState::Active));
    // The preference takes effect when it is.
    assert_eq!(of_peer(&pair, 1), [(Added, new)]);
    pair.net.set_up(new, peer, true);
    pair.run(Duration::from_secs(120));
    assert_eq!(of_peer(&pair, 1), [(Added, new), (Preferred, new)]);
    pair.forget();
    transfer(&mut pair);
    let data = |to| {
        let kept = pair.net.trace.kept().iter();
        kept.filter(|(_, p)| p.to == to && craft::has(&p.bytes, kind::DATA)).count()
    };
    assert!(data(new) > 10 && data(old) == 0 && data(other) == 0);
}

#[test]
fn both_sides_change_everything_at_once() {
    let mut pair = pair(3, 3, config());
    for round in 0..12 {
        let (from, to) = (round % 3, (round + 1) % 3);
        for node in [0, 1] {
            let [old, new] = [pair.addresses[node][from], pair.addresses[node][to]];
            change(&mut pair, node, Added, new).unwrap();
            change(&mut pair, node, Removed, old).unwrap();
        }
        assert!(pair.send(0, 0, vec![1; 30_000]) && pair.send(1, 0, vec![1; 30_000]));
        pair.run(Duration::from_secs(10));
        let expected = |node: usize| (pair.addresses[node][to], pair.addresses[1 - node][to]);
        for node in [0, 1] {
            let (local, remote) = expected(node);
            assert_eq!(paths(&pair, node), [(local, remote, PathState::Active)], "{round}");
            assert_eq!(pair.received_len(node), 30_000 * (round + 1));
        }
    }
    assert!(own(&pair, 0).iter().all(|(.., result)| *result == Performed));
    assert_eq!(pair.closed, [None, None]);
}

/// An interface that flaps causes no requests, one that stays away causes two.
#[test]
fn a_flapping_interface_costs_little() {
    let mut pair = pair(2, 1, roaming());
    let [first, second] = [pair.addresses[0][0], pair.addresses[0][1]];
    let set = |pair: &mut Pair, address, usable| {
        cut(pair, address, usable);
        let now = pair.net.now();
        pair.net.node_mut(0).endpoint.handle_local_address(now, address, usable);
    };
    set(&mut pair, second, true);
    pair.run(Duration::from_secs(1));
    assert_eq!(own(&pair, 0), [(Added, second, Performed)]);
    for round in 0..40 {
        set(&mut pair, first, round % 2 == 1);
        pair.run(Duration::from_millis(1500));
    }
    transfer(&mut pair);
    assert_eq!(own(&pair, 0).len(), 1);
    set(&mut pair, first, false);
    pair.run(Duration::from_secs(3));
    assert_eq!(own(&pair, 0)[1..], [(Removed, first, Performed)]);
    // The last one is never given up, until another one comes.
    set(&mut pair, second, false);
    pair.run(Duration::from_secs(10));
    assert_eq!(own(&pair, 0).len(), 2);
    set(&mut pair, first, true);
    pair.run(Duration::from_secs(10));
    assert_eq!(own(&pair, 0)[2..], [(Added, first, Performed), (Removed, second, Performed)]);
    transfer(&mut pair);
}

#[test]
fn what_cannot_be_done_is_refused_by_name() {
    let mut pair = pair(2, 1, AssociationConfig::default());
    let [old, new] = [pair.addresses[0][0], pair.addresses[0][1]];
    assert_eq!(change(&mut pair, 0, Added, new), Err(AddressError::NotNegotiated));
    let mut pair = self::pair(2, 1, config());
    for (what, address, error) in [
        (Added, "2001:db8::1".parse().unwrap(), AddressError::Unreachable),
        (Added, "224.0.0.1".parse().unwrap(), AddressError::Unreachable),
        (Added, "0.0.0.0".parse().unwrap(), AddressError::Unreachable),
        (Added, old, AddressError::Known),
        (Removed, new, AddressError::Unknown),
        (Preferred, new, AddressError::Unknown),
        (Removed, old, AddressError::Last),
    ] {
        assert_eq!(change(&mut pair, 0, what, address), Err(error), "{what} {address}");
    }
    pair.shutdown(0);
    assert_eq!(change(&mut pair, 0, Added, new), Err(AddressError::NotUp));
}

/// An address that the peer refuses to remove is as good as before: also towards addresses that the peer gets later.
#[test]
fn an_address_that_stays_reaches_the_peers_new_ones() {
    let mut pair = pair(2, 2, config());
    let [stays, leaves] = [pair.addresses[0][0], pair.addresses[0][1]];
    let [old, new] = [pair.addresses[1][0], pair.addresses[1][1]];
    change(&mut pair, 0, Added, leaves).unwrap();
    pair.run(Duration::from_secs(5));
    // The request has to come from the address that it is to remove.
    // The request has to come from the address that it is to remove, which the peer refuses.
    network(&mut pair, leaves, false);
    cut(&mut pair, leaves, false);
    change(&mut pair, 0, Removed, stays).unwrap();
    pair.run(Duration::from_secs(5));
    assert_eq!(own(&pair, 0), [(Added, leaves, Performed), (Removed, stays, Failed)]);
    // The peer's network goes, too, so its request comes from the new one.
    let now = pair.net.now();
    pair.net.node_mut(1).endpoint.handle_local_address(now, old, false);
    cut(&mut pair, old, false);
    change(&mut pair, 1, Added, new).unwrap();
    pair.run(Duration::from_secs(5));
    assert_eq!(own(&pair, 1), [(Added, new, Performed)]);
    assert!(transfers_within(&mut pair, 20), "{:?}", paths(&pair, 0));
}

/// A peer that restarts has the addresses of its new handshake; what was asked for meanwhile fails.
#[test]
fn requests_end_with_the_association() {
    let mut pair = pair(2, 1, config());
    let new = pair.addresses[0][1];
    let old = pair.addresses[0][0];
    cut(&mut pair, old, false);
    cut(&mut pair, new, false);
    change(&mut pair, 0, Added, new).unwrap();
    change(&mut pair, 0, Preferred, new).unwrap();
    pair.abort(0);
    pair.take();
    assert_eq!(own(&pair, 0), [(Added, new, Failed), (Preferred, new, Failed)]);
}

/// Losses of any of the packets change nothing in the end.
#[test]
fn every_packet_may_be_lost() {
    for lost in 0..8_u32 {
        for count in 1..4 {
            let mut pair = pair(2, 1, config());
            let [old, new] = [pair.addresses[0][0], pair.addresses[0][1]];
            change(&mut pair, 0, Added, new).unwrap();
            change(&mut pair, 0, Removed, old).unwrap();
            pair.run(Duration::from_millis(u64::from(lost) * 5));
            for address in [old, new] {
                cut(&mut pair, address, false);
            }
            pair.run(Duration::from_millis(15 * count));
            for address in [old, new] {
                cut(&mut pair, address, true);
            }
            pair.run(Duration::from_secs(30));
            assert_eq!(own(&pair, 0), [(Added, new, Performed), (Removed, old, Performed)]);
            assert_eq!(of_peer(&pair, 1), [(Added, new), (Removed, old)]);
            transfer(&mut pair);
        }
    }
}

/// An address that means nothing to the peer is not named: the peer takes the source of the packet.
// test: rfc6951 3.2 "described in RFC5061 MUST be used only with"
// test: rfc6951 5.7 "protocol extension RFC5061 MUST be used with wildcard"
// test: rfc5061 4.2.1 "source address of the packet MUST be added"
// test: rfc5061 4.2.2 "source address of the packet MUST be deleted"
#[test]
fn addresses_behind_a_translator_are_not_named() {
    let mut pair = behind_translators(config());
    let [old, new] = [pair.addresses[0][0], pair.addresses[0][1]];
    change(&mut pair, 0, Added, new).unwrap();
    change(&mut pair, 0, Removed, old).unwrap();
    pair.run(Duration::from_secs(2));
    assert_eq!(own(&pair, 0), [(Added, new, Performed), (Removed, old, Performed)]);
    assert_eq!(of_peer(&pair, 1), [(Added, new), (Removed, old)]);
    let requests = requested(&pair, 0);
    assert!(requests.iter().all(|text| text.contains("[0.0.0.0]")), "{requests:?}");
    transfer(&mut pair);
    assert_eq!(paths(&pair, 0).len(), 1);
}

/// A new address gets its routes too late: the request leaves by the network that is there already, whose translator
/// makes it one from the old address.
#[test]
fn a_request_that_took_the_wrong_network_is_made_again() {
    for (proven, told) in [(false, false), (false, true), (true, true)] {
        let mut pair = behind_translators(roaming());
        let [old, new] = [pair.addresses[0][0], pair.addresses[0][1]];
        let server = pair.addresses[1][0];
        let link = |pair: &mut Pair, address, up| {
            pair.net.set_up(address, server, up);
            pair.net.set_up(server, address, up);
        };
        let usable = |pair: &mut Pair, address, usable| {
            let now = pair.net.now();
            pair.net.node_mut(0).endpoint.handle_local_address(now, address, usable);
        };
        link(&mut pair, new, false);
        usable(&mut pair, new, true);
        pair.run(Duration::from_millis(250));
        let request = pair.sent(0).into_iter().find(|(_, bytes)| craft::has(bytes, kind::ASCONF));
        let (_, request) = request.expect("the new address is announced");
        // The answer arrives at the old address, or the translator passes it to where the request came from.
        pair.net.set_up(server, old, !proven);
        deliver(&mut pair, old, server, request);
        pair.run(Duration::from_millis(100));
        if proven {
            let answer =
                pair.sent(1).into_iter().find(|(_, bytes)| craft::has(bytes, kind::ASCONF_ACK));
            deliver(&mut pair, server, new, answer.expect("it was answered").1);
            pair.net.set_up(server, old, true);
        }
        assert_eq!(own(&pair, 0), [(Added, new, Performed)]);
        assert_eq!(of_peer(&pair, 1), []);
        // Now it has its routes, and the old network goes.
        link(&mut pair, new, true);
        pair.run(Duration::from_millis(500));
        link(&mut pair, old, false);
        if told {
            usable(&mut pair, old, false);
        }
        assert!(transfers_within(&mut pair, 30), "{proven} {told}");
        assert!(of_peer(&pair, 1).contains(&(Added, new)), "{proven} {told}");
    }
}

/// Brings a network of the client up or down: its link to the server, and what the host says of the address.
fn network(pair: &mut Pair, address: IpAddr, up: bool) {
    let (server, now) = (pair.addresses[1][0], pair.net.now());
    pair.net.set_up(address, server, up);
    pair.net.set_up(server, address, up);
    pair.net.node_mut(0).endpoint.handle_local_address(now, address, up);
}

/// A request has to come from the address that it adds, and the network of that address goes before the answer arrives.
// test: rfc5061 5.5 "multiple ASCONFs, the following rules MUST be followed"
// test: rfc5061 5.5 "Previously transmitted ASCONF Chunks MUST be left unchanged"
// test: rfc5061 5.5 "containing ASCONF Chunks MUST be bundled starting with"
// test: rfc5061 5.5 "within the packet MUST be adjacent to each"
// test: rfc5061 5.5 "ASCONF lookup address MUST be populated as if"
#[test]
fn a_network_that_goes_before_the_answer_does_not_hold_up_the_next_one() {
    for (old_works, heard) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut pair = with_networks(3, roaming());
        let [old, brief, new] = [0, 1, 2].map(|at| pair.addresses[0][at]);
        let server = pair.addresses[1][0];
        network(&mut pair, new, false);
        network(&mut pair, brief, true);
        pair.net.set_up(server, brief, false);
        pair.net.set_up(brief, server, heard);
        if !old_works {
            network(&mut pair, old, false);
        }
        pair.run(Duration::from_millis(250));
        assert!(!requested(&pair, 0).is_empty(), "the address is announced");
        assert_eq!(own(&pair, 0), []);
        network(&mut pair, brief, false);
        pair.run(Duration::from_secs(4));
        network(&mut pair, new, true);
        pair.run(Duration::from_secs(4));
        network(&mut pair, old, false);
        assert!(transfers_within(&mut pair, 30), "{old_works} {heard}");
        assert!(own(&pair, 0).contains(&(Added, new, Performed)), "{old_works} {heard}");
        // Where the old network works, the request is answered there.
        let requests = requested(&pair, 0);
        let together = requests.iter().find(|text| text.matches("ASCONF").count() == 2);
        assert_eq!(together.is_some(), !old_works, "the next one does not wait for the answer");
        if let Some(text) = together {
            assert!(text.starts_with(&requests[0]), "{text}");
            // The address that both are looked up by stays, whatever became of the first one.
            assert_eq!(text.matches(&format!("[{old}, ")).count(), 2, "{text}");
        }
    }
}

/// A host goes through three networks, is without any for a second, and comes back to the first one.
#[test]
fn a_network_that_comes_back_is_used_at_once() {
    for mut pair in [with_networks(3, roaming()), pair(3, 1, roaming())] {
        let [cable, lan, hotspot] = [0, 1, 2].map(|at| pair.addresses[0][at]);
        network(&mut pair, lan, false);
        network(&mut pair, hotspot, false);
        let mut sent = 0;
        for (address, up, seconds) in [
            (lan, true, 3),
            (cable, false, 6),
            (lan, false, 0),
            (hotspot, true, 6),
            (hotspot, false, 1),
            (cable, true, 0),
        ] {
            network(&mut pair, address, up);
            for _ in 0..10 * seconds {
                sent += 3_000 * usize::from(pair.send(1, 0, vec![3; 3_000]));
                pair.run(Duration::from_millis(100));
            }
        }
        let back = |pair: &mut Pair| own(pair, 0).last() == Some(&(Added, cable, Performed));
        assert!(pair.run_until(Duration::from_secs(2), back), "{:?}", own(&pair, 0));
        pair.run(Duration::from_secs(10));
        assert_eq!(pair.received_len(0), sent);
    }
}

/// A new network waits until another change is done, and is gone again when its turn comes.
#[test]
fn a_network_that_goes_before_its_turn_does_not_hold_up_the_next_one() {
    for mut pair in [with_networks(3, roaming()), pair(3, 1, roaming())] {
        let [old, first, second] = [0, 1, 2].map(|at| pair.addresses[0][at]);
        let server = pair.addresses[1][0];
        network(&mut pair, second, false);
        network(&mut pair, first, true);
        pair.net.set_up(first, server, false);
        network(&mut pair, old, false);
        pair.run(Duration::from_secs(1));
        for (address, up) in [(second, true), (second, false), (first, false), (first, true)] {
            network(&mut pair, address, up);
            pair.run(Duration::from_secs(1));
        }
        let back = |pair: &mut Pair| own(pair, 0).contains(&(Added, first, Performed));
        assert!(pair.run_until(Duration::from_secs(2), back), "{:?}", own(&pair, 0));
        transfer(&mut pair);
    }
}

/// Somebody has recorded the requests, and sends them again, also from an address of their own.
#[test]
fn recorded_requests_change_nothing() {
    for mut pair in [pair(2, 1, config()), behind_translators(config())] {
        let [old, new] = [pair.addresses[0][0], pair.addresses[0][1]];
        change(&mut pair, 0, Added, new).unwrap();
        pair.run(Duration::from_secs(1));
        change(&mut pair, 0, Removed, old).unwrap();
        pair.run(Duration::from_secs(1));
        let requests: Vec<_> = (pair.sent(0).into_iter())
            .filter(|(_, bytes)| craft::has(bytes, kind::ASCONF))
            .map(|(_, bytes)| bytes)
            .collect();
        assert!(requests.len() >= 2);
        let before = (paths(&pair, 1), of_peer(&pair, 1));
        let attacker = IpAddr::from([198, 51, 100, 66]);
        pair.forget();
        for bytes in requests {
            for from in [attacker, old, new] {
                let to = pair.addresses[1][0];
                deliver(&mut pair, from, to, bytes.clone());
            }
        }
        pair.run(Duration::from_secs(30));
        assert_eq!((paths(&pair, 1), of_peer(&pair, 1)), before);
        let told = pair.net.trace.kept().iter().filter(|(_, packet)| packet.to == attacker);
        assert_eq!(told.count(), 0, "nothing goes to whom the association does not know");
        transfer(&mut pair);
    }
}

/// Passes a packet between two addresses to a node.
fn deliver(pair: &mut Pair, from: IpAddr, to: IpAddr, bytes: Bytes) {
    let packet = Datagram { from, to, udp_port: 9899, ecn: None, dont_fragment: false, bytes };
    pair.net.deliver(packet);
    pair.take();
}

#[test]
fn what_comes_late_from_a_gone_address_is_not_answered() {
    let mut pair = pair(2, 1, config());
    let [old, new] = [pair.addresses[0][0], pair.addresses[0][1]];
    let to_server = pair.header(0);
    change(&mut pair, 0, Added, new).unwrap();
    pair.run(Duration::from_secs(1));
    change(&mut pair, 0, Removed, old).unwrap();
    pair.run(Duration::from_secs(1));
    let heartbeat =
        |header| craft::packet(header, |packet| packet.raw(kind::HEARTBEAT, 0, &[0, 1, 0, 4]));
    let mut stranger = to_server;
    stranger.verification_tag ^= 1;
    let server = pair.addresses[1][0];
    for (header, answers) in [(to_server, 0), (stranger, 1)] {
        pair.forget();
        deliver(&mut pair, old, server, heartbeat(header));
        let sent = pair.sent(1);
        let aborts = sent.iter().filter(|(_, bytes)| craft::kinds(bytes) == [kind::ABORT]);
        assert_eq!((sent.len(), aborts.count()), (answers, answers), "{header:?}");
    }
    transfer(&mut pair);
}

#[test]
fn a_peer_that_forgot_an_address_has_not_forgotten_the_association() {
    let mut pair = pair(1, 2, config());
    let own = pair.addresses[0][0];
    let [first, second] = [pair.addresses[1][0], pair.addresses[1][1]];
    change(&mut pair, 1, Added, second).unwrap();
    pair.run(Duration::from_secs(5));
    assert_eq!(paths(&pair, 0).len(), 2);
    let (mut header, to_server) = (pair.header(1), pair.header(0));
    header.verification_tag = to_server.verification_tag;
    let abort = Chunk::Abort(Abort { tag_reflected: true, causes: Causes::new(&[]) });
    let abort = craft::packet(header, |packet| packet.chunk(&abort));
    for from in [first, second, second] {
        deliver(&mut pair, from, own, abort.clone());
    }
    transfer(&mut pair);
    assert!(paths(&pair, 0).iter().all(|path| path.2 == PathState::Active));
    // It has forgotten the association: nothing else comes.
    cut(&mut pair, first, false);
    cut(&mut pair, second, false);
    deliver(&mut pair, first, own, abort.clone());
    pair.run(Duration::from_secs(3));
    assert!(pair.closed[0].is_none());
    deliver(&mut pair, first, own, abort);
    assert!(matches!(pair.closed[0], Some(CloseReason::PeerAbort { .. })), "{:?}", pair.closed);
}
