//! SCTP endpoints, set up from the options that the commands share.

use std::collections::{HashSet, VecDeque};
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anabranch::congestion::CongestionControl;
use anabranch::runtime::{Runtime, TokioRuntime};
use anabranch::seal::Seal;
use anabranch::{
    Association, AssociationConfig, BindError, Builder, ConnectError, ConnectOptions, Endpoint,
    EndpointConfig, EventLog, Features, ListenOptions, Notification, PathState, SCTP_UDP_PORT,
    Statistics, VantagePoint,
};
use anabranch_http::{Authority, Host};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use crate::address::{Address, interface_of, is_whole_host};
use crate::counters::{self, Counted, Noted};
use crate::failure::{Failure, complain};
use crate::impairment;
use crate::interrupt::Interrupt;
use crate::options::{SctpOptions, Transport, refuse};
use crate::policies::PolicyOptions;
use crate::report::{Figures, PathEvent, PathReport, SctpPath};
use crate::zone;

/// How long a graceful shutdown may make no progress before the association is aborted.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// The UDP port given by an option or an address, which must not contradict each other.
pub(crate) fn one_udp_port(
    option: Option<u16>,
    name: &str,
    address: Option<u16>,
) -> Result<Option<u16>, Failure> {
    match (option, address) {
        (Some(option), Some(address)) if option != address => {
            Err(Failure::usage(format!("{name} {option} contradicts ;udp={address}")))
        }
        (option, address) => Ok(option.or(address)),
    }
}

/// The addresses and ports of an endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding<'a> {
    pub(crate) transport: Transport,
    /// If empty, the system chooses the addresses.
    pub(crate) addresses: &'a [Address],
    pub(crate) udp_port: Option<u16>,
    /// The peer's UDP port, if it is known.
    pub(crate) remote_udp_port: Option<u16>,
    pub(crate) options: &'a SctpOptions,
}

impl Binding<'_> {
    /// Opens an endpoint for incoming associations: on UDP port 9899 by default, listening on this SCTP port.
    pub(crate) fn server(
        &self,
        port: u16,
        config: AssociationConfig,
    ) -> Result<(Endpoint, anabranch::Listener), Failure> {
        #[cfg(unix)]
        let opened = match self.transport {
            Transport::SctpUdp => crate::activation::udp_sockets(self.addresses, self.udp_port)?,
            Transport::Sctp | Transport::Tcp => Vec::new(),
        };
        #[cfg(not(unix))]
        let opened = Vec::new();
        #[cfg(unix)]
        let gate = match &opened[..] {
            [] => None,
            _ => Some(crate::activation::Gate::before(self.runtime()?)),
        };
        #[cfg(unix)]
        let runtime = gate.clone().map(|gate| gate as Arc<dyn Runtime>);
        #[cfg(not(unix))]
        let runtime = None;
        let interface = self.options.interface.clone();
        let server = VantagePoint::Server;
        let endpoint = self.bind(SCTP_UDP_PORT, interface, opened, runtime, server)?;
        let listener =
            endpoint.listen(port, ListenOptions::from(config)).map_err(Failure::failed)?;
        #[cfg(unix)]
        if let Some(gate) = gate {
            gate.open();
        }
        Ok((endpoint, listener))
    }

    /// Opens an endpoint that can reach these hosts: on a free UDP port by default. If the user names no addresses,
    /// it uses the interface of the hosts' addresses.
    pub(crate) fn client<'h>(
        &self,
        hosts: impl Iterator<Item = &'h Host>,
    ) -> Result<Endpoint, Failure> {
        let interface = match &self.options.interface {
            Some(interface) => Some(interface.clone()),
            None if self.addresses.is_empty() => interface_of(hosts)?,
            None => None,
        };
        self.bind(0, interface, Vec::new(), None, VantagePoint::Client)
    }

    fn runtime(&self) -> Result<Arc<dyn Runtime>, Failure> {
        runtime_of(self.options)
    }

    /// Binds the endpoint; sockets in `opened` replace the addresses.
    fn bind(
        &self,
        udp_port: u16,
        interface: Option<String>,
        opened: Vec<UdpSocket>,
        runtime: Option<Arc<dyn Runtime>>,
        vantage_point: VantagePoint,
    ) -> Result<Endpoint, Failure> {
        let Some(encapsulation) = self.transport.encapsulation() else {
            return Err(Failure::usage("--transport tcp works with serve, get and put only"));
        };
        if let (Transport::Sctp, Some(_)) = (self.transport, self.udp_port) {
            refuse(["--udp-port"].into_iter(), self.transport)?;
        }
        let mut config = endpoint_config(self.options)?;
        config.encapsulation = encapsulation;
        let mut builder = Endpoint::builder()
            .config(config)
            .shards(self.options.shards.unwrap_or(1))
            .udp_port(self.udp_port.unwrap_or(udp_port));
        let whole_host = vantage_point == VantagePoint::Server && is_whole_host(self.addresses);
        // If there are no addresses, the endpoint opens a socket for each IP version of the host.
        let addresses = if opened.is_empty() && !whole_host { self.addresses } else { &[] };
        for socket in opened {
            builder = builder.socket(socket);
        }
        for address in addresses {
            builder = match (address.ip, &address.zone) {
                (IpAddr::V6(ip), Some(zone)) => builder.link_local_address(ip, zone::name(zone)?),
                (ip, _) => builder.local_addresses([ip]),
            };
        }
        if let Some(interface) = interface {
            builder = builder.interface(interface);
        }
        let runtime = match runtime {
            Some(runtime) => runtime,
            None => self.runtime()?,
        };
        let endpoint = open(self.options, builder.runtime(runtime), vantage_point)?;
        self.tell_how_to_read_the_capture(&endpoint);
        Ok(endpoint)
    }
}

/// Rejects options that mean nothing to sealed paths.
pub(crate) fn check_sealed(
    options: &SctpOptions,
    vantage_point: VantagePoint,
) -> Result<(), Failure> {
    refuse(options.interface.iter().map(|_| "--interface"), "sealed paths")?;
    // A client has one session with a server, which cannot be divided.
    let divides = options.shards.is_some_and(|shards| shards > 1);
    let divides = divides && vantage_point == VantagePoint::Client;
    refuse(divides.then_some("--shards").into_iter(), "a client with sealed paths")
}

/// Opens an endpoint with sealed paths. The seal has its addresses and ports.
pub(crate) fn sealed(
    options: &SctpOptions,
    seal: Seal,
    vantage_point: VantagePoint,
) -> Result<Endpoint, Failure> {
    check_sealed(options, vantage_point)?;
    let shards = options.shards.unwrap_or(1);
    let builder = Endpoint::builder().config(endpoint_config(options)?).seal(seal).shards(shards);
    let runtime = runtime_of(options)?;
    open(options, builder.runtime(runtime), vantage_point)
}

/// The options of an endpoint over UDP.
fn endpoint_config(options: &SctpOptions) -> Result<EndpointConfig, Failure> {
    let mut config = EndpointConfig::default();
    if let Some(limit) = options.memory_limit {
        config.memory_limit = limit;
        config.max_associations = places(limit);
    }
    config.validate().map_err(Failure::usage)?;
    Ok(config)
}

/// The runtime of this process. With `--impair`, its sockets follow the impairment file.
fn runtime_of(options: &SctpOptions) -> Result<Arc<dyn Runtime>, Failure> {
    match &options.impair {
        Some(file) => impairment::runtime(file),
        None => match TokioRuntime::current() {
            Some(runtime) => Ok(Arc::new(runtime)),
            None => Err(Failure::failed("there is no runtime for sockets")),
        },
    }
}

/// Opens an endpoint with the files and sockets by which it is observed.
fn open(
    options: &SctpOptions,
    mut builder: Builder,
    vantage_point: VantagePoint,
) -> Result<Endpoint, Failure> {
    crate::outputs::check(&[
        ("--capture", options.capture.as_deref()),
        ("--qlog", options.qlog.as_deref()),
    ])?;
    if let Some(capture) = &options.capture {
        builder = builder.capture(capture);
    }
    if let Some(file) = &options.qlog {
        let log = EventLog::new(file).title(title()).vantage_point(vantage_point);
        builder = builder.event_log(log);
    }
    if let Some(time) = options.busy_poll {
        builder = builder.busy_poll(time);
    }
    let endpoint = builder.bind().map_err(cannot_bind)?;
    #[cfg(unix)]
    crate::control::offer(&endpoint, options.control.as_deref())?;
    #[cfg(unix)]
    if let Some(address) = options.metrics {
        crate::scrape::offer(Some(&endpoint), address, options)?;
    }
    #[cfg(not(unix))]
    refuse(options.control.iter().map(|_| "--control"), "this system")?;
    #[cfg(not(unix))]
    refuse(options.metrics.iter().map(|_| "--metrics"), "this system")?;
    Ok(endpoint)
}

impl Binding<'_> {
    /// Prints how to read the capture: by default, Wireshark recognises SCTP only on UDP port 9899.
    fn tell_how_to_read_the_capture(&self, endpoint: &Endpoint) {
        let port = self.transport.udp_port(endpoint).filter(|port| *port != SCTP_UDP_PORT);
        // One of the two ports is enough, so a client of port 9899 needs no hint.
        let remote = self.remote_udp_port.unwrap_or(0) == SCTP_UDP_PORT;
        if let (Some(file), Some(port), false) = (&self.options.capture, port, remote) {
            let file = file.display();
            complain(&format!("to read the capture: wireshark -d udp.port=={port},sctp {file}"));
        }
    }
}

/// The command line, as the title of a log.
fn title() -> String {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    format!("anabranch {}", words.collect::<Vec<_>>().join(" "))
}

/// The message for an endpoint that cannot be bound, with the option that helps.
fn cannot_bind(error: BindError) -> Failure {
    match &error {
        BindError::Socket { source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
            Failure::failed(format!("{error} with --udp-port"))
        }
        _ => Failure::failed(error),
    }
}

/// The options of an association.
pub(crate) fn association_config(options: &SctpOptions) -> Result<AssociationConfig, Failure> {
    let mut config = config_of(options.profile.as_deref(), &options.policies)?;
    if let Some(key) = &options.auth_key {
        key.apply(&mut config)?;
    }
    Ok(config)
}

/// The options of an association that carries files. They are sent as fast as the path allows, with the same
/// congestion control as the profiles for files have, unless the user chooses.
pub(crate) fn file_config(options: &SctpOptions) -> Result<AssociationConfig, Failure> {
    let mut config = association_config(options)?;
    if options.profile.is_none() && !options.policies.given().any(|name| name == "--congestion") {
        config.congestion.congestion_control = CongestionControl::Usual;
    }
    Ok(config)
}

/// The options of associations that a profile and single options make.
pub(crate) fn config_of(
    profile: Option<&str>,
    policies: &PolicyOptions,
) -> Result<AssociationConfig, Failure> {
    let mut config = match profile {
        Some(name) => AssociationConfig::profile(name).ok_or_else(|| {
            let known: Vec<_> = AssociationConfig::PROFILES.iter().map(|(name, _)| *name).collect();
            let (last, others) = known.split_last().unwrap_or((&"default", &[]));
            let choice = format!("choose {} or {last}", others.join(", "));
            Failure::usage(format!("there is no profile '{name}': {choice}"))
        })?,
        None => AssociationConfig::default(),
    };
    policies.apply(&mut config);
    // If a bound excludes the profile's initial value, the initial value moves to the bound.
    let timers = &mut config.timers;
    if !policies.given().any(|name| name == "--rto-initial") && timers.rto_min <= timers.rto_max {
        timers.rto_initial = timers.rto_initial.clamp(timers.rto_min, timers.rto_max);
    }
    config.validate().map_err(Failure::usage)?;
    Ok(config)
}

/// Accepts associations and spawns a handler for each, until the user stops the program. Then the handlers have
/// `grace` to finish, and the remaining associations are shut down.
pub(crate) async fn accept_all<F>(
    endpoint: &Endpoint,
    listener: anabranch::Listener,
    interrupt: &Interrupt,
    grace: Duration,
    mut handle: impl FnMut(Association) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut associations = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Some(association) => {
                    associations.spawn(handle(association));
                }
                None => break,
            },
            Some(_) = associations.join_next() => {}
            () = interrupt.wait() => break,
        }
    }
    drop(listener);
    let handled = async { while associations.join_next().await.is_some() {} };
    // Handlers that take longer are cut off.
    let _ = timeout(grace, handled).await;
    endpoint.close().await;
    // Each association reports its traffic.
    while associations.join_next().await.is_some() {}
}

/// The peer to connect to, and how long to try.
#[derive(Clone, Debug)]
pub(crate) struct Peer<'a> {
    pub(crate) authority: &'a Authority,
    /// The addresses of its hosts, with its port.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) transport: Transport,
    pub(crate) timeout: Duration,
}

impl Peer<'_> {
    /// Says so if the user wants an association that moves to other networks, and the peer does not agree.
    fn note_roaming(&self, association: &Association) {
        let agreed = association.statistics().features.has(Features::ADDRESS_RECONFIGURATION);
        if association.config().addresses.roam && !agreed {
            complain(&format!(
                "{} does not accept changes of addresses, so --roam has no effect: start it with \
                 --address-reconfiguration",
                self.authority
            ));
        }
    }

    /// Establishes an association.
    pub(crate) async fn connect(
        &self,
        endpoint: &Endpoint,
        options: ConnectOptions,
    ) -> Result<Association, Failure> {
        let remotes = self.addresses.clone();
        let udp_port = options.remote_udp_port;
        let secret = match options.config.authentication.require_authentication {
            true => ", and that both sides have the same --auth-key",
            false => "",
        };
        match timeout(self.timeout, endpoint.connect(remotes, options)).await {
            Ok(Err(ConnectError::Unreachable(remote))) => Err(Failure::failed(format!(
                "cannot connect to {}: no local address reaches {remote}: is there a route, and is --local of the \
                 same family?",
                self.authority
            ))),
            Ok(connected) => {
                let association = connected.map_err(Failure::failed)?;
                self.note_roaming(&association);
                Ok(association)
            }
            Err(_) => {
                let (carrier, port) = match self.transport {
                    Transport::Sctp => ("IP protocol 132", String::new()),
                    Transport::SctpUdp | Transport::Tcp => ("UDP", format!(" port {udp_port}")),
                };
                Err(Failure::failed(format!(
                    "cannot connect to {} over {carrier}{port}: no answer within {:?}: check \
                     that a server listens there and that no firewall stops {carrier}{secret}",
                    self.authority, self.timeout
                )))
            }
        }
    }
}

/// Shuts the association down once all outstanding data is delivered, however long that takes. Aborts it if neither
/// direction makes progress any more.
pub(crate) async fn end(association: &Association) -> Result<(), String> {
    let mut closing = std::pin::pin!(association.close());
    let mut before = progress(association);
    loop {
        if let Ok(closed) = timeout(GRACE, &mut closing).await {
            return closed.map_err(|error| error.to_string());
        }
        let now = progress(association);
        if now == before {
            association.abort(b"the shutdown stands still");
            let (unsent, _) = now;
            return Err(match unsent {
                0 => "the peer did not complete the shutdown".to_owned(),
                bytes => format!("{bytes} bytes were not delivered: nothing moved for {GRACE:?}"),
            });
        }
        before = now;
    }
}

/// Number of undelivered bytes, and of DATA chunks received.
fn progress(association: &Association) -> (usize, u64) {
    let now = association.statistics();
    let unsent = now.send_queue_bytes + now.retransmission_queue.bytes;
    (unsent, now.counters.data_chunks_received)
}

/// Shuts down the remaining associations and closes the sockets; then a capture is complete.
pub(crate) async fn close(endpoint: &Endpoint) {
    // Closing the endpoint aborts stalled associations.
    endpoint.close().await;
}

/// Number of an association's latest events that are kept for its report.
const MOST_EVENTS: usize = 256;

/// The latest events of an association. Ordinary ones are dropped first: hundreds of messages that come back
/// when an association fails must not hide why it failed.
#[derive(Debug, Default)]
struct Latest {
    events: VecDeque<PathEvent>,
    /// Number of events that were dropped here, or missed before.
    left_out: u64,
}

impl Latest {
    fn push(&mut self, event: PathEvent) {
        self.events.push_back(event);
        if self.events.len() > MOST_EVENTS {
            let ordinary = self.events.iter().position(|event| event.ordinary);
            self.events.remove(ordinary.unwrap_or(0));
            self.left_out += 1;
        }
    }

    /// Takes all kept events; a line before them counts the missing ones.
    fn take(&mut self) -> Vec<PathEvent> {
        let first = self.events.front();
        let gap = (self.left_out > 0).then(|| {
            let seconds = first.map_or(0.0, |event| event.seconds);
            PathEvent::new(seconds, &Notification::Missed(self.left_out), false)
        });
        gap.into_iter().chain(self.events.drain(..)).collect()
    }
}

/// Whether a notification is normal for an association without problems. `known` holds the verified paths.
fn is_ordinary(notification: &Notification, known: &mut HashSet<(IpAddr, IpAddr)>) -> bool {
    match notification {
        // Normally the first notification about a path is that it was verified.
        Notification::PathChanged { local, remote, state, .. } => {
            known.insert((*local, *remote)) && *state == PathState::Active
        }
        Notification::Up { .. } | Notification::PeerShutdown | Notification::Closed(_) => true,
        Notification::SenderDry | Notification::AdaptationIndication(_) => true,
        Notification::SendFailed { .. } | Notification::PeerError { .. } => true,
        _ => false,
    }
}

/// Collects the events of an association.
#[derive(Debug)]
pub(crate) struct Watch {
    events: Arc<Mutex<Latest>>,
    task: JoinHandle<()>,
    _counted: Counted,
}

impl Watch {
    /// For an association that this side has initiated.
    pub(crate) fn connected(association: &Association) -> Self {
        Self::start(association, Noted::Connected)
    }

    /// For an association that this side has accepted.
    pub(crate) fn accepted(association: &Association) -> Self {
        Self::start(association, Noted::Accepted)
    }

    fn start(association: &Association, how: Noted) -> Self {
        let begun = Instant::now();
        let collected = Arc::new(Mutex::new(Latest::default()));
        let events = Arc::clone(&collected);
        let mut notifications = association.events();
        let task = tokio::spawn(async move {
            let mut known = HashSet::new();
            while let Some(notification) = notifications.next().await {
                counters::note(&notification);
                if let Notification::Missed(missed) = notification {
                    let mut latest = collected.lock().unwrap_or_else(PoisonError::into_inner);
                    latest.left_out += missed;
                    continue;
                }
                let ordinary = is_ordinary(&notification, &mut known);
                let seconds = begun.elapsed().as_secs_f64();
                let event = PathEvent::new(seconds, &notification, ordinary);
                collected.lock().unwrap_or_else(PoisonError::into_inner).push(event);
            }
        });
        Self { events, task, _counted: Counted::start(association, how) }
    }

    pub(crate) fn stop(self) -> Vec<PathEvent> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns the paths of an association for a report.
pub(crate) fn paths(statistics: &Statistics) -> Vec<PathReport> {
    let report = statistics.paths.iter().map(|path| PathReport {
        primary: path.id == statistics.primary,
        figures: Figures::Sctp(Box::new(SctpPath {
            statistics: *path,
            unverified: unverified(path).map(str::to_owned),
        })),
    });
    report.collect()
}

/// Why a path is unverified.
fn unverified(path: &anabranch::PathStatistics) -> Option<&'static str> {
    if path.verified {
        return None;
    }
    Some(match path.state {
        _ if path.disowned => "the peer does not know this address: address translation on the way",
        anabranch::PathState::Inactive => "no answer",
        _ => "no answer yet",
    })
}

/// Maximum number of associations of an endpoint with this memory limit. An idle one needs 9 kB besides its buffers,
/// so each counts as 16 KiB: 1 GiB, the default limit, is enough for the default number.
pub(crate) fn places(memory_limit: usize) -> usize {
    (memory_limit / (16 << 10)).clamp(64, EndpointConfig::default().max_associations)
}

#[cfg(test)]
mod tests {
    use anabranch::{OutgoingMessage, PathId, Ppid};

    use super::*;

    #[test]
    fn messages_that_come_back_do_not_hide_a_failover() {
        let remote = IpAddr::from([192, 0, 2, 1]);
        let path = PathId::default();
        let failover = Notification::FailedOver { from: path, to: path, remote, permanent: false };
        let message = Box::new(OutgoingMessage::new(0, Ppid(0), vec![0; 10]));
        let returned = Notification::SendFailed { message, sent: true };
        let ordinary = is_ordinary(&returned, &mut HashSet::new());
        let mut latest = Latest::default();
        latest.push(PathEvent::new(1.0, &failover, false));
        (0..1000).for_each(|_| latest.push(PathEvent::new(2.0, &returned, ordinary)));
        latest.push(PathEvent::new(3.0, &failover, false));
        let events = latest.take();
        assert_eq!(events.len(), 1 + MOST_EVENTS);
        assert_eq!(events[0].text, "746 events before this are left out");
        assert_eq!([&events[1], &events[MOST_EVENTS]].map(|event| event.seconds), [1.0, 3.0]);
        assert_eq!(events[1].text, failover.to_string());
    }

    #[test]
    fn a_small_memory_limit_has_fewer_places() {
        let default = EndpointConfig::default();
        assert_eq!(places(default.memory_limit), default.max_associations);
        assert_eq!(places(8 << 30), default.max_associations);
        assert_eq!(places(64 << 20), 4096);
        assert_eq!(places(65_536), 64, "a client may have some anyway");
    }
}
