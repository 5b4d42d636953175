//! The null test: which claims hold although nothing makes a difference.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Judgement, Mode, Verdict, check, points};
use crate::metrics::Metrics;
use crate::runner::{Experiment, Results, RunError, Runner};
use crate::scenario::{Point, Scenario};

/// A claim of the null test that reads what was made the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Survivor {
    /// What became of it.
    pub judgement: Judgement,
    /// Whether the scenario says that it holds all the same.
    pub expected: bool,
}

impl Survivor {
    /// Whether it holds and should not, or is listed and is wrong.
    pub fn is_wrong(&self) -> bool {
        match self.judgement.verdict {
            Verdict::Holds => !self.expected,
            Verdict::Differs | Verdict::Refuted => self.expected,
            Verdict::Open => false,
        }
    }
}

/// Runs of the same experiment with the same seed are the same, and most are when nothing makes a
/// difference: each is carried out once.
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

/// Holds the claims of a scenario against runs in which nothing tells its variants apart, `seeds` of
/// each point. Claims that do not tell apart what was made the same say nothing, and are left out.
///
/// # Errors
/// Runs that cannot be carried out.
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
    // What is kept on disk are results of the scenario as it is.
    let runner = Runner { experiment: &once, store: None, ..*runner };
    let judged = check(&runner, &nulled, &mut Results::default(), Mode::Fixed(seeds))?;
    let survivor = |judgement: Judgement| Survivor {
        expected: scenario.null.survive.contains(&judgement.claim.id),
        judgement,
    };
    Ok(judged.into_iter().map(survivor).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;
    use crate::runner::Nobody;
    use crate::scenario::tests::{read, text};

    /// A transfer time that follows from the policy and the seed.
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

    #[test]
    fn what_holds_without_any_difference_is_named() {
        let claim = |id: &str, kind: &str, formula: &str, bounds: &str| {
            format!(
                "[[claim]]\nid = '{id}'\nkind = '{kind}'\ntext = 't'\nsource = 's'\n\
                 formula = '{formula}'\n{bounds}\n"
            )
        };
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
        // Both variants are one experiment now: at most two threads that begin it together.
        assert!(counted.0.load(Ordering::Relaxed) <= 8);
        let difference = survivors[0].judgement.measured.as_ref().unwrap();
        assert_eq!((difference.value, difference.half()), (0.0, Some(0.0)));
    }
}
