//! Scenarios.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anabranch_lab::runner::{Source, require_virtual_time};
use anabranch_lab::scenario::{self, Library, Override};
use anabranch_lab::units::{MOST_TEXT, read_text};
use anabranch_lab::{export, reference};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::errors;
use crate::table::Table;

/// The scenarios in the package, in a temporary directory.
static LIBRARY: Mutex<Option<Library>> = Mutex::new(None);

/// The scenarios in the package, if this one is of them.
pub(crate) fn library_of(source: &Source) -> PyResult<Library> {
    if source.needs_library() { library() } else { Ok(Library::new("none")) }
}

fn library() -> PyResult<Library> {
    let mut library = LIBRARY.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(library) = library.as_ref().filter(|library| library.directory().is_dir()) {
        return Ok(library.clone());
    }
    let new = Library::embedded().map_err(|error| {
        PyOSError::new_err(format!("the scenarios cannot be unpacked: {error}"))
    })?;
    Ok(library.insert(new).clone())
}

/// Removes the temporary directory.
#[pyfunction]
pub(crate) fn close() {
    LIBRARY.lock().unwrap_or_else(PoisonError::into_inner).take();
}

/// The names of the scenarios in the package.
#[pyfunction]
pub(crate) fn scenarios() -> PyResult<Vec<String>> {
    library()?.ids().map_err(errors::scenario)
}

/// A scenario that was read, and cannot change.
#[pyclass(frozen, module = "anabranch._anabranch")]
pub(crate) struct Scenario {
    pub(crate) inner: Arc<scenario::Scenario>,
    pub(crate) source: Source,
}

fn overrides(changes: Vec<(String, String)>) -> Vec<Override> {
    let change = |(key, value)| Override { key, value, yields: false };
    changes.into_iter().map(change).collect()
}

impl Scenario {
    fn read(source: Source) -> PyResult<Self> {
        let inner = source.load(&library_of(&source)?).map_err(errors::scenario)?;
        require_virtual_time(&inner).map_err(errors::scenario)?;
        Ok(Self { inner: Arc::new(inner), source })
    }
}

#[pymethods]
impl Scenario {
    /// A scenario of the package.
    #[staticmethod]
    fn library(id: &str, changes: Vec<(String, String)>) -> PyResult<Self> {
        Self::read(Source::library(id, &overrides(changes)))
    }

    /// The scenario in a file.
    #[staticmethod]
    fn file(path: PathBuf, changes: Vec<(String, String)>) -> PyResult<Self> {
        let unreadable =
            |error| errors::scenario(format!("{} cannot be read: {error}", path.display()));
        let text = read_text(&path, MOST_TEXT).map_err(unreadable)?;
        let file = std::path::absolute(&path).map_err(unreadable)?;
        let name = path.file_stem().unwrap_or_default().display().to_string();
        Self::read(Source::text(&name, file, text, &overrides(changes)))
    }

    /// The scenario in a text. Files that it names are relative to the directory of `path`.
    #[staticmethod]
    fn text(
        id: &str,
        path: PathBuf,
        text: String,
        changes: Vec<(String, String)>,
    ) -> PyResult<Self> {
        Self::read(Source::text(id, path, text, &overrides(changes)))
    }

    #[getter]
    fn id(&self) -> &str {
        &self.inner.id
    }

    #[getter]
    fn title(&self) -> &str {
        &self.inner.title
    }

    #[getter]
    fn sha256(&self) -> String {
        self.inner.sha256()
    }

    /// Every value in it, after the changes: one line each.
    #[getter]
    fn resolved(&self) -> &str {
        &self.inner.resolved
    }

    /// The axes and the spelling of their values.
    #[getter]
    fn axes(&self) -> Vec<(String, Vec<String>)> {
        let texts = |axis: &scenario::Axis| axis.values.iter().map(|v| v.text.clone()).collect();
        self.inner.axes.iter().map(|axis| (axis.name.clone(), texts(axis))).collect()
    }

    /// The points: `axis=value` for each axis, joined by commas.
    #[getter]
    fn points(&self) -> Vec<String> {
        self.inner.points.iter().map(|point| point.key.clone()).collect()
    }

    /// The original simulator's numbers.
    fn reference(&self) -> PyResult<Table> {
        let known = reference::load(&self.inner).map_err(errors::scenario)?;
        Ok(Table::new(export::references(&self.inner, &known)))
    }
}
