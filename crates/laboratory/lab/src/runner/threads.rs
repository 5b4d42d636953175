//! Carries out a plan with threads of this program.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::plan::{Goal, Plan, Runs, Unit};
use super::{
    Driver, Experiment, Observer, Record, Results, RunError, Shard, Store, StoreError, carry_out,
};
use crate::metrics::Metrics;
use crate::scenario::{Point, Scenario};

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
    /// Where finished runs are stored.
    pub store: Option<&'a Store>,
}

impl Runner<'_> {
    /// Reads the results on disk. Damaged files are not used, and the observer is warned.
    ///
    /// # Errors
    /// Fails if a file cannot be read.
    pub fn load(&self, scenario: &Scenario) -> Result<Results, RunError> {
        let Some(store) = self.store else {
            return Ok(Results::new(vec![Runs::new(); scenario.points.len()]));
        };
        Ok(Results::new(store.load_all(scenario, self.observer)?))
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
        self.drive(scenario, results, Goal::of(scenario, seeds), Shard::default())
    }

    /// Like [`complete`](Self::complete), but only the part of one shard.
    ///
    /// # Errors
    /// See [`RunError`].
    pub fn shard(
        &self,
        scenario: &Scenario,
        results: &mut Results,
        seeds: Option<usize>,
        shard: Shard,
    ) -> Result<(), RunError> {
        self.drive(scenario, results, Goal::of(scenario, seeds), shard)
    }

    fn drive(
        &self,
        scenario: &Scenario,
        results: &mut Results,
        goal: Goal,
        shard: Shard,
    ) -> Result<(), RunError> {
        let plan = Plan::new(goal, results.take(), 1, shard);
        let missing = plan.missing();
        if missing > 0 {
            self.observer.begin(missing);
        }
        let open: Vec<usize> =
            (0..scenario.points.len()).filter(|point| plan.missing_of(*point) > 0).collect();
        let shared = Shared {
            scenario,
            state: Mutex::new(State { plan, failure: None }),
            changed: Condvar::new(),
        };
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.clamp(1, missing.max(1)) {
                scope.spawn(|| self.work(&shared));
            }
        });
        let State { plan, failure } =
            shared.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let kept = self.keep_partial(scenario, &plan, &open);
        let is_complete = plan.is_complete();
        *results = Results::new(plan.into_runs());
        match failure {
            Some(failure) => Err(failure),
            None if !is_complete => {
                kept?;
                Err(RunError::Interrupted { kept: self.store.is_some() })
            }
            None => kept.map_err(RunError::from),
        }
    }

    fn work(&self, shared: &Shared<'_>) {
        while let Some(unit) = self.next_unit(shared) {
            match self.one(shared, &unit) {
                Ok(more) => {
                    self.observer.done();
                    if more > 0 {
                        self.observer.more(more);
                    }
                }
                // The user stopped the runs, so this failure is not one.
                Err(_) if self.stop.load(Ordering::Relaxed) => {}
                Err(failure) => {
                    shared.lock().failure.get_or_insert(failure);
                }
            }
            shared.changed.notify_all();
        }
    }

    /// Waits for a unit. There is none if everything is done, or nothing more is to be done.
    fn next_unit(&self, shared: &Shared<'_>) -> Option<Unit> {
        let mut state = shared.lock();
        loop {
            let is_stopped = self.stop.load(Ordering::Relaxed) || state.failure.is_some();
            if is_stopped || state.plan.is_complete() {
                return None;
            }
            if let Some(unit) = state.plan.next_unit() {
                return Some(unit);
            }
            // Another thread has the rest. After its result, more may be needed.
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Carries out a unit. Returns how many runs are needed in addition.
    fn one(&self, shared: &Shared<'_>, unit: &Unit) -> Result<usize, RunError> {
        let scenario = shared.scenario;
        let Some(point) = scenario.points.get(unit.point) else { return Ok(0) };
        let runs = unit.runs.clone();
        let runs: Vec<Metrics> = runs
            .map(|number| carry_out(self.experiment, scenario, point, number))
            .collect::<Result<_, _>>()?;
        // Before the plan has it: nothing is appended once the plan has all of the point.
        if let Some(store) = self.store {
            let record = Record::new(store.build(), scenario, point, unit.runs.start, &runs);
            store.append(scenario, &record)?;
        }
        let (taken, finished) = {
            let mut state = shared.lock();
            let taken = state.plan.take(unit, runs)?;
            let finished = self.store.filter(|_| taken.is_done);
            (taken, finished.map(|store| (store, state.plan.runs(unit.point).cloned())))
        };
        if let Some((store, Some(runs))) = finished {
            store.keep(scenario, point, &runs)?;
        }
        Ok(taken.more)
    }

    /// Puts the runs of points that were not finished in order on disk.
    fn keep_partial(
        &self,
        scenario: &Scenario,
        plan: &Plan,
        open: &[usize],
    ) -> Result<(), StoreError> {
        let Some(store) = self.store else { return Ok(()) };
        for index in open.iter().filter(|index| plan.missing_of(**index) > 0) {
            let point: Option<&Point> = scenario.points.get(*index);
            if let (Some(point), Some(runs)) = (point, plan.runs(*index))
                && !runs.is_empty()
            {
                store.keep(scenario, point, runs)?;
            }
        }
        Ok(())
    }
}

impl Driver for Runner<'_> {
    fn ensure(
        &self,
        scenario: &Scenario,
        results: &mut Results,
        wanted: &[(usize, usize)],
    ) -> Result<(), RunError> {
        self.drive(scenario, results, Goal::counts(scenario, wanted), Shard::default())
    }
}

struct Shared<'a> {
    scenario: &'a Scenario,
    state: Mutex<State>,
    /// Notified after each result.
    changed: Condvar,
}

struct State {
    plan: Plan,
    failure: Option<RunError>,
}

impl Shared<'_> {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
