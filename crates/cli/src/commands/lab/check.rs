//! `anabranch lab check`.

use std::path::PathBuf;

use anabranch_lab::check::{self, Agreement, Judgement, Mode, Verdict};
use anabranch_lab::metrics::METRICS;
use anabranch_lab::scenario::{Library, Scenario};
use anabranch_lab::{reference, summary};
use clap::Args;
use serde_json::{Value, json};

use super::session::{self, RunOptions};
use crate::failure::Failure;
use crate::output;

/// Hold the results of scenarios against their claims
///
/// Each point is run until the verdicts of its claims are decided at 90 % confidence, at the most
/// as often as the scenario says. A claim 'holds' when our number is within its bounds, 'differs'
/// when the whole interval of our number is outside, and is 'open' when the runs do not decide.
/// Exit code 1 when one differs and the scenario does not say why, or when an expectation was
/// changed and the log beside the scenario does not say so.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch lab check caro
  anabranch lab check caro --full --out results --json verdicts.json
  anabranch lab check caro/2.5 --reference")]
pub(crate) struct Check {
    /// Documents, scenarios or files [default: all]
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    #[command(flatten)]
    options: RunOptions,
    /// Run each point as often as the scenario says
    #[arg(long, conflicts_with = "seeds")]
    full: bool,
    /// Compare with the numbers of the original simulator, too: runs every point that has some
    #[arg(long)]
    reference: bool,
    /// Write JSON to this file, or to standard output if it is '-'
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A scenario's verdicts.
struct Checked {
    scenario: Scenario,
    judgements: Vec<Judgement>,
    agreement: Option<Agreement>,
}

impl Check {
    pub(super) async fn run(self, library: Library) -> Result<(), Failure> {
        let scenarios = session::load_or_all(&library, &self.ids)?;
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
                    let judged = check::check(runner, &scenario, &mut results, mode);
                    let agreement = match judged.is_ok() && compare {
                        true => {
                            let known = reference::load(&scenario).map_err(session::refused)?;
                            Some(check::compare(runner, &scenario, &mut results, &known, seeds))
                        }
                        false => None,
                    };
                    progress.finish();
                    let agreement = agreement.transpose().map_err(session::failed)?;
                    let judgements = judged.map_err(session::failed)?;
                    checked.push(Checked { scenario, judgements, agreement });
                }
                Ok(checked)
            })
            .await?;
        let text = table(&checked);
        match &self.json {
            Some(file) => {
                session::write_json(file, &document(&checked, mode))?;
                if file.as_os_str() != "-" {
                    output::print(&text)?;
                }
            }
            None => output::print(&text)?,
        }
        complain(&checked, &unrecorded)
    }
}

/// Claims whose expectation is not in the log, with their scenario.
fn unrecorded(scenarios: &[Scenario]) -> Result<Vec<String>, Failure> {
    let mut found = Vec::new();
    for scenario in scenarios {
        let ids = check::unrecorded(scenario).map_err(Failure::failed)?;
        found.extend(ids.into_iter().map(|id| format!("{}/{id}", scenario.id)));
    }
    Ok(found)
}

fn table(checked: &[Checked]) -> String {
    let head = ["claim", "expected", "document", "reference", "ours", "seeds", "verdict"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    for one in checked {
        for judgement in &one.judgements {
            let claim = &judgement.claim;
            rows.push(vec![
                format!("{}/{}", one.scenario.id, claim.id),
                format!("{} {}", claim.bounds, claim.unit).trim_end().to_owned(),
                number(claim.document),
                number(claim.reference),
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
    let all = || checked.iter().flat_map(|one| &one.judgements);
    let count = |verdict| all().filter(|judgement| judgement.verdict == verdict).count();
    let (holds, differs, open) =
        (count(Verdict::Holds), count(Verdict::Differs), count(Verdict::Open));
    text.push_str(&format!("\n{holds} hold, {differs} differ, {open} open\n"));
    for one in checked {
        for judgement in one.judgements.iter().filter(|j| j.verdict != Verdict::Holds) {
            if let Some(reason) = &judgement.claim.reason {
                let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
                text.push_str(&format!("\n{}/{}: {reason}\n", one.scenario.id, judgement.claim.id));
            }
        }
    }
    for one in checked {
        if let Some(agreement) = &one.agreement {
            text.push_str(&agreement_line(&one.scenario, agreement));
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
    let Some((deviation, at)) = &agreement.largest else {
        return format!("\n{id}: there are no reference numbers\n");
    };
    let point = scenario.points.get(at.point).map_or("", |point| point.key.as_str());
    let metric = METRICS.get(at.metric).map_or("", |metric| metric.name);
    format!(
        "\n{id}: the intervals of {} of {} reference numbers overlap ours; the largest deviation \
         is {deviation:+.1} % ({metric} at {point})\n",
        agreement.overlapping, agreement.compared
    )
}

fn document(checked: &[Checked], mode: Mode) -> Value {
    let mode = match mode {
        Mode::Sequential => "sequential",
        Mode::Full => "full",
        Mode::Fixed(_) => "fixed",
    };
    let claims: Vec<Value> = checked
        .iter()
        .flat_map(|one| one.judgements.iter().map(|j| j.json(&one.scenario.id, mode)))
        .collect();
    let agreements: Vec<Value> = checked
        .iter()
        .filter_map(|one| {
            let agreement = one.agreement.as_ref()?;
            let largest = agreement.largest.as_ref().map(|(deviation, at)| {
                let point = one.scenario.points.get(at.point).map(|point| point.key.clone());
                let metric = METRICS.get(at.metric).map(|metric| metric.name);
                json!({ "percent": deviation, "point": point, "metric": metric })
            });
            Some(json!({
                "scenario": one.scenario.id,
                "compared": agreement.compared,
                "overlapping": agreement.overlapping,
                "largest_deviation": largest,
            }))
        })
        .collect();
    let mut document = json!({ "mode": mode, "claims": claims });
    if !agreements.is_empty()
        && let Some(document) = document.as_object_mut()
    {
        document.insert("references".to_owned(), agreements.into());
    }
    document
}

fn complain(checked: &[Checked], unrecorded: &[String]) -> Result<(), Failure> {
    let unexplained: Vec<String> = checked
        .iter()
        .flat_map(|one| {
            let differing = one.judgements.iter().filter(|j| j.is_unexplained());
            differing.map(|j| format!("{}/{}", one.scenario.id, j.claim.id))
        })
        .collect();
    if !unexplained.is_empty() {
        return Err(Failure::failed(format!(
            "{} differ{} and the file does not say why: {}",
            unexplained.len(),
            if unexplained.len() == 1 { "s" } else { "" },
            unexplained.join(", ")
        )));
    }
    if !unrecorded.is_empty() {
        return Err(Failure::failed(format!(
            "the expectations log does not have what is expected now: {}; 'anabranch lab expect' \
             writes it down",
            unrecorded.join(", ")
        )));
    }
    Ok(())
}
