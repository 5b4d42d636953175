//! Small decisions, each with an observable effect.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch_harness::{Pair, Verdict};
use anabranch_proto::{
    AssociationConfig, ConnectRequest, Endpoint, EndpointConfig, Instant, LossDetection, Received,
    TagMark, Transmit,
};
use anabranch_wire::{Header, PacketWriter, kind};
use bytes::Bytes;

const PORT: u16 = 7;

fn address(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

/// An endpoint that listens.
fn listener() -> Endpoint {
    let mut endpoint = Endpoint::new(EndpointConfig::default(), [1; 32]);
    endpoint.set_local_addresses(Instant::ZERO, &[address(1)]);
    endpoint.listen(PORT, Arc::new(AssociationConfig::default())).unwrap();
    endpoint
}

/// A packet with this tag and chunk.
fn packet(tag: u32, kind: u8, value: &[u8]) -> Vec<u8> {
    let header = Header { source_port: 9, destination_port: PORT, verification_tag: tag };
    let mut packet = Vec::new();
    let mut writer = PacketWriter::new(&mut packet, header, 4096);
    writer.raw(kind, 0, value).unwrap();
    writer.finish();
    packet
}

/// The endpoint's answer to a packet with this tag and chunk.
fn answer(endpoint: &mut Endpoint, tag: u32, kind: u8, value: &[u8]) -> Transmit {
    let now = Instant::ZERO;
    let packet = packet(tag, kind, value);
    let received = Received {
        local: address(1),
        remote: address(2),
        remote_udp_port: 9899,
        ecn: None,
        segment_size: packet.len(),
    };
    endpoint.handle_batch(now, &received, Bytes::from(packet));
    endpoint.poll_transmit(now, 1, &mut Vec::new()).expect("an answer")
}

/// An INIT with a parameter of `words` words that the answer must report.
fn init(words: u8) -> Vec<u8> {
    let fields = [[0, 0, 0, 5], [0, 1, 0, 0], [0, 1, 0, 1], [0, 0, 0, 1]].concat();
    let length = (4 + 4 * u16::from(words)).to_be_bytes();
    [fields, vec![0xc0, 0x42, length[0], length[1]], vec![0; 4 * usize::from(words)]].concat()
}

#[test]
fn answers_that_every_path_carries_are_not_to_be_fragmented() {
    // 508 bytes: 576 of IPv4 less its largest header and UDP's.
    let (mut small, mut large) = (0, usize::MAX);
    for words in 0..150 {
        let transmit = answer(&mut listener(), 0, kind::INIT, &init(words));
        assert_eq!(transmit.dont_fragment, transmit.len <= 508, "{} bytes", transmit.len);
        if transmit.dont_fragment {
            small = small.max(transmit.len);
        } else {
            large = large.min(transmit.len);
        }
    }
    assert!((500..=508).contains(&small) && (509..=516).contains(&large), "{small} {large}");
}

#[test]
fn only_answers_to_strangers_are_marked_as_such() {
    let mut endpoint = listener();
    assert!(!answer(&mut endpoint, 0, kind::INIT, &init(0)).out_of_the_blue);
    assert!(answer(&mut endpoint, 5, kind::HEARTBEAT, &[0, 1, 0, 4]).out_of_the_blue);
}

/// Packets with data sent again after `overtaken_by` later ones.
fn sent_again(overtaken_by: usize) -> u64 {
    let mut config = AssociationConfig::default();
    config.recovery.loss_detection = LossDetection::PacketThreshold;
    config.recovery.tail_probe = false;
    config.acknowledging.sack_frequency = 1;
    let mut pair = Pair::connected(1, config);
    assert!(pair.send(0, 0, vec![1; 20_000]));
    pair.run(Duration::from_secs(2));
    pair.forget();
    let mut held = None;
    let mut later = 0;
    pair.net.script(move |sight| {
        if !sight.has(kind::DATA) {
            return Verdict::Pass;
        }
        if held.is_none() {
            held = Some(());
            return Verdict::Drop;
        }
        later += 1;
        if later > overtaken_by { Verdict::Drop } else { Verdict::Pass }
    });
    for _ in 0..6 {
        assert!(pair.send(0, 0, vec![1; 1000]));
        pair.net.settle();
    }
    pair.run(Duration::from_millis(100));
    pair.statistics(0).paths[0].retransmitted_chunks
}

#[test]
fn a_packet_is_lost_when_three_later_ones_have_arrived() {
    assert_eq!(sent_again(2), 0);
    assert_eq!(sent_again(3), 1);
}

#[test]
fn answered_heartbeats_are_counted() {
    let mut config = AssociationConfig::default();
    config.timers.heartbeat_interval = Some(Duration::from_secs(1));
    let mut pair = Pair::connected(1, config);
    pair.run(Duration::from_secs(30));
    let path = &pair.statistics(0).paths[0];
    assert!(path.heartbeats_sent > 10, "{}", path.heartbeats_sent);
    assert!(path.heartbeats_sent - path.heartbeats_acked <= 1, "{path:?}");
}

#[test]
fn timeouts_of_a_path_are_counted() {
    let mut pair = Pair::connected(1, AssociationConfig::rfc9260());
    pair.net.script(|_| Verdict::Drop);
    assert!(pair.send(0, 0, vec![1; 100]));
    pair.run(Duration::from_secs(10));
    // After 1, 2 and 4 seconds.
    assert_eq!(pair.statistics(0).paths[0].timeouts, 3);
}

#[test]
fn packets_that_lead_to_nothing_are_counted() {
    let mut endpoint = listener();
    for count in 1..6 {
        answer(&mut endpoint, 0, kind::INIT, &init(0));
        assert_eq!(endpoint.unsolicited_packets(), count);
    }
    let pair = Pair::connected(1, AssociationConfig::default());
    assert_eq!(pair.net.node(1).endpoint.unsolicited_packets(), 0);
}

#[test]
// test: rfc9260 5.3.1 "Initiate Tag values SHOULD be selected from"
fn tags_are_marked_wherever_they_are_drawn() {
    let mark = TagMark::from_seed(&[4; 32]);
    let mut config = EndpointConfig::default();
    config.tag_mark = Some(mark);
    let mut endpoint = Endpoint::new(config, [1; 32]);
    endpoint.set_local_addresses(Instant::ZERO, &[address(1)]);
    endpoint.listen(PORT, Arc::new(AssociationConfig::default())).unwrap();
    for _ in 0..50 {
        // One's own, for packets from the peer's port.
        let request = ConnectRequest::new(vec![address(3)], PORT);
        let id = endpoint.connect(Instant::ZERO, request).unwrap();
        let association = endpoint.association(id).unwrap();
        let (tag, local) = (association.verification_tag(), association.local_port());
        assert!(mark.recognises(tag, PORT, local));
        while endpoint.poll_transmit(Instant::ZERO, 1, &mut Vec::new()).is_some() {}
        // And in the answer to an INIT: its tag is the first word of the INIT ACK.
        let init = packet(0, kind::INIT, &init(0));
        let received = Received {
            local: address(1),
            remote: address(2),
            remote_udp_port: 9899,
            ecn: None,
            segment_size: init.len(),
        };
        endpoint.handle_batch(Instant::ZERO, &received, Bytes::from(init));
        let mut answer = Vec::new();
        endpoint.poll_transmit(Instant::ZERO, 1, &mut answer).expect("an INIT ACK");
        let tag = u32::from_be_bytes(*answer[16..].first_chunk().unwrap());
        assert!(answer[12] == kind::INIT_ACK && mark.recognises(tag, 9, PORT));
    }
}

/// Heartbeats on both paths in 100 seconds, with no regular ones.
fn loss_probes(threshold: Option<u32>, informed: bool) -> usize {
    let mut config = AssociationConfig::default();
    config.timers.heartbeat_interval = None;
    config.paths.change_primary_threshold = threshold;
    config.paths.informed_failover = informed;
    config.mtu.discovery = false;
    let mut pair = Pair::connected(2, config);
    pair.forget();
    pair.run(Duration::from_secs(100));
    pair.count(0, kind::HEARTBEAT)
}

#[test]
fn paths_are_probed_for_loss_only_if_a_failover_may_be_for_good() {
    assert!(loss_probes(Some(1), true) > 50);
    for (threshold, informed) in [(None, true), (Some(1), false), (None, false)] {
        assert_eq!(loss_probes(threshold, informed), 0, "{threshold:?} {informed}");
    }
}

#[test]
fn congestion_avoidance_adds_a_packet_in_each_round_trip() {
    let mut config = AssociationConfig::rfc9260();
    config.mtu.discovery = false;
    let mut pair = Pair::connected(1, config);
    let mut count = 0;
    pair.net.script(move |sight| {
        count += usize::from(sight.has(kind::DATA));
        if sight.has(kind::DATA) && count == 20 { Verdict::Drop } else { Verdict::Pass }
    });
    let round_trip = |pair: &mut Pair| {
        while pair.send(0, 0, vec![1; 10_000]) {}
        pair.run(2 * Pair::DELAY);
        pair.statistics(0).paths[0].cwnd
    };
    for _ in 0..20 {
        round_trip(&mut pair);
    }
    assert_eq!(pair.statistics(0).counters.fast_recoveries, 1);
    let before = round_trip(&mut pair);
    let after = (0..50).map(|_| round_trip(&mut pair)).last().unwrap();
    // Chunks of packets of 1,200 bytes.
    let packets = (after - before) / 1160;
    assert!((30..=51).contains(&packets), "{before} {after}");
}
