//! Metrics from the engine's table of counters. TCP's counters have the same names.

use anabranch_proto::{Counter, CounterKind, PathStatistics, Statistics, Unit};

use super::{Metric, Metrics};

/// The name of a number in the laboratory, its unit, and the factor from the engine's value.
///
/// Times are in seconds (`_s`) and shares in percent. Names that end in `bytes` become kB.
pub fn name<S>(row: &Counter<S>) -> (String, &'static str, f64) {
    let name = row.name;
    match row.unit {
        Unit::Seconds => (format!("{name}_s"), "s", 1.0),
        Unit::Share => {
            (format!("{}_percent", name.strip_suffix("_share").unwrap_or(name)), "%", 100.0)
        }
        Unit::Bytes => match name.strip_suffix("_bytes") {
            Some(name) => (format!("{name}_kb"), "kB", 1e-3),
            None => (name.to_owned(), "B", 1.0),
        },
        Unit::BytesPerSecond => (name.to_owned(), "B/s", 1.0),
        Unit::Packets => (name.to_owned(), "packets", 1.0),
        Unit::Chunks => (name.to_owned(), "chunks", 1.0),
        Unit::Messages => (name.to_owned(), "messages", 1.0),
        _ => (name.to_owned(), "", 1.0),
    }
}

fn metric<S>(row: &Counter<S>, suffix: &str, of: &str) -> Metric {
    let (name, unit, _) = name(row);
    let is_count = row.kind == CounterKind::Counter && row.unit != Unit::Seconds;
    let what = row.help().trim_end_matches('.').to_owned() + of;
    Metric { name: name + suffix, unit, what, is_count }
}

/// Counters of paths; the association's sum has the same name, unless the association counts it
/// separately.
pub fn of_paths() -> impl Iterator<Item = &'static Counter<PathStatistics>> {
    PathStatistics::counters().filter(|row| row.kind == CounterKind::Counter)
}

fn sums() -> impl Iterator<Item = &'static Counter<PathStatistics>> {
    of_paths().filter(|row| Statistics::counters().all(|own| own.name != row.name))
}

/// Metrics of a whole association.
pub(super) fn of_all() -> impl Iterator<Item = Metric> {
    let own = Statistics::counters().map(|row| metric(row, "", ""));
    own.chain(sums().map(|row| metric(row, "", ", on all paths")))
}

/// Metrics of a path.
pub(super) fn of_path(number: usize) -> impl Iterator<Item = Metric> {
    let suffix = format!("_path{number}");
    let of = format!(", on path {number}");
    of_paths().map(move |row| metric(row, &suffix, &of))
}

/// The names of both kinds.
pub(super) fn names() -> impl Iterator<Item = String> {
    let own = Statistics::counters().map(|row| name(row).0);
    let paths = of_paths().map(|row| name(row).0);
    own.chain(sums().map(|row| name(row).0)).chain(paths.map(|name| name + "_path{n}"))
}

/// Sets the metrics of an association; `path_of` returns the number of a path, from 1.
pub(crate) fn set(
    statistics: &Statistics,
    path_of: impl Fn(&PathStatistics) -> Option<usize>,
    metrics: &mut Metrics,
) {
    for row in Statistics::counters() {
        let (name, _, factor) = name(row);
        if let Some(value) = (row.get)(statistics) {
            metrics.set(&name, value.as_f64() * factor);
        }
    }
    let value = |row: &Counter<PathStatistics>, path| (row.get)(path).map_or(0.0, |n| n.as_f64());
    for row in sums() {
        let (name, _, factor) = name(row);
        let sum: f64 = statistics.paths.iter().map(|path| value(row, path)).sum();
        metrics.set(&name, sum * factor);
    }
    for path in &statistics.paths {
        let Some(number) = path_of(path) else { continue };
        for row in of_paths() {
            let (name, _, factor) = name(row);
            metrics.set(&format!("{name}_path{number}"), value(row, path) * factor);
        }
    }
}
