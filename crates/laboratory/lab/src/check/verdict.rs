//! Whether a claim holds.

use std::fmt;

use anabranch_chart::digits;
use serde_json::{Value, json};

use super::Tail;
use crate::formula::Missing;
use crate::metrics::METRICS;
use crate::scenario::{Claim, Scenario};
use crate::stats::Estimate;

/// The runs' result for a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval of our number is within the bounds.
    Holds,
    /// The same, but the set-up was chosen by its result, so this confirms nothing.
    Fitted,
    /// The whole interval of our number is outside of the bounds.
    Differs,
    /// It differs, and the original simulator's whole interval is outside of the bounds on the same
    /// side. Then the document's number is wrong.
    Refuted,
    /// The runs do not decide it: the interval extends past an end of the bounds, or there is no
    /// number.
    Open,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Holds => "holds",
            Self::Fitted => "fitted",
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
    /// The confidence of that look.
    pub confidence: f64,
    /// The interval of the original simulator's number, if it is known.
    pub theirs: Option<[f64; 2]>,
    /// Where few runs decide a mean, if they do.
    pub tail: Option<Tail>,
    /// Number of runs of each point on which it is based.
    pub seeds: usize,
}

impl Judgement {
    /// Whether it differs without an explanation.
    pub fn is_unexplained(&self) -> bool {
        self.verdict == Verdict::Differs
            && self.claim.reason.as_ref().is_none_or(|reason| reason.trim().is_empty())
    }

    /// Sets the interval of the original simulator's number. A claim that differs refutes the document if
    /// this whole interval is out of bounds, too, on the same side, unless the bounds are ours, or the
    /// document's set-up is unknown or was fitted.
    pub(super) fn compare(&mut self, theirs: Option<[f64; 2]>) {
        self.theirs = theirs;
        let claim = &self.claim;
        let can_refute = !claim.ours && !claim.setup_unknown && claim.fitted.is_none();
        let ours = self.measured.as_ref().ok().and_then(|estimate| estimate.interval);
        let side = |interval: Option<[f64; 2]>| interval.and_then(|all| is_outside(claim, all));
        let is_same_side = side(theirs).is_some() && side(theirs) == side(ours);
        if self.verdict == Verdict::Differs && can_refute && is_same_side {
            self.verdict = Verdict::Refuted;
        }
    }

    /// The reason that the file gives for why it does not hold, or why the set-up is fitted.
    pub fn reason(&self) -> Option<&str> {
        let told = match self.verdict {
            Verdict::Holds => None,
            Verdict::Fitted => self.claim.fitted.as_ref(),
            Verdict::Refuted | Verdict::Differs | Verdict::Open => self.claim.reason.as_ref(),
        };
        told.map(|text| text.trim()).filter(|text| !text.is_empty())
    }

    /// Whether the document's number lies in our interval.
    pub fn has_document_within(&self) -> Option<bool> {
        let (number, estimate) = (self.claim.document?, self.measured.as_ref().ok()?);
        Some(estimate.low() <= number && number <= estimate.high())
    }

    /// The original simulator's number, with its interval if that is known.
    pub fn reference(&self) -> String {
        let number = self.claim.reference.map_or(String::new(), |number| number.to_string());
        match self.theirs {
            Some([low, high]) => {
                let digits = digits(self.claim.reference.unwrap_or(low));
                format!("{number} ({low:.digits$} to {high:.digits$})")
            }
            None => number,
        }
    }

    /// Where few runs decide a mean, as a sentence.
    pub fn warning(&self, scenario: &Scenario) -> Option<String> {
        let tail = self.tail.as_ref()?;
        let point = scenario.points.get(tail.point).map_or("", |point| point.key.as_str());
        let metric = METRICS.get(tail.metric).map_or("", |metric| metric.name.as_str());
        let [mean, median] = [tail.mean, tail.median].map(|value| {
            let digits = digits(value);
            format!("{value:.digits$}")
        });
        Some(format!(
            "few runs decide a mean: {metric} at {point} has the mean {mean} and the median {median}"
        ))
    }

    /// The judgement as JSON, for the claim of a scenario.
    pub fn json(&self, scenario: &Scenario, mode: &str) -> Value {
        let claim = &self.claim;
        let measured = self.measured.as_ref().ok();
        let tail = self.tail.as_ref().map(|tail| {
            let point = scenario.points.get(tail.point).map(|point| point.key.as_str());
            let metric = METRICS.get(tail.metric).map(|metric| metric.name.as_str());
            json!({ "point": point, "metric": metric, "mean": tail.mean, "median": tail.median })
        });
        json!({
            "id": format!("{}/{}", scenario.id, claim.id),
            "kind": claim.kind.to_string(),
            "claim": claim.text,
            "expected": claim.bounds.to_string(),
            "unit": claim.unit,
            "measured": measured.map(|estimate| estimate.value),
            "interval": measured.and_then(|e| e.interval),
            "confidence": self.confidence,
            "mean_and_median": tail,
            "document": claim.document,
            "reference": claim.reference,
            "reference_interval": self.theirs,
            "fitted": claim.fitted.is_some(),
            "verdict": self.verdict.to_string(),
            "document_within": self.has_document_within(),
            "reason": self.reason(),
            "seeds": self.seeds,
            "mode": mode,
            "source": claim.source,
        })
    }
}

/// The judgement after a look at this confidence; `None` if the look does not decide and is not the
/// last one.
pub(super) fn judge(
    claim: &Claim,
    measured: Result<Estimate, Missing>,
    confidence: f64,
    last: bool,
) -> Option<Judgement> {
    let holds = match claim.fitted {
        Some(_) => Verdict::Fitted,
        None => Verdict::Holds,
    };
    let verdict = match &measured {
        Ok(estimate) => {
            let (low, high) =
                (claim.bounds.contain(estimate.low()), claim.bounds.contain(estimate.high()));
            let outside = is_outside(claim, [estimate.low(), estimate.high()]).is_some();
            let inside = claim.bounds.contain(estimate.value);
            match (estimate.interval, outside, low && high, last) {
                (Some(_), true, _, _) => Some(Verdict::Differs),
                (Some(_), _, true, _) => Some(holds),
                // One run does not show its spread, so the number itself counts.
                (None, _, _, true) if inside => Some(holds),
                (None, _, _, true) => Some(Verdict::Differs),
                (Some(_), _, _, true) => Some(Verdict::Open),
                (_, _, _, false) => None,
            }
        }
        // Later runs may still measure a metric that only few runs have.
        Err(_) => last.then_some(Verdict::Open),
    }?;
    let seeds = measured.as_ref().map_or(0, |estimate| estimate.n);
    let claim = claim.clone();
    Some(Judgement { claim, verdict, measured, confidence, theirs: None, tail: None, seeds })
}

/// A side of the bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Below,
    Above,
}

/// The side on which a whole interval is outside of the bounds.
fn is_outside(claim: &Claim, [low, high]: [f64; 2]) -> Option<Side> {
    let below = claim.bounds.least.is_some_and(|least| high < least);
    let above = claim.bounds.most.is_some_and(|most| low > most);
    match (below, above) {
        (true, _) => Some(Side::Below),
        (_, true) => Some(Side::Above),
        _ => None,
    }
}
