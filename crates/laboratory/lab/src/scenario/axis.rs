//! The axes of a scenario: values, or variants that change several fields at once.

use super::Override;
use crate::tree::{Checked, Fields, Node, Value, problem};
use crate::units::Quantity;

/// Maximum number of steps in a range.
const MAX_STEPS: usize = 10_000;

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Its name.
    pub name: String,
    /// Its label in charts.
    pub label: String,
    /// The values in the order of the file.
    pub values: Vec<AxisValue>,
    /// Whether runs that differ only on this axis have the same seed.
    pub paired: bool,
}

/// A value of an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct AxisValue {
    /// Its spelling: `3 %`, `5`, or a variant's name.
    pub text: String,
    /// The number in it; `None` for a variant.
    pub number: Option<f64>,
    /// Fields that it sets.
    pub overlay: Vec<(String, Node)>,
}

impl Axis {
    /// Index of a value that is spelled like this, or has this number.
    pub fn find(&self, text: &str) -> Option<usize> {
        let text = text.trim();
        self.values.iter().position(|value| value.text == text).or_else(|| {
            let number = number_of(text)?;
            self.values.iter().position(|value| value.number == Some(number))
        })
    }

    /// The common unit of all values; empty without one.
    pub fn unit(&self) -> &'static str {
        let mut units =
            self.values.iter().map(|value| Quantity::parse(&value.text).map(|q| q.unit));
        match units.next() {
            Some(Some(first)) if units.all(|unit| unit == Some(first)) => first,
            _ => "",
        }
    }

    /// The name of a curve for this value: `pmr 5`, or a variant's name.
    pub fn curve(&self, value: &AxisValue) -> String {
        match value.number {
            Some(_) => format!("{} {}", self.name, value.text),
            None => value.text.clone(),
        }
    }

    /// Whether its values are variants, each with its own fields.
    pub fn is_of_variants(&self) -> bool {
        self.values.iter().all(|value| value.number.is_none())
    }

    /// Whether all values are numbers of one unit, so that it can be drawn to scale.
    pub fn is_numeric(&self) -> bool {
        let mut units =
            self.values.iter().map(|value| Quantity::parse(&value.text).map(|q| q.unit));
        let first = units.next();
        self.values.iter().all(|value| value.number.is_some())
            && units.all(|unit| Some(unit) == first)
    }
}

/// The number in a text with or without unit.
fn number_of(text: &str) -> Option<f64> {
    Quantity::parse(text).map(|quantity| quantity.number).or_else(|| text.parse().ok())
}

/// Combinations that are left out.
#[derive(Clone, Debug)]
pub(super) struct Skip(Vec<(usize, Vec<usize>)>);

impl Skip {
    pub(super) fn matches(&self, at: &[usize]) -> bool {
        self.0
            .iter()
            .all(|(axis, values)| at.get(*axis).is_some_and(|index| values.contains(index)))
    }
}

/// Refuses to create a path by naming it in an axis: `[network]` could supply all its values, so a
/// misspelling would go unnoticed.
pub(super) fn check_target(tree: &Node, path: &str, line: usize) -> Checked<()> {
    let mut names = path.split('.');
    match (names.next(), names.next()) {
        (Some("path"), Some(name)) if tree.get(&format!("path.{name}")).is_none() => {
            problem(line, format!("'{path}': there is no [path.{name}]"))
        }
        _ => Ok(()),
    }
}

pub(super) fn read(tree: &Node) -> Checked<Vec<Axis>> {
    tree.fields("")?
        .tables("axis")?
        .into_iter()
        .map(|(name, fields)| {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if !name.chars().all(plain) || name.starts_with(|c: char| c.is_ascii_digit()) {
                return problem(
                    fields.line(),
                    format!("the axis '{name}' has a name that is not of letters and digits"),
                );
            }
            let axis = axis(tree, name, &fields)?;
            fields.finish()?;
            Ok(axis)
        })
        .collect()
}

fn axis(tree: &Node, name: &str, fields: &Fields<'_>) -> Checked<Axis> {
    let label = fields.text("label")?.unwrap_or(name).to_owned();
    let set = fields.texts("set")?;
    for (line, path) in set.iter().flatten() {
        check_target(tree, path, *line)?;
    }
    let listed = fields.node("values");
    let range = fields.table("range")?;
    let variants = fields.node("variants");
    let paired = fields.flag("paired")?;
    let (values, line) = match (set, listed, range, variants) {
        (Some(set), Some(node), None, None) => (listed_values(name, &set, node)?, node.line),
        (Some(set), None, Some(range), None) => {
            let line = range.line();
            (range_values(name, &set, range)?, line)
        }
        (None, None, None, Some(node)) => (variant_values(name, node)?, node.line),
        _ => {
            return problem(
                fields.line(),
                format!("axis.{name} has 'set' with 'values' or 'range', or 'variants'"),
            );
        }
    };
    for (index, value) in values.iter().enumerate() {
        if values.iter().take(index).any(|other| other.text == value.text) {
            return problem(line, format!("axis.{name} has the value '{}' twice", value.text));
        }
        if value.text.contains([',', '=', ']', '\n']) {
            return problem(line, format!("axis.{name}: a value has no ',', '=' or ']' in it"));
        }
    }
    let paired = paired.unwrap_or_else(|| values.iter().all(|value| value.number.is_none()));
    Ok(Axis { name: name.to_owned(), label, values, paired })
}

fn value(set: &[(usize, &str)], node: &Node) -> AxisValue {
    let text = node.text();
    let number = number_of(&text);
    let overlay = set.iter().map(|(_, path)| ((*path).to_owned(), node.clone())).collect();
    AxisValue { text, number, overlay }
}

fn listed_values(name: &str, set: &[(usize, &str)], node: &Node) -> Checked<Vec<AxisValue>> {
    match &node.value {
        Value::List(nodes) if !nodes.is_empty() => {
            Ok(nodes.iter().map(|node| value(set, node)).collect())
        }
        _ => problem(node.line, format!("axis.{name} has no values")),
    }
}

fn range_values(name: &str, set: &[(usize, &str)], range: Fields<'_>) -> Checked<Vec<AxisValue>> {
    let line = range.line();
    let part = |key: &'static str| -> Checked<(f64, &'static str)> {
        let node = range.node(key);
        let text = node.map(Node::text).unwrap_or_default();
        let plain = || text.parse().ok().map(|number: f64| (number, ""));
        match Quantity::parse(&text).map(|q| (q.number, q.unit)).or_else(plain) {
            Some(part) => Ok(part),
            None => problem(
                node.map_or(line, |node| node.line),
                format!("axis.{name}.range.{key} is not a number or quantity"),
            ),
        }
    };
    let (from, to, step) = (part("from")?, part("to")?, part("step")?);
    range.finish()?;
    let steps = ((to.0 - from.0) / step.0).round();
    if from.1 != to.1 || from.1 != step.1 {
        return problem(line, format!("axis.{name}.range mixes units"));
    }
    if !(0.0..=MAX_STEPS as f64).contains(&steps) || step.0 <= 0.0 {
        return problem(line, format!("axis.{name}.range has no or too many steps"));
    }
    Ok((0..=steps as usize)
        .map(|index| {
            // Nine digits hide the error of 0.1 * 3 in binary fractions.
            let number = ((from.0 + index as f64 * step.0) * 1e9).round() / 1e9;
            let spelled = match from.1 {
                "" if number.fract() == 0.0 => Value::Integer(number as i64),
                "" => Value::Float(number),
                unit => Value::Text(format!("{number} {unit}")),
            };
            value(set, &Node { line, value: spelled })
        })
        .collect())
}

fn variant_values(name: &str, node: &Node) -> Checked<Vec<AxisValue>> {
    let Value::Table(entries) = &node.value else {
        return problem(node.line, format!("axis.{name}.variants holds tables of fields"));
    };
    if entries.is_empty() {
        return problem(node.line, format!("axis.{name} has no variants"));
    }
    entries
        .iter()
        .map(|(variant, node)| {
            if !matches!(node.value, Value::Table(_)) {
                return problem(
                    node.line,
                    format!("axis.{name}.variants.{variant} is a table of the fields it sets"),
                );
            }
            let mut overlay = Vec::new();
            leaves(node, "", &mut overlay);
            Ok(AxisValue { text: variant.clone(), number: None, overlay })
        })
        .collect()
}

/// All fields below a node with their paths.
fn leaves(node: &Node, path: &str, found: &mut Vec<(String, Node)>) {
    match &node.value {
        Value::Table(entries) => {
            for (key, node) in entries {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                leaves(node, &path, found);
            }
        }
        _ => found.push((path.to_owned(), node.clone())),
    }
}

/// Narrows axes to the values that the command line selects, and returns the other overrides.
pub(super) fn select(
    mut axes: Vec<Axis>,
    overrides: &[Override],
) -> Checked<(Vec<Axis>, Vec<Override>)> {
    let mut others = Vec::new();
    for change in overrides {
        let Some(axis) = axes.iter_mut().find(|axis| axis.name == change.key) else {
            if let Some(axis) = axes.iter().find(|axis| sets(axis, &change.key)) {
                if change.yields {
                    continue;
                }
                return problem(
                    0,
                    format!("{} is varied by the axis '{}': set that", change.key, axis.name),
                );
            }
            others.push(change.clone());
            continue;
        };
        let mut values = Vec::new();
        for text in change.value.split(',') {
            match axis.find(text) {
                Some(index) => values.extend(axis.values.get(index).cloned()),
                None => values.push(free_value(axis, text.trim())?),
            }
        }
        axis.values = values;
    }
    Ok((axes, others))
}

fn sets(axis: &Axis, key: &str) -> bool {
    axis.values.iter().any(|value| value.overlay.iter().any(|(path, _)| path == key))
}

/// A value that the file does not list, on an axis of numbers.
fn free_value(axis: &Axis, text: &str) -> Checked<AxisValue> {
    match axis.values.first() {
        Some(first) if first.number.is_some() && number_of(text).is_some() => {
            let node = Node::from_argument(text);
            let overlay =
                first.overlay.iter().map(|(path, _)| (path.clone(), node.clone())).collect();
            Ok(AxisValue { text: text.to_owned(), number: number_of(text), overlay })
        }
        _ => {
            let known: Vec<_> = axis.values.iter().map(|value| value.text.as_str()).collect();
            let reason =
                format!("the axis '{}' has no value '{text}': {}", axis.name, known.join(", "));
            problem(0, reason)
        }
    }
}

/// Reads the skipped combinations. They name values of the file's axes, `all`; `axes` may have only
/// some of these values.
pub(super) fn read_skips(tree: &Node, all: &[Axis], axes: &[Axis]) -> Checked<Vec<Skip>> {
    let Some(node) = tree.get("skip") else { return Ok(Vec::new()) };
    let Value::List(nodes) = &node.value else {
        return problem(node.line, "combinations are skipped with [[skip]]");
    };
    nodes
        .iter()
        .map(|node| {
            let Value::Table(entries) = &node.value else {
                return problem(node.line, "combinations are skipped with [[skip]]");
            };
            let mut conditions = Vec::new();
            for (name, node) in entries {
                let Some(index) = all.iter().position(|axis| axis.name == *name) else {
                    return problem(node.line, format!("skip: '{name}' is not an axis"));
                };
                let texts = match &node.value {
                    Value::List(nodes) => nodes.iter().map(Node::text).collect(),
                    _ => vec![node.text()],
                };
                conditions.push((index, condition(all, axes, index, &texts, node.line)?));
            }
            Ok(Skip(conditions))
        })
        .collect()
}

/// The indices of a condition's values on an axis, as far as the axis still has them.
fn condition(
    all: &[Axis],
    axes: &[Axis],
    index: usize,
    texts: &[String],
    line: usize,
) -> Checked<Vec<usize>> {
    let (Some(whole), Some(axis)) = (all.get(index), axes.get(index)) else {
        return Ok(Vec::new());
    };
    let unknown = texts.iter().find(|text| whole.find(text).is_none());
    match unknown {
        Some(text) => problem(line, format!("the axis '{}' has no value '{text}'", axis.name)),
        None => Ok(texts.iter().filter_map(|text| axis.find(text)).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_of_one_unit_are_drawn_to_scale() {
        for (texts, numeric) in [
            (&["3 ms", "10 ms"][..], true),
            (&["3", "10"], true),
            (&["300 ms", "1 s"], false),
            (&["3", "10 ms"], false),
            (&["a", "b"], false),
        ] {
            let values = texts.iter().map(|text| AxisValue {
                text: (*text).to_owned(),
                number: number_of(text),
                overlay: Vec::new(),
            });
            let axis = Axis {
                name: "x".to_owned(),
                label: "x".to_owned(),
                values: values.collect(),
                paired: true,
            };
            assert_eq!(axis.is_numeric(), numeric, "{texts:?}");
        }
    }
}
