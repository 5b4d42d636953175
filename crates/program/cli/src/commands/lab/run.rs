//! `anabranch lab run`.

use std::path::{Path, PathBuf};

use anabranch_lab::provenance::Provenance;
use anabranch_lab::runner::{Results, Shard, require_virtual_time};
use anabranch_lab::scenario::{Library, Override, Scenario};
use anabranch_lab::{export, metrics, reference, summary};
use clap::Args;
use serde_json::Value;

use super::command_line::CommandLine;
use super::session::{self, RunOptions};
use crate::failure::Failure;
use crate::output;

/// Run scenarios and show their curves
///
/// Every point is run with several seeds; tables show the mean and its interval, and in brackets
/// the original simulator's where the scenario has it. The numbers of a scenario do not depend on
/// the number of threads. Ctrl-C stops; with --out, finished points are kept and the next run
/// continues from there.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch lab run caro/2.5
  anabranch lab run caro/2.5 --set profile=rfc2960 --set 'primary_loss=5 %' --seeds 10
  anabranch lab run my.toml --set association.pmr=0 --out results --json results.json
  anabranch lab run my.toml --csv runs.csv --parquet runs.parquet
  anabranch lab run my.toml --shard 2/8 --out shard-2    # on the second of eight machines")]
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
    /// Write one row a run to this file, or to standard output if it is '-'; for one scenario only
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the same as Apache Parquet; for one scenario only
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
    /// Carry out only this part of the runs (part K of N), without tables; 'lab merge' joins the results
    #[arg(long, value_name = "K/N", requires = "out", conflicts_with_all = ["json", "csv", "parquet"])]
    shard: Option<Shard>,
}

/// The output for one scenario.
#[derive(Default)]
struct Documents {
    json: Vec<Value>,
    csv: Option<String>,
    parquet: Option<Vec<u8>>,
}

impl Run {
    /// The scenarios to run.
    pub(super) fn scenarios(&self, library: &Library) -> Result<Vec<Scenario>, Failure> {
        session::load(library, &self.ids, &self.options.with_changes(&self.changes))
    }

    fn made_by(&self, directory: Option<&Path>) -> Provenance {
        CommandLine::new("run", directory)
            .words(&self.ids)
            .changes(&self.changes)
            .runs(&self.options)
            .provenance()
    }

    pub(super) async fn run(
        self,
        library: Library,
        directory: Option<&Path>,
    ) -> Result<(), Failure> {
        let scenarios = self.scenarios(&library)?;
        if let Some(shard) = self.shard {
            return self.run_shard(scenarios, shard).await;
        }
        let made_by = self.made_by(directory);
        let seeds = self.options.seeds.map(|seeds| seeds as usize);
        let (as_csv, as_parquet) = (self.csv.is_some(), self.parquet.is_some());
        if let (true, [first, second, ..]) = (as_csv || as_parquet, &scenarios[..]) {
            return Err(Failure::usage(format!(
                "--csv and --parquet are for one scenario, whose axes are its columns, not for {} and {}",
                first.id, second.id
            )));
        }
        crate::outputs::check(&[
            ("--json", self.json.as_deref()),
            ("--csv", self.csv.as_deref()),
            ("--parquet", self.parquet.as_deref()),
        ])?;
        let files = [&self.json, &self.csv, &self.parquet];
        let to_stdout = files.iter().filter(|f| f.as_ref().is_some_and(|f| f.as_os_str() == "-"));
        let to_stdout = match to_stdout.count() {
            0 => false,
            1 => true,
            _ => return Err(Failure::usage("standard output is for one file only")),
        };
        let documents = self
            .options
            .with_runner(move |runner, progress| {
                let mut documents = Documents::default();
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
                    documents.json.push(summary::json(scenario, &results, &references, &made_by));
                    if as_csv {
                        documents.csv = Some(export::csv(scenario, &results, &[], &made_by));
                    }
                    if as_parquet {
                        documents.parquet =
                            Some(export::parquet(scenario, &results, &[], &made_by));
                    }
                }
                Ok(documents)
            })
            .await?;
        if let Some(file) = &self.json {
            write_json(file, &documents.json)?;
        }
        if let (Some(file), Some(rows)) = (&self.csv, &documents.csv) {
            session::write_text(file, rows)?;
        }
        match (&self.parquet, &documents.parquet) {
            (Some(file), Some(rows)) => session::write_bytes(file, rows),
            _ => Ok(()),
        }
    }
}

impl Run {
    /// Carries out a part of the runs.
    async fn run_shard(self, scenarios: Vec<Scenario>, shard: Shard) -> Result<(), Failure> {
        scenarios.iter().try_for_each(require_virtual_time).map_err(Failure::failed)?;
        let seeds = self.options.seeds.map(|seeds| seeds as usize);
        let out = self.options.out.clone().unwrap_or_default();
        self.options
            .with_runner(move |runner, progress| {
                for scenario in &scenarios {
                    progress.title(&scenario.id);
                    let mut results = runner.load(scenario).map_err(session::failed)?;
                    let done = runner.shard(scenario, &mut results, seeds, shard);
                    progress.finish();
                    done.map_err(session::failed)?;
                    let (id, runs, out) = (&scenario.id, results.count(), out.display());
                    output::print(&format!("{id}: {runs} runs in {out}, all of shard {shard}\n"))?;
                }
                Ok(())
            })
            .await
    }
}

/// Keeps only the requested number of runs, because more may be stored on disk.
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
    let mut shown = Vec::new();
    for name in wanted {
        let Some(metric) = metrics::find(name).filter(|metric| !shown.contains(metric)) else {
            continue;
        };
        shown.push(metric);
        let what = metrics::METRICS.get(metric).map_or("", |metric| metric.what.as_str());
        text.push_str(&format!("\n{}: {what}\n", scenario.names.spelled(name)));
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

/// A single scenario is an object; several are a list.
fn write_json(file: &Path, documents: &[Value]) -> Result<(), Failure> {
    let value = match documents {
        [one] => one.clone(),
        several => Value::from(several.to_vec()),
    };
    session::write_json(file, &value)
}
