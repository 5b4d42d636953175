//! Addresses that come and go.

use std::net::IpAddr;

use super::*;

fn config(roam: bool) -> AssociationConfig {
    let mut config = fixed_mtu(AssociationConfig::rfc9260());
    config.authentication.authentication = true;
    config.addresses.address_reconfiguration = true;
    config.addresses.roam = roam;
    config
}

/// Sends 20 MB from a host with two interfaces, of which it has the first one's address at the beginning, while `change`
/// schedules what happens to its two addresses. Returns the result, and the undeliverable packets.
fn run(
    config: AssociationConfig,
    change: impl Fn(&mut Network, [IpAddr; 2]),
) -> (TransferResult, Undeliverable) {
    let mut net = Network::new(3);
    let (a, b, middle) = (net.add_host("A"), net.add_host("B"), net.add_router("middle"));
    for delay in [10, 30] {
        net.connect_both(a, middle, link(20_000_000, delay)).unwrap();
    }
    net.connect_both(middle, b, link(100_000_000, 0)).unwrap();
    net.routes_by_hops();
    let addresses: Vec<IpAddr> = net.addresses_of(a).collect();
    let own = [addresses[0], addresses[1]];
    let (sender, receiver) = (net.add_endpoint(a).unwrap(), net.add_endpoint(b).unwrap());
    let absent = Action::SetUsable { address: own[1], usable: false };
    net.schedule(Instant::ZERO, absent).unwrap();
    change(&mut net, own);
    let mut bulk = Transfer::bulk(sender, receiver, 20_000_000).config(config);
    bulk.then = Then::Shutdown;
    let transfer = net.add_transfer(bulk).unwrap();
    net.run(Instant::from_secs(1000));
    assert_eq!(net.transfer(transfer).outcome, Outcome::Complete);
    (net.transfer(transfer).clone(), net.undeliverable())
}

fn usable(net: &mut Network, at: u64, address: IpAddr, usable: bool) {
    net.schedule(Instant::from_secs(at), Action::SetUsable { address, usable }).unwrap();
}

#[test]
fn a_host_that_roams_follows_its_addresses() {
    let moves = |net: &mut Network, [old, new]: [IpAddr; 2]| {
        usable(net, 3, new, true);
        usable(net, 5, old, false);
    };
    let (result, undeliverable) = run(config(true), moves);
    let statistics = result.sender.unwrap();
    assert_eq!(statistics.counters.address_changes_sent, 2);
    assert_eq!(statistics.paths.len(), 1);
    assert!(undeliverable.not_here > 0, "acknowledgements on their way to the old address");
    assert!(result.longest_gap < ms(2000), "{:?}", result.longest_gap);
}

/// Without a request, the peer knows nothing of the new address.
#[test]
fn a_host_that_does_not_roam_waits_for_its_address() {
    let moves = |net: &mut Network, [old, new]: [IpAddr; 2]| {
        usable(net, 3, new, true);
        usable(net, 5, old, false);
        usable(net, 9, old, true);
    };
    let (result, undeliverable) = run(config(false), moves);
    assert_eq!(result.sender.unwrap().counters.address_changes_sent, 0);
    assert!(undeliverable.no_route > 0, "nothing leaves from an address that is gone");
    assert!(result.longest_gap > ms(3900), "{:?}", result.longest_gap);
}

#[test]
fn applications_ask_for_changes_by_hand() {
    let moves = |net: &mut Network, [old, new]: [IpAddr; 2]| {
        usable(net, 2, new, true);
        let changes = [
            (3, new, AddressChange::Added),
            (4, new, AddressChange::Preferred),
            (5, old, AddressChange::Removed),
        ];
        for (at, address, change) in changes {
            net.schedule(Instant::from_secs(at), Action::Readdress { address, change }).unwrap();
        }
        usable(net, 6, old, false);
    };
    let (result, _) = run(config(false), moves);
    let statistics = result.sender.unwrap();
    assert_eq!(statistics.counters.address_changes_sent, 3);
    assert_eq!(statistics.paths.len(), 1);
    assert!(result.longest_gap < ms(200), "{:?}", result.longest_gap);
}

#[test]
fn an_address_of_no_host_is_refused() {
    let mut d = dumbbell(1, &[0]);
    let address = IpAddr::from([192, 0, 2, 1]);
    let change = AddressChange::Added;
    for action in
        [Action::SetUsable { address, usable: true }, Action::Readdress { address, change }]
    {
        let refused = d.net.schedule(Instant::ZERO, action);
        assert_eq!(refused, Err(SimError::UnknownAddress(address)));
    }
}
