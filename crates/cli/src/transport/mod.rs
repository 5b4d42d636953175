//! What `serve` and `get` run on. Each transport brings the same two functions.

pub(crate) mod sctp;
pub(crate) mod tcp;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anabranch_http::{Authority, FetchError, Fetched, Files, Observer, ServerOptions, Transaction};
use hyper_util::rt::TokioTimer;
use serde::Serialize;

use crate::address::{Address, ListenAddress};
use crate::failure::{Failure, complain};
use crate::interrupt::Interrupt;
use crate::options::Transport;
use crate::output::{grouped, print, print_json};
use crate::report::Traffic;

/// What a server serves, and how it tells.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    pub(crate) files: Files,
    pub(crate) directory: PathBuf,
    pub(crate) listen: ListenAddress,
    pub(crate) json: bool,
    pub(crate) interrupt: Interrupt,
    /// Requests at work at once.
    pub(crate) requests: usize,
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
    },
    Ended {
        peer: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        #[serde(flatten)]
        traffic: &'a Traffic,
    },
}

impl Service {
    /// How requests are served; their bounds are for all connections together.
    pub(crate) fn options(&self) -> ServerOptions {
        ServerOptions::default().with_timer(TokioTimer::new()).with_requests(self.requests)
    }

    /// Tells that requests are answered from now on, and where.
    pub(crate) fn listening(
        &self,
        transport: Transport,
        port: u16,
        udp_port: Option<u16>,
    ) -> Result<(), Failure> {
        let listen = ListenAddress { port, ..self.listen.clone() }.to_string();
        let directory = self.directory.display().to_string();
        if self.json {
            return print_json(&ServerEvent::Listening { transport, listen, udp_port, directory });
        }
        let scheme = if transport == Transport::Tcp { "http" } else { "sctp" };
        let udp = udp_port.map(|port| format!(" (UDP port {port})")).unwrap_or_default();
        print(&format!("serving {directory} on {scheme}://{listen}/{udp}\n"))
    }

    /// Tells what went over a connection that has ended.
    pub(crate) fn ended(&self, peer: &str, error: Option<String>, traffic: &Traffic) {
        let told = if self.json {
            print_json(&ServerEvent::Ended { peer, error, traffic })
        } else {
            let transactions = traffic.streams.iter().map(|s| s.transactions).sum::<u64>();
            let sent = traffic.totals().1;
            let how = error.map(|error| format!(", {error}")).unwrap_or_default();
            let tables = if traffic.paths.iter().any(|path| path.sctp.is_some()) {
                traffic.tables()
            } else {
                String::new()
            };
            print(&format!(
                "{peer}: {} requests, {} bytes sent{how}\n{tables}",
                grouped(transactions),
                grouped(sent)
            ))
        };
        if let Err(Failure::Failed(sentence)) = told {
            complain(&sentence);
        }
    }
}

/// What a client wants of one authority.
pub(crate) struct Order<'a> {
    pub(crate) authority: &'a Authority,
    /// The addresses of the authority's hosts, with its port.
    pub(crate) remotes: Vec<SocketAddr>,
    /// Addresses to connect from; none leaves it to the system.
    pub(crate) locals: &'a [Address],
    pub(crate) transactions: &'a [Transaction],
    pub(crate) streams: u16,
    pub(crate) connect_timeout: Duration,
    /// How long nothing may come from the server.
    pub(crate) silence: Option<Duration>,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) interrupt: &'a Interrupt,
}

/// What became of an order.
pub(crate) struct Delivery {
    pub(crate) results: Vec<Result<Fetched, FetchError>>,
    pub(crate) traffic: Traffic,
    /// When the last transaction was over; how the connection ends takes longer.
    pub(crate) done: Instant,
    /// How the connection ended if not as it should.
    pub(crate) error: Option<String>,
}
