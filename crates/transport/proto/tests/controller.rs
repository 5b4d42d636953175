//! A congestion controller that a user brings.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_harness::{Pair, Verdict};
use anabranch_proto::Instant;
use anabranch_proto::config::MultipathMode;
use anabranch_proto::congestion::{
    Acked, CongestionControl, CongestionEvent, Controller, ControllerChoice, ControllerFactory,
    LossSample, LostData, Needs, NewPath, RateSample, Rtt, Sent,
};
use anabranch_proto::{AssociationConfig, BurstControl};
use anabranch_wire::kind;

/// Counts the calls of a controller and records their arguments.
#[derive(Debug, Default)]
struct Calls {
    acked: AtomicUsize,
    acked_bytes: AtomicUsize,
    congestion: AtomicUsize,
    lost_bytes: AtomicUsize,
    rates: Mutex<Vec<RateSample>>,
    packet_rtts: AtomicUsize,
    losses: Mutex<Vec<(usize, LossSample)>>,
    sent: AtomicUsize,
    sent_bytes: AtomicUsize,
    rtt: AtomicUsize,
}

/// A window that is always the same.
#[derive(Debug)]
struct Fixed {
    packets: usize,
    rate: Option<u64>,
    samples: bool,
    pmdcs: usize,
    calls: Arc<Calls>,
}

impl Controller for Fixed {
    fn cwnd(&self) -> usize {
        self.packets * self.pmdcs
    }

    fn pacing_rate(&self) -> Option<u64> {
        self.rate
    }

    fn needs(&self) -> Needs {
        if self.samples {
            Needs::default().with_rate_samples().with_packet_rtts().with_pacing()
        } else {
            Needs::default()
        }
    }

    fn on_acked(&mut self, acked: &Acked<'_>) {
        assert!(acked.bytes > 0);
        self.calls.acked.fetch_add(1, Relaxed);
        self.calls.acked_bytes.fetch_add(acked.bytes, Relaxed);
        assert!(acked.rtt.min <= acked.rtt.latest.or(acked.rtt.min), "{:?}", acked.rtt);
        assert!(self.samples || acked.rate.is_none());
        self.calls.rates.lock().unwrap().extend(acked.rate);
        assert!(acked.in_flight <= acked.flight_before && acked.all == (acked.in_flight == 0));
        assert!(self.samples || acked.packet_rtt.is_none());
        self.calls.packet_rtts.fetch_add(usize::from(acked.packet_rtt.is_some()), Relaxed);
    }

    fn on_congestion_event(&mut self, event: &CongestionEvent<'_>) {
        assert!(event.in_flight > 0);
        self.calls.congestion.fetch_add(1, Relaxed);
    }

    fn on_lost(&mut self, lost: &LostData) {
        self.calls.lost_bytes.fetch_add(lost.bytes, Relaxed);
        assert!(self.samples || lost.sample.is_none());
        self.calls.losses.lock().unwrap().extend(lost.sample.map(|sample| (lost.bytes, sample)));
    }

    fn on_sent(&mut self, sent: &Sent) {
        assert!(sent.bytes <= sent.in_flight);
        assert!(!sent.app_limited || sent.in_flight < self.cwnd());
        self.calls.sent.fetch_add(1, Relaxed);
        self.calls.sent_bytes.fetch_add(sent.bytes, Relaxed);
    }

    fn on_rtt(&mut self, _: Instant, rtt: &Rtt) {
        assert!(rtt.latest.is_some() && rtt.smoothed.is_some() && rtt.min <= rtt.latest);
        self.calls.rtt.fetch_add(1, Relaxed);
    }

    fn on_pmdcs_change(&mut self, _: Instant, pmdcs: usize) {
        self.pmdcs = pmdcs;
    }

    fn reinitialize(&mut self, _: Instant) {}
}

/// For windows of `packets`, paced at `rate` bytes per second.
#[derive(Debug, Default)]
struct Factory {
    packets: usize,
    rate: Option<u64>,
    samples: bool,
    calls: Arc<Calls>,
}

impl ControllerFactory for Factory {
    fn build(&self, path: &NewPath<'_>) -> Box<dyn Controller> {
        let &Self { packets, rate, samples, ref calls } = self;
        Box::new(Fixed { packets, rate, samples, pmdcs: path.pmdcs, calls: Arc::clone(calls) })
    }
}

#[test]
fn it_bounds_what_is_in_flight_and_is_told_once_an_acknowledgement() {
    let mut config = AssociationConfig::rfc9260();
    config.timers.heartbeat_interval = None;
    config.mtu.discovery = false;
    let calls = Arc::new(Calls::default());
    let mut client = config.clone();
    let factory = Factory { packets: 3, calls: Arc::clone(&calls), ..Factory::default() };
    client.controller = ControllerChoice::new(factory);
    assert_ne!(client, config, "it is an option like others");
    let mut pair = Pair::new(1, config);
    pair.connect(client);
    assert!(pair.run_until(Duration::from_secs(5), |pair| pair.both_up()));
    // One packet of the middle is lost.
    let mut packets = 0;
    pair.net.script(move |sight| {
        packets += usize::from(sight.node == 0 && sight.has(kind::DATA));
        let drop = packets == 20 && sight.has(kind::DATA);
        packets += usize::from(drop);
        if drop { Verdict::Drop } else { Verdict::Pass }
    });
    assert!(pair.send(0, 0, vec![5; 100_000]));
    let mut most = 0;
    while pair.received_len(1) < 100_000 {
        pair.run(Duration::from_millis(1));
        most = most.max(pair.statistics(0).paths[0].flight);
        assert!(pair.net.now().as_nanos() < 60_000_000_000, "{}", pair.received_len(1));
    }
    pair.run(Duration::from_secs(1));
    let path = &pair.statistics(0).paths[0];
    assert_eq!((path.cwnd, path.ssthresh), (most, usize::MAX), "a full window, and no more");
    let sacks = pair.statistics(0).counters.sacks_received as usize;
    let acked = calls.acked.load(Relaxed);
    assert!((10..=sacks).contains(&acked), "{acked} times for {sacks} SACKs");
    assert_eq!(calls.congestion.load(Relaxed), 1);
    let lost = calls.lost_bytes.load(Relaxed);
    assert!((1000..1500).contains(&lost), "one packet: {lost} bytes");
    assert_eq!(calls.acked_bytes.load(Relaxed) + lost, calls.sent_bytes.load(Relaxed));
    assert!(calls.sent.load(Relaxed) <= path.data_packets_sent as usize);
    // The message in chunks with headers, and one of them a second time.
    let bytes = calls.sent_bytes.load(Relaxed);
    assert!((101_000..105_000).contains(&bytes), "{bytes} bytes");
    assert!(calls.rtt.load(Relaxed) >= 10, "{calls:?}");
}

#[test]
fn its_rate_is_kept() {
    const RATE: u64 = 50_000;
    const QUANTUM: u32 = 2;
    let mut config = AssociationConfig::rfc9260();
    config.timers.heartbeat_interval = None;
    config.mtu.discovery = false;
    config.congestion.burst = BurstControl::Pacing { quantum: QUANTUM };
    let mut client = config.clone();
    let factory = Factory { packets: 1000, rate: Some(RATE), ..Factory::default() };
    client.controller = ControllerChoice::new(factory);
    let mut pair = Pair::new(1, config);
    pair.connect(client);
    assert!(pair.run_until(Duration::from_secs(5), |pair| pair.both_up()));
    pair.forget();
    assert!(pair.send(0, 0, vec![5; 100_000]));
    assert!(pair.run_until(Duration::from_secs(20), |pair| pair.received_len(1) == 100_000));
    let sent: Vec<(u64, usize)> =
        pair.sent(0).iter().map(|(at, bytes)| (at.as_nanos(), bytes.len())).collect();
    // Starting at any packet, at most the rate and a quantum are sent.
    for (index, (from, _)) in sent.iter().enumerate() {
        let mut bytes = 0;
        for (at, length) in &sent[index..] {
            bytes += length;
            let allowed = (at - from) * RATE / 1_000_000_000 + u64::from(QUANTUM) * 1500 + 1500;
            assert!(bytes as u64 <= allowed, "{bytes} bytes in {} ns", at - from);
        }
    }
    let took = sent.last().unwrap().0 - sent[0].0;
    assert!(took < 2_200_000_000, "no slower, either: {took} ns");
}

/// The input of a rate-based controller: the rate of the bottleneck, and whether the application was slower.
#[test]
fn rate_samples_say_what_the_path_carries() {
    const RATE: u64 = 50_000;
    let mut config = AssociationConfig::rfc9260();
    config.timers.heartbeat_interval = None;
    config.mtu.discovery = false;
    let mut client = config.clone();
    let calls = Arc::new(Calls::default());
    // Paced without the option: the controller needs it.
    client.congestion.burst = BurstControl::Unlimited;
    client.controller = ControllerChoice::new(Factory {
        packets: 1000,
        rate: Some(RATE),
        samples: true,
        calls: Arc::clone(&calls),
    });
    let mut pair = Pair::new(1, config);
    pair.connect(client);
    assert!(pair.run_until(Duration::from_secs(5), |pair| pair.both_up()));
    assert!(pair.send(0, 0, vec![5; 100_000]));
    assert!(pair.run_until(Duration::from_secs(20), |pair| pair.received_len(1) == 100_000));
    pair.run(Duration::from_secs(1));
    let rates = std::mem::take(&mut *calls.rates.lock().unwrap());
    assert!(rates.len() >= 20, "{}", rates.len());
    // Skip the first ones, which are from one burst, and the last one, whose acknowledgement was delayed.
    for sample in &rates[4..rates.len() - 2] {
        assert!(sample.rate().abs_diff(RATE) < RATE / 4, "{sample:?}");
    }
    assert!(rates.iter().all(|sample| sample.delivered_before <= sample.delivered - sample.bytes));
    assert!(rates.iter().all(|sample| sample.in_flight > 0 && sample.lost == 0));
    let acked = calls.acked.load(Relaxed);
    assert_eq!(calls.packet_rtts.load(Relaxed), acked, "nothing was sent twice");
    // A little data now and then shows that, and not the capacity of the path.
    for _ in 0..5 {
        assert!(pair.send(0, 0, vec![5; 500]));
        pair.run(Duration::from_secs(1));
    }
    let rates = calls.rates.lock().unwrap();
    assert!(rates.len() >= 4 && rates[1..].iter().all(|sample| sample.app_limited), "{rates:?}");
}

/// What a loss says about the flight in which it occurred.
#[test]
fn loss_samples_say_what_was_in_flight() {
    let mut config = AssociationConfig::default();
    config.timers.heartbeat_interval = None;
    config.mtu.discovery = false;
    let mut client = config.clone();
    let calls = Arc::new(Calls::default());
    client.controller = ControllerChoice::new(Factory {
        packets: 20,
        rate: Some(200_000),
        samples: true,
        calls: Arc::clone(&calls),
    });
    let mut pair = Pair::new(1, config);
    pair.connect(client);
    assert!(pair.run_until(Duration::from_secs(5), |pair| pair.both_up()));
    let mut packets = 0;
    pair.net.script(move |sight| {
        packets += usize::from(sight.node == 0 && sight.has(kind::DATA));
        let drop = (packets == 30 || packets == 31) && sight.has(kind::DATA) && sight.node == 0;
        if drop { Verdict::Drop } else { Verdict::Pass }
    });
    assert!(pair.send(0, 0, vec![5; 100_000]));
    assert!(pair.run_until(Duration::from_secs(20), |pair| pair.received_len(1) == 100_000));
    pair.run(Duration::from_secs(1));
    let losses = calls.losses.lock().unwrap();
    let lost: usize = losses.iter().map(|(bytes, _)| bytes).sum();
    assert_eq!(lost, calls.lost_bytes.load(Relaxed));
    assert!((2000..3000).contains(&lost), "two packets: {losses:?}");
    let last = losses.last().unwrap().1;
    assert_eq!(last.lost as usize, lost, "both left before the first loss was known");
    assert!((1000..=20 * 1500).contains(&last.in_flight) && !last.app_limited, "{last:?}");
    let rates = calls.rates.lock().unwrap();
    assert!(rates.iter().any(|sample| sample.lost as usize == lost), "{rates:?}");
    assert_eq!(rates.last().unwrap().lost, 0, "after the repair");
}

/// A name in the options is enough to have another controller.
#[test]
fn controllers_are_chosen_by_name() {
    let windows = |name: &str| {
        let mut config = AssociationConfig::default();
        config.timers.heartbeat_interval = None;
        let mut client = config.clone();
        client.set("congestion-control", name).unwrap();
        assert_eq!(client.congestion.congestion_control.name(), name);
        let mut pair = Pair::new(1, config);
        pair.connect(client);
        assert!(pair.run_until(Duration::from_secs(5), |pair| pair.both_up()));
        assert!(pair.send(0, 0, vec![5; 400_000]));
        let mut packets = 0;
        pair.net.script(move |sight| {
            packets += usize::from(sight.node == 0 && sight.has(kind::DATA));
            let drop = packets == 60 && sight.has(kind::DATA);
            packets += usize::from(drop);
            if drop { Verdict::Drop } else { Verdict::Pass }
        });
        assert!(pair.run_until(Duration::from_secs(60), |pair| pair.received_len(1) == 400_000));
        let path = &pair.statistics(0).paths[0];
        (path.cwnd, path.ssthresh)
    };
    let [usual, rfc9260, cubic, bbr] = ["usual", "rfc9260", "cubic", "bbr"].map(windows);
    assert_ne!(rfc9260, cubic, "half is left of one, and 0.7 of the other");
    assert_ne!(cubic, bbr);
    assert_eq!(usual, cubic);
    assert!(AssociationConfig::default().set("congestion-control", "reno").is_err());
}

/// BBR has a start of its own.
#[test]
fn the_end_of_slow_start_is_chosen_where_there_is_one() {
    let mut config = AssociationConfig::default();
    config.set("slow-start", "hystart++").unwrap();
    for (control, valid) in
        [("rfc9260", true), ("cubic", true), ("bbr", false), ("bbr-lossy", false)]
    {
        config.set("congestion", control).unwrap();
        assert_eq!(config.validate().is_ok(), valid, "{control}");
    }
    let error = config.validate().unwrap_err().to_string();
    assert!(error.contains("slow_start") && error.contains("bbr"), "{error}");
    config.set("slow-start", "usual").unwrap();
    assert!(config.validate().is_ok());
}

/// The growth of coupled windows is defined for RFC 9260's controller, and LIA's for CUBIC, too.
#[test]
fn a_coupling_needs_the_controller_it_is_for() {
    let mut config = AssociationConfig::bulk().with_multipath(MultipathMode::CmtPf);
    assert_eq!(config.congestion_control(), CongestionControl::Cubic);
    config.set("coupling", "lia").unwrap();
    assert!(config.validate().is_ok());
    assert_eq!(config.congestion_control(), CongestionControl::Rfc9260);
    config.set("congestion-control", "cubic").unwrap();
    assert!(config.validate().is_ok());
    for (control, coupling) in [
        ("bbr", "lia"),
        ("bbr-lossy", "lia"),
        ("bbr", "olia"),
        ("cubic", "olia"),
        ("cubic", "cmt-rpv2"),
    ] {
        config.set("congestion-control", control).unwrap();
        config.set("coupling", coupling).unwrap();
        let error = config.validate().unwrap_err().to_string();
        assert!(error.contains("rfc9260") && error.contains("lia"), "{error}");
    }
    config.set("coupling", "uncoupled").unwrap();
    assert!(config.validate().is_ok());
}
