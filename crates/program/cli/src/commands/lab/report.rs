//! `anabranch lab report`.

use std::path::{Path, PathBuf};

use anabranch_lab::check::{self, Mode};
use anabranch_lab::provenance::Provenance;
use anabranch_lab::reference;
use anabranch_lab::report::{self, Section};
use anabranch_lab::scenario::{Library, Override, Scenario};
use clap::Args;

use super::command_line::CommandLine;
use super::session::{self, RunOptions};
use crate::failure::Failure;
use crate::output;

/// Write one HTML page with charts, claims and reference numbers
///
/// Missing results are run first: every point as often as the scenario says, or --seeds times, or
/// with --decided only as often as the verdicts need. With --out, the results stored there are
/// used.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch lab report caro --out results --html report.html
  anabranch lab report caro/2.5 --seeds 10 --html figure.html
  anabranch lab report my.toml --set association.pmr=0 --html my.html")]
pub(crate) struct Report {
    /// Documents, scenarios or files [default: all]
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    #[command(flatten)]
    options: RunOptions,
    /// Change a field, or narrow an axis to these values (VALUE,VALUE)
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = session::change)]
    changes: Vec<Override>,
    /// Run only as much as the verdicts of the claims need
    #[arg(long, conflicts_with = "seeds")]
    decided: bool,
    /// Draw the runs themselves, too: box plots, and the distribution at each point
    #[arg(long)]
    distributions: bool,
    /// Also write the charts as SVG pictures into this directory, which is created
    #[arg(long, value_name = "DIR")]
    pictures: Option<PathBuf>,
    /// The page to write
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    html: PathBuf,
}

impl Report {
    /// The scenarios to report.
    pub(super) fn scenarios(&self, library: &Library) -> Result<Vec<Scenario>, Failure> {
        session::load_or_all(library, &self.ids, &self.options.with_changes(&self.changes))
    }

    fn made_by(&self, directory: Option<&Path>) -> Provenance {
        CommandLine::new("report", directory)
            .words(&self.ids)
            .changes(&self.changes)
            .runs(&self.options)
            .flag("--decided", self.decided)
            .flag("--distributions", self.distributions)
            .provenance()
    }

    pub(super) async fn run(
        self,
        library: Library,
        directory: Option<&Path>,
    ) -> Result<(), Failure> {
        let scenarios = self.scenarios(&library)?;
        let made_by = self.made_by(directory);
        if let Some(directory) = &self.pictures {
            std::fs::create_dir_all(directory).map_err(|error| {
                let name = directory.display();
                Failure::failed(format!("the directory {name} cannot be made: {error}"))
            })?;
        }
        crate::outputs::check(&[("--html", Some(&self.html))])?;
        let seeds = self.options.seeds.map(|seeds| seeds as usize);
        let (decided, distributions) = (self.decided, self.distributions);
        let sections = self
            .options
            .with_runner(move |runner, progress| {
                let mut sections = Vec::new();
                for scenario in scenarios {
                    progress.title(&scenario.id);
                    let references = reference::load(&scenario).map_err(session::refused)?;
                    let changes = check::changes(&scenario).map_err(Failure::failed)?;
                    let mut results = runner.load(&scenario).map_err(session::failed)?;
                    let mode = match (decided, seeds) {
                        (true, _) => Mode::Sequential,
                        (false, Some(seeds)) => Mode::Fixed(seeds),
                        (false, None) => Mode::Full,
                    };
                    let done = match decided {
                        true => Ok(()),
                        false => runner.complete(&scenario, &mut results, seeds),
                    };
                    let judged = done.and_then(|()| {
                        check::check(runner, &scenario, &mut results, &references, mode)
                    });
                    progress.finish();
                    let judgements = judged.map_err(session::failed)?;
                    let agreement = match references.is_empty() {
                        true => None,
                        false => Some(check::agreement(&scenario, &results, &references)),
                    };
                    sections.push(Section {
                        scenario,
                        results,
                        references,
                        agreement,
                        judgements,
                        changes,
                        distributions,
                    });
                }
                Ok(sections)
            })
            .await?;
        if let Some(directory) = &self.pictures {
            for (name, svg) in sections.iter().flat_map(report::pictures) {
                session::write_file(&directory.join(format!("{name}.svg")), &svg)?;
            }
        }
        let page = report::html(&sections, &made_by);
        session::write_file(&self.html, &page)?;
        let count = match sections.len() {
            1 => "1 scenario".to_owned(),
            count => format!("{count} scenarios"),
        };
        output::print(&format!("{count} in {}\n", self.html.display()))
    }
}
