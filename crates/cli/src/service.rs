//! What `echo`, `discard` and `perf server` have in common: a server on SCTP ports that tells
//! what went over each association.

use std::future::Future;

use anabranch::Association;
use clap::Args;
use serde::Serialize;

use crate::address::ListenAddress;
use crate::endpoint::{Binding, Watch, accept_all, association_config, end, listen, paths};
use crate::failure::{Failure, complain};
use crate::interrupt::Interrupt;
use crate::options::{SctpOptions, Transport};
use crate::output::{grouped, print, print_json};
use crate::report::{PathEvent, PathReport, Traffic};

/// Options of a server.
#[derive(Debug, Args)]
pub(crate) struct ServiceOptions {
    /// Addresses and port, IPv6 addresses in brackets, link-local ones with their interface:
    /// [fe80::1%eth0]; with several addresses, an association has as many paths
    #[arg(long, value_name = "ADDR[,ADDR...]:PORT")]
    pub(crate) listen: ListenAddress,
    /// What carries the associations
    #[arg(long, value_enum, default_value_t = Transport::SctpUdp)]
    pub(crate) transport: Transport,
    /// Print JSON, one document a line
    #[arg(long)]
    pub(crate) json: bool,
    /// UDP port that carries SCTP, on all addresses [default: 9899]
    #[arg(long, value_name = "N", help_heading = "SCTP")]
    pub(crate) udp_port: Option<u16>,
    #[command(flatten)]
    pub(crate) sctp: SctpOptions,
}

/// What a server did for one association.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Served {
    pub(crate) messages_received: u64,
    pub(crate) bytes_received: u64,
    pub(crate) messages_sent: u64,
    pub(crate) bytes_sent: u64,
    /// What went wrong, if something did.
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
        peer: &'a str,
        error: Option<String>,
        #[serde(flatten)]
        served: &'a Served,
        paths: Vec<PathReport>,
        events: Vec<PathEvent>,
    },
}

impl ServiceOptions {
    /// Serves every association with `serve` until the user stops it; each ends gracefully.
    pub(crate) async fn run<F>(
        &self,
        service: &'static str,
        serve: impl Fn(Association) -> F + Clone + Send + 'static,
    ) -> Result<(), Failure>
    where
        F: Future<Output = Served> + Send + 'static,
    {
        let mut config = association_config(&self.sctp)?;
        // As many as a peer likes.
        config.outbound_streams = u16::MAX;
        config.inbound_streams = u16::MAX;
        let interrupt = Interrupt::install()?;
        let binding = Binding {
            transport: self.transport,
            addresses: &self.listen.addresses,
            udp_port: self.udp_port,
            options: &self.sctp,
        };
        let endpoint = binding.server()?;
        let listener = listen(&endpoint, self.listen.port, config)?;
        self.tell_listening(service, self.transport.udp_port(&endpoint))?;
        let json = self.json;
        let handle = |association: Association| {
            let serve = serve.clone();
            async move {
                let watch = Watch::start(&association);
                let served = serve(association.clone()).await;
                tell_ended(&association, served, watch.stop(), json).await;
            }
        };
        accept_all(&endpoint, listener, &interrupt, handle).await;
        Ok(())
    }

    fn tell_listening(&self, service: &'static str, udp_port: Option<u16>) -> Result<(), Failure> {
        let (transport, listen) = (self.transport, self.listen.to_string());
        if self.json {
            let listen = &listen;
            return print_json(&Event::Listening { service, transport, listen, udp_port });
        }
        let udp = udp_port.map(|port| format!(" (UDP port {port})")).unwrap_or_default();
        print(&format!("{service} on {listen} over {transport}{udp}\n"))
    }
}

/// Ends an association and tells what went over it.
async fn tell_ended(association: &Association, served: Served, events: Vec<PathEvent>, json: bool) {
    let ended = end(association).await.err();
    let error = served.error.clone().or(ended);
    let paths = association.statistics().as_ref().map(paths).unwrap_or_default();
    let traffic = Traffic { paths, streams: Vec::new(), events };
    let peer = traffic.peer().unwrap_or_else(|| "a client".to_owned());
    let told = if json {
        let Traffic { paths, events, .. } = traffic;
        print_json(&Event::Ended { peer: &peer, error, served: &served, paths, events })
    } else {
        let how = error.map(|error| format!(", {error}")).unwrap_or_default();
        print(&format!(
            "{peer}: received {} bytes in {} messages, sent {} in {}{how}\n{}",
            grouped(served.bytes_received),
            grouped(served.messages_received),
            grouped(served.bytes_sent),
            grouped(served.messages_sent),
            traffic.tables()
        ))
    };
    if let Err(Failure::Failed(sentence)) = told {
        complain(&sentence);
    }
}
