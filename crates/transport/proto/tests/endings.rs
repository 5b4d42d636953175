//! Slow shutdowns, and shutdowns during a restart of the peer: accepted messages are delivered or returned,
//! and no side waits forever.

use std::sync::Arc;
use std::time::Duration;

use anabranch_harness::Pair;
use anabranch_impair::LinkConfig;
use anabranch_proto::{
    AssociationConfig, CloseReason, ConnectRequest, EndpointConfig, Event, Notification,
    OutgoingMessage, Ppid, Reliability, SendErrorReason, TagMark,
};

fn config() -> AssociationConfig {
    let mut config = AssociationConfig::default();
    config.timers.heartbeat_interval = None;
    config.mtu.discovery = false;
    config
}

/// A pair over a link of this rate in bits per second.
fn slow(bits: u64, config: &AssociationConfig) -> Pair {
    let mut pair = Pair::new(1, config.clone());
    // Long transfers: what must hold after each step is checked elsewhere.
    pair.net.check = false;
    let link = LinkConfig::new().delay(Duration::from_millis(20)).rate(bits);
    pair.net.set_links(link);
    pair.connect(config.clone());
    assert!(pair.run_until(Duration::from_secs(5), |pair| pair.both_up()));
    pair
}

/// A pair whose node 0 can lose its state and return from the same port.
struct Restarting {
    pair: Pair,
    request: ConnectRequest,
}

impl Restarting {
    fn new(config: &AssociationConfig) -> Self {
        let mut pair = Pair::new(1, config.clone());
        let mut request = ConnectRequest::new(pair.addresses[1].clone(), Pair::PORT);
        request.config = Arc::new(config.clone());
        request.local_port = Some(5555);
        pair.connect_with(request.clone());
        assert!(pair.run_until(Duration::from_secs(1), |pair| pair.both_up()));
        pair.run(Duration::from_secs(10));
        Self { pair, request }
    }

    fn lose_state(&mut self) {
        self.pair.set_up(0, false);
        self.pair.net.reboot(0, EndpointConfig::default(), [9; 32]);
    }

    fn come_again(&mut self) {
        self.pair.set_up(0, true);
        self.pair.events = [Vec::new(), Vec::new()];
        self.pair.connect_with(self.request.clone());
    }

    fn count(&self, which: fn(&Event) -> bool) -> usize {
        self.pair.events[1].iter().filter(|event| which(event)).count()
    }
}

fn failed(event: &Event) -> bool {
    matches!(event, Event::Notification(Notification::SendFailed { .. }))
}

fn writable(event: &Event) -> bool {
    matches!(event, Event::Writable)
}

#[test]
// test: rfc9260 9.2 "If there are still outstanding DATA chunks left"
fn a_slow_link_delivers_all_whoever_ends() {
    for who in 0..2 {
        // Two megabytes at 25 kbit/s are more than two guards of 300 s.
        let mut pair = slow(25_000, &config());
        assert!(pair.send(0, 0, vec![7; 2_000_000]));
        pair.run(Duration::from_secs(1));
        pair.shutdown(who);
        pair.run_until(Duration::from_secs(2000), |pair| pair.closed.iter().all(Option::is_some));
        let graceful = Some(CloseReason::Shutdown);
        assert_eq!(pair.closed, [graceful.clone(), graceful], "the end is node {who}'s");
        assert_eq!(pair.received_len(1), 2_000_000, "the end is node {who}'s");
    }
}

#[test]
fn a_megabit_takes_eight_megabytes_with_all_defaults() {
    for profile in ["default", "rfc2960"] {
        let config = AssociationConfig::profile(profile).unwrap();
        let mut pair = slow(1_000_000, &config);
        assert!(pair.send(0, 0, vec![7; 8_000_000]));
        pair.shutdown(0);
        pair.run_until(Duration::from_secs(600), |pair| pair.closed.iter().all(Option::is_some));
        assert_eq!(pair.received_len(1), 8_000_000, "{profile}");
        assert_eq!(pair.closed[0], Some(CloseReason::Shutdown), "{profile}");
    }
}

#[test]
fn messages_that_expire_make_room_and_wake_who_waits() {
    let mut config = config();
    config.sending.send_buffer = 20_000;
    config.receiving.receive_buffer = 3000;
    // Meanwhile no probe of the closed window takes a message along.
    config.timers.rto_min = Duration::from_secs(1);
    let mut pair = Pair::connected(1, config);
    // The peer's window closes.
    pair.reads[1] = false;
    for _ in 0..3 {
        assert!(pair.send(0, 0, vec![1; 1000]));
        pair.run(Duration::from_secs(3));
    }
    pair.events[0].clear();
    let now = pair.net.now();
    let mut queued = 0;
    loop {
        let mut message = OutgoingMessage::new(0, Ppid(0), vec![1; 1000]);
        message.reliability = Reliability::Lifetime(Duration::from_millis(500 + queued));
        match pair.association_mut(0).send(now, message) {
            Ok(()) => queued += 1,
            Err(error) => {
                assert_eq!(error.reason, SendErrorReason::Blocked);
                break;
            }
        }
    }
    assert!(queued > 10);
    pair.run(Duration::from_millis(499));
    assert_eq!(pair.events[0].iter().filter(|event| failed(event)).count(), 0);
    // Their lifetimes end while nothing can be sent.
    pair.run(Duration::from_millis(50));
    assert_eq!(pair.events[0].iter().filter(|event| failed(event)).count() as u64, queued);
    assert_eq!(pair.events[0].iter().filter(|event| writable(event)).count(), 1);
    assert!(pair.association(0).unwrap().send_buffer_free() >= 15_000);
}

#[test]
fn a_lifetime_ends_behind_a_message_that_has_none() {
    let mut pair = Pair::connected(1, config());
    pair.set_up(0, false);
    assert!(pair.send(0, 0, vec![1; 1_000_000]));
    let now = pair.net.now();
    let mut message = OutgoingMessage::new(1, Ppid(0), "late");
    message.reliability = Reliability::Lifetime(Duration::from_secs(1));
    pair.association_mut(0).send(now, message).unwrap();
    pair.run(Duration::from_millis(1100));
    let came_back = pair.events[0].iter().any(|event| match event {
        Event::Notification(Notification::SendFailed { message, sent }) => {
            !sent && message.data == "late"
        }
        _ => false,
    });
    assert!(came_back);
}

#[test]
fn lifetimes_that_end_one_after_the_other_are_looked_for_together() {
    let mut config = config();
    config.sending.send_buffer = 4_000_000;
    config.sending.send_buffer_start = None;
    let mut pair = Pair::connected(1, config);
    pair.set_up(0, false);
    assert!(pair.send(0, 0, vec![1; 1_000_000]));
    let now = pair.net.now();
    for i in 0..1000 {
        let mut message = OutgoingMessage::new(1, Ppid(0), "x");
        message.reliability = Reliability::Lifetime(Duration::from_micros(500_000 + 100 * i));
        pair.association_mut(0).send(now, message).unwrap();
    }
    // 100 ms: one walk through the queue every 10 ms, and not one for each message.
    let mut walks = 0;
    let mut before = 0;
    pair.run_until(Duration::from_millis(700), |pair| {
        let gone = pair.events[0].iter().filter(|event| failed(event)).count();
        walks += usize::from(gone > before);
        before = gone;
        false
    });
    assert_eq!(before, 1000);
    assert!((2..=12).contains(&walks), "{walks} walks");
}

#[test]
fn a_restart_gives_all_back_and_wakes_who_waits() {
    let mut config = config();
    config.sending.send_buffer = 4000;
    let mut restarting = Restarting::new(&config);
    restarting.lose_state();
    let pair = &mut restarting.pair;
    let mut taken = 0;
    while pair.send(1, 0, vec![1; 1000]) {
        taken += 1;
    }
    assert!(taken > 2);
    pair.run(Duration::from_millis(50));
    restarting.come_again();
    restarting.pair.run(Duration::from_secs(5));
    assert_eq!(
        restarting
            .count(|event| matches!(event, Event::Notification(Notification::Restarted { .. }))),
        1
    );
    assert_eq!(restarting.count(failed), taken);
    assert_eq!(restarting.count(writable), 1);
    assert_eq!(restarting.pair.association(1).unwrap().send_buffer_free(), 4000);
    assert_eq!(restarting.pair.received_len(0), 0, "nothing old goes to the new one");
}

#[test]
// test: rfc9260 5.2.4 "to this peer MUST be reset to their"
fn what_waited_unsent_is_not_for_the_new_incarnation() {
    let mut restarting = Restarting::new(&config());
    restarting.lose_state();
    let pair = &mut restarting.pair;
    // More than the congestion window: a part of it is not sent, and one message is cut.
    let total: usize = (0..20).map(|i| 5000 + i).sum();
    for i in 0..20 {
        assert!(pair.send(1, 0, vec![i as u8; 5000 + i]));
    }
    pair.run(Duration::from_millis(50));
    restarting.come_again();
    let up = |pair: &mut Pair| pair.both_up() && !pair.events[1].is_empty();
    assert!(restarting.pair.run_until(Duration::from_secs(5), up));
    let back = restarting.pair.events[1].iter().filter_map(|event| match event {
        Event::Notification(Notification::SendFailed { message, .. }) => Some(message.data.len()),
        _ => None,
    });
    assert_eq!(back.sum::<usize>(), total);
    assert!(restarting.pair.send(1, 3, "for the new one"));
    restarting.pair.run(Duration::from_secs(5));
    assert_eq!(restarting.pair.received_bytes(0), b"for the new one");
}

#[test]
fn a_shutdown_goes_on_when_the_peer_restarts() {
    // Before anything is acknowledged, and when the peer only has to answer.
    for unsent in [1000, 0] {
        let mut restarting = Restarting::new(&config());
        restarting.lose_state();
        if unsent > 0 {
            assert!(restarting.pair.send(1, 0, vec![1; unsent]));
        }
        restarting.pair.shutdown(1);
        restarting.pair.run(Duration::from_millis(50));
        restarting.come_again();
        restarting
            .pair
            .run_until(Duration::from_secs(20), |pair| pair.closed.iter().all(Option::is_some));
        let graceful = Some(CloseReason::Shutdown);
        assert_eq!(restarting.pair.closed, [graceful.clone(), graceful]);
        assert_eq!(restarting.count(failed), usize::from(unsent > 0));
        assert_eq!(
            restarting.count(|event| matches!(
                event,
                Event::Notification(Notification::Restarted { .. })
            )),
            1
        );
    }
}

#[test]
fn a_shutdown_of_the_peer_is_over_when_it_restarts() {
    let mut restarting = Restarting::new(&config());
    // The peer has ended, and this side still had something to deliver, when it restarts.
    restarting.pair.reads[0] = false;
    assert!(restarting.pair.send(1, 0, vec![1; 8_000_000]));
    restarting.pair.shutdown(0);
    let told = |event: &Event| matches!(event, Event::Notification(Notification::PeerShutdown));
    assert!(restarting.pair.run_until(Duration::from_secs(5), |p| p.events[1].iter().any(told)));
    restarting.lose_state();
    restarting.pair.reads[0] = true;
    restarting.come_again();
    assert!(restarting.pair.run_until(Duration::from_secs(20), |pair| pair.both_up()));
    restarting.pair.run(Duration::from_secs(1));
    assert_eq!(restarting.pair.statistics(1).state.name(), "ESTABLISHED");
    assert!(restarting.pair.send(1, 0, "hello"));
    restarting.pair.run(Duration::from_secs(1));
    assert_eq!(restarting.pair.received_bytes(0), b"hello");
}

#[test]
fn a_stream_at_its_limit_is_not_told_of_room_that_there_is_not() {
    let mut config = config();
    config.sending.stream_send_buffer = 2000;
    // A probe would make room.
    config.recovery.tail_probe = false;
    let mut pair = Pair::connected(1, config);
    pair.set_up(0, false);
    // The congestion window fills, and then the stream.
    while pair.send(0, 0, vec![1; 1000]) || pair.statistics(0).send_queue_bytes < 2000 {
        pair.net.settle();
    }
    pair.run(Duration::from_millis(100));
    pair.events[0].clear();
    // A user that retries on each notification would never stop.
    let mut told = 0;
    for _ in 0..100 {
        told += pair.events[0].drain(..).filter(writable).count();
        assert!(!pair.send(0, 0, vec![1; 1000]));
        pair.run(Duration::from_millis(1));
    }
    assert_eq!(told, 0);
    pair.set_up(0, true);
    let woken = |pair: &mut Pair| pair.events[0].iter().any(writable);
    assert!(pair.run_until(Duration::from_secs(20), woken));
}

/// With a mark in each tag two of many associations of a minute between the same ports have the same one.
#[test]
fn a_tag_that_was_used_lately_is_not_given_again() {
    let hosts = [0, 1].map(|node| anabranch_harness::addresses(node, 1));
    let mark = Some(TagMark::from_seed(&[3; 32]));
    let mut marked = EndpointConfig::default();
    marked.tag_mark = mark;
    let mut pair = Pair::with(hosts, [EndpointConfig::default(), marked], config());
    pair.net.check = false;
    pair.net.set_links(LinkConfig::new().delay(Duration::from_micros(100)));
    let mut request = ConnectRequest::new(pair.addresses[1].clone(), Pair::PORT);
    request.config = Arc::new(config());
    request.local_port = Some(5555);
    for number in 0..12_000 {
        (pair.id, pair.closed) = Default::default();
        pair.events = Default::default();
        pair.connect_with(request.clone());
        assert!(pair.run_until(Duration::from_millis(100), |pair| pair.both_up()), "{number}");
        pair.shutdown(0);
        let over = |pair: &mut Pair| pair.closed.iter().all(Option::is_some);
        assert!(pair.run_until(Duration::from_millis(100), over), "{number}");
    }
}
