//! How the program ends if it does not succeed.

use std::fmt::Display;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::output::{error_width, folded, print_error, printable};

/// Why a command did not succeed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The requested action failed, or a file is invalid: exit code 1.
    Failed(String),
    /// The command line is invalid: exit code 2.
    Usage(String),
    /// The user stopped it: exit code 130, the shell convention for SIGINT.
    Interrupted,
    /// The user stopped it, and there is a message about it: also exit code 130.
    Stopped(String),
    /// Everything has been reported already: exit code 1.
    Reported,
    /// A program that was run has reported everything; this is its exit code.
    #[cfg(target_os = "linux")]
    Exit(u8),
}

impl Failure {
    pub(crate) fn failed(sentence: impl Display) -> Self {
        Self::Failed(sentence.to_string())
    }

    pub(crate) fn usage(sentence: impl Display) -> Self {
        Self::Usage(sentence.to_string())
    }

    /// The error message, unless it has been printed already, and the exit code.
    pub(crate) fn told(&self) -> (Option<&str>, u8) {
        match self {
            Self::Failed(sentence) => (Some(sentence), 1),
            Self::Usage(sentence) => (Some(sentence), 2),
            Self::Interrupted => (Some("interrupted"), 130),
            Self::Stopped(sentence) => (Some(sentence), 130),
            Self::Reported => (None, 1),
            #[cfg(target_os = "linux")]
            Self::Exit(code) => (None, *code),
        }
    }

    /// Prints the message and returns the exit code.
    pub(crate) fn report(self) -> ExitCode {
        let (sentence, code) = self.told();
        if let Some(sentence) = sentence {
            complain(sentence);
        }
        ExitCode::from(code)
    }
}

/// Prints one sentence to standard error.
pub(crate) fn complain(sentence: &str) {
    print_error(said(sentence, error_width()).as_bytes());
}

/// The sentence as it is printed, wrapped for a terminal of this width.
fn said(sentence: &str, width: Option<usize>) -> String {
    folded(&format!("anabranch: {}\n", printable(sentence)), width)
}

/// Prints help and version; anything else is a mistake in the command line.
pub(crate) fn from_clap(error: &clap::Error) -> Result<ExitCode, Failure> {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // If the pipe that --help writes to is closed, that is not a failure.
            let _ = error.print();
            Ok(ExitCode::SUCCESS)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            Ok(ExitCode::from(2))
        }
        _ => Err(Failure::Usage(wrong_usage(error))),
    }
}

/// A sentence about a mistake in the command line, and where to find help.
fn wrong_usage(error: &clap::Error) -> String {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    if let (ErrorKind::UnknownArgument, Some(value)) = (error.kind(), text(ContextKind::InvalidArg))
        && value
            .strip_prefix('-')
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    {
        return "negative values are not accepted here; see --help".to_owned();
    }
    format!("{}; see --help", mistake(error)).replace("?; see", "? See")
}

/// Describes a mistake in the command line in one sentence.
pub(crate) fn mistake(error: &clap::Error) -> String {
    // Replaces the standard library's message for text that is not a number.
    let message =
        error.to_string().replace("invalid digit found in string", "this is not a whole number");
    let mut sentence = sentence(&message);
    let similar =
        [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::SuggestedValue];
    let similar = similar.into_iter().find_map(|kind| match error.get(kind)? {
        ContextValue::String(one) => Some(one.clone()),
        ContextValue::Strings(several) => several.first().cloned(),
        _ => None,
    });
    if let Some(similar) = similar {
        sentence.push_str(&format!("; did you mean '{similar}'?"));
    }
    sentence
}

/// The first paragraph of clap's message, on one line.
fn sentence(message: &str) -> String {
    let paragraph = message.split("\n\n").next().unwrap_or_default();
    let line = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_broken_for_terminals_only() {
        assert_eq!(said("a file is missing", None), "anabranch: a file is missing\n");
        assert_eq!(said("a file is missing", Some(20)), "anabranch: a file is\nmissing\n");
    }

    #[test]
    fn the_first_paragraph_becomes_a_sentence() {
        let message = "error: these are missing:\n  <URL>...\n\nUsage: x\n\nFor more, try\n";
        assert_eq!(sentence(message), "these are missing: <URL>...");
    }
}
