//! Results.

use std::sync::Arc;

use anabranch_lab::provenance::Provenance;
use anabranch_lab::report::{self, Section};
use anabranch_lab::{export, metrics, reference, runner, scenario};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::{arrow, errors};

/// The runs of a scenario.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Results {
    scenario: Arc<scenario::Scenario>,
    inner: runner::Results,
}

impl Results {
    pub(crate) fn new(scenario: Arc<scenario::Scenario>, inner: runner::Results) -> Self {
        Self { scenario, inner }
    }

    fn columns(&self, command: &str) -> Vec<export::Column> {
        export::columns(&self.scenario, &self.inner, &[], &made_by(command))
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
        self.inner.points.iter().map(Vec::len).sum()
    }

    /// How many runs each point has.
    #[getter]
    fn counts(&self) -> Vec<usize> {
        self.inner.points.iter().map(Vec::len).collect()
    }

    /// The values of a metric, one list for each point; `None` where a run has not measured it.
    fn values(&self, metric: &str) -> PyResult<Vec<Vec<Option<f64>>>> {
        let Some(index) = metrics::find_named(metric, &self.scenario.names) else {
            return Err(PyKeyError::new_err(format!("there is no metric '{metric}'")));
        };
        let values = |runs: &Vec<metrics::Metrics>| runs.iter().map(|run| run.at(index)).collect();
        Ok(self.inner.points.iter().map(values).collect())
    }

    /// One row a run, as a stream of Arrow: a capsule.
    fn arrow<'py>(&self, py: Python<'py>, command: &str) -> PyResult<Bound<'py, PyCapsule>> {
        let columns = py.detach(|| self.columns(command));
        arrow::capsule(py, columns)
    }

    /// One row a run, as CSV.
    fn csv(&self, py: Python<'_>, command: &str) -> String {
        py.detach(|| export::csv(&self.scenario, &self.inner, &[], &made_by(command)))
    }

    /// One row a run, as a file of Apache Parquet.
    fn parquet(&self, py: Python<'_>, command: &str) -> Vec<u8> {
        py.detach(|| export::parquet(&self.scenario, &self.inner, &[], &made_by(command)))
    }

    /// The charts of the scenario's figure: names, and SVG pictures.
    fn charts(&self, py: Python<'_>) -> PyResult<Vec<(String, String)>> {
        let references = reference::load(&self.scenario).map_err(errors::scenario)?;
        Ok(py.detach(|| {
            report::pictures(&Section {
                scenario: (*self.scenario).clone(),
                results: self.inner.clone(),
                references,
                agreement: None,
                judgements: Vec::new(),
                changes: Vec::new(),
                distributions: false,
            })
        }))
    }
}
