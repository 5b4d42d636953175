//! Runs programs in a network described in a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anabranch_emulator::{
    Capture, Emulation, Ended, FateLog, Form, Observers, Programs, Replay, Topology,
};

use super::{exit_code, sink, tell};
use crate::failure::Failure;
use crate::impairment::{self, read_with_patterns};
use crate::interrupt::Interrupt;

mod report;

/// The network to emulate.
#[derive(Debug)]
pub(crate) struct NetworkRun {
    pub(crate) file: PathBuf,
    pub(crate) programs: Programs,
    pub(crate) seed: Option<u64>,
    pub(crate) log: Option<PathBuf>,
    pub(crate) form: Form,
    pub(crate) replay: Option<PathBuf>,
    pub(crate) capture: Option<PathBuf>,
    pub(crate) report: Option<PathBuf>,
    pub(crate) quiet: bool,
}

/// Reads a file with a network.
fn read(path: &Path) -> Result<Topology, Failure> {
    read_with_patterns(path, |text, load| Topology::read(text, load))
}

impl NetworkRun {
    /// Rejects invalid settings before any namespace is created.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        Ok(self.programs.check(&read(&self.file)?)?)
    }

    /// Sets up the network and runs the programs in it until the command ends, or the user stops
    /// it.
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let interrupt = Interrupt::install()?;
        let topology = read(&self.file)?;
        let ways = topology.ways();
        let replay = self.replay.as_ref().map(|path| Replay::open(path, &ways)).transpose()?;
        let earlier = replay.as_ref().and_then(|replay| replay.seed);
        let seed = self.seed.or(earlier).or(topology.seed).unwrap_or_else(impairment::seed);
        let quiet = self.quiet;
        let emulation = Emulation::make(topology, Arc::new(move |notice| tell(&notice, quiet)))?;
        let observers = self.observers(replay, &emulation, seed)?;
        let outcome = emulation.run(&self.programs, observers, seed, interrupt.stop()).await?;
        if let Some(path) = &self.report {
            report::save(path, &ways, &outcome.summary, seed)?;
        }
        if !self.quiet {
            report::tell(&ways, &outcome.summary);
        }
        match outcome.ended? {
            Ended::Command(status) if status.success() => Ok(()),
            // The exit code of the command becomes that of the emulator.
            Ended::Command(status) => Err(Failure::Exit(exit_code(status))),
            Ended::Stopped => Err(Failure::Interrupted),
        }
    }

    /// The observers of packets that the options request.
    fn observers(
        &self,
        replay: Option<Replay>,
        emulation: &Emulation,
        seed: u64,
    ) -> Result<Observers, Failure> {
        let open = |what: &str, path: &Path| {
            sink::open(path).map_err(|error| {
                let path = path.display();
                Failure::failed(format!("the {what} {path} cannot be written: {error}"))
            })
        };
        let mut observers = Observers { replay, ..Observers::default() };
        if let Some(path) = &self.log {
            let out = open("log", path)?;
            let ways = emulation.ways();
            observers.log = Some(FateLog::new(out, path.clone(), self.form, ways, seed));
        }
        if let Some(path) = &self.capture {
            let out = open("capture", path)?;
            observers.capture = Some(Capture::new(out, path.clone(), &emulation.interfaces()));
        }
        Ok(observers)
    }
}
