//! `anabranch lab`: experiments described in files.

mod check;
mod command_line;
mod expect;
mod gain;
mod list;
mod merge;
mod new;
mod plan;
mod progress;
mod report;
mod run;
mod session;
mod show;
mod trace;
mod unit;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::failure::Failure;

/// Simulate experiments described in files, with the same engine that goes on the wire
///
/// A scenario is a file DOCUMENT/FIGURE.toml in the directory 'scenarios', or any other TOML
/// file; docs/lab.md says how to write one.
#[derive(Debug, Args)]
pub(crate) struct Lab {
    #[command(subcommand)]
    command: Command,
    /// Directory of the scenario files [default: 'scenarios' here or above, else those in the program]
    #[arg(long, global = true, value_name = "DIR")]
    scenarios: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(list::List),
    Show(show::Show),
    Run(run::Run),
    Check(check::Check),
    Expect(expect::Expect),
    New(new::New),
    Report(report::Report),
    Trace(trace::Trace),
    Gain(gain::Gain),
    Plan(plan::Plan),
    Unit(unit::Unit),
    Merge(merge::Merge),
}

impl Lab {
    /// Enters the namespaces that real sockets need, if a scenario uses them, while the program has only
    /// one thread. Returns `Some` if the command has already run, inside.
    #[cfg(target_os = "linux")]
    pub(crate) fn isolate(&self) -> Result<Option<u8>, Failure> {
        let scenarios = match &self.command {
            Command::Run(command) => {
                command.scenarios(&session::library(self.scenarios.clone())?)?
            }
            Command::Check(command) => {
                command.scenarios(&session::library(self.scenarios.clone())?)?
            }
            Command::Report(command) => {
                command.scenarios(&session::library(self.scenarios.clone())?)?
            }
            _ => return Ok(None),
        };
        match scenarios.iter().any(session::is_emulated) {
            true => crate::emulate::isolation::enter(),
            false => Ok(None),
        }
    }

    pub(crate) async fn run(self) -> Result<(), Failure> {
        if let Command::New(command) = self.command {
            return command.run(self.scenarios);
        }
        let library = session::library(self.scenarios.clone())?;
        let directory = self.scenarios.as_deref();
        match self.command {
            Command::New(_) => Ok(()),
            Command::List(command) => command.run(&library),
            Command::Show(command) => command.run(&library),
            Command::Run(command) => command.run(library, directory).await,
            Command::Check(command) => command.run(library, directory).await,
            Command::Trace(command) => command.run(&library, directory),
            Command::Report(command) => command.run(library, directory).await,
            Command::Gain(command) => command.run().await,
            Command::Expect(command) => command.run(&library),
            Command::Plan(command) => command.run(&library),
            Command::Unit(command) => command.run(&library),
            Command::Merge(command) => command.run(),
        }
    }
}
