//! The transports of `serve` and `get`. Each has the same two functions.

mod crowd;
pub(crate) mod requests;
pub(crate) mod sctp;
pub(crate) mod tcp;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use anabranch::SCTP_UDP_PORT;
use anabranch::seal::Invitation;
use anabranch_http::{
    Access, Authority, FetchError, FetchOptions, FetchReport, Fetched, Logged, Observer,
    OpenStreams, ServerOptions, Store, Transaction, Upload, fetch_with, put_all,
};
use serde::Serialize;

use crate::address::{Address, ListenAddress};
use crate::clock::rfc3339;
use crate::failure::{Failure, complain};
use crate::interrupt::Interrupt;
use crate::options::Transport;
use crate::output::{count, json_line, log, one_line, print, print_first};
use crate::report::Traffic;
use crate::sealed::Identity;

/// What a server serves, and how it reports.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    pub(crate) files: Store,
    pub(crate) directory: PathBuf,
    pub(crate) listen: ListenAddress,
    pub(crate) json: bool,
    /// Report which path and stream carried what.
    pub(crate) paths: bool,
    pub(crate) interrupt: Interrupt,
    /// How requests are served; its limits are shared by all connections.
    pub(crate) http: ServerOptions,
    /// Maximum number of TCP connections at the same time.
    pub(crate) most_connections: usize,
    /// How long answers in progress may take when the server stops.
    pub(crate) grace: Duration,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum ServerEvent<'a> {
    Listening {
        transport: Transport,
        listen: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        udp_port: Option<u16>,
        directory: String,
        /// The server's public key, and the line for clients.
        #[serde(skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        invitation: Option<String>,
    },
    /// For one more user of a private server.
    Invitation { invitation: String },
    Request {
        time: String,
        peer: &'a str,
        method: &'a str,
        target: &'a str,
        status: u16,
        /// Bytes of the answer's body that the peer accepted.
        bytes: u64,
        complete: bool,
        seconds: f64,
    },
    Ended {
        time: String,
        peer: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        #[serde(flatten)]
        traffic: &'a Traffic,
    },
}

impl Service {
    /// Reports that the server answers requests now, and where.
    pub(crate) fn listening(
        &self,
        transport: Transport,
        port: u16,
        udp_port: Option<u16>,
        identity: Option<&Identity>,
    ) -> Result<(), Failure> {
        let listen = ListenAddress { port, udp_port: None, ..self.listen.clone() }.to_string();
        let directory = self.directory.display().to_string();
        if self.json {
            let key = identity.map(|identity| identity.key.to_string());
            let invitation = identity.map(|identity| format!("{}:{port}", identity.line));
            return print_first(&json_line(&ServerEvent::Listening {
                transport,
                listen,
                udp_port,
                directory,
                key,
                invitation,
            })?);
        }
        let scheme = if transport == Transport::Tcp { "http" } else { "sctp" };
        let other = udp_port.filter(|port| *port != SCTP_UDP_PORT);
        let other = other.map(|port| format!(";udp={port}")).unwrap_or_default();
        let key = identity.map(|identity| format!(";key={}", identity.key)).unwrap_or_default();
        // Format the URL for a client's command line, with quotes where shells need them.
        let quote = if other.is_empty() && key.is_empty() { "" } else { "'" };
        let url = format!("{quote}{scheme}://{listen}{other}{key}/{quote}");
        let udp = udp_port.map(|port| format!(" (UDP port {port})")).unwrap_or_default();
        let line = identity.map(|identity| {
            let (audience, line) = (identity.audience(), &identity.line);
            format!("sealed; the same for {audience}:\n\n  anabranch get {line}:{port}/\n\n")
        });
        print_first(&format!("serving {directory} on {url}{udp}\n{}", line.unwrap_or_default()))
    }

    /// Prints a line for one more user.
    pub(crate) fn invited(&self, port: u16, line: &Invitation) -> Result<(), Failure> {
        if self.json {
            let invitation = format!("{line}:{port}");
            return print(&json_line(&ServerEvent::Invitation { invitation })?);
        }
        print(&format!("for one more user:\n\n  anabranch get {line}:{port}/\n\n"))
    }

    /// The files, with a log line for each request of this peer.
    pub(crate) fn files_for(&self, peer: &str) -> Logged<Store> {
        Logged::new(self.files.clone(), self.access_log(peer))
    }

    /// The HTTP options for this peer, which log each request that is refused before it reaches the files.
    pub(crate) fn options_for(&self, peer: &str) -> ServerOptions {
        self.http.clone().with_refused(self.access_log(peer))
    }

    fn access_log(&self, peer: &str) -> impl Fn(Access) + Send + Sync + 'static {
        let (peer, json) = (peer.to_owned(), self.json);
        move |access| {
            requests::note(&access);
            let told = access_line(&peer, &access, json).and_then(|line| log(&line));
            if let Err(Failure::Failed(sentence)) = told {
                complain(&sentence);
            }
        }
    }

    /// Reports the traffic of a connection that has ended. As text, only with --paths or if there were events,
    /// because the requests themselves have been logged.
    pub(crate) fn ended(&self, peer: &str, error: Option<String>, traffic: &Traffic) {
        let time = rfc3339(SystemTime::now());
        let eventful = error.is_some() || traffic.events.iter().any(|event| !event.ordinary);
        let told = if self.json {
            json_line(&ServerEvent::Ended { time, peer, error, traffic })
                .and_then(|line| log(&line))
        } else if !self.paths && !eventful {
            Ok(())
        } else {
            let transactions = traffic.streams.iter().map(|s| s.transactions).sum::<u64>();
            let sent = traffic.totals().1;
            let how = error.map(|error| format!(", {error}")).unwrap_or_default();
            let tables = if traffic.paths.iter().any(|path| path.sctp().is_some()) {
                traffic.text(self.paths)
            } else {
                String::new()
            };
            log(&format!(
                "{time} {peer} ended: {}, {} sent{how}\n{tables}",
                count(transactions, "request"),
                count(sent, "byte")
            ))
        };
        if let Err(Failure::Failed(sentence)) = told {
            complain(&sentence);
        }
    }
}

/// A line for a request: time, peer, method, target, status and bytes of the answer.
fn access_line(peer: &str, access: &Access, json: bool) -> Result<String, Failure> {
    let time = rfc3339(access.at);
    let (method, target) = (access.method.as_str(), access.target.as_str());
    let (status, bytes, complete) = (access.status.as_u16(), access.bytes, access.complete);
    if json {
        let seconds = access.took.as_secs_f64();
        return json_line(&ServerEvent::Request {
            time,
            peer,
            method,
            target,
            status,
            bytes,
            complete,
            seconds,
        });
    }
    let cut = if complete { "" } else { " cut off" };
    // Keep a request on one line, whatever the parser accepts.
    let (method, target) = (one_line(method), one_line(target));
    Ok(format!("{time} {peer} {method} {target} {status} {bytes}{cut}\n"))
}

/// What to do over a connection.
#[derive(Clone, Copy)]
pub(crate) enum Work<'a> {
    Fetch(&'a [Transaction]),
    Put(&'a [Upload]),
}

impl Work<'_> {
    async fn run<C: OpenStreams>(
        self,
        connection: &C,
        options: &FetchOptions,
        observer: &dyn Observer,
    ) -> FetchReport {
        match self {
            Self::Fetch(list) => fetch_with(connection, list, options, observer).await,
            Self::Put(list) => put_all(connection, list, options, observer).await,
        }
    }
}

/// A client's work for one authority.
pub(crate) struct Order<'a> {
    pub(crate) authority: &'a Authority,
    /// The addresses of the authority's hosts, with its port.
    pub(crate) remotes: Vec<SocketAddr>,
    /// Addresses to connect from; if empty, the system chooses.
    pub(crate) locals: &'a [Address],
    pub(crate) work: Work<'a>,
    pub(crate) fetch: FetchOptions,
    pub(crate) connect_timeout: Duration,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) interrupt: &'a Interrupt,
}

/// The result of an order.
pub(crate) struct Delivery {
    pub(crate) results: Vec<Result<Fetched, FetchError>>,
    pub(crate) traffic: Traffic,
    /// When the last transaction ended; closing the connection takes longer.
    pub(crate) done: Instant,
    /// How the connection ended, unless it ended normally.
    pub(crate) error: Option<String>,
}
