//! The verdicts of several scenarios, with what they are based on, as one JSON document.

use serde_json::{Value, json};

use super::{Agreement, Judgement, Likeness, Mode, Totals};
use crate::metrics::METRICS;
use crate::provenance::{self, Provenance};
use crate::reference;
use crate::scenario::Scenario;

/// A scenario's verdicts.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The scenario.
    pub scenario: Scenario,
    /// The verdicts of its claims.
    pub judgements: Vec<Judgement>,
    /// How well it agrees with the original simulator, if that was asked for.
    pub agreement: Option<Agreement>,
    /// How many of the claims had their expectation changed after it was first written.
    pub changed: usize,
}

impl Checked {
    /// Names of the claims that differ, where the file does not say why.
    pub fn unexplained(&self) -> Vec<String> {
        let differing = self.judgements.iter().filter(|judgement| judgement.is_unexplained());
        differing.map(|judgement| format!("{}/{}", self.scenario.id, judgement.claim.id)).collect()
    }
}

/// The totals of all claims.
pub fn totals(checked: &[Checked]) -> Totals {
    Totals::of(checked.iter().flat_map(|one| &one.judgements))
}

/// How many bounds were changed after they were first written, as a sentence.
pub fn bounds_changed(checked: &[Checked]) -> Option<String> {
    let count: usize = checked.iter().map(|one| one.changed).sum();
    let claims = if count == 1 { "claim" } else { "claims" };
    (count > 0).then(|| {
        format!(
            "The bounds of {count} {claims} were changed after they were first written; expectations.log \
             says why."
        )
    })
}

/// The document: the same for `lab check --json` and for Python.
pub fn document(checked: &[Checked], mode: Mode, made_by: &Provenance) -> Value {
    let mode = match mode {
        Mode::Sequential => "sequential",
        Mode::Full => "full",
        Mode::Fixed(_) => "fixed",
    };
    let claims: Vec<Value> = checked
        .iter()
        .flat_map(|one| one.judgements.iter().map(|j| j.json(&one.scenario, mode)))
        .collect();
    let agreements: Vec<Value> = checked
        .iter()
        .filter_map(|one| Some(agreement_json(&one.scenario, one.agreement.as_ref()?)))
        .collect();
    let scenarios: Vec<Value> =
        checked.iter().map(|one| provenance::scenario(&one.scenario)).collect();
    let mut document = totals_json(checked);
    if let Some(document) = document.as_object_mut() {
        document.insert("mode".to_owned(), mode.into());
        document.insert("made_by".to_owned(), made_by.json());
        document.insert("scenarios".to_owned(), scenarios.into());
        document.insert("claims".to_owned(), claims.into());
        if !agreements.is_empty() {
            document.insert("references".to_owned(), agreements.into());
        }
    }
    document
}

/// The totals of all claims as fields of the document.
fn totals_json(checked: &[Checked]) -> Value {
    let totals = totals(checked);
    json!({
        "verdicts": {
            "holds": totals.holds,
            "fitted": totals.fitted,
            "differs": totals.differs,
            "refuted": totals.refuted,
            "open": totals.open,
        },
        "wrong_by_chance": {
            "decided": totals.chance.decided,
            "expected": totals.chance.expected,
            "at_most": totals.chance.at_most,
        },
        "bounds_changed": checked.iter().map(|one| one.changed).sum::<usize>(),
    })
}

fn agreement_json(scenario: &Scenario, agreement: &Agreement) -> Value {
    let one_point = |reference: &reference::Reference| {
        scenario.points.get(reference.point).map(|point| point.key.clone())
    };
    let points: Vec<Value> = agreement
        .comparisons
        .iter()
        .map(|one| {
            let metric = METRICS.get(one.reference.metric).map(|m| m.name.as_str());
            json!({
                "point": one_point(&one.reference),
                "metric": metric,
                "statistic": if one.medians { "median" } else { "mean" },
                "ratio": one.ratio.value,
                "interval": one.ratio.interval,
                "verdict": match one.likeness {
                    Likeness::Same => "same",
                    Likeness::Different => "different",
                    Likeness::Undecided => "open",
                },
            })
        })
        .collect();
    json!({
        "scenario": scenario.id,
        "within_percent": scenario.reference_within * 100.0,
        "compared": agreement.comparisons.len(),
        "same": agreement.count(Likeness::Same),
        "different": agreement.count(Likeness::Different),
        "within_5_percent": agreement.within(5.0),
        "mean_deviation_percent": agreement.mean_deviation(),
        "points": points,
    })
}
