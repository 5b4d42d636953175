//! DATA and SACK, in both directions (RFC 9260 section 6).

use std::time::Duration;

use anabranch_proto::{OutgoingMessage, Ppid};
use anabranch_wire::{Chunk, GapBlock, Header, Heartbeat, Packet, PacketWriter, Tsn, kind};

use crate::victim::{PEER, THERE, Victim, data_of, decode, message};

fn send(victim: &mut Victim, id: anabranch_proto::AssociationId, message: OutgoingMessage) {
    let now = victim.now;
    victim.association(id).send(now, message).unwrap();
}

fn of(len: usize) -> OutgoingMessage {
    OutgoingMessage::new(0, Ppid(3), vec![1; len])
}

// test: rfc9260 6.9 "it MUST fragment a user message if the"
// test: rfc9260 6.9 "MUST break the user message into a series"
// test: rfc9260 6.9 "MUST then assign, in sequence, a separate TSN"
// test: rfc9260 6.9 "MUST also set the B/E bits of the"
// test: rfc9260 6.9 "MUST take into account the SCTP packet header"
// test: rfc9260 6 "MUST fragment large user messages into multiple DATA"
// test: rfc9260 6.10 "MUST be less that or equal to the"
// test: rfc9260 6.10 "Partial chunks MUST NOT be placed in an"
// test: rfc9260 6.10 "chunks within an SCTP packet in increasing order"
// test: rfc9260 3.3.1 "the same Stream Sequence Number MUST be carried"
// test: rfc9260 3.3.1 "This field MUST be sent even in fragmented"
// test: rfc9260 3.3.1 "fragmented user message MUST be strictly sequential"
// test: rfc9260 3.3.1 "MUST have both the B and E bits"
// test: rfc9260 3.3.1 "MUST have its U bit set to 1"
// test: rfc9260 6.9 "message MUST be set to 1"
// test: rfc9260 6.5 "MUST start from 0 when the association"
// test: rfc9260 6.5 "MUST be incremented by 1 for each ordered"
// test: rfc9260 6.5 "the Stream Sequence Number MUST NOT be changed"
// test: rfc9260 3.1 "On transmit, the value of the Verification Tag"
// test: rfc9260 8.5 "MUST fill in the Verification Tag field of"
// test: rfc9260 3.3.3 "MUST be placed into the Verification Tag"
// test: rfc9260 5.3.1 "MUST NOT change during the life time"
// test: rfc9260 1.6 "MUST use after transmitting TSN"
#[test]
// test: rfc9260 6.8 "the transmitter MUST"
fn messages_become_chunks() {
    let (mut victim, id) = Victim::connected();
    send(&mut victim, id, of(10));
    send(&mut victim, id, OutgoingMessage { unordered: true, ..of(1300) });
    send(&mut victim, id, of(1300));
    let mut packets = victim.sent();
    // Max.Burst holds the last one back.
    victim.acknowledge(4, 100_000);
    packets.extend(victim.sent());
    for bytes in &packets {
        let packet = Packet::parse(bytes).unwrap();
        assert!(packet.checksum_ok() && bytes.len() <= 1200 - 28);
        assert_eq!(packet.header().verification_tag, PEER);
        assert!(packet.chunks().all(|chunk| chunk.is_ok()));
    }
    let data = data_of(&packets);
    let flags = |d: &anabranch_wire::Data<'_>| {
        (d.flags.begin(), d.flags.end(), d.flags.unordered(), d.ppid.0)
    };
    let seen: Vec<_> = data.iter().map(flags).collect();
    assert_eq!(
        seen,
        [
            (true, true, false, 3),
            (true, false, true, 3),
            (false, true, true, 3),
            (true, false, false, 3),
            (false, true, false, 3),
        ]
    );
    for (index, chunk) in data.iter().enumerate() {
        assert_eq!(chunk.tsn.0, victim.tsn.wrapping_add(index as u32));
    }
    let ordered: Vec<_> = data.iter().filter(|d| !d.flags.unordered()).map(|d| d.ssn.0).collect();
    assert_eq!(ordered, [0, 1, 1]);
}

// test: rfc9260 3.3.1 "where L MUST be greater than 0"
#[test]
fn there_are_no_empty_messages() {
    let (mut victim, id) = Victim::connected();
    let now = victim.now;
    assert!(victim.association(id).send(now, of(0)).is_err());
    assert_eq!(victim.sent(), Vec::<Vec<u8>>::new());
}

// test: rfc9260 6.7 "the endpoint MUST remove all DATA"
// test: rfc9260 6.1 "MUST transmit no more DATA chunks until"
// test: rfc9260 6.1 "the sender MUST NOT transmit new data to a"
// test: rfc9260 6.1 "The breach of cwnd MUST constitute one packet"
// test: rfc9260 6.1 "The following general rules MUST be applied"
#[test]
fn cwnd_bounds_what_is_in_flight() {
    let (mut victim, id) = Victim::connected();
    send(&mut victim, id, of(20_000));
    let first = victim.sent();
    let cwnd = victim.association(id).statistics().paths[0].cwnd;
    let bytes: usize = first.iter().map(|packet| packet.len() - 12).sum();
    assert!((cwnd..cwnd + 1172).contains(&bytes), "{bytes} of {cwnd}");
    let chunks = victim.association(id).statistics().outstanding_chunks;
    assert_eq!(chunks, first.len());
    victim.acknowledge(1, 100_000);
    let after = victim.association(id).statistics();
    assert_eq!(after.outstanding_chunks, chunks - 1);
    assert!(!victim.sent().is_empty());
}

// test: rfc9260 6.1 "that the peer has no buffer space (i.e., rwnd is smaller"
// test: rfc9260 6.1 "Senders MUST support zero window probing"
// test: rfc9260 6.1 "A zero window probe MUST only be sent"
#[test]
fn a_closed_window_is_probed_with_one_chunk() {
    let (mut victim, id) = Victim::connected();
    send(&mut victim, id, of(100));
    assert_eq!(victim.sent().len(), 1);
    victim.acknowledge(1, 0);
    send(&mut victim, id, of(100));
    send(&mut victim, id, of(100));
    assert_eq!(victim.sent(), Vec::<Vec<u8>>::new());
    victim.wait();
    let probe = victim.sent();
    assert_eq!(data_of(&probe).len(), 1);
    assert_eq!(victim.sent(), Vec::<Vec<u8>>::new());
    victim.acknowledge(2, 50_000);
    assert_eq!(data_of(&victim.sent()).len(), 1);
}

// test: rfc9260 6.1 "the sender MUST start that timer"
// test: rfc9260 6.1 "the sender MUST restart the timer if the earliest"
// test: rfc9260 6.1 "MUST first transmit any DATA chunks"
// test: rfc9260 6.3.1 "RTT measurements MUST NOT be made using"
#[test]
fn what_is_not_acknowledged_goes_out_again_first() {
    let (mut victim, id) = Victim::connected();
    send(&mut victim, id, of(1000));
    let first = victim.sent();
    send(&mut victim, id, OutgoingMessage::new(1, Ppid(0), vec![2; 1000]));
    let second = victim.sent();
    assert_eq!((first.len(), second.len()), (1, 1));
    assert_eq!(victim.wait(), Duration::from_secs(1));
    send(&mut victim, id, OutgoingMessage::new(2, Ppid(0), vec![3; 1000]));
    let again = victim.sent();
    assert_eq!(data_of(&again)[0].tsn, data_of(&first)[0].tsn);
    assert_eq!(data_of(&again)[0].payload, data_of(&first)[0].payload);
    // Backed off, for the chunk that was repeated; its acknowledgement measures nothing.
    let srtt = victim.association(id).statistics().paths[0].srtt;
    assert!(victim.wait() >= Duration::from_secs(2));
    victim.acknowledge(1, 100_000);
    assert_eq!(victim.association(id).statistics().paths[0].srtt, srtt);
}

// test: rfc9260 6.7 "reported in the SACK chunk MUST be treated as"
// test: rfc9260 6.7 "MUST be recorded by the data sender"
#[test]
fn three_reports_make_a_chunk_missing() {
    let (mut victim, id) = Victim::connected();
    for _ in 0..4 {
        send(&mut victim, id, of(1100));
        assert_eq!(victim.sent().len(), 1);
    }
    let cumulative = Tsn(victim.tsn.wrapping_sub(1));
    for end in 2..=4 {
        assert_eq!(victim.sent(), Vec::<Vec<u8>>::new());
        let tag = victim.tag;
        victim.take(THERE, tag, |w| {
            w.sack(cumulative, 100_000, &[GapBlock { start: 2, end }], &[]).unwrap();
        });
    }
    assert_eq!(data_of(&victim.sent())[0].tsn.0, victim.tsn);
    assert_eq!(victim.association(id).statistics().counters.fast_retransmitted_chunks, 1);
}

// test: rfc9260 6.2 "MUST always acknowledge the reception of each valid"
// test: rfc9260 6.2 "MUST fill in the Cumulative TSN Ack field"
// test: rfc9260 6.2 "MUST report as many Gap Ack Blocks as"
// test: rfc9260 6.2 "Acknowledgements MUST be sent in SACK chunks"
// test: rfc9260 6 "DATA chunks MUST only be received according to"
#[test]
fn what_came_is_acknowledged() {
    let (mut victim, id) = Victim::connected();
    victim.chunk(&message(1, 0));
    for tsn in [3, 4, 6] {
        victim.chunk(&message(tsn, tsn as u16 - 1));
    }
    let packets = victim.sent();
    let (Chunk::Sack(sack), PEER) = decode(packets.last().unwrap()) else { panic!("no SACK") };
    assert_eq!(sack.cumulative_tsn_ack, Tsn(1));
    let gaps: Vec<_> = sack.gap_blocks.iter().map(|gap| (gap.start, gap.end)).collect();
    assert_eq!(gaps, [(2, 3), (5, 5)]);
    victim.chunk(&message(2, 1));
    victim.chunk(&message(5, 4));
    let packets = victim.sent();
    let (Chunk::Sack(sack), PEER) = decode(packets.last().unwrap()) else { panic!("no SACK") };
    assert_eq!((sack.cumulative_tsn_ack, sack.gap_blocks.len()), (Tsn(6), 0));
    let received = std::iter::from_fn(|| victim.association(id).receive()).count();
    assert_eq!(received, 6);
}

// test: rfc9260 6.2 "the receiver MUST drop any new incoming DATA"
// test: rfc9260 6.2 "MUST NOT be included in the SACK chunk"
// test: rfc9260 6.2 "it MUST NOT include them in Gap Ack"
#[test]
fn what_was_dropped_is_not_acknowledged() {
    let (mut victim, _) = Victim::connected();
    // The user does not read, and each chunk is small: the buffer fills up with bookkeeping.
    let mut tsn = 0;
    let cumulative = loop {
        tsn += 1;
        assert!(tsn < 100_000, "nothing is ever dropped");
        victim.chunk(&message(tsn, (tsn - 1) as u16));
        let packets = victim.sent();
        let Some((Chunk::Sack(sack), _)) = packets.last().map(|bytes| decode(bytes)) else {
            continue;
        };
        if sack.cumulative_tsn_ack.0 < tsn {
            assert!(sack.gap_blocks.is_empty());
            assert_eq!(sack.a_rwnd, 0);
            break sack.cumulative_tsn_ack.0;
        }
    };
    assert_eq!(cumulative, tsn - 1);
}

// test: rfc9260 6.10 "it MUST drop the chunk"
// test: rfc9260 6.8 "the receiver MUST first check the"
#[test]
fn damaged_packets_count_as_far_as_they_are_whole() {
    let (mut victim, id) = Victim::connected();
    let packet = |tag| {
        let header = Header { source_port: 7, destination_port: 5000, verification_tag: tag };
        let mut bytes = Vec::new();
        let mut writer = PacketWriter::new(&mut bytes, header, 1452);
        writer.chunk(&message(1, 0)).unwrap();
        writer.chunk(&message(2, 1)).unwrap();
        writer.finish();
        bytes
    };
    let mut damaged = packet(victim.tag);
    damaged[20] ^= 1;
    victim.take_bytes(THERE, damaged);
    assert!(victim.association(id).receive().is_none());
    let mut cut = packet(victim.tag);
    cut.truncate(cut.len() - 2);
    cut[8..12].fill(0);
    let checksum = anabranch_wire::crc32c(&cut).to_le_bytes();
    cut[8..12].copy_from_slice(&checksum);
    victim.take_bytes(THERE, cut);
    assert!(victim.association(id).receive().is_some());
    assert!(victim.association(id).receive().is_none());
}

// test: rfc9260 8.3 "MUST respond to a HEARTBEAT chunk with a"
// test: rfc9260 3.3.6 "MUST send this chunk to its peer"
// test: rfc9260 3.3.6 "This field MUST contain the Heartbeat Info parameter"
// test: rfc9260 6 "Control chunks MUST come before DATA chunks"
// test: rfc9260 6.10 "MUST place control chunks first in the"
#[test]
fn heartbeats_come_back_before_data() {
    let (mut victim, id) = Victim::connected();
    victim.chunk(&Chunk::Heartbeat(Heartbeat { info: b"when and where" }));
    send(&mut victim, id, of(10));
    let sent = victim.sent();
    let (Chunk::HeartbeatAck(ack), PEER) = decode(&sent[0]) else { panic!("{sent:?}") };
    assert_eq!(ack.info, b"when and where");
    let kinds: Vec<_> =
        (Packet::parse(&sent[0]).unwrap().chunks()).map(|chunk| chunk.unwrap().kind).collect();
    assert_eq!(kinds, [kind::HEARTBEAT_ACK, kind::DATA]);
}

// test: rfc9260 6.7 "the endpoint MUST send only one SACK chunk"
// test: rfc9260 6.2 "MUST report as many Gap Ack Blocks as"
#[test]
fn a_sack_never_needs_two_packets() {
    let (mut victim, _) = Victim::connected();
    let mut largest = 0;
    for tsn in (1..900).step_by(2) {
        victim.chunk(&message(tsn, (tsn - 1) as u16));
        for bytes in victim.sent() {
            assert!(bytes.len() <= 1200 - 28);
            assert_eq!(Packet::parse(&bytes).unwrap().chunks().count(), 1);
            largest = largest.max(bytes.len());
        }
    }
    assert!(largest >= 1100, "{largest}");
}

// test: rfc9260 6.9 "MUST also take into account the space required"
#[test]
fn a_sack_takes_its_room_from_the_data() {
    let (mut victim, id) = Victim::connected();
    victim.chunk(&message(1, 0));
    assert_eq!(victim.kinds(), [[kind::SACK]]);
    victim.chunk(&message(2, 1));
    send(&mut victim, id, of(5000));
    let sent = victim.sent();
    let kinds: Vec<_> =
        (Packet::parse(&sent[0]).unwrap().chunks()).map(|chunk| chunk.unwrap().kind).collect();
    assert_eq!(kinds, [kind::SACK, kind::DATA]);
    assert!(sent.iter().all(|bytes| bytes.len() <= 1200 - 28));
}

// test: rfc9260 6.1 "the data sender MUST NOT restart the timer"
#[test]
fn more_data_does_not_put_the_timer_off() {
    let (mut victim, id) = Victim::connected();
    send(&mut victim, id, of(100));
    assert_eq!(victim.sent().len(), 1);
    victim.now += Duration::from_millis(600);
    send(&mut victim, id, of(100));
    assert_eq!(victim.sent().len(), 1);
    assert_eq!(victim.wait(), Duration::from_millis(400));
    assert_eq!(victim.association(id).statistics().counters.timeouts, 1);
}

// test: rfc9260 6.1 "avoid silly window syndrome (SWS) as described"
#[test]
fn a_small_window_makes_no_small_chunks() {
    let (mut victim, id) = Victim::connected();
    send(&mut victim, id, of(100));
    assert_eq!(victim.sent().len(), 1);
    send(&mut victim, id, of(5000));
    let _ = victim.sent();
    let sent = victim.association(id).statistics().outstanding_chunks as u32;
    victim.acknowledge(sent, 300);
    assert_eq!(victim.sent(), Vec::<Vec<u8>>::new());
    assert!(victim.association(id).statistics().send_queue_bytes > 300);
}
