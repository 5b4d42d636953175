//! The tables of verdicts, and of agreement with the original simulator, as Markdown.

use std::fmt::Write as _;

use super::{Agreement, Checked, Likeness, Verdict, bounds_changed, totals};
use crate::metrics::METRICS;
use crate::scenario::Scenario;
use crate::summary;

/// A row for each figure and metric that the original simulator also has.
pub fn agreement_table(checked: &[Checked]) -> String {
    let mut text = String::from(
        "| figure | metric | points | same | differ | open | within 5 % | mean deviation | largest deviation |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for one in checked {
        let Some(all) = &one.agreement else { continue };
        let mut metrics: Vec<usize> = all.comparisons.iter().map(|c| c.reference.metric).collect();
        metrics.sort_unstable();
        metrics.dedup();
        for metric in metrics {
            let of = all.comparisons.iter().filter(|c| c.reference.metric == metric).cloned();
            let row =
                agreement_row(&one.scenario, metric, &Agreement { comparisons: of.collect() });
            text.push_str(&row);
        }
    }
    text
}

fn agreement_row(scenario: &Scenario, metric: usize, agreement: &Agreement) -> String {
    let count = |likeness| agreement.count(likeness);
    let largest = agreement.largest().map_or_else(String::new, |one| {
        let point = scenario.points.get(one.reference.point);
        format!("{:+.1} % ({})", one.deviation(), point.map_or("", |point| point.key.as_str()))
    });
    format!(
        "| {} | {} | {} | {} | {} | {} | {} | {:+.1} % | {largest} |\n",
        figure(&scenario.id),
        METRICS.get(metric).map_or("", |metric| metric.name.as_str()),
        agreement.comparisons.len(),
        count(Likeness::Same),
        count(Likeness::Different),
        count(Likeness::Undecided),
        agreement.within(5.0),
        agreement.mean_deviation().unwrap_or_default(),
    )
}

/// The totals, the table of verdicts, and the reasons of those that do not hold.
pub fn tables(checked: &[Checked]) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = describe(&mut text, checked);
    text
}

fn describe(text: &mut String, checked: &[Checked]) -> std::fmt::Result {
    let totals = totals(checked);
    writeln!(text, "Of {} claims: {}.", totals.claims, totals.verdicts())?;
    for sentence in [totals.by_chance(), bounds_changed(checked)].into_iter().flatten() {
        writeln!(text, "{sentence}")?;
    }
    writeln!(text)?;
    writeln!(text, "| claim | kind | expected | document | ns-2 | ours | runs | verdict |")?;
    writeln!(text, "|---|---|---|---|---|---|---|---|")?;
    let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    for one in checked {
        for judgement in &one.judgements {
            let claim = &judgement.claim;
            let verdict = match judgement.verdict {
                Verdict::Holds => "holds".to_owned(),
                other => format!("**{other}**"),
            };
            // The document's own number is part of its claim.
            let beyond = match judgement.has_document_within() {
                Some(false) => " (outside)",
                _ => "",
            };
            writeln!(
                text,
                "| {}/{} | {} | {} {} | {}{} | {} | {} | {} | {verdict} |",
                figure(&one.scenario.id),
                claim.id,
                claim.kind,
                claim.bounds,
                claim.unit,
                number(claim.document),
                beyond,
                judgement.reference(),
                match &judgement.measured {
                    Ok(estimate) => summary::display(estimate),
                    Err(missing) => missing.to_string(),
                },
                judgement.seeds,
            )?;
        }
    }
    for one in checked {
        for judgement in &one.judgements {
            if let Some(reason) = judgement.reason() {
                let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
                let (id, verdict) = (figure(&one.scenario.id), judgement.verdict);
                write!(text, "\n**{id}/{}** ({verdict}). {reason}", judgement.claim.id)?;
                // A number has a command; what a reason does not say otherwise is in the scenario's own points.
                if !reason.contains("`anabranch ") {
                    let (id, runs) = (&one.scenario.id, judgement.seeds.max(1));
                    write!(text, " (`anabranch lab run {id} --seeds {runs}`)")?;
                }
                writeln!(text)?;
            }
            if let Some(warning) = judgement.warning(&one.scenario) {
                let id = figure(&one.scenario.id);
                writeln!(text, "\n**{id}/{}**: {warning}.", judgement.claim.id)?;
            }
        }
    }
    Ok(())
}

/// The name of a scenario without its document, which the text around the table names.
fn figure(id: &str) -> &str {
    id.split_once('/').map_or(id, |(_, figure)| figure)
}
