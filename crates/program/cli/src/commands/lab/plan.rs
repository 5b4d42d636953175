//! `anabranch lab plan`.

use std::path::PathBuf;

use anabranch_lab::runner::{Goal, Observer, Order, Plan as OfRuns, Shard, Source};
use anabranch_lab::runner::{Runs, require_virtual_time};
use anabranch_lab::scenario::{Library, Override, Scenario};
use anabranch_lab::units::{MOST_TEXT, read_text};
use clap::Args;

use super::progress::Progress;
use super::session;
use crate::built;
use crate::failure::Failure;
use crate::output;

/// List the runs that scenarios still need, as units of work for other machines
///
/// Each line is one unit: a JSON document that 'anabranch lab unit' carries out, anywhere. 'anabranch lab merge' puts
/// the results into the directory of --out. If scenarios stop at a precision, more units may be needed after that: go
/// on until this lists nothing.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch lab plan caro/2.5 --seeds 10 | parallel --pipe -N1 anabranch lab unit >results.jsonl
  anabranch lab merge --out results results.jsonl
  anabranch lab plan caro/2.5 --seeds 10 --out results    # nothing: all is there")]
pub(crate) struct Plan {
    /// Scenarios, documents (all of their scenarios), or files
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
    /// Runs of each point [default: what the scenario says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    seeds: Option<u64>,
    /// Leave out the runs that are in this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Most runs of a unit
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    runs: u64,
    /// Change a field, or narrow an axis to these values (VALUE,VALUE)
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = session::change)]
    changes: Vec<Override>,
}

impl Plan {
    pub(super) fn run(self, library: &Library) -> Result<(), Failure> {
        let scenarios = session::load(library, &self.ids, &self.changes)?;
        // Nothing is listed if anything is refused.
        scenarios.iter().try_for_each(require_virtual_time).map_err(Failure::failed)?;
        let store = session::store(self.out.as_deref())?;
        let progress = Progress::new(true);
        for scenario in &scenarios {
            let kept = match &store {
                Some(store) => {
                    store.load_all(scenario, &progress as &dyn Observer).map_err(Failure::failed)?
                }
                None => Vec::new(),
            };
            output::print_data(&self.lines(scenario, kept)?)?;
        }
        Ok(())
    }

    fn lines(&self, scenario: &Scenario, kept: Vec<Runs>) -> Result<String, Failure> {
        let source = source(scenario, &self.changes)?;
        let goal = Goal::of(scenario, self.seeds.map(|seeds| seeds as usize));
        let mut plan = OfRuns::new(goal, kept, self.runs as usize, Shard::default());
        let mut lines = String::new();
        while let Some(unit) = plan.next_unit() {
            let Some(order) = Order::new(built::ENGINE, &source, scenario, &unit) else { continue };
            lines += &serde_json::to_string(&order).map_err(Failure::failed)?;
            lines.push('\n');
        }
        Ok(lines)
    }
}

/// What a worker needs to have the same scenario: its name, or the text of a file that is not in the library.
fn source(scenario: &Scenario, changes: &[Override]) -> Result<Source, Failure> {
    if scenario.id.contains('/') {
        return Ok(Source::library(&scenario.id, changes));
    }
    let file = &scenario.file;
    let unreadable = |error| Failure::failed(format!("{} cannot be read: {error}", file.display()));
    let text = read_text(file, MOST_TEXT).map_err(unreadable)?;
    let file = std::path::absolute(file).map_err(unreadable)?;
    Ok(Source::text(&scenario.id, file, text, changes))
}
