//! Errors as exceptions. Their texts are the library's sentences.

use anabranch_lab::runner;
use pyo3::create_exception;
use pyo3::exceptions::{
    PyConnectionError, PyKeyboardInterrupt, PyOSError, PyRuntimeError, PyValueError,
};
use pyo3::prelude::*;

create_exception!(
    anabranch._anabranch,
    ScenarioError,
    PyValueError,
    "A scenario is refused: the text has the line and the reason."
);
create_exception!(
    anabranch._anabranch,
    RunError,
    PyRuntimeError,
    "A run cannot be carried out, or a worker's result cannot be used."
);
create_exception!(
    anabranch._anabranch,
    StoreError,
    PyOSError,
    "Results cannot be kept, or those that are there contradict others."
);

create_exception!(
    anabranch._anabranch,
    SctpError,
    PyConnectionError,
    "An endpoint or an association cannot do this, or has ended."
);

/// What an endpoint or an association says.
#[cfg(unix)]
pub(crate) fn sctp(error: impl std::fmt::Display) -> PyErr {
    SctpError::new_err(error.to_string())
}

/// A scenario that is refused.
pub(crate) fn scenario(error: impl std::fmt::Display) -> PyErr {
    ScenarioError::new_err(error.to_string())
}

/// Results that cannot be kept.
pub(crate) fn store(error: &runner::StoreError) -> PyErr {
    StoreError::new_err(error.to_string())
}

/// Runs that could not be carried out.
pub(crate) fn run(error: &runner::RunError) -> PyErr {
    match error {
        runner::RunError::Interrupted { .. } => PyKeyboardInterrupt::new_err(error.to_string()),
        runner::RunError::Store(error) => store(error),
        other => RunError::new_err(other.to_string()),
    }
}
