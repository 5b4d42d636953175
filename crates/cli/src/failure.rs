//! How the program ends when it does not succeed.

use std::fmt::Display;
use std::process::ExitCode;

use clap::error::ErrorKind;

/// Why a command did not succeed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// What was asked for failed: exit code 1.
    Failed(String),
    /// The command line makes no sense: exit code 2.
    Usage(String),
    /// The user stopped it: exit code 130, as shells have it for SIGINT.
    Interrupted,
    /// The user stopped it, and there is more to say of it: exit code 130 as well.
    Stopped(String),
    /// Exit code 1; everything has been said already.
    Reported,
}

impl Failure {
    pub(crate) fn failed(sentence: impl Display) -> Self {
        Self::Failed(sentence.to_string())
    }

    pub(crate) fn usage(sentence: impl Display) -> Self {
        Self::Usage(sentence.to_string())
    }

    /// Says the sentence and gives the exit code.
    pub(crate) fn report(self) -> ExitCode {
        match self {
            Self::Failed(sentence) => {
                complain(&sentence);
                ExitCode::from(1)
            }
            Self::Usage(sentence) => {
                complain(&sentence);
                ExitCode::from(2)
            }
            Self::Interrupted => {
                complain("interrupted");
                ExitCode::from(130)
            }
            Self::Stopped(sentence) => {
                complain(&sentence);
                ExitCode::from(130)
            }
            Self::Reported => ExitCode::from(1),
        }
    }
}

/// One sentence on standard error.
pub(crate) fn complain(sentence: &str) {
    use std::io::Write as _;
    // Nothing is left to tell it to if standard error is closed.
    let _ = writeln!(std::io::stderr(), "anabranch: {sentence}");
}

/// Help and version are printed as they are; of a mistake, one sentence and where to look.
pub(crate) fn from_clap(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A closed pipe behind --help is not a failure.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(2)
        }
        _ => {
            complain(&format!("{}; see --help", sentence(&error.to_string())));
            ExitCode::from(2)
        }
    }
}

/// The first paragraph of clap's message on one line.
fn sentence(message: &str) -> String {
    let paragraph = message.split("\n\n").next().unwrap_or_default();
    let line = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_paragraph_becomes_a_sentence() {
        let message = "error: these are missing:\n  <URL>...\n\nUsage: x\n\nFor more, try\n";
        assert_eq!(sentence(message), "these are missing: <URL>...");
    }
}
