//! The addresses and initial settings of an endpoint.

use std::net::{IpAddr, Ipv6Addr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anabranch_proto::{Encapsulation, EndpointConfig, TagMark};
use anabranch_qlog::{EventLog, LogFile};

use super::Endpoint;
use crate::capture::{Capture, CaptureFile};
use crate::driver::{Driver, Siblings};
use crate::error::BindError;
use crate::runtime::{Division, Runtime, Shard};
use crate::shards;
use crate::shared::Shared;
use crate::sockets::{SocketSet, Wanted, WantedAddress};

/// Configures the binding of an [`Endpoint`].
///
/// ```
/// # async fn example() -> Result<(), anabranch::BindError> {
/// use anabranch::{Endpoint, EndpointConfig, SCTP_UDP_PORT};
///
/// let endpoint = Endpoint::builder()
///     .local_addresses([[192, 0, 2, 1].into(), [198, 51, 100, 1].into()])
///     .udp_port(SCTP_UDP_PORT)
///     .config(EndpointConfig::default().with(|config| config.max_associations = 1000))
///     .bind()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Builder {
    local_addresses: Vec<WantedAddress>,
    udp_port: u16,
    config: EndpointConfig,
    seed: Option<[u8; 32]>,
    capture: Option<PathBuf>,
    capture_into: Option<CaptureFile>,
    event_log: Option<EventLog>,
    runtime: Option<Arc<dyn Runtime>>,
    interface: Option<String>,
    traffic_class: u8,
    opened: Vec<Arc<UdpSocket>>,
    shards: Option<usize>,
    busy_poll: Duration,
    #[cfg(feature = "seal")]
    seal: Option<crate::seal::Seal>,
}

impl Builder {
    /// Adds local addresses. Each has its own socket, so packets can be sent from each of them. Without any, the
    /// endpoint uses all addresses of the host.
    #[must_use]
    pub fn local_addresses(mut self, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        let wanted = addresses.into_iter().map(|ip| WantedAddress { ip, link: None });
        self.local_addresses.extend(wanted);
        self
    }

    /// Adds a link-local address, as [`local_addresses`](Self::local_addresses) does, and names its interface: several
    /// interfaces may have the same link-local address.
    #[must_use]
    pub fn link_local_address(mut self, address: Ipv6Addr, interface: impl Into<String>) -> Self {
        let link = Some(interface.into());
        self.local_addresses.push(WantedAddress { ip: address.into(), link });
        self
    }

    /// Sends and receives over this network interface only, regardless of the routes. Without local addresses, the
    /// endpoint uses all addresses of the interface, including the link-local ones.
    ///
    /// Available only on Linux (SO_BINDTODEVICE); elsewhere binding fails.
    #[must_use]
    pub fn interface(mut self, name: impl Into<String>) -> Self {
        self.interface = Some(name.into());
        self
    }

    /// Sets the type of service (IPv4) or traffic class (IPv6) of all packets: a DSCP times 4, 0 by
    /// default. The two lowest bits are for ECN, and are ignored.
    ///
    /// Available only on Linux; elsewhere binding fails. UDP datagrams are then sent one by one instead of in batches
    /// that the system segments (GSO), which takes more time. Sockets that are already open are not changed.
    #[must_use]
    pub fn traffic_class(mut self, class: u8) -> Self {
        self.traffic_class = class & !3;
        self
    }

    /// Adds a socket that is already open, for example one opened by a process with the privilege
    /// for raw sockets: a UDP socket, or with [`Encapsulation::Ip`] a raw socket for protocol 132.
    /// Any descriptor becomes a `std::net::UdpSocket` with `From<OwnedFd>`. With such sockets no
    /// local addresses are needed.
    #[must_use]
    pub fn socket(mut self, socket: UdpSocket) -> Self {
        self.opened.push(Arc::new(socket));
        self
    }

    /// UDP port of all local addresses, ignored with IP protocol 132. 0, the default, chooses a port that is free on
    /// all of them. Servers usually use [`SCTP_UDP_PORT`](crate::SCTP_UDP_PORT).
    #[must_use]
    pub fn udp_port(mut self, port: u16) -> Self {
        self.udp_port = port;
        self
    }

    /// Divides the endpoint into this many tasks with separate sockets, so a multi-threaded runtime can
    /// use as many cores: 1, the default, to 64.
    ///
    /// Each association belongs to the task that follows from its two SCTP ports, so peers that all use the same port
    /// share one task. With sealed paths it belongs to the task of its client, and only servers are divided. Available
    /// only on Linux, over UDP.
    #[must_use]
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// For this time after each packet, asks the sockets again and again instead of sleeping: 0, the default, for never.
    ///
    /// A round trip is then shorter by the time that the system takes to wake a thread, on both sides if both do it. The
    /// price is a core that is busy as long as packets come and go more often than this. Values around a millisecond
    /// suit programs that wait for each answer; the gain is there on Unix only.
    #[must_use]
    pub fn busy_poll(mut self, time: Duration) -> Self {
        self.busy_poll = time;
        self
    }

    /// Sends and receives over sealed paths only. The seal has the real addresses and ports, so no others may be set.
    /// The paths' keys never follow from [`seed`](Self::seed).
    #[cfg(feature = "seal")]
    #[must_use]
    pub fn seal(mut self, seal: crate::seal::Seal) -> Self {
        self.seal = Some(seal);
        self
    }

    /// The encapsulation of packets: UDP, the default, or IP protocol 132, which other SCTP stacks expect. IP protocol
    /// 132 needs raw sockets, and thus root or the capability CAP_NET_RAW.
    #[must_use]
    pub fn encapsulation(mut self, encapsulation: Encapsulation) -> Self {
        self.config.encapsulation = encapsulation;
        self
    }

    /// The options of the endpoint, including [`encapsulation`](Self::encapsulation).
    #[must_use]
    pub fn config(mut self, config: EndpointConfig) -> Self {
        self.config = config;
        self
    }

    /// The seed of all random numbers, for reproducible runs. By default it comes from the
    /// operating system; anyone who knows it can forge cookies.
    #[must_use]
    pub fn seed(mut self, seed: [u8; 32]) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Writes all packets to a pcapng file, which is replaced if it exists.
    #[must_use]
    pub fn capture(mut self, path: impl Into<PathBuf>) -> Self {
        self.capture = Some(path.into());
        self
    }

    /// As [`capture`](Self::capture), in a file that other endpoints write as well.
    #[must_use]
    pub fn capture_into(mut self, file: &CaptureFile) -> Self {
        self.capture_into = Some(file.clone());
        self
    }

    /// Writes a log of events and decisions of all associations to a file, which is replaced if it exists. The format
    /// is qlog, as docs/qlog.md describes it. Accepts a path, or an [`EventLog`] with a title.
    ///
    /// A separate thread writes the file, which is complete when the endpoint is closed. If writing fails, only the log
    /// ends.
    #[must_use]
    pub fn event_log(mut self, log: impl Into<EventLog>) -> Self {
        self.event_log = Some(log.into());
        self
    }

    /// The runtime of the endpoint; by default the tokio runtime in which `bind` is called.
    #[must_use]
    pub fn runtime(mut self, runtime: Arc<dyn Runtime>) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Opens the sockets and starts the endpoint.
    ///
    /// # Errors
    /// An option is out of range, a socket, the capture file or the event log cannot be opened, or there
    /// is no runtime.
    ///
    /// # Panics
    /// The tokio runtime was built without I/O or timers: use `enable_all`.
    pub fn bind(mut self) -> Result<Endpoint, BindError> {
        // Only simulators work without a checksum. On a network, peers would drop such packets, and damaged ones would
        // be accepted. (With RFC 9653 both ends agree to omit it.)
        self.config.checksum = true;
        let runtime = self.runtime.take().or_else(default_runtime).ok_or(BindError::NoRuntime)?;
        let count = self.shards.unwrap_or(1);
        check_shards(count, self.config.encapsulation, !self.opened.is_empty())?;
        let (runtimes, division) = self.shard_runtimes(&runtime, count)?;
        self.config.validate().map_err(BindError::Config)?;
        let mut seed = match self.seed {
            Some(seed) => seed,
            None => {
                let mut seed = [0; 32];
                getrandom::fill(&mut seed).map_err(|_| BindError::Randomness)?;
                seed
            }
        };
        let mark = TagMark::from_seed(&seed);
        self.config.tag_mark = Some(mark);
        let sets = self.bind_sockets(&runtimes, division, mark)?;
        let (capture, event_log) = self.create_files(&*runtime)?;
        self.config.memory_limit = (self.config.memory_limit / count).max(65_536);
        self.config.max_associations = self.config.max_associations.div_ceil(count);
        let first_port = u16::from_ne_bytes([seed[0], seed[1]]);
        let mut shards = Vec::with_capacity(count);
        for (index, (sockets, runtime)) in sets.iter().zip(&runtimes).enumerate() {
            let mut engine = anabranch_proto::Endpoint::new(self.config.clone(), seed);
            engine.set_local_addresses(runtime.now(), &sockets.general_addresses());
            if let Some(file) = &event_log {
                engine.set_log(file.log((count > 1).then_some(index)));
            }
            let shared =
                Shared::new(engine, runtime.clone(), sockets.udp_port(), sockets.pattern());
            #[cfg(feature = "seal")]
            let shared = shared.sealed(self.config.shim > 0);
            shared.lock().addresses = sockets.addresses().to_vec();
            shards.push(Arc::new(shared));
            // Each shard draws other random numbers.
            seed = next_seed(seed);
        }
        let shards: Arc<[Arc<Shared>]> = shards.into();
        for (index, sockets) in sets.into_iter().enumerate() {
            let siblings = Siblings::new(shards.clone(), index, division);
            let (shared, capture) = (shards[index].clone(), capture.clone());
            let driver = Driver::new(shared, sockets, siblings, mark, capture, self.busy_poll);
            runtime.spawn(Box::pin(driver));
        }
        Ok(Endpoint::of(shards, first_port))
    }

    /// Opens the sockets of each shard.
    fn bind_sockets(
        &self,
        runtimes: &[Arc<dyn Runtime>],
        division: Division,
        mark: TagMark,
    ) -> Result<Vec<SocketSet>, BindError> {
        let count = runtimes.len();
        // Each shard of sealed paths has a runtime of its own, which has bound the sockets.
        let shares = count > 1 && division == Division::Ports;
        let mut opened = Vec::with_capacity(self.opened.len());
        for socket in &self.opened {
            opened.push(socket.try_clone().map_err(BindError::Opened)?);
        }
        let mut sets = Vec::with_capacity(count);
        let mut port = self.udp_port;
        for (index, runtime) in runtimes.iter().enumerate() {
            let wanted = Wanted {
                encapsulation: self.config.encapsulation,
                addresses: self.local_addresses.clone(),
                port,
                interface: self.interface.clone(),
                traffic_class: self.traffic_class,
                opened: std::mem::take(&mut opened),
                shard: shares.then_some(Shard { division, index, count, joins: index > 0 }),
            };
            let sockets = SocketSet::bind(&**runtime, wanted)?;
            port = sockets.udp_port();
            sets.push(sockets);
        }
        // The kernel identifies the sockets of a shard by the order in which they were bound.
        if shares {
            sets.iter_mut().for_each(|set| set.keep_apart(mark));
        }
        Ok(sets)
    }

    /// The runtime of each shard, and how packets are divided among them.
    #[cfg(not(feature = "seal"))]
    fn shard_runtimes(
        &mut self,
        runtime: &Arc<dyn Runtime>,
        count: usize,
    ) -> Result<(Vec<Arc<dyn Runtime>>, Division), BindError> {
        Ok((vec![runtime.clone(); count], Division::Ports))
    }

    /// The runtime of each shard, with sealed paths if they were requested, and how packets are divided among them.
    #[cfg(feature = "seal")]
    fn shard_runtimes(
        &mut self,
        runtime: &Arc<dyn Runtime>,
        count: usize,
    ) -> Result<(Vec<Arc<dyn Runtime>>, Division), BindError> {
        use crate::seal::{OVERHEAD, Role, SealedRuntime, SetupError};

        let Some(seal) = self.seal.take() else {
            return Ok((vec![runtime.clone(); count], Division::Ports));
        };
        let connects = matches!(seal.role, Role::Connect(..));
        let conflicts = [
            (!self.local_addresses.is_empty(), "local addresses"),
            (self.udp_port != 0, "a UDP port"),
            (self.interface.is_some(), "an interface"),
            (!self.opened.is_empty(), "an open socket"),
            (connects && count > 1, "more than one shard of a client"),
            (self.config.encapsulation != Encapsulation::Udp, "IP protocol 132"),
        ];
        if let Some((_, option)) = conflicts.into_iter().find(|(set, _)| *set) {
            return Err(BindError::Seal(SetupError::Conflict(option)));
        }
        // A seed that is used again would repeat keys and nonces.
        let mut seeds = vec![[0; 32]; count];
        for seed in &mut seeds {
            getrandom::fill(seed).map_err(|_| BindError::Randomness)?;
        }
        let class = self.traffic_class;
        let sealed = SealedRuntime::open(runtime, &seal, &seeds, class).map_err(BindError::Seal)?;
        self.traffic_class = 0;
        self.config.routes = anabranch_proto::config::Routes::Numbered;
        self.config.shim = OVERHEAD;
        // The seal detects every change of a packet.
        self.config.checksum = false;
        let runtimes = sealed.into_iter().map(|sealed| Arc::new(sealed) as Arc<dyn Runtime>);
        Ok((runtimes.collect(), Division::Lanes))
    }

    /// The files that record the endpoint's activity.
    fn create_files(&mut self, runtime: &dyn Runtime) -> Result<Files, BindError> {
        let clocks = (runtime.wall_clock(), runtime.now());
        let file = match self.capture.take() {
            Some(path) => match CaptureFile::create(&path) {
                Ok(file) => Some(file),
                Err(source) => return Err(BindError::Capture { path, source }),
            },
            None => self.capture_into.take(),
        };
        let capture = file.map(|file| Capture::new(file, self.config.encapsulation, clocks));
        let event_log = match self.event_log.take() {
            Some(log) => match LogFile::create(&log, clocks) {
                Ok(file) => Some(file),
                Err(source) => {
                    return Err(BindError::EventLog { path: log.path().to_owned(), source });
                }
            },
            None => None,
        };
        Ok((capture, event_log))
    }
}

/// A capture and an event log.
type Files = (Option<Capture>, Option<Arc<LogFile>>);

/// The seed of the next shard.
fn next_seed(mut seed: [u8; 32]) -> [u8; 32] {
    for byte in &mut seed {
        let (next, carry) = byte.overflowing_add(1);
        *byte = next;
        if !carry {
            break;
        }
    }
    seed
}

/// Whether an endpoint can have `count` shards.
fn check_shards(count: usize, encapsulation: Encapsulation, opened: bool) -> Result<(), BindError> {
    let refuse = |reason| Err(BindError::Shards { count, reason });
    match count {
        1 => Ok(()),
        0 => refuse("there must be one at least"),
        _ if count > shards::MOST => refuse("there may be 64 at the most"),
        _ if !cfg!(target_os = "linux") => refuse("only Linux divides packets between them"),
        _ if encapsulation == Encapsulation::Ip => refuse("only UDP can be divided"),
        _ if opened => refuse("sockets that were opened already cannot be divided"),
        _ => Ok(()),
    }
}

#[cfg(feature = "runtime-tokio")]
fn default_runtime() -> Option<Arc<dyn Runtime>> {
    Some(Arc::new(crate::runtime::TokioRuntime::current()?))
}

#[cfg(not(feature = "runtime-tokio"))]
fn default_runtime() -> Option<Arc<dyn Runtime>> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_divided_is_refused() {
        let udp = Encapsulation::Udp;
        assert!(check_shards(1, Encapsulation::Ip, true).is_ok());
        assert_eq!(check_shards(2, udp, false).is_ok(), cfg!(target_os = "linux"));
        for (count, encapsulation, opened) in
            [(0, udp, false), (65, udp, false), (2, Encapsulation::Ip, false), (2, udp, true)]
        {
            assert!(check_shards(count, encapsulation, opened).is_err());
        }
    }

    #[test]
    fn seeds_differ() {
        let (mut seed, mut seen) = ([255; 32], std::collections::BTreeSet::new());
        for _ in 0..1000 {
            assert!(seen.insert(seed));
            seed = next_seed(seed);
        }
    }
}
