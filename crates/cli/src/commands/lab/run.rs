//! `anabranch lab run`.

use std::path::{Path, PathBuf};

use anabranch_lab::runner::Results;
use anabranch_lab::scenario::{Library, Override, Scenario};
use anabranch_lab::{export, metrics, reference, summary};
use clap::Args;
use serde_json::Value;

use super::session::{self, RunOptions};
use crate::failure::Failure;
use crate::output;

/// Run scenarios and show their curves
///
/// Every point is run with several seeds; tables show the mean and its interval, and in brackets
/// the original simulator's where the scenario has it. The same scenario gives the same numbers
/// whatever the number of threads. Ctrl-C stops; with --out, finished points are kept and the next
/// run goes on from there.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch lab run caro/2.5
  anabranch lab run caro/2.5 --set profile=rfc2960 --set 'primary_loss=5 %' --seeds 10
  anabranch lab run my.toml --set association.pmr=0 --out results --json results.json
  anabranch lab run my.toml --csv runs.csv")]
pub(crate) struct Run {
    /// Scenarios, documents (all of their scenarios), or files
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
    #[command(flatten)]
    options: RunOptions,
    /// Change a field, or narrow an axis to these values (VALUE,VALUE)
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = session::change)]
    changes: Vec<Override>,
    /// Write JSON to this file, or to standard output if it is '-'
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write one row a run to this file, or to standard output if it is '-'; of one scenario
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    csv: Option<PathBuf>,
}

impl Run {
    pub(super) async fn run(self, library: Library) -> Result<(), Failure> {
        let scenarios = session::load(&library, &self.ids, &self.changes)?;
        let seeds = self.options.seeds.map(|seeds| seeds as usize);
        if let (Some(_), [first, second, ..]) = (&self.csv, &scenarios[..]) {
            return Err(Failure::usage(format!(
                "--csv is for one scenario, whose axes are its columns, not for {} and {}",
                first.id, second.id
            )));
        }
        let files = [&self.json, &self.csv];
        let to_stdout = files.iter().any(|f| f.as_ref().is_some_and(|f| f.as_os_str() == "-"));
        let as_csv = self.csv.is_some();
        let documents = self
            .options
            .with_runner(move |runner, progress| {
                let mut documents = Vec::new();
                for scenario in &scenarios {
                    progress.title(&scenario.id);
                    let references = reference::load(scenario).map_err(session::refused)?;
                    let mut results = runner.load(scenario).map_err(session::failed)?;
                    truncate(scenario, &mut results, seeds);
                    let kept: usize = results.points.iter().map(Vec::len).sum();
                    if kept > 0 {
                        progress.note(&format!("{}: {kept} runs are there already", scenario.id));
                    }
                    let done = runner.complete(scenario, &mut results, seeds);
                    progress.finish();
                    done.map_err(session::failed)?;
                    if !to_stdout {
                        show(scenario, &results, &references)?;
                    }
                    documents.push(match as_csv {
                        true => Value::String(export::csv(scenario, &results, &[])),
                        false => summary::json(scenario, &results, &references),
                    });
                }
                Ok(documents)
            })
            .await?;
        match (self.json, self.csv, &documents[..]) {
            (Some(file), ..) => write_json(&file, &documents),
            (None, Some(file), [Value::String(rows)]) => session::write_text(&file, rows),
            _ => Ok(()),
        }
    }
}

/// Leaves the runs that are wanted: what is kept on disk may be more.
fn truncate(scenario: &Scenario, results: &mut Results, seeds: Option<usize>) {
    let most = seeds.unwrap_or(scenario.replications.seeds);
    results.points.iter_mut().for_each(|runs| runs.truncate(most));
}

fn show(
    scenario: &Scenario,
    results: &Results,
    references: &[reference::Reference],
) -> Result<(), Failure> {
    let wanted = std::iter::once(&scenario.figure.y).chain(&scenario.figure.metrics);
    let mut text = format!("{}: {}\n", scenario.id, scenario.title);
    for name in wanted {
        let Some(metric) = metrics::find(name) else { continue };
        let what = metrics::METRICS.get(metric).map_or("", |metric| metric.what.as_str());
        text.push_str(&format!("\n{name}: {what}\n"));
        for table in summary::tables(scenario, results, references, metric) {
            if !table.title.is_empty() {
                text.push_str(&format!("\n{}\n", table.title));
            }
            text.push_str(&output::table(&table.rows));
        }
    }
    if let Some(rows) = summary::flows(scenario, results) {
        text.push_str("\nwhat each transfer got\n");
        text.push_str(&output::table(&rows));
    }
    text.push('\n');
    output::print(&text)
}

/// One scenario is a document of its own; several are a list.
fn write_json(file: &Path, documents: &[Value]) -> Result<(), Failure> {
    let value = match documents {
        [one] => one.clone(),
        several => Value::from(several.to_vec()),
    };
    session::write_json(file, &value)
}
