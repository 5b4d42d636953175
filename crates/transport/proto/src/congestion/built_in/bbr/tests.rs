//! BBR on a simulated bottleneck, packet by packet; most cases are from the draft's appendix 'BBR Example Test Cases'.

use std::collections::VecDeque;
use std::time::Duration;

use super::*;
use crate::config::AssociationConfig;
use crate::congestion::RateSampler;

const PACKET: u64 = 1000;

/// A packet on its way.
#[derive(Clone, Copy, Debug)]
struct Packet {
    number: u64,
    sent: Instant,
    /// When its acknowledgement arrives; `None` if the packet is dropped.
    acked: Option<Instant>,
}

/// A sender with BBR, a bottleneck, and a receiver that acknowledges each packet.
struct Path {
    bbr: Bbr,
    sampler: RateSampler,
    now: Instant,
    /// Of the bottleneck, in bytes per second, and the round-trip time without its queue.
    rate: u64,
    rtt: Duration,
    /// Packets that fit into its queue.
    queue: u64,
    /// On average, one packet out of this number is lost; 0 for no losses.
    lose_one_in: u64,
    random: u64,
    /// Time between packets of the application; `None` if it always has data.
    interval: Option<Duration>,
    free_at: Instant,
    may_send_at: Instant,
    number: u64,
    flight: VecDeque<Packet>,
    recover: Option<u64>,
    delivered: u64,
    dropped: u64,
    /// The states, one after the other.
    states: Vec<State>,
}

impl Path {
    fn new(rate: u64, rtt: Duration, queue: u64) -> Self {
        let config = AssociationConfig::default();
        let new = NewPath::new(&config.congestion, config.revision, PACKET as usize);
        Self {
            bbr: Bbr::new(&new),
            sampler: RateSampler::default(),
            now: Instant::ZERO,
            rate,
            rtt,
            queue,
            lose_one_in: 0,
            random: 1,
            interval: None,
            free_at: Instant::ZERO,
            may_send_at: Instant::ZERO,
            number: 0,
            flight: VecDeque::new(),
            recover: None,
            delivered: 0,
            dropped: 0,
            states: vec![State::Startup],
        }
    }

    fn is_lost(&mut self) -> bool {
        // xorshift64, so that runs repeat.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.lose_one_in > 0 && self.random.is_multiple_of(self.lose_one_in)
    }

    fn in_flight(&self) -> usize {
        self.flight.len() * PACKET as usize
    }

    fn send(&mut self) {
        self.number += 1;
        let service = Duration::from_nanos(PACKET * 1_000_000_000 / self.rate);
        let waits = self.free_at.saturating_since(self.now);
        let full = waits >= service * u32::try_from(self.queue).unwrap();
        let acked = if full || self.is_lost() {
            self.dropped += 1;
            None
        } else {
            self.free_at = self.free_at.max(self.now) + service;
            Some(self.free_at + self.rtt)
        };
        let idle = self.flight.is_empty();
        self.flight.push_back(Packet { number: self.number, sent: self.now, acked });
        let in_flight = self.in_flight();
        self.sampler.on_sent(self.now, self.number, in_flight, idle);
        let app_limited = self.interval.is_some() && in_flight < self.bbr.cwnd();
        if app_limited {
            self.sampler.on_app_limited(in_flight);
        }
        let bytes = PACKET as usize;
        self.bbr.on_sent(&Sent { now: self.now, bytes, in_flight, app_limited });
        let rate = self.bbr.pacing_rate().unwrap_or(u64::MAX);
        let pause = Duration::from_nanos(PACKET * 1_000_000_000 / rate);
        self.may_send_at = self.now + self.interval.unwrap_or_default().max(pause);
    }

    /// Handles the acknowledgement of the packet at `index`.
    fn acknowledge(&mut self, index: usize) {
        let Some(packet) = self.flight.remove(index) else { return };
        let rtt = Some(self.now.saturating_since(packet.sent));
        let oldest = self.flight.front().map(|packet| packet.number);
        self.delivered += PACKET;
        self.recover = self.recover.filter(|recover| packet.number <= *recover);
        let bytes = PACKET as usize;
        let rate = self.sampler.on_acked(self.now, bytes, packet.number, oldest);
        self.bbr.on_acked(&Acked {
            in_flight: self.in_flight(),
            in_fast_recovery: self.recover.is_some(),
            rate,
            rtt: Rtt { latest: None, smoothed: rtt, min: Some(self.rtt) },
            packet_rtt: rtt,
            ..Acked::new(self.now, bytes)
        });
        self.note_state();
        // Three later packets prove a loss.
        while let Some(lost) = self.flight.front().copied()
            && lost.number + 3 <= packet.number
        {
            self.flight.pop_front();
            self.lose(lost);
        }
        self.note_state();
    }

    fn lose(&mut self, packet: Packet) {
        let bytes = PACKET as usize;
        self.sampler.on_lost(bytes, packet.number);
        let (cause, in_flight) = (Loss::Reported, self.in_flight());
        if self.recover.is_none() {
            self.recover = Some(self.number);
            let event = CongestionEvent::new(self.now, cause, in_flight + bytes);
            self.bbr.on_congestion_event(&event);
        }
        let sample = self.sampler.take_lost();
        self.bbr.on_lost(&LostData { now: self.now, cause, bytes, in_flight, sample });
    }

    fn note_state(&mut self) {
        if self.states.last() != Some(&self.bbr.state) {
            self.states.push(self.bbr.state);
        }
    }

    /// Lets time pass until the condition holds; `false` if it does not within two minutes.
    fn run_until(&mut self, done: impl Fn(&Self) -> bool) -> bool {
        let end = self.now + Duration::from_secs(120);
        while !done(self) && self.now < end {
            let next = self.flight.iter().enumerate();
            let ack = next.filter_map(|(index, packet)| Some((packet.acked?, index))).min();
            let room = self.in_flight() < self.bbr.cwnd();
            let send = room.then_some(self.may_send_at.max(self.now));
            match (ack, send) {
                (Some((at, index)), send) if send.is_none_or(|send| at <= send) => {
                    self.now = self.now.max(at);
                    self.acknowledge(index);
                }
                (_, Some(at)) => {
                    self.now = at;
                    self.send();
                }
                // Everything in flight was dropped.
                _ => self.time_out(),
            }
        }
        done(self)
    }

    fn time_out(&mut self) {
        self.now += Duration::from_secs(1);
        let bytes = self.in_flight();
        let event = CongestionEvent::new(self.now, Loss::Timeout, bytes);
        self.bbr.on_congestion_event(&event);
        self.flight.clear();
        let lost =
            LostData { now: self.now, cause: Loss::Timeout, bytes, in_flight: 0, sample: None };
        self.bbr.on_lost(&lost);
        assert_eq!(self.bbr.cwnd(), PACKET as usize);
        self.recover = None;
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        self.run_until(|path| path.now >= end);
    }

    fn run_to(&mut self, state: State) {
        let found = self.run_until(|path| path.bbr.state == state);
        assert!(found, "never {state:?}: {:?}", self.states);
    }

    /// The share of the bottleneck's rate that is used in this time.
    fn share(&mut self, time: Duration) -> f64 {
        let (from, before) = (self.now, self.delivered);
        self.run_for(time);
        let seconds = self.now.saturating_since(from).as_secs_f64();
        (self.delivered - before) as f64 / (self.rate as f64 * seconds)
    }
}

/// 20 Mb/s, 40 ms: 100 packets, and a queue of twice as many.
fn path() -> Path {
    Path::new(2_500_000, Duration::from_millis(40), 200)
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn it_goes_through_its_states() {
    let mut path = path();
    assert_eq!(path.bbr.pacing_rate(), None);
    path.run_to(State::Drain);
    assert_eq!(path.bbr.state.pacing_gain(), 50);
    assert!(path.bbr.full_pipe.reached);
    assert!(path.bbr.max_bw().abs_diff(path.rate) <= path.rate / 50, "{}", path.bbr.max_bw());
    assert!(path.bbr.round <= 12, "doubled in each round: {}", path.bbr.round);
    // With the queue drained, Down is over at once.
    path.run_to(State::Cruise);
    assert!(path.in_flight() <= 110_000, "drained: {}", path.in_flight());
    path.run_for(seconds(4));
    use State::{Cruise, Down, Drain, Refill, Startup, Up};
    let cycle = [Startup, Drain, Cruise, Refill, Up, Down, Cruise];
    assert_eq!(path.states[..7], cycle, "{:?}", path.states);
    assert_eq!(path.dropped, 0, "the queue was long enough");
    let share = path.share(seconds(20));
    assert!(share > 0.93, "{share}");
}

#[test]
fn random_losses_of_one_percent_cost_little() {
    let mut path = path();
    path.lose_one_in = 100;
    path.run_for(seconds(2));
    let share = path.share(seconds(30));
    assert!(share > 0.8, "{share}");
    assert!(path.dropped > 500, "{}", path.dropped);
}

#[test]
fn losses_that_are_tolerated_cost_only_what_is_lost() {
    let share = |lossy: bool| {
        let mut path = path();
        path.lose_one_in = 20;
        if lossy {
            path.bbr.tolerated = Tolerated::LOSSY;
        }
        path.run_for(seconds(2));
        path.share(seconds(30))
    };
    let (draft, lossy) = (share(false), share(true));
    assert!(draft < 0.7, "{draft}");
    assert!(lossy > 0.85, "{lossy} of 0.95");
}

/// A queue of one packet drops what does not fit, as a policer does, and no delay warns of it.
#[test]
fn what_tolerates_losses_does_not_pour_into_a_policer() {
    let lost_per_mille = |tolerated| {
        let mut path = path();
        path.bbr.tolerated = tolerated;
        path.queue = 1;
        path.run_for(seconds(5));
        let (dropped, sent) = (path.dropped, path.number);
        assert!(path.share(seconds(60)) > 0.85);
        (path.dropped - dropped) * 1000 / (path.number - sent)
    };
    let lost = lost_per_mille(Tolerated::LOSSY);
    let unbounded = lost_per_mille(Tolerated { searching: 100, holding: 100 });
    assert!(lost < 5 && unbounded > 5, "{lost} and {unbounded} per mille");
}

#[test]
fn the_round_trip_time_is_measured_with_an_empty_queue_every_five_seconds() {
    let mut path = path();
    path.run_to(State::ProbeRtt);
    let entered = path.now;
    assert!(entered >= Instant::from_secs(5), "{entered:?}");
    path.run_for(Duration::from_millis(150));
    assert!(path.in_flight() <= 60_000, "half a product: {}", path.in_flight());
    path.run_until(|path| path.bbr.state != State::ProbeRtt);
    let took = path.now.saturating_since(entered);
    assert!((200..400).contains(&took.as_millis()), "{took:?}");
    assert_eq!(path.bbr.state, State::Cruise);
    assert!(path.bbr.min_rtt.get().is_some_and(|rtt| rtt < Duration::from_millis(42)));
    // The rate is not forgotten.
    assert!(path.bbr.bw > path.rate / 10 * 9, "{}", path.bbr.bw);
    let before = path.states.len();
    path.run_for(seconds(12));
    let again = path.states[before..].iter().filter(|state| **state == State::ProbeRtt).count();
    assert!((1..=3).contains(&again), "{again}");
}

#[test]
fn a_path_that_was_never_full_returns_to_startup() {
    let mut path = path();
    // 400 kb/s of 20 Mb/s, and a little more of a round-trip time after a while.
    path.interval = Some(Duration::from_millis(20));
    path.run_for(seconds(2));
    path.rtt = Duration::from_millis(45);
    path.run_to(State::ProbeRtt);
    path.run_until(|path| path.bbr.state != State::ProbeRtt);
    assert_eq!(path.bbr.state, State::Startup);
    path.run_for(seconds(20));
    assert!(!path.bbr.full_pipe.reached, "no loss and no full window: {:?}", path.states);
}

#[test]
fn a_pause_stands_for_probe_rtt_and_ends_at_the_former_rate() {
    let mut path = path();
    path.run_to(State::Cruise);
    path.interval = Some(Duration::from_micros(1));
    path.run_for(seconds(1));
    path.interval = Some(seconds(6));
    path.run_for(seconds(7));
    path.interval = None;
    let (before, rate) = (path.states.len(), path.bbr.max_bw());
    path.run_for(Duration::from_millis(500));
    assert!(!path.states[before..].contains(&State::ProbeRtt), "{:?}", path.states);
    assert!(rate > path.rate / 10 * 9 && path.bbr.pacing_rate() > Some(path.rate / 10 * 8));
    assert!(path.share(seconds(2)) > 0.85);
}

#[test]
fn losses_of_a_search_limit_the_flight_and_the_next_one_is_cautious() {
    let mut path = path();
    path.run_to(State::Up);
    // A full queue now drops what Up sends too much.
    path.queue = 8;
    path.run_to(State::Down);
    let limit = path.bbr.inflight_longterm;
    assert!(limit < 200_000, "{limit}");
    assert!(limit >= path.bbr.target_inflight() * 7 / 10, "{limit}");
    path.run_to(State::Cruise);
    let headroom = limit - limit * 15 / 100;
    assert!(path.bbr.cwnd() as u64 <= headroom.max(4000), "{} of {limit}", path.bbr.cwnd());
    path.run_to(State::Up);
    path.run_to(State::Down);
    let share = path.share(seconds(30));
    assert!(share > 0.75, "{share}");
    let (sent, dropped) = (path.number, path.dropped);
    path.run_for(seconds(10));
    let lost = (path.dropped - dropped) as f64 / (path.number - sent) as f64;
    assert!(lost < 0.02, "{lost}");
}

#[test]
fn ten_times_the_bandwidth_is_found_and_a_tenth_is_accepted() {
    let mut path = path();
    path.run_for(seconds(4));
    (path.rate, path.queue) = (25_000_000, 1000);
    let found = path.run_until(|path| path.bbr.max_bw() > 22_000_000);
    assert!(found && path.now < Instant::from_secs(12), "{:?}: {}", path.now, path.bbr.max_bw());
    (path.rate, path.queue) = (2_500_000, 100);
    let slow = path.now;
    path.run_until(|path| path.bbr.max_bw() < 2_700_000);
    let took = path.now.saturating_since(slow);
    assert!(took < seconds(12), "{took:?}: {}", path.bbr.max_bw());
    assert!(path.share(seconds(10)) > 0.8);
}

#[test]
fn a_path_for_less_than_a_packet_has_four_in_flight() {
    let mut path = Path::new(10_000, Duration::from_millis(1), 50);
    path.run_for(seconds(60));
    assert!(path.bbr.state.is_probe_bw() || path.bbr.state == State::ProbeRtt);
    // With four packets in flight the shortest round-trip time is that of four packets, and the window twice that.
    assert!((4..=12).contains(&(path.bbr.cwnd() as u64 / PACKET)), "{}", path.bbr.cwnd());
    assert!(path.share(seconds(60)) > 0.9);
    assert_eq!(path.dropped, 0);
}

#[test]
fn a_timeout_leaves_one_packet_and_the_former_window_returns() {
    let mut path = path();
    path.run_to(State::Cruise);
    let before = path.bbr.cwnd();
    // All that is in flight is lost.
    path.flight.iter_mut().for_each(|packet| packet.acked = None);
    path.queue = 0;
    path.run_until(|path| path.bbr.cwnd() == PACKET as usize);
    path.queue = 100;
    path.run_for(seconds(1));
    assert!(path.bbr.cwnd() >= before * 6 / 10, "{} after {before}", path.bbr.cwnd());
    assert!(path.share(seconds(10)) > 0.85);
}

#[test]
fn what_was_no_loss_is_undone() {
    let mut path = path();
    path.run_to(State::Up);
    let (now, cwnd) = (path.now, path.bbr.cwnd());
    path.bbr.on_congestion_event(&CongestionEvent::new(now, Loss::Reported, 100_000));
    path.bbr.on_lost(&LostData {
        now,
        cause: Loss::Reported,
        bytes: 5000,
        in_flight: 95_000,
        sample: Some(crate::congestion::LossSample {
            in_flight: 100_000,
            lost: 5000,
            app_limited: false,
        }),
    });
    assert_eq!(path.bbr.state, State::Down);
    assert!(path.bbr.inflight_longterm < u64::MAX);
    path.bbr.undo(now);
    assert_eq!(path.bbr.state, State::Refill, "another search");
    assert_eq!((path.bbr.inflight_longterm, path.bbr.cwnd()), (u64::MAX, cwnd));
}

#[test]
fn many_losses_in_a_round_end_startup() {
    let lossy = |events: u32, lost: u64, recovers: bool| {
        let mut path = path();
        path.run_until(|path| path.delivered >= 30 * PACKET);
        path.bbr.recovery = recovers.then_some(Recovery::Fast);
        path.bbr.short_term.loss_events = events;
        let sample = Sample {
            now: path.now,
            rate: 1_000_000,
            delivered: 40_000,
            before: Some(path.bbr.delivered),
            newly: PACKET,
            // Also if the application limits the rate.
            app_limited: true,
            sent_in_flight: 100_000,
            lost,
            rtt: Some(path.rtt),
            in_flight: 200_000,
        };
        path.bbr.update(&sample);
        (path.bbr.state, path.bbr.inflight_longterm < u64::MAX)
    };
    assert_eq!(lossy(6, 2001, true), (State::Drain, true));
    for (events, lost, recovers) in [(5, 2001, true), (6, 2000, true), (6, 2001, false)] {
        assert_eq!(lossy(events, lost, recovers), (State::Startup, false), "{events} {lost}");
    }
}

#[test]
fn another_network_is_unknown() {
    let mut path = path();
    path.run_for(seconds(3));
    let delivered = path.bbr.delivered;
    path.bbr.reinitialize(path.now);
    assert_eq!((path.bbr.state, path.bbr.max_bw()), (State::Startup, 0));
    assert_eq!((path.bbr.cwnd() as u64, path.bbr.pacing_rate()), (10 * PACKET, None));
    assert_eq!(path.bbr.delivered, delivered, "the engine counts on");
    path.run_for(seconds(3));
    assert!(path.share(seconds(3)) > 0.85);
}
