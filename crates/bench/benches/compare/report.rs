//! What is printed and what is written as JSON.

use serde_json::{Map, Value, json};

use crate::figures::{Figure, Outcome};

/// Median, smallest and largest of some values.
#[derive(Clone, Copy, Debug)]
struct Spread {
    median: f64,
    min: f64,
    max: f64,
}

fn spread(values: impl Iterator<Item = f64>) -> Option<Spread> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let (&min, &max) = (values.first()?, values.last()?);
    let middle = values.len() / 2;
    let upper = values.get(middle)?;
    let median =
        if values.len() % 2 == 1 { *upper } else { (values.get(middle - 1)? + upper) / 2.0 };
    Some(Spread { median, min, max })
}

/// Prints one figure as a small table.
pub(crate) fn print(figure: &Figure, outcome: &Outcome) {
    println!("{}: {} [{}]", figure.key, figure.title, figure.unit);
    for (kind, samples) in &outcome.samples {
        let Some(value) = spread(samples.iter().map(|s| s.value)) else {
            continue;
        };
        let cpu: f64 = samples.iter().map(|s| s.cpu).sum();
        let ratio = spread(outcome.ratios(*kind, figure.baseline).into_iter());
        let ratio = ratio
            .map_or(String::new(), |r| format!("{:6.2} ({:.2} to {:.2})", r.median, r.min, r.max));
        println!(
            "  {:<12} {:>12.1} ({:.1} to {:.1})  {:>6.2} CPU s  ratio to {} {ratio}",
            kind.name(),
            value.median,
            value.min,
            value.max,
            cpu,
            figure.baseline.name(),
        );
    }
}

/// All figures: under each key the one number that is asked for, under `details` everything.
pub(crate) fn json(outcomes: &[(&Figure, Outcome)]) -> String {
    let mut details = Map::new();
    for (figure, outcome) in outcomes {
        let mut engines = Map::new();
        for (kind, samples) in &outcome.samples {
            let values: Vec<f64> = samples.iter().map(|s| s.value).collect();
            let cpu: Vec<f64> = samples.iter().map(|s| s.cpu).collect();
            let ratios = outcome.ratios(*kind, figure.baseline);
            let median = |values: &[f64]| spread(values.iter().copied()).map(|s| s.median);
            engines.insert(
                kind.name().to_owned(),
                json!({
                    "median": median(&values),
                    "values": values,
                    "cpu_seconds": cpu,
                    "ratio": median(&ratios),
                    "ratios": ratios,
                }),
            );
        }
        details.insert(
            figure.key.to_owned(),
            json!({
                "title": figure.title,
                "unit": figure.unit,
                "baseline": figure.baseline.name(),
                "engines": engines,
            }),
        );
    }
    let mut all = Map::new();
    all.insert("details".to_owned(), Value::Object(details));
    let mut text = format!("{:#}", Value::Object(all));
    text.push('\n');
    text
}
