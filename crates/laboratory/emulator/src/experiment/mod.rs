//! Scenarios of the laboratory with real sockets: the same file and the same links, in real time.
//!
//! Each run has its own network with a namespace for each host. Transfers are threads of this program that have moved
//! to these namespaces, so both ends of a transfer use the same clock.

mod addresses;
mod arrivals;
mod association;
mod captured;
mod confusion;
mod connection;
mod counters;
mod fates;
mod ground;
mod place;
mod program;
mod refusal;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anabranch_impair::{LinkStats, Rng};
use anabranch_lab::metrics::Metrics;
use anabranch_lab::observed::{self, Observed};
use anabranch_lab::runner::Experiment;
use anabranch_lab::scenario::Point;
use anabranch_lab::setup::{Over, Setup};

use self::fates::First;
use self::ground::Ground;
use crate::network::Summary;

/// Runs a point's setup with real sockets. Call it inside the namespaces of [`isolation`](crate::isolation).
pub(crate) struct Emulated {
    /// Set when the user wants to stop.
    stop: Arc<AtomicBool>,
    first: First,
}

impl Emulated {
    pub(crate) fn new(stop: Arc<AtomicBool>) -> Self {
        Self { stop, first: First::default() }
    }
}

/// Shared by all ends of transfers.
#[derive(Clone)]
struct Course {
    setup: Arc<Setup>,
    /// When the run began.
    begun: Instant,
    /// When the run is given up.
    limit: Instant,
    stop: Arc<AtomicBool>,
    /// Start of each transfer.
    starts: Arc<Vec<Duration>>,
    /// Addresses of the sender's and the receiver's host on each path.
    pairs: Arc<Vec<(IpAddr, IpAddr)>>,
}

impl Course {
    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Whether the time is over or the user wants to stop.
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || Instant::now() >= self.limit
    }

    /// The path of an address of either host.
    fn path_of(&self, address: IpAddr) -> Option<usize> {
        self.pairs.iter().position(|(near, far)| *near == address || *far == address)
    }
}

/// Random stream for the starts of transfers.
const STARTS: u64 = 78;

impl Experiment for Emulated {
    fn run(&self, point: &Point, seed: u64) -> Result<Metrics, String> {
        let setup = &point.setup;
        refusal::check(setup)?;
        let watched = match setup.fates || setup.analysis {
            true => {
                let made = tempfile::tempdir();
                Some(made.map_err(|error| format!("there is no room for a log: {error}"))?)
            }
            false => None,
        };
        let ground = Ground::make(setup, seed, watched.as_ref().map(tempfile::TempDir::path))?;
        let mut draws = Rng::stream(seed, STARTS);
        let starts = setup.transfers.iter().map(|transfer| {
            let within = u64::try_from(transfer.start_within.as_nanos()).unwrap_or(u64::MAX);
            transfer.start + Duration::from_nanos(draws.below(within.saturating_add(1)))
        });
        let course = Course {
            setup: Arc::clone(setup),
            begun: ground.begun,
            limit: ground.begun + setup.time_limit,
            stop: Arc::clone(&self.stop),
            starts: Arc::new(starts.collect()),
            pairs: Arc::new(ground.pairs.clone()),
        };
        let mut metrics = Metrics::default();
        let ran = transfers(&ground, &course, &mut metrics);
        let ended = course.now();
        // Do not count packets in transit as lost.
        let longest = setup.network.paths.iter().map(|path| setup.network.rtt(path)).max();
        std::thread::sleep(longest.unwrap_or_default().min(Duration::from_secs(2)));
        let summary = ground.end();
        let all = ran?;
        let summary = summary?;
        if self.stop.load(Ordering::Relaxed) {
            return Err("interrupted".into());
        }
        told(setup, &all, ended, &mut metrics);
        links(setup, &summary, &mut metrics);
        if let (Some(directory), Some(path)) = (&watched, setup.network.paths.first()) {
            let reversed = path.links.iter().any(|(link, back)| *link == path.core && *back);
            let way = format!("l{}{}", path.core, ['>', '<'][usize::from(reversed)]);
            let from = course.pairs.first().map_or(IpAddr::from([0; 4]), |pair| pair.0);
            let files =
                (directory.path().join(ground::LOG), directory.path().join(ground::CAPTURE));
            let files = (files.0.as_path(), files.1.as_path());
            if setup.fates {
                self.first.compare(&point.key, files, (&way, from), &mut metrics)?;
            }
            if setup.analysis {
                confusion::measure(files, (&way, from), &mut metrics)?;
            }
        }
        Ok(metrics)
    }
}

/// Executes all transfers of a run.
fn transfers(
    ground: &Ground,
    course: &Course,
    metrics: &mut Metrics,
) -> Result<Vec<Observed>, String> {
    let (mut associations, mut connections, mut programs) = (Vec::new(), Vec::new(), Vec::new());
    for (index, transfer) in course.setup.transfers.iter().enumerate() {
        match transfer.over {
            Over::Sctp => associations.push(index),
            Over::Tcp => connections.push(index),
            Over::Program(program) => programs.push((index, program)),
        }
    }
    let mut all = vec![Observed::default(); course.setup.transfers.len()];
    let begun = match associations.is_empty() {
        true => None,
        false => Some(association::begin(ground, course, &associations)?),
    };
    let connections = connections.into_iter().map(|i| connection::begin(ground, course, i));
    let connections: Vec<_> = connections.collect::<Result<_, _>>()?;
    let programs = programs.into_iter().map(|(i, own)| program::begin(ground, course, i, own));
    let programs: Vec<_> = programs.collect::<Result<_, _>>()?;
    for connection in connections {
        let (index, seen) = connection.end(metrics)?;
        if let Some(place) = all.get_mut(index) {
            *place = seen;
        }
    }
    for program in programs {
        let (index, seen) = program.end(metrics)?;
        if let Some(place) = all.get_mut(index) {
            *place = seen;
        }
    }
    if let Some(begun) = begun {
        for (index, seen) in begun.end(course, metrics)? {
            if let Some(place) = all.get_mut(index) {
                *place = seen;
            }
        }
    }
    Ok(all)
}

/// Sets the metrics observed for the transfers.
fn told(setup: &Setup, all: &[Observed], ended: Duration, metrics: &mut Metrics) {
    let complete = all.iter().all(|seen| seen.completed.is_some());
    metrics.set("complete", f64::from(u8::from(complete)));
    if let Some(first) = all.first() {
        first.measure(ended, metrics);
        let seconds = ended.saturating_sub(setup.measure_from).as_secs_f64();
        metrics.set("throughput_kbit_s", first.bytes as f64 * 8e-3 / seconds.max(1e-9));
    }
    observed::compare(all, (Duration::ZERO, &[]), ended, metrics);
}

/// Sets the metrics of the links.
fn links(setup: &Setup, summary: &Summary, metrics: &mut Metrics) {
    let of = |link: usize, way: usize| summary.statistics.get(2 * link + way).copied();
    let not_sctp = setup.transfers.first().is_some_and(|first| first.over != Over::Sctp);
    for (index, path) in setup.network.paths.iter().enumerate() {
        let reversed = path.links.iter().any(|(link, back)| *link == path.core && *back);
        let forward = usize::from(reversed);
        let (Some(there), Some(back)) = (of(path.core, forward), of(path.core, 1 - forward)) else {
            continue;
        };
        let number = index + 1;
        let mut set = |name: String, value: f64| metrics.set(&name, value);
        set(format!("lost_path{number}"), lost(&there) as f64);
        set(format!("late_path{number}"), there.reordered as f64);
        let share = |lost: u64, offered: u64| 100.0 * lost as f64 / offered.max(1) as f64;
        if there.offered > 0 {
            set(format!("dropped_path{number}_percent"), share(lost(&there), there.offered));
            let (lost, offered) = (lost(&there) + lost(&back), there.offered + back.offered);
            set(format!("loss_path{number}_percent"), share(lost, offered));
        }
        // For associations, their own statistics count this.
        if let (true, Some((first, back))) = (not_sctp, path.links.first()) {
            let sent = of(*first, usize::from(*back)).map_or(0, |stats| stats.offered);
            set(format!("packets_sent_path{number}"), sent as f64);
        }
    }
}

/// Packets that a link lost.
fn lost(stats: &LinkStats) -> u64 {
    stats.lost_model + stats.lost_down + stats.queue_drops + stats.early_drops + stats.too_big
}
