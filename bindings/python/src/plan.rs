//! The plan of a study, for drivers written in Python.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use anabranch_lab::runner::{
    self, Goal, Observer, Order, Record, Runs, Shard, Store, StoreError, Unit,
};
use anabranch_lab::scenario;
use pyo3::prelude::*;

use crate::results::Results;
use crate::scenario::Scenario;
use crate::{ENGINE, errors};

/// Gives out units of work as JSON, takes the results in any order, and keeps them in a store.
#[pyclass(module = "anabranch._anabranch")]
pub(crate) struct Plan {
    scenario: Arc<scenario::Scenario>,
    source: runner::Source,
    plan: runner::Plan,
    store: Option<Store>,
    given: HashMap<String, (Unit, Order)>,
    #[pyo3(get)]
    warnings: Vec<String>,
}

/// Collects what the user should know.
#[derive(Default)]
pub(crate) struct Warnings(pub(crate) Mutex<Vec<String>>);

impl Observer for Warnings {
    fn begin(&self, _: usize) {}
    fn done(&self) {}
    fn warn(&self, sentence: &str) {
        if let Ok(mut warnings) = self.0.lock() {
            warnings.push(sentence.to_owned());
        }
    }
}

/// Opens the store that the user named.
pub(crate) fn store(out: Option<PathBuf>) -> PyResult<Option<Store>> {
    let open = |out: PathBuf| Store::open(&out, ENGINE).map_err(|error| errors::store(&error));
    out.map(open).transpose()
}

/// The runs that are there, but no more of each point than will be asked for.
pub(crate) fn kept(
    scenario: &scenario::Scenario,
    store: Option<&Store>,
    seeds: Option<usize>,
    observer: &dyn Observer,
) -> Result<Vec<Runs>, StoreError> {
    let Some(store) = store else { return Ok(vec![Runs::new(); scenario.points.len()]) };
    let mut kept = store.load_all(scenario, observer)?;
    let most = seeds.unwrap_or(scenario.replications.seeds);
    kept.iter_mut().for_each(|runs| runs.retain(|number, _| *number < most));
    Ok(kept)
}

#[pymethods]
impl Plan {
    /// A plan for a scenario, in units of at most `size` runs.
    #[new]
    fn new(
        scenario: &Scenario,
        seeds: Option<usize>,
        size: usize,
        out: Option<PathBuf>,
    ) -> PyResult<Self> {
        let store = store(out)?;
        let observer = Warnings::default();
        let kept = kept(&scenario.inner, store.as_ref(), seeds, &observer)
            .map_err(|error| errors::store(&error))?;
        let goal = Goal::of(&scenario.inner, seeds);
        let source = scenario.source.clone();
        let mut plan = Self::of(Arc::clone(&scenario.inner), source, goal, kept, size, store);
        plan.warnings = observer.0.into_inner().unwrap_or_default();
        Ok(plan)
    }

    /// The next unit of work; `None` while all that is needed is given out.
    fn next_unit(&mut self) -> PyResult<Option<String>> {
        let Some(unit) = self.plan.next_unit() else { return Ok(None) };
        let Some(order) = Order::new(ENGINE, &self.source, &self.scenario, &unit) else {
            return Ok(None);
        };
        let text = serde_json::to_string(&order)
            .map_err(|error| errors::RunError::new_err(error.to_string()))?;
        self.given.insert(text.clone(), (unit, order));
        Ok(Some(text))
    }

    /// Takes the result of a unit.
    fn take(&mut self, py: Python<'_>, order: &str, result: &str) -> PyResult<()> {
        py.detach(|| self.accept(order, result)).map_err(|error| errors::run(&error))
    }

    /// Takes back a unit that was not carried out.
    fn give_back(&mut self, order: &str) {
        if let Some((unit, _)) = self.given.remove(order) {
            self.plan.give_back(unit);
        }
    }

    /// How many runs are missing, as far as it is known.
    #[getter]
    fn missing(&self) -> usize {
        self.plan.missing()
    }

    /// Whether nothing is missing.
    #[getter]
    fn is_complete(&self) -> bool {
        self.plan.is_complete()
    }

    /// Puts on disk what is there, and ends the use of the store.
    fn finish(&mut self, py: Python<'_>) -> PyResult<Results> {
        let results = self.end().map_err(|error| errors::store(&error))?;
        Ok(py.detach(|| Results::new(Arc::clone(&self.scenario), &results)))
    }
}

impl Plan {
    /// A plan for a goal, with the runs that are there.
    pub(crate) fn of(
        scenario: Arc<scenario::Scenario>,
        source: runner::Source,
        goal: Goal,
        kept: Vec<Runs>,
        size: usize,
        store: Option<Store>,
    ) -> Self {
        let plan = runner::Plan::new(goal, kept, size, Shard::default());
        Self { scenario, source, plan, store, given: HashMap::new(), warnings: Vec::new() }
    }

    /// Puts on disk what is there, and ends the use of the store.
    pub(crate) fn end(&mut self) -> Result<runner::Results, StoreError> {
        if let Some(store) = self.store.take() {
            for (index, point) in self.scenario.points.iter().enumerate() {
                let runs = self.plan.runs(index).filter(|runs| !runs.is_empty());
                if let Some(runs) = runs.filter(|_| self.plan.missing_of(index) > 0) {
                    store.keep(&self.scenario, point, runs)?;
                }
            }
        }
        Ok(runner::Results::new(self.plan.clone().into_runs()))
    }

    fn accept(&mut self, order: &str, result: &str) -> Result<(), runner::RunError> {
        let Some((unit, order_)) = self.given.get(order) else {
            return Err(runner::RunError::Worker("nobody asked for this unit".to_owned()));
        };
        let runs = order_.answer(&self.scenario, result)?;
        let record = Record::read(result.trim_end()).map_err(runner::RunError::Worker)?;
        if let Some(store) = &self.store {
            store.append(&self.scenario, &record)?;
        }
        let taken = self.plan.take(unit, runs)?;
        let index = unit.point;
        if let (true, Some(store)) = (taken.is_done, &self.store)
            && let (Some(point), Some(runs)) =
                (self.scenario.points.get(index), self.plan.runs(index))
        {
            store.keep(&self.scenario, point, runs)?;
        }
        self.given.remove(order);
        Ok(())
    }
}
