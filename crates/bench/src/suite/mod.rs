//! Suites of figures: the command line, the runs and their results, for any measurement.

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
    /// This much or more.
    AtLeast(f64),
    /// This much or less.
    AtMost(f64),
    /// So much in the end; it is not asked for yet.
    Aim(f64),
    /// Nothing: it is there to be seen.
    None,
}

/// Why a figure could not be measured.
#[derive(Debug)]
pub enum Trouble {
    /// A requirement that the system does not have or allow: the figure is left out.
    Missing(String),
    /// It went wrong; the others are still worth having.
    Failed(String),
}

impl Trouble {
    /// It went wrong, for the reason of an error.
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
    /// One line about it.
    fn title(&self) -> &'static str;
    /// The unit of the values.
    fn unit(&self) -> &'static str;
    /// The target.
    fn target(&self) -> Target;
    /// Measures it.
    ///
    /// # Errors
    /// The reason why it cannot be measured.
    fn run(&self, options: &Options) -> Result<Self::Outcome, Trouble>;
    /// Prints the outcome, except for the last line, which says whether that is enough.
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
    /// How often each figure is measured if nothing else is said.
    pub runs: usize,
    /// Whether it takes `--program`.
    pub takes_program: bool,
}

impl<F: Figure> Suite<F> {
    /// Does what the arguments ask for.
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
            return ExitCode::SUCCESS;
        }
        // Opened first: a wrong path is reported at once and not after minutes.
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

    /// Measures and prints; whether some figure failed.
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
