//! Runs of the laboratory on the platform that each point names.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anabranch_lab::metrics::Metrics;
use anabranch_lab::runner::Experiment;
use anabranch_lab::scenario::Point;
use anabranch_lab::setup::Platform;
use anabranch_lab::simulation::Simulation;

#[cfg(target_os = "linux")]
use crate::experiment::Emulated;

/// Executes each run on the platform of its setup: in the simulator, or with real sockets.
///
/// Runs with real sockets need Linux and a process within [`isolation`](crate::isolation).
pub struct Anywhere {
    #[cfg(target_os = "linux")]
    emulated: Emulated,
}

impl Anywhere {
    /// Setting `stop` ends runs with real sockets immediately.
    #[cfg_attr(
        not(target_os = "linux"),
        expect(unused_variables, reason = "nothing takes real time")
    )]
    pub fn new(stop: Arc<AtomicBool>) -> Self {
        Self {
            #[cfg(target_os = "linux")]
            emulated: Emulated::new(stop),
        }
    }
}

impl Experiment for Anywhere {
    fn run(&self, point: &Point, seed: u64) -> Result<Metrics, String> {
        match point.setup.on {
            Platform::Simulator => Simulation.run(point, seed),
            #[cfg(target_os = "linux")]
            Platform::Emulator => self.emulated.run(point, seed),
            #[cfg(not(target_os = "linux"))]
            Platform::Emulator => Err("the emulator is for Linux".into()),
        }
    }
}
