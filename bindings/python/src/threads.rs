//! Runs on threads of this process, without Python.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anabranch_lab::runner::{self, Observer, RunError, Runner};
use anabranch_lab::simulation::Simulation;
use pyo3::prelude::*;

use crate::errors;
use crate::plan::{Warnings, kept, store};
use crate::results::Results;
use crate::scenario::Scenario;

/// How often signals are looked at, and progress is shown.
const INTERVAL: Duration = Duration::from_millis(100);

/// Counts runs for another thread.
#[derive(Default)]
struct Counts {
    total: AtomicUsize,
    done: AtomicUsize,
    warnings: Warnings,
}

impl Observer for Counts {
    fn begin(&self, runs: usize) {
        self.total.fetch_add(runs, Ordering::Relaxed);
    }

    fn more(&self, runs: usize) {
        self.total.fetch_add(runs, Ordering::Relaxed);
    }

    fn done(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    fn warn(&self, sentence: &str) {
        self.warnings.warn(sentence);
    }
}

/// Carries out what is missing, with this many threads. `progress` is called with the number of runs that are done
/// and of all. An exception in it, or Ctrl-C, stops after the runs that have begun; what is finished is kept.
#[pyfunction]
pub(crate) fn run(
    py: Python<'_>,
    scenario: &Scenario,
    seeds: Option<usize>,
    jobs: Option<usize>,
    out: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Results, Vec<String>)> {
    let scenario = Arc::clone(&scenario.inner);
    let (results, warnings) = on_threads(py, jobs, out, progress, |runner| {
        let kept = kept(&scenario, runner.store, seeds, runner.observer)?;
        let mut results = runner::Results::new(kept);
        runner.complete(&scenario, &mut results, seeds)?;
        Ok(results)
    })?;
    Ok((py.detach(|| Results::new(scenario, &results)), warnings))
}

/// Lets a thread do something with a runner, and watches it: progress, signals. Also returns the warnings.
pub(crate) fn on_threads<T: Send>(
    py: Python<'_>,
    jobs: Option<usize>,
    out: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(&Runner<'_>) -> Result<T, RunError> + Send,
) -> PyResult<(T, Vec<String>)> {
    let store = store(out)?;
    let counts = Counts::default();
    let stop = AtomicBool::new(false);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let runner = Runner {
        experiment: &Simulation,
        jobs: jobs.unwrap_or(cores).max(1),
        stop: &stop,
        observer: &counts,
        store: store.as_ref(),
    };
    let report = |py: Python<'_>| -> PyResult<()> {
        py.check_signals()?;
        let Some(progress) = &progress else { return Ok(()) };
        let [done, total] = [&counts.done, &counts.total].map(|n| n.load(Ordering::Relaxed));
        progress.call1(py, (done, total)).map(|_| ())
    };
    let ended = std::thread::scope(|scope| -> PyResult<T> {
        let (sender, receiver) = mpsc::channel();
        // The compiler wants what is used without Python's lock to be safe to share.
        let receiver = Mutex::new(receiver);
        let next =
            || receiver.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(INTERVAL);
        let runner = &runner;
        scope.spawn(move || {
            // Without a receiver, nobody waits.
            let _ = sender.send(work(runner));
        });
        let mut raised = Ok(());
        loop {
            match py.detach(next) {
                Ok(ended) => {
                    raised?;
                    let done = ended.map_err(|error| errors::run(&error))?;
                    return report(py).map(|()| done);
                }
                Err(RecvTimeoutError::Timeout) if raised.is_ok() => {
                    raised = report(py);
                    stop.store(raised.is_err(), Ordering::Relaxed);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    raised?;
                    let reason = "the runs ended without a result";
                    return Err(errors::RunError::new_err(reason));
                }
            }
        }
    });
    let done = ended?;
    let warnings =
        std::mem::take(&mut *counts.warnings.0.lock().unwrap_or_else(PoisonError::into_inner));
    Ok((done, warnings))
}
