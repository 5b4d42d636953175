//! The measurements of a sender's always-on instruments, with scripted acknowledgements.

use std::time::Duration;

use anabranch_harness::{Pair, Verdict, craft};
use anabranch_proto::config::{IdleCwnd, InitialCwnd};
use anabranch_proto::{
    AssociationConfig, Blocked, Blocking, BurstControl, MultipathMode, Statistics,
};
use anabranch_wire::{Chunk, GapBlock, Packet, Tsn};

/// Length of the messages, one chunk each.
const LENGTH: usize = 1000;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn config(send_buffer: usize) -> AssociationConfig {
    let mut config = AssociationConfig::rfc9260();
    config.timers.heartbeat_interval = None;
    config.mtu.discovery = false;
    config.congestion.initial_cwnd = InitialCwnd::Mtus(20);
    config.congestion.idle_cwnd = IdleCwnd::Keep;
    config.congestion.burst = BurstControl::Unlimited;
    config.sending.send_buffer = send_buffer;
    config
}

/// A node whose peer sends only what the test scripts.
struct Sender {
    pair: Pair,
    /// TSN of the first message.
    first: u32,
}

impl Sender {
    /// One message has been sent, and acknowledged with a window of `rwnd`.
    fn new(send_buffer: usize, rwnd: u32) -> Self {
        let mut pair = Pair::connected(1, config(send_buffer));
        pair.net.script(|sight| if sight.node == 1 { Verdict::Drop } else { Verdict::Pass });
        let mut sender = Self { pair, first: 0 };
        assert!(sender.send());
        sender.pair.run(millis(20));
        let sent = sender.pair.sent(0);
        let packet = Packet::parse(&sent[0].1).unwrap();
        let Ok(Chunk::Data(data)) = packet.chunks().next().unwrap().unwrap().decode() else {
            panic!("no DATA")
        };
        sender.first = data.tsn.0;
        sender.sack(1, &[], rwnd);
        sender
    }

    fn send(&mut self) -> bool {
        self.pair.send(0, 0, vec![7; LENGTH])
    }

    /// Sends until the send buffer is full; returns how many messages it took.
    fn fill(&mut self) -> usize {
        let taken = (0..100).take_while(|_| self.send()).count();
        self.pair.run(Duration::ZERO);
        taken
    }

    /// The peer acknowledges everything before message `next`, and blocks above, and has `rwnd`
    /// left.
    fn sack(&mut self, next: u32, gaps: &[(u16, u16)], rwnd: u32) {
        let cumulative = Tsn(self.first.wrapping_add(next).wrapping_sub(1));
        let gaps: Vec<_> = gaps.iter().map(|&(start, end)| GapBlock { start, end }).collect();
        let header = self.pair.header(1);
        self.pair.inject(0, craft::packet(header, |w| w.sack(cumulative, rwnd, &gaps, &[])));
    }

    fn statistics(&self) -> Statistics {
        self.pair.statistics(0)
    }
}

fn seen(blocked: Blocked) -> (u64, [Duration; 3]) {
    (blocked.times, [blocked.time, blocked.in_recovery, blocked.with_timeouts])
}

#[test]
fn a_send_buffer_full_of_what_was_sent_blocks() {
    let mut sender = Sender::new(4000, 100_000);
    assert_eq!(sender.fill(), 4);
    sender.pair.run(millis(100));
    sender.sack(1, &[(2, 3)], 100_000);
    sender.pair.run(millis(50));
    // All that is in flight has arrived, and the next message waits for room.
    sender.sack(5, &[], 100_000);
    let blocking = sender.statistics().blocking;
    assert_eq!(seen(blocking.send_buffer), (1, [millis(150), millis(50), millis(0)]));
    assert_eq!(blocking.receive_window, Blocked::default());
    sender.pair.run(millis(70));

    // After the timeout the data in flight waits for retransmission, and nothing new could be sent.
    assert_eq!(sender.fill(), 4);
    sender.pair.run(millis(1500));
    assert_eq!(sender.statistics().counters.timeouts, 1);
    let blocking = sender.statistics().blocking;
    assert_eq!(seen(blocking.send_buffer), (2, [millis(1150), millis(50), millis(1000)]));
}

#[test]
fn a_window_of_the_sender_that_is_full_is_no_blocking() {
    let mut sender = Sender::new(1_000_000, 1_000_000);
    for _ in 0..100 {
        assert!(sender.send());
    }
    sender.pair.run(millis(100));
    sender.sack(2, &[(2, 3)], 1_000_000);
    sender.pair.run(millis(100));
    sender.sack(5, &[], 1_000_000);
    let statistics = sender.statistics();
    assert!(statistics.send_queue_bytes > 0, "the congestion window holds back");
    assert_eq!(seen(statistics.blocking.send_buffer), (0, [Duration::ZERO; 3]));
    assert_eq!(seen(statistics.blocking.receive_window), (0, [Duration::ZERO; 3]));
}

#[test]
fn a_receive_window_without_room_for_the_next_chunk_blocks() {
    let mut sender = Sender::new(100_000, 500);
    assert!(sender.send() && sender.send());
    // A probe is sent after an RTO; the second message still waits.
    sender.pair.run(millis(1200));
    assert_eq!(sender.statistics().counters.zero_window_probes, 1);
    sender.sack(2, &[], 100_000);
    sender.pair.run(millis(300));
    let blocking = sender.statistics().blocking;
    assert_eq!(seen(blocking.receive_window), (1, [millis(1200), millis(0), millis(0)]));
    assert_eq!(blocking.send_buffer, Blocked::default());
}

/// Data on a cut path keeps everything that the other path delivers in the send buffer, until that
/// path's share of it is full, too.
#[test]
fn a_full_share_of_a_split_buffer_blocks() {
    let run = |nr_sack: bool| {
        let mut config = config(100_000).with_multipath(MultipathMode::Cmt);
        config.acknowledging.nr_sack = nr_sack;
        let mut pair = Pair::connected(2, config);
        pair.set_up(1, false);
        while pair.send(0, 0, vec![7; LENGTH]) {}
        // Until the timer expires after a second.
        pair.run_until(millis(2000), |pair| pair.statistics(0).counters.timeouts > 0);
        pair.statistics(0)
    };
    let (sack, nr_sack) = (run(false), run(true));
    let [sent, sent_with_nr_sacks] =
        [&sack, &nr_sack].map(|statistics| statistics.paths[0].data_bytes_sent);
    assert!(sack.send_queue_bytes > 0 && sent < sent_with_nr_sacks);
    let blocked = sack.blocking.send_buffer;
    assert_eq!((blocked.times, sack.blocking.receive_window.times), (1, 0));
    assert!(blocked.time > millis(800) && blocked.with_timeouts == blocked.time, "{blocked:?}");
    assert_eq!(nr_sack.blocking, Blocking::default());
}

#[test]
fn the_wait_for_a_timer_in_a_blocked_window_is_told_apart() {
    let mut sender = Sender::new(100_000, 3000);
    for _ in 0..5 {
        assert!(sender.send());
    }
    sender.pair.run(millis(100));
    // The first of three is lost, the others fill the window (nat figure 4.2).
    sender.sack(1, &[(2, 3)], 500);
    sender.pair.run(millis(1100));
    assert_eq!(sender.statistics().counters.timeouts, 1);
    sender.sack(4, &[], 3000);
    let blocking = sender.statistics().blocking;
    let (times, [time, in_recovery, with_timeouts]) = seen(blocking.receive_window);
    // Until the timeout: from then on the one packet that is in flight holds the path up, not the window.
    assert_eq!((times, time), (1, millis(1000)));
    assert_eq!((in_recovery, with_timeouts), (millis(900), millis(1000)));
}

#[test]
fn the_queue_is_less_useful_in_recovery() {
    let mut sender = Sender::new(100_000, 100_000);
    let before = sender.statistics().retransmission_queue;
    assert_eq!((before.utilization, before.recovery_utilization), (Some(1.0), None));
    for _ in 0..4 {
        assert!(sender.send());
    }
    sender.pair.run(millis(60));
    sender.sack(1, &[(2, 4)], 100_000);
    sender.pair.run(millis(40));
    sender.sack(5, &[], 100_000);
    let after = sender.statistics().retransmission_queue;
    assert_eq!(after.time - before.time, millis(100));
    assert_eq!((after.recovery_time, after.recovery_utilization), (millis(40), Some(0.25)));
    let mean = (before.time + millis(60) + millis(40) / 4).as_secs_f64() / after.time.as_secs_f64();
    assert!((after.utilization.unwrap() - mean).abs() < 1e-9);
}

#[test]
fn transmissions_and_timeouts_in_a_row_are_counted_on_their_path() {
    let mut sender = Sender::new(100_000, 100_000);
    let timed_out = |sender: &mut Sender, times: u64| {
        let done = |pair: &mut Pair| pair.statistics(0).counters.timeouts == times;
        assert!(sender.pair.run_until(Duration::from_secs(60), done));
    };
    assert!(sender.send());
    timed_out(&mut sender, 3);
    sender.sack(2, &[], 100_000);
    assert!(sender.send() && sender.send());
    timed_out(&mut sender, 4);
    sender.sack(4, &[], 100_000);
    let path = sender.statistics().paths[0];
    assert_eq!((path.longest_timeout_run, path.timeout_runs), (3, [1, 1, 0, 0]));
    // Four messages: the second was retransmitted three times, the third once, the last one never: one
    // packet is in flight after a timeout.
    assert_eq!((path.data_chunks_sent, path.retransmitted_chunks), (8, 4));
    assert_eq!((path.data_packets_sent, path.data_bytes_sent), (8, 8 * LENGTH as u64));
}
