//! A document's claim about a figure, as a formula over the results and its bounds.

use std::fmt;

use super::axis::Axis;
use crate::formula::Formula;
use crate::metrics::Names;
use crate::tree::{Checked, Fields, Node, Value, problem};

/// The kind of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Something makes a difference of about this size.
    Effect,
    /// A is better than B, by at least this much.
    Order,
    /// Both are equal, or one is not worse, within a tolerance.
    Likeness,
    /// A place on an axis where something begins, ends or turns.
    Edge,
    /// A number without a comparison, such as the time of one transfer.
    Value,
}

impl Kind {
    const ALL: [(&'static str, Self); 5] = [
        ("effect", Self::Effect),
        ("order", Self::Order),
        ("likeness", Self::Likeness),
        ("edge", Self::Edge),
        ("value", Self::Value),
    ];

    /// Whether it may hold even though nothing differs.
    pub fn may_survive_null(self) -> bool {
        matches!(self, Self::Likeness | Self::Value)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(_, kind)| kind == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

/// A claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Its name within the scenario.
    pub id: String,
    /// Its kind.
    pub kind: Kind,
    /// The document's statement, in our words.
    pub text: String,
    /// The formula.
    pub formula: Formula,
    /// The formula as written.
    pub formula_text: String,
    /// Unit of the formula's value, for people.
    pub unit: String,
    /// The value in the document.
    pub document: Option<f64>,
    /// The value of the original simulator.
    pub reference: Option<f64>,
    /// The interval of that value, if the reference has no values of single runs for it.
    pub reference_interval: Option<[f64; 2]>,
    /// The accepted range.
    pub bounds: Bounds,
    /// Whether the bounds are ours, because the document has no such number. Then they cannot be refuted.
    pub ours: bool,
    /// Whether the document's set-up is not known where it matters. Then it cannot be refuted.
    pub setup_unknown: bool,
    /// How the set-up was chosen by its result, if it was. Then the claim cannot be confirmed.
    pub fitted: Option<String>,
    /// The source of the claim and of its bounds.
    pub source: String,
    /// Why our result differs, with evidence.
    pub reason: Option<String>,
    /// Line of the file.
    pub line: usize,
}

/// The accepted range; at least one side is bounded.
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
    /// The expectation, as one line. If this line changes, the expectation has changed.
    pub fn expectation(&self) -> String {
        let unit = if self.unit.is_empty() { String::new() } else { format!(" {}", self.unit) };
        let formula = self.formula_text.split_whitespace().collect::<Vec<_>>().join(" ");
        format!("{formula}: {}{unit}", self.bounds)
    }
}

pub(super) fn read(root: &Fields<'_>, axes: &[Axis], names: &Names) -> Checked<Vec<Claim>> {
    let fitted = root.text("fitted")?;
    let Some(node) = root.node("claim") else { return Ok(Vec::new()) };
    let Value::List(nodes) = &node.value else {
        return problem(node.line, "claims are written as [[claim]]");
    };
    let mut claims: Vec<Claim> = Vec::new();
    for node in nodes {
        let claim = claim(node, axes, names, fitted)?;
        if claims.iter().any(|other| other.id == claim.id) {
            return problem(claim.line, format!("there are two claims '{}'", claim.id));
        }
        claims.push(claim);
    }
    Ok(claims)
}

fn claim(node: &Node, axes: &[Axis], names: &Names, fitted: Option<&str>) -> Checked<Claim> {
    let fields = node.fields("claim")?;
    let id = fields.required_text("id")?.to_owned();
    let line = fields.line_of("id");
    let text = fields.required_text("text")?.to_owned();
    let formula_text = fields.required_text("formula")?.to_owned();
    let formula_line = fields.line_of("formula");
    let formula = Formula::parse(&formula_text, axes, names)
        .or_else(|reason| problem(formula_line, format!("claim '{id}': {reason}")))?;
    let kind = kind(&fields, &id)?;
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
    let no_effect = number("no_effect")?;
    if matches!(kind, Kind::Effect | Kind::Order) && bounds.contain(no_effect.unwrap_or(0.0)) {
        let nothing = no_effect.unwrap_or(0.0);
        return problem(
            line,
            format!(
                "claim '{id}': an {kind} of {nothing} is none, and must be out of bounds, with a \
                 margin; no_effect says which number means that there is none, if it is not 0"
            ),
        );
    }
    let claim = Claim {
        kind,
        text,
        formula,
        formula_text,
        unit: fields.text("unit")?.unwrap_or_default().to_owned(),
        document: number("document")?,
        reference: number("reference")?,
        reference_interval: reference_interval(&fields)?,
        bounds,
        source: fields.required_text("source")?.to_owned(),
        reason: fields.text("reason")?.map(str::to_owned),
        ours: fields.flag("ours")?.unwrap_or(false),
        setup_unknown: fields.flag("setup_unknown")?.unwrap_or(false),
        fitted: fields.text("fitted")?.or(fitted).map(str::to_owned),
        line,
        id,
    };
    fields.finish()?;
    Ok(claim)
}

/// The two ends of an interval.
fn reference_interval(fields: &Fields<'_>) -> Checked<Option<[f64; 2]>> {
    let Some(node) = fields.node("reference_interval") else { return Ok(None) };
    let number = |node: &Node| match node.value {
        Value::Integer(number) => Some(number as f64),
        Value::Float(number) => Some(number).filter(|number| number.is_finite()),
        _ => None,
    };
    let numbers: Vec<Option<f64>> = match &node.value {
        Value::List(nodes) => nodes.iter().map(number).collect(),
        _ => Vec::new(),
    };
    match numbers[..] {
        [Some(low), Some(high)] if low <= high => Ok(Some([low, high])),
        _ => problem(
            node.line,
            "reference_interval is the lower and the upper end, as in [38.6, 46.3]",
        ),
    }
}

fn kind(fields: &Fields<'_>, id: &str) -> Checked<Kind> {
    let known = || Kind::ALL.map(|(name, _)| name).join(", ");
    let line = fields.line_of("id");
    let Some(name) = fields.text("kind")? else {
        return problem(line, format!("claim '{id}' does not say its kind: {}", known()));
    };
    match Kind::ALL.iter().find(|(known, _)| *known == name) {
        Some((_, kind)) => Ok(*kind),
        None => {
            problem(fields.line_of("kind"), format!("'{name}' is not a kind of claim: {}", known()))
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::scenario::tests::{read, text};
    use crate::tree::tests::refused;

    #[test]
    fn a_claim_says_what_cannot_be_refuted_or_confirmed() {
        let head = "[[claim]]\nid = 'a'\ntext = 't'\nsource = 's'\nformula = '1'\nkind = 'value'\nat_least = 1\n";
        let with = |top: &str, more: &str| read(&format!("{top}{}{head}{more}\n", text()), &[]);
        let claim = |top: &str, more: &str| with(top, more).unwrap().claims[0].clone();
        assert_eq!(claim("", "").fitted, None);
        let all = claim("fitted = 'from a sweep'\n", "");
        assert_eq!(all.fitted.as_deref(), Some("from a sweep"));
        assert_eq!(claim("", "fitted = 'by a table'").fitted.as_deref(), Some("by a table"));
        let one = claim("", "ours = true\nsetup_unknown = true\nreference_interval = [1, 2.5]");
        assert!(one.ours && one.setup_unknown);
        assert_eq!(one.reference_interval, Some([1.0, 2.5]));
        let line = text().lines().count() + 8;
        for wrong in ["2", "[1]", "[2, 1]", "[1, 'a']", "[1, 2, 3]"] {
            let wrong = format!("reference_interval = {wrong}");
            refused(with("", &wrong), line, "reference_interval is the lower and the upper end");
        }
    }

    #[test]
    fn an_effect_of_nothing_is_refused() {
        let claim = |more: &str| {
            let head = "[[claim]]\nid = 'a'\ntext = 't'\nsource = 's'\nformula = '1'\n";
            read(&format!("{}{head}{more}\n", text()), &[])
        };
        let line = text().lines().count() + 2;
        refused(claim("at_least = 1"), line, "claim 'a' does not say its kind: effect, order,");
        refused(claim("kind = 'guess'\nat_least = 1"), line + 4, "'guess' is not a kind of claim");
        for none in [
            "kind = 'order'\nat_least = 0",
            "kind = 'effect'\nat_least = -2\nat_most = 18",
            "kind = 'order'\nat_most = 100\nno_effect = 100",
        ] {
            refused(claim(none), line, "is none, and must be out of bounds");
        }
        for some in [
            "kind = 'order'\nat_least = 1",
            "kind = 'effect'\nat_least = 2\nat_most = 18",
            "kind = 'order'\nat_most = 99\nno_effect = 100",
            "kind = 'likeness'\nat_least = -3",
            "kind = 'value'\nat_least = 0",
        ] {
            assert_eq!(claim(some).unwrap().claims.len(), 1, "{some}");
        }
    }
}
