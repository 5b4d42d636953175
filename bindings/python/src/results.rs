//! Results.

use std::sync::Arc;

use anabranch_lab::export::{Column, Values};
use anabranch_lab::provenance::Provenance;
use anabranch_lab::report::{self, Section};
use anabranch_lab::{export, metrics, reference, runner, scenario};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::{arrow, errors};

/// The runs of a scenario, as columns: libraries get the numbers themselves, not copies.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Results {
    scenario: Arc<scenario::Scenario>,
    /// How many runs each point has.
    counts: Vec<usize>,
    columns: Vec<Arc<Column>>,
}

impl Results {
    /// This takes a second for a million runs.
    pub(crate) fn new(scenario: Arc<scenario::Scenario>, inner: &runner::Results) -> Self {
        let columns = export::measured(&scenario, inner, &[]);
        let counts = inner.points.iter().map(Vec::len).collect();
        Self { scenario, counts, columns: columns.into_iter().map(Arc::new).collect() }
    }

    /// All columns of tables.
    fn columns(&self, command: &str) -> Vec<Arc<Column>> {
        let made_by = made_by(command);
        let made = export::provenance(&self.scenario, &made_by, self.__len__());
        self.columns.iter().cloned().chain(made.map(Arc::new)).collect()
    }
}

/// What made results in Python: a call.
pub(crate) fn made_by(command: &str) -> Provenance {
    Provenance {
        program: format!("anabranch for Python {}", env!("CARGO_PKG_VERSION")),
        commit: env!("ANABRANCH_BUILT_FROM").to_owned(),
        command: command.to_owned(),
    }
}

#[pymethods]
impl Results {
    fn __len__(&self) -> usize {
        self.counts.iter().sum()
    }

    /// How many runs each point has.
    #[getter]
    fn counts(&self) -> Vec<usize> {
        self.counts.clone()
    }

    /// The values of a metric, one list for each point; `None` where a run has not measured it.
    fn values(&self, metric: &str) -> PyResult<Vec<Vec<Option<f64>>>> {
        let index = metrics::find_named(metric, &self.scenario.names);
        let Some(known) = index.and_then(|index| metrics::METRICS.get(index)) else {
            return Err(PyKeyError::new_err(format!("there is no metric '{metric}'")));
        };
        // An axis may have the name of a metric.
        let numbers = self.columns.iter().find_map(|column| match &column.values {
            Values::Numbers(numbers) if column.name == known.name => Some(numbers),
            _ => None,
        });
        let mut values: Box<dyn Iterator<Item = Option<f64>>> = match numbers {
            Some(numbers) => Box::new(numbers.iter()),
            None => Box::new(std::iter::repeat(None)),
        };
        Ok(self.counts.iter().map(|count| values.by_ref().take(*count).collect()).collect())
    }

    /// One row a run, as a stream of Arrow: a capsule.
    fn arrow<'py>(&self, py: Python<'py>, command: &str) -> PyResult<Bound<'py, PyCapsule>> {
        arrow::capsule(py, &self.columns(command))
    }

    /// One row a run, as CSV.
    fn csv(&self, py: Python<'_>, command: &str) -> String {
        py.detach(|| export::csv_of(&self.columns(command)))
    }

    /// One row a run, as a file of Apache Parquet.
    fn parquet(&self, py: Python<'_>, command: &str) -> Vec<u8> {
        py.detach(|| export::parquet_of(&self.columns(command)))
    }

    /// The charts of the scenario's figure: names, and SVG pictures.
    fn charts(&self, py: Python<'_>) -> PyResult<Vec<(String, String)>> {
        let references = reference::load(&self.scenario).map_err(errors::scenario)?;
        Ok(py.detach(|| {
            report::pictures(&Section {
                scenario: (*self.scenario).clone(),
                results: export::results(&self.columns, &self.counts),
                references,
                agreement: None,
                judgements: Vec::new(),
                changes: Vec::new(),
                distributions: false,
            })
        }))
    }
}
