//! Exports results for other programs such as spreadsheets, R and pandas: one row for each run, as CSV or Parquet.

mod parquet;
mod transpose;
mod values;

use std::borrow::{Borrow, Cow};

pub use values::{Chosen, Column, Numbers, Values};

use crate::metrics::{self, METRICS, Metrics};
use crate::provenance::Provenance;
use crate::reference::Reference;
use crate::runner::{self, Results};
use crate::scenario::{Axis, Scenario};
use crate::summary;
use crate::units::Quantity;

/// The axes, `run` (from 0), `seed`, the metrics that any run has measured, or those in `wanted` if that is not
/// empty, and what made the runs.
///
/// An axis whose values are numbers of one unit is a column of numbers with the unit in its heading, as
/// in `loss (%)`; the values of any other axis are texts.
pub fn columns(
    scenario: &Scenario,
    results: &Results,
    wanted: &[usize],
    made_by: &Provenance,
) -> Vec<Column> {
    let mut columns = measured(scenario, results, wanted);
    let rows = results.points.iter().map(Vec::len).sum();
    columns.extend(provenance(scenario, made_by, rows));
    columns
}

/// The same without what made the runs.
pub fn measured(scenario: &Scenario, results: &Results, wanted: &[usize]) -> Vec<Column> {
    let points = || scenario.points.iter().zip(&results.points);
    let axes = scenario.axes.iter().enumerate().map(|(index, axis)| {
        let at = points().flat_map(|(point, runs)| {
            std::iter::repeat_n(point.at.get(index).copied().unwrap_or(0), runs.len())
        });
        axis_column(axis, at)
    });
    let runs = points().flat_map(|(_, runs)| 0..runs.len() as u64);
    let seeds = points()
        .flat_map(|(point, runs)| runner::seeds(&scenario.id, &point.seed_key).take(runs.len()));
    let known = [("run", runs.collect()), ("seed", seeds.collect())];
    let known = known
        .map(|(name, values)| Column { name: name.to_owned(), values: Values::Counts(values) });
    let runs: Vec<&[f64]> = points().flat_map(|(_, runs)| runs).map(Metrics::fields).collect();
    axes.chain(known).chain(metric_columns(&runs, wanted)).collect()
}

/// A column for each metric that any run has measured, or for those in `wanted` if that is not empty.
fn metric_columns(runs: &[&[f64]], wanted: &[usize]) -> Vec<Column> {
    let all: Vec<usize> = (0..runs.iter().map(|run| run.len()).max().unwrap_or(0)).collect();
    let indices = if wanted.is_empty() { &all } else { wanted };
    let columns = indices.iter().zip(transpose::transposed(runs, indices));
    let named = columns.filter_map(|(index, numbers)| {
        let nothing = || (!wanted.is_empty()).then(|| runs.iter().map(|_| None).collect());
        let values = Values::Numbers(numbers.or_else(nothing)?);
        Some(Column { name: METRICS.get(*index)?.name.clone(), values })
    });
    named.collect()
}

/// The runs that [`measured`] has made these columns of. `counts` are those of the points.
pub fn results<C: Borrow<Column>>(columns: &[C], counts: &[usize]) -> Results {
    let mut runs = vec![Metrics::default(); counts.iter().sum()];
    for column in columns.iter().map(Borrow::borrow) {
        let (Some(index), Values::Numbers(numbers)) = (metrics::find(&column.name), &column.values)
        else {
            continue;
        };
        for (run, value) in runs.iter_mut().zip(numbers.iter()) {
            if let Some(value) = value {
                run.put(index, value);
            }
        }
    }
    let mut runs = runs.into_iter();
    let points = counts.iter().map(|count| runs.by_ref().take(*count).enumerate().collect());
    Results::new(points.collect())
}

/// The numbers of another simulator, in the order of its file: the axes as in [`columns`], `metric`, `mean`, `half` (half
/// the width of the 90 % interval), `n` (runs), `median` and `incomplete` (runs that did not end).
pub fn references(scenario: &Scenario, references: &[Reference]) -> Vec<Column> {
    let axes = scenario.axes.iter().enumerate().map(|(index, axis)| {
        let points = references.iter().map(|one| scenario.points.get(one.point));
        let at = points.map(|point| point.and_then(|at| at.at.get(index).copied()).unwrap_or(0));
        axis_column(axis, at)
    });
    let name = |one: &Reference| METRICS.get(one.metric).map_or("", |metric| metric.name.as_str());
    let texts = Values::Texts(references.iter().map(|one| name(one).to_owned()).collect());
    let numbers =
        |of: fn(&Reference) -> Option<f64>| Values::Numbers(references.iter().map(of).collect());
    let counts = |of: fn(&Reference) -> usize| {
        Values::Counts(references.iter().map(|r| of(r) as u64).collect())
    };
    let known = [
        ("metric", texts),
        ("mean", numbers(|one| Some(one.estimate.value))),
        ("half", numbers(|one| one.estimate.half())),
        ("n", counts(|one| one.estimate.n)),
        ("median", numbers(|one| one.median)),
        ("incomplete", counts(|one| one.incomplete)),
    ];
    axes.chain(known.map(|(name, values)| Column { name: name.to_owned(), values })).collect()
}

/// What made the results, in each row: tables of several commits can be joined.
pub fn provenance(
    scenario: &Scenario,
    made_by: &Provenance,
    rows: usize,
) -> impl Iterator<Item = Column> {
    let columns = made_by.columns(scenario).into_iter();
    columns
        .map(move |(name, text)| Column { name: name.to_owned(), values: Values::Same(text, rows) })
}

fn axis_column(axis: &Axis, at: impl Iterator<Item = usize>) -> Column {
    if !axis.is_numeric() {
        let known = axis.values.iter().map(|value| value.text.clone()).collect();
        let values = Values::Named(Chosen::new(known, at));
        return Column { name: axis.name.clone(), values };
    }
    let unit = axis.unit();
    let spelled = axis.values.iter().map(|value| {
        let number = value.number.unwrap_or(f64::NAN);
        // A plain number is written as in the scenario.
        let text = match unit.is_empty() && Quantity::parse(&value.text).is_some() {
            true => value.text.clone(),
            false => number.to_string(),
        };
        (text, number)
    });
    let values = Values::Spelled(Chosen::new(spelled.collect(), at));
    let name = match unit {
        "" => axis.name.clone(),
        unit => format!("{} ({unit})", axis.name),
    };
    Column { name, values }
}

/// All runs as CSV (RFC 4180, but lines end in `\n`), one row each. A metric that a run has not measured, such as the
/// time of an incomplete transfer, is an empty field.
pub fn csv(
    scenario: &Scenario,
    results: &Results,
    wanted: &[usize],
    made_by: &Provenance,
) -> String {
    csv_of(&columns(scenario, results, wanted, made_by))
}

/// Columns of the same length as CSV, like that of [`csv`].
pub fn csv_of<C: Borrow<Column>>(columns: &[C]) -> String {
    let columns = || columns.iter().map(Borrow::borrow);
    let mut text = String::new();
    row(&mut text, columns().map(|column: &Column| column.name.clone()));
    let count = columns().next().map_or(0, |column| column.values.len());
    for index in 0..count {
        row(&mut text, columns().map(|column| column.values.spelled(index)));
    }
    text
}

/// The curves as CSV, one row for each point: the axes, and for each of these metrics its mean, the ends of its
/// interval and the number of runs that measured it; and what made them.
pub fn curves(
    scenario: &Scenario,
    results: &Results,
    wanted: &[usize],
    made_by: &Provenance,
) -> String {
    let mut text = String::new();
    let axes: Vec<Column> = scenario
        .axes
        .iter()
        .enumerate()
        .map(|(index, axis)| {
            let at = scenario.points.iter().map(|point| point.at.get(index).copied().unwrap_or(0));
            axis_column(axis, at)
        })
        .collect();
    let measured = wanted.iter().filter_map(|metric| METRICS.get(*metric));
    let headings = measured.flat_map(|metric| {
        ["", "_low", "_high", "_n"].map(|part| format!("{}{part}", metric.name))
    });
    let made: Vec<Column> = provenance(scenario, made_by, scenario.points.len()).collect();
    let names = |columns: &[Column]| columns.iter().map(|c| c.name.clone()).collect::<Vec<_>>();
    row(&mut text, names(&axes).into_iter().chain(headings).chain(names(&made)));
    for index in 0..scenario.points.len() {
        let numbers = wanted.iter().flat_map(|metric| {
            let estimate = summary::estimate(scenario, results, index, *metric);
            let [low, high] = estimate
                .and_then(|estimate| estimate.interval)
                .map_or([String::new(), String::new()], |interval| {
                    interval.map(|end| end.to_string())
                });
            let (mean, n) = estimate.map_or((String::new(), 0), |e| (e.value.to_string(), e.n));
            [mean, low, high, n.to_string()]
        });
        let spelled = |column: &Column| column.values.spelled(index);
        row(&mut text, axes.iter().map(spelled).chain(numbers).chain(made.iter().map(spelled)));
    }
    text
}

/// The output of [`csv`] as a file of Apache Parquet: numbers are DOUBLE, `run` and `seed` UINT_64, other axes
/// UTF8.
pub fn parquet(
    scenario: &Scenario,
    results: &Results,
    wanted: &[usize],
    made_by: &Provenance,
) -> Vec<u8> {
    parquet_of(&columns(scenario, results, wanted, made_by))
}

/// Columns of the same length as a file, like that of [`parquet`](fn@parquet).
pub fn parquet_of<C: Borrow<Column>>(columns: &[C]) -> Vec<u8> {
    parquet::write(&columns.iter().map(Borrow::borrow).collect::<Vec<_>>())
}

fn row(text: &mut String, fields: impl Iterator<Item = String>) {
    for (index, field) in fields.enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(&quoted(&field));
    }
    text.push('\n');
}

/// A field of CSV, in quotes if it needs them.
pub(crate) fn quoted(field: &str) -> Cow<'_, str> {
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")).into(),
        false => field.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::tests::run;
    use crate::scenario::tests::{read, text};

    const MADE: &str = ",program,commit,scenario_sha256,command";

    fn made_by() -> Provenance {
        let [program, commit, command] = ["lab 1", "c0ffee", "run it"].map(str::to_owned);
        Provenance { program, commit, command }
    }

    #[test]
    fn a_run_is_a_row() {
        let scenario = read(&text(), &[]).unwrap();
        let results = run(&scenario, 1, None);
        let csv = csv(&scenario, &results, &[], &made_by());
        let made = format!(",lab 1,c0ffee,{},run it", scenario.sha256());
        let lines: Vec<_> = csv.lines().collect();
        assert_eq!(lines[0], format!("loss (%),policy,run,seed,transfer_time_s{MADE}"));
        let lines: Vec<_> =
            lines.into_iter().map(|line| line.strip_suffix(&made).unwrap_or(line)).collect();
        assert_eq!(lines.len(), 1 + 4 * 10);
        let seed = runner::seed("test/1", &scenario.points[1].seed_key, 2);
        assert!(lines[13].starts_with(&format!("1,Alt,2,{seed},30.")), "{}", lines[13]);
        let time: f64 = lines[13].rsplit(',').next().unwrap().parse().unwrap();
        assert_eq!(Some(time), results.points[1][2].get("transfer_time_s"));
        // And back.
        let columns = columns(&scenario, &results, &[], &made_by());
        let counts: Vec<usize> = results.points.iter().map(Vec::len).collect();
        assert_eq!(super::results(&columns, &counts).points, results.points);
    }

    #[test]
    fn a_point_of_a_curve_is_a_row() {
        let scenario = read(&text(), &[]).unwrap();
        let results = run(&scenario, 1, None);
        let metric = metrics::find("transfer_time_s").unwrap();
        let csv = curves(&scenario, &results, &[metric], &made_by());
        let lines: Vec<_> = csv.lines().collect();
        let heading = "loss (%),policy,transfer_time_s,transfer_time_s_low,transfer_time_s_high,transfer_time_s_n";
        assert_eq!((lines[0], lines.len()), (format!("{heading}{MADE}").as_str(), 1 + 4));
        let last: Vec<&str> = lines[4].split(',').collect();
        assert_eq!((last[0], last[1], last[5]), ("3", "Alt", "10"));
        assert_eq!((last[7], last[9]), ("c0ffee", "run it"));
        let [mean, low, high] = [2, 3, 4].map(|at| last[at].parse::<f64>().unwrap());
        assert!(low < mean && mean < high);
    }

    #[test]
    fn a_number_of_another_simulator_is_a_row() {
        use crate::stats::Estimate;
        let scenario = read(&text(), &[]).unwrap();
        let metric = metrics::find("transfer_time_s").unwrap();
        let known = [1, 2]
            .map(|point| Reference::of_mean(point, metric, Estimate::around(30.0, Some(1.5), 60)));
        let columns = references(&scenario, &known);
        let names: Vec<_> = columns.iter().map(|column| column.name.as_str()).collect();
        let expected =
            ["loss (%)", "policy", "metric", "mean", "half", "n", "median", "incomplete"];
        assert_eq!(names, expected);
        let row = |row| columns.iter().map(|c| c.values.spelled(row)).collect::<Vec<_>>();
        assert_eq!(row(0), ["1", "Alt", "transfer_time_s", "30", "1.5", "60", "", "0"]);
        assert_eq!(row(1)[..2], ["3", "Same"]);
    }

    #[test]
    fn what_was_not_measured_is_empty_and_commas_are_quoted() {
        let mixed = text().replace("[\"1 %\", \"3 %\"]", "[\"1 %\", \"30 %\"]");
        let scenario = read(&mixed, &[]).unwrap();
        let results = run(&scenario, 1, None);
        let wanted = ["timeouts", "transfer_time_s"].map(|name| metrics::find(name).unwrap());
        let csv = csv(&scenario, &results, &wanted, &made_by());
        let heading = format!("loss (%),policy,run,seed,timeouts,transfer_time_s{MADE}\n");
        assert!(csv.starts_with(&format!("{heading}1,Same,0,")), "{csv}");
        assert!(csv.lines().nth(1).unwrap().contains(",,"));
        let mut quoted = String::new();
        row(&mut quoted, ["a,b", "c\"d", "e"].map(str::to_owned).into_iter());
        assert_eq!(quoted, "\"a,b\",\"c\"\"d\",e\n");
    }
}
