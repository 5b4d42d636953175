//! `anabranch perf`.

use std::path::PathBuf;
use std::time::Duration;

use anabranch_http::Authority;
use clap::{Args, Subcommand};

use crate::client::ClientOptions;
use crate::failure::Failure;
use crate::options::{SctpOptions, Transport, duration, refuse, size};
use crate::perf::chart::{self, Source, What};
use crate::perf::client::Measurement;
use crate::perf::{Limit, MOST_SIZE, Mode, Plan, server};
use crate::sealed::{self, SealOptions, ServerSealOptions};
use crate::service::ServiceOptions;

/// Measure throughput and latency between two hosts
#[derive(Debug, Args)]
pub(crate) struct Perf {
    #[command(subcommand)]
    side: Side,
}

#[derive(Debug, Subcommand)]
enum Side {
    Server(Server),
    Client(Client),
    Chart(ChartOf),
}

/// Answer clients of perf
///
/// Runs until Ctrl-C. Prints the traffic over each path for each association that ends.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch perf server --listen 127.0.0.1:5201
  anabranch perf server --listen 10.1.0.2,10.2.0.2:5201 --interval 1s --json
  anabranch perf server --listen '[::]:5201' --sealed")]
struct Server {
    /// Report all associations together at intervals
    #[arg(long, value_name = "TIME", value_parser = interval)]
    interval: Option<Duration>,
    /// Longest message that clients may ask for, or have sent back; the messages of all clients above
    /// 64 KiB share an eighth of --memory-limit
    #[arg(long, value_name = "SIZE", default_value = "16Mi", value_parser = size)]
    max_message: usize,
    #[command(flatten)]
    seal: ServerSealOptions,
    #[command(flatten)]
    options: ServiceOptions,
}

/// Measure against a perf server, or against any peer that discards, sends or echoes
///
/// Reports at intervals and at the end how much was delivered and how each path performed.
/// docs/perf.md has the keys of --json.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch perf client 127.0.0.1:5201
  anabranch perf client 10.1.0.2,10.2.0.2:5201 --mode both --time 30s --json
  anabranch perf client 127.0.0.1:5201 --mode ping --size 64 --time 5s
  anabranch perf client 127.0.0.1:5201 --associations 100 --bytes 10k
  anabranch perf client 192.0.2.1:5201 --sealed
  anabranch perf client 192.0.2.1:9 --plain        # a peer that discards")]
struct Client {
    /// The server; IPv6 addresses in brackets, link-local ones with their interface:
    /// [fe80::1%eth0]; several hosts are addresses of one server. Or the line anb1:... of a sealed one
    #[arg(value_name = "HOST[,HOST...]:PORT", value_parser = sealed::authority)]
    peer: Authority,
    /// Direction of the messages
    #[arg(long, value_enum, default_value_t = Mode::Send)]
    mode: Mode,
    /// The peer does not speak the perf protocol: it discards what is sent, sends by itself, or
    /// echoes
    #[arg(long)]
    plain: bool,
    /// Size of a message [default: 16Ki; 64 for ping]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    size: Option<usize>,
    /// How long to send [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "bytes")]
    time: Option<Duration>,
    /// How much to send over each association, instead of a time
    #[arg(long, value_name = "SIZE", value_parser = size)]
    bytes: Option<usize>,
    /// Streams of an association, used in turn
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    streams: u16,
    /// Send unordered messages
    #[arg(long)]
    unordered: bool,
    /// Associations at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    associations: u32,
    /// Time between two lines of figures; 0s reports only at the end
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    interval: Duration,
    /// Print JSON, one document a line
    #[arg(long)]
    json: bool,
    /// Report each path, and the sender's buffers
    #[arg(long)]
    paths: bool,
    /// What carries the associations
    #[arg(long, value_enum, default_value_t = Transport::SctpUdp)]
    transport: Transport,
    #[command(flatten)]
    seal: SealOptions,
    #[command(flatten)]
    client: ClientOptions,
}

/// Draw the output of --json: throughput over time, of each path and in total
///
/// The picture is an SVG file. FILE is the output of perf client or server with --json and intervals.
#[derive(Debug, Args)]
#[command(
    name = "chart",
    after_help = "Examples:
  anabranch perf client 10.1.0.2,10.2.0.2:5201 --multipath cmt --json >cmt.json
  anabranch perf chart cmt.json --svg cmt.svg
  anabranch perf chart CMT=cmt.json CMT-PF=pf.json --bytes --svg both.svg"
)]
struct ChartOf {
    /// Measurements, with their names in the legend
    #[arg(value_name = "[NAME=]FILE", required = true)]
    sources: Vec<Source>,
    /// Draw the bytes delivered so far, one curve for each file
    #[arg(long)]
    bytes: bool,
    /// Description of the picture, for those who cannot see it
    #[arg(long, value_name = "TEXT", default_value = "What perf measured")]
    title: String,
    /// Where to write the picture
    #[arg(long, value_name = "FILE")]
    svg: PathBuf,
}

impl ChartOf {
    fn run(&self) -> Result<(), Failure> {
        let what = if self.bytes { What::Bytes } else { What::Rate };
        let picture = chart::draw(&self.title, &self.sources, what)?;
        std::fs::write(&self.svg, picture).map_err(|error| {
            Failure::failed(format!("{} cannot be written: {error}", self.svg.display()))
        })
    }
}

impl Perf {
    /// The SCTP options of this side.
    pub(crate) fn sctp(&self) -> Option<&SctpOptions> {
        match &self.side {
            Side::Server(server) => Some(&server.options.sctp),
            Side::Client(client) => Some(&client.client.sctp),
            Side::Chart(_) => None,
        }
    }

    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self.side {
            Side::Server(server) => {
                let Server { options, seal, interval, max_message } = server;
                server::run(&options, &seal, interval, max_message).await
            }
            Side::Client(client) => client.measurement()?.run().await,
            Side::Chart(chart) => chart.run(),
        }
    }
}

impl Client {
    fn measurement(self) -> Result<Measurement, Failure> {
        let limit = match self.bytes {
            Some(bytes) => Limit::Bytes(bytes as u64),
            None => {
                let time = self.time.unwrap_or(Duration::from_secs(10));
                Limit::Seconds(time.as_secs_f64())
            }
        };
        let size = self.size.unwrap_or(if self.mode == Mode::Ping { 64 } else { 16_384 });
        if let (Limit::Seconds(seconds), Some(time)) = (limit, self.time)
            && !(seconds > 0.0 && seconds <= 1e9)
        {
            return Err(Failure::usage(format!("--time {time:?}: above 0s and below 30 years")));
        }
        let most = MOST_SIZE / (1 << 20);
        if !(1..=MOST_SIZE).contains(&size) {
            return Err(Failure::usage(format!(
                "--size {size}: a message has 1 to {most}Mi bytes"
            )));
        }
        let plan = Plan { size, streams: self.streams, unordered: self.unordered, limit };
        plan.check().map_err(Failure::usage)?;
        if self.plain && self.mode == Mode::Receive && (self.size.is_some() || self.unordered) {
            return Err(Failure::usage(
                "a plain peer sends what it likes: --size and --unordered mean nothing",
            ));
        }
        let sealed = self.seal.is_on(std::iter::once(&self.peer));
        let other = sealed && self.transport != Transport::SctpUdp;
        refuse(other.then_some("--sealed").into_iter(), self.transport)?;
        self.seal.check(sealed, (&self.peer, &self.peer), self.transport)?;
        Ok(Measurement {
            authority: self.peer,
            seal: sealed.then_some(self.seal),
            transport: self.transport,
            client: self.client,
            mode: self.mode,
            plan,
            plain: self.plain,
            associations: usize::try_from(self.associations).unwrap_or(usize::MAX),
            interval: (!self.interval.is_zero()).then_some(self.interval),
            json: self.json,
            paths: self.paths,
        })
    }
}

/// Parses the time between two lines.
fn interval(text: &str) -> Result<Duration, String> {
    duration(text).and_then(|time| {
        if time.is_zero() { Err("an interval must be above 0s".to_owned()) } else { Ok(time) }
    })
}
