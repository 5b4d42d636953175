//! `anabranch lab new`.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anabranch_lab::scenario::{Library, Scenario};
use clap::Args;

use super::session;
use crate::failure::Failure;
use crate::output;

/// Write a scenario with comments, as a starting point for your own
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch lab new my.toml
  anabranch lab run my.toml
  anabranch lab new --from caro/2.5 mine.toml")]
pub(crate) struct New {
    /// The file to write; an existing file is not overwritten
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,
    /// Begin with a copy of this scenario
    #[arg(long, value_name = "ID")]
    from: Option<String>,
}

impl New {
    pub(super) fn run(self, scenarios: Option<PathBuf>) -> Result<(), Failure> {
        let mut file = self.file;
        if file.extension().is_none() {
            file.set_extension("toml");
        }
        if file.extension().is_none_or(|extension| extension != "toml") {
            return Err(Failure::usage(format!("{} does not end in .toml", file.display())));
        }
        let text = match &self.from {
            Some(id) => copied(&session::library(scenarios)?, id, &file)?,
            None => include_str!("new.toml").to_owned(),
        };
        let unwritable =
            |error| Failure::failed(format!("{} cannot be written: {error}", file.display()));
        let mut out =
            OpenOptions::new().write(true).create_new(true).open(&file).map_err(unwritable)?;
        out.write_all(text.as_bytes()).map_err(unwritable)?;
        let name = file.display();
        output::print(&format!(
            "{name} is written. What next:\n\
             \x20 anabranch lab run {name}                     # tables\n\
             \x20 anabranch lab run {name} --csv runs.csv      # one row a run\n\
             \x20 anabranch lab expect {name} --why 'a guess'  # writes down what is expected\n\
             \x20 anabranch lab check {name}                   # whether it is so\n\
             \x20 anabranch lab report {name} --html my.html   # charts\n"
        ))
    }
}

/// Settings at the head of a scenario that name another file, which the copy does not include.
const OF_FILES: [&str; 2] = ["reference", "reference_within"];

/// The text of a scenario as a standalone file.
fn copied(library: &Library, id: &str, file: &Path) -> Result<String, Failure> {
    let ids = library.expand(&[id.to_owned()]).map_err(session::refused)?;
    let [only] = &ids[..] else {
        return Err(Failure::usage(format!("'{id}' is {} scenarios: name one of them", ids.len())));
    };
    let place = library.file(only);
    let original = anabranch_units::read_text(&place, anabranch_units::MOST_TEXT)
        .map_err(|error| Failure::failed(format!("{} cannot be read: {error}", place.display())))?;
    let mut text = format!("# Copied from {only}.\n");
    let mut at_head = true;
    for line in original.lines() {
        at_head &= !line.starts_with('[');
        let key = line.split('=').next().unwrap_or_default().trim();
        if !(at_head && OF_FILES.contains(&key)) {
            text.push_str(line);
            text.push('\n');
        }
    }
    let name = file.with_extension("");
    let name = name.file_name().unwrap_or_default().display().to_string();
    Scenario::read(&text, file, &name, &[]).map_err(|problem| {
        let reason = problem.reason;
        Failure::failed(format!("{only} cannot be copied to {}: {reason}", file.display()))
    })?;
    Ok(text)
}
