//! Which runs are still needed. A plan gives out units of work and takes their results in any order.
//!
//! The result of a plan does not depend on who carries out the units, how many at a time, or in which order: each
//! run has its number and its seed, and whether a point needs more runs follows from its first runs only.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ops::Range;

use super::RunError;
use super::shard::Shard;
use crate::metrics::{self, Metrics};
use crate::scenario::{Replications, Scenario};
use crate::stats;

/// Runs by their numbers; some may be missing.
pub type Runs = BTreeMap<usize, Metrics>;

/// A unit of work: runs of one point with consecutive numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Unit {
    /// Index of the point in the scenario.
    pub point: usize,
    /// Numbers of the runs, from 0; at least one.
    pub runs: Range<usize>,
}

/// How many runs each point gets.
#[derive(Clone, Debug)]
pub struct Goal {
    /// Runs of each point, before its precision is looked at.
    counts: Vec<usize>,
    /// When a point gets more than that.
    precision: Option<Precision>,
}

/// A point that is not precise gets half as many runs again.
#[derive(Clone, Copy, Debug)]
struct Precision {
    metric: usize,
    /// The largest half width of the interval, as a share of the mean.
    share: f64,
    confidence: f64,
    /// Most runs of a point.
    most: usize,
}

impl Goal {
    /// What the scenario requires, or `seeds` runs of each point.
    pub fn of(scenario: &Scenario, seeds: Option<usize>) -> Self {
        let Replications { precision, min_seeds, confidence, .. } = scenario.replications;
        let most = scenario.replications.seeds;
        match (precision, seeds) {
            (Some(share), None) => {
                let metric = metrics::find(&scenario.figure.y).unwrap_or(0);
                let precision = Some(Precision { metric, share, confidence, most });
                Self { counts: vec![min_seeds; scenario.points.len()], precision }
            }
            _ => {
                Self { counts: vec![seeds.unwrap_or(most); scenario.points.len()], precision: None }
            }
        }
    }

    /// This many runs of these points (index and count), and none of the others.
    pub fn counts(scenario: &Scenario, wanted: &[(usize, usize)]) -> Self {
        let mut counts = vec![0; scenario.points.len()];
        for (point, count) in wanted {
            if let Some(slot) = counts.get_mut(*point) {
                *slot = (*slot).max(*count);
            }
        }
        Self { counts, precision: None }
    }
}

/// A result that does not belong to the plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Nobody asked for it.
    #[error("runs {from} to {last} of point {point} are not in the plan")]
    Unknown {
        /// Index of the point.
        point: usize,
        /// Number of the first run.
        from: usize,
        /// Number of the last run.
        last: usize,
    },
    /// A unit has more or fewer runs.
    #[error("{given} runs instead of {wanted}")]
    Count {
        /// How many there are.
        given: usize,
        /// How many there should be.
        wanted: usize,
    },
    /// There is another result of the same run.
    #[error("run {number} of point {point} has two results, which differ")]
    Contradiction {
        /// Index of the point.
        point: usize,
        /// Number of the run.
        number: usize,
    },
}

/// What a result changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// The point needs nothing more from this plan.
    pub is_done: bool,
    /// Runs that are needed in addition to all earlier ones, because the point is not precise.
    pub more: usize,
}

/// The runs that a scenario still needs.
#[derive(Clone, Debug)]
pub struct Plan {
    points: Vec<OfPoint>,
    goal: Goal,
    shard: Shard,
    /// Most runs of a unit.
    size: usize,
    waiting: VecDeque<Unit>,
    given: HashSet<Unit>,
    missing: usize,
}

#[derive(Clone, Debug, Default)]
struct OfPoint {
    runs: Runs,
    /// Runs below this number are there, waiting, given out, or another shard's.
    planned: usize,
    target: usize,
    /// Runs that are waiting or given out.
    missing: usize,
    /// Place of its first run among those of all points.
    offset: usize,
}

impl Plan {
    /// A plan with the runs that are there already, units of at most `size` runs, and only the part of one shard.
    pub fn new(goal: Goal, kept: Vec<Runs>, size: usize, shard: Shard) -> Self {
        let mut kept = kept.into_iter();
        let mut offset = 0;
        let points = goal.counts.iter().map(|count| {
            let point =
                OfPoint { runs: kept.next().unwrap_or_default(), offset, ..OfPoint::default() };
            offset += count;
            OfPoint { target: *count, ..point }
        });
        let points: Vec<_> = points.collect();
        let size = size.max(1);
        let (waiting, given) = (VecDeque::new(), HashSet::new());
        let mut plan = Self { points, goal, shard, size, waiting, given, missing: 0 };
        for point in 0..plan.points.len() {
            plan.advance(point);
        }
        plan
    }

    /// The next unit to carry out. There is none while all that is needed is given out, although results may show
    /// that more is needed.
    pub fn next_unit(&mut self) -> Option<Unit> {
        let unit = self.waiting.pop_front()?;
        self.given.insert(unit.clone());
        Some(unit)
    }

    /// Takes back a unit that was not carried out, to give it to somebody else.
    pub fn give_back(&mut self, unit: Unit) {
        if self.given.remove(&unit) {
            self.waiting.push_front(unit);
        }
    }

    /// Whether the unit is given out, so that its result is expected.
    pub fn expects(&self, unit: &Unit) -> bool {
        self.given.contains(unit)
    }

    /// Takes the results of a unit. The same results twice change nothing.
    ///
    /// # Errors
    /// Fails if they are not expected. The plan is unchanged then.
    pub fn take(&mut self, unit: &Unit, results: Vec<Metrics>) -> Result<Taken, PlanError> {
        let (index, Range { start, end }) = (unit.point, unit.runs.clone());
        let unknown = PlanError::Unknown {
            point: index,
            from: start,
            last: end.saturating_sub(1).max(start),
        };
        let Some(point) = self.points.get_mut(index) else { return Err(unknown) };
        let wanted = end.saturating_sub(start);
        if results.len() != wanted {
            return Err(PlanError::Count { given: results.len(), wanted });
        }
        if !self.given.contains(unit) {
            for (number, run) in (start..end).zip(&results) {
                match point.runs.get(&number) {
                    None => return Err(unknown),
                    Some(there) if there == run => {}
                    Some(_) => return Err(PlanError::Contradiction { point: index, number }),
                }
            }
            return Ok(Taken::default());
        }
        self.given.remove(unit);
        point.runs.extend((start..end).zip(results));
        point.missing -= wanted;
        self.missing -= wanted;
        let more = self.advance(index);
        Ok(Taken { is_done: self.points.get(index).is_some_and(|p| p.missing == 0), more })
    }

    /// Whether nothing is missing.
    pub fn is_complete(&self) -> bool {
        self.missing == 0
    }

    /// How many runs are missing, as far as it is known.
    pub fn missing(&self) -> usize {
        self.missing
    }

    /// How many runs a point lacks.
    pub fn missing_of(&self, point: usize) -> usize {
        self.points.get(point).map_or(0, |point| point.missing)
    }

    /// The runs of a point.
    pub fn runs(&self, point: usize) -> Option<&Runs> {
        self.points.get(point).map(|point| &point.runs)
    }

    /// The runs of all points.
    pub fn into_runs(self) -> Vec<Runs> {
        self.points.into_iter().map(|point| point.runs).collect()
    }

    /// Adds what a point needs. Returns how many runs.
    fn advance(&mut self, index: usize) -> usize {
        let precision = self.goal.precision;
        let Some(point) = self.points.get_mut(index) else { return 0 };
        let mut added = 0;
        loop {
            let missing: Vec<usize> = (point.planned..point.target)
                .filter(|number| !point.runs.contains_key(number))
                .filter(|number| match precision {
                    // Only a driver that has all runs of a point knows how many it needs.
                    Some(_) => self.shard.has(index),
                    None => self.shard.has(point.offset + number),
                })
                .collect();
            point.planned = point.planned.max(point.target);
            point.missing += missing.len();
            added += missing.len();
            for runs in ranges(&missing, self.size) {
                self.waiting.push_back(Unit { point: index, runs });
            }
            let Some(precision) = precision else { break };
            let next = (point.target + point.target.div_ceil(2)).min(precision.most);
            let is_there = point.runs.range(..point.target).count() == point.target;
            if !is_there || next <= point.target || precision.is_met(&point.runs, point.target) {
                break;
            }
            point.target = next;
        }
        self.missing += added;
        added
    }
}

impl Precision {
    /// Whether the first runs are precise.
    fn is_met(&self, runs: &Runs, first: usize) -> bool {
        let values: Vec<f64> =
            runs.range(..first).filter_map(|(_, run)| run.at(self.metric)).collect();
        stats::mean_estimate(&values, self.confidence)
            .is_some_and(|e| e.half().is_some_and(|half| half <= self.share * e.value.abs()))
    }
}

/// Ranges of consecutive numbers in an ascending list, of at most `size` numbers each.
pub(super) fn ranges(numbers: &[usize], size: usize) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some(last) if last.end == *number && last.len() < size => last.end += 1,
            _ => ranges.push(*number..number + 1),
        }
    }
    ranges
}

impl From<PlanError> for RunError {
    fn from(error: PlanError) -> Self {
        Self::Worker(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::tests::Toy;
    use crate::runner::{Experiment as _, seed};
    use crate::scenario::tests::{read, text};

    fn carry_out(scenario: &Scenario, unit: &Unit) -> Vec<Metrics> {
        let point = &scenario.points[unit.point];
        let run = |n| Toy { fails_at: None }.run(point, seed(&scenario.id, &point.seed_key, n));
        unit.runs.clone().map(|number| run(number).unwrap()).collect()
    }

    fn precise() -> Scenario {
        read(&text().replace("seeds = 10", "seeds = 40\nprecision = \"1 %\""), &[]).unwrap()
    }

    /// Carries out the units that are open at any time in an order that `pick` decides.
    fn finish(
        scenario: &Scenario,
        mut plan: Plan,
        mut pick: impl FnMut(usize) -> usize,
    ) -> Vec<Runs> {
        let mut open: Vec<Unit> = Vec::new();
        loop {
            open.extend(std::iter::from_fn(|| plan.next_unit()));
            if open.is_empty() {
                assert!(plan.is_complete());
                return plan.into_runs();
            }
            let unit = open.swap_remove(pick(open.len()) % open.len());
            plan.take(&unit, carry_out(scenario, &unit)).unwrap();
        }
    }

    #[test]
    fn neither_order_nor_size_of_units_changes_a_result() {
        for scenario in [read(&text(), &[]).unwrap(), precise()] {
            let plan =
                |size| Plan::new(Goal::of(&scenario, None), Vec::new(), size, Shard::default());
            let first = finish(&scenario, plan(1), |_| 0);
            let mut rng = anabranch_impair::Rng::new(47);
            for size in [1, 3, 1000] {
                let runs = finish(&scenario, plan(size), |open| rng.below(open as u64) as usize);
                assert_eq!(runs, first);
            }
            assert_eq!(finish(&scenario, plan(2), |open| open - 1), first);
        }
    }

    #[test]
    fn shards_are_disjoint_and_together_everything() {
        for scenario in [read(&text(), &[]).unwrap(), precise()] {
            let goal = || Goal::of(&scenario, None);
            let whole =
                finish(&scenario, Plan::new(goal(), Vec::new(), 4, Shard::default()), |_| 0);
            let mut together = vec![Runs::new(); whole.len()];
            for shard in ["1/3", "2/3", "3/3"] {
                let plan = Plan::new(goal(), Vec::new(), 4, shard.parse().unwrap());
                for (all, runs) in together.iter_mut().zip(finish(&scenario, plan, |_| 0)) {
                    assert!(runs.keys().all(|number| !all.contains_key(number)));
                    all.extend(runs);
                }
            }
            assert_eq!(together, whole);
        }
    }

    #[test]
    fn only_what_is_missing_is_given_out() {
        let scenario = read(&text(), &[]).unwrap();
        let run = Metrics::default;
        let kept = vec![Runs::from([(0, run()), (1, run()), (4, run()), (12, run())])];
        let mut plan = Plan::new(Goal::counts(&scenario, &[(0, 7)]), kept, 2, Shard::default());
        let units: Vec<_> = std::iter::from_fn(|| plan.next_unit()).collect();
        let numbers: Vec<_> = units.iter().map(|unit| unit.runs.clone()).collect();
        assert_eq!(numbers, [2..4, 5..7]);
        assert_eq!((plan.missing(), plan.missing_of(0), plan.missing_of(1)), (4, 4, 0));
        plan.give_back(units[1].clone());
        assert!(!plan.expects(&units[1]));
        assert_eq!(plan.next_unit().as_ref(), Some(&units[1]));
    }

    #[test]
    fn what_nobody_asked_for_is_refused() {
        let scenario = read(&text(), &[]).unwrap();
        let mut plan =
            Plan::new(Goal::counts(&scenario, &[(0, 4)]), Vec::new(), 2, Shard::default());
        let unit = plan.next_unit().unwrap();
        let right = carry_out(&scenario, &unit);
        let other = Unit { point: 0, runs: 2..4 };
        assert!(matches!(plan.take(&other, right.clone()), Err(PlanError::Unknown { .. })));
        let nowhere = Unit { point: 9, runs: 0..2 };
        assert!(matches!(plan.take(&nowhere, right.clone()), Err(PlanError::Unknown { .. })));
        let short = plan.take(&unit, right[..1].to_vec());
        assert_eq!(short, Err(PlanError::Count { given: 1, wanted: 2 }));
        assert_eq!(plan.missing(), 4);
        assert_eq!(plan.take(&unit, right.clone()), Ok(Taken::default()));
        // A worker that was taken for dead answers after all.
        assert_eq!(plan.take(&unit, right.clone()), Ok(Taken::default()));
        let wrong: Vec<_> = right.into_iter().rev().collect();
        let contradiction = Err(PlanError::Contradiction { point: 0, number: 0 });
        assert_eq!(plan.take(&unit, wrong), contradiction);
        assert_eq!(plan.missing(), 2);
    }
}
