//! Runs of one point as one line of JSON: in a store, and as the result of a unit.
//!
//! The first field is a checksum of the rest, so that damaged data is never used.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::seeds::fingerprint;
use crate::metrics::{self, METRICS, Metrics};
use crate::scenario::{Point, Scenario, sha256};

/// Most runs of a point.
pub(super) const MOST_RUNS: usize = 100_000;

/// How every record begins, before the checksum.
pub(super) const BEGIN: &str = "{\"checksum\":\"";

/// Hexadecimal digits of a checksum.
const DIGITS: usize = 64;

/// Runs of one point with consecutive numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The code that made it: results of different code are not mixed.
    pub build: String,
    /// Fingerprint of the setup of the point: after a change of the scenario it is different.
    pub setup: String,
    /// The name of the scenario.
    pub scenario: String,
    /// The point: `axis=value` for each axis, joined by commas.
    pub point: String,
    /// Number of the first run.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first: usize,
    /// How many runs there are.
    pub runs: usize,
    /// The runs' values of each metric that was measured.
    metrics: BTreeMap<String, Vec<Option<f64>>>,
}

// The signature is serde's.
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Everything that a run depends on besides its seed.
fn setup(point: &Point) -> String {
    format!("{:016x}", fingerprint(format!("{:?}", point.setup).bytes()))
}

impl Record {
    /// Runs of a point, made by the code that `build` identifies; the first one has the number `first`.
    pub fn new(
        build: &str,
        scenario: &Scenario,
        point: &Point,
        first: usize,
        runs: &[Metrics],
    ) -> Self {
        let empty = Self {
            build: build.to_owned(),
            setup: setup(point),
            scenario: scenario.id.clone(),
            point: point.key.clone(),
            first: 0,
            runs: 0,
            metrics: BTreeMap::new(),
        };
        empty.with(first, runs.iter())
    }

    /// Other runs of the same point.
    pub(super) fn with<'a>(
        &self,
        first: usize,
        runs: impl Iterator<Item = &'a Metrics> + Clone,
    ) -> Self {
        let values = METRICS.iter().enumerate().map(|(index, metric)| {
            (metric.name.clone(), runs.clone().map(|run| run.at(index)).collect())
        });
        let metrics = values.filter(|(_, values): &(_, Vec<_>)| values.iter().any(Option::is_some));
        Self { first, runs: runs.clone().count(), metrics: metrics.collect(), ..self.clone() }
    }

    /// Whether both are of the same point of the same scenario by the same code.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        (&self.build, &self.setup, &self.scenario, &self.point)
            == (&other.build, &other.setup, &other.scenario, &other.point)
    }

    /// One line, without its end.
    ///
    /// # Errors
    /// Does not fail: all values are finite.
    pub fn line(&self) -> Result<String, serde_json::Error> {
        Ok(sealed(&serde_json::to_string(self)?))
    }

    /// Reads a line.
    ///
    /// # Errors
    /// Fails if it is damaged, or does not fit together.
    pub fn read(line: &str) -> Result<Self, String> {
        let document = checked(line).ok_or("the checksum is wrong")?;
        let record: Self = serde_json::from_str(&document).map_err(|error| error.to_string())?;
        let runs = record.runs;
        if runs > MOST_RUNS || record.first > MOST_RUNS - runs {
            let runs = record.first.saturating_add(runs);
            return Err(format!("{runs} runs, and a point has {MOST_RUNS} at most"));
        }
        if let Some((name, values)) = record.metrics.iter().find(|(_, v)| v.len() != runs) {
            let values = values.len();
            return Err(format!("{name} has {values} values, and there are {runs} runs"));
        }
        Ok(record)
    }

    /// The runs.
    ///
    /// # Errors
    /// Fails if there is no such metric.
    pub fn metrics(&self) -> Result<Vec<Metrics>, String> {
        let mut runs = vec![Metrics::default(); self.runs];
        for (name, values) in &self.metrics {
            if metrics::find(name).is_none() {
                return Err(format!("there is no metric '{name}'"));
            }
            for (run, value) in runs.iter_mut().zip(values) {
                if let Some(value) = value {
                    run.set(name, *value);
                }
            }
        }
        Ok(runs)
    }
}

/// A document with its checksum as the first field.
pub(super) fn sealed(document: &str) -> String {
    let rest = document.strip_prefix('{').unwrap_or(document);
    format!("{BEGIN}{}\",{rest}", sha256(document.as_bytes()))
}

/// The document in a text with a checksum; `None` if the checksum is missing or wrong.
pub(super) fn checked(text: &str) -> Option<String> {
    let (sum, rest) = text.strip_prefix(BEGIN)?.split_at_checked(DIGITS)?;
    let document = format!("{{{}", rest.strip_prefix("\",")?);
    (sha256(document.as_bytes()) == sum).then_some(document)
}
