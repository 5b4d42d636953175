//! Failures of scripts, with their places.

use std::fmt;
use std::sync::Arc;

/// A place in a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name of the file.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// The kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The script is invalid, or uses something that is not supported.
    Script,
    /// The engine's behaviour differs from the script.
    Behaviour,
}

/// Why a script did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// The place.
    pub place: Place,
    /// A description in one sentence.
    pub message: String,
    /// More lines: what was expected, what was received, and the packets around it.
    pub details: Vec<String>,
}

impl Failure {
    /// The script itself is invalid.
    pub(crate) fn script(place: &Place, message: impl Into<String>) -> Self {
        let (place, message) = (place.clone(), message.into());
        Self { kind: FailureKind::Script, place, message, details: Vec::new() }
    }

    /// The engine behaved differently.
    pub(crate) fn behaviour(place: &Place, message: impl Into<String>) -> Self {
        Self { kind: FailureKind::Behaviour, ..Self::script(place, message) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)?;
        for line in &self.details {
            write!(f, "\n    {line}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}
