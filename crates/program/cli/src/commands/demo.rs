//! `anabranch demo`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::demo::{Conditions, MOST_PICTURES, Way, cut_report, headless, serve};
use crate::failure::Failure;
use crate::output::{filled, print, printable_json, with_schema};

/// Show how a page of pictures arrives over SCTP streams, TCP and HTTP/3
///
/// Serves a page for browsers on this host. It carries the same page of ten progressive JPEGs with the
/// code that goes on the wire, over links that are as slow, distant and lossy as the sliders say. This
/// is computed in virtual time, without a network or privileges, and replayed. A second page, cut.html,
/// has a file on its way over two paths, and buttons that cut them. A third one, gateway.html, has both sides of
/// `anabranch gateway` in this process and downloads a file over two slow links, with real packets and the same buttons.
/// With --headless the times are printed, for several loss rates and seeds, or for a cut.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch demo
  anabranch demo --headless
  anabranch demo --headless --cut 3
  anabranch demo --headless --loss 0,4.3 --seeds 20 --json -")]
pub(crate) struct Demo {
    /// Address and port of the page
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8132", value_parser = crate::address::socket)]
    listen: SocketAddr,
    /// Print the times without serving anything
    #[arg(long)]
    headless: bool,
    /// Write them as one JSON document; '-' is standard output
    #[arg(long, value_name = "FILE", requires = "headless")]
    json: Option<PathBuf>,
    /// Packets lost in each direction, in percent
    #[arg(
        long,
        value_name = "PERCENT[,...]",
        value_delimiter = ',',
        default_value = "0,4.3",
        value_parser = number,
        requires = "headless"
    )]
    loss: Vec<f64>,
    /// Runs of each, with the seeds 1 to N
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=10_000), requires = "headless")]
    seeds: u64,
    /// Rate of both directions, in kbit/s
    #[arg(long, value_name = "KBIT", default_value_t = 56.0, value_parser = number, requires = "headless")]
    rate: f64,
    /// Round-trip time of the links, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1080.0, value_parser = number, requires = "headless")]
    rtt: f64,
    /// Pictures of the page
    #[arg(long, value_name = "N", default_value_t = MOST_PICTURES, value_parser = clap::value_parser!(u16).range(1..=i64::from(MOST_PICTURES)), requires = "headless")]
    objects: u16,
    /// Streams of the association
    #[arg(long, value_name = "N", default_value_t = MOST_PICTURES, value_parser = clap::value_parser!(u16).range(1..=64), requires = "headless")]
    streams: u16,
    /// Cut the first of two paths in the middle of a file of 12 MB, this many seconds after the start
    #[arg(
        long,
        value_name = "SECONDS",
        value_parser = number,
        requires = "headless",
        conflicts_with_all = ["loss", "seeds", "rate", "rtt", "objects", "streams", "jobs"]
    )]
    cut: Option<f64>,
    /// Repair it this many seconds after the start
    #[arg(long, value_name = "SECONDS", value_parser = number, requires = "cut")]
    repair: Option<f64>,
    /// Threads [default: one for each core]
    #[arg(long, value_name = "N", requires = "headless")]
    jobs: Option<usize>,
}

fn number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| format!("'{text}' is not a number"))
}

impl Demo {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        if !self.headless {
            return serve(self.listen).await;
        }
        if let Some(cut) = self.cut {
            let computed = tokio::task::spawn_blocking(move || cut_report(cut, self.repair));
            let computed =
                computed.await.map_err(|_| Failure::failed("the computation panicked"))?;
            let done = computed.map_err(Failure::usage)?;
            return written(self.json, &done, || done.text());
        }
        let within = |what: &str, value: f64, least: f64, most: f64| {
            let fits = (least..=most).contains(&value);
            let error = || Failure::usage(format!("{what} must lie between {least} and {most}"));
            if fits { Ok(value) } else { Err(error()) }
        };
        for loss in &self.loss {
            within("--loss", *loss, 0.0, 30.0)?;
        }
        let conditions = Conditions {
            rate: (within("--rate", self.rate, 8.0, 100_000.0)? * 1e3) as u64,
            rtt: Duration::from_secs_f64(within("--rtt", self.rtt, 0.0, 10_000.0)? / 1e3),
            loss: 0.0,
            burst: 1,
            pictures: self.objects,
            streams: self.streams,
            seed: 1,
        };
        let jobs = self.jobs.or_else(|| std::thread::available_parallelism().ok().map(usize::from));
        let losses: Vec<f64> = self.loss.iter().map(|percent| percent / 100.0).collect();
        let (seeds, jobs) = (self.seeds, jobs.unwrap_or(1));
        let computed = tokio::task::spawn_blocking(move || {
            headless(conditions, &losses, &Way::ALL, seeds, jobs)
        });
        let done = computed.await.map_err(|_| Failure::failed("the computation panicked"))??;
        written(self.json, &done, || done.text())
    }
}

/// Writes a report as text, or as JSON to a file.
fn written(
    file: Option<PathBuf>,
    done: &impl Serialize,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    let Some(file) = file else { return print(&filled(&text())) };
    let unwritten = |error| Failure::failed(format!("the report cannot be written: {error}"));
    let value = serde_json::to_value(done).map_err(|error| unwritten(error.to_string()))?;
    let text = format!("{}\n", with_schema(&value));
    if file.as_os_str() == "-" {
        return print(&printable_json(&text));
    }
    std::fs::write(&file, text)
        .map_err(|error| Failure::failed(format!("{} cannot be written: {error}", file.display())))
}
