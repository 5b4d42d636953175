//! What is printed and what is written as JSON.

use serde_json::{Map, Value, json};

use crate::figures::{Figure, Outcome, Target};

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
        let range = format!("({:.1} to {:.1})", value.min, value.max);
        println!("  {:<15} {:>11.1} {range:<24} {cpu:>7.2} CPU s{ratio}", entry.name, value.median);
    }
    if let Some(value) = headline(figure, outcome) {
        let (word, bound) = match figure.target {
            Target::AtLeast(bound) => ("at least", bound),
            Target::AtMost(bound) => ("at most", bound),
        };
        let verdict = if figure.target.is_met(value) { "met" } else { "NOT met" };
        println!("  = {value:.2}, asked for: {word} {bound}: {verdict}");
    }
}

/// All figures: under each key the one number that is asked for, under `details` everything.
pub(crate) fn json(outcomes: &[(&Figure, Outcome)]) -> String {
    let mut all = Map::new();
    let mut details = Map::new();
    for (figure, outcome) in outcomes {
        let value = headline(figure, outcome);
        all.insert(figure.key.to_owned(), json!(value));
        let (word, bound) = match figure.target {
            Target::AtLeast(bound) => ("at_least", bound),
            Target::AtMost(bound) => ("at_most", bound),
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
            }));
        }
        details.insert(
            figure.key.to_owned(),
            json!({
                "title": figure.title,
                "unit": figure.unit,
                "target": { word: bound },
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
