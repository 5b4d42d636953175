//! A unit of work for a worker in another process or on another machine, as one JSON document.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::plan::Unit;
use super::record::MOST_RUNS;
use super::{Experiment, Record, RunError, carry_out, require_virtual_time};
use crate::metrics::Metrics;
use crate::scenario::{Library, Override, Scenario, ScenarioError};

/// Longest order, in bytes: a scenario is at most 1 MB long.
pub const MOST_ORDER: usize = 4 << 20;

/// Where a scenario comes from: what a worker needs to have the same one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Its name, in a library if there is no text.
    id: String,
    /// The file, if it is not of a library; names of other files in it are relative to its directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
    /// The text of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// Keys and values of changes to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    set: Vec<(String, String)>,
}

impl Source {
    /// A scenario of a library.
    pub fn library(id: &str, changes: &[Override]) -> Self {
        let set = changes.iter().map(|change| (change.key.clone(), change.value.clone()));
        Self { id: id.to_owned(), file: None, text: None, set: set.collect() }
    }

    /// The text of a file, which may exist or not.
    pub fn text(id: &str, file: PathBuf, text: String, changes: &[Override]) -> Self {
        Self { file: Some(file), text: Some(text), ..Self::library(id, changes) }
    }

    /// The same scenario without the changes to it; `None` if there are none.
    pub fn unchanged(&self) -> Option<Self> {
        (!self.set.is_empty()).then(|| Self { set: Vec::new(), ..self.clone() })
    }

    /// Whether it is in a library, and not in this value.
    pub fn needs_library(&self) -> bool {
        self.text.is_none()
    }

    /// Reads the scenario. The library may be any one if it is not needed.
    ///
    /// # Errors
    /// Returns the first mistake in it.
    pub fn load(&self, library: &Library) -> Result<Scenario, ScenarioError> {
        let change = |(key, value): &(String, String)| Override {
            key: key.clone(),
            value: value.clone(),
            yields: false,
        };
        let changes: Vec<_> = self.set.iter().map(change).collect();
        let (Some(text), file) = (&self.text, self.file.clone().unwrap_or_default()) else {
            return library.load(&self.id, &changes);
        };
        Scenario::from_text(text, &file, &self.id, &changes)
    }
}

/// Runs to carry out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// The code that must carry them out.
    pub build: String,
    /// The scenario.
    pub scenario: Source,
    /// Its hash: the worker must have the same.
    pub scenario_sha256: String,
    /// The point: `axis=value` for each axis, joined by commas.
    pub point: String,
    /// Number of the first run.
    pub from: usize,
    /// Number of the last run, plus one.
    pub to: usize,
}

impl Order {
    /// An order for a unit of a plan; `None` if the scenario has no such point.
    pub fn new(build: &str, source: &Source, scenario: &Scenario, unit: &Unit) -> Option<Self> {
        Some(Self {
            build: build.to_owned(),
            scenario: source.clone(),
            scenario_sha256: scenario.sha256(),
            point: scenario.points.get(unit.point)?.key.clone(),
            from: unit.runs.start,
            to: unit.runs.end,
        })
    }

    /// Reads an order.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn read(text: &str) -> Result<Self, String> {
        let order: Self = serde_json::from_str(text)
            .map_err(|error| format!("this is no unit of work: {error}"))?;
        let (from, to) = (order.from, order.to);
        match from < to && to <= MOST_RUNS {
            true => Ok(order),
            false => {
                Err(format!("runs {from} to {to}: 'to' is above 'from' and at most {MOST_RUNS}"))
            }
        }
    }

    /// The scenario, for the code that `build` identifies. It is the same for all orders that differ only in their
    /// points and runs.
    ///
    /// # Errors
    /// Fails if the order is for another build or another scenario.
    pub fn scenario(&self, build: &str, library: &Library) -> Result<Scenario, RunError> {
        if self.build != build {
            return Err(RunError::Worker(format!(
                "this unit is for the engine {}, and this program has {build}: install the same version everywhere",
                self.build
            )));
        }
        let scenario = self.scenario.load(library);
        let scenario = scenario.map_err(|error| RunError::Worker(error.to_string()))?;
        require_virtual_time(&scenario).map_err(RunError::Worker)?;
        let hash = scenario.sha256();
        if self.scenario_sha256 != hash {
            return Err(RunError::Worker(format!(
                "the scenario {} is another one here: its hash is {hash}, and the unit's {}",
                scenario.id, self.scenario_sha256
            )));
        }
        Ok(scenario)
    }

    /// Whether both are for the same scenario by the same code.
    pub fn is_like(&self, other: &Self) -> bool {
        (&self.build, &self.scenario, &self.scenario_sha256)
            == (&other.build, &other.scenario, &other.scenario_sha256)
    }

    /// Carries it out in its [`scenario`](Self::scenario).
    ///
    /// # Errors
    /// Fails if there is no such point, or a run fails.
    pub fn carry_out(
        &self,
        scenario: &Scenario,
        experiment: &dyn Experiment,
    ) -> Result<Record, RunError> {
        let Some(point) = scenario.points.iter().find(|point| point.key == self.point) else {
            let reason = format!("{} has no point '{}'", scenario.id, self.point);
            return Err(RunError::Worker(reason));
        };
        let runs: Vec<Metrics> = (self.from..self.to)
            .map(|number| carry_out(experiment, scenario, point, number))
            .collect::<Result<_, _>>()?;
        Ok(Record::new(&self.build, scenario, point, self.from, &runs))
    }

    /// The runs in a worker's answer: one line.
    ///
    /// # Errors
    /// Says why the answer is not used.
    pub fn answer(&self, scenario: &Scenario, line: &str) -> Result<Vec<Metrics>, RunError> {
        let Self { from, to, .. } = self;
        let refused = |reason: String| {
            RunError::Worker(format!(
                "a worker's result of runs {from} to {} of {} at {} is not used: {reason}",
                to - 1,
                scenario.id,
                self.point
            ))
        };
        let line = line.trim_end();
        if line.is_empty() {
            return Err(refused("there is none".to_owned()));
        }
        let record = Record::read(line).map_err(refused)?;
        if record.build != self.build {
            return Err(refused(format!(
                "it is of the engine {}, and this program has {}",
                record.build, self.build
            )));
        }
        let point = scenario.points.iter().find(|point| point.key == self.point);
        let Some(point) = point else { return Err(refused("there is no such point".to_owned())) };
        let like = Record::new(&self.build, scenario, point, 0, &[]);
        if !record.is_like(&like) || record.first != *from || record.runs != to - from {
            return Err(refused(format!(
                "it is of {} runs from {} of {} at {}",
                record.runs, record.first, record.scenario, record.point
            )));
        }
        record.metrics().map_err(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::tests::Toy;
    use crate::scenario::tests::text;

    fn order() -> (Order, Scenario, Library) {
        let source = Source::text("test/1", "test.toml".into(), text(), &[]);
        let library = Library::new("none");
        let scenario = source.load(&library).unwrap();
        let unit = Unit { point: 1, runs: 2..4 };
        (Order::new("build", &source, &scenario, &unit).unwrap(), scenario, library)
    }

    #[test]
    fn a_worker_that_has_only_the_order_gives_the_same_runs() {
        let (order, scenario, library) = order();
        let json = serde_json::to_string(&order).unwrap();
        let there = Order::read(&json).unwrap();
        assert_eq!(there, order);
        let scenario_there = there.scenario("build", &library).unwrap();
        let record = there.carry_out(&scenario_there, &Toy { fails_at: None }).unwrap();
        let runs = order.answer(&scenario, &(record.line().unwrap() + "\n")).unwrap();
        let here = crate::runner::tests::run(&scenario, 1, None);
        assert_eq!(runs, here.points[1][2..4]);
    }

    #[test]
    fn orders_that_cannot_be_carried_out_are_refused() {
        let (order, _, library) = order();
        let refused = |order: &Order, build: &str, reason: &str| {
            let experiment = Toy { fails_at: Some("policy=Alt") };
            let scenario = order.scenario(build, &library);
            let record = scenario.and_then(|scenario| order.carry_out(&scenario, &experiment));
            let error = record.unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        };
        refused(&order, "other", "install the same version everywhere");
        refused(&order, "build", "no such network");
        refused(&Order { point: "loss=9 %".into(), ..order.clone() }, "build", "has no point");
        refused(
            &Order { scenario_sha256: "1".into(), ..order.clone() },
            "build",
            "another one here",
        );
        let source = Source::text("test/1", "test.toml".into(), "speed = 1".into(), &[]);
        refused(&Order { scenario: source, ..order.clone() }, "build", "test.toml:1: ");
        let emulated = text().replace("seeds = 10", "seeds = 10\non = \"emulator\"");
        let source = Source::text("test/1", "test.toml".into(), emulated, &[]);
        refused(&Order { scenario: source, ..order.clone() }, "build", "runs on real packets");
        for (from, to) in [(2, 2), (3, 2), (0, MOST_RUNS + 1), (0, usize::MAX)] {
            let json = serde_json::to_string(&Order { from, to, ..order.clone() }).unwrap();
            assert!(Order::read(&json).unwrap_err().contains("above 'from'"), "{from} {to}");
        }
        for text in ["", "{}", "[1]", "null", "{\"build\": 1}", "\u{0}"] {
            assert!(Order::read(text).unwrap_err().starts_with("this is no unit of work: "));
        }
    }

    #[test]
    fn answers_that_are_nonsense_are_refused() {
        let (order, scenario, _) = order();
        let record = order.carry_out(&scenario, &Toy { fails_at: None }).unwrap();
        let refused = |line: &str, reason: &str| {
            let error = order.answer(&scenario, line).unwrap_err().to_string();
            assert!(error.contains("runs 2 to 3 of test/1 at loss=1 %, policy=Alt"), "{error}");
            assert!(error.contains(reason), "{error}");
        };
        refused("", "there is none");
        refused("\n", "there is none");
        refused("Segmentation fault", "the checksum is wrong");
        let line = record.line().unwrap();
        refused(&line[..line.len() - 2], "the checksum is wrong");
        refused(&line.replace("\"runs\":2", "\"runs\":3"), "the checksum is wrong");
        let other = |change: fn(&mut Record)| {
            let mut record = record.clone();
            change(&mut record);
            record.line().unwrap()
        };
        refused(&other(|record| record.build = "x".into()), "it is of the engine x");
        refused(&other(|record| record.first = 3), "it is of 2 runs from 3");
        refused(&other(|record| record.setup = "0".into()), "it is of 2 runs from 2");
        refused(&other(|record| record.runs = 3), "has 2 values, and there are 3 runs");
    }
}
