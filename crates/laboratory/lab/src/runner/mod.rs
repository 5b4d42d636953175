//! Executes the runs of a scenario on all cores. Results do not depend on the number of cores and
//! are stored on disk as they are completed.

mod seeds;
mod store;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use seeds::seed;
pub use store::{Store, StoreError};

use crate::metrics::{self, Metrics};
use crate::scenario::{Point, Scenario};
use crate::stats;

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
    /// One of them is done.
    fn done(&self);
    /// Something happened that the user should know.
    fn warn(&self, sentence: &str);
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
}

/// Runs of one scenario, point by point.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// The runs of each point in the order of their numbers.
    pub points: Vec<Vec<Metrics>>,
}

/// Executes runs.
pub struct Runner<'a> {
    /// The experiment of a run.
    pub experiment: &'a dyn Experiment,
    /// Threads, at least one.
    pub jobs: usize,
    /// Set to stop the runner; runs that have begun are finished.
    pub stop: &'a AtomicBool,
    /// Receives progress reports.
    pub observer: &'a dyn Observer,
    /// Where finished points are stored.
    pub store: Option<&'a Store>,
}

/// One run to execute.
#[derive(Clone, Copy)]
struct Task {
    /// Index into the list of batches.
    batch: usize,
    number: usize,
}

/// The new runs of one point.
struct Batch {
    point: usize,
    runs: Vec<Option<Metrics>>,
    missing: usize,
}

impl Runner<'_> {
    /// Reads the results on disk. A point whose file is damaged gets no runs, and the observer is
    /// warned.
    ///
    /// # Errors
    /// Fails if a file cannot be read.
    pub fn load(&self, scenario: &Scenario) -> Result<Results, RunError> {
        let points = scenario.points.iter().map(|point| {
            let Some(store) = self.store else { return Ok(Vec::new()) };
            match store.load(scenario, point) {
                Err(error @ StoreError::Damaged { .. }) => {
                    self.observer.warn(&format!("{error}; these runs are carried out again"));
                    Ok(Vec::new())
                }
                other => other,
            }
        });
        Ok(Results { points: points.collect::<Result<_, _>>()? })
    }

    /// Executes the missing runs, up to this many for each point.
    ///
    /// # Errors
    /// See [`RunError`]. Finished runs are in `results`, and on disk.
    pub fn ensure(
        &self,
        scenario: &Scenario,
        results: &mut Results,
        wanted: &[(usize, usize)],
    ) -> Result<(), RunError> {
        results.points.resize_with(scenario.points.len(), Vec::new);
        let mut batches = Vec::new();
        let mut tasks = Vec::new();
        for (point, count) in wanted {
            let have = results.points.get(*point).map_or(0, Vec::len);
            for number in have..*count {
                tasks.push(Task { batch: batches.len(), number });
            }
            if *count > have {
                let missing = count - have;
                batches.push(Batch { point: *point, runs: vec![None; missing], missing });
            }
        }
        if tasks.is_empty() {
            return Ok(());
        }
        self.observer.begin(tasks.len());
        let shared = Shared {
            scenario,
            tasks,
            next: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
            state: Mutex::new(State { results, batches, failure: None }),
        };
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.clamp(1, shared.tasks.len()) {
                scope.spawn(|| self.work(&shared));
            }
        });
        let mut state = shared.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        match state.failure.take() {
            Some(failure) => {
                self.keep_partial(scenario, &mut state)?;
                Err(failure)
            }
            None if state.batches.iter().any(|batch| batch.missing > 0) => {
                self.keep_partial(scenario, &mut state)?;
                Err(RunError::Interrupted { kept: self.store.is_some() })
            }
            None => Ok(()),
        }
    }

    /// Runs every point as often as the scenario requires, or `seeds` times.
    ///
    /// # Errors
    /// See [`RunError`].
    pub fn complete(
        &self,
        scenario: &Scenario,
        results: &mut Results,
        seeds: Option<usize>,
    ) -> Result<(), RunError> {
        let plan = scenario.replications;
        let (Some(precision), None) = (plan.precision, seeds) else {
            let count = seeds.unwrap_or(plan.seeds);
            let wanted: Vec<_> = (0..scenario.points.len()).map(|point| (point, count)).collect();
            return self.ensure(scenario, results, &wanted);
        };
        let metric = metrics::find(&scenario.figure.y).unwrap_or(0);
        let mut targets = vec![plan.min_seeds; scenario.points.len()];
        loop {
            let wanted: Vec<_> = targets.iter().copied().enumerate().collect();
            self.ensure(scenario, results, &wanted)?;
            let mut more = false;
            for (target, runs) in targets.iter_mut().zip(&results.points) {
                let next = (*target + target.div_ceil(2)).min(plan.seeds);
                if next > *target
                    && !is_precise(
                        &runs[..*target.min(&mut runs.len())],
                        metric,
                        precision,
                        plan.confidence,
                    )
                {
                    *target = next;
                    more = true;
                }
            }
            if !more {
                return Ok(());
            }
        }
    }

    fn work(&self, shared: &Shared<'_>) {
        loop {
            if self.stop.load(Ordering::Relaxed) || shared.failed.load(Ordering::Relaxed) {
                return;
            }
            let index = shared.next.fetch_add(1, Ordering::Relaxed);
            let Some(task) = shared.tasks.get(index).copied() else { return };
            if let Err(failure) = self.one(shared, task) {
                if self.stop.load(Ordering::Relaxed) {
                    // The user stopped the runs, so this failure is not one.
                    return;
                }
                shared.failed.store(true, Ordering::Relaxed);
                let mut state = shared.lock();
                state.failure.get_or_insert(failure);
                return;
            }
            self.observer.done();
        }
    }

    fn one(&self, shared: &Shared<'_>, task: Task) -> Result<(), RunError> {
        let scenario = shared.scenario;
        let index = shared.lock().batches.get(task.batch).map_or(0, |batch| batch.point);
        let Some(point) = scenario.points.get(index) else { return Ok(()) };
        let seed = seed(&scenario.id, &point.seed_key, task.number);
        // A bug in the engine fails this run and names its seed; the others are stored.
        let run = catch_unwind(AssertUnwindSafe(|| self.experiment.run(point, seed)))
            .unwrap_or_else(|cause| Err(format!("the run panicked: {}", message(&*cause))));
        let run = run.map_err(|reason| RunError::Run {
            scenario: scenario.id.clone(),
            point: point.key.clone(),
            seed,
            reason,
        })?;
        let finished = {
            let mut state = shared.lock();
            let state = &mut *state;
            let Some(batch) = state.batches.get_mut(task.batch) else { return Ok(()) };
            let Some(runs) = state.results.points.get_mut(index) else { return Ok(()) };
            if let Some(slot) =
                task.number.checked_sub(runs.len()).and_then(|at| batch.runs.get_mut(at))
            {
                *slot = Some(run);
                batch.missing -= 1;
            }
            if batch.missing == 0 {
                runs.extend(batch.runs.drain(..).flatten());
                Some(runs.clone())
            } else {
                None
            }
        };
        if let (Some(runs), Some(store)) = (finished, self.store) {
            store.save(scenario, point, &runs)?;
        }
        Ok(())
    }

    /// Stores the runs of incomplete points.
    fn keep_partial(&self, scenario: &Scenario, state: &mut State<'_>) -> Result<(), RunError> {
        for batch in state.batches.iter_mut().filter(|batch| batch.missing > 0) {
            let done: Vec<Metrics> = batch.runs.drain(..).map_while(|run| run).collect();
            let Some(runs) = state.results.points.get_mut(batch.point) else { continue };
            if done.is_empty() {
                continue;
            }
            runs.extend(done);
            if let (Some(store), Some(point), None) =
                (self.store, scenario.points.get(batch.point), &state.failure)
            {
                store.save(scenario, point, runs)?;
            }
        }
        Ok(())
    }
}

struct Shared<'a> {
    scenario: &'a Scenario,
    tasks: Vec<Task>,
    next: AtomicUsize,
    failed: AtomicBool,
    state: Mutex<State<'a>>,
}

struct State<'a> {
    results: &'a mut Results,
    batches: Vec<Batch>,
    failure: Option<RunError>,
}

impl<'a> Shared<'a> {
    fn lock(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_precise(runs: &[Metrics], metric: usize, precision: f64, confidence: f64) -> bool {
    let values: Vec<f64> = runs.iter().filter_map(|run| run.at(metric)).collect();
    stats::mean_estimate(&values, confidence)
        .is_some_and(|e| e.half().is_some_and(|half| half <= precision * e.value.abs()))
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
    use super::*;
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
            assert!(is_precise(runs, 0, 0.01, 0.9));
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
            store.load(scenario, &scenario.points[0]).unwrap().len()
        };
        assert_eq!(loaded(&scenario, "one"), 10);
        assert_eq!(loaded(&scenario, "two"), 0);
        let changed = read(&text(), &[("association.pmr", "1")]).unwrap();
        assert_eq!(loaded(&changed, "one"), 0);
    }
}
