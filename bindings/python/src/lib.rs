//! The compiled part of the Python package `anabranch`: it translates, and what is decided is decided in
//! `anabranch-lab`, or in Python.

#[allow(unsafe_code, reason = "Arrow's interface is structures of C with callbacks")]
mod arrow;
mod errors;
#[cfg(unix)]
mod home;
#[cfg(unix)]
mod operation;
mod plan;
mod results;
mod scenario;
mod threads;
#[cfg(unix)]
mod transport;
mod worker;

/// The package's compiled part.
#[pyo3::pymodule]
mod _anabranch {
    #[pymodule_export]
    use super::errors::{RunError, ScenarioError, StoreError};
    #[pymodule_export]
    use super::plan::Plan;
    #[pymodule_export]
    use super::results::Results;
    #[pymodule_export]
    use super::scenario::{Scenario, close, scenarios};
    #[pymodule_export]
    use super::threads::run;
    #[pymodule_export]
    use super::worker::carry_out;

    #[cfg(unix)]
    #[pymodule_export]
    use super::errors::SctpError;
    #[cfg(unix)]
    #[pymodule_export]
    use super::operation::{Operation, Wakeups, forked};
    #[cfg(unix)]
    #[pymodule_export]
    use super::transport::{Association, Endpoint, Events, Listener, PyHome, ReceivedStream};

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    #[pymodule_export]
    const COMMIT: &str = env!("ANABRANCH_BUILT_FROM");
    #[pymodule_export]
    const ENGINE: &str = super::ENGINE;
}

/// Fingerprint of the code that decides results.
const ENGINE: &str = env!("ANABRANCH_ENGINE");
