//! `anabranch serve`.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anabranch_http::{Files, ServerOptions, Store, Unreadable, Uploads};
use clap::Args;
use hyper_util::rt::TokioTimer;

use crate::address::ListenAddress;
use crate::endpoint::one_udp_port;
use crate::failure::{Failure, complain};
use crate::interrupt::Interrupt;
use crate::options::{SctpOptions, Transport, duration, refuse, size};
use crate::sealed::ServerSealOptions;
use crate::transport::{self, Service};

/// Serve the files below a directory over HTTP, on SCTP streams or TCP
///
/// Answers GET and HEAD, byte ranges and conditional requests, and with --upload PUT. To clients that accept it,
/// NAME.br or NAME.gz is sent instead of a text NAME, unless it is older. Nothing outside the directory is
/// served; symbolic links are followed as long as they stay inside. Runs until Ctrl-C. Prints the traffic over
/// each path and stream for each connection that ends.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch serve . --listen 127.0.0.1,127.0.0.2:8080
  anabranch serve /srv/www --listen 192.0.2.1,[2001:db8::1]:80 --pmr 0 --rto-min 200ms
  anabranch serve . --listen 192.0.2.1:80 --transport sctp
  anabranch serve . --listen '[::]:80' --sealed
  anabranch serve . --listen '[::]:80' --sealed --private --upload .
  anabranch serve . --listen 127.0.0.1:8080 --transport tcp
  anabranch serve . --listen 192.0.2.1:80 --tcp 192.0.2.1:80
  anabranch serve . --listen 127.0.0.1:8080 --upload . --max-upload 100MB")]
pub(crate) struct Serve {
    /// The directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Addresses and port, IPv6 addresses in brackets, link-local ones with their interface: [fe80::1%eth0]; with
    /// several addresses, an association has several paths
    #[arg(long, value_name = "ADDR[,ADDR...]:PORT")]
    listen: ListenAddress,
    /// What carries the streams
    #[arg(long, value_enum, default_value_t = Transport::SctpUdp)]
    transport: Transport,
    /// Serve the same files over TCP at this address, too
    #[arg(long, value_name = "ADDR[,ADDR...]:PORT")]
    tcp: Option<ListenAddress>,
    /// Requests in progress at the same time, each with an open file and up to 400 kB; others wait. One client
    /// may use a quarter of them, and another quarter is reserved for clients that have none [default: 256, or
    /// fewer if the system limits open files]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    max_requests: Option<u32>,
    /// Answer the requests of a client one after another
    #[arg(long, hide_short_help = true)]
    one_by_one: bool,
    /// End a stream whose request is still incomplete after this time
    #[arg(long, value_name = "TIME", default_value = "30s", hide_short_help = true, value_parser = duration)]
    header_timeout: Duration,
    /// End a connection after this time without requests; 0s never does
    #[arg(long, value_name = "TIME", default_value = "2m", hide_short_help = true, value_parser = duration)]
    idle_timeout: Duration,
    /// When stopping, allow this time for answers in progress; longer ones are cut off
    #[arg(long, value_name = "TIME", default_value = "10s", hide_short_help = true, value_parser = duration)]
    grace: Duration,
    /// Also serve and list names that begin with a dot; .well-known is always served
    #[arg(long, hide_short_help = true)]
    dot_files: bool,
    /// Accept files that clients send with PUT into this directory, from ANYBODY who can reach this server, unless it is
    /// --private
    ///
    /// Without --sealed --private there is no authentication of clients, and without --sealed no encryption: anyone who can
    /// connect can write there, replace existing files and fill the disk. PUT /a/b writes DIR/a/b, if the directory DIR/a exists. A file gets its name once
    /// it is whole. Names that begin with a dot and links are refused. To serve the uploaded files, give the same
    /// directory twice. Off by default.
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    upload: Option<PathBuf>,
    /// Longest file that --upload accepts
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "1GB",
        hide_short_help = true,
        requires = "upload",
        value_parser = size
    )]
    max_upload: usize,
    /// Longest head of a request
    #[arg(long, value_name = "SIZE", default_value = "16Ki", hide_short_help = true, value_parser = size)]
    max_head: usize,
    /// Print JSON, one document a line
    #[arg(long)]
    json: bool,
    /// Report for each connection which path and stream carried what
    #[arg(long)]
    paths: bool,
    /// Append the lines of requests to this file; without a terminal, SIGHUP reopens it
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    log: Option<PathBuf>,
    /// UDP port that carries SCTP, on all addresses [default: 9899]
    #[arg(long, value_name = "N", help_heading = "SCTP")]
    udp_port: Option<u16>,
    #[command(flatten)]
    seal: ServerSealOptions,
    #[command(flatten)]
    sctp: SctpOptions,
}

impl Serve {
    /// The SCTP options, unless the server uses only TCP.
    pub(crate) fn sctp(&self) -> Option<&SctpOptions> {
        (self.transport != Transport::Tcp && self.tcp.is_none()).then_some(&self.sctp)
    }

    /// The UDP port that carries SCTP, if it is given. Rejects options that contradict each other.
    fn carrier(&self) -> Result<Option<u16>, Failure> {
        let carrier = one_udp_port(self.udp_port, "--udp-port", self.listen.udp_port)?;
        let udp_port = carrier.map(|_| "--udp-port");
        match self.transport {
            Transport::SctpUdp => {}
            Transport::Sctp => refuse(udp_port.into_iter(), self.transport)?,
            Transport::Tcp => {
                let each = self.sctp.metrics_associations.then_some("--metrics-associations");
                let given = self.sctp.given().filter(|name| !cfg!(unix) || *name != "--metrics");
                refuse(udp_port.into_iter().chain(each).chain(given), self.transport)?;
            }
        }
        if self.seal.sealed {
            refuse(
                ["--sealed"].into_iter().filter(|_| self.transport != Transport::SctpUdp),
                self.transport,
            )?;
            if self.tcp.is_some() {
                return Err(Failure::usage(
                    "--tcp would serve the same files without encryption: start another server for that, or leave \
                     --sealed out",
                ));
            }
        }
        if let Some(tcp) = &self.tcp {
            if self.transport == Transport::Tcp {
                return Err(Failure::usage(
                    "--tcp is for a server over SCTP: with --transport tcp, --listen says where",
                ));
            }
            if let Some(udp_port) = tcp.udp_port {
                return Err(Failure::usage(format!(";udp={udp_port} means nothing to tcp")));
            }
            #[cfg(unix)]
            crate::activation::expect_both_kinds();
        }
        Ok(carrier)
    }

    pub(crate) async fn run(self) -> Result<(), Failure> {
        let carrier = self.carrier()?;
        let files = Files::open(&self.directory).map_err(|error| {
            let name = self.directory.display();
            Failure::failed(match error.kind() {
                io::ErrorKind::NotFound => format!("there is no directory {name}"),
                io::ErrorKind::NotADirectory => format!("{name} is not a directory"),
                _ => format!("the directory {name} cannot be opened: {error}"),
            })
        })?;
        let files = files.with_dot_files(self.dot_files);
        warn_of_unreadable(&files, &self.directory)?;
        crate::output::write_in_background(self.log.as_deref(), self.json)?;
        let descriptors = descriptors();
        let most = || (descriptors.saturating_sub(OTHER_DESCRIPTORS) / 2).clamp(1, MOST_REQUESTS);
        let requests = self.max_requests.map_or_else(most, |most| most as usize);
        let uploads = self.uploads(requests)?;
        let interrupt = Interrupt::of_server()?;
        let service = Service {
            files: Store::new(files, uploads),
            directory: self.directory,
            listen: self.listen,
            json: self.json,
            paths: self.paths,
            grace: self.grace,
            most_connections: most_connections(descriptors, requests),
            http: ServerOptions::default()
                .with_timer(TokioTimer::new())
                .with_stop(interrupt.stop())
                .with_requests(requests)
                .with_slow_answers(slow_answers(descriptors, requests))
                .with_one_by_one(self.one_by_one)
                .with_longest_head(self.max_head)
                .with_header_timeout(self.header_timeout)
                .with_idle_timeout((!self.idle_timeout.is_zero()).then_some(self.idle_timeout)),
            interrupt,
        };
        match self.transport {
            Transport::Tcp => {
                #[cfg(unix)]
                if let Some(address) = self.sctp.metrics {
                    crate::scrape::offer(None, address, &self.sctp)?;
                }
                transport::tcp::serve(service).await
            }
            Transport::SctpUdp | Transport::Sctp => {
                let beside = self.tcp.map(|listen| Service { listen, ..service.clone() });
                let tcp = async move {
                    match beside {
                        Some(service) => transport::tcp::serve(service).await,
                        None => Ok(()),
                    }
                };
                let sctp = transport::sctp::serve(
                    service,
                    self.transport,
                    &self.sctp,
                    carrier,
                    &self.seal,
                );
                // If one of them cannot listen, the other is stopped, too.
                tokio::try_join!(sctp, tcp).map(|_| ())
            }
        }
    }
}

impl Serve {
    /// Opens the directory for uploads, which may use half of the places for requests.
    fn uploads(&self, requests: usize) -> Result<Option<Uploads>, Failure> {
        let Some(directory) = &self.upload else { return Ok(None) };
        let opened = Uploads::open(directory, self.max_upload as u64, requests / 2);
        let uploads = opened.map_err(|error| {
            let name = directory.display();
            Failure::failed(match error.kind() {
                io::ErrorKind::NotFound => format!("--upload: there is no directory {name}"),
                io::ErrorKind::NotADirectory => format!("--upload: {name} is not a directory"),
                _ => format!("--upload: nothing can be written to the directory {name}: {error}"),
            })
        })?;
        let who = match self.seal.private {
            true => "all users of this server",
            false => "anyone who can reach this server",
        };
        complain(&format!("{who} can write to {}", directory.display()));
        Ok(Some(uploads))
    }
}

/// Rejects a directory whose files cannot be accessed, and warns about one that cannot be listed.
fn warn_of_unreadable(files: &Files, directory: &Path) -> Result<(), Failure> {
    let name = directory.display();
    match files.check() {
        Err((Unreadable::Files, error)) => Err(Failure::failed(format!(
            "nothing in the directory {name} can be reached by this user: {error}"
        ))),
        Err((Unreadable::Listing, error)) => {
            complain(&format!(
                "the directory {name} cannot be listed; clients must know the names of its files: {error}"
            ));
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// Default number of requests in progress at the same time.
const MOST_REQUESTS: usize = 256;

/// Number of descriptors for sockets, directories, logs and the rest.
const OTHER_DESCRIPTORS: usize = 32;

/// Number of descriptors to request, if this user may have them.
const MOST_DESCRIPTORS: u64 = 16_384;

/// Maximum number of TCP connections; each needs about 23 kB.
const MOST_CONNECTIONS: usize = 10_000;

/// Maximum number of answers with slow readers, in addition to the requests in progress; each has a descriptor
/// and about 64 KiB.
fn slow_answers(descriptors: usize, requests: usize) -> usize {
    (descriptors / 8).min(requests.saturating_mul(8))
}

/// Maximum number of TCP connections that leaves a descriptor for each answer: a quarter more requests may be in
/// progress.
fn most_connections(descriptors: usize, requests: usize) -> usize {
    let files = requests + requests.div_ceil(4) + slow_answers(descriptors, requests);
    let left = descriptors.saturating_sub(OTHER_DESCRIPTORS + files);
    // Looking up compressed files and directories needs further descriptors.
    (left / 4 * 3).clamp(4, MOST_CONNECTIONS)
}

/// Number of descriptors that this process may have, after raising the limit as far as useful.
#[cfg(unix)]
pub(crate) fn descriptors() -> usize {
    use nix::sys::resource::{Resource::RLIMIT_NOFILE, getrlimit, setrlimit};
    let Ok((soft, hard)) = getrlimit(RLIMIT_NOFILE) else { return MOST_DESCRIPTORS as usize };
    let wanted = soft.max(hard.min(MOST_DESCRIPTORS));
    let given = if setrlimit(RLIMIT_NOFILE, wanted, hard).is_ok() { wanted } else { soft };
    usize::try_from(given).unwrap_or(usize::MAX)
}

#[cfg(not(unix))]
pub(crate) fn descriptors() -> usize {
    MOST_DESCRIPTORS as usize
}
