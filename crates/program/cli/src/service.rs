//! The common part of `echo`, `discard` and `perf server`, which report the traffic of each
//! association.

use std::future::Future;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anabranch::seal::Invitation;
use anabranch::{Association, AssociationConfig, Endpoint, Listener};
use clap::Args;
use serde::Serialize;

use crate::address::ListenAddress;
use crate::clock::rfc3339;
use crate::endpoint::{Binding, Watch, accept_all, association_config, end, one_udp_port, paths};
use crate::failure::{Failure, complain};
use crate::interrupt::Interrupt;
use crate::options::{SctpOptions, Transport, refuse};
use crate::output::{count, json_line, log, print, print_first, write_in_background};
use crate::report::{PathEvent, PathReport, Traffic};
use crate::sealed::{Identity, SealedServer, ServerSealOptions};
use crate::user_signal::UserSignal;

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
        /// The server's public key, and the line for clients.
        #[serde(skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        invitation: Option<String>,
    },
    /// For one more user of a private server.
    Invitation { invitation: String },
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
    /// gracefully. With a seal, over sealed paths.
    pub(crate) async fn run<F>(
        &self,
        service: &'static str,
        seal: Option<&ServerSealOptions>,
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
        let udp_port = one_udp_port(self.udp_port, "--udp-port", self.listen.udp_port)?;
        let (endpoint, listener, sealed, mut wish) = match seal {
            Some(seal) => {
                let other = (self.transport != Transport::SctpUdp).then_some("--sealed");
                refuse(other.into_iter(), self.transport)?;
                let server = seal.server(&self.listen, udp_port, config, &self.sctp)?;
                let SealedServer { endpoint, listener, identity, clients, wish } = server;
                (endpoint, listener, Some((identity, clients)), wish)
            }
            None => {
                let (endpoint, listener) = self.bind(udp_port, config)?;
                (endpoint, listener, None, UserSignal::never())
            }
        };
        let identity = sealed.as_ref().map(|(identity, _)| identity);
        self.tell_listening(service, self.transport.udp_port(&endpoint), identity)?;
        let (json, all_paths) = (self.json, self.paths);
        let clients = sealed.as_ref().map(|(_, clients)| clients);
        let handle = |association: Association| {
            let (serve, clients) = (serve.clone(), clients.cloned());
            async move {
                let watch = Watch::accepted(&association);
                let serving = serve(association.clone());
                let served = match &clients {
                    Some(clients) => clients.during(&association, serving).await,
                    None => serving.await,
                };
                // After the end nobody knows it.
                let real = clients.as_ref().and_then(|clients| clients.real_address(&association));
                let ended = end(&association).await.err();
                let (paths, events) = (paths(&association.statistics()), watch.stop());
                let mut traffic = Traffic { paths, streams: Vec::new(), events };
                if clients.is_some() {
                    traffic = traffic.sealed();
                }
                let peer = real.map(|address| address.to_string()).or_else(|| traffic.peer());
                let peer = peer.unwrap_or_else(|| "a client".to_owned());
                tell_ended((&peer, traffic), served, ended, json, all_paths);
            }
        };
        let serving = accept_all(&endpoint, listener, &interrupt, Duration::ZERO, handle);
        let Some(clients) = clients else {
            serving.await;
            return Ok(());
        };
        tokio::select! {
            () = serving => Ok(()),
            failure = clients.follow(&mut wish, |line| self.invited(service, line)) => Err(failure),
        }
    }

    /// Opens a plain endpoint and listens.
    fn bind(
        &self,
        udp_port: Option<u16>,
        config: AssociationConfig,
    ) -> Result<(Endpoint, Listener), Failure> {
        let binding = Binding {
            transport: self.transport,
            addresses: &self.listen.addresses,
            udp_port,
            remote_udp_port: None,
            options: &self.sctp,
        };
        binding.server(self.listen.port, config)
    }

    fn tell_listening(
        &self,
        service: &'static str,
        udp_port: Option<u16>,
        identity: Option<&Identity>,
    ) -> Result<(), Failure> {
        let listen = ListenAddress { udp_port: None, ..self.listen.clone() }.to_string();
        let transport = self.transport;
        let line = identity.map(|identity| format!("{}:{}", identity.line, self.listen.port));
        if self.json {
            let (listen, invitation) = (&listen, line);
            let key = identity.map(|identity| identity.key.to_string());
            let listening =
                Event::Listening { service, transport, listen, udp_port, key, invitation };
            return print_first(&json_line(&listening)?);
        }
        let udp = udp_port.map(|port| format!(" (UDP port {port})")).unwrap_or_default();
        let sealed = line.map(|line| {
            let audience = match identity.is_some_and(|identity| identity.line.token().is_some()) {
                true => "one more user connects",
                false => "clients connect",
            };
            format!(
                ", sealed; {audience} with this line:\n\n  anabranch {service} client {line}\n\n"
            )
        });
        let sealed = sealed.as_deref().unwrap_or("\n");
        print_first(&format!("{service} on {listen} over {transport}{udp}{sealed}"))
    }

    /// Prints a line for one more user.
    fn invited(&self, service: &'static str, line: &Invitation) -> Result<(), Failure> {
        let line = format!("{line}:{}", self.listen.port);
        if self.json {
            return print(&json_line(&Event::Invitation { invitation: line })?);
        }
        print(&format!("for one more user:\n\n  anabranch {service} client {line}\n\n"))
    }
}

/// Reports the traffic with a peer. `ended` is the error with which the association ended.
fn tell_ended(
    (peer, traffic): (&str, Traffic),
    served: Served,
    ended: Option<String>,
    json: bool,
    all_paths: bool,
) {
    let error = served.error.clone().or(ended);
    let time = rfc3339(SystemTime::now());
    let told = if json {
        let Traffic { paths, events, .. } = traffic;
        let ended = Event::Ended { time, peer, error, served: &served, paths, events };
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
