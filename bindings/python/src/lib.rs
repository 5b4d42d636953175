//! The compiled part of the Python package `anabranch`: it translates, and what is decided is decided in
//! `anabranch-lab`, or in Python.

mod advise;
#[allow(unsafe_code, reason = "Arrow's interface is structures of C with callbacks")]
mod arrow;
mod check;
mod errors;
#[cfg(unix)]
mod home;
#[cfg(unix)]
mod operation;
mod pcap;
mod plan;
mod results;
mod scenario;
mod sim;
mod table;
mod threads;
mod trace;
#[cfg(unix)]
mod transport;
mod worker;

/// The package's compiled part.
#[pyo3::pymodule]
mod _anabranch {
    #[pymodule_export]
    use super::advise::{advise_paths, advise_traffic};
    #[pymodule_export]
    use super::check::{Checked, Question, report_page};
    #[pymodule_export]
    use super::errors::{RunError, ScenarioError, StoreError};
    #[pymodule_export]
    use super::pcap::read_captures;
    #[pymodule_export]
    use super::plan::Plan;
    #[pymodule_export]
    use super::results::Results;
    #[pymodule_export]
    use super::scenario::{Scenario, close, scenarios};
    #[pymodule_export]
    use super::sim::{Network, Packet};
    #[pymodule_export]
    use super::table::Table;
    #[pymodule_export]
    use super::threads::run;
    #[pymodule_export]
    use super::trace::{Trace, trace};
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

    /// Refuses interpreters within the process: they would share what is one for each process, such as the runtime.
    /// Python itself asks modules from 3.12 on.
    #[pymodule_init]
    fn init(_module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        match super::interpreter() {
            0 => Ok(()),
            _ => Err(pyo3::exceptions::PyImportError::new_err(
                "anabranch is for the main interpreter of a process: use processes instead of subinterpreters",
            )),
        }
    }

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    #[pymodule_export]
    const COMMIT: &str = env!("ANABRANCH_BUILT_FROM");
    #[pymodule_export]
    const ENGINE: &str = super::ENGINE;
}

/// Fingerprint of the code that decides results.
const ENGINE: &str = env!("ANABRANCH_ENGINE");

/// The number of the interpreter that runs this: 0 is the main one.
#[allow(unsafe_code, reason = "pyo3 has no function for it")]
fn interpreter() -> i64 {
    // SAFETY: modules are initialized with an interpreter, which these functions need.
    unsafe { pyo3::ffi::PyInterpreterState_GetID(pyo3::ffi::PyInterpreterState_Get()) }
}
