//! `anabranch completions` and `anabranch man`: shell completions and man pages, generated from the
//! same definitions as `--help`.

mod manual;
mod values;

use std::path::PathBuf;

use clap::{Args, Command, CommandFactory as _};
use clap_complete::Shell;

use crate::failure::Failure;
use crate::{Program, line, output};

/// Print completions for a shell
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch completions bash >/etc/bash_completion.d/anabranch
  anabranch completions fish >~/.config/fish/completions/anabranch.fish")]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Write the man pages into a directory, one for each command
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch man /usr/local/share/man/man1")]
pub(crate) struct Man {
    /// The directory, created if missing
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// The command line with all of its options.
fn command() -> Command {
    line::shape(Program::command(), true)
}

impl Completions {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let mut script = Vec::new();
        let mut command = values::known(command());
        clap_complete::generate(self.shell, &mut command, "anabranch", &mut script);
        let script = values::completed(self.shell, &String::from_utf8_lossy(&script));
        output::print_bytes(script.as_bytes())
    }
}

impl Man {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        std::fs::create_dir_all(&self.directory)
            .and_then(|()| manual::write(command(), &self.directory))
            .map_err(|error| {
                let name = self.directory.display();
                Failure::failed(format!("man pages cannot be written to {name}: {error}"))
            })
    }
}
