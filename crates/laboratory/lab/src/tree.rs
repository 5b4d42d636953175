//! A scenario file as a tree whose nodes know their lines, so that sweeps can set any field and
//! every error is reported with its line.

use std::cell::RefCell;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::units::{Kind, Quantity};

/// An error, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line of the file, from 1; 0 is the command line.
    pub line: usize,
    /// The error.
    pub reason: String,
}

/// A value, or the error in it.
pub type Checked<V> = Result<V, Problem>;

/// Fails with a reason. The reason becomes one line, even if it quotes text of several lines.
pub fn problem<V>(line: usize, reason: impl Into<String>) -> Checked<V> {
    let reason = reason.into().replace(char::is_control, " ");
    Err(Problem { line, reason })
}

/// A value and its line.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Line of the file, from 1; 0 is the command line.
    pub line: usize,
    /// The value.
    pub value: Value,
}

/// The values in a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A string.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Float(f64),
    /// `true` or `false`.
    Flag(bool),
    /// A list.
    List(Vec<Node>),
    /// A table, in the order of the file.
    Table(Vec<(String, Node)>),
}

impl Value {
    fn name(&self) -> &'static str {
        match self {
            Self::Text(_) => "a text",
            Self::Integer(_) | Self::Float(_) => "a number without unit",
            Self::Flag(_) => "true or false",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}

impl Node {
    /// Reads a file.
    ///
    /// # Errors
    /// Fails if the text is not TOML.
    pub fn parse(text: &str) -> Checked<Self> {
        match DeTable::parse(text) {
            Ok(table) => Ok(Self { line: 1, value: convert_table(text, table.get_ref())? }),
            Err(error) => problem(
                line_of(text, error.span().map_or(0, |span| span.start)),
                error.message().to_owned(),
            ),
        }
    }

    /// Parses a value of the command line: a number or a flag if possible, otherwise a text.
    pub fn from_argument(text: &str) -> Self {
        let value = if let Ok(flag) = text.parse() {
            Value::Flag(flag)
        } else if let Ok(number) = text.parse() {
            Value::Integer(number)
        } else if let Ok(number) = text.parse() {
            Value::Float(number)
        } else {
            Value::Text(text.to_owned())
        };
        Self { line: 0, value }
    }

    /// The node of a path of names, as in `path.primary.loss`.
    pub fn get(&self, path: &str) -> Option<&Self> {
        path.split('.').try_fold(self, |node, name| match &node.value {
            Value::Table(entries) => {
                entries.iter().find(|(key, _)| key == name).map(|(_, node)| node)
            }
            _ => None,
        })
    }

    /// Puts a node at a path of names and creates missing tables.
    ///
    /// # Errors
    /// Fails if a part of the path exists and is not a table.
    pub fn set(&mut self, path: &str, node: Self) -> Checked<()> {
        let (name, rest) = match path.split_once('.') {
            Some((name, rest)) => (name, Some(rest)),
            None => (path, None),
        };
        let Value::Table(entries) = &mut self.value else {
            return problem(node.line, format!("'{path}' leads into what is not a table"));
        };
        let index = match entries.iter().position(|(key, _)| key == name) {
            Some(index) => index,
            None => {
                let empty = Self { line: node.line, value: Value::Table(Vec::new()) };
                entries.push((name.to_owned(), empty));
                entries.len() - 1
            }
        };
        let Some((_, entry)) = entries.get_mut(index) else { return Ok(()) };
        match rest {
            Some(rest) => entry.set(rest, node),
            None => {
                *entry = node;
                Ok(())
            }
        }
    }

    /// The value as the file spells it, without quotes.
    pub fn text(&self) -> String {
        match &self.value {
            Value::Text(text) => text.clone(),
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            Value::Flag(flag) => flag.to_string(),
            Value::List(nodes) => {
                format!("[{}]", nodes.iter().map(Self::text).collect::<Vec<_>>().join(", "))
            }
            Value::Table(entries) => {
                let entries: Vec<_> =
                    entries.iter().map(|(key, node)| format!("{key} = {}", node.text())).collect();
                format!("{{ {} }}", entries.join(", "))
            }
        }
    }

    /// The fields of a table; `path` is its name in errors.
    ///
    /// # Errors
    /// Fails if the node is not a table.
    pub fn fields(&self, path: impl Into<String>) -> Checked<Fields<'_>> {
        let path = path.into();
        match &self.value {
            Value::Table(entries) => {
                Ok(Fields { path, line: self.line, entries, asked: RefCell::default() })
            }
            other => problem(self.line, format!("'{path}' is {}, not a table", other.name())),
        }
    }
}

/// The line, from 1, of a byte of the text.
fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}

fn convert_table(text: &str, table: &DeTable<'_>) -> Checked<Value> {
    let entries = table
        .iter()
        .map(|(key, value)| {
            let mut node = convert(text, value)?;
            // A table's own span covers its header or is empty; its key always has a span.
            if matches!(node.value, Value::Table(_)) {
                node.line = line_of(text, key.span().start);
            }
            Ok((key.get_ref().to_string(), node))
        })
        .collect::<Checked<_>>()?;
    Ok(Value::Table(entries))
}

fn convert(text: &str, value: &Spanned<DeValue<'_>>) -> Checked<Node> {
    let line = line_of(text, value.span().start);
    let value = match value.get_ref() {
        DeValue::String(string) => Value::Text(string.to_string()),
        DeValue::Integer(integer) => {
            match i64::from_str_radix(&integer.as_str().replace('_', ""), integer.radix()) {
                Ok(number) => Value::Integer(number),
                Err(_) => return problem(line, format!("{} is too large", integer.as_str())),
            }
        }
        DeValue::Float(float) => match float.as_str().replace('_', "").parse() {
            Ok(number) => Value::Float(number),
            Err(_) => return problem(line, format!("{} is not a number", float.as_str())),
        },
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Datetime(_) => return problem(line, "a date has no meaning here"),
        DeValue::Array(array) => {
            Value::List(array.iter().map(|value| convert(text, value)).collect::<Checked<_>>()?)
        }
        DeValue::Table(table) => convert_table(text, table)?,
    };
    Ok(Node { line, value })
}

/// A table that is being read. Each key is read once; [`finish`](Self::finish) refuses all others.
#[derive(Debug)]
pub struct Fields<'a> {
    path: String,
    line: usize,
    entries: &'a [(String, Node)],
    asked: RefCell<Vec<&'static str>>,
}

impl<'a> Fields<'a> {
    /// The line of the table.
    pub fn line(&self) -> usize {
        self.line
    }

    /// The name of a key in errors.
    pub fn name(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// The node of a key.
    pub fn node(&self, key: &'static str) -> Option<&'a Node> {
        self.asked.borrow_mut().push(key);
        self.entries.iter().find(|(name, _)| name == key).map(|(_, node)| node)
    }

    /// All keys with their nodes, in the order of the file: for tables with arbitrary keys.
    pub fn entries(&self) -> &'a [(String, Node)] {
        self.entries
    }

    /// The tables below a key, with their names, in the order of the file.
    ///
    /// # Errors
    /// Fails if it contains anything but tables.
    pub fn tables(&self, key: &'static str) -> Checked<Vec<(&'a str, Fields<'a>)>> {
        let Some(node) = self.node(key) else { return Ok(Vec::new()) };
        let path = self.name(key);
        let fields = node.fields(path.clone())?;
        fields
            .entries
            .iter()
            .map(|(name, node)| Ok((name.as_str(), node.fields(format!("{path}.{name}"))?)))
            .collect()
    }

    /// The fields of a table below a key.
    ///
    /// # Errors
    /// Fails if it is not a table.
    pub fn table(&self, key: &'static str) -> Checked<Option<Fields<'a>>> {
        self.node(key).map(|node| node.fields(self.name(key))).transpose()
    }

    /// A text.
    ///
    /// # Errors
    /// Fails if it is not a text.
    pub fn text(&self, key: &'static str) -> Checked<Option<&'a str>> {
        match self.node(key) {
            None => Ok(None),
            Some(Node { value: Value::Text(text), .. }) => Ok(Some(text)),
            Some(node) => problem(
                node.line,
                format!("{} is {}, not a text", self.name(key), node.value.name()),
            ),
        }
    }

    /// A text that must exist and not be empty.
    ///
    /// # Errors
    /// Fails if it is missing, empty or not a text.
    pub fn required_text(&self, key: &'static str) -> Checked<&'a str> {
        match self.text(key)? {
            Some(text) if !text.trim().is_empty() => Ok(text),
            _ => problem(self.line, format!("{} is missing", self.name(key))),
        }
    }

    /// `true` or `false`.
    ///
    /// # Errors
    /// Fails if it is anything else.
    pub fn flag(&self, key: &'static str) -> Checked<Option<bool>> {
        match self.node(key) {
            None => Ok(None),
            Some(Node { value: Value::Flag(flag), .. }) => Ok(Some(*flag)),
            Some(node) => problem(
                node.line,
                format!("{} is {}, not true or false", self.name(key), node.value.name()),
            ),
        }
    }

    /// A whole number in a range.
    ///
    /// # Errors
    /// Fails if it is not a whole number or out of range.
    pub fn count(&self, key: &'static str, least: u64, most: u64) -> Checked<Option<u64>> {
        let Some(node) = self.node(key) else { return Ok(None) };
        let name = self.name(key);
        match node.value {
            Value::Integer(number) => match u64::try_from(number) {
                Ok(count) if (least..=most).contains(&count) => Ok(Some(count)),
                _ => problem(node.line, format!("{name} is {number}, outside {least} to {most}")),
            },
            _ => problem(node.line, format!("{name} is {}, not a whole number", node.value.name())),
        }
    }

    /// A plain number in a range.
    ///
    /// # Errors
    /// Fails if it is not a number or out of range.
    pub fn number(&self, key: &'static str, least: f64, most: f64) -> Checked<Option<f64>> {
        let Some(node) = self.node(key) else { return Ok(None) };
        let name = self.name(key);
        let number = match node.value {
            Value::Integer(number) => number as f64,
            Value::Float(number) => number,
            _ => {
                return problem(
                    node.line,
                    format!("{name} is {}, not a number", node.value.name()),
                );
            }
        };
        if (least..=most).contains(&number) {
            Ok(Some(number))
        } else {
            problem(node.line, format!("{name} is {number}, outside {least} to {most}"))
        }
    }

    /// A quantity with a unit, in the kind's base unit.
    ///
    /// # Errors
    /// Fails if it is not such a quantity or out of range.
    pub fn quantity(
        &self,
        key: &'static str,
        kind: Kind,
        least: f64,
        most: f64,
    ) -> Checked<Option<f64>> {
        let Some(node) = self.node(key) else { return Ok(None) };
        Quantity::expect(&node.text(), kind, least, most)
            .map(Some)
            .or_else(|reason| problem(node.line, format!("{} {reason}", self.name(key))))
    }

    /// One of several words.
    ///
    /// # Errors
    /// Fails if it is another word.
    pub fn choice<V: Copy>(&self, key: &'static str, words: &[(&str, V)]) -> Checked<Option<V>> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        match words.iter().find(|(word, _)| *word == text) {
            Some((_, value)) => Ok(Some(*value)),
            None => {
                let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
                problem(
                    self.line_of(key),
                    format!("{} is \"{text}\"; it may be {}", self.name(key), words.join(", ")),
                )
            }
        }
    }

    /// A list of texts; one text is a list of one.
    ///
    /// # Errors
    /// Fails if it contains anything but texts.
    pub fn texts(&self, key: &'static str) -> Checked<Option<Vec<(usize, &'a str)>>> {
        let Some(node) = self.node(key) else { return Ok(None) };
        let text = |node: &'a Node| match &node.value {
            Value::Text(text) => Ok((node.line, text.as_str())),
            other => problem(
                node.line,
                format!("{} has {} where a text belongs", self.name(key), other.name()),
            ),
        };
        match &node.value {
            Value::List(nodes) => nodes.iter().map(text).collect::<Checked<_>>().map(Some),
            _ => Ok(Some(vec![text(node)?])),
        }
    }

    /// The line of a key, or of the table if it does not have the key.
    pub fn line_of(&self, key: &str) -> usize {
        self.entries.iter().find(|(name, _)| name == key).map_or(self.line, |(_, node)| node.line)
    }

    /// Refuses keys that were not read.
    ///
    /// # Errors
    /// Returns an error for the first of them.
    pub fn finish(self) -> Checked<()> {
        let asked = self.asked.borrow();
        match self.entries.iter().find(|(name, _)| !asked.contains(&name.as_str())) {
            None => Ok(()),
            Some((name, node)) => {
                let mut known: Vec<_> = asked.iter().copied().collect();
                known.sort_unstable();
                known.dedup();
                problem(
                    node.line,
                    format!("unknown key '{}'; here may be {}", self.name(name), known.join(", ")),
                )
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Asserts an error at this line with a reason that contains this text.
    #[track_caller]
    pub(crate) fn refused<V: std::fmt::Debug>(read: Checked<V>, line: usize, reason: &str) {
        let error = read.unwrap_err();
        assert!(error.reason.contains(reason), "'{reason}' is not in {error:?}");
        assert_eq!(error.line, line, "{error:?}");
    }

    const TEXT: &str = "title = 'x'\n\n[path.primary]\nloss = '3 %'\ncount = 4\n";

    #[test]
    fn nodes_know_their_line() {
        let tree = Node::parse(TEXT).unwrap();
        assert_eq!(tree.get("path.primary").unwrap().line, 3);
        assert_eq!(tree.get("path.primary.loss").unwrap().line, 4);
        assert_eq!(tree.get("path.primary.gain"), None);
        let error = Node::parse("a = 1\nb = ").unwrap_err();
        assert_eq!(error.line, 2);
    }

    #[test]
    fn a_reason_is_one_line() {
        let tree = Node::parse("shape = \"\"\"\ntwo\nlines\"\"\"").unwrap();
        let shape = tree.fields("").unwrap().text("shape").unwrap().unwrap().to_owned();
        assert!(shape.contains('\n'));
        refused(problem::<()>(1, format!("there is no shape '{shape}'")), 1, "'two lines'");
    }

    #[test]
    fn any_field_can_be_set() {
        let mut tree = Node::parse(TEXT).unwrap();
        tree.set("path.primary.loss", Node::from_argument("5 %")).unwrap();
        tree.set("path.third.loss", Node::from_argument("7")).unwrap();
        assert_eq!(tree.get("path.primary.loss").unwrap().text(), "5 %");
        assert_eq!(tree.get("path.third.loss").unwrap().value, Value::Integer(7));
        let error = tree.set("title.x", Node::from_argument("7")).unwrap_err();
        assert_eq!(error.line, 0);
    }

    #[test]
    fn unknown_keys_and_wrong_types_are_refused() {
        let tree = Node::parse(TEXT).unwrap();
        let node = tree.get("path.primary").unwrap();
        let fields = node.fields("path.primary").unwrap();
        assert_eq!(fields.count("count", 1, 9), Ok(Some(4)));
        let error = fields.finish().unwrap_err();
        assert_eq!(error.line, 4);
        assert_eq!(error.reason, "unknown key 'path.primary.loss'; here may be count");
        let fields = node.fields("p").unwrap();
        assert_eq!(fields.count("count", 5, 9).unwrap_err().line, 5);
        assert_eq!(
            fields.count("loss", 5, 9).unwrap_err().reason,
            "p.loss is a text, not a whole number"
        );
        assert!(fields.quantity("count", Kind::Time, 0.0, 1e9).is_err());
    }
}
