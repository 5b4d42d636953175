//! `anabranch pattern convert`.

use std::path::PathBuf;

use clap::Args;

use crate::failure::Failure;

/// Convert patterns to the other format: text for people, binary for long ones
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch pattern convert long.pattern long.bin
  anabranch pattern convert long.bin")]
pub(crate) struct Convert {
    /// A file of either format
    from: PathBuf,
    /// The new file, binary if its name ends in .bin; otherwise text to standard output
    to: Option<PathBuf>,
    /// Write binary, whatever the name
    #[arg(long)]
    binary: bool,
}

impl Convert {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let patterns = super::read(&self.from)?;
        super::write(&patterns, self.to.as_ref(), self.binary || is_binary(self.to.as_ref()))
    }
}

/// Whether a name is that of a binary file.
pub(super) fn is_binary(path: Option<&PathBuf>) -> bool {
    path.and_then(|path| path.extension()).is_some_and(|extension| extension == "bin")
}
