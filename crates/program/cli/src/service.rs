//! The common part of `echo`, `discard` and `perf server`, which report the traffic of each
//! association.

use std::future::Future;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anabranch::Association;
use clap::Args;
use serde::Serialize;

use crate::address::ListenAddress;
use crate::clock::rfc3339;
use crate::endpoint::{Binding, Watch, accept_all, association_config, end, one_udp_port, paths};
use crate::failure::{Failure, complain};
use crate::interrupt::Interrupt;
use crate::options::{SctpOptions, Transport};
use crate::output::{count, json_line, log, print_first, write_in_background};
use crate::report::{PathEvent, PathReport, Traffic};

/// Options of a server.
#[derive(Debug, Args)]
pub(crate) struct ServiceOptions {
    /// Addresses and port, IPv6 addresses in brackets, link-local ones with their interface:
    /// [fe80::1%eth0]; with several addresses, an association has several paths
    #[arg(long, value_name = "ADDR[,ADDR...]:PORT")]
    pub(crate) listen: ListenAddress,
    /// What carries the associations
    #[arg(long, value_enum, default_value_t = Transport::SctpUdp)]
    pub(crate) transport: Transport,
    /// Print JSON, one document a line
    #[arg(long)]
    pub(crate) json: bool,
    /// Report for each association which path carried what
    #[arg(long)]
    pub(crate) paths: bool,
    /// Append the report of each association to this file; without a terminal, SIGHUP reopens it
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(crate) log: Option<PathBuf>,
    /// UDP port that carries SCTP, on all addresses [default: 9899]
    #[arg(long, value_name = "N", help_heading = "SCTP")]
    pub(crate) udp_port: Option<u16>,
    #[command(flatten)]
    pub(crate) sctp: SctpOptions,
}

/// The messages that a server handled on one association.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Served {
    pub(crate) messages_received: u64,
    pub(crate) bytes_received: u64,
    pub(crate) messages_sent: u64,
    pub(crate) bytes_sent: u64,
    /// The error, if there was one.
    #[serde(skip)]
    pub(crate) error: Option<String>,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event<'a> {
    Listening {
        service: &'static str,
        transport: Transport,
        listen: &'a str,
        udp_port: Option<u16>,
    },
    Ended {
        time: String,
        peer: &'a str,
        error: Option<String>,
        #[serde(flatten)]
        served: &'a Served,
        paths: Vec<PathReport>,
        events: Vec<PathEvent>,
    },
}

impl ServiceOptions {
    /// Serves every association with `serve` until the user stops the server. Each one is shut down
    /// gracefully.
    pub(crate) async fn run<F>(
        &self,
        service: &'static str,
        serve: impl Fn(Association) -> F + Clone + Send + 'static,
    ) -> Result<(), Failure>
    where
        F: Future<Output = Served> + Send + 'static,
    {
        write_in_background(self.log.as_deref(), self.json)?;
        let mut config = association_config(&self.sctp)?;
        // Allow as many streams as the peer wants.
        config.sending.outbound_streams = u16::MAX;
        config.receiving.inbound_streams = u16::MAX;
        let interrupt = Interrupt::of_server()?;
        let binding = Binding {
            transport: self.transport,
            addresses: &self.listen.addresses,
            udp_port: one_udp_port(self.udp_port, "--udp-port", self.listen.udp_port)?,
            remote_udp_port: None,
            options: &self.sctp,
        };
        let (endpoint, listener) = binding.server(self.listen.port, config)?;
        self.tell_listening(service, self.transport.udp_port(&endpoint))?;
        let (json, paths) = (self.json, self.paths);
        let handle = |association: Association| {
            let serve = serve.clone();
            async move {
                let watch = Watch::accepted(&association);
                let served = serve(association.clone()).await;
                tell_ended(&association, served, watch.stop(), json, paths).await;
            }
        };
        accept_all(&endpoint, listener, &interrupt, Duration::ZERO, handle).await;
        Ok(())
    }

    fn tell_listening(&self, service: &'static str, udp_port: Option<u16>) -> Result<(), Failure> {
        let listen = ListenAddress { udp_port: None, ..self.listen.clone() }.to_string();
        let transport = self.transport;
        if self.json {
            let listen = &listen;
            let listening = Event::Listening { service, transport, listen, udp_port };
            return print_first(&json_line(&listening)?);
        }
        let udp = udp_port.map(|port| format!(" (UDP port {port})")).unwrap_or_default();
        print_first(&format!("{service} on {listen} over {transport}{udp}\n"))
    }
}

/// Ends an association and reports its traffic.
async fn tell_ended(
    association: &Association,
    served: Served,
    events: Vec<PathEvent>,
    json: bool,
    all_paths: bool,
) {
    let ended = end(association).await.err();
    let error = served.error.clone().or(ended);
    let paths = paths(&association.statistics());
    let traffic = Traffic { paths, streams: Vec::new(), events };
    let peer = traffic.peer().unwrap_or_else(|| "a client".to_owned());
    let time = rfc3339(SystemTime::now());
    let told = if json {
        let Traffic { paths, events, .. } = traffic;
        let ended = Event::Ended { time, peer: &peer, error, served: &served, paths, events };
        json_line(&ended).and_then(|line| log(&line))
    } else {
        let how = error.map(|error| format!("\n  {error}")).unwrap_or_default();
        let direction = |name, messages, bytes| match messages {
            0 => None,
            _ => Some(format!("{name} {} in {}", count(bytes, "byte"), count(messages, "message"))),
        };
        let directions = [
            direction("received", served.messages_received, served.bytes_received),
            direction("sent", served.messages_sent, served.bytes_sent),
        ];
        let what = match directions {
            [Some(received), Some(sent)] => format!("\n  {received}\n  {sent}"),
            // If the text does not fit in 80 columns, put it on its own line.
            [Some(one), None] | [None, Some(one)] => {
                let fits = time.len() + peer.len() + one.len() + 3 <= 80;
                format!("{}{one}", if fits { " " } else { "\n  " })
            }
            [None, None] => " no messages".to_owned(),
        };
        log(&format!("{time} {peer}:{what}{how}\n{}", traffic.text(all_paths)))
    };
    if let Err(Failure::Failed(sentence)) = told {
        complain(&sentence);
    }
}
