//! `anabranch pattern`: creates and shows patterns, which determine the fate of each packet.

mod captures;
mod check;
mod convert;
mod new;
mod run;
mod show;

use std::path::{Path, PathBuf};

use anabranch_impair::pattern::{Patterns, load};
use clap::{Args, Subcommand};

use crate::failure::Failure;
use crate::output::{print_bytes, print_data};

/// Create and examine patterns: which packets are lost, delayed, reordered, and when
///
/// A pattern says what happens to each packet, or to every packet in a millisecond. Impairment
/// files, scenarios and the emulator use patterns with 'pattern = FILE'; docs/patterns.md has the
/// formats.
#[derive(Debug, Args)]
pub(crate) struct Pattern {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    New(Box<new::New>),
    Show(show::Show),
    Convert(convert::Convert),
    Check(check::Check),
}

impl Pattern {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::New(command) => command.run(),
            Command::Show(command) => command.run(),
            Command::Convert(command) => command.run(),
            Command::Check(command) => command.run(),
        }
    }
}

/// The bytes of a file.
fn bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    load(path).map_err(|reason| Failure::failed(format!("{} {reason}", path.display())))
}

/// The text of a file.
fn text(path: &Path) -> Result<String, Failure> {
    String::from_utf8(bytes(path)?)
        .map_err(|_| Failure::failed(format!("{} is not text", path.display())))
}

/// The patterns in a file of either format.
fn read(path: &Path) -> Result<Patterns, Failure> {
    let bytes = bytes(path)?;
    Patterns::read(&bytes).map_err(|error| Failure::failed(format!("{}, {error}", path.display())))
}

/// Writes patterns to a file, or as text to standard output.
fn write(patterns: &Patterns, out: Option<&PathBuf>, binary: bool) -> Result<(), Failure> {
    match (out, binary) {
        (Some(path), true) => save(path, &patterns.to_binary()),
        (Some(path), false) => save(path, patterns.to_text().as_bytes()),
        (None, true) => print_bytes(&patterns.to_binary()),
        (None, false) => print_data(&patterns.to_text()),
    }
}

fn save(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, bytes)
        .map_err(|error| Failure::failed(format!("{} cannot be written: {error}", path.display())))
}
