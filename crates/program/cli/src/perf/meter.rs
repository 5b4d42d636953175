//! Counts the traffic of the associations of a measurement.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anabranch::{Association, PathTotals};
use serde::Serialize;

use super::latency::{Latency, LatencyReport};

/// Counters of an association, which the tasks that send and receive update.
#[derive(Debug)]
pub(crate) struct Counts {
    begun: Instant,
    messages_sent: AtomicU64,
    bytes_sent: AtomicU64,
    messages_received: AtomicU64,
    bytes_received: AtomicU64,
    /// Times of the request and of the last byte received, in nanoseconds after `begun`.
    started: AtomicU64,
    last_received: AtomicU64,
    /// The longest time without received data, in nanoseconds.
    longest_gap: AtomicU64,
}

impl Counts {
    pub(crate) fn new() -> Self {
        Self {
            begun: Instant::now(),
            messages_sent: AtomicU64::new(0),
            bytes_sent: AtomicU64::new(0),
            messages_received: AtomicU64::new(0),
            bytes_received: AtomicU64::new(0),
            started: AtomicU64::new(0),
            last_received: AtomicU64::new(0),
            longest_gap: AtomicU64::new(0),
        }
    }

    /// Counts a message that was passed to the association for sending.
    pub(crate) fn sent(&self, bytes: usize) {
        self.messages_sent.fetch_add(1, Relaxed);
        self.bytes_sent.fetch_add(bytes as u64, Relaxed);
    }

    /// Counts a received message; if it comes in parts, `whole` is true for the last one.
    pub(crate) fn received(&self, bytes: usize, whole: bool) {
        self.received_at(self.now());
        self.bytes_received.fetch_add(bytes as u64, Relaxed);
        self.messages_received.fetch_add(u64::from(whole), Relaxed);
    }

    /// Records that something was received, `now` nanoseconds after `begun`.
    fn received_at(&self, now: u64) {
        let before = self.last_received.swap(now, Relaxed).max(self.started.load(Relaxed));
        self.longest_gap.fetch_max(now.saturating_sub(before), Relaxed);
    }

    /// Records that the client has sent its request, from which times are measured.
    pub(crate) fn start(&self) {
        self.started.store(self.now(), Relaxed);
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    pub(crate) fn totals(&self) -> Totals {
        Totals {
            messages_sent: self.messages_sent.load(Relaxed),
            bytes_sent: self.bytes_sent.load(Relaxed),
            messages_received: self.messages_received.load(Relaxed),
            bytes_received: self.bytes_received.load(Relaxed),
        }
    }

    /// Seconds from the request to the last byte received.
    pub(crate) fn receiving_seconds(&self) -> f64 {
        let (started, last) = (self.started.load(Relaxed), self.last_received.load(Relaxed));
        last.saturating_sub(started) as f64 * 1e-9
    }

    /// The longest time without received data, in seconds, between the request and the last byte.
    pub(crate) fn longest_gap_seconds(&self) -> f64 {
        self.longest_gap.load(Relaxed) as f64 * 1e-9
    }

    /// Waits until `bytes` bytes were received. Polls often enough for a measurement.
    pub(crate) async fn wait_for(&self, bytes: u64) {
        while self.bytes_received.load(Relaxed) < bytes {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Seconds since the request.
    pub(crate) fn seconds(&self) -> f64 {
        self.now().saturating_sub(self.started.load(Relaxed)) as f64 * 1e-9
    }
}

/// The numbers of sent and received messages and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Totals {
    pub(crate) messages_sent: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) messages_received: u64,
    pub(crate) bytes_received: u64,
}

impl Totals {
    fn add(&mut self, other: Self) {
        self.messages_sent += other.messages_sent;
        self.bytes_sent += other.bytes_sent;
        self.messages_received += other.messages_received;
        self.bytes_received += other.bytes_received;
    }

    fn since(self, earlier: Self) -> Self {
        // The difference of sent bytes may be negative: unacknowledged data can grow faster than
        // sent data.
        Self {
            messages_sent: self.messages_sent.saturating_sub(earlier.messages_sent),
            bytes_sent: self.bytes_sent.saturating_sub(earlier.bytes_sent),
            messages_received: self.messages_received.saturating_sub(earlier.messages_received),
            bytes_received: self.bytes_received.saturating_sub(earlier.bytes_received),
        }
    }
}

/// A pair of addresses during an interval, summed over all associations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct PathInterval {
    pub(crate) local: IpAddr,
    pub(crate) remote: IpAddr,
    /// Number of associations that have this path.
    pub(crate) associations: u64,
    /// Number of those in which it is active.
    pub(crate) active: u64,
    /// Number of those in which it is potentially failed.
    pub(crate) potentially_failed: u64,
    /// Number of those that send new data on it.
    pub(crate) primary: u64,
    /// Traffic during the interval.
    #[serde(flatten)]
    pub(crate) totals: PathTotals,
    /// Sums of the congestion windows and of the bytes in flight at the interval's end.
    pub(crate) cwnd: u64,
    pub(crate) flight: u64,
    /// Largest smoothed round-trip time and retransmission timeout at the interval's end.
    pub(crate) srtt_seconds: Option<f64>,
    pub(crate) rto_seconds: f64,
    pub(crate) mtu: u16,
}

/// What happened in an interval.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Interval {
    pub(crate) from_seconds: f64,
    pub(crate) to_seconds: f64,
    /// Number of associations that are open at the end of the interval.
    pub(crate) associations: usize,
    /// Sent bytes are those acknowledged, as far as this side knows.
    #[serde(flatten)]
    pub(crate) totals: Totals,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) round_trip: Option<LatencyReport>,
    pub(crate) paths: Vec<PathInterval>,
}

/// Watches the associations of a measurement.
#[derive(Debug)]
pub(crate) struct Meter {
    begun: Instant,
    members: Mutex<Vec<Member>>,
    latency: Mutex<Latency>,
    last: Mutex<Last>,
}

#[derive(Debug)]
struct Member {
    association: Association,
    counts: Arc<Counts>,
}

/// The totals at a point in time.
#[derive(Clone, Debug, Default)]
struct Look {
    seconds: f64,
    associations: usize,
    totals: Totals,
    counters: BTreeMap<(IpAddr, IpAddr), PathTotals>,
    /// Current state of the paths of open associations.
    gauges: BTreeMap<(IpAddr, IpAddr), PathInterval>,
}

#[derive(Debug, Default)]
struct Last {
    /// The totals at the end of the last interval.
    look: Look,
    /// Totals of the removed associations.
    gone: Look,
}

impl Meter {
    pub(crate) fn new() -> Result<Self, hdrhistogram::CreationError> {
        Ok(Self {
            begun: Instant::now(),
            members: Mutex::default(),
            latency: Mutex::new(Latency::new()?),
            last: Mutex::default(),
        })
    }

    /// Watches an association from now on.
    pub(crate) fn add(&self, association: &Association, counts: &Arc<Counts>) {
        let member = Member { association: association.clone(), counts: Arc::clone(counts) };
        lock(&self.members).push(member);
    }

    /// Stops watching an association; its traffic remains in the totals.
    pub(crate) fn remove(&self, counts: &Arc<Counts>) {
        let mut last = lock(&self.last);
        let mut members = lock(&self.members);
        let Some(index) = members.iter().position(|m| Arc::ptr_eq(&m.counts, counts)) else {
            return;
        };
        let member = members.swap_remove(index);
        drop(members);
        last.gone.totals.add(member.counts.totals());
        let statistics = member.association.statistics();
        for path in &statistics.paths {
            let key = (path.local, path.remote);
            *last.gone.counters.entry(key).or_default() += path.into();
        }
    }

    /// Adds a round-trip time.
    pub(crate) fn round_trip(&self, time: Duration) {
        lock(&self.latency).add(time);
    }

    /// All round-trip times.
    pub(crate) fn round_trips(&self) -> Option<LatencyReport> {
        lock(&self.latency).take_total()
    }

    /// Seconds since the measurement began.
    pub(crate) fn seconds(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// The changes since the last call.
    pub(crate) fn interval(&self) -> Interval {
        let mut last = lock(&self.last);
        let now = self.look(&last);
        let mut interval = now.since(&last.look);
        interval.round_trip = lock(&self.latency).take_interval();
        last.look = now;
        last.forget_pairs();
        interval
    }

    /// The changes since the start of the measurement.
    pub(crate) fn whole(&self) -> Interval {
        self.look(&lock(&self.last)).since(&Look::default())
    }

    /// Sums up all associations.
    fn look(&self, last: &Last) -> Look {
        let mut look = Look { seconds: self.seconds(), ..last.gone.clone() };
        let members = lock(&self.members);
        look.associations = members.len();
        for member in &*members {
            let mut totals = member.counts.totals();
            let statistics = member.association.statistics();
            let waiting = statistics.send_queue_bytes + statistics.outstanding_bytes;
            totals.bytes_sent = totals.bytes_sent.saturating_sub(waiting as u64);
            for path in &statistics.paths {
                let key = (path.local, path.remote);
                *look.counters.entry(key).or_default() += path.into();
                let gauge = look.gauges.entry(key).or_insert_with(|| gauge(path));
                add_gauges(gauge, path, path.id == statistics.active);
            }
            look.totals.add(totals);
        }
        look
    }
}

impl Last {
    /// Drops pairs of addresses without an open association, because peers could create any number
    /// of them.
    fn forget_pairs(&mut self) {
        let Self { look, gone } = self;
        gone.counters.retain(|pair, _| look.gauges.contains_key(pair));
        look.counters.retain(|pair, _| look.gauges.contains_key(pair));
    }
}

impl Look {
    fn since(&self, before: &Self) -> Interval {
        let paths = self.gauges.iter().map(|(key, gauge)| {
            let now = self.counters.get(key).copied().unwrap_or_default();
            let then = before.counters.get(key).copied().unwrap_or_default();
            PathInterval { totals: now - then, ..gauge.clone() }
        });
        Interval {
            from_seconds: before.seconds,
            to_seconds: self.seconds,
            associations: self.associations,
            totals: self.totals.since(before.totals),
            round_trip: None,
            paths: paths.collect(),
        }
    }
}

/// A path without traffic.
fn gauge(path: &anabranch::PathStatistics) -> PathInterval {
    PathInterval {
        local: path.local,
        remote: path.remote,
        associations: 0,
        active: 0,
        potentially_failed: 0,
        primary: 0,
        totals: PathTotals::default(),
        cwnd: 0,
        flight: 0,
        srtt_seconds: None,
        rto_seconds: 0.0,
        mtu: path.mtu,
    }
}

fn add_gauges(gauge: &mut PathInterval, path: &anabranch::PathStatistics, primary: bool) {
    gauge.associations += 1;
    gauge.active += u64::from(path.state == anabranch::PathState::Active);
    gauge.potentially_failed += u64::from(path.state == anabranch::PathState::PotentiallyFailed);
    gauge.primary += u64::from(primary);
    gauge.cwnd += path.cwnd as u64;
    gauge.flight += path.flight as u64;
    let srtt = path.srtt.map(|srtt| srtt.as_secs_f64());
    gauge.srtt_seconds = [gauge.srtt_seconds, srtt].into_iter().flatten().reduce(f64::max);
    gauge.rto_seconds = gauge.rto_seconds.max(path.rto.as_secs_f64());
    gauge.mtu = gauge.mtu.min(path.mtu);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_gap_counts_from_the_request() {
        let counts = Counts::new();
        counts.started.store(7_000_000_000, Relaxed);
        for seconds in [8, 9, 12, 14] {
            counts.received_at(seconds * 1_000_000_000);
        }
        assert_eq!(counts.longest_gap_seconds(), 3.0);
        counts.received_at(18_000_000_000);
        assert_eq!(counts.longest_gap_seconds(), 4.0);
    }

    #[test]
    fn counts_add_up() {
        let counts = Counts::new();
        assert_eq!((counts.totals(), counts.receiving_seconds()), (Totals::default(), 0.0));
        counts.sent(10);
        counts.received(700, false);
        counts.received(300, true);
        let totals = counts.totals();
        assert_eq!((totals.messages_sent, totals.bytes_sent), (1, 10));
        assert_eq!((totals.messages_received, totals.bytes_received), (1, 1000));
        let mut sum = totals;
        sum.add(totals);
        assert_eq!(sum.since(totals), totals);
        assert_eq!(Totals::default().since(sum), Totals::default());
    }
    #[test]
    fn pairs_that_nobody_has_any_more_are_forgotten() {
        let pair = |last| ([127, 0, 0, 1].into(), [127, 0, 0, last].into());
        let here = |(local, remote): (IpAddr, IpAddr)| {
            let path = super::super::report::tests::path();
            ((local, remote), PathInterval { local, remote, ..path })
        };
        let counters = || (1..=9).map(|last| (pair(last), PathTotals::default())).collect();
        let gauges = BTreeMap::from([here(pair(2))]);
        let look = Look { counters: counters(), gauges, ..Look::default() };
        let gone = Look { counters: counters(), ..Look::default() };
        let mut last = Last { look, gone };
        last.forget_pairs();
        assert!(last.look.counters.keys().eq([&pair(2)]));
        assert!(last.gone.counters.keys().eq([&pair(2)]));
    }
}
