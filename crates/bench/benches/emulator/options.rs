//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::{Arg, Parser, ValueExt};

use crate::figures;

/// What to run and where to write it.
#[derive(Debug)]
pub(crate) struct Options {
    /// Keys of the figures to run; empty means all.
    pub(crate) only: Vec<String>,
    /// How often each figure is measured.
    pub(crate) runs: usize,
    /// Short runs, to see that it works: the numbers say little.
    pub(crate) quick: bool,
    /// Only name the figures.
    pub(crate) list: bool,
    /// Where to write the results.
    pub(crate) json: Option<PathBuf>,
    /// The program, where it is not to be built.
    pub(crate) program: Option<PathBuf>,
}

impl Options {
    /// Whether the figure was asked for.
    pub(crate) fn wants(&self, key: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == key)
    }
}

/// Reads the arguments; the error is a sentence for the user.
pub(crate) fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Options, String> {
    let mut options =
        Options { only: Vec::new(), runs: 3, quick: false, list: false, json: None, program: None };
    let mut runs = None;
    let mut under_cargo_bench = false;
    let mut any = false;
    let mut parser = Parser::from_args(arguments);
    while let Some(argument) = parser.next().map_err(|e| e.to_string())? {
        any = true;
        match argument {
            // Cargo adds it.
            Arg::Long("bench") => under_cargo_bench = true,
            Arg::Long("quick") => options.quick = true,
            Arg::Long("list") => options.list = true,
            Arg::Long("json") => {
                let file = parser.value().map_err(|e| e.to_string())?;
                options.json = Some(file.into());
            }
            Arg::Long("program") => {
                let file = parser.value().map_err(|e| e.to_string())?;
                options.program = Some(file.into());
            }
            Arg::Long("runs") => {
                let value = parser.value().map_err(|e| e.to_string())?;
                let count: usize =
                    value.parse().map_err(|_| "--runs takes a number from 1 to 1000".to_owned())?;
                if !(1..=1000).contains(&count) {
                    return Err("--runs takes a number from 1 to 1000".into());
                }
                runs = Some(count);
            }
            Arg::Long("only") => {
                let value = parser.value().map_err(|e| e.to_string())?;
                let keys =
                    value.into_string().map_err(|_| "--only takes figures' names".to_owned())?;
                for key in keys.split(',').filter(|key| !key.is_empty()) {
                    if !figures::ALL.iter().any(|figure| figure.key == key) {
                        return Err(format!(
                            "there is no figure '{key}'; --list names those that there are"
                        ));
                    }
                    options.only.push(key.to_owned());
                }
            }
            other => return Err(other.unexpected().to_string()),
        }
    }
    if options.quick {
        options.runs = 1;
    }
    if let Some(runs) = runs {
        options.runs = runs;
    }
    // `cargo test --all-targets` runs this program too, without any argument; measuring then
    // would only hold the tests up.
    if !any && !under_cargo_bench {
        options.list = true;
    }
    Ok(options)
}
