//! Tables for libraries that read Arrow, and for those who have none.

use std::sync::Arc;

use anabranch_lab::export::{Column, Values};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};

use crate::arrow;

/// Columns of the same length.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Table {
    columns: Vec<Arc<Column>>,
}

impl Table {
    pub(crate) fn new(columns: Vec<Column>) -> Self {
        Self { columns: columns.into_iter().map(Arc::new).collect() }
    }
}

#[pymethods]
impl Table {
    /// How many rows there are.
    fn __len__(&self) -> usize {
        self.columns.first().map_or(0, |column| column.values.len())
    }

    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<&str> {
        self.columns.iter().map(|column| column.name.as_str()).collect()
    }

    /// A list for each column.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        for column in &self.columns {
            let list = match &column.values {
                Values::Numbers(numbers) => PyList::new(py, numbers.iter())?,
                Values::Spelled(chosen) => {
                    let numbers: Vec<f64> = chosen.iter().map(|(_, number)| *number).collect();
                    PyList::new(py, numbers)?
                }
                Values::Counts(values) => PyList::new(py, values)?,
                Values::Texts(values) => PyList::new(py, values)?,
                Values::Named(chosen) => PyList::new(py, chosen.iter().collect::<Vec<_>>())?,
                Values::Same(text, rows) => PyList::new(py, vec![text; *rows])?,
            };
            all.set_item(&column.name, list)?;
        }
        Ok(all)
    }

    /// Arrow's PyCapsule interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // Consumers must accept another schema than the one they ask for.
        drop(requested_schema);
        arrow::capsule(py, &self.columns)
    }

    fn __repr__(&self) -> String {
        format!("<Table of {} rows: {}>", self.__len__(), self.columns().join(", "))
    }
}
