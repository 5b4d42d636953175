//! CPU time of this thread.

use rustix::time::{ClockId, clock_gettime};

/// Measures the CPU time of the thread that created it.
pub(crate) struct Stopwatch {
    start: f64,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Stopwatch { start: now() }
    }

    /// CPU seconds since the start.
    pub(crate) fn seconds(&self) -> f64 {
        now() - self.start
    }
}

fn now() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
