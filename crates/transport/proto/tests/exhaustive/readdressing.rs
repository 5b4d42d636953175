//! The same for changes of addresses (RFC 5061), while data is on its way in both directions: both sides agree on the
//! addresses in the end, and every message arrives once and in order.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch_harness::{Pair, addresses};
use anabranch_proto::{
    AddressChange, AssociationConfig, ConnectRequest, Event, Notification, PathState,
    ReconfigurationResult,
};

use AddressChange::{Added, Preferred, Removed};

use super::{all_fates, config as without_heartbeats};

/// Messages that each side sends during the change, of so many bytes that a packet holds one.
const MESSAGES: u8 = 3;
const SIZE: usize = 1000;

fn config() -> AssociationConfig {
    let mut config = without_heartbeats();
    config.authentication.authentication = true;
    config.addresses.address_reconfiguration = true;
    config
}

/// A client with `known` of its two addresses in the association, and a server with one that it knows both of.
fn up(known: usize) -> Pair {
    let own = [addresses(0, 2), addresses(1, 1)];
    let mut pair = Pair::with(own.clone(), Default::default(), config());
    let now = pair.net.now();
    pair.net.node_mut(0).endpoint.set_local_addresses(now, &own[0][..known]);
    let mut request = ConnectRequest::new(own[1].clone(), Pair::PORT);
    request.config = Arc::new(config());
    pair.connect_with(request);
    assert!(pair.run_until(Duration::from_secs(1), |pair| pair.both_up()));
    pair.run(Duration::from_secs(10));
    pair
}

fn request(pair: &mut Pair, what: AddressChange, local: IpAddr) {
    let now = pair.net.now();
    let mut association = pair.association_mut(0);
    match what {
        Added => association.add_address(now, local),
        Removed => association.remove_address(now, local),
        _ => association.prefer_address(now, local),
    }
    .expect("the change is possible");
}

fn send(pair: &mut Pair, messages: std::ops::Range<u8>) {
    for number in messages {
        for node in 0..2 {
            assert!(pair.send(node, 0, vec![number; SIZE]));
        }
    }
}

/// The first byte of each message that a node received.
fn numbers(pair: &Pair, node: usize) -> Vec<u8> {
    let payloads = pair.received[node].iter().map(|message| message.payload.clone().into_bytes());
    payloads
        .map(|bytes| {
            assert!(bytes.len() == SIZE && bytes.iter().all(|byte| *byte == bytes[0]));
            bytes[0]
        })
        .collect()
}

/// The changes that the client asked for and that the server made.
fn changes(pair: &Pair) -> [Vec<(AddressChange, IpAddr)>; 2] {
    let of = |node: usize| {
        let events = pair.events[node].iter();
        events.filter_map(|event| match event {
            Event::Notification(Notification::AddressChanged { change, address, result }) => {
                assert_eq!(*result, ReconfigurationResult::Performed, "{change} {address}");
                Some((*change, *address))
            }
            Event::Notification(Notification::PeerAddressChanged { change, remote }) => {
                Some((*change, *remote))
            }
            _ => None,
        })
    };
    [of(0).collect(), of(1).collect()]
}

/// The addresses of the client to which both sides have an active path, in order.
fn agreed(pair: &Pair) -> Vec<IpAddr> {
    let of = |node: usize| {
        let paths = pair.statistics(node).paths;
        let mut own: Vec<IpAddr> = (paths.iter())
            .map(|path| {
                assert_eq!(path.state, PathState::Active, "{node}: {path:?}");
                if node == 0 { path.local } else { path.remote }
            })
            .collect();
        own.sort_unstable();
        own
    };
    assert_eq!(of(0), of(1));
    of(0)
}

/// Asks for the changes, each with the number of the client's address, in an association that begins with `known` of
/// them, and checks that it has those of `left` in the end. If `is_cut`, the first address stops working when the
/// changes are asked for.
fn change_all(known: usize, wanted: &[(AddressChange, usize)], left: &[usize], is_cut: bool) {
    all_fates(|begin| {
        let mut pair = up(known);
        let own = pair.addresses[0].clone();
        begin(&mut pair);
        if is_cut {
            let peer = pair.addresses[1][0];
            pair.net.set_up(own[0], peer, false);
            pair.net.set_up(peer, own[0], false);
        }
        for &(what, address) in wanted {
            request(&mut pair, what, own[address]);
        }
        send(&mut pair, 0..MESSAGES);
        // All timers that a lost packet may have set run out.
        pair.run(Duration::from_secs(120));
        let asked: Vec<_> = wanted.iter().map(|(what, address)| (*what, own[*address])).collect();
        let [own_changes, mut seen] = changes(&pair);
        assert_eq!(own_changes, asked);
        // The peer prefers an address when it has verified it, which may be after the next change.
        seen.sort_by_key(|change| asked.iter().position(|asked| asked == change));
        assert_eq!(seen, asked);
        let left: Vec<IpAddr> = left.iter().map(|address| own[*address]).collect();
        assert_eq!(agreed(&pair), left);
        send(&mut pair, MESSAGES..2 * MESSAGES);
        pair.run(Duration::from_secs(60));
        for node in 0..2 {
            assert_eq!(numbers(&pair, node), Vec::from_iter(0..2 * MESSAGES), "{node}");
        }
        assert_eq!(pair.closed, [None, None]);
    });
}

#[test]
fn an_address_is_added() {
    change_all(1, &[(Added, 1)], &[0, 1], false);
}

#[test]
fn an_address_is_removed() {
    change_all(2, &[(Removed, 0)], &[1], false);
    change_all(2, &[(Removed, 1)], &[0], false);
}

#[test]
fn an_address_is_preferred() {
    change_all(2, &[(Preferred, 1)], &[0, 1], false);
}

#[test]
fn a_handover_while_both_networks_work() {
    change_all(1, &[(Added, 1), (Removed, 0)], &[1], false);
    change_all(1, &[(Added, 1), (Preferred, 1), (Removed, 0)], &[1], false);
}

#[test]
fn a_handover_after_the_old_network_is_gone() {
    change_all(1, &[(Added, 1), (Removed, 0)], &[1], true);
}
