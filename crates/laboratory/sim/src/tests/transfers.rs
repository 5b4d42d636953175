//! Transfers, their measurements and their determinism.

use anabranch_proto::CloseReason;

use super::*;

fn hash_and_time(seed: u64) -> (u64, Option<Duration>) {
    let mut d = dumbbell(seed, &[3, 3]);
    let transfer = d.net.add_transfer(d.bulk(500_000)).unwrap();
    d.net.run(Instant::from_secs(1000));
    assert_eq!(d.net.transfer(transfer).outcome, Outcome::Complete);
    (d.net.trace_hash(), d.net.transfer(transfer).transfer_time())
}

#[test]
fn a_seed_stands_for_everything() {
    let first = hash_and_time(7);
    assert_eq!(first, hash_and_time(7));
    assert_ne!(first, hash_and_time(8));
}

/// The trace of one run since the last deliberate change. It must be the same on every machine. It
/// changes with every change in the packets or their times; if that is intended, put the new value
/// here.
const TRACE: u64 = 11_957_982_433_939_325_646;

#[test]
fn the_trace_of_a_run_is_the_committed_one() {
    let (hash, _) = hash_and_time(1);
    assert_eq!(hash, TRACE, "the packets of this run are not those that they were");
}

#[test]
fn eighty_megabytes_arrive() {
    let mut d = dumbbell(1, &[3, 3]);
    let bytes = 80 << 20;
    let mut config = fixed_mtu(AssociationConfig::rfc2960());
    config.receiving.receive_buffer = 65_536;
    let transfer = d.net.add_transfer(d.bulk(bytes).config(config)).unwrap();
    d.net.run(Instant::from_secs(5000));
    let result = d.net.transfer(transfer);
    assert_eq!((result.outcome.clone(), result.bytes), (Outcome::Complete, bytes));
    assert_eq!(result.messages, bytes.div_ceil(1452));
    assert_eq!(result.delays.count(), result.messages);
    let stats = d.net.sender(transfer).unwrap().statistics();
    // Packets that the loss model dropped on the way to the receiver had to be retransmitted.
    let lost: u64 =
        d.cores.iter().map(|l| d.net.link_stats(*l, Direction::Forward).lost_model).sum();
    let sent_again: u64 = stats.paths.iter().map(|path| path.retransmitted_chunks).sum();
    assert!(lost > 1500 && sent_again >= lost - 10, "{lost} {sent_again}");
}

#[test]
fn without_loss_a_transfer_takes_what_the_link_allows() {
    let mut d = dumbbell(1, &[0]);
    let transfer = d.net.add_transfer(d.bulk(5_000_000)).unwrap();
    d.net.run(Instant::from_secs(100));
    let result = d.net.transfer(transfer);
    // 3,444 packets of 1,500 bytes need 4.13 s at 10 Mbit/s; handshake and slow start come on top.
    let time = result.transfer_time().unwrap().as_secs_f64();
    assert!((4.5..6.0).contains(&time), "{time}");
    // Two round trips of 90 ms for the handshake, plus the transmission time.
    let connected = result.connected_at.unwrap().as_secs_f64();
    assert!((0.180..0.182).contains(&connected), "{connected}");
    // The last packet of the initial window may wait for a delayed acknowledgement.
    assert!(result.longest_gap < ms(300), "{:?}", result.longest_gap);
    assert!(result.first_data_at.unwrap() > result.connected_at.unwrap());
}

#[test]
fn periodic_messages_measure_delays() {
    let mut d = dumbbell(1, &[0]);
    let workload = Workload::Periodic { interval: ms(20), messages: 500 };
    let transfer = Transfer { workload, message_size: 200, ..d.bulk(1) };
    let transfer = d.net.add_transfer(transfer).unwrap();
    d.net.run(Instant::from_secs(100));
    let result = d.net.transfer(transfer);
    assert_eq!((result.outcome.clone(), result.messages), (Outcome::Complete, 500));
    // One way takes 45 ms plus the transmission time.
    let (min, max) = (result.delays.min().unwrap(), result.delays.max().unwrap());
    assert!(min > ms(45) && max < ms(46), "{min:?} {max:?}");
    let span = result.completed_at.unwrap().saturating_since(result.first_data_at.unwrap());
    assert_eq!(span, ms(499 * 20));
}

#[test]
fn unordered_messages_over_streams_are_all_counted() {
    let mut d = dumbbell(3, &[5, 5]);
    let transfer = Transfer { unordered: true, streams: 7, ..d.bulk(300_000) };
    let transfer = Transfer { then: Then::Shutdown, ..transfer };
    let transfer = d.net.add_transfer(transfer).unwrap();
    d.net.run(Instant::from_secs(1000));
    let result = d.net.transfer(transfer);
    assert_eq!((result.outcome.clone(), result.bytes), (Outcome::Complete, 300_000));
    assert_eq!(result.delays.count(), result.messages);
    // The run continued until the association was shut down.
    let counters = result.sender.as_ref().unwrap().counters;
    assert_eq!(counters.messages_sent, result.messages);
    assert!(d.net.sender(transfer).is_none());
}

#[test]
fn the_first_address_is_the_primary_one() {
    let mut d = dumbbell(1, &[0, 0]);
    // INIT is lost, so the other path carries the handshake.
    let first = Action::SetLoss {
        link: d.cores[0],
        direction: Direction::Forward,
        loss: Loss::positions([1]),
    };
    d.net.schedule(Instant::ZERO, first).unwrap();
    let transfer = d.net.add_transfer(d.bulk(100_000)).unwrap();
    d.net.run(Instant::from_secs(100));
    assert!(d.net.transfer(transfer).connected_at > Some(Instant::from_secs(1)));
    let paths = d.net.sender(transfer).unwrap().statistics().paths;
    let data: Vec<(u64, bool)> =
        paths.iter().map(|path| (path.data_bytes_sent, path.remote == d.first)).collect();
    assert!(data.contains(&(100_000, true)) && data.contains(&(0, false)), "{data:?}");
}

#[test]
fn transfers_begin_when_they_are_told_to() {
    let mut d = dumbbell(1, &[0]);
    let late = Transfer { start: Instant::from_secs(3), ..d.bulk(10_000) };
    let (first, second) =
        (d.net.add_transfer(d.bulk(10_000)).unwrap(), d.net.add_transfer(late).unwrap());
    let end = d.net.run(Instant::from_secs(100));
    let (first, second) = (d.net.transfer(first), d.net.transfer(second));
    assert_eq!(second.started_at, Instant::from_secs(3));
    assert_eq!(first.outcome, Outcome::Complete);
    assert_eq!(Some(end), second.completed_at);
}

#[test]
fn an_eager_application_keeps_a_small_send_buffer_full() {
    // The window is open from the start, and the buffer holds eight chunks.
    let time = |eager| {
        let mut d = dumbbell(1, &[0]);
        let mut config = fixed_mtu(AssociationConfig::rfc9260());
        config.congestion.initial_cwnd = anabranch_proto::config::InitialCwnd::Mtus(100);
        config.congestion.burst = anabranch_proto::BurstControl::Unlimited;
        config.acknowledging.sack_frequency = 1;
        config.sending.send_buffer = 8 * 1452;
        let transfer = Transfer { eager, ..d.bulk(1600 * 1452).config(config) };
        let transfer = d.net.add_transfer(transfer).unwrap();
        d.net.run(Instant::from_secs(1000));
        let buffer = d.net.sender(transfer).unwrap().statistics().retransmission_queue;
        assert!(buffer.peak_bytes <= 8 * 1452, "{buffer:?}");
        d.net.transfer(transfer).transfer_time().unwrap().as_secs_f64()
    };
    // Eight chunks per round trip of 90 ms, and less than 2 ms to send them.
    let (eager, other) = (time(true), time(false));
    assert!((18.0..18.8).contains(&eager), "{eager}");
    assert!(other > 1.05 * eager, "{other} against {eager}");
}

#[test]
fn a_run_may_end_before_the_transfer() {
    let mut d = dumbbell(1, &[0]);
    let transfer = d.net.add_transfer(d.bulk(100_000_000)).unwrap();
    assert_eq!(d.net.run(Instant::from_secs(2)), Instant::from_secs(2));
    let result = d.net.transfer(transfer);
    assert_eq!(result.outcome, Outcome::TimedOut);
    assert_eq!(result.transfer_time(), None);
    assert!(result.bytes > 0);
}

#[test]
fn a_peer_without_a_port_is_an_end() {
    let mut d = dumbbell(1, &[0]);
    d.net.script(|sight| match sight.point {
        // The receiver's packets are all dropped.
        Point::Sent if sight.endpoint.index() == 1 => Fate::Drop,
        _ => Fate::Pass,
    });
    let transfer = d.net.add_transfer(d.bulk(1000)).unwrap();
    d.net.run(Instant::from_secs(10_000));
    let result = d.net.transfer(transfer);
    assert_eq!(result.outcome, Outcome::Aborted(CloseReason::ConnectTimeout));
}

#[test]
fn impossible_transfers_are_refused() {
    let mut d = dumbbell(1, &[0]);
    let option = |result: Result<TransferId, SimError>| match result {
        Err(SimError::Option { option, .. }) => option,
        other => panic!("{other:?}"),
    };
    let bulk = d.bulk(1000);
    assert_eq!(option(d.net.add_transfer(d.bulk(0))), "transfer workload");
    let empty = Transfer { message_size: 0, ..bulk.clone() };
    assert_eq!(option(d.net.add_transfer(empty)), "transfer message_size");
    let none = Transfer { streams: 0, ..bulk.clone() };
    assert_eq!(option(d.net.add_transfer(none)), "transfer streams");
    let same = Transfer { to: bulk.from, ..bulk.clone() };
    assert_eq!(option(d.net.add_transfer(same)), "transfer to");
    let mut config = AssociationConfig::rfc9260();
    config.acknowledging.sack_frequency = 0;
    assert_eq!(option(d.net.add_transfer(bulk.clone().config(config))), "sack_frequency");
    let nobody = "192.0.2.1".parse().unwrap();
    let lost = Transfer { remotes: vec![nobody], ..bulk.clone() };
    assert_eq!(d.net.add_transfer(lost).unwrap_err(), SimError::UnknownAddress(nobody));
    d.net.run_until(Instant::from_secs(1));
    assert_eq!(d.net.add_transfer(bulk).unwrap_err(), SimError::Past);
}
