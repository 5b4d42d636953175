//! The engine of the seal with its real sockets, shared by the endpoint's task and by handles.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use anabranch_seal::{Families, PATHS, Route};

use super::uplink::Uplink;
use super::{Host, Role, Seal, SetupError};
use crate::runtime::{
    Binding, Datagrams, Division, Instant, LocalAddress, PacketSocket, Runtime, Shard,
    TransmitError,
};

/// Sealed datagrams that wait for a blocked socket; further ones are lost.
const MOST_WAITING: usize = 256;

/// An uplink as it is now.
#[derive(Debug)]
pub(super) struct UplinkState {
    pub(super) uplink: Uplink,
    /// The program uses it.
    pub(super) enabled: bool,
    /// Its addresses.
    present: Vec<LocalAddress>,
    /// Changes when the uplink comes, goes or changes; 0 if it is down.
    pub(super) generation: u32,
    /// The program has put it in the place of another one, whose sockets are still open.
    replaced: bool,
}

/// Sealed datagrams that a blocked socket did not take.
#[derive(Debug)]
struct Waiting {
    route: Route,
    segment_size: usize,
    contents: Vec<u8>,
}

/// The sealed paths of an endpoint.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) engine: anabranch_seal::Endpoint,
    /// The real sockets. An uplink without a version of IP has a gap.
    pub(super) sockets: Vec<Option<Box<dyn PacketSocket>>>,
    pub(super) uplinks: Vec<UplinkState>,
    pub(super) listens: bool,
    /// Counts changes of uplinks.
    generation: u32,
    traffic_class: u8,
    waiting: VecDeque<Waiting>,
    /// The task of the endpoint, and the deadline that it waits for.
    pub(super) waker: Option<Waker>,
    pub(super) awaited: Instant,
    /// The uplinks must be looked at again, because the program switched one.
    pub(super) recheck: bool,
    /// The uplinks have changed since the task looked.
    pub(super) changed: bool,
    pub(super) watcher: Option<Waker>,
}

impl Core {
    /// Opens the real sockets of each shard, one for each seed.
    pub(super) fn open_shards(
        runtime: &Arc<dyn Runtime>,
        seal: &Seal,
        seeds: &[[u8; 32]],
        traffic_class: u8,
    ) -> Result<Vec<Self>, SetupError> {
        match &seal.role {
            Role::Listen(addresses) => {
                Self::open_listening(&**runtime, seal, addresses, seeds, traffic_class)
            }
            Role::Connect(hosts, uplinks) => {
                let connect = |seed: &[u8; 32]| {
                    let secret = seal.secret.clone();
                    let engine = anabranch_seal::Endpoint::connecting(secret, *seed);
                    let mut core = Self::new(engine, false, traffic_class);
                    core.connect(&**runtime, hosts, uplinks)?;
                    Ok(core)
                };
                seeds.iter().map(connect).collect()
            }
        }
    }

    fn open_listening(
        runtime: &dyn Runtime,
        seal: &Seal,
        addresses: &[SocketAddr],
        seeds: &[[u8; 32]],
        traffic_class: u8,
    ) -> Result<Vec<Self>, SetupError> {
        let mut shards: Vec<Self> = Vec::with_capacity(seeds.len());
        let count = seeds.len();
        for (index, seed) in seeds.iter().enumerate() {
            let shard = Shard { division: Division::Lanes, index, count, joins: index > 0 };
            let shard = (count > 1).then_some(shard);
            let core = match shards.first() {
                None => {
                    let (secret, allow) = (seal.secret.clone(), seal.allow.clone());
                    let mut engine = anabranch_seal::Endpoint::listening(secret, allow, *seed);
                    if seal.announces {
                        engine.announce();
                    }
                    let mut core = Self::new(engine, true, traffic_class);
                    core.listen(runtime, addresses, shard)?;
                    core
                }
                Some(first) => {
                    let mut core = Self::new(first.engine.shard(*seed), true, traffic_class);
                    // What the first shard has bound: the ports, and the versions of IP.
                    core.listen(runtime, &first.bound(), shard)?;
                    core
                }
            };
            shards.push(core);
        }
        Ok(shards)
    }

    fn new(engine: anabranch_seal::Endpoint, listens: bool, traffic_class: u8) -> Self {
        Self {
            engine,
            sockets: Vec::new(),
            uplinks: Vec::new(),
            listens,
            generation: 0,
            traffic_class,
            waiting: VecDeque::new(),
            waker: None,
            awaited: Instant::FAR_FUTURE,
            recheck: false,
            changed: false,
            watcher: None,
        }
    }

    /// The addresses of the real sockets.
    fn bound(&self) -> Vec<SocketAddr> {
        self.sockets.iter().flatten().map(|socket| socket.local_address()).collect()
    }

    fn connect(
        &mut self,
        runtime: &dyn Runtime,
        hosts: &[Host],
        uplinks: &[Uplink],
    ) -> Result<(), SetupError> {
        if uplinks.is_empty() {
            return Err(SetupError::Missing("an uplink"));
        }
        if uplinks.len() > usize::from(PATHS) {
            return Err(SetupError::TooManyUplinks(uplinks.len()));
        }
        for host in hosts {
            self.engine.add_host(host.key, host.addresses.clone(), host.token.clone());
        }
        uplinks.iter().for_each(|uplink| self.add_uplink(uplink.clone()));
        self.follow_uplinks(runtime).map_err(SetupError::Uplinks)
    }

    fn listen(
        &mut self,
        runtime: &dyn Runtime,
        addresses: &[SocketAddr],
        shard: Option<Shard>,
    ) -> Result<(), SetupError> {
        let mut port = 0;
        let mut missing = None;
        for address in addresses {
            let mut address = *address;
            // One port is enough for all addresses.
            if address.port() == 0 {
                address.set_port(port);
            }
            let mut binding = Binding::udp(address);
            (binding.traffic_class, binding.shard) = (self.traffic_class, shard);
            match runtime.bind(&binding) {
                Ok(socket) => {
                    port = socket.local_address().port();
                    self.sockets.push(Some(socket));
                }
                Err(source) => {
                    let error = SetupError::Socket { address, source };
                    // The host may lack one version of IP.
                    let in_use = matches!(&error, SetupError::Socket { source, .. }
                        if source.kind() == io::ErrorKind::AddrInUse);
                    let joins = shard.is_some_and(|shard| shard.joins);
                    if in_use || joins || !address.ip().is_unspecified() {
                        return Err(error);
                    }
                    missing.get_or_insert(error);
                }
            }
        }
        match missing {
            _ if !self.sockets.is_empty() => Ok(()),
            Some(error) => Err(error),
            None => Err(SetupError::Missing("an address to listen on")),
        }
    }

    fn add_uplink(&mut self, uplink: Uplink) {
        let (present, replaced) = (Vec::new(), false);
        self.uplinks.push(UplinkState { uplink, enabled: true, present, generation: 0, replaced });
        self.sockets.extend([None, None]);
    }

    /// Uses another uplink for this path. Paths before it that have none stay down.
    pub(super) fn replace_uplink(&mut self, index: usize, uplink: Uplink) {
        if self.listens {
            return;
        }
        while self.uplinks.len() <= index {
            self.add_uplink(Uplink::none());
        }
        if let Some(state) = self.uplinks.get_mut(index)
            && state.uplink != uplink
        {
            (state.uplink, state.replaced) = (uplink, true);
            self.look_again();
        }
    }

    /// Has the endpoint's task open and close sockets.
    pub(super) fn look_again(&mut self) {
        self.recheck = true;
        self.wake();
    }

    /// Opens the sockets of uplinks that came or changed, and closes those of uplinks that went.
    ///
    /// # Errors
    /// The addresses of the host cannot be read.
    pub(super) fn follow_uplinks(&mut self, runtime: &dyn Runtime) -> io::Result<()> {
        let all = runtime.local_addresses()?;
        for index in 0..self.uplinks.len() {
            let Some(state) = self.uplinks.get_mut(index) else { break };
            let present = if state.enabled { state.uplink.present(&all) } else { Vec::new() };
            let missing = state.generation == 0 && !present.is_empty();
            let replaced = std::mem::take(&mut state.replaced);
            if present == state.present && !missing && !replaced {
                continue;
            }
            let wanted = Uplink::families(&present);
            state.present = present;
            let uplink = state.uplink.clone();
            let mut families = Families::default();
            for (ipv6, wanted) in [(false, wanted.ipv4), (true, wanted.ipv6)] {
                let slot = index * 2 + usize::from(ipv6);
                let socket =
                    wanted.then(|| runtime.bind(&uplink.binding(ipv6, self.traffic_class)));
                let socket = socket.and_then(|socket| match socket {
                    Ok(socket) => Some(socket),
                    Err(error) => {
                        tracing::debug!(?uplink, ipv6, %error, "an uplink cannot be used yet");
                        None
                    }
                });
                match ipv6 {
                    false => families.ipv4 = socket.is_some(),
                    true => families.ipv6 = socket.is_some(),
                }
                if let Some(place) = self.sockets.get_mut(slot) {
                    *place = socket;
                }
            }
            self.set_families(runtime.now(), index, families);
        }
        Ok(())
    }

    fn set_families(&mut self, now: Instant, index: usize, families: Families) {
        let Some(state) = self.uplinks.get_mut(index) else { return };
        self.generation += 1;
        state.generation = if families.is_empty() { 0 } else { self.generation };
        self.waiting.retain(|waiting| waiting.route.socket / 2 != index);
        tracing::debug!(name: "seal:uplink_changed", index, ?families);
        self.engine.set_uplink(now, index as u8, families);
        self.changed = true;
        self.wake();
    }

    /// Wakes the endpoint's task.
    pub(super) fn wake(&mut self) {
        [self.waker.take(), self.watcher.take()].into_iter().flatten().for_each(Waker::wake);
    }

    /// The virtual addresses of this side; those without an uplink have index 0.
    pub(super) fn local_addresses(&self) -> Vec<LocalAddress> {
        let index = |path: usize| match self.listens {
            true => 1,
            false => self.uplinks.get(path).map_or(0, |state| state.generation),
        };
        let addresses = self.engine.network().addresses().enumerate();
        addresses
            .map(|(path, ip)| LocalAddress {
                ip: ip.into(),
                interface: String::new(),
                index: index(path),
            })
            .collect()
    }

    /// The UDP port of the first socket.
    pub(super) fn port(&self) -> u16 {
        let first = self.sockets.iter().flatten().next();
        first.map_or(crate::SCTP_UDP_PORT, |socket| socket.local_address().port())
    }

    /// Whether sealed datagrams wait for a blocked socket.
    pub(super) fn is_blocked(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Sends the datagrams of the seal itself.
    pub(super) fn send_transmits(&mut self) {
        while let Some(transmit) = self.engine.poll_transmit() {
            let size = transmit.contents.len();
            // The peer or a timer asks for what is lost here.
            let _ = self.send(transmit.route, size, &transmit.contents, None, false);
        }
    }

    /// Sends sealed datagrams, or keeps them until the socket has room.
    pub(super) fn send(
        &mut self,
        route: Route,
        segment_size: usize,
        contents: &[u8],
        ecn: Option<crate::runtime::Ecn>,
        may_fragment: bool,
    ) -> Result<(), TransmitError> {
        let socket = self.sockets.get(route.socket).and_then(Option::as_ref);
        let Some(socket) = socket else {
            return Err(TransmitError::Failed(io::ErrorKind::NetworkUnreachable.into()));
        };
        let (source, destination) = (route.local, route.remote);
        let datagrams =
            Datagrams { source, destination, ecn, segment_size, may_fragment, contents };
        let taken = match socket.try_send(&datagrams) {
            Ok(taken) => taken,
            Err(TransmitError::WouldBlock) => 0,
            Err(error) => return Err(error),
        };
        if let Some(rest) = contents.get(taken..).filter(|rest| !rest.is_empty())
            && self.waiting.len() < MOST_WAITING
        {
            let contents = rest.to_vec();
            self.waiting.push_back(Waiting { route, segment_size, contents });
        }
        Ok(())
    }

    /// Closes the real sockets.
    pub(super) fn close(&mut self) {
        self.sockets.clear();
        self.waiting.clear();
    }

    /// Sends what waits for blocked sockets. Pending if a socket is still blocked.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..self.waiting.len() {
            let Some(waiting) = self.waiting.pop_front() else { break };
            let socket = self.sockets.get(waiting.route.socket).and_then(Option::as_ref);
            let Some(socket) = socket else { continue };
            if socket.poll_writable(cx).is_pending() {
                self.waiting.push_front(waiting);
                return Poll::Pending;
            }
            let Waiting { route, segment_size, contents } = waiting;
            let _ = self.send(route, segment_size, &contents, None, false);
        }
        Poll::Ready(())
    }
}
