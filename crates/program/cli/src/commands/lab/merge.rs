//! `anabranch lab merge`.

use std::path::PathBuf;

use anabranch_lab::runner;
use clap::Args;

use super::session;
use crate::failure::Failure;
use crate::output;

/// Put results of several machines into one directory
///
/// Takes directories of 'anabranch lab run --out', whether complete or not, and files with results of 'anabranch lab
/// unit'. All is checked first: results of another engine are refused, and so are two results of the same run that
/// differ. Then the directory is as if one program had carried out everything.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch lab merge --out results shard-1 shard-2 shard-3
  anabranch lab merge --out results results.jsonl
  anabranch lab run caro/2.5 --out results    # uses them, and carries out what is missing")]
pub(crate) struct Merge {
    /// Directories and files with results
    #[arg(value_name = "FROM", required = true)]
    from: Vec<PathBuf>,
    /// The directory to put them into, which is created, or has results already
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

impl Merge {
    pub(super) fn run(self) -> Result<(), Failure> {
        let missing = self.from.iter().find(|place| !place.exists());
        if let Some(place) = missing {
            let name = place.display();
            return Err(Failure::failed(format!("there are no results to merge in {name}")));
        }
        let Some(store) = session::store(Some(&self.out))? else { return Ok(()) };
        let merged = runner::merge(&store, &self.from).map_err(Failure::failed)?;
        let count = |number: usize, noun| output::count(number as u64, noun);
        let (runs, points) = (count(merged.runs, "run"), count(merged.points, "point"));
        let text =
            format!("{runs} of {points} in {}, {} of them new\n", self.out.display(), merged.new);
        output::print(&text)
    }
}
