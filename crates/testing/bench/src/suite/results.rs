//! The results of samples, for people and for programs.

use serde_json::{Map, Value, json};

use super::{Figure, Target};

/// Median, minimum and maximum of some values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle value, or the mean of the two middle ones.
    pub median: f64,
    /// The minimum.
    pub min: f64,
    /// The maximum.
    pub max: f64,
}

impl Spread {
    /// Summarises values; `None` if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let (lower, upper) = (values.get((values.len() - 1) / 2)?, values.get(values.len() / 2)?);
        Some(Self { median: f64::midpoint(*lower, *upper), min, max })
    }
}

/// The medians of the samples' additional values. All samples must have the same additional values
/// in the same order.
pub fn median_notes(notes: &[&[(&'static str, f64)]]) -> Vec<(&'static str, f64)> {
    let names = notes.first().copied().unwrap_or_default();
    let median = |index: usize| {
        let values = notes.iter().filter_map(|notes| notes.get(index)).map(|note| note.1);
        Spread::of(values).map_or(0.0, |spread| spread.median)
    };
    names.iter().enumerate().map(|(index, (name, _))| (*name, median(index))).collect()
}

impl Target {
    /// Whether a value meets the target.
    pub fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
            Self::Aim(aim) => value >= aim,
            Self::None => true,
        }
    }

    /// A value and its verdict.
    pub(super) fn verdict(self, value: f64) -> String {
        let digits = match value.abs() {
            small if small < 10.0 => 3,
            medium if medium < 1000.0 => 2,
            _ => 0,
        };
        let verdict = if self.is_met(value) { "met" } else { "NOT met" };
        match self {
            Self::AtLeast(bound) => {
                format!("{value:.digits$}, asked for: at least {bound}: {verdict}")
            }
            Self::AtMost(bound) => {
                format!("{value:.digits$}, asked for: at most {bound}: {verdict}")
            }
            Self::Aim(bound) => format!("{value:.digits$}, aimed at: {bound}: {verdict}"),
            Self::None => format!("{value:.digits$}"),
        }
    }

    fn json(self) -> Value {
        match self {
            Self::AtLeast(bound) => json!({ "at_least": bound }),
            Self::AtMost(bound) => json!({ "at_most": bound }),
            Self::Aim(bound) => json!({ "aim": bound }),
            Self::None => Value::Null,
        }
    }
}

/// All figures: the main number under each key, and everything else under `details`.
pub(super) fn json<F: Figure>(outcomes: &[(&F, F::Outcome)]) -> String {
    let (mut all, mut details) = (Map::new(), Map::new());
    for (figure, outcome) in outcomes {
        let value = figure.headline(outcome);
        all.insert(figure.key().to_owned(), json!(value));
        let mut own = Map::new();
        own.insert("title".to_owned(), json!(figure.title()));
        own.insert("unit".to_owned(), json!(figure.unit()));
        own.insert("target".to_owned(), figure.target().json());
        own.insert("met".to_owned(), json!(value.map(|value| figure.target().is_met(value))));
        own.extend(figure.details(outcome));
        details.insert(figure.key().to_owned(), Value::Object(own));
    }
    all.insert("details".to_owned(), Value::Object(details));
    let mut text = format!("{:#}", Value::Object(all));
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_verdicts() {
        let spread = |values: &[f64]| Spread::of(values.iter().copied());
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[3.0, 1.0, 9.0]), Some(Spread { median: 3.0, min: 1.0, max: 9.0 }));
        assert_eq!(spread(&[3.0, 1.0]).map(|spread| spread.median), Some(2.0));
        let notes: [&[_]; 2] = [&[("us", 1.0), ("ms", 2.0)], &[("us", 3.0), ("ms", 2.0)]];
        assert_eq!(median_notes(&notes), [("us", 2.0), ("ms", 2.0)]);
        let said = Target::AtMost(3.0).verdict(3.5);
        assert_eq!(said, "3.500, asked for: at most 3: NOT met");
        assert_eq!(
            Target::AtLeast(200_000.0).verdict(2e5),
            "200000, asked for: at least 200000: met"
        );
        assert_eq!(Target::None.verdict(12.0), "12.00");
    }
}
