//! The tables of verdicts, and of agreement with the original simulator, as Markdown, for the documents
//! of the project.

use std::fmt::Write as _;
use std::path::Path;

use anabranch_lab::check::{Agreement, Likeness, Verdict};
use anabranch_lab::metrics::METRICS;
use anabranch_lab::scenario::Scenario;
use anabranch_lab::summary;
use anabranch_units::{MOST_TEXT, read_text};

use super::Checked;
use crate::commands::lab::session;
use crate::failure::Failure;

const BEGIN: &str = "<!-- verdicts -->";
const END: &str = "<!-- end of verdicts -->";
const AGREEMENT: &str = "<!-- agreement -->";
const END_OF_AGREEMENT: &str = "<!-- end of agreement -->";

/// Writes the table of verdicts into a file: between the two marks, or as a new file. Also writes the
/// table of agreement, if it was requested and the file has the marks for it.
pub(super) fn write(file: &Path, checked: &[Checked]) -> Result<(), Failure> {
    let unreadable = |error| Failure::failed(format!("{} cannot be read: {error}", file.display()));
    let old = match read_text(file, MOST_TEXT) {
        Ok(old) => old,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => format!("{BEGIN}\n{END}\n"),
        Err(error) => return Err(unreadable(error)),
    };
    let Some(mut new) = between(&old, [BEGIN, END], &tables(checked)) else {
        return Err(Failure::failed(format!(
            "{} has no line '{BEGIN}' with a line '{END}' after it",
            file.display()
        )));
    };
    if checked.iter().any(|one| one.agreement.is_some())
        && let Some(both) = between(&new, [AGREEMENT, END_OF_AGREEMENT], &agreement(checked))
    {
        new = both;
    }
    session::write_file(file, &new)
}

/// A row for each figure and metric that the original simulator also has.
fn agreement(checked: &[Checked]) -> String {
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

/// The text with everything between the marks replaced.
fn between(old: &str, [begin, end]: [&str; 2], new: &str) -> Option<String> {
    let (before, rest) = old.split_once(begin)?;
    let (_, after) = rest.split_once(end)?;
    Some(format!("{before}{begin}\n\n{new}\n{end}{after}"))
}

fn tables(checked: &[Checked]) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = describe(&mut text, checked);
    text
}

fn describe(text: &mut String, checked: &[Checked]) -> std::fmt::Result {
    let totals = super::totals(checked);
    writeln!(text, "Of {} claims: {}.", totals.claims, totals.verdicts())?;
    for sentence in [totals.by_chance(), super::changed(checked)].into_iter().flatten() {
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
                writeln!(text, "\n**{id}/{}** ({verdict}). {reason}", judgement.claim.id)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_between_the_marks_is_replaced() {
        let old = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        let new = between(&old, [BEGIN, END], "new").unwrap();
        assert_eq!(new, format!("a\n{BEGIN}\n\nnew\n{END}\nb\n"));
        assert_eq!(between(&new, [BEGIN, END], "new").unwrap(), new);
        assert_eq!(between("no marks", [BEGIN, END], "new"), None);
        assert_eq!(between(&new, [AGREEMENT, END_OF_AGREEMENT], "new"), None);
    }
}
