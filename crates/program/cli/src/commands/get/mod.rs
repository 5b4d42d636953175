//! `anabranch get`.

mod associations;
mod attempts;
mod filmstrip;
mod http3;
mod keep;
mod page;
mod page_report;
mod redirects;
mod tree;

use std::collections::HashMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anabranch::config::units::{Kind, Quantity};
use anabranch_http::{
    Authority, Bounds, Budget, FetchOptions, Output, Pace, Placement, Priority, Scheme,
    Transaction, Url, part_of,
};
use clap::{Args, ValueEnum};
use futures_util::future::join_all;

use self::attempts::{Item, Tools};
use self::page::PageOptions;
use self::tree::TreeOptions;
use crate::client::ClientOptions;
use crate::endpoint::one_udp_port;
use crate::failure::{Failure, complain};
use crate::files;
use crate::interrupt::Interrupt;
use crate::options::{Transport, refuse};
use crate::output::{count, print, print_json, printable};
use crate::progress::Bars;
use crate::report::{ConnectionReport, FileReport, GetReport};
use crate::sealed::{self, SealOptions};
use crate::transport::sctp;

/// Fetch files over HTTP, on SCTP streams or TCP
///
/// URLs with the same authority share one connection; each file takes the next free stream. A file
/// appears under its name when it is whole; until then it is NAME.part. An incomplete NAME.part
/// stays there, and --continue resumes it if the server still has the same file; if it has not, or
/// if that is unknown, --continue fetches the whole file.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch get sctp://127.0.0.1,127.0.0.2:8080/file
  anabranch get sctp://192.0.2.1/a --sealed
  anabranch get sctp://[2001:db8::1]/a sctp://[2001:db8::1]/b --out /tmp
  anabranch get 'sctp://192.0.2.1:80;udp=7000/big.iso' --continue --retry 10
  anabranch get sctp://192.0.2.1/site.tar -o - | tar x
  anabranch get -r sctp://192.0.2.1/pub/ --out mirror
  anabranch get sctp://192.0.2.1/index.html --page --filmstrip film
  anabranch get https://192.0.2.1/index.html --page --http3 --ca server.pem
  anabranch get http://127.0.0.1:8080/file --json")]
pub(crate) struct Get {
    /// sctp://HOST[,HOST...][:PORT]/PATH or http://..., IPv6 addresses in brackets, link-local ones
    /// with their interface: [fe80::1%25eth0]; several hosts are addresses of one server; the
    /// server's UDP port may follow the port: 'sctp://HOST:80;udp=7000/PATH'
    ///
    /// A sealed server's key may follow as well: 'sctp://HOST:80;key=anbk:.../PATH'. Instead of a URL there may be the
    /// line that the server prints, with port and path: anb1:...:80/PATH
    #[arg(value_name = "URL", required = true, value_parser = sealed::url)]
    urls: Vec<Url>,
    /// What carries the streams [default: sctp-udp for sctp URLs, tcp for http URLs]
    #[arg(long, value_enum)]
    transport: Option<Transport>,
    /// Files fetched at the same time over a connection [default: 4; of a page with pictures, all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    streams: Option<u16>,
    /// Requests on a stream that are sent before the first of them is answered
    #[arg(long, value_name = "N", default_value_t = 1, hide_short_help = true, value_parser = clap::value_parser!(u8).range(1..=32))]
    pipeline: u8,
    /// Which stream a file comes on: the next free one, streams in turn, or the one with the fewest
    /// bytes still to come [default: next-free, round-robin with --pipeline]
    #[arg(long, value_enum, hide_short_help = true)]
    placement: Option<PlacementName>,
    /// Urgency to request from the server, 0 (first) to 7; not all servers support it
    #[arg(long, value_name = "N", hide_short_help = true, value_parser = clap::value_parser!(u8).range(0..=7))]
    urgency: Option<u8>,
    /// Let the server send files of the same urgency at the same time
    #[arg(long, hide_short_help = true)]
    incremental: bool,
    /// Directory for the files, created if missing [default: this one]
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    out: Option<PathBuf>,
    /// Name for the file of the only URL; '-' is standard output
    ///
    /// Devices and pipes can be written to. If FILE is a link, the target of the link is written.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Create the directories of -o, --capture and --qlog if they are missing
    #[arg(long, hide_short_help = true)]
    create_dirs: bool,
    /// Give files the time of their arrival, not that of their last change at the server
    #[arg(long, hide_short_help = true)]
    no_mtime: bool,
    /// Redirects to follow for each file, to the same or to another server; 0 follows none
    #[arg(long, value_name = "N", default_value_t = 10, hide_short_help = true)]
    max_redirects: u16,
    /// Read files no faster than this, all together: 500 kb/s, 2 Mb/s
    #[arg(long, value_name = "RATE", hide_short_help = true, value_parser = rate)]
    limit_rate: Option<f64>,
    /// Continue what an earlier fetch left behind, if the server still has the same file
    #[arg(short = 'c', long = "continue")]
    resume: bool,
    /// Try again up to N times, after 1, 2, 4, ... 30 seconds
    ///
    /// Each attempt continues where the one before has stopped.
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
    page: PageOptions,
    #[command(flatten)]
    tree: TreeOptions,
    #[command(flatten)]
    seal: SealOptions,
    #[command(flatten)]
    client: ClientOptions,
}

/// Number of files that are fetched at the same time by default.
const STREAMS: u16 = 4;

/// How to choose a stream.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum PlacementName {
    NextFree,
    RoundRobin,
    SmallestPending,
}

impl From<PlacementName> for Placement {
    fn from(name: PlacementName) -> Self {
        match name {
            PlacementName::NextFree => Self::NextFree,
            PlacementName::RoundRobin => Self::RoundRobin,
            PlacementName::SmallestPending => Self::SmallestPending,
        }
    }
}

/// The files of one authority.
struct Group {
    transport: Transport,
    authority: Authority,
    items: Vec<Item>,
}

/// The files of a group, and the report of its connection.
type Fetched = (Vec<Item>, ConnectionReport);

/// State shared by the rounds of a command.
struct Session<'a> {
    get: &'a Get,
    bars: &'a Bars,
    interrupt: &'a Interrupt,
    pace: Option<Arc<Pace>>,
    budget: Option<Arc<Budget>>,
    /// The endpoint, once there is something to fetch over SCTP.
    sctp: Option<sctp::Client>,
}

impl<'a> Session<'a> {
    fn new(get: &'a Get, bars: &'a Bars, interrupt: &'a Interrupt) -> Self {
        let pace = get.limit_rate.map(|rate| Arc::new(Pace::new(rate)));
        let budget = get.tree.budget();
        Self { get, bars, interrupt, pace, budget, sctp: None }
    }

    /// Fetches these groups.
    async fn round(
        &mut self,
        groups: Vec<Group>,
        connections: &mut Vec<ConnectionReport>,
    ) -> Result<Vec<Item>, Failure> {
        if self.sctp.is_none() {
            self.sctp = self.get.bind_sctp(&groups)?;
        }
        let Self { bars, interrupt, pace, budget, .. } = &*self;
        let tools = Tools { sctp: self.sctp.as_ref(), bars, interrupt, pace, budget };
        let fetched = join_all(groups.into_iter().map(|group| self.get.fetch(group, tools))).await;
        let fetched: Vec<Fetched> = fetched.into_iter().collect::<Result<_, _>>()?;
        let mut items = Vec::new();
        for (of_group, connection) in fetched {
            items.extend(of_group);
            connections.push(connection);
        }
        Ok(items)
    }

    async fn close(self) {
        if let Some(sctp) = self.sctp {
            sctp.close().await;
        }
    }
}

impl Get {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        if self.json && self.to_stdout() {
            return Err(Failure::usage("--json and -o - both want standard output"));
        }
        if self.page.page {
            return self.load_page().await;
        }
        if self.tree.recursive {
            return self.load_tree().await;
        }
        let groups = self.groups()?;
        self.check_outputs(&groups)?;
        self.make_directories(&groups)?;
        self.say_what_multipath_does(&groups);
        let interrupt = Interrupt::install()?;
        // On a terminal, the file and its progress bar would overwrite each other.
        let shown = self.to_stdout() && std::io::stdout().is_terminal();
        let bars = Bars::new(self.urls.len(), !self.quiet && !self.json && !shown);
        let files: Vec<_> = groups.iter().flat_map(Group::files).map(Path::to_owned).collect();
        let fetched = self.fetch_all(groups, &bars, &interrupt).await;
        bars.clear();
        match fetched {
            Ok((items, connections)) => self.finish(items, connections),
            Err(Failure::Interrupted) => Err(interrupted(&files)),
            Err(failure) => Err(failure),
        }
    }

    /// Fetches all groups, and the targets of their redirects.
    async fn fetch_all(
        &self,
        mut groups: Vec<Group>,
        bars: &Bars,
        interrupt: &Interrupt,
    ) -> Result<(Vec<Item>, Vec<ConnectionReport>), Failure> {
        let (mut done, mut connections) = (Vec::new(), Vec::new());
        let mut session = Session::new(self, bars, interrupt);
        let fetched = loop {
            let items = match session.round(groups, &mut connections).await {
                Ok(items) => items,
                Err(failure) => break Err(failure),
            };
            let (moved, here) =
                items.into_iter().partition::<Vec<Item>, _>(|item| item.moved.is_some());
            done.extend(here);
            let (further, ended) = self.redirect(moved);
            done.extend(ended);
            if further.is_empty() {
                break Ok(());
            }
            groups = further;
        };
        session.close().await;
        fetched.map(|()| (done, connections))
    }

    /// The options for fetching the files of one authority.
    fn fetch_options(&self, pace: &Option<Arc<Pace>>) -> FetchOptions {
        let options = FetchOptions::new(usize::from(self.association_streams()))
            .with_depth(usize::from(self.pipeline))
            .with_silence(self.client.silence())
            .with_times(!self.no_mtime)
            .with_pace(pace.clone());
        let default = Priority::default();
        let incremental = self.incremental;
        let urgency = self.urgency.or(incremental.then_some(default.urgency));
        let options =
            options.with_priority(urgency.map(|urgency| Priority { urgency, incremental }));
        match self.placement {
            Some(placement) => options.with_placement(placement.into()),
            None => options,
        }
    }

    fn to_stdout(&self) -> bool {
        let is_stdout = |path: &PathBuf| {
            path == Path::new("-") || Output::named(path.clone(), false) == Output::Stdout
        };
        self.output.as_ref().is_some_and(is_stdout)
    }

    /// Rejects a file of a URL that an argument names as well. `-o` itself is such an argument.
    fn check_outputs(&self, groups: &[Group]) -> Result<(), Failure> {
        let files = groups.iter().flat_map(Group::files);
        files.filter(|_| self.output.is_none()).try_for_each(files::written_too)
    }

    /// Warns that `--multipath` has no effect on a download: the server is the sender and chooses
    /// the paths.
    fn say_what_multipath_does(&self, groups: &[Group]) {
        let given = self.client.sctp.policies.given().any(|name| name == "--multipath");
        let over_sctp = groups.iter().any(|group| group.transport != Transport::Tcp);
        if given && over_sctp && !self.quiet {
            complain(
                "--multipath is about what this side sends and changes nothing about a download: start \
                 the server with 'serve --multipath'",
            );
        }
    }

    /// Creates directories if that is allowed, and checks that the others exist.
    fn make_directories(&self, groups: &[Group]) -> Result<(), Failure> {
        let made = |directory: &Path| {
            std::fs::create_dir_all(directory).map_err(|error| {
                let name = directory.display();
                Failure::failed(format!("the directory {name} cannot be made: {error}"))
            })
        };
        if let Some(directory) = &self.out {
            made(directory)?;
        }
        let sctp = &self.client.sctp;
        let logs = [("--capture", &sctp.capture), ("--qlog", &sctp.qlog)];
        let logs = logs.into_iter().filter_map(|(name, path)| Some((name, path.as_deref()?)));
        let files = groups.iter().flat_map(Group::files).map(|path| ("-o", path));
        for (option, path) in files.chain(logs) {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let Some(directory) = parent.filter(|parent| !parent.is_dir()) else { continue };
            if self.create_dirs {
                made(directory)?;
                continue;
            }
            let (directory, name) = (directory.display(), path.display());
            return Err(Failure::failed(format!(
                "{option}: there is no directory {directory} for {name}; --create-dirs makes it"
            )));
        }
        Ok(())
    }

    /// The output for the file of a URL.
    fn output_of(&self, url: &Url) -> Result<Output, Failure> {
        let resume = self.resume;
        match &self.output {
            Some(_) if self.urls.len() > 1 => {
                Err(Failure::usage("-o is for one URL; --out DIR takes the files of several"))
            }
            Some(_) if self.to_stdout() => Ok(Output::Stdout),
            Some(path) if path.file_name().is_none() || path.is_dir() => {
                let name = path.display();
                Err(Failure::usage(format!(
                    "-o {name} is not a file name; --out takes a directory"
                )))
            }
            Some(path) => Ok(Output::named(path.clone(), resume)),
            None => {
                let name = url.file_name().ok_or_else(|| {
                    Failure::usage(format!(
                        "{url} does not end with a usable file name: give one with -o"
                    ))
                })?;
                let directory = self.out.as_deref().unwrap_or(Path::new("."));
                Ok(Output::named(directory.join(name), resume))
            }
        }
    }

    /// The transport for a URL.
    fn transport_of(&self, url: &Url) -> Result<Transport, Failure> {
        let transport = match (self.transport, url.scheme) {
            (_, Scheme::Https) => {
                return Err(Failure::usage(format!(
                    "{url} can only be fetched with --page --http3"
                )));
            }
            (None, Scheme::Http) => Transport::Tcp,
            (None, Scheme::Sctp) => Transport::SctpUdp,
            (Some(Transport::Tcp), Scheme::Sctp) => {
                return Err(Failure::usage(format!("{url} cannot be fetched over tcp")));
            }
            (Some(transport), _) => transport,
        };
        let udp_port = url.authority.udp_port;
        one_udp_port(self.client.remote_udp_port, "--remote-udp-port", udp_port)?;
        if let (Some(udp_port), true) = (udp_port, transport != Transport::SctpUdp) {
            return Err(Failure::usage(format!(";udp={udp_port} means nothing to {transport}")));
        }
        self.seal.check(self.sealed(), (url, &url.authority), transport)?;
        Ok(transport)
    }

    /// Whether the servers are sealed; all of them are, or none.
    fn sealed(&self) -> bool {
        self.seal.is_on(self.urls.iter().map(|url| &url.authority))
    }

    /// Groups the URLs by transport and authority, and rejects invalid combinations.
    fn groups(&self) -> Result<Vec<Group>, Failure> {
        let mut groups: Vec<Group> = Vec::new();
        let mut names = HashMap::new();
        for (index, url) in self.urls.iter().enumerate() {
            let transport = self.transport_of(url)?;
            let transaction = Transaction {
                host: url.host_field(),
                target: url.target.clone(),
                source: url.to_string(),
                output: self.output_of(url)?,
                bounds: Bounds::default(),
            };
            if let Some(path) = path_of(&transaction)
                && let Some(other) = names.insert(path.to_owned(), url)
            {
                return Err(Failure::usage(format!("{other} and {url} have the same file name")));
            }
            enter(&mut groups, transport, Item::new(index, url, transaction));
        }
        let ports = [
            self.client.udp_port.map(|_| "--udp-port"),
            self.client.remote_udp_port.map(|_| "--remote-udp-port"),
        ];
        let ports = ports.into_iter().flatten();
        if groups.iter().all(|group| group.transport == Transport::Tcp) {
            refuse(ports.chain(self.client.sctp.given()), Transport::Tcp)?;
        } else if self.transport == Some(Transport::Sctp) {
            refuse(ports, Transport::Sctp)?;
        }
        Ok(groups)
    }

    /// Opens the endpoint for all associations, if one is needed.
    fn bind_sctp(&self, groups: &[Group]) -> Result<Option<sctp::Client>, Failure> {
        // All groups over SCTP use the same transport.
        let mut transports = groups.iter().map(|group| group.transport);
        let Some(transport) = transports.find(|t| t.encapsulation().is_some()) else {
            return Ok(None);
        };
        let over_sctp = || groups.iter().filter(|group| group.transport == transport);
        let hosts = over_sctp().flat_map(|group| &group.authority.hosts);
        let port = over_sctp().find_map(|group| group.authority.udp_port);
        let (seal, streams) = (self.sealed().then_some(&self.seal), self.association_streams());
        sctp::Client::bind(hosts, port, transport, &self.client, seal, streams).map(Some)
    }

    /// Prints the results.
    fn finish(
        &self,
        mut items: Vec<Item>,
        connections: Vec<ConnectionReport>,
    ) -> Result<(), Failure> {
        items.sort_by_key(|item| item.index);
        for connection in &connections {
            if let Some(error) = &connection.error {
                complain(error);
            }
        }
        let broken = |item: &&Item| {
            let authority = item.url.authority.to_string();
            connections.iter().any(|c| c.error.is_some() && c.authority == authority)
        };
        for item in items.iter().filter(|item| !broken(item)) {
            if let Some(error) = &item.report.error {
                complain(&format!("{}: {error}", item.report.url));
            }
        }
        let busy: Vec<_> = items.iter().map(|item| item.busy).collect();
        let files: Vec<FileReport> = items.into_iter().map(|item| item.report).collect();
        let failed = files.iter().any(|file| file.error.is_some());
        // A part file that another process has locked is not reported as one that this command can
        // continue.
        let unfinished =
            files.iter().zip(busy).filter(|(file, busy)| file.error.is_some() && !busy);
        if let Some(kept) = kept(unfinished.map(|(file, _)| Path::new(&file.file))) {
            complain(&kept);
        }
        let report = GetReport {
            bytes: files.iter().filter_map(|file| file.bytes).sum(),
            seconds: match self.tree.recursive {
                // The rounds ran one after another.
                true => connections.iter().map(|c| c.seconds).sum(),
                // All started together.
                false => connections.iter().map(|c| c.seconds).fold(0.0, f64::max),
            },
            files,
            connections,
        };
        match (self.json, self.quiet) {
            (true, _) => print_json(&report)?,
            (false, true) => {}
            (false, false) if self.to_stdout() => {
                eprint!("{}", printable(&report.summary(self.paths)));
            }
            (false, false) => print(&report.summary(self.paths))?,
        }
        if failed { Err(Failure::Reported) } else { Ok(()) }
    }
}

impl Group {
    /// The files that the command writes.
    fn files(&self) -> impl Iterator<Item = &Path> {
        self.items.iter().filter_map(|item| path_of(&item.transaction))
    }
}

fn path_of(transaction: &Transaction) -> Option<&Path> {
    match &transaction.output {
        Output::File { path, .. } => Some(path),
        Output::Device(_) | Output::Stdout => None,
    }
}

/// Adds a file to the group of its authority.
fn enter(groups: &mut Vec<Group>, transport: Transport, item: Item) {
    let authority = item.url.authority.clone();
    let group = groups.iter_mut().find(|g| g.transport == transport && g.authority == authority);
    match group {
        Some(group) => group.items.push(item),
        None => groups.push(Group { transport, authority, items: vec![item] }),
    }
}

/// Parses a rate with its unit; returns bytes per second.
pub(super) fn rate(text: &str) -> Result<f64, String> {
    let sentence = || "a rate has a unit: b/s, kb/s, Mb/s or Gb/s, as in 2Mb/s".to_owned();
    let quantity = Quantity::parse(text).filter(|quantity| quantity.kind == Kind::Rate);
    let bits = quantity.ok_or_else(sentence)?.value;
    if bits >= 8.0 && bits.is_finite() { Ok(bits / 8.0) } else { Err(sentence()) }
}

/// The message for a fetch that the user stopped; it says whether it can be continued.
fn interrupted(files: &[PathBuf]) -> Failure {
    match kept(files.iter().map(PathBuf::as_path)) {
        Some(kept) => Failure::Stopped(format!("interrupted: {kept}")),
        None => Failure::Interrupted,
    }
}

/// Describes what is left of unfinished files, and how to continue them.
fn kept<'a>(files: impl Iterator<Item = &'a Path>) -> Option<String> {
    let parts: Vec<_> = files.filter_map(part_of).collect();
    let bytes = count(parts.iter().map(|part| part.bytes).sum(), "byte");
    let files = count(parts.len() as u64, "file");
    (!parts.is_empty()).then(|| {
        format!("{bytes} of {files} are kept, the same command with --continue resumes there")
    })
}
