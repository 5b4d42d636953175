//! Results to take away: one row a run, for spreadsheets, R and pandas.

use std::fmt::Write as _;

use crate::metrics::METRICS;
use crate::runner::{self, Results};
use crate::scenario::{Axis, Scenario};
use crate::units::Quantity;

/// All runs as CSV (RFC 4180, but with lines that end in `\n`): the axes, `run` (from 0), `seed`, and
/// the metrics that any run has measured, or those of `wanted` that are not empty.
///
/// An axis whose values are numbers of one unit is a column of numbers with the unit in its heading,
/// as in `loss (%)`; the values of any other axis are texts. A metric that a run has not measured, as
/// the time of a transfer that did not become complete, is an empty field.
pub fn csv(scenario: &Scenario, results: &Results, wanted: &[usize]) -> String {
    let has = |metric: &usize| results.points.iter().flatten().any(|run| run.at(*metric).is_some());
    let columns: Vec<usize> = match wanted.is_empty() {
        true => (0..METRICS.len()).filter(has).collect(),
        false => wanted.to_vec(),
    };
    let mut text = String::new();
    let axes = scenario.axes.iter().map(|axis| match (axis.is_numeric(), axis.unit()) {
        (true, unit) if !unit.is_empty() => format!("{} ({unit})", axis.name),
        _ => axis.name.clone(),
    });
    let names = columns.iter().filter_map(|metric| Some(METRICS.get(*metric)?.name.clone()));
    let heading = axes.chain(["run", "seed"].map(str::to_owned)).chain(names);
    row(&mut text, heading);
    for (point, runs) in scenario.points.iter().zip(&results.points) {
        let values: Vec<String> =
            scenario.axes.iter().zip(&point.at).map(|(axis, at)| value(axis, *at)).collect();
        for (number, run) in runs.iter().enumerate() {
            let seed = runner::seed(&scenario.id, &point.seed_key, number);
            let measured = columns
                .iter()
                .map(|metric| run.at(*metric).map_or(String::new(), |value| value.to_string()));
            let known = [number.to_string(), seed.to_string()];
            row(&mut text, values.iter().cloned().chain(known).chain(measured));
        }
    }
    text
}

/// A value of an axis as its number, in the unit of the heading, or as its text.
fn value(axis: &Axis, at: usize) -> String {
    let Some(value) = axis.values.get(at) else { return String::new() };
    match (axis.is_numeric(), axis.unit(), value.number) {
        (true, "", _) if Quantity::parse(&value.text).is_some() => value.text.clone(),
        (true, _, Some(number)) => number.to_string(),
        _ => value.text.clone(),
    }
}

fn row(text: &mut String, fields: impl Iterator<Item = String>) {
    for (index, field) in fields.enumerate() {
        let comma = if index > 0 { "," } else { "" };
        // Writing to a string does not fail.
        let _ = match field.contains([',', '"', '\n']) {
            true => write!(text, "{comma}\"{}\"", field.replace('"', "\"\"")),
            false => write!(text, "{comma}{field}"),
        };
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics;
    use crate::runner::tests::run;
    use crate::scenario::tests::{read, text};

    #[test]
    fn a_run_is_a_row() {
        let scenario = read(&text(), &[]).unwrap();
        let results = run(&scenario, 1, None);
        let csv = csv(&scenario, &results, &[]);
        let lines: Vec<_> = csv.lines().collect();
        assert_eq!(lines[0], "loss (%),policy,run,seed,transfer_time_s");
        assert_eq!(lines.len(), 1 + 4 * 10);
        let seed = runner::seed("test/1", &scenario.points[1].seed_key, 2);
        assert!(lines[13].starts_with(&format!("1,Alt,2,{seed},30.")), "{}", lines[13]);
        let time: f64 = lines[13].rsplit(',').next().unwrap().parse().unwrap();
        assert_eq!(Some(time), results.points[1][2].get("transfer_time_s"));
    }

    #[test]
    fn what_was_not_measured_is_empty_and_commas_are_quoted() {
        let mixed = text().replace("[\"1 %\", \"3 %\"]", "[\"1 %\", \"30 %\"]");
        let scenario = read(&mixed, &[]).unwrap();
        let results = run(&scenario, 1, None);
        let wanted = ["timeouts", "transfer_time_s"].map(|name| metrics::find(name).unwrap());
        let csv = csv(&scenario, &results, &wanted);
        assert!(csv.starts_with("loss (%),policy,run,seed,timeouts,transfer_time_s\n1,Same,0,"));
        assert!(csv.lines().nth(1).unwrap().contains(",,"));
        let mut quoted = String::new();
        row(&mut quoted, ["a,b", "c\"d", "e"].map(str::to_owned).into_iter());
        assert_eq!(quoted, "\"a,b\",\"c\"\"d\",e\n");
    }
}
