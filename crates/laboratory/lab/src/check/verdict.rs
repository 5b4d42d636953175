//! Whether a claim holds.

use std::fmt;

use serde_json::{Value, json};

use crate::formula::Missing;
use crate::scenario::Claim;
use crate::stats::Estimate;

/// The runs' result for a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval of our number is within the bounds.
    Holds,
    /// The whole interval of our number is outside of the bounds.
    Differs,
    /// It differs, and the run is right: the original simulator agrees with it, or there is other
    /// evidence. Then the document's number is wrong.
    Refuted,
    /// The runs do not decide it: the interval extends past an end of the bounds, or there is no
    /// number.
    Open,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Holds => "holds",
            Self::Differs => "differs",
            Self::Refuted => "refuted",
            Self::Open => "open",
        })
    }
}

/// A claim and its result.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The claim.
    pub claim: Claim,
    /// Whether it holds.
    pub verdict: Verdict,
    /// Our number, with its interval at the confidence of the deciding look.
    pub measured: Result<Estimate, Missing>,
    /// Number of runs of each point on which it is based.
    pub seeds: usize,
}

impl Judgement {
    /// Whether it differs without an explanation.
    pub fn is_unexplained(&self) -> bool {
        self.verdict == Verdict::Differs
            && self.claim.reason.as_ref().is_none_or(|reason| reason.trim().is_empty())
    }

    /// The reason that the file gives for why it does not hold.
    pub fn reason(&self) -> Option<&str> {
        let claim = &self.claim;
        let told = match self.verdict {
            Verdict::Holds => None,
            Verdict::Refuted => claim.evidence.as_ref().or(claim.reason.as_ref()),
            Verdict::Differs | Verdict::Open => claim.reason.as_ref().or(claim.evidence.as_ref()),
        };
        told.map(|text| text.trim()).filter(|text| !text.is_empty())
    }

    /// Whether the document's number lies in our interval.
    pub fn has_document_within(&self) -> Option<bool> {
        let (number, estimate) = (self.claim.document?, self.measured.as_ref().ok()?);
        Some(estimate.low() <= number && number <= estimate.high())
    }

    /// The judgement as JSON, for the claim of a scenario.
    pub fn json(&self, scenario: &str, mode: &str) -> Value {
        let claim = &self.claim;
        let measured = self.measured.as_ref().ok();
        json!({
            "id": format!("{scenario}/{}", claim.id),
            "kind": claim.kind.to_string(),
            "claim": claim.text,
            "expected": claim.bounds.to_string(),
            "unit": claim.unit,
            "measured": measured.map(|estimate| estimate.value),
            "interval": measured.and_then(|e| e.interval),
            "document": claim.document,
            "reference": claim.reference,
            "verdict": self.verdict.to_string(),
            "document_within": self.has_document_within(),
            "reason": self.reason(),
            "seeds": self.seeds,
            "mode": mode,
            "source": claim.source,
        })
    }
}

/// The judgement after a look; `None` if the look does not decide and is not the last one.
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
            match (estimate.interval, outside, low && high, last) {
                (Some(_), true, _, _) => Some(differs(claim, estimate)),
                (Some(_), _, true, _) => Some(Verdict::Holds),
                // One run does not show its spread, so the number itself counts.
                (None, _, _, true) if inside => Some(Verdict::Holds),
                (None, _, _, true) => Some(differs(claim, estimate)),
                (Some(_), _, _, true) => Some(Verdict::Open),
                (_, _, _, false) => None,
            }
        }
        // Later runs may still measure a metric that only few runs have.
        Err(_) => last.then_some(Verdict::Open),
    }?;
    let seeds = measured.as_ref().map_or(0, |estimate| estimate.n);
    Some(Judgement { claim: claim.clone(), verdict, measured, seeds })
}

/// A number out of bounds refutes the document if the original simulator's number is out of bounds
/// on the same side, or if the file has other evidence that the run is right.
fn differs(claim: &Claim, measured: &Estimate) -> Verdict {
    let is_below = |value: f64| claim.bounds.least.is_some_and(|least| value < least);
    let is_above = |value: f64| claim.bounds.most.is_some_and(|most| value > most);
    let same_side = claim.reference.is_some_and(|theirs| {
        is_below(theirs) && is_below(measured.value) || is_above(theirs) && is_above(measured.value)
    });
    if same_side || claim.evidence.is_some() { Verdict::Refuted } else { Verdict::Differs }
}
