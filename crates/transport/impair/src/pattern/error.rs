//! Errors in patterns, with their location.

use std::fmt;

/// Why a pattern was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternError {
    place: Place,
    reason: String,
}

/// The place of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The pattern was not read from a file.
    None,
    /// A line of a text, from 1.
    Line(usize),
    /// A byte of a binary file, from 0.
    Byte(usize),
    /// A pattern of a set, from 0.
    Pattern(usize),
}

impl PatternError {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self { place: Place::None, reason: reason.into() }
    }

    pub(crate) fn at_line(mut self, line: usize) -> Self {
        self.place = Place::Line(line);
        self
    }

    pub(crate) fn at_byte(mut self, byte: usize) -> Self {
        self.place = Place::Byte(byte);
        self
    }

    /// Adds the pattern's number and title.
    pub(crate) fn within(mut self, index: usize, title: &str) -> Self {
        self.place = Place::Pattern(index);
        self.reason = format!("pattern {} ({title}): {}", index + 1, self.reason);
        self
    }

    /// Its place.
    pub fn place(&self) -> Place {
        self.place
    }

    /// The error without its place.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Place::Line(line) => write!(f, "line {line}: {}", self.reason),
            Place::Byte(byte) => write!(f, "byte {byte}: {}", self.reason),
            Place::None | Place::Pattern(_) => f.write_str(&self.reason),
        }
    }
}

impl std::error::Error for PatternError {}
