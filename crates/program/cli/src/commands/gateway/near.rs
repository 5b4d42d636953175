//! `anabranch gateway near`.

#[cfg(target_os = "linux")]
mod command;

use std::ffi::OsString;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anabranch::seal::{Invitation, Seal, Token};
use anabranch::{Association, ConnectError, ConnectOptions, Endpoint, VantagePoint};
use anabranch_gateway::{Connect, Link, LinkEvent, NearOptions, Page, UplinkSpec, Uplinks};
use anabranch_http::Authority;
use clap::Args;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::report::{self, Event};
use super::{PORT, config};
use crate::address::{Address, authority, plain_address, resolve, socket};
use crate::endpoint::{Binding, Watch, close, sealed};
use crate::failure::{Failure, complain};
use crate::interrupt::Interrupt;
use crate::options::{SctpOptions, Transport, duration, size};
use crate::output::{json_line, print_first, write_in_background};
use crate::sealed::keys::key;

/// A proxy for HTTP and SOCKS5 that reaches the network through the far side
///
/// Takes the invitation that the far side prints: anb1:... Encrypts everything, and uses all uplinks that --uplink names
/// at the same time; each may be behind an address translator, come and go, and change its address.
///
/// Runs beside browsers, curl, git and ssh until Ctrl-C. One port takes HTTP proxy requests, CONNECT and SOCKS5, and
/// serves /proxy.pac for browsers. When the far side is lost, open connections end, and new ones wait until it is there
/// again. Prints a line for each connection that ends.
///
/// With a COMMAND, runs that instead, with no other network than the gateway: any program, without a proxy. Ends with its
/// exit code. Needs Linux, but not root.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch gateway near anb1:...
  anabranch gateway near anb1:... --uplink wlan0,wwan0
  anabranch gateway near anb1:... --mirror
  anabranch gateway near anb1:... -- firefox
  anabranch gateway near anb1:... --uplink wlan0,wwan0:backup,eth1:limit=2GB/d
  anabranch gateway near --plain 127.0.0.1:9899
  anabranch gateway near --plain far.example:9899 --listen 127.0.0.1:8080 --json
  curl --proxy http://127.0.0.1:1080 http://example.com/
  curl --proxy socks5h://127.0.0.1:1080 https://example.com/")]
pub(super) struct Near {
    /// The invitation of the far side; it remembers this near side's key, so the same line works again
    #[arg(value_name = "LINE", required_unless_present = "plain", conflicts_with = "plain")]
    line: Option<Invitation>,
    /// Interfaces or local addresses to use at the same time, at most eight; with :backup only while no other works,
    /// with :limit=SIZE/PERIOD not after SIZE in a PERIOD of h, d, w or 30d [default: all interfaces with a route]
    #[arg(
        long,
        value_name = "NAME|ADDR[:...][,...]",
        value_delimiter = ',',
        conflicts_with = "plain"
    )]
    uplink: Vec<UplinkSpec>,
    /// Send small messages, such as keys of ssh and datagrams of calls, over two uplinks, in both directions. The first
    /// copy counts, so a loss or a delay on one uplink is not noticed. SIZE is the largest small message, 500 B if not given
    #[arg(
        long,
        value_name = "SIZE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "500",
        value_parser = mirror_size,
        conflicts_with = "copies_up_to"
    )]
    mirror: Option<u16>,
    /// File with the secret key, made if it is missing [default: near.key in the user's configuration]
    #[arg(long, value_name = "FILE", conflicts_with = "plain")]
    key: Option<PathBuf>,
    /// Hosts and UDP port of a far side with --plain; nothing is encrypted
    #[arg(long, value_name = "HOST[,HOST...]:PORT", value_parser = authority)]
    plain: Option<Authority>,
    /// Address and port of the proxy [default: 127.0.0.1:1080; with a COMMAND, there is none]
    #[arg(long, value_name = "ADDR:PORT", value_parser = socket)]
    listen: Option<SocketAddr>,
    /// Connections of clients at the same time; more wait
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    max_connections: u32,
    /// How long a target may take to answer a request through the HTTP proxy
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    answer_timeout: Duration,
    /// Addresses to connect from with --plain [default: those of the host]
    #[arg(long, value_name = "ADDR,...", value_delimiter = ',', value_parser = plain_address, requires = "plain")]
    local: Vec<Address>,
    /// How long an attempt to reach the far side may take
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    connect_timeout: Duration,
    /// Print JSON, one document a line
    #[arg(long)]
    json: bool,
    /// Append the lines about connections to this file; without a terminal, SIGHUP reopens it
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    log: Option<PathBuf>,
    /// A command to run with the gateway as its network, and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    #[command(flatten)]
    sctp: SctpOptions,
}

/// Where the proxy listens.
const PROXY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1080);

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Listening<'a> {
    Listening {
        service: &'static str,
        listen: &'a str,
        proxy: &'a str,
        pac: &'a str,
        status: &'a str,
        uplinks: &'a [String],
        sealed: bool,
    },
}

impl Near {
    pub(super) fn sctp(&self) -> &SctpOptions {
        &self.sctp
    }

    pub(super) async fn run(self) -> Result<(), Failure> {
        if !self.command.is_empty() {
            #[cfg(target_os = "linux")]
            return command::run(self).await;
            #[cfg(not(target_os = "linux"))]
            return Err(Failure::failed("a COMMAND needs Linux: use the proxy"));
        }
        write_in_background(self.log.as_deref(), self.json)?;
        crate::commands::serve::descriptors();
        let interrupt = Interrupt::of_server()?;
        let dial = self.dial()?;
        let listener = bind(self.listen.unwrap_or(PROXY)).await?;
        let page = Page::new(page_token()?, Arc::clone(&dial.uplinks));
        let names: Vec<_> = dial.uplinks.states().into_iter().map(|uplink| uplink.name).collect();
        self.tell_listening(listener.local_addr().map_err(Failure::failed)?, &page, &names)?;
        let json = self.json;
        let (endpoint, uplinks) = (dial.endpoint.clone(), Arc::clone(&dial.uplinks));
        let teller = Teller::new(&dial, Some(json));
        let link = Link::new(dial.connect(), move |event| teller.tell(&event));
        let log = Arc::new(move |access| report::access(&access, json));
        let options = NearOptions { page: Some(page), ..self.options() };
        let near = anabranch_gateway::Near::new(Arc::clone(&link), &options, log);
        #[cfg(unix)]
        crate::metrics::also(near.traffic(), None, None);
        let serving = async { tokio::join!(near.serve(listener), uplinks.follow(Some(&link))) };
        tokio::select! {
            ((), ()) = serving => {}
            () = interrupt.wait() => {}
        }
        uplinks.save();
        drop((near, link));
        close(&endpoint).await;
        Ok(())
    }

    fn options(&self) -> NearOptions {
        NearOptions {
            connections: self.max_connections as usize,
            answer_timeout: self.answer_timeout,
            ..NearOptions::default()
        }
    }

    /// What is needed to reach the far side.
    fn dial(&self) -> Result<Dial, Failure> {
        let mut config = config(&self.sctp)?;
        if let Some(most) = self.mirror {
            config.paths.copies_up_to = Some(most.into());
        }
        let mut options = ConnectOptions::from(config);
        let timeout = self.connect_timeout;
        let Some(far) = &self.plain else {
            let line = self.line.as_ref().ok_or_else(|| Failure::usage("LINE is missing"))?;
            let (secret, key) = key(self.key.as_deref(), "near.key")?;
            let seal = Seal::connect(secret, line);
            let uplinks = match &self.uplink[..] {
                [] => {
                    let far = line.addresses().iter().map(SocketAddr::ip).collect();
                    Uplinks::with_routes(seal.handle(), far)
                }
                named => {
                    let usage = Some(key.with_extension("usage"));
                    Uplinks::named(seal.handle(), named.to_vec(), usage).map_err(Failure::failed)?
                }
            };
            let seal = seal.uplinks(uplinks.uplinks());
            let uplinks = Arc::new(uplinks);
            let endpoint = sealed(&self.sctp, seal, VantagePoint::Client)?;
            let far = Destination::Sealed(line.clone());
            return Ok(Dial { endpoint, far, options, timeout, uplinks });
        };
        options.remote_udp_port = far.port;
        let binding = Binding {
            transport: Transport::SctpUdp,
            addresses: &self.local,
            udp_port: None,
            remote_udp_port: Some(far.port),
            options: &self.sctp,
        };
        let endpoint = binding.client(far.hosts.iter())?;
        let (far, uplinks) = (Destination::Plain(far.clone()), Arc::default());
        Ok(Dial { endpoint, far, options, timeout, uplinks })
    }

    fn tell_listening(
        &self,
        listen: SocketAddr,
        page: &Page,
        uplinks: &[String],
    ) -> Result<(), Failure> {
        let (proxy, pac) = (format!("http://{listen}"), format!("http://{listen}/proxy.pac"));
        let status = format!("http://{listen}{}", page.path());
        if self.json {
            let (service, listen) = ("gateway-near", listen.to_string());
            let (listen, proxy, pac, status) = (&listen, &proxy, &pac, &status);
            let sealed = self.plain.is_none();
            return print_first(&json_line(&Listening::Listening {
                service,
                listen,
                proxy,
                pac,
                status,
                uplinks,
                sealed,
            })?);
        }
        if !listen.ip().is_loopback() {
            complain(&format!("anyone who can reach {listen} can use this proxy"));
        }
        // Those that the user has named need not be repeated.
        let uplinks = match self.uplink.is_empty() && self.plain.is_none() {
            true => format!("uplinks: {}\n", uplinks.join(", ")),
            false => String::new(),
        };
        print_first(&format!(
            "gateway near: proxy for HTTP and SOCKS5 on {listen}, configuration for browsers at {pac}\n\
             status page: {status}\n{uplinks}"
        ))
    }
}

/// The most bytes of a message that goes over two uplinks.
fn mirror_size(text: &str) -> Result<u16, String> {
    let size = u16::try_from(size(text)?).ok().filter(|size| *size > 0);
    size.ok_or_else(|| "must be a size from 1 B to 65535 B".to_owned())
}

async fn bind(listen: SocketAddr) -> Result<TcpListener, Failure> {
    let bound = TcpListener::bind(listen).await;
    bound.map_err(|error| Failure::failed(format!("--listen {listen}: {error}")))
}

/// A token for the status page, as text that URLs may have.
pub(crate) fn page_token() -> Result<String, Failure> {
    let token = Token::generate().map_err(Failure::failed)?;
    Ok(token.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Where the far side is.
#[derive(Clone)]
enum Destination {
    Sealed(Invitation),
    /// Its names are resolved again at each attempt.
    Plain(Authority),
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sealed(line) => {
                let addresses = line.addresses().iter().map(SocketAddr::to_string);
                f.write_str(&addresses.collect::<Vec<_>>().join(", "))
            }
            Self::Plain(far) => far.fmt(f),
        }
    }
}

/// How the far side is reached.
#[derive(Clone)]
struct Dial {
    endpoint: Endpoint,
    far: Destination,
    options: ConnectOptions,
    timeout: Duration,
    uplinks: Arc<Uplinks>,
}

impl Dial {
    fn connect(self) -> Connect {
        Box::new(move || {
            let dial = self.clone();
            Box::pin(async move {
                let attempt = timeout(dial.timeout, dial.attempt()).await;
                attempt.unwrap_or_else(|_| {
                    let (far, waited) = (&dial.far, dial.timeout);
                    let why = match far {
                        Destination::Sealed(_) => "it cannot be reached, or does not know this key",
                        Destination::Plain(_) => {
                            "check that it runs, and that no firewall stops UDP"
                        }
                    };
                    Err(format!("no answer from {far} within {waited:?}: {why}"))
                })
            })
        })
    }

    async fn attempt(&self) -> Result<Association, String> {
        let remotes = match &self.far {
            Destination::Sealed(line) => line.key().remotes(PORT),
            Destination::Plain(far) => {
                let resolved = resolve(&Authority { port: PORT, ..far.clone() }).await;
                resolved.map_err(|failure| failure.told().0.unwrap_or("no reason").to_owned())?
            }
        };
        let connected = self.endpoint.connect(remotes, self.options.clone()).await;
        connected.map_err(|error| match error {
            ConnectError::Failed { reason, .. } => format!("cannot reach {}: {reason}", self.far),
            error => format!("cannot reach {}: {error}", self.far),
        })
    }
}

/// Tells what happens to the association, and counts it.
struct Teller {
    far: String,
    /// Whether lines are JSON; `None` without lines.
    lines: Option<bool>,
    current: Mutex<Option<Watch>>,
}

impl Teller {
    fn new(dial: &Dial, lines: Option<bool>) -> Self {
        Self { far: dial.far.to_string(), lines, current: Mutex::default() }
    }

    fn tell(&self, event: &LinkEvent) {
        let watch = match event {
            LinkEvent::Up(association) => Some(Watch::connected(association)),
            _ => None,
        };
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = watch;
        let Some(json) = self.lines else { return };
        match event {
            LinkEvent::Up(_) => report::tell(Event::Connected { far: &self.far }, json),
            LinkEvent::Down(error) => report::tell(Event::Lost { error }, json),
            LinkEvent::Failed(error) => report::tell(Event::Unreachable { error }, json),
            _ => {}
        }
    }
}
