//! `anabranch analyze`.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anabranch_analyze::{
    Analysis, ReadError, Report, Stopped, csv_head, csv_left_out, csv_row, html, text,
};
use clap::Args;
use serde::Serialize;

use crate::failure::{Failure, complain};
use crate::output::{filled, print, print_json};

/// Report what happened to TCP and SCTP in captures: losses, reordering, copies, flow by flow
///
/// Reads pcap and pcapng of any size in constant memory, also compressed by gzip; '-' is standard input. SCTP may be
/// in UDP, on any port if packets are whole. A flow is a connection of TCP, or an association of SCTP with all its
/// paths. Data that is out of sequence is classified: sent again (and why), reordered (how far and how late, RFC
/// 4737), copied by the network, or unknown. Keep-alives, window probes and window updates are counted separately.
/// Packets that belong to no flow are counted with the reason. docs/analyze.md has the rules. A truncated or damaged
/// file is read as far as possible (exit code 1).
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch analyze run.pcapng
  anabranch analyze monday.pcap tuesday.pcap --csv flows.csv --html report.html
  anabranch analyze run.pcapng --events out-of-sequence.csv --json
  tcpdump -i eth0 -c 10000 -w - | anabranch analyze -")]
pub(crate) struct Analyze {
    /// Captures, or '-' for standard input; flows continue from one to the next
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print a JSON document
    #[arg(long)]
    json: bool,
    /// Write a row for each flow
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write a row for all out-of-sequence data
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Write a page with distributions
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

#[derive(Serialize)]
struct Document<'a> {
    files: Vec<String>,
    /// Names of files that could not be read to the end.
    damaged: &'a [String],
    #[serde(flatten)]
    report: &'a Report,
}

/// A table that is being written.
struct Rows {
    path: PathBuf,
    out: BufWriter<File>,
    failed: Option<io::Error>,
}

type Shared = Rc<RefCell<Rows>>;

impl Rows {
    fn create(path: &Path, head: &str) -> Result<Shared, Failure> {
        let file = File::create(path).map_err(|error| failed(path, &error))?;
        let mut rows = Self { path: path.to_owned(), out: BufWriter::new(file), failed: None };
        rows.row(head);
        Ok(Rc::new(RefCell::new(rows)))
    }

    fn row(&mut self, row: &str) {
        if self.failed.is_none()
            && let Err(error) = writeln!(self.out, "{row}")
        {
            self.failed = Some(error);
        }
    }

    fn finish(&mut self) -> Result<(), Failure> {
        let ended = match self.failed.take() {
            Some(error) => Err(error),
            None => self.out.flush(),
        };
        ended.map_err(|error| failed(&self.path, &error))
    }
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("{} cannot be written: {error}", path.display()))
}

const EVENTS: &str = "packet,time_ns,interface,from,to,identification,start,class,extent,late_ns";

/// Reads a capture from a file or from standard input.
fn read(analysis: &mut Analysis, path: &Path) -> Result<Result<Stopped, ReadError>, Failure> {
    Ok(match open(path)? {
        Some(file) => analysis.read(file),
        None => analysis.read(io::stdin()),
    })
}

/// `None` for standard input.
fn open(path: &Path) -> Result<Option<File>, Failure> {
    if path.as_os_str() == "-" {
        return Ok(None);
    }
    let file = File::open(path);
    file.map(Some)
        .map_err(|error| Failure::failed(format!("{} cannot be read: {error}", path.display())))
}

impl Analyze {
    pub(crate) fn run(self) -> Result<(), Failure> {
        // Check that all captures can be opened before existing output files are truncated.
        self.files.iter().try_for_each(|path| open(path).map(drop))?;
        let mut analysis = Analysis::new();
        let (mut tables, mut flows) = (Vec::new(), None);
        if let Some(path) = &self.csv {
            let rows = Rows::create(path, &csv_head())?;
            tables.push(Rc::clone(&rows));
            flows = Some(Rc::clone(&rows));
            analysis = analysis.on_flow(move |flow| rows.borrow_mut().row(&csv_row(flow)));
        }
        if let Some(path) = &self.events {
            let rows = Rows::create(path, EVENTS)?;
            tables.push(Rc::clone(&rows));
            analysis = analysis.on_event(move |event| {
                let identification = event.identification.map(|id| id.to_string());
                rows.borrow_mut().row(&format!(
                    "{},{},{},{},{},{},{},{},{},{}",
                    event.packet,
                    event.time,
                    event.interface,
                    event.from,
                    event.to,
                    identification.unwrap_or_default(),
                    event.start,
                    event.found.class.name(),
                    event.found.extent,
                    event.found.late
                ));
            });
        }
        let mut damaged = Vec::new();
        for path in &self.files {
            let name = path.display();
            match read(&mut analysis, path)? {
                Ok(Stopped::End) => {}
                Ok(Stopped::Damaged(at, reason)) => {
                    damaged.push(format!("{name}, byte {at}: {reason}"));
                }
                Err(error) => return Err(Failure::failed(format!("{name}: {error}"))),
            }
        }
        let report = analysis.finish();
        if let Some(rows) = &flows {
            csv_left_out(&report).iter().for_each(|row| rows.borrow_mut().row(row));
        }
        for table in tables {
            table.borrow_mut().finish()?;
        }
        let files: Vec<String> = self.files.iter().map(|path| path.display().to_string()).collect();
        if let Some(path) = &self.html {
            std::fs::write(path, html(&files.join(", "), &report))
                .map_err(|error| failed(path, &error))?;
        }
        if self.json {
            print_json(&Document { files, damaged: &damaged, report: &report })?;
        } else {
            print(&filled(&text(&report)))?;
        }
        for what in &damaged {
            complain(what);
        }
        if damaged.is_empty() { Ok(()) } else { Err(Failure::Reported) }
    }
}
