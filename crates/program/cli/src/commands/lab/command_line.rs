//! The command line that results carry: what the user asked for, without what changes no number (files, threads,
//! progress). So documents are the same for every value of `--jobs`, and wherever they are written.

use std::path::Path;

use anabranch_lab::provenance::Provenance;
use anabranch_lab::scenario::Override;
use clap::ValueEnum as _;

use super::session::RunOptions;
use crate::built;

/// A command line for a shell.
#[derive(Clone, Debug)]
pub(super) struct CommandLine(String);

impl CommandLine {
    /// A command of the laboratory, about scenarios in the directory that the user named.
    pub(super) fn new(command: &str, scenarios: Option<&Path>) -> Self {
        let directory = scenarios.map(|directory| directory.display().to_string());
        Self(format!("anabranch lab {command}")).option("--scenarios", directory)
    }

    pub(super) fn words(self, words: &[String]) -> Self {
        words.iter().fold(self, |line, word| line.word(word))
    }

    pub(super) fn option(self, name: &str, value: Option<String>) -> Self {
        match value {
            Some(value) => self.word(name).word(&value),
            None => self,
        }
    }

    pub(super) fn flag(self, name: &str, is_set: bool) -> Self {
        if is_set { self.word(name) } else { self }
    }

    pub(super) fn changes(self, changes: &[Override]) -> Self {
        let texts = changes.iter().map(|change| format!("{}={}", change.key, change.value));
        texts.fold(self, |line, change| line.option("--set", Some(change)))
    }

    /// The options that say how often and where everything is run.
    pub(super) fn runs(self, options: &RunOptions) -> Self {
        let on = options.on.and_then(|on| on.to_possible_value());
        self.option("--seeds", options.seeds.map(|seeds| seeds.to_string()))
            .option("--on", on.map(|on| on.get_name().to_owned()))
    }

    /// Adds a word, in quotes if a shell would change it.
    fn word(mut self, word: &str) -> Self {
        let is_plain = |c: char| c.is_alphanumeric() || "-_./=,:%+@".contains(c);
        self.0.push(' ');
        if !word.is_empty() && word.chars().all(is_plain) {
            self.0.push_str(word);
        } else {
            self.0.push_str(&format!("'{}'", word.replace('\'', "'\\''")));
        }
        self
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// What makes the results of this command.
    pub(super) fn provenance(self) -> Provenance {
        Provenance {
            program: format!("anabranch {}", built::VERSION),
            commit: built::COMMIT.to_owned(),
            command: self.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::lab::session::{On, change};

    #[test]
    fn a_command_line_can_be_given_to_a_shell() {
        let changes = ["loss=5 %", "association.pmr=0", "name=it's"].map(|c| change(c).unwrap());
        let options = RunOptions {
            seeds: Some(3),
            jobs: Some(7),
            on: Some(On::Emulator),
            out: Some("kept".into()),
            quiet: true,
        };
        let line = CommandLine::new("run", Some(Path::new("my files")))
            .words(&["a/1".to_owned(), "$x.toml".to_owned()])
            .changes(&changes)
            .runs(&options)
            .flag("--full", true)
            .flag("--null", false);
        let expected = "anabranch lab run --scenarios 'my files' a/1 '$x.toml' --set 'loss=5 %' \
                        --set association.pmr=0 --set 'name=it'\\''s' --seeds 3 --on emulator --full";
        assert_eq!(line.text(), expected);
        let made = CommandLine::new("run", None).provenance();
        assert_eq!(made.command, "anabranch lab run");
        assert!(made.program.starts_with("anabranch ") && !made.commit.is_empty());
    }
}
