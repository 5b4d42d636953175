//! What is printed and what is written as JSON.

use serde_json::{Map, Value, json};

use crate::figures::{Figure, Outcome, Target};
use crate::measure::Sample;

/// Median, smallest and largest of some values.
#[derive(Clone, Copy, Debug)]
struct Spread {
    median: f64,
    min: f64,
    max: f64,
}

fn spread(mut values: Vec<f64>) -> Option<Spread> {
    values.sort_by(f64::total_cmp);
    let (&min, &max) = (values.first()?, values.last()?);
    let middle = values.len() / 2;
    let upper = values.get(middle)?;
    let median = if values.len() % 2 == 1 {
        *upper
    } else {
        f64::midpoint(*values.get(middle - 1)?, *upper)
    };
    Some(Spread { median, min, max })
}

/// The one number that a figure is about.
fn headline(figure: &Figure, outcome: &Outcome) -> Option<f64> {
    let values = if figure.entries.len() > 1 {
        outcome.ratios(0)
    } else {
        outcome.samples.first()?.iter().map(|s| s.value).collect()
    };
    Some(spread(values)?.median)
}

/// The medians of what else the samples tell.
fn notes(samples: &[Sample]) -> Vec<(&'static str, f64)> {
    let Some(first) = samples.first() else {
        return Vec::new();
    };
    let median = |index: usize| {
        let values = samples.iter().filter_map(|s| s.notes.get(index)).map(|note| note.1).collect();
        spread(values).map_or(0.0, |values| values.median)
    };
    first.notes.iter().enumerate().map(|(index, note)| (note.0, median(index))).collect()
}

/// Prints one figure as a small table.
pub(crate) fn print(figure: &Figure, outcome: &Outcome) {
    println!("{}: {} [{}]", figure.key, figure.title, figure.unit);
    for (index, (entry, samples)) in figure.entries.iter().zip(&outcome.samples).enumerate() {
        let Some(value) = spread(samples.iter().map(|s| s.value).collect()) else {
            continue;
        };
        let cpu: f64 = samples.iter().map(|s| s.cpu).sum();
        let ratio = spread(outcome.ratios(index)).map_or(String::new(), |r| {
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
    if let Some(value) = headline(figure, outcome) {
        let verdict = if figure.target.is_met(value) { "met" } else { "NOT met" };
        match figure.target {
            Target::AtLeast(bound) => {
                println!("  = {value:.2}, asked for: at least {bound}: {verdict}");
            }
            Target::AtMost(bound) => {
                println!("  = {value:.2}, asked for: at most {bound}: {verdict}");
            }
            Target::Aim(bound) => println!("  = {value:.2}, aimed at: {bound}: {verdict}"),
            Target::None => println!("  = {value:.2}"),
        }
    }
}

/// All figures: under each key the one number that is asked for, under `details` everything.
pub(crate) fn json(outcomes: &[(&Figure, Outcome)]) -> String {
    let mut all = Map::new();
    let mut details = Map::new();
    for (figure, outcome) in outcomes {
        let value = headline(figure, outcome);
        all.insert(figure.key.to_owned(), json!(value));
        let target = match figure.target {
            Target::AtLeast(bound) => json!({ "at_least": bound }),
            Target::AtMost(bound) => json!({ "at_most": bound }),
            Target::Aim(bound) => json!({ "aim": bound }),
            Target::None => Value::Null,
        };
        let mut entries = Vec::new();
        for (index, (entry, samples)) in figure.entries.iter().zip(&outcome.samples).enumerate() {
            let values: Vec<f64> = samples.iter().map(|s| s.value).collect();
            let cpu: Vec<f64> = samples.iter().map(|s| s.cpu).collect();
            entries.push(json!({
                "name": entry.name,
                "median": spread(values.clone()).map(|s| s.median),
                "values": values,
                "cpu_seconds": cpu,
                "ratios": outcome.ratios(index),
                "notes": Map::from_iter(
                    notes(samples).into_iter().map(|(name, value)| (name.to_owned(), json!(value))),
                ),
            }));
        }
        details.insert(
            figure.key.to_owned(),
            json!({
                "title": figure.title,
                "unit": figure.unit,
                "target": target,
                "met": value.map(|value| figure.target.is_met(value)),
                "entries": entries,
            }),
        );
    }
    all.insert("details".to_owned(), Value::Object(details));
    let mut text = format!("{:#}", Value::Object(all));
    text.push('\n');
    text
}
