//! Verdicts on the claims of scenarios, and reports.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anabranch_lab::check::{self, Change, Mode};
use anabranch_lab::reference::{self, Reference};
use anabranch_lab::report::{self, Section};
use anabranch_lab::runner::{self, Driver, Goal, RunError, Store};
use anabranch_lab::scenario;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors;
use crate::plan::{Plan, Warnings, store};
use crate::results::{Results, made_by};
use crate::scenario::{Scenario, library_of};
use crate::threads::on_threads;

/// What is asked about a scenario.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Question {
    scenario: Arc<scenario::Scenario>,
    source: runner::Source,
    references: Vec<Reference>,
    changes: Vec<Change>,
    changed: usize,
    mode: Mode,
    is_for_report: bool,
    /// Whether all numbers of the original simulator are compared.
    compares: bool,
}

#[pymethods]
impl Question {
    /// A question; `mode` is `sequential`, `full`, or `fixed` with `seeds`. A report is about every point.
    #[new]
    fn new(
        scenario: &Scenario,
        mode: &str,
        seeds: Option<usize>,
        is_for_report: bool,
        compares: bool,
    ) -> PyResult<Self> {
        let mode = match (mode, seeds) {
            ("sequential", _) => Mode::Sequential,
            ("full", _) => Mode::Full,
            ("fixed", Some(seeds)) => Mode::Fixed(seeds),
            _ => return Err(PyValueError::new_err(format!("there is no mode '{mode}' like this"))),
        };
        let mut asked = (*scenario.inner).clone();
        // A report has no claims of a changed scenario, and a check asks whether they hold nevertheless.
        if let (false, Some(unchanged)) = (is_for_report, scenario.source.unchanged()) {
            let original = unchanged.load(&library_of(&unchanged)?).map_err(errors::scenario)?;
            asked.take_claims(original).map_err(errors::scenario)?;
        }
        let references = reference::load(&asked).map_err(errors::scenario)?;
        let changes = check::changes(&asked).map_err(errors::scenario)?;
        let changed = check::changed(&asked).map_err(errors::scenario)?.len();
        let (scenario, source) = (Arc::new(asked), scenario.source.clone());
        Ok(Self { scenario, source, references, changes, changed, mode, is_for_report, compares })
    }

    /// Answers it with threads of this process.
    fn on_threads(
        &self,
        py: Python<'_>,
        jobs: Option<usize>,
        out: Option<PathBuf>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(Checked, Vec<String>)> {
        on_threads(py, jobs, out, progress, |runner| {
            let mut results = runner.load(&self.scenario)?;
            if let Some(seeds) = self.completes() {
                runner.complete(&self.scenario, &mut results, seeds)?;
            }
            self.judge(runner, results)
        })
    }

    /// Answers it with a function that carries out a plan.
    fn by(
        &self,
        py: Python<'_>,
        drive: Py<PyAny>,
        out: Option<PathBuf>,
    ) -> PyResult<(Checked, Vec<String>)> {
        let elsewhere = Elsewhere {
            source: &self.source,
            drive,
            store: store(out)?,
            raised: Mutex::default(),
            warnings: Warnings::default(),
        };
        let answer = py.detach(|| self.ask(&elsewhere));
        let Elsewhere { raised, warnings, .. } = elsewhere;
        if let Some(raised) = raised.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(raised);
        }
        let checked = answer.map_err(|error| errors::run(&error))?;
        Ok((checked, warnings.0.into_inner().unwrap_or_default()))
    }
}

impl Question {
    /// How often every point is run, whatever the claims need: as the scenario says, or this often.
    fn completes(&self) -> Option<Option<usize>> {
        match (self.is_for_report, self.mode) {
            (false, _) | (true, Mode::Sequential) => None,
            (true, Mode::Full) => Some(None),
            (true, Mode::Fixed(seeds)) => Some(Some(seeds)),
        }
    }

    fn ask(&self, elsewhere: &Elsewhere<'_>) -> Result<Checked, RunError> {
        let scenario = &self.scenario;
        let kept = match &elsewhere.store {
            Some(store) => store.load_all(scenario, &elsewhere.warnings)?,
            None => vec![runner::Runs::new(); scenario.points.len()],
        };
        let mut results = runner::Results::new(kept);
        if let Some(seeds) = self.completes() {
            elsewhere.carry_out(scenario, &mut results, Goal::of(scenario, seeds))?;
        }
        self.judge(elsewhere, results)
    }

    fn judge(
        &self,
        driver: &dyn Driver,
        mut results: runner::Results,
    ) -> Result<Checked, RunError> {
        let (scenario, references) = (&*self.scenario, &self.references);
        let judgements = check::check(driver, scenario, &mut results, references, self.mode)?;
        let seeds = match self.mode {
            Mode::Fixed(seeds) => Some(seeds),
            _ => None,
        };
        let agreement = match (self.compares, self.is_for_report && !references.is_empty()) {
            (true, _) => Some(check::compare(driver, scenario, &mut results, references, seeds)?),
            (false, true) => Some(check::agreement(scenario, &results, references)),
            (false, false) => None,
        };
        let scenario = Arc::clone(&self.scenario);
        let all = check::Checked {
            scenario: (*scenario).clone(),
            judgements,
            agreement,
            changed: self.changed,
        };
        let (mode, references, changes) =
            (self.mode, self.references.clone(), self.changes.clone());
        Ok(Checked { all, mode, scenario, results, references, changes })
    }
}

/// Carries out plans by a function of Python, which hands them to workers.
struct Elsewhere<'a> {
    source: &'a runner::Source,
    drive: Py<PyAny>,
    store: Option<Store>,
    /// What the function raised.
    raised: Mutex<Option<PyErr>>,
    warnings: Warnings,
}

impl Elsewhere<'_> {
    fn carry_out(
        &self,
        scenario: &scenario::Scenario,
        results: &mut runner::Results,
        goal: Goal,
    ) -> Result<(), RunError> {
        let scenario = Arc::new(scenario.clone());
        let (source, store) = (self.source.clone(), self.store.clone());
        let plan = Plan::of(scenario, source, goal, results.take(), 1, store);
        let done = Python::attach(|py| -> PyResult<runner::Results> {
            let plan = Py::new(py, plan)?;
            let driven = self.drive.call1(py, (plan.clone_ref(py),));
            // What is finished is kept, whatever happened.
            let results = plan.borrow_mut(py).end().map_err(|error| errors::store(&error));
            driven.and(results)
        });
        match done {
            Ok(done) => *results = done,
            Err(error) => {
                let reason = RunError::Worker(error.to_string());
                self.raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                return Err(reason);
            }
        }
        Ok(())
    }
}

impl Driver for Elsewhere<'_> {
    fn ensure(
        &self,
        scenario: &scenario::Scenario,
        results: &mut runner::Results,
        wanted: &[(usize, usize)],
    ) -> Result<(), RunError> {
        self.carry_out(scenario, results, Goal::counts(scenario, wanted))
    }
}

/// The verdicts of a scenario, with the runs behind them.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Checked {
    all: check::Checked,
    mode: Mode,
    scenario: Arc<scenario::Scenario>,
    results: runner::Results,
    references: Vec<Reference>,
    changes: Vec<Change>,
}

#[pymethods]
impl Checked {
    /// The document that `lab check --json` writes.
    fn document(&self, command: &str) -> String {
        let all = std::slice::from_ref(&self.all);
        let mut document = check::document(all, self.mode, &made_by(command));
        if let Some(fields) = document.as_object_mut() {
            fields.insert("schema".to_owned(), "lab-check".into());
            fields.insert("version".to_owned(), env!("CARGO_PKG_VERSION").into());
        }
        document.to_string()
    }

    /// The table that `lab check --markdown` writes.
    fn markdown(&self) -> String {
        check::tables(std::slice::from_ref(&self.all))
    }

    /// The table of agreement with the original simulator; empty if it was not asked for.
    fn agreement_markdown(&self) -> String {
        match self.all.agreement {
            Some(_) => check::agreement_table(std::slice::from_ref(&self.all)),
            None => String::new(),
        }
    }

    /// Names of the claims that differ, where the file does not say why.
    fn unexplained(&self) -> Vec<String> {
        self.all.unexplained()
    }

    /// The runs.
    fn results(&self, py: Python<'_>) -> Results {
        py.detach(|| Results::new(Arc::clone(&self.scenario), &self.results))
    }
}

/// The page that `lab report` writes.
#[pyfunction]
pub(crate) fn report_page(
    py: Python<'_>,
    checked: Vec<Py<Checked>>,
    distributions: bool,
    command: &str,
) -> String {
    let sections: Vec<Section> = checked
        .iter()
        .map(|checked| {
            let checked = checked.get();
            Section {
                scenario: (*checked.scenario).clone(),
                results: checked.results.clone(),
                references: checked.references.clone(),
                agreement: checked.all.agreement.clone(),
                judgements: checked.all.judgements.clone(),
                changes: checked.changes.clone(),
                distributions,
            }
        })
        .collect();
    py.detach(|| report::html(&sections, &made_by(command)))
}
