//! `anabranch lab check`.

mod markdown;
mod null;

use std::path::{Path, PathBuf};

use anabranch_lab::check::{self, Agreement, Checked, Judgement, Likeness, Mode, Verdict};
use anabranch_lab::metrics::METRICS;
use anabranch_lab::scenario::{Library, Override, Scenario};
use anabranch_lab::{reference, summary};
use clap::Args;

use super::command_line::CommandLine;
use super::session::{self, RunOptions};
use crate::failure::Failure;
use crate::output;

/// Check the results of scenarios against their claims
///
/// Each point is run until the verdicts of its claims are decided at 90 % confidence, at most as often
/// as the scenario says. A claim 'holds' when the whole interval of our number is within its bounds,
/// and is 'fitted' if the set-up was chosen by its result. It 'differs' when all of the interval is
/// outside, is 'refuted' when the whole interval of the original simulator is outside, too, and 'open'
/// when the runs do not decide. Exit code 1 when one differs and the scenario does not say why, or
/// when an expectation was changed without an entry in the log next to the scenario.
///
/// With --null all variants are made equal to the first one, and the claims that still hold are named:
/// they do not depend on the effect that they describe. Exit code 1 when the scenario does not list
/// such a claim.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch lab check caro
  anabranch lab check caro --full --out results --json verdicts.json
  anabranch lab check caro/2.5 --reference
  anabranch lab check caro --null --seeds 4
  anabranch lab check nrsack --seeds 2 --set association.interleaving=true")]
pub(crate) struct Check {
    /// Documents, scenarios or files [default: all]
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    #[command(flatten)]
    options: RunOptions,
    /// Change a value for every point, and ask which claims hold nevertheless; repeatable
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = session::change)]
    changes: Vec<Override>,
    /// Run each point as often as the scenario says
    #[arg(long, conflicts_with = "seeds")]
    full: bool,
    /// Compare with the numbers of the original simulator, too: runs every point that has such numbers
    #[arg(long)]
    reference: bool,
    /// Make all variants equal to the first one, and name the claims that hold nevertheless
    #[arg(long, conflicts_with_all = ["full", "reference"])]
    null: bool,
    /// Write the table of verdicts into this Markdown file, between the lines '<!-- verdicts -->' and
    /// '<!-- end of verdicts -->', or as a new file; with --reference also the table of agreement, if
    /// there are lines '<!-- agreement -->' and '<!-- end of agreement -->'
    #[arg(long, value_name = "FILE", conflicts_with_all = ["null", "changes"])]
    markdown: Option<PathBuf>,
    /// Write JSON to this file, or to standard output if it is '-'
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Check {
    /// The scenarios to check.
    pub(super) fn scenarios(&self, library: &Library) -> Result<Vec<Scenario>, Failure> {
        let changes = self.options.with_changes(&self.changes);
        let mut scenarios = session::load_or_all(library, &self.ids, &changes)?;
        if self.changes.is_empty() {
            return Ok(scenarios);
        }
        // A changed scenario has no claims, because they are about the one in the file.
        let unchanged = self.options.with_changes(&[]);
        let originals = session::load_or_all(library, &self.ids, &unchanged)?;
        for (scenario, original) in scenarios.iter_mut().zip(originals) {
            scenario.take_claims(original).map_err(Failure::usage)?;
        }
        Ok(scenarios)
    }

    pub(super) async fn run(
        self,
        library: Library,
        directory: Option<&Path>,
    ) -> Result<(), Failure> {
        let scenarios = self.scenarios(&library)?;
        let made_by = CommandLine::new("check", directory)
            .words(&self.ids)
            .changes(&self.changes)
            .runs(&self.options)
            .flag("--full", self.full)
            .flag("--reference", self.reference)
            .flag("--null", self.null)
            .provenance();
        crate::outputs::check(&[("--json", self.json.as_deref())])?;
        if self.null {
            return null::run(scenarios, self.options, self.json, &made_by).await;
        }
        let unrecorded = unrecorded(&scenarios)?;
        let mode = match (self.full, self.options.seeds) {
            (true, _) => Mode::Full,
            (false, Some(seeds)) => Mode::Fixed(seeds as usize),
            (false, None) => Mode::Sequential,
        };
        let (compare, seeds) = (self.reference, self.options.seeds.map(|seeds| seeds as usize));
        let checked = self
            .options
            .with_runner(move |runner, progress| {
                let mut checked = Vec::new();
                for scenario in scenarios {
                    progress.title(&scenario.id);
                    let mut results = runner.load(&scenario).map_err(session::failed)?;
                    let known = reference::load(&scenario).map_err(session::refused)?;
                    let changed = check::changed(&scenario).map_err(Failure::failed)?.len();
                    let judged = check::check(runner, &scenario, &mut results, &known, mode);
                    let agreement = match judged.is_ok() && compare {
                        true => {
                            Some(check::compare(runner, &scenario, &mut results, &known, seeds))
                        }
                        false => None,
                    };
                    progress.finish();
                    let agreement = agreement.transpose().map_err(session::failed)?;
                    let judgements = judged.map_err(session::failed)?;
                    checked.push(Checked { scenario, judgements, agreement, changed });
                }
                Ok(checked)
            })
            .await?;
        let text = table(&checked);
        match &self.json {
            Some(file) => {
                session::write_json(file, &check::document(&checked, mode, &made_by))?;
                if file.as_os_str() != "-" {
                    output::print(&text)?;
                }
            }
            None => output::print(&text)?,
        }
        if let Some(file) = &self.markdown {
            markdown::write(file, &checked)?;
        }
        complain(&checked, &unrecorded)
    }
}

/// Claims whose current expectation is not in the log, with their scenario.
fn unrecorded(scenarios: &[Scenario]) -> Result<Vec<Unrecorded>, Failure> {
    let mut found = Vec::new();
    for scenario in scenarios {
        let ids = check::unrecorded(scenario).map_err(Failure::failed)?;
        let argument = scenario.argument();
        found.extend(ids.into_iter().map(|id| (argument.clone(), format!("{}/{id}", scenario.id))));
    }
    Ok(found)
}

/// The name of the scenario on the command line, and the claim.
type Unrecorded = (String, String);

fn table(checked: &[Checked]) -> String {
    let head = ["claim", "kind", "expected", "document", "reference", "ours", "seeds", "verdict"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    for one in checked {
        for judgement in &one.judgements {
            let claim = &judgement.claim;
            rows.push(vec![
                format!("{}/{}", one.scenario.id, claim.id),
                claim.kind.to_string(),
                format!("{} {}", claim.bounds, claim.unit).trim_end().to_owned(),
                number(claim.document),
                judgement.reference(),
                match &judgement.measured {
                    Ok(estimate) => summary::display(estimate),
                    Err(missing) => missing.to_string(),
                },
                judgement.seeds.to_string(),
                verdict(judgement),
            ]);
        }
    }
    let mut text = output::table(&rows);
    let totals = check::totals(checked);
    text.push_str(&format!("\n{}\n", totals.verdicts()));
    for sentence in [totals.by_chance(), check::bounds_changed(checked)].into_iter().flatten() {
        text.push_str(&output::filled(&format!("{sentence}\n")));
    }
    for one in checked {
        for judgement in &one.judgements {
            if let Some(reason) = judgement.reason() {
                let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
                let name = format!("{}/{}", one.scenario.id, judgement.claim.id);
                text.push_str(&output::filled(&format!("\n{name}: {reason}\n")));
            }
            if let Some(warning) = judgement.warning(&one.scenario) {
                let name = format!("{}/{}", one.scenario.id, judgement.claim.id);
                text.push_str(&output::filled(&format!("\n{name}: {warning}\n")));
            }
        }
    }
    for one in checked {
        if let Some(agreement) = &one.agreement {
            text.push_str(&output::filled(&agreement_line(&one.scenario, agreement)));
        }
    }
    text
}

fn verdict(judgement: &Judgement) -> String {
    let explained = judgement.verdict == Verdict::Differs && !judgement.is_unexplained();
    if explained { "differs (explained)".to_owned() } else { judgement.verdict.to_string() }
}

fn agreement_line(scenario: &Scenario, agreement: &Agreement) -> String {
    let id = &scenario.id;
    let Some(largest) = agreement.largest() else {
        return format!("\n{id}: there are no reference numbers\n");
    };
    let point = scenario.points.get(largest.reference.point);
    let metric = METRICS.get(largest.reference.metric).map_or("", |metric| metric.name.as_str());
    let medians = agreement.comparisons.iter().filter(|one| one.medians).count();
    format!(
        "\n{id}: of {} reference numbers ({medians} of them medians) {} are the same within {:.0} %, \
         {} differ by more, {} are open; {} are off by 5 % at most, on average {:+.1} %, the farthest \
         {:+.1} % ({metric} at {})\n",
        agreement.comparisons.len(),
        agreement.count(Likeness::Same),
        scenario.reference_within * 100.0,
        agreement.count(Likeness::Different),
        agreement.count(Likeness::Undecided),
        agreement.within(5.0),
        agreement.mean_deviation().unwrap_or_default(),
        largest.deviation(),
        point.map_or("", |point| point.key.as_str()),
    )
}

fn complain(checked: &[Checked], unrecorded: &[Unrecorded]) -> Result<(), Failure> {
    let unexplained: Vec<String> = checked.iter().flat_map(Checked::unexplained).collect();
    if !unexplained.is_empty() {
        return Err(Failure::failed(format!(
            "{} differ{} and the file does not say why: {}",
            unexplained.len(),
            if unexplained.len() == 1 { "s" } else { "" },
            unexplained.join(", ")
        )));
    }
    if !unrecorded.is_empty() {
        let claims: Vec<&str> = unrecorded.iter().map(|(_, claim)| claim.as_str()).collect();
        let mut scenarios: Vec<&str> = unrecorded.iter().map(|(of, _)| of.as_str()).collect();
        scenarios.dedup();
        return Err(Failure::failed(format!(
            "the expectations log does not have what is expected now: {}; write it down, best before \
             the first run, with: anabranch lab expect {} --why 'where it comes from'",
            claims.join(", "),
            scenarios.join(" ")
        )));
    }
    Ok(())
}
