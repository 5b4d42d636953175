//! Numbers of another simulator for the same points, from a table next to the scenario file.
//!
//! A line has a value for each axis of the scenario, the metric, `mean`, `ci90` (half the width of the interval), `n`
//! (number of runs) and `incomplete` (runs that did not end). It may have `median`, and `values`: the values of all
//! runs, separated by spaces, with `-` for a run that did not end. Columns may be in any order; the first line names
//! them. Lines that begin with `#` give their source.

use crate::metrics;
use crate::scenario::{Scenario, ScenarioError};
use crate::stats::Estimate;
use crate::units::{MOST_TEXT, read_text};

/// One number.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// Index of the point.
    pub point: usize,
    /// Index of the metric.
    pub metric: usize,
    /// Mean, 90 % interval and number of runs.
    pub estimate: Estimate,
    /// Runs that did not end.
    pub incomplete: usize,
    /// The median, if it is known.
    pub median: Option<f64>,
    /// The value of each run, if they are known; `None` for a run that did not end.
    pub values: Vec<Option<f64>>,
}

impl Reference {
    /// A mean without further data.
    pub fn of_mean(point: usize, metric: usize, estimate: Estimate) -> Self {
        Self { point, metric, estimate, incomplete: 0, median: None, values: Vec::new() }
    }

    /// The values of the runs that ended.
    pub fn ended(&self) -> Vec<f64> {
        self.values.iter().flatten().copied().collect()
    }
}

/// Reads the numbers for the points of a scenario; numbers for unknown points are skipped.
///
/// # Errors
/// Fails if the file cannot be read or has an error.
pub fn load(scenario: &Scenario) -> Result<Vec<Reference>, ScenarioError> {
    let Some(path) = &scenario.reference else { return Ok(Vec::new()) };
    let file = path.display().to_string();
    let text = read_text(path, MOST_TEXT).map_err(|error| ScenarioError::Unreadable {
        file: file.clone(),
        reason: error.to_string(),
    })?;
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    let mut lines = lines.filter(|(_, line)| !line.starts_with('#'));
    let columns: Vec<&str> =
        lines.next().map_or_else(Vec::new, |(_, line)| line.split(',').map(str::trim).collect());
    let mut found = Vec::new();
    for (line, text) in lines.filter(|(_, text)| !text.trim().is_empty()) {
        let row = Row { columns: &columns, fields: text.split(',').map(str::trim).collect() };
        match row.read(scenario) {
            Ok(Some(reference)) => found.push(reference),
            Ok(None) => {}
            Err(reason) => return Err(ScenarioError::InFile { file, line, reason }),
        }
    }
    Ok(found)
}

struct Row<'a> {
    columns: &'a [&'a str],
    fields: Vec<&'a str>,
}

impl Row<'_> {
    fn field(&self, name: &str) -> Result<&str, String> {
        let index = self.columns.iter().position(|column| *column == name);
        let index = index.ok_or_else(|| format!("there is no column '{name}'"))?;
        self.fields.get(index).copied().ok_or_else(|| format!("'{name}' is missing"))
    }

    fn number(&self, name: &str) -> Result<f64, String> {
        let text = self.field(name)?;
        text.parse().map_err(|_| format!("{name} is '{text}', which is not a number"))
    }

    fn read(&self, scenario: &Scenario) -> Result<Option<Reference>, String> {
        let mut at = Vec::new();
        for axis in &scenario.axes {
            match axis.find(self.field(&axis.name)?) {
                Some(index) => at.push(index),
                None => return Ok(None),
            }
        }
        let name = self.field("metric")?;
        let metric = metrics::find(name).ok_or_else(|| format!("there is no metric '{name}'"))?;
        let half = Some(self.number("ci90")?).filter(|half| half.is_finite());
        let value = self.number("mean")?;
        let (n, incomplete) = (self.number("n")? as usize, self.number("incomplete")? as usize);
        if !value.is_finite() {
            return Ok(None);
        }
        let point = scenario.points.iter().position(|point| point.at == at);
        let estimate = Estimate::around(value, half, n);
        let median = match self.has("median") {
            true => Some(self.number("median")?).filter(|median| median.is_finite()),
            false => None,
        };
        let values = self.values()?;
        Ok(point.map(|point| Reference { point, metric, estimate, incomplete, median, values }))
    }

    fn has(&self, name: &str) -> bool {
        self.columns.contains(&name)
    }

    fn values(&self) -> Result<Vec<Option<f64>>, String> {
        if !self.has("values") {
            return Ok(Vec::new());
        }
        let value = |text: &str| match (text, text.parse()) {
            ("-", _) => Ok(None),
            (_, Ok(value)) => Ok(Some(value)),
            _ => Err(format!("a value is '{text}', which is not a number")),
        };
        self.field("values")?.split_whitespace().map(value).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::scenario::tests::{read, text};

    #[test]
    fn numbers_are_read_with_their_points() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("r.csv");
        let mut scenario = read(&text(), &[]).unwrap();
        let mut load = |text: &str| {
            fs::write(&file, text).unwrap();
            scenario.reference = Some(file.clone());
            super::load(&scenario)
        };
        let head = "policy,loss,metric,mean,ci90,n,incomplete\n";
        let rows = load(&format!(
            "{head}Alt,3 %,transfer_time_s,40.5,0.7,60,1\nAlt,9 %,transfer_time_s,1,1,1,0\n\
             Same,1,transfer_time_s,30,nan,1,0\n"
        ))
        .unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].point, rows[0].incomplete), (3, 1));
        assert_eq!(rows[0].estimate, Estimate::around(40.5, Some(0.7), 60));
        assert_eq!((rows[1].point, rows[1].estimate.interval), (0, None));
        let wrong = load(&format!("{head}Alt,3 %,transfer_time_s,x,0.7,60,0\n")).unwrap_err();
        assert!(wrong.to_string().ends_with("r.csv:2: mean is 'x', which is not a number"));
        assert!(load("policy,metric\nAlt,x\n").is_err());
        let head = "# from runs of 2026\npolicy,loss,metric,mean,ci90,n,incomplete,median,values\n";
        let row = "Alt,3 %,transfer_time_s,40.5,0.7,3,1,40,";
        let rows = load(&format!("{head}{row}40 - 41\n")).unwrap();
        assert_eq!(rows[0].median, Some(40.0));
        assert_eq!(rows[0].values, [Some(40.0), None, Some(41.0)]);
        assert_eq!(rows[0].ended(), [40.0, 41.0]);
        let wrong = load(&format!("{head}{row}40 x\n")).unwrap_err();
        assert!(wrong.to_string().ends_with("r.csv:3: a value is 'x', which is not a number"));
    }
}
