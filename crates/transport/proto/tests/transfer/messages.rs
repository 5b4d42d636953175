//! Messages from one user to the other: sizes, fragments, streams and their order.

use std::sync::Arc;
use std::time::Duration;

use anabranch_harness::{Pair, Verdict, craft};
use anabranch_proto::{AssociationConfig, ConnectRequest, OutgoingMessage, Ppid};
use anabranch_wire::{Chunk, Data, DataFlags, Packet, Ssn, Tsn, cause_code, kind};
use bytes::Bytes;

use super::{LONG, config, numbered, sack, tsns};

#[test]
fn message_sizes_from_one_byte_to_a_megabyte() {
    let mut pair = Pair::new(2, AssociationConfig::default());
    let mut request = ConnectRequest::new(pair.addresses[1].clone(), Pair::PORT);
    request.config = Arc::new(AssociationConfig::default());
    pair.connect_with(request);
    assert!(pair.run_until(LONG, |pair| pair.both_up()));
    let sizes = [1, 2, 3, 4, 5, 1143, 1144, 1145, 1443, 1444, 1445, 65_535, 65_536, 1 << 20];
    for unordered in [false, true] {
        for (stream, size) in sizes.iter().enumerate() {
            let data = Bytes::from(numbered(*size));
            for node in 0..2 {
                pair.received[1 - node].clear();
                let now = pair.net.now();
                let mut message = OutgoingMessage::new(stream as u16, Ppid(1), data.clone());
                message.unordered = unordered;
                pair.association_mut(node).send(now, message).unwrap();
                let done = pair.run_until(LONG, |pair| pair.received_len(1 - node) == *size);
                assert!(done, "{size} bytes, unordered {unordered}");
                assert!(pair.received_bytes(1 - node) == data);
                pair.run(Duration::from_millis(300));
            }
        }
    }
}

/// Messages a little longer than a packet, in the profiles that do not fill packets: the short rest
/// of one does not make fragments of the next ones short.
#[test]
fn the_rest_of_a_message_does_not_cut_the_next_ones_short() {
    let mut config = AssociationConfig::rfc2960();
    config.timers.heartbeat_interval = None;
    config.mtu.discovery = false;
    let mut pair = Pair::connected(1, config);
    pair.forget();
    for _ in 0..300 {
        assert!(pair.send(0, 0, vec![1; 1900]));
    }
    assert!(pair.run_until(LONG, |pair| pair.received_len(1) == 300 * 1900));
    let begins: Vec<usize> = pair
        .sent(0)
        .iter()
        .flat_map(|(_, packet)| {
            let packet = Packet::parse(packet).unwrap();
            let lengths =
                packet.chunks().map_while(Result::ok).filter_map(|raw| match raw.decode() {
                    Ok(Chunk::Data(data)) if data.flags.begin() => Some(data.payload.len()),
                    _ => None,
                });
            lengths.collect::<Vec<_>>()
        })
        .collect();
    let most = begins.iter().max().unwrap();
    assert!(begins.len() == 300 && begins.iter().all(|length| length == most), "{begins:?}");
}

#[test]
// test: rfc9260 6.5 "immediately send an ERROR chunk with cause"
// test: rfc9260 6.5 "SHOULD acknowledge the reception of the DATA chunk"
fn data_for_a_stream_that_does_not_exist() {
    let mut config = config();
    config.receiving.inbound_streams = 10;
    let mut pair = Pair::connected(1, config);
    assert!(pair.send(0, 0, &b"one"[..]));
    pair.run(Duration::from_secs(1));
    let tsn = tsns(&pair.sent(0)[0].1)[0].wrapping_add(1);
    // The client has sent none of what follows and must not see it acknowledged.
    pair.net.script(|_| Verdict::Drop);
    let data = |stream, payload: &'static [u8]| Data {
        flags: DataFlags(DataFlags::BEGIN | DataFlags::END),
        tsn: Tsn(tsn),
        stream,
        ssn: Ssn(0),
        ppid: Ppid(0),
        payload,
    };
    let header = pair.header(0);
    let packet = craft::packet(header, |packet| packet.data(&data(10, b"lost")));
    let answers = pair.answers(1, packet);
    let error = answers.iter().find(|packet| craft::has(packet, kind::ERROR)).unwrap();
    assert_eq!(error[16..22], [0, 1, 0, 8, 0, 10]);
    assert_eq!(cause_code::INVALID_STREAM_IDENTIFIER, 1);
    pair.run(Duration::from_secs(1));
    let acked = pair.sent(1).iter().filter_map(|(_, bytes)| sack(bytes)).any(|s| s.0 == tsn);
    assert!(acked);
    assert_eq!(pair.received_bytes(1), b"one");
    // test: rfc9260 6.2 "it SHOULD send an ABORT chunk with a"
    let mut empty = Vec::new();
    empty.extend_from_slice(&tsn.wrapping_add(1).to_be_bytes());
    empty.extend_from_slice(&[0; 8]);
    let packet = craft::packet(header, |packet| packet.raw(kind::DATA, 3, &empty));
    let answers = pair.answers(1, packet);
    assert_eq!(answers[0][16..18], [0, 9], "no user data");
    assert!(pair.closed[1].is_some());
}

#[test]
// test: rfc9260 6.6 "the endpoint MUST hold the received"
fn a_loss_on_one_stream_does_not_hold_up_another() {
    let mut pair = Pair::connected(1, config());
    let mut dropped = false;
    pair.net.script(move |sight| {
        let drop = sight.has(kind::DATA) && !std::mem::replace(&mut dropped, true);
        if drop { Verdict::Drop } else { Verdict::Pass }
    });
    assert!(pair.send(0, 1, &b"lost"[..]));
    pair.net.settle();
    assert!(pair.send(0, 1, &b"behind"[..]) && pair.send(0, 2, &b"beside"[..]));
    let now = pair.net.now();
    let mut free = OutgoingMessage::new(1, Ppid(0), "unordered");
    free.unordered = true;
    pair.association_mut(0).send(now, free).unwrap();
    pair.run(Duration::from_millis(50));
    let mut got = pair.received_bytes(1);
    assert_eq!(got.len(), 15);
    got.sort_unstable();
    let mut expected = b"besideunordered".to_vec();
    expected.sort_unstable();
    assert_eq!(got, expected);
    pair.run(Duration::from_secs(3));
    assert!(pair.received_bytes(1).ends_with(b"lostbehind"));
}
