//! Errors of options.

use std::fmt;

/// An option that is out of its range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The option's name.
    pub option: &'static str,
    /// The valid values: the rest of a sentence that starts with the name.
    pub expected: String,
}

impl ConfigError {
    pub(crate) fn new(option: &'static str, expected: impl Into<String>) -> Self {
        Self { option, expected: expected.into() }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.option, self.expected)
    }
}

impl std::error::Error for ConfigError {}
