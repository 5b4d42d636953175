//! What is printed and what is written as JSON.

use serde_json::{Map, Value, json};

use crate::figures::{Figure, Sample, Target};

/// Median, smallest and largest.
fn spread(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    let last = values.len().saturating_sub(1);
    (f64::midpoint(at(last / 2), at(values.len() / 2)), at(0), at(last))
}

fn median(samples: &[Sample]) -> f64 {
    spread(samples.iter().map(|sample| sample.value).collect()).0
}

/// The medians of what else the samples tell.
fn notes(samples: &[Sample]) -> Vec<(&'static str, f64)> {
    let names = samples.first().map(|first| first.notes.as_slice()).unwrap_or_default();
    let of = |index: usize| {
        spread(samples.iter().filter_map(|s| s.notes.get(index)).map(|note| note.1).collect()).0
    };
    names.iter().enumerate().map(|(index, (name, _))| (*name, of(index))).collect()
}

/// Prints one figure.
pub(crate) fn print(figure: &Figure, samples: &[Sample]) {
    let (value, min, max) = spread(samples.iter().map(|sample| sample.value).collect());
    let digits = if max < 100.0 { 3 } else { 0 };
    let verdict = if figure.target.is_met(value) { "met" } else { "NOT met" };
    let asked = match figure.target {
        Target::AtLeast(bound) => format!("at least {bound}"),
        Target::AtMost(bound) => format!("at most {bound}"),
    };
    println!("{}: {} [{}]", figure.key, figure.title, figure.unit);
    let notes: String =
        notes(samples).iter().map(|(name, value)| format!("  {name} {value:.3}")).collect();
    println!(
        "  = {value:.digits$} ({min:.digits$} to {max:.digits$}), asked for: {asked}: {verdict}"
    );
    println!(" {notes}");
}

/// All figures: under each key the one number that is asked for, under `details` everything.
pub(crate) fn json(outcomes: &[(&Figure, Vec<Sample>)]) -> String {
    let mut all = Map::new();
    let mut details = Map::new();
    for (figure, samples) in outcomes {
        let value = median(samples);
        all.insert(figure.key.to_owned(), json!(value));
        let target = match figure.target {
            Target::AtLeast(bound) => json!({ "at_least": bound }),
            Target::AtMost(bound) => json!({ "at_most": bound }),
        };
        let values: Vec<f64> = samples.iter().map(|sample| sample.value).collect();
        let notes: Map<String, Value> = notes(samples)
            .into_iter()
            .map(|(name, value)| (name.to_owned(), json!(value)))
            .collect();
        details.insert(
            figure.key.to_owned(),
            json!({
                "title": figure.title,
                "unit": figure.unit,
                "target": target,
                "met": figure.target.is_met(value),
                "values": values,
                "notes": notes,
            }),
        );
    }
    all.insert("details".to_owned(), Value::Object(details));
    let mut text = format!("{:#}", Value::Object(all));
    text.push('\n');
    text
}
