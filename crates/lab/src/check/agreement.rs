//! How our results and another simulator's agree.
//!
//! Two intervals that overlap prove nothing: few runs have wide ones. Judged is the ratio of the two
//! numbers: they are the same when its whole interval lies within what the scenario calls the same
//! (5 %, or its `reference_within`), and differ when all of it lies outside. Means are compared;
//! medians where the reference's own mean and median lie more than 5 % apart, since there few runs
//! decide the mean.

use super::CONFIDENCE;
use crate::bootstrap::{Shape, bootstrap};
use crate::reference::Reference;
use crate::runner::{self, Results, RunError, Runner};
use crate::scenario::Scenario;
use crate::stats::{self, Estimate};

/// Where the reference's mean and median lie further apart, medians are compared.
const TAILED: f64 = 0.05;

/// What a ratio says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likeness {
    /// Its interval lies within what is called the same.
    Same,
    /// All of it lies outside.
    Different,
    /// The runs do not decide it.
    Undecided,
}

/// One number beside ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Theirs.
    pub reference: Reference,
    /// Whether medians were compared.
    pub medians: bool,
    /// Ours divided by theirs.
    pub ratio: Estimate,
    /// What it says.
    pub likeness: Likeness,
}

impl Comparison {
    /// How far ours is off, in percent of theirs.
    pub fn deviation(&self) -> f64 {
        100.0 * (self.ratio.value - 1.0)
    }
}

/// All numbers that both have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Agreement {
    /// In the order of the reference.
    pub comparisons: Vec<Comparison>,
}

impl Agreement {
    /// How many of the ratios say this.
    pub fn count(&self, likeness: Likeness) -> usize {
        self.comparisons.iter().filter(|one| one.likeness == likeness).count()
    }

    /// How many of ours are off by at most so many percent.
    pub fn within(&self, percent: f64) -> usize {
        self.comparisons.iter().filter(|one| one.deviation().abs() <= percent).count()
    }

    /// The mean deviation in percent, with its sign.
    pub fn mean_deviation(&self) -> Option<f64> {
        stats::mean(&self.comparisons.iter().map(Comparison::deviation).collect::<Vec<_>>())
    }

    /// The one that is farthest off.
    pub fn largest(&self) -> Option<&Comparison> {
        let size = |one: &&Comparison| one.deviation().abs();
        self.comparisons.iter().max_by(|a, b| size(a).total_cmp(&size(b)))
    }
}

/// Runs the points for which there are reference numbers, and compares.
///
/// # Errors
/// Runs that cannot be carried out.
pub fn compare(
    runner: &Runner<'_>,
    scenario: &Scenario,
    results: &mut Results,
    references: &[Reference],
    seeds: Option<usize>,
) -> Result<Agreement, RunError> {
    let mut points: Vec<usize> = references.iter().map(|reference| reference.point).collect();
    points.sort_unstable();
    points.dedup();
    let seeds = seeds.unwrap_or(scenario.replications.seeds);
    let wanted: Vec<_> = points.into_iter().map(|point| (point, seeds)).collect();
    runner.ensure(scenario, results, &wanted)?;
    Ok(agreement(scenario, results, references))
}

/// Compares what there is.
pub fn agreement(scenario: &Scenario, results: &Results, references: &[Reference]) -> Agreement {
    let within = scenario.reference_within;
    let comparisons = references.iter().filter_map(|reference| {
        let runs = results.points.get(reference.point).into_iter().flatten();
        let ours: Vec<f64> = runs.filter_map(|run| run.at(reference.metric)).collect();
        let medians = !reference.values.is_empty()
            && reference.median.is_some_and(|median| {
                (reference.estimate.value - median).abs() > TAILED * median.abs()
            });
        let ratio = match medians {
            true => ratio_of_medians(&ours, reference, &scenario.id)?,
            false => ratio_of_means(&ours, &reference.estimate)?,
        };
        let likeness = if ratio.low() >= 1.0 - within && ratio.high() <= 1.0 + within {
            Likeness::Same
        } else if ratio.high() < 1.0 - within || ratio.low() > 1.0 + within {
            Likeness::Different
        } else {
            Likeness::Undecided
        };
        Some(Comparison { reference: reference.clone(), medians, ratio, likeness })
    });
    Agreement { comparisons: comparisons.collect() }
}

/// Both are independent: their relative errors add up as squares do.
fn ratio_of_means(ours: &[f64], theirs: &Estimate) -> Option<Estimate> {
    let ours = stats::mean_estimate(ours, CONFIDENCE)?;
    if ours.value == 0.0 || theirs.value == 0.0 {
        return None;
    }
    let ratio = ours.value / theirs.value;
    let relative = |estimate: &Estimate| estimate.half().map(|half| half / estimate.value);
    // A single run of theirs is one of a scenario without anything random.
    let half = relative(&ours).map(|a| ratio.abs() * a.hypot(relative(theirs).unwrap_or(0.0)));
    Some(Estimate::around(ratio, half, ours.n))
}

fn ratio_of_medians(ours: &[f64], theirs: &Reference, id: &str) -> Option<Estimate> {
    let median = |values: &[f64], drawn: Option<&[usize]>| match drawn {
        None => stats::quantile(values, 0.5),
        Some(drawn) => {
            let chosen = drawn.iter().filter_map(|at| values.get(*at).copied());
            stats::quantile(&chosen.collect::<Vec<_>>(), 0.5)
        }
    };
    let seed = runner::seed(id, "agreement", theirs.point);
    let half = |values: &[f64], stream: u64| {
        let found = bootstrap(
            Shape::Quantile,
            values.len(),
            values.len(),
            CONFIDENCE,
            seed ^ stream,
            |drawn| median(values, drawn).ok_or(()),
        );
        found.ok()
    };
    let (our, their) = (half(ours, 0)?, half(&theirs.values, 1)?);
    if their.value == 0.0 || our.value == 0.0 {
        return None;
    }
    let ratio = our.value / their.value;
    let down = |e: &Estimate| (e.value - e.low()) / e.value;
    let up = |e: &Estimate| (e.high() - e.value) / e.value;
    // Ours being high and theirs low make a high ratio.
    let low = ratio * (1.0 - down(&our).hypot(up(&their)));
    let high = ratio * (1.0 + up(&our).hypot(down(&their)));
    let interval = (low.is_finite() && high.is_finite()).then_some([low, high]);
    Some(Estimate { value: ratio, interval, n: our.n })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::runner::Nobody;
    use crate::runner::tests::Toy;
    use crate::scenario::tests::{read, text};

    fn reference(point: usize, value: f64, half: f64, values: &[f64]) -> Reference {
        let mut reference = Reference::of_mean(point, 0, Estimate::around(value, Some(half), 60));
        reference.median = stats::quantile(values, 0.5);
        reference.values = values.to_vec();
        reference
    }

    /// The toy's means are 20.5 at point 0 and 30.5 at point 1, spread over a second.
    #[test]
    fn ratios_are_judged_by_their_whole_interval() {
        let scenario = read(&text(), &[]).unwrap();
        let tail: Vec<f64> = (0..40).map(|i| if i < 30 { 30.5 } else { 90.0 }).collect();
        let references = [
            reference(0, 20.4, 0.1, &[20.4]),
            reference(1, 61.0, 0.5, &[61.0]),
            // An interval that overlaps ours and says nothing.
            reference(0, 19.0, 5.0, &[19.0]),
            // A mean that few runs decide.
            reference(1, 45.4, 9.0, &tail),
        ];
        let stop = AtomicBool::new(false);
        let experiment = Toy { fails_at: None };
        let runner = Runner {
            experiment: &experiment,
            jobs: 1,
            stop: &stop,
            observer: &Nobody,
            store: None,
        };
        let mut results = Results::default();
        let agreement = compare(&runner, &scenario, &mut results, &references, Some(20)).unwrap();
        let told: Vec<_> =
            agreement.comparisons.iter().map(|one| (one.likeness, one.medians)).collect();
        let expected = [
            (Likeness::Same, false),
            (Likeness::Different, false),
            (Likeness::Undecided, false),
            (Likeness::Same, true),
        ];
        assert_eq!(told, expected, "{agreement:?}");
        assert_eq!((agreement.count(Likeness::Same), agreement.within(5.0)), (2, 2));
        let largest = agreement.largest().unwrap();
        assert!((largest.deviation() + 50.0).abs() < 2.0 && largest.reference.point == 1);
        assert!(agreement.mean_deviation().unwrap() < 0.0);
    }
}
