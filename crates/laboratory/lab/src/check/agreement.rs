//! Compares our results with another simulator's.
//!
//! Two overlapping intervals prove nothing, because few runs have wide ones. Instead the ratio of the two numbers is
//! evaluated. They are the same if its whole interval is within the scenario's tolerance (5 %, or its
//! `reference_within`), and differ if the whole interval is outside. Means are compared, but medians if the reference's
//! own mean and median differ by more than 5 %, since few runs then decide the mean.

use super::{CONFIDENCE, TAILED};
use crate::bootstrap::{Shape, bootstrap};
use crate::reference::Reference;
use crate::runner::{self, Driver, Results, RunError};
use crate::scenario::Scenario;
use crate::stats::{self, Estimate};

/// The result for a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likeness {
    /// Its interval is within the tolerance.
    Same,
    /// All of it is outside.
    Different,
    /// The runs do not decide it.
    Undecided,
}

/// A reference number compared with ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Theirs.
    pub reference: Reference,
    /// Whether medians were compared.
    pub medians: bool,
    /// Ours divided by theirs.
    pub ratio: Estimate,
    /// The result.
    pub likeness: Likeness,
}

impl Comparison {
    /// The deviation of ours in percent of theirs.
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
    /// How many of the ratios have this result.
    pub fn count(&self, likeness: Likeness) -> usize {
        self.comparisons.iter().filter(|one| one.likeness == likeness).count()
    }

    /// How many of ours are off by at most this many percent.
    pub fn within(&self, percent: f64) -> usize {
        self.comparisons.iter().filter(|one| one.deviation().abs() <= percent).count()
    }

    /// The mean deviation in percent, with its sign.
    pub fn mean_deviation(&self) -> Option<f64> {
        stats::mean(&self.comparisons.iter().map(Comparison::deviation).collect::<Vec<_>>())
    }

    /// The comparison with the largest deviation.
    pub fn largest(&self) -> Option<&Comparison> {
        let size = |one: &&Comparison| one.deviation().abs();
        self.comparisons.iter().max_by(|a, b| size(a).total_cmp(&size(b)))
    }
}

/// Runs the points that have reference numbers, and compares: each as often as the scenario specifies, and undecided
/// ones up to its budget. The confidence is for all looks together.
///
/// # Errors
/// Fails if a run fails.
pub fn compare(
    driver: &dyn Driver,
    scenario: &Scenario,
    results: &mut Results,
    references: &[Reference],
    seeds: Option<usize>,
) -> Result<Agreement, RunError> {
    let plan = &scenario.replications;
    let looks = seeds.map_or_else(|| looks(plan.seeds, plan.budget), |seeds| vec![seeds]);
    let mut judged: Vec<Option<Comparison>> = vec![None; references.len()];
    let mut open: Vec<usize> = (0..references.len()).collect();
    for (number, look) in looks.iter().enumerate() {
        let confidence = super::looks::confidence(number, looks.len(), CONFIDENCE);
        let mut points: Vec<usize> =
            open.iter().filter_map(|at| Some(references.get(*at)?.point)).collect();
        points.sort_unstable();
        points.dedup();
        let wanted: Vec<_> = points.into_iter().map(|point| (point, *look)).collect();
        driver.ensure(scenario, results, &wanted)?;
        open.retain(|at| {
            let (Some(reference), Some(slot)) = (references.get(*at), judged.get_mut(*at)) else {
                return false;
            };
            *slot = comparison(scenario, results, reference, *look, confidence);
            slot.as_ref().is_some_and(|one| one.likeness == Likeness::Undecided)
        });
    }
    Ok(Agreement { comparisons: judged.into_iter().flatten().collect() })
}

/// Compares the existing results.
pub fn agreement(scenario: &Scenario, results: &Results, references: &[Reference]) -> Agreement {
    let compared = |one| comparison(scenario, results, one, usize::MAX, CONFIDENCE);
    Agreement { comparisons: references.iter().filter_map(compared).collect() }
}

/// The numbers of runs after which points are evaluated.
fn looks(seeds: usize, budget: usize) -> Vec<usize> {
    let mut looks = vec![seeds];
    let mut next = seeds.saturating_mul(2);
    while next < budget {
        looks.push(next);
        next = next.saturating_mul(2);
    }
    if budget > seeds {
        looks.push(budget);
    }
    looks
}

/// Compares one number with our first runs; `None` if either has no number or it is 0.
fn comparison(
    scenario: &Scenario,
    results: &Results,
    reference: &Reference,
    runs: usize,
    confidence: f64,
) -> Option<Comparison> {
    let within = scenario.reference_within;
    let all = results.points.get(reference.point).into_iter().flatten().take(runs);
    let ours: Vec<f64> = all.filter_map(|run| run.at(reference.metric)).collect();
    let medians = !reference.values.is_empty()
        && reference.median.is_some_and(|median| {
            (reference.estimate.value - median).abs() > TAILED * median.abs()
        });
    let ratio = match medians {
        true => ratio_of_medians(&ours, reference, &scenario.id, confidence)?,
        false => ratio_of_means(&ours, &reference.estimate, confidence)?,
    };
    let likeness = if ratio.low() >= 1.0 - within && ratio.high() <= 1.0 + within {
        Likeness::Same
    } else if ratio.high() < 1.0 - within || ratio.low() > 1.0 + within {
        Likeness::Different
    } else {
        Likeness::Undecided
    };
    Some(Comparison { reference: reference.clone(), medians, ratio, likeness })
}

/// The means are independent, so their relative errors add as squares.
fn ratio_of_means(ours: &[f64], theirs: &Estimate, confidence: f64) -> Option<Estimate> {
    let ours = stats::mean_estimate(ours, confidence)?;
    if ours.value == 0.0 || theirs.value == 0.0 {
        return None;
    }
    let ratio = ours.value / theirs.value;
    let relative = |estimate: &Estimate| estimate.half().map(|half| half / estimate.value);
    // The reference has an interval of 90 %. A single run comes from a scenario without randomness.
    let factor = |confidence| stats::t_factor(confidence, theirs.n.saturating_sub(1).max(1));
    let wider = factor(confidence) / factor(CONFIDENCE);
    let theirs = relative(theirs).map_or(0.0, |half| half * wider);
    let half = relative(&ours).map(|a| ratio.abs() * a.hypot(theirs));
    Some(Estimate::around(ratio, half, ours.n))
}

fn ratio_of_medians(
    ours: &[f64],
    theirs: &Reference,
    id: &str,
    confidence: f64,
) -> Option<Estimate> {
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
            confidence,
            seed ^ stream,
            |drawn| median(values, drawn).ok_or(()),
        );
        found.ok()
    };
    let (our, their) = (half(ours, 0)?, half(&theirs.ended(), 1)?);
    if their.value == 0.0 || our.value == 0.0 {
        return None;
    }
    let ratio = our.value / their.value;
    let down = |e: &Estimate| (e.value - e.low()) / e.value;
    let up = |e: &Estimate| (e.high() - e.value) / e.value;
    // The ratio is high if ours is high and theirs is low.
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
    use crate::runner::Runner;
    use crate::runner::tests::Toy;
    use crate::scenario::tests::{read, text};

    /// The result of a comparison, and the number of runs used.
    fn compared(
        scenario: &Scenario,
        references: &[Reference],
        seeds: Option<usize>,
    ) -> (Agreement, Results) {
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
        let agreement = compare(&runner, scenario, &mut results, references, seeds).unwrap();
        (agreement, results)
    }

    fn reference(point: usize, value: f64, half: f64, values: &[f64]) -> Reference {
        let mut reference = Reference::of_mean(point, 0, Estimate::around(value, Some(half), 60));
        reference.median = stats::quantile(values, 0.5);
        reference.values = values.iter().copied().map(Some).collect();
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
            // An interval that overlaps ours and proves nothing.
            reference(0, 19.0, 5.0, &[19.0]),
            // A mean that few runs decide.
            reference(1, 45.4, 9.0, &tail),
        ];
        let (agreement, _) = compared(&scenario, &references, Some(20));
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

    #[test]
    fn what_is_not_decided_is_run_up_to_the_budget() {
        let text = text().replace("seeds = 10", "seeds = 10\nbudget = 35");
        let scenario = read(&text, &[]).unwrap();
        // One is the same immediately; the other is at the very edge of the tolerance.
        let references = [reference(0, 20.4, 0.1, &[20.4]), reference(1, 29.05, 0.1, &[29.05])];
        let (agreement, results) = compared(&scenario, &references, None);
        let told: Vec<_> = agreement.comparisons.iter().map(|one| one.likeness).collect();
        assert_eq!(told, [Likeness::Same, Likeness::Undecided]);
        let lengths: Vec<_> = results.points.iter().map(Vec::len).collect();
        assert_eq!((lengths[0], lengths[1]), (10, 35));
        assert_eq!(looks(10, 35), [10, 20, 35]);
        assert_eq!(looks(10, 10), [10]);
    }
}
