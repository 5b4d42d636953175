//! One run in detail.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::Arc;

use anabranch_lab::metrics::METRICS;
use anabranch_lab::simulation;
use anabranch_lab::{runner, scenario};
use anabranch_qlog::EventLog;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::results::made_by;
use crate::scenario::Scenario;
use crate::{arrow, errors};

/// What happened in a run.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Trace {
    scenario: Arc<scenario::Scenario>,
    point: String,
    inner: simulation::Trace,
}

/// A curve: the path or transfer, and times with values.
type Curve = (String, Vec<(f64, f64)>);

/// Carries out a run of the first point.
#[pyfunction]
pub(crate) fn trace(
    py: Python<'_>,
    scenario: &Scenario,
    number: usize,
    pcap: Option<PathBuf>,
    qlog: Option<PathBuf>,
    command: &str,
) -> PyResult<Trace> {
    let scenario = Arc::clone(&scenario.inner);
    let Some(point) = scenario.points.first() else {
        return Err(errors::scenario(format!("{} has no points", scenario.argument())));
    };
    let create = |file: &PathBuf| {
        File::create(file).map(BufWriter::new).map_err(|error| {
            PyOSError::new_err(format!("{} cannot be written: {error}", file.display()))
        })
    };
    let capture = pcap.as_ref().map(create).transpose()?;
    let log = qlog.as_ref().map(|file| EventLog::new(file).title(command));
    let seed = runner::seed(&scenario.id, &point.seed_key, number);
    let inner = py.detach(|| simulation::trace(point, seed, capture, log));
    let inner = inner.map_err(errors::RunError::new_err)?;
    let point = point.key.clone();
    Ok(Trace { scenario, point, inner })
}

#[pymethods]
impl Trace {
    #[getter]
    fn seed(&self) -> u64 {
        self.inner.seed
    }

    /// Fingerprint of all packets.
    #[getter]
    fn hash(&self) -> u64 {
        self.inner.hash
    }

    #[getter]
    fn point(&self) -> &str {
        &self.point
    }

    /// How many packets there are.
    fn __len__(&self) -> usize {
        self.inner.packets.len()
    }

    /// The metrics of the run.
    #[getter]
    fn metrics(&self) -> Vec<(String, f64)> {
        let measured = METRICS.iter().filter_map(|metric| {
            Some((metric.name.clone(), self.inner.metrics.get(&metric.name)?))
        });
        measured.collect()
    }

    /// Values over time for each path, or each transfer.
    fn series(&self, name: &str) -> PyResult<Vec<Curve>> {
        let Trace { inner, .. } = self;
        let (names, values) = match name {
            "cwnd_bytes" => (&inner.paths, &inner.cwnd),
            "flight_bytes" => (&inner.paths, &inner.flight),
            "srtt_s" => (&inner.paths, &inner.srtt),
            "rto_s" => (&inner.paths, &inner.rto),
            "queue_packets" => (&inner.paths, &inner.queue),
            "goodput_kbit_s" => (&inner.flows, &inner.goodput),
            _ => {
                let reason = format!(
                    "there is no series '{name}': they are cwnd_bytes, flight_bytes, srtt_s, rto_s, queue_packets \
                     and goodput_kbit_s"
                );
                return Err(PyValueError::new_err(reason));
            }
        };
        Ok(names.iter().cloned().zip(values.iter().cloned()).collect())
    }

    /// One row a packet, as a stream of Arrow: a capsule.
    fn arrow<'py>(&self, py: Python<'py>, command: &str) -> PyResult<Bound<'py, PyCapsule>> {
        let columns = py.detach(|| {
            let columns = self.inner.packet_columns(&self.scenario, &made_by(command));
            columns.into_iter().map(Arc::new).collect::<Vec<_>>()
        });
        arrow::capsule(py, &columns)
    }

    /// The table that `lab trace --csv` writes.
    fn csv(&self, py: Python<'_>, command: &str) -> String {
        py.detach(|| self.inner.csv(&self.scenario, &made_by(command)))
    }

    /// The page that `lab trace --html` writes.
    fn html(&self, py: Python<'_>, command: &str) -> String {
        let title = format!("{} at {}", self.scenario.id, self.point);
        py.detach(|| self.inner.html(&title, &self.scenario, &made_by(command)))
    }

    /// The charts of that page: names, and SVG pictures.
    fn charts(&self, py: Python<'_>) -> Vec<(String, String)> {
        py.detach(|| self.inner.pictures())
    }
}
