//! The null test: which claims hold even though nothing makes a difference.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::{CONFIDENCE, Judgement, Verdict, check_at, points};
use crate::metrics::Metrics;
use crate::runner::{Experiment, Results, RunError, Runner};
use crate::scenario::{Point, Scenario};

/// A claim of the null test that reads merged variants.
#[derive(Clone, Debug, PartialEq)]
pub struct Survivor {
    /// Its result.
    pub judgement: Judgement,
    /// Whether the scenario states that it still holds.
    pub expected: bool,
}

impl Survivor {
    /// Whether it holds even though nothing makes a difference.
    pub fn holds(&self) -> bool {
        matches!(self.judgement.verdict, Verdict::Holds | Verdict::Fitted)
    }

    /// Whether it holds and should not, or is listed as holding and differs.
    pub fn is_wrong(&self) -> bool {
        match self.judgement.verdict {
            Verdict::Holds | Verdict::Fitted => !self.expected,
            Verdict::Differs | Verdict::Refuted => self.expected,
            Verdict::Open => false,
        }
    }
}

/// Runs of the same experiment with the same seed are equal, and in a null test most runs are. Each
/// is executed only once.
struct Once<'a> {
    experiment: &'a dyn Experiment,
    done: Mutex<HashMap<(usize, u64), Metrics>>,
}

impl Experiment for Once<'_> {
    fn run(&self, point: &Point, seed: u64) -> Result<Metrics, String> {
        let key = (Arc::as_ptr(&point.setup) as usize, seed);
        let lock = || self.done.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&key) {
            return Ok(known.clone());
        }
        let metrics = self.experiment.run(point, seed)?;
        lock().insert(key, metrics.clone());
        Ok(metrics)
    }
}

/// How often an unexpected result is tested again, each time with four times as many runs.
const RETESTS: usize = 2;
/// Confidence of these tests: one claim in a hundred that are tested again holds by chance.
const RETEST_CONFIDENCE: f64 = 0.99;

/// Tests the claims of a scenario against runs without a difference between its variants, with
/// `seeds` runs of each point. Claims that do not compare the merged variants are left out.
///
/// With few runs, some of many claims hold by chance. Unexpected results are tested again with up
/// to sixteen times as many runs at a confidence of 99 %.
///
/// # Errors
/// Fails if a run fails.
pub fn null(
    runner: &Runner<'_>,
    scenario: &Scenario,
    seeds: usize,
) -> Result<Vec<Survivor>, RunError> {
    let (mut nulled, changed) = scenario.nulled();
    nulled.claims.retain(|claim| {
        let is_changed = |point: &usize| changed.get(*point) == Some(&true);
        claim.formula.tells_apart(&scenario.null.axes)
            && points(scenario, claim).iter().any(is_changed)
    });
    let once = Once { experiment: runner.experiment, done: Mutex::default() };
    // Results on disk belong to the original scenario.
    let runner = Runner { experiment: &once, store: None, ..*runner };
    let mut survivors: Vec<Survivor> = Vec::new();
    for test in 0..=RETESTS as u32 {
        let (runs, confidence) = match test {
            0 => (seeds, CONFIDENCE),
            _ => (seeds.saturating_mul(4_usize.pow(test)), RETEST_CONFIDENCE),
        };
        for judgement in check_at(&runner, &nulled, &mut Results::default(), &[runs], confidence)? {
            let expected = scenario.null.survive.contains(&judgement.claim.id);
            let known = survivors.iter().position(|s| s.judgement.claim.id == judgement.claim.id);
            let survivor = Survivor { judgement, expected };
            match known {
                Some(known) => survivors[known] = survivor,
                None => survivors.push(survivor),
            }
        }
        let is_wrong =
            |id: &str| survivors.iter().any(|s| s.judgement.claim.id == id && s.is_wrong());
        nulled.claims.retain(|claim| is_wrong(&claim.id));
        if nulled.claims.is_empty() {
            break;
        }
    }
    Ok(survivors)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;
    use crate::runner::Nobody;
    use crate::scenario::tests::{read, text};

    /// The transfer time is determined by the policy and the seed.
    struct Counted(AtomicUsize);

    impl Experiment for Counted {
        fn run(&self, point: &Point, seed: u64) -> Result<Metrics, String> {
            self.0.fetch_add(1, Ordering::Relaxed);
            let slow = point.setup.sender.paths.retransmission
                == anabranch_proto::RetransmissionPolicy::AllRtxAlt;
            let time = if slow { 30.0 } else { 20.0 } + (seed % 100) as f64 / 100.0;
            Ok(Metrics::default().with("transfer_time_s", time))
        }
    }

    /// Much longer in the first runs than later.
    struct Outlier(AtomicUsize);

    impl Experiment for Outlier {
        fn run(&self, _: &Point, _: u64) -> Result<Metrics, String> {
            let run = self.0.fetch_add(1, Ordering::Relaxed);
            let time = if run >= 4 { 10.0 } else { 89.0 + (run % 2) as f64 };
            Ok(Metrics::default().with("transfer_time_s", time))
        }
    }

    fn claim(id: &str, kind: &str, formula: &str, bounds: &str) -> String {
        format!(
            "[[claim]]\nid = '{id}'\nkind = '{kind}'\ntext = 't'\nsource = 's'\n\
             formula = '{formula}'\n{bounds}\n"
        )
    }

    #[test]
    fn what_holds_by_chance_does_not_with_more_runs() {
        let sum = "transfer_time_s[loss=1 %, policy=Alt] + transfer_time_s[loss=1 %, policy=Same]";
        let text = format!("{}{}", text(), claim("chance", "value", sum, "at_least = 160"));
        let scenario = read(&text, &[]).unwrap();
        let stop = AtomicBool::new(false);
        let outlier = Outlier(AtomicUsize::new(0));
        let runner =
            Runner { experiment: &outlier, jobs: 1, stop: &stop, observer: &Nobody, store: None };
        let survivors = null(&runner, &scenario, 4).unwrap();
        assert_eq!(survivors.len(), 1);
        assert_eq!(survivors[0].judgement.verdict, Verdict::Differs);
        assert_eq!(survivors[0].judgement.seeds, 16, "and it was tested no more often");
    }

    #[test]
    fn what_holds_without_any_difference_is_named() {
        let difference =
            "transfer_time_s[loss=1 %, policy=Alt] - transfer_time_s[loss=1 %, policy=Same]";
        let text = format!(
            "{}[null]\nsurvive = ['listed', 'gone']\n{}{}{}{}{}{}",
            text(),
            claim("effect", "effect", difference, "at_least = 5\nat_most = 15"),
            claim("listed", "likeness", difference, "at_least = -20\nat_most = 20"),
            claim("toothless", "likeness", difference, "at_least = -20\nat_most = 20"),
            claim("gone", "likeness", difference, "at_least = 5\nat_most = 20"),
            claim("pooled", "order", "transfer_time_s[loss=1 %]", "at_least = 1"),
            claim("untouched", "value", "transfer_time_s[loss=1 %, policy=Same]", "at_least = 1"),
        );
        let scenario = read(&text, &[]).unwrap();
        let counted = Counted(AtomicUsize::new(0));
        let stop = AtomicBool::new(false);
        let runner =
            Runner { experiment: &counted, jobs: 2, stop: &stop, observer: &Nobody, store: None };
        let survivors = null(&runner, &scenario, 4).unwrap();
        let wrong: Vec<_> =
            survivors.iter().map(|s| (s.judgement.claim.id.as_str(), s.is_wrong())).collect();
        assert_eq!(
            wrong,
            [("effect", false), ("listed", false), ("toothless", true), ("gone", true)]
        );
        // Both variants are one experiment now; at most, two threads start the same run
        // simultaneously. Unexpected results were finally tested with 64 seeds.
        assert!((64..=128).contains(&counted.0.load(Ordering::Relaxed)));
        let difference = survivors[0].judgement.measured.as_ref().unwrap();
        assert_eq!((difference.value, difference.half()), (0.0, Some(0.0)));
    }
}
