//! `anabranch pattern check`.

use std::path::PathBuf;

use anabranch_impair::pattern::{PatternError, Patterns, Place};
use clap::Args;
use serde::Serialize;

use crate::failure::{Failure, complain};
use crate::output::{count, print, print_json};

/// Report what is wrong in pattern files, and where; exit code 1 if anything is
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch pattern check patterns/*.pattern
  anabranch pattern check radio.pattern --json")]
pub(crate) struct Check {
    /// Files of either format
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print JSON, one document a file
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Checked {
    file: String,
    valid: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    byte: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    patterns: Vec<Summary>,
}

#[derive(Serialize)]
struct Summary {
    name: Option<String>,
    kind: &'static str,
    length: u64,
    changes: u64,
}

impl Check {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut failed = false;
        for file in &self.files {
            let result = Patterns::read(&super::bytes(file)?);
            failed |= result.is_err();
            let name = file.display().to_string();
            match (&result, self.json) {
                (_, true) => print_json(&checked(name, result.as_ref()))?,
                (Ok(patterns), false) => {
                    let list = patterns.list();
                    let changes: u64 = list.iter().map(|pattern| pattern.values.runs()).sum();
                    let what = count(list.len() as u64, "pattern");
                    print(&format!("{name}: {what}, {}\n", count(changes, "run")))?;
                }
                (Err(error), false) => complain(&format!("{name}, {error}")),
            }
        }
        if failed { Err(Failure::Reported) } else { Ok(()) }
    }
}

fn checked(file: String, result: Result<&Patterns, &PatternError>) -> Checked {
    let (line, byte) = match result.err().map(PatternError::place) {
        Some(Place::Line(line)) => (Some(line), None),
        Some(Place::Byte(byte)) => (None, Some(byte)),
        _ => (None, None),
    };
    let list = result.map(Patterns::list).unwrap_or_default();
    Checked {
        file,
        valid: result.is_ok(),
        line,
        byte,
        reason: result.err().map(|error| error.reason().to_owned()),
        patterns: list
            .iter()
            .map(|pattern| Summary {
                name: pattern.name.clone(),
                kind: pattern.kind.name(),
                length: pattern.length(),
                changes: pattern.values.runs(),
            })
            .collect(),
    }
}
