//! `anabranch get`.

mod associations;
mod attempts;
mod filmstrip;
mod http3;
mod keep;
mod page;
mod page_report;

use std::collections::HashMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anabranch_http::{
    Authority, FetchOptions, Output, Placement, Priority, Scheme, Transaction, Url, part_of,
};
use clap::{Args, ValueEnum};
use futures_util::future::join_all;

use self::attempts::{Item, Tools};
use self::page::PageOptions;
use crate::client::ClientOptions;
use crate::endpoint::one_udp_port;
use crate::failure::{Failure, complain};
use crate::interrupt::Interrupt;
use crate::options::{Transport, refuse};
use crate::output::{count, print, print_json, printable};
use crate::progress::Bars;
use crate::report::{ConnectionReport, FileReport, GetReport};
use crate::transport::sctp;

/// Fetch files over HTTP, on SCTP streams or TCP
///
/// URLs with the same authority share one connection; each file takes the next free stream. A
/// file appears under its name when it is whole. What has come of one that was not finished is
/// kept beside it, as NAME.part-..., and --continue goes on there.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch get sctp://127.0.0.1,127.0.0.2:8080/file
  anabranch get sctp://[2001:db8::1]/a sctp://[2001:db8::1]/b --out /tmp
  anabranch get 'sctp://192.0.2.1:80;udp=7000/big.iso' --continue --retry 10
  anabranch get sctp://192.0.2.1/site.tar -o - | tar x
  anabranch get sctp://192.0.2.1/index.html --page --filmstrip film
  anabranch get https://192.0.2.1/index.html --page --http3 --ca server.pem
  anabranch get http://127.0.0.1:8080/file --json")]
pub(crate) struct Get {
    /// sctp://HOST[,HOST...][:PORT]/PATH or http://..., IPv6 addresses in brackets, link-local
    /// ones with their interface: [fe80::1%25eth0]; several hosts are addresses of one server;
    /// behind the port may stand the server's UDP port: 'sctp://HOST:80;udp=7000/PATH'
    #[arg(value_name = "URL", required = true)]
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
    /// Which stream a file comes on: the next one that is free, streams in turn, or the one with the
    /// fewest bytes still to come [default: next-free, round-robin with --pipeline]
    #[arg(long, value_enum, hide_short_help = true)]
    placement: Option<PlacementName>,
    /// Urgency that the server is asked for, 0 (first) to 7, for servers that tell files apart by it
    #[arg(long, value_name = "N", hide_short_help = true, value_parser = clap::value_parser!(u8).range(0..=7))]
    urgency: Option<u8>,
    /// Tell the server that files of the same urgency may come at the same time
    #[arg(long, hide_short_help = true)]
    incremental: bool,
    /// Directory for the files, made if there is none [default: the current one]
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    out: Option<PathBuf>,
    /// Name for the file of the only URL; '-' is standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Go on with what an earlier fetch left behind, if the server still has the same
    #[arg(short = 'c', long = "continue")]
    resume: bool,
    /// Try again up to so often, going on where it stopped, after 1, 2, 4, ... 30 seconds
    #[arg(long, value_name = "N", default_value_t = 0)]
    retry: u32,
    /// Print the summary as one JSON document
    #[arg(long)]
    json: bool,
    /// Tell which path and stream carried what
    #[arg(long)]
    paths: bool,
    /// Print neither progress nor summary
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    page: PageOptions,
    #[command(flatten)]
    client: ClientOptions,
}

/// Files that are fetched at the same time.
const STREAMS: u16 = 4;

/// The names of the ways to choose a stream.
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

/// A group's files, by index of their URLs, and its connection.
type Fetched = (Vec<(usize, FileReport)>, ConnectionReport);

impl Get {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        if self.json && self.to_stdout() {
            return Err(Failure::usage("--json and -o - both want standard output"));
        }
        if self.page.page {
            return self.load_page().await;
        }
        let groups = self.groups()?;
        self.make_directories(&groups)?;
        let interrupt = Interrupt::install()?;
        // A file and its bar would overwrite each other on one terminal.
        let shown = self.to_stdout() && std::io::stdout().is_terminal();
        let bars = Bars::new(self.urls.len(), !self.quiet && !self.json && !shown);
        let sctp = self.bind_sctp(&groups)?;
        let files: Vec<_> = groups.iter().flat_map(Group::files).map(Path::to_owned).collect();
        let tools = Tools { sctp: sctp.as_ref(), bars: &bars, interrupt: &interrupt };
        let fetched = join_all(groups.into_iter().map(|group| self.fetch(group, tools))).await;
        bars.clear();
        if let Some(sctp) = sctp {
            sctp.close().await;
        }
        let fetched = fetched.into_iter().collect::<Result<Vec<_>, _>>();
        match fetched {
            Ok(fetched) => self.finish(fetched),
            Err(Failure::Interrupted) => Err(interrupted(&files)),
            Err(failure) => Err(failure),
        }
    }

    /// How the files of one authority are asked for.
    fn fetch_options(&self) -> FetchOptions {
        let options = FetchOptions::new(usize::from(self.association_streams()))
            .with_depth(usize::from(self.pipeline))
            .with_silence(self.client.silence());
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
        self.output.as_deref() == Some(Path::new("-"))
    }

    /// Makes the directories that the files go to.
    fn make_directories(&self, groups: &[Group]) -> Result<(), Failure> {
        for path in groups.iter().flat_map(Group::files) {
            let Some(directory) = path.parent() else { continue };
            std::fs::create_dir_all(directory).map_err(|error| {
                let name = directory.display();
                Failure::failed(format!("the directory {name} cannot be made: {error}"))
            })?;
        }
        Ok(())
    }

    /// Where the file of a URL goes.
    fn output_of(&self, url: &Url) -> Result<Output, Failure> {
        let resume = self.resume;
        match &self.output {
            Some(_) if self.urls.len() > 1 => {
                Err(Failure::usage("-o is for one URL; --out DIR takes the files of several"))
            }
            Some(_) if self.to_stdout() => Ok(Output::Stdout),
            Some(path) if path.file_name().is_none() || path.is_dir() => {
                let name = path.display();
                Err(Failure::usage(format!("-o {name} is no file name; --out takes a directory")))
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

    /// What carries the stream for a URL.
    fn transport_of(&self, url: &Url) -> Result<Transport, Failure> {
        let transport = match (self.transport, url.scheme) {
            (_, Scheme::Https) => {
                return Err(Failure::usage(format!("{url} can be had with --page --http3 only")));
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
        Ok(transport)
    }

    /// Sorts the URLs by transport and authority, and refuses what makes no sense.
    fn groups(&self) -> Result<Vec<Group>, Failure> {
        let mut groups: Vec<Group> = Vec::new();
        let mut names = HashMap::new();
        for (index, url) in self.urls.iter().enumerate() {
            let transport = self.transport_of(url)?;
            let transaction = Transaction {
                host: url.host_field(),
                target: url.target.clone(),
                output: self.output_of(url)?,
            };
            if let Some(path) = path_of(&transaction)
                && let Some(other) = names.insert(path.to_owned(), url)
            {
                return Err(Failure::usage(format!("{other} and {url} have the same file name")));
            }
            let item = Item::new(index, url, transaction);
            let group = groups
                .iter_mut()
                .find(|g| g.transport == transport && g.authority == url.authority);
            match group {
                Some(group) => group.items.push(item),
                None => {
                    let authority = url.authority.clone();
                    groups.push(Group { transport, authority, items: vec![item] });
                }
            }
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

    /// The endpoint of all associations, if there is to be one.
    fn bind_sctp(&self, groups: &[Group]) -> Result<Option<sctp::Client>, Failure> {
        // All groups over SCTP have the same carrier.
        let mut transports = groups.iter().map(|group| group.transport);
        let Some(transport) = transports.find(|t| t.encapsulation().is_some()) else {
            return Ok(None);
        };
        let over_sctp = || groups.iter().filter(|group| group.transport == transport);
        let hosts = over_sctp().flat_map(|group| &group.authority.hosts);
        let port = over_sctp().find_map(|group| group.authority.udp_port);
        sctp::Client::bind(hosts, port, transport, &self.client, self.association_streams())
            .map(Some)
    }

    /// Prints what there is to say.
    fn finish(&self, fetched: Vec<Fetched>) -> Result<(), Failure> {
        let mut files = Vec::new();
        let mut connections = Vec::new();
        for (of_group, connection) in fetched {
            match &connection.error {
                Some(error) => complain(error),
                None => {
                    for (_, file) in &of_group {
                        if let Some(error) = &file.error {
                            complain(&format!("{}: {error}", file.url));
                        }
                    }
                }
            }
            files.extend(of_group);
            connections.push(connection);
        }
        files.sort_by_key(|(index, _)| *index);
        let files: Vec<_> = files.into_iter().map(|(_, file)| file).collect();
        let unfinished = files.iter().filter(|file| file.error.is_some());
        let failed = unfinished.clone().next().is_some();
        if let Some(kept) = kept(unfinished.map(|file| Path::new(&file.file))) {
            complain(&kept);
        }
        let report = GetReport {
            bytes: files.iter().filter_map(|file| file.bytes).sum(),
            // All connections begin together.
            seconds: connections.iter().map(|c| c.seconds).fold(0.0, f64::max),
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
    /// The files it writes.
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

/// What to say of a fetch that the user stopped: what is there to go on with.
fn interrupted(files: &[PathBuf]) -> Failure {
    match kept(files.iter().map(PathBuf::as_path)) {
        Some(kept) => Failure::Stopped(format!("interrupted: {kept}")),
        None => Failure::Interrupted,
    }
}

/// What is there of files that are not whole, and what goes on with it.
fn kept<'a>(files: impl Iterator<Item = &'a Path>) -> Option<String> {
    let parts: Vec<_> = files.filter_map(part_of).collect();
    let bytes = count(parts.iter().map(|part| part.bytes).sum(), "byte");
    let files = count(parts.len() as u64, "file");
    (!parts.is_empty()).then(|| {
        format!("{bytes} of {files} are kept, the same command with --continue goes on there")
    })
}
