//! `anabranch put`.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anabranch_http::{FetchError, FetchOptions, Fetched, Pace, Scheme, Source, Upload, Url};
use clap::Args;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use serde::Serialize;

use super::get::rate;
use crate::address::resolve;
use crate::client::ClientOptions;
use crate::endpoint::one_udp_port;
use crate::failure::{Failure, complain};
use crate::interrupt::Interrupt;
use crate::options::{Transport, refuse};
use crate::output::{count, print, print_json};
use crate::perf::latency::time;
use crate::progress::{Bars, Follower};
use crate::report::{ConnectionReport, Traffic};
use crate::sealed::{self, SealOptions};
use crate::transport::{Delivery, Order, Work, sctp, tcp};

/// Send files over HTTP, on SCTP streams or TCP
///
/// The server must accept them: 'anabranch serve --upload' does. Each file uses its own stream. A file
/// counts as sent once the server has confirmed all of it. With the server of this program it then has its
/// name; until then the server keeps the old file, whatever happens. Without --sealed there is neither
/// authentication of the server nor encryption.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch put report.pdf sctp://192.0.2.1:8080/report.pdf
  anabranch put *.jpg sctp://192.0.2.1:8080/pictures/ --retry 10
  tar c src | anabranch put - http://192.0.2.1:8080/src.tar")]
pub(crate) struct Put {
    /// The files; '-' is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Name for the file on the server, or, with a '/' at its end, the directory for all of them
    #[arg(value_name = "URL", value_parser = sealed::url)]
    url: Url,
    /// What carries the streams [default: sctp-udp for sctp URLs, tcp for http URLs]
    #[arg(long, value_enum)]
    transport: Option<Transport>,
    /// Files sent at the same time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    streams: u16,
    /// Do not replace files that exist on the server
    #[arg(long)]
    new: bool,
    /// Send files no faster than this, all together: 500 kb/s, 2 Mb/s
    #[arg(long, value_name = "RATE", hide_short_help = true, value_parser = rate)]
    limit_rate: Option<f64>,
    /// Try again up to N times, from the start of each file that failed, after 1, 2, 4, ... 30 seconds
    #[arg(long, value_name = "N", default_value_t = 0)]
    retry: u32,
    /// Print the summary as one JSON document
    #[arg(long)]
    json: bool,
    /// Print which path and stream carried what
    #[arg(long)]
    paths: bool,
    /// Print neither progress nor summary
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    seal: SealOptions,
    #[command(flatten)]
    client: ClientOptions,
}

/// Maximum time between two attempts.
const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// Characters that need no escaping in a segment of a path.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A file of the summary.
#[derive(Debug, Serialize)]
struct SentFile {
    file: String,
    url: String,
    stream: Option<u16>,
    /// Bytes that the server has confirmed.
    bytes: Option<u64>,
    seconds: Option<f64>,
    /// An older file on the server was replaced.
    replaced: bool,
    error: Option<String>,
}

/// The report of `put`.
#[derive(Debug, Serialize)]
struct PutReport {
    bytes: u64,
    seconds: f64,
    files: Vec<SentFile>,
    connections: Vec<ConnectionReport>,
}

/// A file to send.
struct Item {
    upload: Upload,
    report: SentFile,
    /// The file is not sent yet, and another attempt may succeed.
    waits: bool,
}

impl Item {
    /// Records the result of an attempt.
    fn enter(&mut self, result: Result<Fetched, FetchError>, took: Option<Duration>) {
        self.waits = false;
        match result {
            Ok(sent) => {
                self.report.stream = Some(sent.stream);
                self.report.bytes = Some(sent.bytes);
                self.report.seconds = took.map(|took| took.as_secs_f64());
                self.report.replaced = sent.replaced;
                self.report.error = None;
            }
            Err(error) => {
                // Bytes from standard input cannot be read again.
                self.waits = self.upload.source != Source::Stdin && may_work(&error);
                self.report.error = Some(match &error {
                    FetchError::Status(status) => match reason(status.as_u16()) {
                        Some(reason) => format!("{error}: {reason}"),
                        None => error.to_string(),
                    },
                    _ => error.to_string(),
                });
            }
        }
    }
}

/// The meaning of a status as an answer to PUT.
fn reason(status: u16) -> Option<&'static str> {
    Some(match status {
        403 => "it does not accept a file of this name, or may not write it",
        405 | 501 => "it accepts no files; 'anabranch serve' does with --upload",
        409 => "the directory is missing there, or the name is that of a directory",
        412 => "it has a file of this name already",
        413 => "the file is too long for it; --max-upload of 'anabranch serve' says how long",
        507 => "its disk is full",
        _ => return None,
    })
}

/// Whether another attempt may succeed after this error.
fn may_work(error: &FetchError) -> bool {
    match error {
        FetchError::Status(status) => matches!(status.as_u16(), 408 | 429 | 502..=504),
        FetchError::Stream(_) | FetchError::Broken { .. } | FetchError::Silent(_) => true,
        _ => false,
    }
}

impl Put {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let transport = self.transport()?;
        let mut items = self.items()?;
        let interrupt = Interrupt::install()?;
        let bars = Bars::new(items.len(), !self.quiet && !self.json);
        let begun = Instant::now();
        let sctp = match transport {
            Transport::Tcp => None,
            _ => {
                let (hosts, port) = (self.url.authority.hosts.iter(), self.url.authority.udp_port);
                let seal = self.sealed().then_some(&self.seal);
                Some(sctp::Client::bind(hosts, port, transport, &self.client, seal, self.streams)?)
            }
        };
        let sent = self.send_all(&mut items, sctp.as_ref(), &bars, &interrupt).await;
        if let Some(sctp) = sctp {
            sctp.close().await;
        }
        bars.clear();
        let mut connection = sent?;
        connection.transport = transport;
        self.finish(items, connection, begun.elapsed())
    }

    fn sealed(&self) -> bool {
        self.seal.is_on(std::iter::once(&self.url.authority))
    }

    /// The transport for the URL.
    fn transport(&self) -> Result<Transport, Failure> {
        let url = &self.url;
        let transport = match (self.transport, url.scheme) {
            (_, Scheme::Https) => {
                return Err(Failure::usage(format!(
                    "files cannot be sent to {url}: use http or sctp"
                )));
            }
            (None, Scheme::Http) => Transport::Tcp,
            (None, Scheme::Sctp) => Transport::SctpUdp,
            (Some(Transport::Tcp), Scheme::Sctp) => {
                return Err(Failure::usage(format!("nothing can be sent to {url} over tcp")));
            }
            (Some(transport), _) => transport,
        };
        let udp_port = url.authority.udp_port;
        one_udp_port(self.client.remote_udp_port, "--remote-udp-port", udp_port)?;
        if let (Some(udp_port), true) = (udp_port, transport != Transport::SctpUdp) {
            return Err(Failure::usage(format!(";udp={udp_port} means nothing to {transport}")));
        }
        self.seal.check(self.sealed(), (url, &url.authority), transport)?;
        let ports = [
            self.client.udp_port.map(|_| "--udp-port"),
            self.client.remote_udp_port.map(|_| "--remote-udp-port"),
        ];
        let ports = ports.into_iter().flatten();
        match transport {
            Transport::Tcp => refuse(ports.chain(self.client.sctp.given()), transport)?,
            Transport::Sctp => refuse(ports, transport)?,
            Transport::SctpUdp => {}
        }
        Ok(transport)
    }

    /// The files to send, with their targets.
    fn items(&self) -> Result<Vec<Item>, Failure> {
        let directory = self.url.target.ends_with('/');
        if self.files.len() > 1 && !directory {
            return Err(Failure::usage(format!(
                "several files need a directory: {} does not end with '/'",
                self.url
            )));
        }
        let mut items: Vec<Item> = Vec::new();
        for file in &self.files {
            let stdin = file == Path::new("-");
            let source = if stdin { Source::Stdin } else { Source::File(file.clone()) };
            let mut url = self.url.clone();
            if directory {
                let name = file.file_name().filter(|_| !stdin).ok_or_else(|| {
                    let file = file.display();
                    Failure::usage(format!("{file} has no name for the directory {}", self.url))
                })?;
                url.target.extend(percent_encode(name.as_encoded_bytes(), SEGMENT));
            }
            if items.iter().any(|item| item.upload.target == url.target) {
                return Err(Failure::usage(format!("two files would be sent to {url}")));
            }
            if stdin && std::io::stdin().is_terminal() && !self.quiet {
                complain("reading standard input, up to its end");
            }
            let (host, target) = (url.host_field(), url.target.clone());
            items.push(Item {
                upload: Upload { host, target, source, new: self.new },
                report: SentFile {
                    file: file.display().to_string(),
                    url: url.to_string(),
                    stream: None,
                    bytes: None,
                    seconds: None,
                    replaced: false,
                    error: None,
                },
                waits: true,
            });
        }
        Ok(items)
    }

    /// Sends everything, in as many attempts as necessary and allowed.
    async fn send_all(
        &self,
        items: &mut [Item],
        sctp: Option<&sctp::Client>,
        bars: &Bars,
        interrupt: &Interrupt,
    ) -> Result<ConnectionReport, Failure> {
        let pace = self.limit_rate.map(|rate| Arc::new(Pace::new(rate)));
        let fetch = FetchOptions::new(usize::from(self.streams))
            .with_silence(self.client.silence())
            .with_pace(pace);
        let (begun, mut longest_pause) = (Instant::now(), Duration::ZERO);
        let mut delay = Duration::from_secs(1);
        let mut left = self.retry;
        loop {
            let waiting = || items.iter().filter(|item| item.waits);
            let uploads: Vec<_> = waiting().map(|item| item.upload.clone()).collect();
            let follower = Follower::new(bars, waiting().map(|i| i.report.file.clone()).collect());
            let work = Work::Put(&uploads);
            let delivered = self.deliver(work, &fetch, &follower, sctp, interrupt).await;
            let waiting = items.iter_mut().filter(|item| item.waits);
            let (error, done, traffic) = match delivered {
                Ok(Delivery { results, traffic, done, error }) => {
                    for (at, (item, result)) in waiting.zip(results).enumerate() {
                        item.enter(result, follower.took(at));
                    }
                    (error, done, traffic)
                }
                Err(Failure::Interrupted) => return Err(Failure::Interrupted),
                Err(failure) => {
                    waiting.for_each(|i| i.report.error = Some("there is no connection".into()));
                    let sentence = failure.told().0.unwrap_or_default().to_owned();
                    (Some(sentence), Instant::now(), Traffic::default())
                }
            };
            longest_pause = longest_pause.max(follower.longest_pause());
            let again = items.iter().find(|item| item.waits).filter(|_| left > 0);
            let Some(again) = again else {
                return Ok(ConnectionReport {
                    transport: Transport::Tcp,
                    authority: self.url.authority.to_string(),
                    error,
                    seconds: done.duration_since(begun).as_secs_f64(),
                    longest_pause_seconds: longest_pause.as_secs_f64(),
                    traffic,
                });
            };
            if !self.quiet {
                let why = error.as_ref().or(again.report.error.as_ref());
                complain(&format!("{}; again in {} s", why.map_or("", |why| why), delay.as_secs()));
            }
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                () = interrupt.wait() => return Err(Failure::Interrupted),
            }
            (left, delay) = (left - 1, (delay * 2).min(LONGEST_DELAY));
        }
    }

    async fn deliver(
        &self,
        work: Work<'_>,
        fetch: &FetchOptions,
        follower: &Follower<'_>,
        sctp: Option<&sctp::Client>,
        interrupt: &Interrupt,
    ) -> Result<Delivery, Failure> {
        let order = Order {
            authority: &self.url.authority,
            remotes: resolve(&self.url.authority).await?,
            locals: &self.client.local,
            work,
            fetch: fetch.clone(),
            connect_timeout: self.client.connect_timeout,
            observer: follower,
            interrupt,
        };
        match sctp {
            Some(client) => client.fetch_all(order).await,
            None => tcp::fetch_all(order).await,
        }
    }

    /// Prints the results.
    fn finish(
        &self,
        items: Vec<Item>,
        connection: ConnectionReport,
        took: Duration,
    ) -> Result<(), Failure> {
        match &connection.error {
            Some(error) => complain(error),
            None => {
                for SentFile { file, error, .. } in items.iter().map(|item| &item.report) {
                    if let Some(error) = error {
                        complain(&format!("{file}: {error}"));
                    }
                }
            }
        }
        let files: Vec<_> = items.into_iter().map(|item| item.report).collect();
        let all = files.len() as u64;
        let sent = files.iter().filter(|file| file.error.is_none()).count() as u64;
        let bytes = files.iter().filter_map(|file| file.bytes).sum();
        let report =
            PutReport { bytes, seconds: took.as_secs_f64(), files, connections: vec![connection] };
        if self.json {
            print_json(&report)?;
        } else if !self.quiet {
            let of = if sent == all { String::new() } else { format!("{sent} of ") };
            let (all_files, all_bytes) = (count(all, "file"), count(bytes, "byte"));
            let took = time(report.seconds);
            let traffic = report.connections.iter().map(|c| c.traffic.text(self.paths));
            let traffic: String = traffic.collect();
            print(&format!("{of}{all_files}, {all_bytes} confirmed in {took}\n{traffic}"))?;
        }
        if sent == all { Ok(()) } else { Err(Failure::Reported) }
    }
}
