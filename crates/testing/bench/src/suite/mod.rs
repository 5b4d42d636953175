//! Suites of figures: command line, runs and results for any measurement.

mod options;
mod results;
pub mod single;

use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::process::ExitCode;

use serde_json::{Map, Value};

pub use options::Options;
pub use results::{Spread, median_notes};

/// The target of a figure.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// At least this much.
    AtLeast(f64),
    /// At most this much.
    AtMost(f64),
    /// This much eventually; not required yet.
    Aim(f64),
    /// No target; the value is only reported.
    None,
}

/// Why a figure could not be measured.
#[derive(Debug)]
pub enum Trouble {
    /// The system lacks or forbids something required: the figure is skipped.
    Missing(String),
    /// The measurement failed; other figures are still useful.
    Failed(String),
}

impl Trouble {
    /// A failed measurement with the error as the reason.
    pub fn failed(error: impl std::fmt::Display) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<String> for Trouble {
    fn from(reason: String) -> Self {
        Self::Failed(reason)
    }
}

/// A figure of a suite.
pub trait Figure {
    /// The result of its runs.
    type Outcome;
    /// Its key in the JSON output.
    fn key(&self) -> &'static str;
    /// A description in one line.
    fn title(&self) -> &'static str;
    /// The unit of the values.
    fn unit(&self) -> &'static str;
    /// The target.
    fn target(&self) -> Target;
    /// Measures the figure.
    ///
    /// # Errors
    /// Returns the reason if it cannot be measured.
    fn run(&self, options: &Options) -> Result<Self::Outcome, Trouble>;
    /// Prints the outcome, except for the last line with the verdict.
    fn print(&self, outcome: &Self::Outcome);
    /// The main number.
    fn headline(&self, outcome: &Self::Outcome) -> Option<f64>;
    /// Additional values for JSON.
    fn details(&self, outcome: &Self::Outcome) -> Map<String, Value>;
}

/// A suite of figures.
#[derive(Debug)]
pub struct Suite<F: 'static> {
    /// The program's name in its messages.
    pub name: &'static str,
    /// Its figures, in the order in which they are measured.
    pub figures: &'static [F],
    /// Names for several figures, for `--only`.
    pub groups: &'static [(&'static str, &'static [&'static str])],
    /// The default number of measurements of each figure.
    pub runs: usize,
    /// Whether it has the option `--program`.
    pub takes_program: bool,
}

impl<F: Figure> Suite<F> {
    /// Executes what the arguments request.
    pub fn main(&self, arguments: impl Iterator<Item = OsString>) -> ExitCode {
        let options = match Options::parse(self, arguments) {
            Ok(options) => options,
            Err(message) => {
                eprintln!("{}: {message}", self.name);
                return ExitCode::from(2);
            }
        };
        if options.list {
            for figure in self.figures {
                println!("{:<20} {}", figure.key(), figure.title());
            }
            for (name, keys) in self.groups {
                println!("{name:<20} {}", keys.join(","));
            }
            return ExitCode::SUCCESS;
        }
        // Open the file first, to report a wrong path immediately instead of after minutes.
        let mut json = None;
        if let Some(path) = &options.json {
            match File::create(path) {
                Ok(file) => json = Some((path, file)),
                Err(error) => {
                    eprintln!("{}: cannot write {}: {error}", self.name, path.display());
                    return ExitCode::FAILURE;
                }
            }
        }
        let (outcomes, mut failed) = self.measure(&options);
        if let Some((path, mut file)) = json
            && let Err(error) = file.write_all(results::json(&outcomes).as_bytes())
        {
            eprintln!("{}: cannot write {}: {error}", self.name, path.display());
            failed = true;
        }
        if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }

    /// Measures and prints. Also returns whether any figure failed.
    fn measure(&self, options: &Options) -> (Vec<(&F, F::Outcome)>, bool) {
        let mut outcomes = Vec::new();
        let mut failed = false;
        for figure in self.figures.iter().filter(|figure| options.wants(figure.key())) {
            match figure.run(options) {
                Ok(outcome) => {
                    println!("{}: {} [{}]", figure.key(), figure.title(), figure.unit());
                    figure.print(&outcome);
                    if let Some(value) = figure.headline(&outcome) {
                        println!("  = {}", figure.target().verdict(value));
                    }
                    outcomes.push((figure, outcome));
                }
                Err(Trouble::Missing(what)) => {
                    eprintln!("{}: {} is left out: {what}", self.name, figure.key());
                }
                Err(Trouble::Failed(message)) => {
                    eprintln!("{}: {}: {message}", self.name, figure.key());
                    failed = true;
                }
            }
        }
        (outcomes, failed)
    }
}
