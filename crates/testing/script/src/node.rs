//! Chunks, parameters and causes in the form used in scripts, and how they are compared.

use std::fmt;
use std::net::IpAddr;

use crate::failure::Place;

/// A chunk, parameter or cause: `NAME[key=value, NAME[...], ...]`.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    /// Its place in the script; `None` for a node from the wire.
    pub(crate) place: Option<Place>,
    pub(crate) fields: Vec<(String, Value)>,
    pub(crate) items: Vec<Item>,
    /// Type, flags, length and value of a node from the wire.
    pub(crate) raw: Option<Raw>,
}

/// The raw bytes of a node from the wire.
#[derive(Clone, Debug)]
pub(crate) struct Raw {
    pub(crate) kind: u16,
    pub(crate) flags: u8,
    pub(crate) length: usize,
    pub(crate) value: Vec<u8>,
}

/// An element in a list of nodes.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Node(Node),
    /// `...`: any number of nodes.
    Gap,
}

/// The value of a field.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// `...`: anything.
    Any,
    Number(u64),
    /// `10~20`: a number in this range.
    Range(u64, u64),
    Bytes(Vec<u8>),
    Address(IpAddr),
    /// `2:3`: a gap block.
    Pair(u64, u64),
    /// `{1,7}`: a stream with a stream sequence number.
    Stream(u64, u64),
    /// `{1,0,7}`: a stream, 15 reserved bits with the U bit as the lowest, and a message identifier.
    Skipped(u64, u64, u64),
    List(Vec<Value>),
    Nodes(Vec<Item>),
    /// `valid` or `wrong`: the MAC of an AUTH chunk.
    Mac {
        valid: bool,
    },
    /// `cookie(tag)`: the cookie sent in the INIT ACK with this tag, optionally with one bit
    /// flipped.
    Cookie {
        tag: u64,
        flip: Option<usize>,
        cut: Option<usize>,
    },
}

impl Node {
    /// A node from the wire.
    pub(crate) fn seen(name: &str, raw: Raw) -> Self {
        Self {
            name: name.to_owned(),
            place: None,
            fields: Vec::new(),
            items: Vec::new(),
            raw: Some(raw),
        }
    }

    /// The value of a field, if it is present.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.fields.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The number in a field, if it contains one.
    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        match self.get(key) {
            Some(Value::Number(number)) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn push(&mut self, key: &str, value: Value) {
        self.fields.push((key.to_owned(), value));
    }

    /// The difference between this expected node and `actual`; `None` if they match.
    pub(crate) fn mismatch(&self, actual: &Self) -> Option<String> {
        if matches!(self.name.as_str(), "CHUNK" | "PARAMETER" | "CAUSE") {
            return self.raw_mismatch(actual);
        }
        if self.name != actual.name {
            return Some(format!("expected {}, not {}", self.name, actual.name));
        }
        for (key, expected) in &self.fields {
            if matches!(expected, Value::Any) {
                continue;
            }
            let Some(value) = actual.get(key) else {
                return Some(format!("{}: no {key}", self.name));
            };
            if !expected.fits(value) {
                return Some(match (expected, value) {
                    (Value::Nodes(wanted), Value::Nodes(there)) => list_mismatch(wanted, there)
                        .map_or_else(String::new, |what| format!("{}: {what}", self.name)),
                    _ => format!("{}: {key} is {value}, not {expected}", self.name),
                });
            }
        }
        list_mismatch(&self.items, &actual.items).map(|what| format!("{}: {what}", self.name))
    }

    fn raw_mismatch(&self, actual: &Self) -> Option<String> {
        let raw = actual.raw.as_ref()?;
        let bytes = Value::Bytes(raw.value.clone());
        for (key, expected) in &self.fields {
            let value = match key.as_str() {
                "type" | "code" => Value::Number(u64::from(raw.kind)),
                "flgs" => Value::Number(u64::from(raw.flags)),
                "len" => Value::Number(raw.length as u64),
                _ => bytes.clone(),
            };
            if !expected.fits(&value) {
                return Some(format!("{}: {key} is {value}, not {expected}", self.name));
            }
        }
        None
    }
}

/// The difference between an expected and a received list; a gap matches any number of nodes.
pub(crate) fn list_mismatch(expected: &[Item], actual: &[Item]) -> Option<String> {
    match (expected.split_first(), actual.split_first()) {
        (None, None) => None,
        (None, Some((Item::Node(node), _))) => Some(format!("an unexpected {}", node.name)),
        (None, Some((Item::Gap, _))) => None,
        (Some((Item::Gap, [])), _) => None,
        (Some((Item::Gap, rest)), _) => {
            let mut first = None;
            for skipped in 0..=actual.len() {
                let behind = actual.get(skipped..).unwrap_or_default();
                match list_mismatch(rest, behind) {
                    None => return None,
                    Some(what) => first = first.or(Some(what)),
                }
            }
            first
        }
        (Some((Item::Node(node), _)), None) => Some(format!("no {}", node.name)),
        (Some((Item::Node(wanted), rest)), Some((Item::Node(there), behind))) => {
            wanted.mismatch(there).or_else(|| list_mismatch(rest, behind))
        }
        (Some((Item::Node(_), _)), Some((Item::Gap, _))) => None,
    }
}

impl Value {
    fn fits(&self, actual: &Self) -> bool {
        match (self, actual) {
            (Self::Any, _) => true,
            (Self::Number(a), Self::Number(b)) => a == b,
            (Self::Range(low, high), Self::Number(b)) => (low..=high).contains(&b),
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::Address(a), Self::Address(b)) => a == b,
            (Self::Pair(a, b), Self::Pair(c, d)) | (Self::Stream(a, b), Self::Stream(c, d)) => {
                (a, b) == (c, d)
            }
            (Self::Skipped(a, b, c), Self::Skipped(d, e, f)) => (a, b, c) == (d, e, f),
            (Self::List(a), Self::List(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.fits(b))
            }
            (Self::Nodes(a), Self::Nodes(b)) => list_mismatch(a, b).is_none(),
            // The runner verifies every MAC of the engine.
            (Self::Mac { valid }, Self::Bytes(_)) => *valid,
            _ => false,
        }
    }
}

/// Number of bytes of a value that are shown.
const SHOWN: usize = 24;

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("..."),
            Self::Number(number) => number.fmt(f),
            Self::Range(low, high) => write!(f, "{low}~{high}"),
            Self::Address(address) => address.fmt(f),
            Self::Pair(a, b) => write!(f, "{a}:{b}"),
            Self::Stream(stream, ssn) => write!(f, "{{{stream},{ssn}}}"),
            Self::Skipped(stream, bits, mid) => write!(f, "{{{stream},{bits},{mid}}}"),
            Self::List(values) => {
                let shown: Vec<_> = values.iter().map(Self::to_string).collect();
                write!(f, "[{}]", shown.join(","))
            }
            Self::Nodes(items) => write!(f, "[{}]", Items(items)),
            Self::Mac { valid } => f.write_str(if *valid { "valid" } else { "wrong" }),
            Self::Cookie { tag, .. } => write!(f, "cookie({tag})"),
            Self::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) if !bytes.is_empty() && !text.chars().any(char::is_control) => {
                    let cut: String = text.chars().take(2 * SHOWN).collect();
                    let more = if cut.len() < text.len() { "..." } else { "" };
                    write!(f, "\"{cut}{more}\"")
                }
                _ => {
                    let shown: Vec<_> =
                        bytes.iter().take(SHOWN).map(|byte| format!("0x{byte:02x}")).collect();
                    let more = if bytes.len() > SHOWN { ",..." } else { "" };
                    write!(f, "[{}{more}]", shown.join(","))
                }
            },
        }
    }
}

struct Items<'a>(&'a [Item]);

impl fmt::Display for Items<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, item) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            match item {
                Item::Node(node) => node.fmt(f)?,
                Item::Gap => f.write_str("...")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.name)?;
        for (index, (key, value)) in self.fields.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            match value {
                Value::Number(flags) if key == "flgs" && *flags != 0 => {
                    write!(f, "flgs={}", crate::schema::flag_letters(&self.name, *flags))?;
                }
                _ => write!(f, "{key}={value}")?,
            }
        }
        if !self.fields.is_empty() && !self.items.is_empty() {
            f.write_str(", ")?;
        }
        write!(f, "{}]", Items(&self.items))
    }
}
