//! Executes the runs of a scenario. A [`Plan`] says which runs are needed; threads, programs in shards, and workers
//! on other machines carry them out. Results do not depend on who does, and are stored on disk as they are
//! completed.

mod merge;
mod order;
mod plan;
mod record;
mod seeds;
mod shard;
mod store;
mod threads;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use merge::{Merged, merge};
pub use order::{MOST_ORDER, Order, Source};
pub use plan::{Goal, Plan, PlanError, Runs, Taken, Unit};
pub use record::Record;
pub use seeds::seed;
pub(crate) use seeds::seeds;
pub use shard::Shard;
pub use store::{Loaded, Store, StoreError};
pub use threads::Runner;

use crate::metrics::Metrics;
use crate::scenario::{Point, Scenario};
use crate::setup::Platform;

/// A run. The same point with the same seed has the same result.
pub trait Experiment: Sync {
    /// Executes one run.
    ///
    /// # Errors
    /// Fails if it cannot be executed. A transfer that fails is a result, not an error.
    fn run(&self, point: &Point, seed: u64) -> Result<Metrics, String>;
}

/// Receives progress reports.
pub trait Observer: Sync {
    /// This many runs will follow.
    fn begin(&self, runs: usize);
    /// This many more will follow, because a point is not precise.
    fn more(&self, _runs: usize) {}
    /// One of them is done.
    fn done(&self);
    /// Something happened that the user should know.
    fn warn(&self, sentence: &str);
}

/// Carries out runs that are missing: the threads of this program, or workers elsewhere.
pub trait Driver {
    /// Executes the missing runs of these points (index and count), the first ones of each.
    ///
    /// # Errors
    /// See [`RunError`]. Finished runs are in `results`, and on disk if they are kept there.
    fn ensure(
        &self,
        scenario: &Scenario,
        results: &mut Results,
        wanted: &[(usize, usize)],
    ) -> Result<(), RunError>;
}

/// An observer that ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

impl Observer for Nobody {
    fn begin(&self, _: usize) {}
    fn done(&self) {}
    fn warn(&self, _: &str) {}
}

/// Why runs could not be executed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The user stopped it.
    #[error("interrupted{}", match kept {
        true => ": what is finished is kept, and the same command goes on from there",
        false => "",
    })]
    Interrupted {
        /// Whether results are stored.
        kept: bool,
    },
    /// A run cannot be executed.
    #[error("{scenario} at {point}, seed {seed}: {reason}")]
    Run {
        /// The scenario.
        scenario: String,
        /// The point.
        point: String,
        /// The seed.
        seed: u64,
        /// Why.
        reason: String,
    },
    /// Results cannot be stored.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// A worker's results cannot be used, or a worker cannot do what it is asked for.
    #[error("{0}")]
    Worker(String),
}

/// Runs of one scenario, point by point.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// The runs of each point in the order of their numbers.
    pub points: Vec<Vec<Metrics>>,
    /// Runs of each point behind a gap, which are used when the gap is closed.
    beyond: Vec<Runs>,
}

impl Results {
    /// Results from the runs of each point.
    pub fn new(points: Vec<Runs>) -> Self {
        let mut results = Self::default();
        for mut runs in points {
            let first: Vec<Metrics> = (0..).map_while(|number| runs.remove(&number)).collect();
            results.points.push(first);
            results.beyond.push(runs);
        }
        results
    }

    /// How many runs there are, with those behind gaps.
    pub fn count(&self) -> usize {
        let (points, beyond) =
            (self.points.iter().map(Vec::len), self.beyond.iter().map(Runs::len));
        points.chain(beyond).sum()
    }

    /// Takes out the runs of each point, with those behind gaps.
    pub fn take(&mut self) -> Vec<Runs> {
        let mut beyond = std::mem::take(&mut self.beyond).into_iter();
        let points = std::mem::take(&mut self.points).into_iter();
        points
            .map(|runs| {
                let mut all = beyond.next().unwrap_or_default();
                all.extend(runs.into_iter().enumerate());
                all
            })
            .collect()
    }
}

/// Refuses runs on real packets, in real time: their results are not equal, whoever carries them out.
///
/// # Errors
/// Names the scenario.
pub fn require_virtual_time(scenario: &Scenario) -> Result<(), String> {
    match scenario.points.iter().all(|point| point.setup.on == Platform::Simulator) {
        true => Ok(()),
        false => Err(format!(
            "{} runs on real packets (on = \"emulator\"), where no run is equal to another: carry it out on one \
             machine, with 'anabranch lab run'",
            scenario.argument()
        )),
    }
}

/// Executes one run. A bug in the engine fails this run and names its seed; the others are stored.
pub(super) fn carry_out(
    experiment: &dyn Experiment,
    scenario: &Scenario,
    point: &Point,
    number: usize,
) -> Result<Metrics, RunError> {
    let seed = seed(&scenario.id, &point.seed_key, number);
    catch_unwind(AssertUnwindSafe(|| experiment.run(point, seed)))
        .unwrap_or_else(|cause| Err(format!("the run panicked: {}", message(&*cause))))
        .map_err(|reason| RunError::Run {
            scenario: scenario.id.clone(),
            point: point.key.clone(),
            seed,
            reason,
        })
}

fn message(cause: &(dyn std::any::Any + Send)) -> &str {
    cause
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| cause.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;
    use std::path::{Path, PathBuf};
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;
    use crate::scenario::Library;
    use crate::scenario::tests::{read, text};

    /// An experiment without a network: its transfer time is computed from point and seed.
    pub(crate) struct Toy {
        pub(crate) fails_at: Option<&'static str>,
    }

    impl Experiment for Toy {
        fn run(&self, point: &Point, seed: u64) -> Result<Metrics, String> {
            match self.fails_at {
                Some(key) if point.key.contains(key) => return Err("no such network".to_owned()),
                _ => {}
            }
            let noise = (seed >> 11) as f64 / (1u64 << 53) as f64;
            let base: f64 =
                point.at.iter().enumerate().map(|(axis, at)| (axis + 1) as f64 * *at as f64).sum();
            Ok(Metrics::default().with("transfer_time_s", 20.0 + 5.0 * base + noise))
        }
    }

    pub(crate) fn run(scenario: &Scenario, jobs: usize, store: Option<&Store>) -> Results {
        let stop = AtomicBool::new(false);
        let runner = Runner {
            experiment: &Toy { fails_at: None },
            jobs,
            stop: &stop,
            observer: &Nobody,
            store,
        };
        let mut results = runner.load(scenario).unwrap();
        runner.complete(scenario, &mut results, None).unwrap();
        results
    }

    #[test]
    fn the_number_of_workers_changes_nothing() {
        let scenario = read(&text(), &[]).unwrap();
        let one = run(&scenario, 1, None);
        let many = run(&scenario, 7, None);
        assert_eq!(one.points, many.points);
        assert!(one.points.iter().all(|runs| runs.len() == 10));
    }

    #[test]
    fn points_end_when_they_are_precise() {
        let scenario =
            read(&text().replace("seeds = 10", "seeds = 40\nprecision = \"1 %\""), &[]).unwrap();
        let results = run(&scenario, 2, None);
        for runs in &results.points {
            assert!((5..40).contains(&runs.len()), "{}", runs.len());
            let values: Vec<f64> = runs.iter().filter_map(|run| run.at(0)).collect();
            let mean = crate::stats::mean_estimate(&values, 0.9).unwrap();
            assert!(mean.half().unwrap() <= 0.01 * mean.value);
        }
    }

    #[test]
    fn finished_points_survive_failure_and_interruption() {
        let scenario = read(&text(), &[]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), "build").unwrap();
        let stop = AtomicBool::new(false);
        let failing = Toy { fails_at: Some("loss=3 %, policy=Alt") };
        let runner = Runner {
            experiment: &failing,
            jobs: 1,
            stop: &stop,
            observer: &Nobody,
            store: Some(&store),
        };
        let mut results = Results::default();
        let error = runner.complete(&scenario, &mut results, None).unwrap_err().to_string();
        assert!(error.contains("at loss=3 %, policy=Alt, seed "), "{error}");
        let lengths: Vec<_> = runner.load(&scenario).unwrap().points.iter().map(Vec::len).collect();
        assert_eq!(lengths, [10, 10, 10, 0]);
        stop.store(true, Ordering::Relaxed);
        let mut results = runner.load(&scenario).unwrap();
        let error = runner.complete(&scenario, &mut results, None).unwrap_err();
        assert!(matches!(error, RunError::Interrupted { kept: true }));
        // Stored runs are used, and the rest is the same as without them.
        let resumed = run(&scenario, 2, Some(&store));
        assert_eq!(resumed.points, run(&scenario, 1, None).points);
    }

    #[test]
    fn damaged_results_are_reported_and_run_again() {
        #[derive(Default)]
        struct Listener(Mutex<Vec<String>>);
        impl Observer for Listener {
            fn begin(&self, _: usize) {}
            fn done(&self) {}
            fn warn(&self, sentence: &str) {
                self.0.lock().unwrap().push(sentence.to_owned());
            }
        }
        let scenario = read(&text(), &[]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), "build").unwrap();
        let first = run(&scenario, 1, Some(&store));
        let kept = dir.path().join("test/1");
        let file = std::fs::read_dir(&kept).unwrap().next().unwrap().unwrap().path();
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace("\"runs\":10", "\"runs\":10000000000")).unwrap();
        let (stop, listener) = (AtomicBool::new(false), Listener::default());
        let runner = Runner {
            experiment: &Toy { fails_at: None },
            jobs: 1,
            stop: &stop,
            observer: &listener,
            store: Some(&store),
        };
        let loaded = runner.load(&scenario).unwrap();
        assert_eq!(loaded.points.iter().filter(|runs| runs.is_empty()).count(), 1);
        let warnings = listener.0.lock().unwrap().clone();
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains(&file.display().to_string()), "{warnings:?}");
        assert_eq!(run(&scenario, 1, Some(&store)).points, first.points);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    }

    #[test]
    fn results_of_another_build_or_setup_are_not_used() {
        let scenario = read(&text(), &[]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        run(&scenario, 1, Some(&Store::open(dir.path(), "one").unwrap()));
        let loaded = |scenario: &Scenario, build| {
            let store = Store::open(dir.path(), build).unwrap();
            store.load(scenario, &scenario.points[0]).unwrap().runs.len()
        };
        assert_eq!(loaded(&scenario, "one"), 10);
        assert_eq!(loaded(&scenario, "two"), 0);
        let changed = read(&text(), &[("association.pmr", "1")]).unwrap();
        assert_eq!(loaded(&changed, "one"), 0);
    }

    /// The files below a directory, with their contents.
    fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut open = vec![directory.to_owned()];
        while let Some(next) = open.pop() {
            for entry in std::fs::read_dir(next).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => open.push(path),
                    false => {
                        let name = path.strip_prefix(directory).unwrap().to_owned();
                        files.insert(name, std::fs::read(&path).unwrap());
                    }
                }
            }
        }
        files
    }

    /// Each unit by a worker that has only the order, in any order, and not all at the same time.
    fn by_workers(source: &Source, scenario: &Scenario, store: &Store) {
        let library = Library::new("none");
        let mut rng = anabranch_impair::Rng::new(7);
        let kept = store.load_all(scenario, &Nobody).unwrap();
        let mut plan = Plan::new(Goal::of(scenario, None), kept, 3, Shard::default());
        let mut open: Vec<(Unit, String)> = Vec::new();
        while !plan.is_complete() {
            open.extend(std::iter::from_fn(|| plan.next_unit()).map(|unit| {
                let order = Order::new("build", source, scenario, &unit).unwrap();
                (unit, serde_json::to_string(&order).unwrap())
            }));
            let (unit, order) = open.swap_remove(rng.below(open.len() as u64) as usize);
            let order = Order::read(&order).unwrap();
            let toy = Toy { fails_at: None };
            let there = order.scenario("build", &library).unwrap();
            let answer = order.carry_out(&there, &toy).unwrap().line().unwrap();
            let runs = order.answer(scenario, &answer).unwrap();
            store.append(scenario, &Record::read(&answer).unwrap()).unwrap();
            if plan.take(&unit, runs).unwrap().is_done {
                let runs = plan.runs(unit.point).unwrap();
                store.keep(scenario, &scenario.points[unit.point], runs).unwrap();
            }
        }
    }

    #[test]
    fn stores_are_equal_whoever_carries_out_the_runs() {
        for precision in ["", "\nprecision = \"1 %\""] {
            let text = text().replace("seeds = 10", &format!("seeds = 40{precision}"));
            let source = Source::text("test/1", "test.toml".into(), text, &[]);
            let scenario = source.load(&Library::new("none")).unwrap();
            let dir = tempfile::tempdir().unwrap();
            let open = |name: &str| Store::open(&dir.path().join(name), "build").unwrap();
            run(&scenario, 1, Some(&open("one")));
            run(&scenario, 4, Some(&open("four")));
            by_workers(&source, &scenario, &open("workers"));
            let stop = AtomicBool::new(false);
            for shard in ["1/2", "2/2"] {
                let store = open(&shard.replace('/', "-"));
                let runner = Runner {
                    experiment: &Toy { fails_at: None },
                    jobs: 2,
                    stop: &stop,
                    observer: &Nobody,
                    store: Some(&store),
                };
                let mut results = runner.load(&scenario).unwrap();
                runner.shard(&scenario, &mut results, None, shard.parse().unwrap()).unwrap();
            }
            let shards = ["1-2", "2-2"].map(|name| dir.path().join(name));
            merge(&open("merged"), &shards).unwrap();
            let first = files(&dir.path().join("one"));
            assert_eq!(first.len(), 1 + 4, "a lock and four points");
            for name in ["four", "workers", "merged"] {
                assert!(files(&dir.path().join(name)) == first, "{name}");
            }
            for shard in shards {
                assert!(files(&shard) != first);
            }
        }
    }

    #[test]
    fn what_a_killed_program_had_finished_is_used() {
        let scenario = read(&text(), &[]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let whole = run(&scenario, 1, Some(&Store::open(&dir.path().join("a"), "build").unwrap()));
        let store = Store::open(&dir.path().join("b"), "build").unwrap();
        // Runs of two threads, one ahead of the other.
        for number in [0, 1, 3] {
            let run = &whole.points[2][number..=number];
            let record = Record::new("build", &scenario, &scenario.points[2], number, run);
            store.append(&scenario, &record).unwrap();
        }
        let counted = Counted(AtomicUsize::new(0));
        let stop = AtomicBool::new(false);
        let runner = Runner {
            experiment: &counted,
            jobs: 2,
            stop: &stop,
            observer: &Nobody,
            store: Some(&store),
        };
        let mut results = runner.load(&scenario).unwrap();
        assert_eq!(results.points[2].len(), 2);
        runner.complete(&scenario, &mut results, None).unwrap();
        assert_eq!(counted.0.load(Ordering::Relaxed), 40 - 3);
        assert!(files(&dir.path().join("a")) == files(&dir.path().join("b")));
    }

    /// The toy, with a count of its runs.
    struct Counted(AtomicUsize);

    impl Experiment for Counted {
        fn run(&self, point: &Point, seed: u64) -> Result<Metrics, String> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Toy { fails_at: None }.run(point, seed)
        }
    }

    #[test]
    fn real_packets_are_refused_where_results_must_be_equal() {
        let emulated = text().replace("seeds = 10", "seeds = 10\non = \"emulator\"");
        let error = require_virtual_time(&read(&emulated, &[]).unwrap()).unwrap_err();
        assert!(error.contains("test.toml runs on real packets") || error.contains("test/1"));
        assert_eq!(require_virtual_time(&read(&text(), &[]).unwrap()), Ok(()));
    }
}
