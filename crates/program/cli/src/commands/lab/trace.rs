//! `anabranch lab trace`.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anabranch::EventLog;
use anabranch_lab::metrics::METRICS;
use anabranch_lab::runner;
use anabranch_lab::scenario::{Library, Override};
use anabranch_lab::simulation;
use clap::Args;

use super::command_line::CommandLine;
use super::session;
use crate::failure::Failure;
use crate::output;

/// Look at one run: its packets, and a chart of sequence numbers, windows and timeouts
///
/// Takes the first point of the scenario, or the first one that --set leaves. Run N is the N-th run
/// of 'lab run', counted from 0.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch lab trace caro/2.5 --set policy=AllRtxAlt --set 'alternate_loss=10 %' --seed 7 \\
      --pcap run.pcapng --html run.html")]
pub(crate) struct Trace {
    /// A scenario, or a file
    #[arg(value_name = "ID")]
    id: String,
    /// Number of the run
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u32,
    /// Change a field, or choose a value of an axis
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = session::change)]
    changes: Vec<Override>,
    /// Write the sender's packets to this file, for Wireshark
    #[arg(long, value_name = "FILE.pcapng")]
    pcap: Option<PathBuf>,
    /// Write what the sender does and decides to this file; 'anabranch qlog' draws it
    #[arg(long, value_name = "FILE.qlog")]
    qlog: Option<PathBuf>,
    /// Write windows, round trips, timeouts and sequence numbers over time to this file
    #[arg(long, value_name = "FILE.csv")]
    csv: Option<PathBuf>,
    /// Write the charts to this file
    #[arg(long, value_name = "FILE.html")]
    html: Option<PathBuf>,
}

impl Trace {
    pub(super) fn run(self, library: &Library, directory: Option<&Path>) -> Result<(), Failure> {
        let scenario = library.load(&self.id, &self.changes).map_err(session::refused)?;
        let Some(point) = scenario.points.first() else {
            return Err(Failure::usage(format!("{} has no points", self.id)));
        };
        let seed = runner::seed(&scenario.id, &point.seed_key, self.seed as usize);
        let create = |file: &PathBuf| {
            File::create(file).map(BufWriter::new).map_err(|error| {
                Failure::failed(format!("{} cannot be written: {error}", file.display()))
            })
        };
        let capture = self.pcap.as_ref().map(create).transpose()?;
        let command = CommandLine::new("trace", directory)
            .words(&[scenario.argument()])
            .option("--seed", Some(self.seed.to_string()))
            .changes(&self.changes);
        let log = self.qlog.as_ref().map(|file| EventLog::new(file).title(command.text()));
        let made_by = command.provenance();
        let trace = simulation::trace(point, seed, capture, log).map_err(Failure::failed)?;
        let title = format!("{} at {}, run {}\n", scenario.id, point.key, self.seed);
        let mut text = output::filled(&title);
        let mut rows = vec![vec!["metric".to_owned(), "value".to_owned()]];
        for metric in METRICS.iter() {
            if let Some(value) = trace.metrics.get(&metric.name) {
                rows.push(vec![metric.name.clone(), format!("{value}")]);
            }
        }
        text.push_str(&output::table(&rows));
        text.push_str(&format!("fingerprint of all packets: {:016x}\n", trace.hash));
        if let Some(file) = &self.html {
            let title = format!("{} at {}", scenario.id, point.key);
            let page = trace.html(&title, &scenario, &made_by);
            session::write_file(file, &page)?;
        }
        if let Some(file) = &self.csv {
            session::write_file(file, trace.csv(&scenario, &made_by))?;
        }
        output::print(&text)
    }
}
