//! Which addresses the two sides announce to each other, and which of them they use.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch_harness::{Network, Pair, Verdict, craft};
use anabranch_impair::LinkConfig;
use anabranch_proto::config::IpVersions;
use anabranch_proto::{
    AssociationConfig, ConnectRequest, EndpointConfig, Event, Notification, PathState,
};
use anabranch_wire::{Packet, Parameter, Parameters, kind};

const LONG: Duration = Duration::from_secs(600);

fn config() -> AssociationConfig {
    let mut config = AssociationConfig::rfc9260();
    config.timers.heartbeat_interval = None;
    config.mtu.discovery = false;
    config
}

/// The value of the first chunk of this type in a packet.
fn value(packet: &[u8], kind: u8) -> Option<Vec<u8>> {
    let packet = Packet::parse(packet).ok()?;
    let mut chunks = packet.chunks().map_while(Result::ok);
    chunks.find(|chunk| chunk.kind == kind).map(|chunk| chunk.value.to_vec())
}

/// Addresses that the first chunk of this kind lists.
fn listed_by(pair: &Pair, node: usize, kind: u8) -> Vec<IpAddr> {
    let sent = pair.sent(node);
    let value = sent.iter().find_map(|(_, bytes)| value(bytes, kind)).unwrap();
    let parameters = Parameters::new(&value[16..]);
    let addresses = parameters.iter().map_while(Result::ok).filter_map(|raw| match raw.decode() {
        Ok(Parameter::Ipv4Address(v4)) => Some(IpAddr::V4(v4)),
        Ok(Parameter::Ipv6Address(v6)) => Some(IpAddr::V6(v6)),
        _ => None,
    });
    addresses.collect()
}

/// The server accepts associations over these versions of IP only.
fn listen_within(pair: &mut Pair, versions: IpVersions) {
    let server = &mut pair.net.node_mut(1).endpoint;
    server.stop_listening(Pair::PORT);
    server.listen_within(Pair::PORT, Arc::new(config()), versions).unwrap();
}

#[test]
fn associations_of_one_ip_version_have_no_address_of_the_other() {
    let all = |last: u8| {
        ["192.0.2", "198.51.100"]
            .map(|net| format!("{net}.{last}").parse::<IpAddr>().unwrap())
            .into_iter()
            .chain(
                ["2001:db8::", "2001:db8:1::"].map(|net| format!("{net}{last}").parse().unwrap()),
            )
            .collect::<Vec<IpAddr>>()
    };
    for (versions, expected) in [(IpVersions::Ipv4, 0..2), (IpVersions::Ipv6, 2..4)] {
        for restricted in [0, 1] {
            let mut pair = Pair::with([all(1), all(2)], Default::default(), config());
            if restricted == 1 {
                listen_within(&mut pair, versions);
            }
            let mut request = ConnectRequest::new(vec![all(2)[expected.start]], Pair::PORT);
            request.config = Arc::new(config());
            request.ip_versions = if restricted == 0 { versions } else { IpVersions::Both };
            pair.connect_with(request);
            assert!(pair.run_until(LONG, |pair| pair.both_up()));
            let listed = [listed_by(&pair, 0, kind::INIT), listed_by(&pair, 1, kind::INIT_ACK)];
            let mut both = [all(1), all(2)];
            both[restricted] = both[restricted][expected.clone()].to_vec();
            assert_eq!(listed, both, "{versions:?} at {restricted}");
            // Only this version is used, whatever the other side has listed.
            pair.run(Duration::from_secs(20));
            let other = |packet: &IpAddr| !versions.include(*packet);
            assert!(pair.net.trace.kept().iter().all(|(_, packet)| !other(&packet.from)));
        }
    }
}

#[test]
fn nobody_listens_to_peers_that_come_by_another_ip_version() {
    let all = |last: u8| {
        [format!("192.0.2.{last}"), format!("2001:db8::{last}")]
            .map(|ip| ip.parse().unwrap())
            .to_vec()
    };
    let mut pair = Pair::with([all(1), all(2)], Default::default(), config());
    listen_within(&mut pair, IpVersions::Ipv4);
    let mut request = ConnectRequest::new(vec![all(2)[1]], Pair::PORT);
    request.config = Arc::new(config());
    pair.connect_with(request);
    pair.run(Duration::from_secs(20));
    assert!(!pair.both_up());
    assert!(pair.sent(1).iter().all(|(_, bytes)| value(bytes, kind::INIT_ACK).is_none()));
}

#[test]
fn addresses_stay_in_their_scope() {
    let ip = |text: &str| -> IpAddr { text.parse().unwrap() };
    let all = |last: u8| {
        vec![
            ip(&format!("192.0.2.{last}")),
            ip(&format!("127.0.0.{last}")),
            ip(&format!("169.254.0.{last}")),
            ip(&format!("2001:db8::{last}")),
            ip(&format!("fe80::{last}")),
        ]
    };
    let listed = |remote: IpAddr| {
        let mut pair = Pair::with([all(1), all(2)], Default::default(), config());
        let mut request = ConnectRequest::new(vec![remote], Pair::PORT);
        request.config = Arc::new(config());
        pair.connect_with(request);
        assert!(pair.run_until(LONG, |pair| pair.both_up()));
        let inits =
            [(0, kind::INIT), (1, kind::INIT_ACK)].map(|(node, kind)| listed_by(&pair, node, kind));
        pair.run(Duration::from_secs(20));
        for (_, packet) in pair.net.trace.kept() {
            let scope = |a: IpAddr| match a {
                IpAddr::V4(v4) => (v4.is_loopback(), v4.is_link_local()),
                IpAddr::V6(v6) => (v6.is_loopback(), v6.is_unicast_link_local()),
            };
            assert_eq!(scope(packet.from), scope(packet.to), "{packet:?}");
        }
        inits
    };
    let wide = |last: u8| vec![all(last)[0], all(last)[3]];
    assert_eq!(listed(ip("192.0.2.2")), [wide(1), wide(2)]);
    assert_eq!(listed(ip("2001:db8::2")), [wide(1), wide(2)]);
    assert_eq!(listed(ip("127.0.0.2")), [all(1), all(2)]);
}

#[test]
// test: rfc9260 5.4 "An endpoint MUST NOT send any chunks to an"
fn nothing_but_heartbeats_goes_to_an_unconfirmed_address() {
    let mut pair = Pair::new(2, config());
    // The client knows only one address, and heartbeats on the second path are not answered.
    let second = [pair.addresses[0][1], pair.addresses[1][1]];
    pair.net.script(move |sight| {
        let heartbeat = sight.has(kind::HEARTBEAT_ACK) && second.contains(&sight.from);
        if heartbeat { Verdict::Drop } else { Verdict::Pass }
    });
    let mut request = ConnectRequest::new(vec![pair.addresses[1][0]], Pair::PORT);
    request.config = Arc::new(config());
    pair.connect_with(request);
    assert!(pair.run_until(LONG, |pair| pair.both_up()));
    for node in 0..2 {
        assert!(pair.send(node, 0, vec![1; 100_000]));
    }
    pair.run(Duration::from_secs(5));
    assert_eq!([pair.received_bytes(0).len(), pair.received_bytes(1).len()], [100_000; 2]);
    for (_, packet) in pair.net.trace.kept() {
        if second.contains(&packet.from) {
            let only = [kind::HEARTBEAT, kind::HEARTBEAT_ACK, kind::PAD];
            assert!(craft::kinds(&packet.bytes).iter().all(|kind| only.contains(kind)));
        }
    }
    let states = |pair: &Pair, node: usize| -> Vec<PathState> {
        pair.statistics(node).paths.iter().map(|path| path.state).collect()
    };
    assert_eq!(states(&pair, 0), [PathState::Active, PathState::Unconfirmed]);
    // Once it is answered the path is confirmed.
    pair.net.end_script();
    pair.run(Duration::from_secs(200));
    assert_eq!(states(&pair, 0), [PathState::Active; 2]);
    assert_eq!(states(&pair, 1), [PathState::Active; 2]);
}

/// Each path leads through a translator, which drops what the server sends before the client has used the path.
#[test]
fn a_heartbeat_of_the_peer_is_a_reason_to_verify_its_path() {
    for (config, early) in
        [(AssociationConfig::default(), true), (AssociationConfig::rfc9260(), false)]
    {
        let mut pair = Pair::new(6, config.clone());
        let clients = pair.addresses[0].clone();
        let mut open = BTreeSet::from([clients[0]]);
        pair.net.script(move |sight| {
            if clients.contains(&sight.from) {
                open.insert(sight.from);
            }
            if open.contains(&sight.from) || open.contains(&sight.to) {
                Verdict::Pass
            } else {
                Verdict::Drop
            }
        });
        pair.connect(config);
        assert!(pair.run_until(LONG, |pair| pair.both_up()));
        pair.run(Duration::from_millis(100));
        let verified = pair.path_states(1).iter().all(|state| *state == PathState::Active);
        assert_eq!(verified, early);
        let most = pair.statistics(1).paths.iter().map(|path| path.heartbeats_sent).max();
        assert!(most <= Some(2), "at most one more: {most:?}");
    }
}

#[test]
fn two_clients_with_one_port_are_distinguished_by_address() {
    let mut net = Network::new(LinkConfig::new().delay(Duration::from_millis(5)), 3);
    let ip = |last: u8| IpAddr::from([10, 0, 0, last]);
    for last in 1..=3 {
        net.add_node(EndpointConfig::default(), [last; 32], &[ip(last)]);
    }
    net.node_mut(2).endpoint.listen(7, Arc::new(config())).unwrap();
    for node in 0..2 {
        let mut request = ConnectRequest::new(vec![ip(3)], 7);
        request.local_port = Some(4000);
        let now = net.now();
        net.node_mut(node).endpoint.connect(now, request).unwrap();
    }
    net.run(Duration::from_secs(3));
    let up = |event: &Event| matches!(event, Event::Notification(Notification::Up { .. }));
    let ups = (0..3).map(|node| net.node(node).events.iter().filter(|(_, e)| up(e)).count());
    assert_eq!(ups.collect::<Vec<_>>(), [1, 1, 2]);
}
