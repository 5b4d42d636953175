//! `anabranch lab new`.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;

use crate::failure::Failure;
use crate::output;

/// Write a scenario with comments, as a beginning for one of your own
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch lab new my.toml
  anabranch lab run my.toml")]
pub(crate) struct New {
    /// The file to write; nothing that is there is overwritten
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,
}

impl New {
    pub(super) fn run(self) -> Result<(), Failure> {
        let mut file = self.file;
        if file.extension().is_none() {
            file.set_extension("toml");
        }
        if file.extension().is_none_or(|extension| extension != "toml") {
            return Err(Failure::usage(format!("{} does not end in .toml", file.display())));
        }
        let unwritable =
            |error| Failure::failed(format!("{} cannot be written: {error}", file.display()));
        let mut out =
            OpenOptions::new().write(true).create_new(true).open(&file).map_err(unwritable)?;
        out.write_all(include_str!("new.toml").as_bytes()).map_err(unwritable)?;
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
