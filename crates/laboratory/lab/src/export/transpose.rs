//! Turns runs, each with the values of all metrics, into columns, each with the values of all runs.
//!
//! A million runs with 170 metrics are more than a gigabyte in either form. So each run is read once, in blocks that stay
//! in the cache, and threads share the runs.

use std::num::NonZero;
use std::thread;

use super::Numbers;

/// Runs that are turned together: with 170 metrics each they fit into the second level of the cache.
const BLOCK: usize = 32;

/// A thread with fewer runs costs more than it saves.
const FEWEST: usize = 8192;

/// The runs of one thread in a column.
struct Part<'a> {
    values: &'a mut [f64],
    missing: usize,
}

/// The columns of these metrics; `None` if no run has the metric. Values that are not finite are missing.
pub(super) fn transposed(runs: &[&[f64]], metrics: &[usize]) -> Vec<Option<Numbers>> {
    // The memory comes zeroed from the system, and a column without any value is never touched.
    let mut columns: Vec<Vec<f64>> = metrics.iter().map(|_| vec![0.0; runs.len()]).collect();
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let share = runs.len().div_ceil(cores).max(FEWEST);
    let mut parts: Vec<Vec<Part<'_>>> = runs.chunks(share).map(|_| Vec::new()).collect();
    for column in &mut columns {
        for (part, values) in parts.iter_mut().zip(column.chunks_mut(share)) {
            part.push(Part { values, missing: 0 });
        }
    }
    thread::scope(|scope| {
        let mut threads = runs.chunks(share).zip(&mut parts);
        let own = threads.next();
        for (runs, parts) in threads {
            scope.spawn(move || fill(runs, metrics, parts));
        }
        if let Some((runs, parts)) = own {
            fill(runs, metrics, parts);
        }
    });
    let mut missing = vec![0; metrics.len()];
    for parts in parts {
        for (total, part) in missing.iter_mut().zip(parts) {
            if part.missing == part.values.len() && part.missing < runs.len() {
                part.values.fill(f64::NAN);
            }
            *total += part.missing;
        }
    }
    let columns = columns.into_iter().zip(missing);
    let is_there = |missing: &usize| *missing < runs.len();
    columns
        .map(|(values, missing)| is_there(&missing).then_some(Numbers { values, missing }))
        .collect()
}

/// Fills the parts, one for each metric, with the values of these runs.
fn fill(runs: &[&[f64]], metrics: &[usize], parts: &mut [Part<'_>]) {
    for (index, block) in runs.chunks(BLOCK).enumerate() {
        for (metric, part) in metrics.iter().zip(&mut *parts) {
            let mut values = [f64::NAN; BLOCK];
            let mut there = 0;
            for (value, run) in values.iter_mut().zip(block) {
                if let Some(&measured) = run.get(*metric).filter(|value| value.is_finite()) {
                    *value = measured;
                    there += 1;
                }
            }
            part.put(index * BLOCK, &values, block.len(), there);
        }
    }
}

impl Part<'_> {
    /// Writes the first `length` values of a block, of which `there` are not missing.
    fn put(&mut self, begin: usize, values: &[f64; BLOCK], length: usize, there: usize) {
        let is_untouched = self.missing == begin;
        self.missing += length - there;
        if is_untouched && there == 0 {
            return;
        }
        let (before, rest) = self.values.split_at_mut(begin);
        if is_untouched {
            before.fill(f64::NAN);
        }
        rest.iter_mut().zip(values).for_each(|(place, value)| *place = *value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_what_runs_have() {
        let length = 3 * FEWEST + 5;
        // Metric 0 is always there, 1 sometimes, 2 at the end only, 3 in the first thread's part only, 4 never, and
        // some runs are short.
        let value = |run: usize, metric: usize| match metric {
            0 => run as f64,
            1 if run % 3 == 1 => -(run as f64),
            2 if run + 2 >= length => 7.5,
            3 if run < 100 => 1.0 / (run + 1) as f64,
            4 => f64::INFINITY,
            _ => f64::NAN,
        };
        let fields = |run: usize| (0..5 - run % 2).map(|metric| value(run, metric)).collect();
        let runs: Vec<Vec<f64>> = (0..length).map(fields).collect();
        let runs: Vec<&[f64]> = runs.iter().map(Vec::as_slice).collect();
        let metrics = [3, 0, 1, 2, 4, 9];
        let columns = transposed(&runs, &metrics);
        assert_eq!(columns.len(), metrics.len());
        for (metric, column) in metrics.into_iter().zip(&columns) {
            let there = |run: &&[f64]| run.get(metric).copied().filter(|value| value.is_finite());
            let expected: Numbers = runs.iter().map(there).collect();
            let Some(column) = column else {
                assert_eq!(expected.missing(), length, "metric {metric}");
                continue;
            };
            assert_eq!(column, &expected, "metric {metric}");
            assert_eq!(column.missing(), expected.missing(), "metric {metric}");
        }
        assert_eq!(columns.iter().filter(|column| column.is_none()).count(), 2);
        assert_eq!(transposed(&[], &[0]), [None]);
    }
}
