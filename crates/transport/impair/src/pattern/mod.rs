//! Patterns: the predetermined fate of each packet, or of all packets of a millisecond.
//!
//! A random model determines how often something happens; a pattern determines to which packets it
//! happens. With the same pattern, the same packets have the same fate regardless of their
//! contents, in simulations, on sockets and in the emulator. `docs/patterns.md` describes the file
//! formats.

mod binary;
mod draw;
mod error;
mod facts;
mod filter;
mod generate;
mod load;
mod presets;
mod runs;
mod state;
mod text;
mod trace;
mod trigger;
mod value;

use std::sync::Arc;

pub use self::draw::{Drawing, draw_svg, draw_text};
pub use self::error::{PatternError, Place};
pub use self::facts::{Facts, FlowKey};
pub use self::filter::Filter;
pub use self::generate::{bernoulli, every, gilbert_elliott, positions, span};
pub use self::load::load;
pub use self::presets::{PRESETS, Preset};
pub use self::runs::{MAX_ENCODED, Runs, RunsBuilder};
pub(crate) use self::state::{Director, Marks, Verdict};
pub use self::trace::{csv, mahimahi};
pub use self::trigger::{Action, Trigger};
pub use self::value::Kind;

/// How long a displaced packet waits for those that are to pass it, unless its pattern sets another
/// time: 1 s.
pub const DEFAULT_WAIT: u64 = 1_000_000_000;

/// The unit that each value of a pattern applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Basis {
    /// Each packet that the filter matches.
    Packet,
    /// Each millisecond.
    Millisecond,
}

/// When a pattern starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Start {
    /// With the first packet that its filter matches.
    #[default]
    First,
    /// With the packet of this number, from 1, among those that its filter matches.
    Packet(u64),
    /// At a time of the link's clock, in nanoseconds.
    At(u64),
    /// When a trigger switches to it.
    Switch,
}

/// What happens after the last value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum End {
    /// Nothing: the link's configuration applies.
    #[default]
    Stop,
    /// The last value, forever.
    Hold,
    /// The first value again.
    Repeat,
}

/// One pattern: a kind of effect, and its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Free text for reports and triggers; unique in its set.
    pub name: Option<String>,
    /// The effect.
    pub kind: Kind,
    /// What each value applies to.
    pub basis: Basis,
    /// Selects the packets that the pattern counts.
    pub filter: Filter,
    /// When it starts.
    pub start: Start,
    /// What happens after the last value.
    pub end: End,
    /// For delays: whether a packet with a shorter delay overtakes earlier packets.
    pub overtake: bool,
    /// For displacements: how long a packet waits at most for those that are to pass it, in
    /// nanoseconds.
    pub wait: u64,
    /// The values; their meaning depends on the kind (`Kind`).
    pub values: Runs,
    /// For bit errors: the lists of bits that values refer to, numbered from 1.
    pub bits: Vec<Vec<i64>>,
    /// For triggers: the actions and their times.
    pub triggers: Vec<Trigger>,
}

impl Pattern {
    /// A pattern of this kind for all packets, starting with the first, without values yet.
    pub fn new(kind: Kind, basis: Basis) -> Self {
        Self {
            name: None,
            kind,
            basis,
            filter: Filter::default(),
            start: Start::First,
            end: End::Stop,
            overtake: false,
            wait: DEFAULT_WAIT,
            values: Runs::default(),
            bits: Vec::new(),
            triggers: Vec::new(),
        }
    }

    /// Sets the values.
    #[must_use]
    pub fn values(mut self, values: Runs) -> Self {
        self.values = values;
        self
    }

    /// Sets what happens after the last value.
    #[must_use]
    pub fn end(mut self, end: End) -> Self {
        self.end = end;
        self
    }

    /// Its length in packets or milliseconds; for triggers the position of the last one.
    pub fn length(&self) -> u64 {
        match self.kind {
            Kind::Trigger => self.triggers.last().map_or(0, |trigger| match self.basis {
                Basis::Packet => trigger.at,
                Basis::Millisecond => trigger.at.div_ceil(1_000_000),
            }),
            _ => self.values.len(),
        }
    }

    /// Its name, or its kind if it has none.
    pub fn title(&self) -> &str {
        self.name.as_deref().unwrap_or(self.kind.name())
    }

    /// Checks that the pattern is consistent.
    fn validate(&self) -> Result<(), PatternError> {
        let wrong = |reason: String| Err(PatternError::new(reason));
        let kind = self.kind.name();
        if self.kind == Kind::Trigger {
            if self.triggers.is_empty() {
                return wrong("the pattern has no trigger".into());
            }
            if self.end != End::Stop {
                return wrong("triggers happen once: they neither hold nor repeat".into());
            }
            return Ok(());
        }
        if self.values.is_empty() {
            return wrong(format!("the {kind} pattern is too short: it has no value"));
        }
        if self.kind == Kind::Rate && !self.filter.is_any() && self.basis == Basis::Millisecond {
            return wrong("a rate per ms holds for the whole link: it has no filter".into());
        }
        if self.kind == Kind::Displace && self.basis == Basis::Millisecond {
            return wrong("displacements count packets: they are per packet".into());
        }
        if self.start == Start::Packet(0) {
            return wrong("packets count from 1".into());
        }
        for (value, _) in self.values.iter() {
            if let Err(reason) = self.kind.check(value, self.basis, self.bits.len()) {
                return wrong(reason);
            }
        }
        Ok(())
    }
}

/// The patterns of one direction of a link, in the order of evaluation. Among patterns of the same
/// kind, the first one whose filter matches a packet applies. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patterns(Arc<[Pattern]>);

impl Patterns {
    /// Creates a set of patterns, and checks each of them and all together.
    ///
    /// # Errors
    /// Fails if a pattern has no values, values that are invalid for its kind, or the name of
    /// another pattern, if a pattern can never apply, or if a trigger switches to a missing
    /// pattern.
    pub fn new(list: Vec<Pattern>) -> Result<Self, PatternError> {
        for (index, pattern) in list.iter().enumerate() {
            let located = |error: PatternError| error.within(index, pattern.title());
            pattern.validate().map_err(located)?;
            let same = |other: &&Pattern| other.name == pattern.name;
            if pattern.name.is_some() && list.iter().filter(same).count() > 1 {
                return Err(located(PatternError::new("two patterns have this name")));
            }
            let hides = |above: &&Pattern| {
                above.kind == pattern.kind
                    && pattern.kind != Kind::Trigger
                    && above.start != Start::Switch
                    && pattern.start != Start::Switch
                    && (above.filter.is_any() || above.filter == pattern.filter)
            };
            if list.iter().take(index).any(|above| hides(&above)) {
                let reason = format!(
                    "contradiction: a {} pattern above is for all packets that this one is for",
                    pattern.kind.name()
                );
                return Err(located(PatternError::new(reason)));
            }
            for trigger in &pattern.triggers {
                if let Action::Switch(name) = &trigger.action
                    && !list.iter().any(|p| p.name.as_ref() == Some(name))
                {
                    let reason = format!("there is no pattern named '{name}' to switch to");
                    return Err(located(PatternError::new(reason)));
                }
            }
        }
        Ok(Self(list.into()))
    }

    /// Reads a file in either format.
    ///
    /// # Errors
    /// Returns a description of the error, with its line, or its byte in a binary file.
    pub fn read(bytes: &[u8]) -> Result<Self, PatternError> {
        if binary::is_binary(bytes) {
            return binary::read(bytes);
        }
        let text = std::str::from_utf8(bytes).map_err(|error| {
            PatternError::new("this is neither a text nor a binary pattern")
                .at_byte(error.valid_up_to())
        })?;
        text::read(text)
    }

    /// The patterns in the text format.
    pub fn to_text(&self) -> String {
        text::write(self)
    }

    /// The patterns in the binary format.
    pub fn to_binary(&self) -> Vec<u8> {
        binary::write(self)
    }

    /// The patterns.
    pub fn list(&self) -> &[Pattern] {
        &self.0
    }

    /// Whether there are no patterns.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether any filter tests more than the size of packets.
    pub(crate) fn need_facts(&self) -> bool {
        self.0.iter().any(|pattern| pattern.filter.needs_facts())
    }

    /// Whether any pattern sets a rate per millisecond.
    pub(crate) fn has_rates(&self) -> bool {
        let drives = |p: &Pattern| p.kind == Kind::Rate && p.basis == Basis::Millisecond;
        self.0.iter().any(drives)
    }

    /// Whether any trigger runs a command, which only the emulator supports.
    pub fn run_commands(&self) -> bool {
        let mut triggers = self.0.iter().flat_map(|pattern| &pattern.triggers);
        triggers.any(|trigger| matches!(trigger.action, Action::Run(_)))
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Patterns {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_text())
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Patterns {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <String as serde::Deserialize>::deserialize(deserializer)?;
        if text.is_empty() {
            return Ok(Self::default());
        }
        text::read(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
