//! Moving data: windows, recovery, order, schedulers.

use std::sync::Arc;
use std::time::Duration;

use anabranch_harness::{Pair, Verdict, craft};
use anabranch_impair::{LinkConfig, Loss, Probability, QueueLimit};
use anabranch_proto::config::{IdleCwnd, InitialCwnd};
use anabranch_proto::{
    AssociationConfig, BurstControl, ConnectRequest, EndpointConfig, Event, LossDetection,
    OutgoingMessage, Ppid, SchedulerKind, SendErrorReason,
};
use anabranch_wire::{Chunk, Data, DataFlags, Packet, Ssn, Tsn, cause_code, kind};
use bytes::Bytes;

const LONG: Duration = Duration::from_secs(2000);

fn config() -> AssociationConfig {
    let mut config = AssociationConfig::rfc9260();
    config.heartbeat_interval = None;
    config.mtu.discovery = false;
    config
}

/// TSNs of the DATA chunks of a packet.
fn tsns(packet: &[u8]) -> Vec<u32> {
    let packet = Packet::parse(packet).unwrap();
    let data = packet.chunks().map_while(Result::ok).filter_map(|raw| match raw.decode() {
        Ok(Chunk::Data(data)) => Some(data.tsn.0),
        _ => None,
    });
    data.collect()
}

/// Cumulative TSN and duplicates of the SACK in a packet.
fn sack(packet: &[u8]) -> Option<(u32, Vec<u32>)> {
    let packet = Packet::parse(packet).unwrap();
    packet.chunks().map_while(Result::ok).find_map(|raw| match raw.decode() {
        Ok(Chunk::Sack(sack)) => {
            let duplicates = sack.duplicate_tsns.iter().map(|tsn| tsn.0).collect();
            Some((sack.cumulative_tsn_ack.0, duplicates))
        }
        _ => None,
    })
}

fn numbered(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 31 + i / 251) as u8).collect()
}

#[test]
// test: rfc9260 6.9 "SHOULD dispatch part of its inbound message through a"
fn a_message_of_eight_windows_is_delivered_in_parts() {
    let mut config = config();
    config.receive_buffer = 32_000;
    let mut pair = Pair::connected(1, config);
    let message = numbered(8 * 32_000);
    assert!(pair.send(0, 5, message.clone()));
    assert!(pair.send(0, 5, &b"behind"[..]) && pair.send(0, 6, &b"beside"[..]));
    assert!(pair.run_until(LONG, |pair| pair.received_len(1) == message.len() + 12));
    let parts: Vec<_> = pair.received[1].iter().filter(|part| part.stream == 5).collect();
    assert!(parts.len() > 8, "{} parts", parts.len());
    let (last, parts) = parts.split_last().unwrap();
    assert!(last.is_whole() && last.payload == b"behind"[..]);
    assert!(parts[0].begin && parts[parts.len() - 1].end);
    assert!(parts[1..].iter().all(|part| !part.begin));
    assert!(parts[..parts.len() - 1].iter().all(|part| !part.end));
    let whole: Vec<u8> =
        parts.iter().flat_map(|part| part.payload.clone().into_bytes().to_vec()).collect();
    assert!(whole == message, "the parts make up the message");
    assert_eq!(pair.statistics(1).receive_buffer_used, 0);
}

/// Messages a little longer than a packet, in the profiles that do not fill packets: the short rest
/// of one does not make fragments of the next ones short.
#[test]
fn the_rest_of_a_message_does_not_cut_the_next_ones_short() {
    let mut config = AssociationConfig::rfc2960();
    config.heartbeat_interval = None;
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
fn a_receive_buffer_that_is_one_chunk_too_small() {
    // Memory is counted with bookkeeping, so that sizes around that of a few chunks matter.
    for buffer in (1500..9000).step_by(97) {
        let mut config = config();
        config.receive_buffer = buffer;
        let mut pair = Pair::connected(1, config);
        let messages: Vec<Vec<u8>> = (0..8).map(|i| numbered(700 * i + 300)[..].to_vec()).collect();
        for message in &messages {
            assert!(pair.send(0, 0, message.clone()));
        }
        let total: usize = messages.iter().map(Vec::len).sum();
        let done = pair.run_until(LONG, |pair| pair.received_len(1) == total);
        assert!(done, "buffer {buffer}: {:?}", pair.statistics(0));
        assert_eq!(pair.received_bytes(1), messages.concat());
    }
}

#[test]
// test: rfc9260 6.1 "Senders MUST support zero window"
// test: rfc9260 6.1 "SHOULD NOT increment the error counter for the"
fn a_stalled_reader_holds_the_sender_up_and_nothing_else() {
    let mut config = config();
    config.receive_buffer = 20_000;
    config.association_max_retrans = 4;
    let mut pair = Pair::connected(1, config);
    pair.reads[1] = false;
    assert!(pair.send(0, 0, numbered(200_000)));
    assert!(pair.send(1, 0, numbered(50_000)), "the other direction goes on");
    pair.run(Duration::from_secs(3600));
    assert_eq!(pair.received_len(0), 50_000);
    let statistics = pair.statistics(1);
    assert!(statistics.receive_buffer_used <= 20_000 + 2000, "{statistics:?}");
    assert_eq!(pair.closed, [None, None], "a closed window is no dead peer");
    assert!(pair.statistics(0).counters.zero_window_probes > 0);
    assert_eq!(pair.statistics(0).paths[0].error_count, 0);
    // test: rfc9260 6.1 "SHOULD increase the probe interval exponentially afterwards"
    pair.forget();
    pair.run(Duration::from_secs(3600));
    let probes = pair.count(0, kind::DATA);
    assert!((50..=70).contains(&probes), "{probes} probes in an hour");
    // Once the user reads again it goes on at once, not after a minute.
    pair.reads[1] = true;
    let begun = pair.net.now();
    assert!(pair.run_until(LONG, |pair| pair.received_len(1) == 200_000));
    let took = pair.net.now().saturating_since(begun);
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(pair.received_bytes(1), numbered(200_000));
}

#[test]
fn a_lost_window_update_is_made_up_for_by_a_probe() {
    let mut config = config();
    config.receive_buffer = 20_000;
    let mut pair = Pair::connected(1, config);
    pair.reads[1] = false;
    assert!(pair.send(0, 0, numbered(100_000)));
    pair.run(Duration::from_secs(1));
    // The user reads, and what tells the sender is lost.
    let until = pair.net.now() + Duration::from_millis(50);
    pair.net.script(move |sight| match sight.node == 1 && sight.now < until {
        true => Verdict::Drop,
        false => Verdict::Pass,
    });
    pair.reads[1] = true;
    assert!(pair.run_until(Duration::from_secs(10), |pair| pair.received_len(1) == 100_000));
}

#[test]
// test: rfc9260 7.2.4 "SHOULD wait for two further miss indications"
fn three_missing_reports_make_a_fast_retransmission() {
    let mut config = config();
    config.initial_cwnd = InitialCwnd::Mtus(10);
    config.burst = BurstControl::Unlimited;
    let mut pair = Pair::connected(1, config);
    pair.forget();
    let mut first = None;
    pair.net.script(move |sight| {
        let drop = sight.has(kind::DATA) && first.is_none();
        if drop {
            first = Some(sight.number);
            return Verdict::Drop;
        }
        Verdict::Pass
    });
    for _ in 0..6 {
        assert!(pair.send(0, 0, vec![1; 1100]));
    }
    let begun = pair.net.now();
    assert!(pair.run_until(LONG, |pair| pair.received_len(1) == 6600));
    // The loss, the reports, the retransmission: one and a half round trips.
    assert_eq!(pair.net.now().saturating_since(begun), 3 * Pair::DELAY);
    let counters = pair.statistics(0).counters;
    assert_eq!((counters.fast_retransmitted_chunks, counters.t3_timeouts), (1, 0));
    assert_eq!(counters.fast_recoveries, 1);
    // test: rfc9260 7.2.4 "it SHOULD start sending a SACK chunk back"
    assert_eq!(pair.count(1, kind::SACK), 5 + 1);
}

#[test]
fn two_missing_reports_do_not() {
    let mut config = config();
    config.initial_cwnd = InitialCwnd::Mtus(10);
    let mut pair = Pair::connected(1, config);
    let mut dropped = false;
    pair.net.script(move |sight| {
        let drop = sight.has(kind::DATA) && !std::mem::replace(&mut dropped, true);
        if drop { Verdict::Drop } else { Verdict::Pass }
    });
    for _ in 0..3 {
        assert!(pair.send(0, 0, vec![1; 1100]));
    }
    assert!(pair.run_until(LONG, |pair| pair.received_len(1) == 3300));
    let counters = pair.statistics(0).counters;
    assert_eq!((counters.fast_retransmitted_chunks, counters.t3_timeouts), (0, 1));
}

#[test]
fn a_lost_retransmission_waits_for_the_timer_or_is_found_by_later_packets() {
    for detection in [LossDetection::MissingReports, LossDetection::PacketThreshold] {
        let mut config = config();
        config.initial_cwnd = InitialCwnd::Mtus(40);
        config.burst = BurstControl::Unlimited;
        config.loss_detection = detection;
        config.multiple_fast_retransmit = detection == LossDetection::PacketThreshold;
        let mut pair = Pair::connected(1, config);
        let mut target = None;
        let mut times = 0;
        pair.net.script(move |sight| {
            let Some(tsn) = tsns(sight.packet.bytes()).first().copied() else {
                return Verdict::Pass;
            };
            if *target.get_or_insert(tsn) == tsn && times < 2 {
                times += 1;
                return Verdict::Drop;
            }
            Verdict::Pass
        });
        assert!(pair.send(0, 0, numbered(200_000)));
        assert!(pair.run_until(LONG, |pair| pair.received_len(1) == 200_000));
        let timeouts = pair.statistics(0).counters.t3_timeouts;
        assert_eq!(timeouts > 0, detection == LossDetection::MissingReports, "{detection:?}");
    }
}

#[test]
fn a_lost_retransmission_halves_the_window_again() {
    for (profile, halvings) in [(config(), 2), (AssociationConfig::rfc4960(), 1)] {
        let mut config = profile;
        config.heartbeat_interval = None;
        config.mtu.discovery = false;
        config.initial_cwnd = InitialCwnd::Mtus(64);
        config.burst = BurstControl::Unlimited;
        config.idle_cwnd = IdleCwnd::Keep;
        config.multiple_fast_retransmit = true;
        let mut pair = Pair::connected(1, config);
        let initial = pair.statistics(0).paths[0].cwnd;
        // Two neighbours are lost, and so are their retransmissions: two events, not four.
        let mut first = None;
        let mut times = [0; 2];
        pair.net.script(move |sight| {
            let Some(tsn) = tsns(sight.packet.bytes()).first().copied() else {
                return Verdict::Pass;
            };
            let place = tsn.wrapping_sub(*first.get_or_insert(tsn)) as usize;
            match times.get_mut(place) {
                Some(count) if *count < 2 => {
                    *count += 1;
                    Verdict::Drop
                }
                _ => Verdict::Pass,
            }
        });
        assert!(pair.send(0, 0, numbered(200_000)));
        assert!(pair.run_until(LONG, |pair| pair.received_len(1) == 200_000));
        let now = pair.statistics(0);
        assert_eq!((now.counters.t3_timeouts, now.counters.fast_recoveries), (0, halvings));
        assert_eq!(now.counters.fast_retransmitted_chunks, 4);
        // The first acknowledgements opened the window a little before.
        let (halved, ssthresh) = (initial >> halvings, now.paths[0].ssthresh);
        assert!((halved..halved * 11 / 10).contains(&ssthresh), "{halved} {ssthresh}");
    }
}

#[test]
// test: rfc9260 6.1 "SHOULD be used to limit the number of packets sent"
fn max_burst_limits_what_leaves_at_once() {
    for limit in [1, 4, 10] {
        let mut config = config();
        config.initial_cwnd = InitialCwnd::Mtus(100);
        config.idle_cwnd = IdleCwnd::Keep;
        config.burst = BurstControl::MaxBurst(limit);
        let mut pair = Pair::connected(1, config);
        pair.forget();
        assert!(pair.send(0, 0, vec![1; 100_000]));
        pair.net.settle();
        assert_eq!(pair.count(0, kind::DATA), limit as usize);
    }
}

#[test]
// test: rfc9260 6.1 "The breach of cwnd MUST constitute one packet only"
fn cwnd_is_exceeded_by_less_than_a_packet() {
    let mut config = config();
    config.burst = BurstControl::Unlimited;
    let mut pair = Pair::connected(1, config);
    let cwnd = pair.statistics(0).paths[0].cwnd;
    assert!(pair.send(0, 0, vec![1; 100_000]));
    pair.net.settle();
    let path = &pair.statistics(0).paths[0];
    assert!(path.flight >= cwnd && path.flight < cwnd + usize::from(path.mtu), "{path:?}");
}

#[test]
// test: rfc9260 6.3.3 "SHOULD be marked for retransmission and"
fn a_timeout_sends_one_packet_first() {
    let mut pair = Pair::connected(1, config());
    let until = pair.net.now() + Duration::from_millis(500);
    pair.net.script(move |sight| match sight.now < until {
        true => Verdict::Drop,
        false => Verdict::Pass,
    });
    assert!(pair.send(0, 0, vec![1; 100_000]));
    pair.net.settle();
    let first = pair.sent(0).iter().flat_map(|(_, bytes)| tsns(bytes)).collect::<Vec<_>>();
    pair.forget();
    pair.run(Duration::from_millis(1005));
    let sent = pair.sent(0);
    assert_eq!(sent.len(), 1);
    assert_eq!(tsns(&sent[0].1)[0], first[0]);
    let path = &pair.statistics(0).paths[0];
    assert_eq!(path.cwnd, usize::from(path.mtu) - 28 - 12);
    assert_eq!(path.rto, Duration::from_secs(2), "backed off");
    assert!(pair.run_until(LONG, |pair| pair.received_len(1) == 100_000));
}

#[test]
// test: rfc9260 6.2 "The duplicate TSN number(s) SHOULD be reported"
fn duplicates_are_reported_and_not_delivered() {
    let mut pair = Pair::connected(1, config());
    pair.forget();
    pair.net.script(|sight| match sight.has(kind::DATA) {
        true => Verdict::Duplicate,
        false => Verdict::Pass,
    });
    assert!(pair.send(0, 0, &b"once"[..]));
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.received_bytes(1), b"once");
    let duplicates: Vec<u32> =
        pair.sent(1).iter().filter_map(|(_, bytes)| sack(bytes)).flat_map(|s| s.1).collect();
    assert_eq!(duplicates.len(), 1);
    assert_eq!(pair.statistics(1).counters.duplicate_chunks, 1);
}

#[test]
// test: rfc9260 6.2 "acknowledgement SHOULD be generated for at least every"
// test: rfc9260 6.2 "SHOULD be generated within 200 ms"
fn acknowledgements_are_delayed() {
    let mut pair = Pair::connected(1, config());
    // The first data of all is acknowledged at once.
    assert!(pair.send(0, 0, &b"first"[..]));
    pair.run(Duration::from_secs(1));
    pair.forget();
    assert!(pair.send(0, 0, &b"alone"[..]));
    let begun = pair.net.now();
    pair.run(Duration::from_secs(1));
    let acks = |pair: &Pair| -> Vec<Duration> {
        let sent = pair.sent(1);
        let acks = sent.iter().filter(|(_, bytes)| sack(bytes).is_some());
        acks.map(|(at, _)| at.saturating_since(begun)).collect()
    };
    assert_eq!(acks(&pair), [Pair::DELAY + Duration::from_millis(200)]);
    // test: rfc9260 6.2 "SHOULD NOT delay the sending of the corresponding"
    pair.forget();
    let begun = pair.net.now();
    let now = begun;
    let mut urgent = OutgoingMessage::new(0, Ppid(0), "now");
    urgent.sack_immediately = true;
    pair.association_mut(0).send(now, urgent).unwrap();
    pair.run(Duration::from_secs(1));
    let sent = pair.sent(1);
    assert_eq!(sent[0].0.saturating_since(begun), Pair::DELAY);
}

#[test]
// test: rfc9260 6.1 "sender SHOULD create a SACK chunk and bundle it"
fn acknowledgements_travel_with_data() {
    let mut pair = Pair::connected(1, config());
    assert!(pair.send(0, 0, &b"ping"[..]));
    pair.run(Duration::from_millis(500));
    pair.forget();
    assert!(pair.send(0, 0, &b"ping"[..]));
    pair.run(Duration::from_millis(15));
    assert!(pair.send(1, 0, &b"pong"[..]));
    pair.run(Duration::from_millis(1));
    assert_eq!(craft::kinds(&pair.sent(1)[0].1), [kind::SACK, kind::DATA]);
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.sent(1).len(), 1);
}

#[test]
// test: rfc9260 6.5 "immediately send an ERROR chunk with cause"
// test: rfc9260 6.5 "SHOULD acknowledge the reception of the DATA chunk"
fn data_for_a_stream_that_does_not_exist() {
    let mut config = config();
    config.inbound_streams = 10;
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

#[test]
fn schedulers_decide_which_stream_goes_first() {
    let order = |scheduler, priorities: &[(u16, u16)]| -> String {
        let mut config = config();
        config.scheduler = scheduler;
        let mut pair = Pair::connected(1, config);
        for (stream, priority) in priorities {
            pair.association_mut(0).set_stream_priority(*stream, *priority);
        }
        // A long message first, so that the others queue behind it.
        assert!(pair.send(0, 9, vec![0; 50_000]));
        for (stream, name) in [(1, "a"), (1, "b"), (2, "c"), (3, "d"), (2, "e")] {
            assert!(pair.send(0, stream, name.as_bytes().to_vec()));
        }
        assert!(pair.run_until(LONG, |pair| pair.received_len(1) == 50_005));
        String::from_utf8(pair.received_bytes(1).split_off(50_000)).unwrap()
    };
    assert_eq!(order(SchedulerKind::Fifo, &[]), "abcde");
    assert_eq!(order(SchedulerKind::RoundRobin, &[]), "acdbe");
    assert_eq!(order(SchedulerKind::Priority, &[(1, 5), (2, 3), (3, 1)]), "dceab");
}

#[test]
fn lifetimes_end_before_the_first_transmission_only() {
    let mut config = config();
    config.send_buffer = 1 << 20;
    let mut pair = Pair::connected(1, config);
    pair.net.set_links(LinkConfig::new().delay(Pair::DELAY).rate(1_000_000));
    let send = |pair: &mut Pair, stream, length, lifetime| {
        let now = pair.net.now();
        let mut message = OutgoingMessage::new(stream, Ppid(0), vec![1; length]);
        message.lifetime = lifetime;
        message.context = u64::from(stream);
        pair.association_mut(0).send(now, message).unwrap();
    };
    let brief = Some(Duration::from_millis(100));
    // The first one is begun at once and takes 800 ms; the second one never gets its turn.
    send(&mut pair, 1, 100_000, brief);
    send(&mut pair, 2, 100, brief);
    send(&mut pair, 3, 100, None);
    assert!(pair.run_until(LONG, |pair| pair.received_len(1) == 100_100));
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.received_len(1), 100_100);
    let failed: Vec<_> = (pair.events[0].iter())
        .filter_map(|event| match event {
            Event::SendFailed { message, sent } => Some((message.context, *sent)),
            _ => None,
        })
        .collect();
    assert_eq!(failed, [(2, false)]);
    assert_eq!(pair.association(0).unwrap().send_buffer_free(), 1 << 20);
}

#[test]
fn nagle_waits_for_the_acknowledgement() {
    for nagle in [false, true] {
        let mut config = config();
        config.nagle = nagle;
        let mut pair = Pair::connected(1, config);
        assert!(pair.send(0, 0, &b"warm up"[..]));
        pair.run(Duration::from_secs(1));
        pair.forget();
        for _ in 0..10 {
            assert!(pair.send(0, 0, vec![1; 20]));
            pair.run(Duration::from_millis(1));
        }
        pair.run(Duration::from_secs(1));
        assert_eq!(pair.count(0, kind::DATA), if nagle { 2 } else { 10 });
        assert_eq!(pair.received_len(1), 207);
    }
}

#[test]
fn back_pressure_and_its_end() {
    let mut config = config();
    config.send_buffer = 10_000;
    config.stream_send_buffer = 5_000;
    let mut pair = Pair::connected(1, config);
    pair.net.script(|_| Verdict::Drop);
    assert!(pair.send(0, 1, vec![1; 4000]) && pair.send(0, 1, vec![1; 4000]));
    let now = pair.net.now();
    let refused = |pair: &mut Pair, stream, length: usize| {
        let message = OutgoingMessage::new(stream, Ppid(7), vec![9; length]);
        let error = pair.association_mut(0).send(now, message).unwrap_err();
        assert!(error.message.data == vec![9; length] && error.message.ppid == Ppid(7));
        error.reason
    };
    assert!(pair.send(0, 2, vec![1; 4000]));
    assert_eq!(refused(&mut pair, 3, 100), SendErrorReason::Blocked);
    assert_eq!(refused(&mut pair, 2000, 100), SendErrorReason::NoSuchStream(1024));
    assert_eq!(refused(&mut pair, 1, 0), SendErrorReason::Empty);
    pair.take();
    assert!(!pair.events[0].iter().any(|event| matches!(event, Event::Writable)));
    pair.net.end_script();
    pair.run(Duration::from_secs(5));
    assert!(pair.events[0].iter().any(|event| matches!(event, Event::Writable)));
    assert_eq!(pair.received_len(1), 12_000);
    assert_eq!(pair.association(0).unwrap().send_buffer_free(), 10_000);
}

#[test]
fn associations_share_an_endpoint_fairly() {
    let mut endpoint = EndpointConfig::default();
    endpoint.quantum = 5_000;
    let addresses = [0, 1].map(|node| anabranch_harness::addresses(node, 1));
    let mut config = config();
    config.burst = BurstControl::Unlimited;
    config.initial_cwnd = InitialCwnd::Mtus(200);
    let mut pair = Pair::with(addresses, [endpoint.clone(), endpoint], config.clone());
    let mut ids = Vec::new();
    for _ in 0..4 {
        pair.connect(config.clone());
        assert!(pair.run_until(LONG, |pair| pair.both_up()));
        ids.push(pair.id[0].unwrap());
    }
    pair.run(Duration::from_secs(2));
    pair.forget();
    let now = pair.net.now();
    for (id, length) in ids.iter().zip([100_000, 100_000, 100_000, 500]) {
        let mut association = pair.net.node_mut(0).endpoint.association_mut(now, *id).unwrap();
        let message = OutgoingMessage::new(0, Ppid(0), vec![1; length]);
        association.send(now, message).unwrap();
    }
    pair.net.max_segments = 4;
    pair.net.settle();
    let ports: Vec<u16> = (pair.sent(0).iter())
        .map(|(_, bytes)| Packet::parse(bytes).unwrap().header().source_port)
        .collect();
    // The short one waits for one quantum of each of the others, not for all that they have.
    let short = pair.net.node(0).endpoint.association(ids[3]).unwrap().local_port();
    let place = ports.iter().position(|port| *port == short).unwrap();
    assert!(place <= 3 * 8, "place {place} of {}", ports.len());
    let first = &ports[..60];
    for id in &ids[..3] {
        let port = pair.net.node(0).endpoint.association(*id).unwrap().local_port();
        let share = first.iter().filter(|other| **other == port).count();
        assert!((12..=28).contains(&share), "{share} of 60");
    }
}

#[test]
fn bulk_over_a_bottleneck_with_loss() {
    for profile in ["default", "rfc9260", "rfc4960", "rfc2960"] {
        let config = AssociationConfig::profile(profile).unwrap();
        let mut pair = Pair::connected(1, config);
        let link = LinkConfig::new()
            .delay(Duration::from_millis(20))
            .rate(20_000_000)
            .queue(QueueLimit::Packets(50))
            .loss(Loss::Uniform(Probability::per_million(2000)));
        pair.net.set_links(link);
        let total = 2_000_000;
        let mut sent = 0;
        let begun = pair.net.now();
        let done = pair.run_until(LONG, |pair| {
            while sent < total && pair.send(0, (sent / 10_000 % 7) as u16, vec![3; 10_000]) {
                sent += 10_000;
            }
            pair.received_len(1) == total
        });
        let took = pair.net.now().saturating_since(begun);
        assert!(done, "{profile}: {:?}", pair.statistics(0));
        // 0.8 s at full rate.
        assert!(took < Duration::from_secs(30), "{profile}: {took:?}");
        assert!(pair.statistics(0).counters.fast_recoveries > 0);
    }
}

#[test]
fn sacks_that_lie_are_survived() {
    let mut pair = Pair::connected(1, config());
    assert!(pair.send(0, 0, vec![1; 3000]));
    pair.net.settle();
    let header = pair.header(1);
    let last = *pair.sent(0).iter().flat_map(|(_, b)| tsns(b)).collect::<Vec<_>>().last().unwrap();
    let base = last.wrapping_sub(10);
    let lie = |gaps: &[(u16, u16)], cumulative: u32| {
        let gaps: Vec<_> = gaps
            .iter()
            .map(|(start, end)| anabranch_wire::GapBlock { start: *start, end: *end })
            .collect();
        craft::packet(header, |packet| packet.sack(Tsn(cumulative), 1_000_000, &gaps, &[]))
    };
    // Blocks upside down, empty, and SACKs from the past: no news.
    for packet in [lie(&[(5, 2)], base), lie(&[(0, 1)], base), lie(&[], base.wrapping_sub(1 << 20))]
    {
        pair.inject(0, packet);
        assert_eq!(pair.closed[0], None);
    }
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.received_len(1), 3000);
    // What was never sent cannot have come.
    pair.inject(0, lie(&[], last.wrapping_add(1000)));
    assert!(pair.closed[0].is_some());
}

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

#[test]
fn an_overshoot_of_slow_start_does_not_become_a_storm() {
    // Buffers far beyond rate times round-trip time: slow start ends where the queue is full.
    let mut config = AssociationConfig::default();
    config.receive_buffer = 8 << 20;
    config.send_buffer = 8 << 20;
    config.idle_cwnd = IdleCwnd::Keep;
    let mut pair = Pair::connected(1, config);
    let link = LinkConfig::new()
        .rate(50_000_000)
        .delay(Duration::from_millis(50))
        .queue(QueueLimit::Packets(416));
    pair.net.set_links(link);
    const MESSAGE: usize = 100_000;
    const MESSAGES: usize = 120;
    let data = Bytes::from(numbered(MESSAGE));
    let mut sent = 0;
    while sent < MESSAGES && pair.send(0, 0, data.clone()) {
        sent += 1;
    }
    let arrived = pair.run_until(LONG, |pair| {
        while sent < MESSAGES && pair.send(0, 0, data.clone()) {
            sent += 1;
        }
        pair.received_len(1) == MESSAGES * MESSAGE
    });
    assert!(arrived);
    // What the full queue dropped is sent again, not each time that an acknowledgement comes.
    let path = pair.statistics(0).paths[0];
    let needed = (MESSAGES * MESSAGE) as u64;
    assert!(path.retransmitted_chunks > 0, "there was no overshoot");
    assert!(path.data_bytes_sent < 2 * needed, "{path:?}");
}
