//! The common parts of the laboratory's commands: scenarios, options of runs, interruption.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anabranch_emulator::Anywhere;
use anabranch_lab::runner::{RunError, Runner, Store};
use anabranch_lab::scenario::{self, Library, Override, Scenario, ScenarioError};
use anabranch_lab::setup::Platform;
use clap::{Args, ValueEnum};
use serde_json::Value;

use super::progress::Progress;
use crate::built;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output;

/// Options of commands that carry out runs.
#[derive(Debug, Args)]
pub(super) struct RunOptions {
    /// Runs of each point [default: what the scenario says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(super) seeds: Option<u64>,
    /// Threads [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub(super) jobs: Option<u64>,
    /// Run everything on this platform, whatever the scenarios say, except where an axis varies it
    #[arg(long, value_enum, value_name = "PLATFORM")]
    pub(super) on: Option<On>,
    /// Keep finished runs in this directory, and reuse those that are already there
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Show no progress
    #[arg(long)]
    pub(super) quiet: bool,
}

/// Where runs are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum On {
    /// In virtual time
    Simulator,
    /// In real time, with real sockets, on Linux
    Emulator,
}

impl RunOptions {
    /// The changes to scenarios, including the platform.
    pub(super) fn with_changes(&self, changes: &[Override]) -> Vec<Override> {
        let on = self.on.map(|on| match on {
            On::Simulator => "simulator",
            On::Emulator => "emulator",
        });
        let on = on.map(|on| Override {
            key: scenario::ON.to_owned(),
            value: on.to_owned(),
            yields: true,
        });
        changes.iter().cloned().chain(on).collect()
    }
}

/// Whether any point of a scenario uses real sockets.
pub(super) fn is_emulated(scenario: &Scenario) -> bool {
    scenario.points.iter().any(|point| point.setup.on == Platform::Emulator)
}

/// The directory of scenario files, or the scenarios embedded in the program.
pub(super) fn library(given: Option<PathBuf>) -> Result<Library, Failure> {
    match given {
        Some(directory) if directory.is_dir() => Ok(Library::new(directory)),
        Some(directory) => {
            Err(Failure::usage(format!("{} is not a directory", directory.display())))
        }
        None => {
            let here = std::env::current_dir()
                .map_err(|error| Failure::failed(format!("the current directory: {error}")))?;
            match Library::find(&here) {
                Some(library) => Ok(library),
                None => Library::embedded().map_err(|error| {
                    Failure::failed(format!("the scenarios cannot be unpacked: {error}"))
                }),
            }
        }
    }
}

/// A key and a value joined by '='.
pub(super) fn change(text: &str) -> Result<Override, String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok(Override {
            key: key.trim().to_owned(),
            value: value.trim().to_owned(),
            yields: false,
        }),
        _ => Err("a change is written KEY=VALUE, as in 'association.pmr=0'".to_owned()),
    }
}

/// Reads all scenarios before anything runs.
pub(super) fn load(
    library: &Library,
    arguments: &[String],
    changes: &[Override],
) -> Result<Vec<Scenario>, Failure> {
    let ids = library.expand(arguments).map_err(refused)?;
    ids.iter().map(|id| library.load(id, changes).map_err(refused)).collect()
}

/// Like [`load`]. Without arguments, loads all scenarios except those that need real time.
pub(super) fn load_or_all(
    library: &Library,
    arguments: &[String],
    changes: &[Override],
) -> Result<Vec<Scenario>, Failure> {
    if arguments.is_empty() {
        let mut all = load(library, &library.ids().map_err(refused)?, changes)?;
        all.retain(|scenario| !is_emulated(scenario));
        return Ok(all);
    }
    load(library, arguments, changes)
}

pub(super) fn refused(error: ScenarioError) -> Failure {
    match error {
        ScenarioError::Argument(sentence) => Failure::Usage(sentence),
        other => Failure::failed(other),
    }
}

pub(super) fn failed(error: RunError) -> Failure {
    match error {
        RunError::Interrupted { .. } => Failure::Stopped(error.to_string()),
        other => Failure::failed(other),
    }
}

/// Where to keep results, if the user asked for that.
pub(super) fn store(out: Option<&Path>) -> Result<Option<Store>, Failure> {
    let Some(directory) = out else { return Ok(None) };
    // Another commit keeps the results unless it changes the code that makes them.
    Store::open(directory, built::ENGINE).map(Some).map_err(Failure::failed)
}

/// Writes a document to a file, or to standard output if its name is '-'.
pub(super) fn write_json(file: &Path, value: &Value) -> Result<(), Failure> {
    let wrong = |error| Failure::failed(format!("the results cannot be written: {error}"));
    let value = output::with_schema(value);
    if file.as_os_str() == "-" {
        let text = serde_json::to_string(&value).map_err(wrong)? + "\n";
        return output::print(&output::printable_json(&text));
    }
    let text = serde_json::to_string_pretty(&value).map_err(wrong)?;
    write_file(file, &(text + "\n"))
}

/// Writes a text to a file, or to standard output if its name is '-'.
pub(super) fn write_text(file: &Path, text: &str) -> Result<(), Failure> {
    if file.as_os_str() == "-" { output::print_data(text) } else { write_file(file, text) }
}

/// Writes bytes to a file, or to standard output if its name is '-'.
pub(super) fn write_bytes(file: &Path, bytes: &[u8]) -> Result<(), Failure> {
    match file.as_os_str() == "-" {
        true => output::print_bytes(bytes),
        false => write_file(file, bytes),
    }
}

/// Writes a file under another name first and then renames it. So after a full disk or an
/// interruption the old file is still there.
pub(super) fn write_file(file: &Path, text: impl AsRef<[u8]>) -> Result<(), Failure> {
    // A link remains a link, and anything that is not a regular file, such as /dev/null, is written
    // to directly.
    let target = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let written = if target.exists() && !target.is_file() {
        std::fs::write(&target, &text)
    } else {
        let mut name = target.file_name().unwrap_or_default().to_owned();
        name.push(".part");
        let part = target.with_file_name(name);
        let written = std::fs::write(&part, &text).and_then(|()| std::fs::rename(&part, &target));
        if written.is_err() {
            // Report the first error.
            let _ = std::fs::remove_file(&part);
        }
        written
    };
    written
        .map_err(|error| Failure::failed(format!("{} cannot be written: {error}", file.display())))
}

impl RunOptions {
    /// Runs `work` with a runner outside the program's async tasks; Ctrl-C stops the runner.
    pub(super) async fn with_runner<T: Send + 'static>(
        self,
        work: impl FnOnce(&Runner<'_>, &Progress) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let interrupt = Interrupt::install()?;
        let stop = Arc::new(AtomicBool::new(false));
        let flag = stop.clone();
        tokio::spawn(async move {
            interrupt.wait().await;
            flag.store(true, Ordering::Relaxed);
        });
        let store = store(self.out.as_deref())?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let jobs = self.jobs.map_or(cores, |jobs| jobs as usize);
        let quiet = self.quiet;
        tokio::task::spawn_blocking(move || {
            let progress = Progress::new(quiet);
            let experiment = Anywhere::new(Arc::clone(&stop));
            let runner = Runner {
                experiment: &experiment,
                jobs,
                stop: &stop,
                observer: &progress,
                store: store.as_ref(),
            };
            work(&runner, &progress)
        })
        .await
        .map_err(|error| Failure::failed(format!("the runs ended early: {error}")))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_have_a_key_and_a_value() {
        let parsed = change("path.primary.loss = 3 %").unwrap();
        assert_eq!((parsed.key.as_str(), parsed.value.as_str()), ("path.primary.loss", "3 %"));
        for wrong in ["", "pmr", "=3"] {
            assert!(change(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("out.json");
        write_file(&file, "old").unwrap();
        write_file(&file, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "new");
        // The temporary name cannot be written, so the old file stays.
        std::fs::create_dir(dir.path().join("out.json.part")).unwrap();
        assert!(write_file(&file, "half").is_err());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "new");
        // A device is not replaced, and a full one is an error.
        write_file(Path::new("/dev/null"), "gone").unwrap();
        assert!(!Path::new("/dev/null").is_file());
        assert!(write_file(Path::new("/dev/full"), "full").is_err());
    }
}
