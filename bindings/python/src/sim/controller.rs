//! A congestion controller written in Python, for teaching.

use std::fmt;

use anabranch::congestion::{
    Acked, CongestionEvent, Controller, ControllerChoice, ControllerFactory, Instant, Loss, NewPath,
};
use pyo3::call::PyCallArgs;
use pyo3::prelude::*;

use super::Raised;

/// Makes controllers by a function of Python, which gets the size of the largest DATA chunk.
pub(super) struct Taught {
    pub(super) make: Py<PyAny>,
    pub(super) raised: Raised,
}

impl fmt::Debug for Taught {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Factories with the same text are taken for equal.
        write!(f, "Taught({:p})", self.make.as_ptr())
    }
}

impl ControllerFactory for Taught {
    fn build(&self, path: &NewPath<'_>) -> Box<dyn Controller> {
        let object = Python::attach(|py| self.make.call1(py, (path.pmdcs,)));
        match object {
            Ok(object) => {
                let raised = self.raised.clone();
                let mut new = OfPath { object, cwnd: path.pmdcs, least: path.pmdcs, raised };
                new.read();
                Box::new(new)
            }
            Err(error) => {
                // The run ends before this one does anything.
                self.raised.note(Err(error));
                ControllerChoice::default().build(path)
            }
        }
    }
}

/// The controller of a path: an object with `cwnd`, `on_acked` and `on_congestion`.
struct OfPath {
    object: Py<PyAny>,
    cwnd: usize,
    least: usize,
    raised: Raised,
}

impl fmt::Debug for OfPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OfPath").field("cwnd", &self.cwnd).finish_non_exhaustive()
    }
}

impl OfPath {
    fn read(&mut self) {
        let cwnd = Python::attach(|py| self.object.getattr(py, "cwnd")?.extract::<f64>(py));
        match cwnd {
            // Numbers that are no sizes become the least window.
            Ok(cwnd) => self.cwnd = (cwnd as usize).max(self.least),
            Err(error) => self.raised.note(Err(error)),
        }
    }

    fn call(&mut self, method: &str, arguments: impl for<'py> PyCallArgs<'py>) {
        if self.raised.is_there() {
            return;
        }
        let done = Python::attach(|py| self.object.call_method1(py, method, arguments).map(|_| ()));
        self.raised.note(done);
        self.read();
    }
}

fn seconds(now: Instant) -> f64 {
    now.as_nanos() as f64 * 1e-9
}

impl Controller for OfPath {
    fn cwnd(&self) -> usize {
        self.cwnd
    }

    fn on_acked(&mut self, acked: &Acked<'_>) {
        let rtt = acked.rtt.smoothed.map(|rtt| rtt.as_secs_f64());
        self.call("on_acked", (seconds(acked.now), acked.bytes, acked.in_flight, rtt));
    }

    fn on_congestion_event(&mut self, congestion: &CongestionEvent<'_>) {
        let cause = match congestion.cause {
            Loss::Reported => "loss",
            Loss::Timeout => "timeout",
            Loss::Marked => "mark",
            _ => "other",
        };
        self.call("on_congestion", (seconds(congestion.now), cause, congestion.in_flight));
    }

    fn on_pmdcs_change(&mut self, _: Instant, pmdcs: usize) {
        self.least = pmdcs;
        self.cwnd = self.cwnd.max(pmdcs);
    }

    fn reinitialize(&mut self, _: Instant) {}
}
