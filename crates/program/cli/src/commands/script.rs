//! `script`: runs packet scripts against the protocol engine.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anabranch_script::{Failure as ScriptFailure, FailureKind, Passed, Script as PacketScript};
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::failure::Failure;
use crate::output;

/// Run packet scripts: this packet goes in, that packet comes out
#[derive(Debug, Args)]
pub(crate) struct Script {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Run scripts in virtual time; exit code 1 if one fails or cannot be read
    Run(Run),
}

#[derive(Debug, Args)]
struct Run {
    /// Scripts, or folders with scripts (*.pkt)
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print a JSON document
    #[arg(long)]
    json: bool,
    /// Ignore packets sent after the end of a script, like packetdrill
    #[arg(long)]
    lenient: bool,
}

/// The results of all scripts.
#[derive(Debug, Serialize)]
struct Report {
    scripts: usize,
    passed: usize,
    failed: usize,
    /// Scripts that could not be read or need something that is not supported.
    broken: usize,
    seconds: f64,
    results: Vec<Outcome>,
}

/// The result of one script.
#[derive(Debug, Serialize)]
struct Outcome {
    file: String,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    packets: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    virtual_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    details: Vec<String>,
}

impl Outcome {
    fn of(file: &std::path::Path, result: Result<Passed, ScriptFailure>) -> Self {
        let file = file.display().to_string();
        let empty = Self {
            file,
            outcome: "passed",
            packets: None,
            virtual_seconds: None,
            line: None,
            column: None,
            message: None,
            details: Vec::new(),
        };
        match result {
            Ok(passed) => Self {
                packets: Some(passed.packets),
                virtual_seconds: Some(passed.time.as_secs_f64()),
                ..empty
            },
            Err(failure) => Self {
                file: failure.place.file.to_string(),
                outcome: match failure.kind {
                    FailureKind::Behaviour => "failed",
                    FailureKind::Script => "broken",
                },
                line: Some(failure.place.line),
                column: Some(failure.place.column),
                message: Some(failure.message),
                details: failure.details,
                ..empty
            },
        }
    }
}

impl Script {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let Action::Run(run) = self.action;
        let mut files = Vec::new();
        for path in &run.files {
            let found = anabranch_script::scripts(path)
                .map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?;
            if found.is_empty() {
                let name = path.display();
                return Err(Failure::failed(format!(
                    "{name} has no scripts: their names end in .pkt"
                )));
            }
            files.extend(found);
        }
        let begin = Instant::now();
        let mut results = Vec::new();
        for file in &files {
            let script = PacketScript::load(file);
            let result = script.and_then(|script| script.run_leniently(run.lenient));
            if let (Err(failure), false) = (&result, run.json) {
                output::print(&format!("{failure}\n"))?;
            }
            results.push(Outcome::of(file, result));
        }
        finish(results, begin.elapsed(), run.json)
    }
}

fn finish(results: Vec<Outcome>, time: Duration, json: bool) -> Result<(), Failure> {
    let count = |outcome| results.iter().filter(|result| result.outcome == outcome).count();
    let (passed, failed, broken) = (count("passed"), count("failed"), count("broken"));
    let (scripts, seconds) = (results.len(), time.as_secs_f64());
    if json {
        output::print_json(&Report { scripts, passed, failed, broken, seconds, results })?;
    } else {
        let ms = seconds * 1e3;
        output::print(&format!(
            "{}: {passed} passed, {failed} failed, {broken} not readable; {ms:.0} ms\n",
            output::count(scripts as u64, "script")
        ))?;
    }
    match (broken, failed) {
        (0, 0) => Ok(()),
        (0, _) => Err(Failure::failed(format!("{failed} of {scripts} scripts failed"))),
        _ => Err(Failure::failed(format!("{broken} of {scripts} scripts cannot be read or run"))),
    }
}
