//! What a document claims about a figure, as a formula over the results and its bounds.

use std::fmt;

use super::axis::Axis;
use super::known_metric;
use crate::formula::Formula;
use crate::tree::{Checked, Fields, Node, Value, problem};

/// A claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Its name within the scenario.
    pub id: String,
    /// The document's words, in ours.
    pub text: String,
    /// What is computed.
    pub formula: Formula,
    /// The formula as written.
    pub formula_text: String,
    /// Unit of the formula's value, for people.
    pub unit: String,
    /// What the document says.
    pub document: Option<f64>,
    /// What the original simulator says.
    pub reference: Option<f64>,
    /// What is accepted.
    pub bounds: Bounds,
    /// Where the claim and its bounds come from.
    pub source: String,
    /// Why our result differs, with evidence.
    pub reason: Option<String>,
    /// Line of the file.
    pub line: usize,
}

/// What is accepted; at least one side is bounded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The smallest value.
    pub least: Option<f64>,
    /// The largest value.
    pub most: Option<f64>,
}

impl Bounds {
    /// Whether a value is accepted.
    pub fn contain(&self, value: f64) -> bool {
        self.least.is_none_or(|least| value >= least) && self.most.is_none_or(|most| value <= most)
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.least, self.most) {
            (Some(least), Some(most)) => write!(f, "{least} to {most}"),
            (Some(least), None) => write!(f, "at least {least}"),
            (None, Some(most)) => write!(f, "at most {most}"),
            (None, None) => f.write_str("anything"),
        }
    }
}

impl Claim {
    /// What is expected, as one line: a change to it is a change of the expectation.
    pub fn expectation(&self) -> String {
        let unit = if self.unit.is_empty() { String::new() } else { format!(" {}", self.unit) };
        let formula = self.formula_text.split_whitespace().collect::<Vec<_>>().join(" ");
        format!("{formula}: {}{unit}", self.bounds)
    }
}

pub(super) fn read(root: &Fields<'_>, axes: &[Axis]) -> Checked<Vec<Claim>> {
    let Some(node) = root.node("claim") else { return Ok(Vec::new()) };
    let Value::List(nodes) = &node.value else {
        return problem(node.line, "claims are written as [[claim]]");
    };
    let mut claims: Vec<Claim> = Vec::new();
    for node in nodes {
        let claim = claim(node, axes)?;
        if claims.iter().any(|other| other.id == claim.id) {
            return problem(claim.line, format!("there are two claims '{}'", claim.id));
        }
        claims.push(claim);
    }
    Ok(claims)
}

fn claim(node: &Node, axes: &[Axis]) -> Checked<Claim> {
    let fields = node.fields("claim")?;
    let id = fields.required_text("id")?.to_owned();
    let line = fields.line_of("id");
    let text = fields.required_text("text")?.to_owned();
    let formula_text = fields.required_text("formula")?.to_owned();
    let formula_line = fields.line_of("formula");
    let formula = Formula::parse(&formula_text, axes)
        .or_else(|reason| problem(formula_line, format!("claim '{id}': {reason}")))?;
    for metric in formula.metrics() {
        known_metric(metric, formula_line)?;
    }
    let number = |key| fields.number(key, -1e18, 1e18);
    let bounds = Bounds { least: number("at_least")?, most: number("at_most")? };
    match (bounds.least, bounds.most) {
        (None, None) => {
            return problem(line, format!("claim '{id}' has neither at_least nor at_most"));
        }
        (Some(least), Some(most)) if least > most => {
            return problem(
                line,
                format!("claim '{id}': nothing is at least {least} and at most {most}"),
            );
        }
        _ => {}
    }
    let claim = Claim {
        text,
        formula,
        formula_text,
        unit: fields.text("unit")?.unwrap_or_default().to_owned(),
        document: number("document")?,
        reference: number("reference")?,
        bounds,
        source: fields.required_text("source")?.to_owned(),
        reason: fields.text("reason")?.map(str::to_owned),
        line,
        id,
    };
    fields.finish()?;
    Ok(claim)
}
