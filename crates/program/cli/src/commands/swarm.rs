//! `swarm`: random runs of the protocol engine.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anabranch::AssociationConfig;
use anabranch_swarm::{Failure as RunFailure, Only, Options, Report, attempt, marks, shrink};
use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output;

/// Default number of runs if neither --hours nor --runs is given.
const RUNS: u64 = 1000;

/// Run the protocol engine on random bad networks, and check that forbidden things never happen
///
/// A seed determines everything: addresses, links and their faults, policies, users. Both ends are
/// observed; whatever one accepts must come out of the other once, whole and in order. A failing
/// run is reported in a line, with the fewest faults that still make it fail and the command that
/// reproduces it. The command does so until the random choices of the program change.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch swarm --hours 1
  anabranch swarm --seed 10000 --runs 5000 --json
  anabranch swarm --hours 1 --set interleaving=on --set ecn=on
  anabranch swarm --seed 1234 --runs 1 --only reboot,loss.3 --trace")]
pub(crate) struct Swarm {
    /// Continue for N hours
    #[arg(long, value_name = "N", conflicts_with = "runs")]
    hours: Option<f64>,
    /// Number of runs; without this and --hours, 1000
    #[arg(long, value_name = "N")]
    runs: Option<u64>,
    /// The first seed; the following runs count up from it
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Keep only these faults: kinds or single ones with commas between them, or 'none'
    #[arg(long, value_name = "FAULTS")]
    only: Option<Only>,
    /// Let either end send at most N messages
    #[arg(long, value_name = "N")]
    messages: Option<u32>,
    /// Set an option of both ends in every run, whatever the seed says, unless it contradicts another one; repeatable
    #[arg(long = "set", value_name = "OPTION=VALUE", value_parser = setting)]
    settings: Vec<(String, String)>,
    /// Put sealed paths between the endpoints and the network, with handshakes, keys that are replaced, and translators of addresses
    #[arg(long)]
    sealed: bool,
    /// Print what the seed stands for, and every packet and event of the run
    #[arg(long, conflicts_with_all = ["hours", "json"])]
    trace: bool,
    /// Threads [default: one for each processor]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Most runs for shrinking a failing one
    #[arg(long, value_name = "N", default_value_t = 300)]
    shrink: u32,
    /// Print a JSON document
    #[arg(long)]
    json: bool,
}

/// A run that failed.
#[derive(Debug, Serialize)]
struct Finding {
    seed: u64,
    message: String,
    place: String,
    /// The fewest faults with which it still fails.
    only: Option<String>,
    messages: Option<u32>,
    replay: String,
}

/// The state that all threads share.
#[derive(Debug, Default)]
struct Campaign {
    next: AtomicU64,
    stop: AtomicBool,
    done: Mutex<Done>,
}

#[derive(Debug, Default)]
struct Done {
    /// Reports of runs that must wait for earlier runs, because reports are summed in the order of
    /// seeds.
    waiting: BTreeMap<u64, Option<Report>>,
    summed: u64,
    total: Report,
    findings: Vec<Finding>,
}

impl Done {
    fn add(&mut self, number: u64, report: Option<Report>) {
        self.waiting.insert(number, report);
        while let Some(report) = self.waiting.remove(&self.summed) {
            self.summed += 1;
            if let Some(report) = report {
                self.total.add(&report);
            }
        }
    }
}

impl Swarm {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let limit = match (self.hours, self.runs) {
            (Some(hours), _) if !(hours > 0.0 && hours <= 1e6) => {
                return Err(Failure::usage("--hours must be above 0"));
            }
            (Some(_), _) => u64::MAX,
            (None, runs) => runs.unwrap_or(RUNS),
        };
        if self.trace && limit != 1 {
            return Err(Failure::usage("--trace is for one run: --runs 1"));
        }
        let interrupt = Interrupt::install()?;
        let begin = Instant::now();
        let end = self.hours.map(|hours| begin + Duration::from_secs_f64(hours * 3600.0));
        let threads = self.threads.map_or_else(processors, NonZeroUsize::get);
        let (seed, json) = (self.seed, self.json);
        let campaign = std::sync::Arc::new(Campaign::default());
        let shared = std::sync::Arc::clone(&campaign);
        let work = tokio::task::spawn_blocking(move || {
            thread::scope(|scope| {
                for _ in 0..threads.min(usize::try_from(limit).unwrap_or(usize::MAX)) {
                    scope.spawn(|| self.work(&shared, limit, end));
                }
            });
        });
        tokio::pin!(work);
        tokio::select! {
            done = &mut work => done.map_err(Failure::failed)?,
            () = interrupt.wait() => {
                campaign.stop.store(true, Ordering::Relaxed);
                work.await.map_err(Failure::failed)?;
            }
        }
        let done = campaign.done.lock().map_err(|_| Failure::failed("a thread has died"))?;
        show(&done, seed, begin.elapsed(), json)
    }

    /// What a seed stands for.
    fn drawn(&self, seed: u64) -> Options {
        let mut options = Options::draw(seed);
        if self.sealed {
            options.seal();
        }
        options
    }

    /// Runs in each thread: takes the next seed until none is left.
    fn work(&self, campaign: &Campaign, limit: u64, end: Option<Instant>) {
        while !campaign.stop.load(Ordering::Relaxed) && end.is_none_or(|end| Instant::now() < end) {
            let number = campaign.next.fetch_add(1, Ordering::Relaxed);
            if number >= limit {
                return;
            }
            let seed = self.seed.wrapping_add(number);
            let mut options = self.drawn(seed);
            if let Some(only) = &self.only {
                options.keep_only(only);
            }
            if let Some(most) = self.messages {
                options.limit_messages(most);
            }
            for (name, value) in &self.settings {
                // The command line was checked.
                let _ = options.set(name, value);
            }
            if self.trace && output::print(&format!("{options:#?}\n")).is_err() {
                return;
            }
            let result = attempt(options, self.trace);
            let (report, finding) = match result {
                Ok(report) => (Some(report), None),
                Err(failure) => (None, Some(self.finding(seed, failure))),
            };
            let Ok(mut done) = campaign.done.lock() else { return };
            done.add(number, report);
            if let Some(finding) = finding {
                if !self.json {
                    let line = format!("seed {seed}: {}; {}\n", finding.message, finding.replay);
                    if output::print(&line).is_err() {
                        return;
                    }
                }
                done.findings.push(finding);
            }
        }
    }

    /// The smallest form of a failing run.
    fn finding(&self, seed: u64, failure: RunFailure) -> Finding {
        let mut replay = format!("anabranch swarm --seed {seed} --runs 1");
        if self.sealed {
            replay += " --sealed";
        }
        // Do not shrink a run that the user has already restricted.
        let is_restricted =
            self.only.is_some() || self.messages.is_some() || !self.settings.is_empty();
        if is_restricted || self.shrink == 0 {
            if let Some(only) = &self.only {
                replay += &format!(" --only {only}");
            }
            if let Some(messages) = self.messages {
                replay += &format!(" --messages {messages}");
            }
            for (name, value) in &self.settings {
                replay += &format!(" --set '{name}={value}'");
            }
            let message = failure.headline();
            let place = failure.place;
            return Finding { seed, message, place, only: None, messages: None, replay };
        }
        let shrunk = shrink(&self.drawn(seed), failure, self.shrink);
        let (only, messages) = (shrunk.only.to_string(), shrunk.messages);
        replay += &format!(" --only {only} --messages {messages} --trace");
        Finding {
            seed,
            message: shrunk.failure.headline(),
            place: shrunk.failure.place,
            only: Some(only),
            messages: Some(messages),
            replay,
        }
    }
}

/// Parses an option of associations and its value.
fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) =
        text.split_once('=').ok_or("a setting is written OPTION=VALUE, as in 'ecn=on'")?;
    let (name, value) = (name.trim(), value.trim());
    AssociationConfig::default().set(name, value).map_err(|error| error.to_string())?;
    Ok((name.to_owned(), value.to_owned()))
}

fn processors() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

fn show(done: &Done, seed: u64, time: Duration, json: bool) -> Result<(), Failure> {
    let seconds = time.as_secs_f64();
    let failed = done.findings.len();
    if json {
        let number = |(name, value): (&str, u64)| (name.trim().to_owned(), Value::from(value));
        let document = Map::from_iter([
            ("seed".to_owned(), Value::from(seed)),
            ("seconds".to_owned(), Value::from(seconds)),
            ("failed".to_owned(), Value::from(failed)),
            ("hash".to_owned(), Value::from(format!("{:016x}", done.total.hash))),
            ("totals".to_owned(), done.total.totals().into_iter().map(number).collect()),
            ("marks".to_owned(), marks::reached().map(number).collect()),
            ("findings".to_owned(), serde_json::to_value(&done.findings).map_err(Failure::failed)?),
        ]);
        output::print_json(&document)?;
    } else {
        let mut text = done.total.to_string();
        let marks: Vec<_> = marks::reached().collect();
        let reached = marks.iter().filter(|(_, count)| *count > 0).count();
        text += &format!("\n{reached} of {} rare branches reached:\n", marks.len());
        for (name, count) in marks {
            text += &format!("{name:<60}{count:>12}\n");
        }
        let runs = output::count(done.summed, "run");
        text += &format!("\n{runs}, {failed} failed; {seconds:.0} s\n");
        output::print(&text)?;
    }
    if failed == 0 {
        Ok(())
    } else {
        Err(Failure::failed(format!("{} failed", output::count(failed as u64, "run"))))
    }
}
