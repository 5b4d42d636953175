//! The receive window: messages larger than it, readers that stall, probes.

use std::time::Duration;

use anabranch_harness::{Pair, Verdict};
use anabranch_wire::kind;

use super::{LONG, config, numbered};

#[test]
// test: rfc9260 6.9 "SHOULD dispatch part of its inbound message through a"
fn a_message_of_eight_windows_is_delivered_in_parts() {
    let mut config = config();
    config.receiving.receive_buffer = 32_000;
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

#[test]
fn a_receive_buffer_that_is_one_chunk_too_small() {
    // The memory count includes bookkeeping, so sizes around those of a few chunks matter.
    for buffer in (1500..9000).step_by(97) {
        let mut config = config();
        config.receiving.receive_buffer = buffer;
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
    config.receiving.receive_buffer = 20_000;
    config.paths.association_max_retrans = 4;
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
    // Once the user reads again, data continues immediately, not after a minute.
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
    config.receiving.receive_buffer = 20_000;
    let mut pair = Pair::connected(1, config);
    pair.reads[1] = false;
    assert!(pair.send(0, 0, numbered(100_000)));
    pair.run(Duration::from_secs(1));
    // The user reads, and the window updates are lost.
    let until = pair.net.now() + Duration::from_millis(50);
    pair.net.script(move |sight| match sight.node == 1 && sight.now < until {
        true => Verdict::Drop,
        false => Verdict::Pass,
    });
    pair.reads[1] = true;
    assert!(pair.run_until(Duration::from_secs(10), |pair| pair.received_len(1) == 100_000));
}
