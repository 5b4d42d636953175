//! The printed output of a figure, and its JSON.

use anabranch_bench::suite::{self, Options, Spread, Target, Trouble, median_notes};
use serde_json::{Map, Value, json};

use crate::figures::{Figure, Outcome};
use crate::measure::Sample;

/// The medians of the samples' additional values.
fn notes(samples: &[Sample]) -> Vec<(&'static str, f64)> {
    median_notes(&samples.iter().map(|sample| sample.notes.as_slice()).collect::<Vec<_>>())
}

impl suite::Figure for Figure {
    type Outcome = Outcome;

    fn key(&self) -> &'static str {
        self.key
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn unit(&self) -> &'static str {
        self.unit
    }

    fn target(&self) -> Target {
        self.target
    }

    fn run(&self, options: &Options) -> Result<Outcome, Trouble> {
        Ok(self.measure(options)?)
    }

    /// Prints a small table.
    fn print(&self, outcome: &Outcome) {
        for (index, (entry, samples)) in self.entries.iter().zip(&outcome.samples).enumerate() {
            let Some(value) = Spread::of(samples.iter().map(|s| s.value)) else {
                continue;
            };
            let cpu: f64 = samples.iter().map(|s| s.cpu).sum();
            let ratio = Spread::of(outcome.ratios(index)).map_or(String::new(), |r| {
                format!("  x {:5.2} ({:.2} to {:.2})", r.median, r.min, r.max)
            });
            let digits = if value.max < 10.0 { 3 } else { 1 };
            let range = format!("({:.digits$} to {:.digits$})", value.min, value.max);
            let notes: String = notes(samples)
                .into_iter()
                .map(|(name, value)| format!("  {name} {value:.3}"))
                .collect();
            println!(
                "  {:<15} {:>11.digits$} {range:<24} {cpu:>7.2} CPU s{ratio}{notes}",
                entry.name, value.median
            );
        }
    }

    fn headline(&self, outcome: &Outcome) -> Option<f64> {
        let values = if self.entries.len() > 1 {
            outcome.ratios(0)
        } else {
            outcome.samples.first()?.iter().map(|s| s.value).collect()
        };
        Some(Spread::of(values)?.median)
    }

    fn details(&self, outcome: &Outcome) -> Map<String, Value> {
        let entry = |(index, (entry, samples)): (usize, (&crate::figures::Entry, &Vec<Sample>))| {
            let values: Vec<f64> = samples.iter().map(|s| s.value).collect();
            let cpu: Vec<f64> = samples.iter().map(|s| s.cpu).collect();
            let notes = notes(samples).into_iter();
            json!({
                "name": entry.name,
                "median": Spread::of(values.iter().copied()).map(|s| s.median),
                "values": values,
                "cpu_seconds": cpu,
                "ratios": outcome.ratios(index),
                "notes": Map::from_iter(notes.map(|(name, value)| (name.to_owned(), json!(value)))),
            })
        };
        let entries = self.entries.iter().zip(&outcome.samples).enumerate().map(entry);
        Map::from_iter([("entries".to_owned(), entries.collect())])
    }
}
