//! Whether a claim holds.

use std::fmt;

use serde_json::{Value, json};

use crate::formula::Missing;
use crate::scenario::Claim;
use crate::stats::Estimate;

/// What the runs say of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Our number is within the bounds.
    Holds,
    /// The whole interval of our number is outside of the bounds.
    Differs,
    /// The runs do not decide it: our number is outside, but its interval reaches into the
    /// bounds; or there is no number.
    Open,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Holds => "holds",
            Self::Differs => "differs",
            Self::Open => "open",
        })
    }
}

/// A claim and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The claim.
    pub claim: Claim,
    /// Whether it holds.
    pub verdict: Verdict,
    /// Our number, with its interval at the confidence of the look that decided.
    pub measured: Result<Estimate, Missing>,
    /// Runs of each point that it rests on.
    pub seeds: usize,
}

impl Judgement {
    /// Whether it differs and nobody has said why.
    pub fn is_unexplained(&self) -> bool {
        self.verdict == Verdict::Differs
            && self.claim.reason.as_ref().is_none_or(|reason| reason.trim().is_empty())
    }

    /// The judgement as JSON, for the claim of a scenario.
    pub fn json(&self, scenario: &str, mode: &str) -> Value {
        let claim = &self.claim;
        let measured = self.measured.as_ref().ok();
        json!({
            "id": format!("{scenario}/{}", claim.id),
            "claim": claim.text,
            "expected": claim.bounds.to_string(),
            "unit": claim.unit,
            "measured": measured.map(|estimate| estimate.value),
            "interval": measured.and_then(|e| e.half.map(|_| [e.low(), e.high()])),
            "document": claim.document,
            "reference": claim.reference,
            "verdict": self.verdict.to_string(),
            "reason": claim.reason.as_ref().filter(|_| self.verdict != Verdict::Holds),
            "seeds": self.seeds,
            "mode": mode,
            "source": claim.source,
        })
    }
}

/// The judgement of a look; `None` when it does not decide and is not the last one.
pub(super) fn judge(
    claim: &Claim,
    measured: Result<Estimate, Missing>,
    last: bool,
) -> Option<Judgement> {
    let verdict = match &measured {
        Ok(estimate) => {
            let (low, high) =
                (claim.bounds.contain(estimate.low()), claim.bounds.contain(estimate.high()));
            let outside = claim.bounds.least.is_some_and(|least| estimate.high() < least)
                || claim.bounds.most.is_some_and(|most| estimate.low() > most);
            let inside = claim.bounds.contain(estimate.value);
            match (estimate.half, outside, low && high, last) {
                (Some(_), true, _, _) => Some(Verdict::Differs),
                (Some(_), _, true, _) => Some(Verdict::Holds),
                // One run, or runs that say nothing of their spread: the number itself counts.
                (_, _, _, true) if inside => Some(Verdict::Holds),
                (None, _, _, true) => Some(Verdict::Differs),
                (Some(_), _, _, true) => Some(Verdict::Open),
                (_, _, _, false) => None,
            }
        }
        // A metric that few runs have may still come.
        Err(_) => last.then_some(Verdict::Open),
    }?;
    let seeds = measured.as_ref().map_or(0, |estimate| estimate.n);
    Some(Judgement { claim: claim.clone(), verdict, measured, seeds })
}
