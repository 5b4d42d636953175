//! Opens an endpoint's sockets.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};

use anabranch_proto::Encapsulation;

use super::outlets::Outlets;
use super::{Answers, Socket, SocketSet};
use crate::error::BindError;
use crate::runtime::{Binding, LocalAddress, PacketSocket, Runtime, Shard};
use crate::statistics::EndpointStatistics;

/// Maximum attempts to find a UDP port that is free on all local addresses.
const PORT_ATTEMPTS: usize = 16;

/// Parameters for binding an endpoint.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// The encapsulation of packets.
    pub(crate) encapsulation: Encapsulation,
    /// Each address has its own socket; an empty list means all addresses of the host, or of the
    /// interface.
    pub(crate) addresses: Vec<WantedAddress>,
    /// UDP port; 0 means any free one.
    pub(crate) port: u16,
    /// The interface of all packets.
    pub(crate) interface: Option<String>,
    /// The type of service or traffic class of all packets.
    pub(crate) traffic_class: u8,
    /// Sockets that are already open, instead of addresses.
    pub(crate) opened: Vec<UdpSocket>,
    /// The shard of the endpoint that the sockets are for, if it has several.
    pub(crate) shard: Option<Shard>,
}

/// An address to bind to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WantedAddress {
    pub(crate) ip: IpAddr,
    /// The interface that has the address, if several may have it.
    pub(crate) link: Option<String>,
}

/// A socket for one more address of an endpoint.
#[derive(Debug)]
pub(crate) struct OpenedSocket {
    io: Box<dyn PacketSocket>,
    binding: Binding,
    pub(crate) address: LocalAddress,
}

impl OpenedSocket {
    /// Opens a socket for an address of this host, like the endpoint's others, which `pattern` describes.
    pub(crate) fn open(
        runtime: &dyn Runtime,
        pattern: &Binding,
        ip: IpAddr,
    ) -> Result<Self, BindError> {
        let present = runtime.local_addresses().map_err(BindError::Interfaces)?;
        let wanted = [WantedAddress { ip, link: None }];
        let interface = pattern.interface.as_deref();
        let plan = Plan::new(pattern.encapsulation, &wanted, interface, &present)?;
        let mut address = plan.bindings.first().map_or(pattern.address, |(b, _)| b.address);
        address.set_port(pattern.address.port());
        let binding = Binding { address, ..pattern.clone() };
        let io = runtime.bind(&binding).map_err(|source| refused(&binding, source))?;
        let known = present.into_iter().find(|address| address.ip == ip);
        // An address of the loopback network need not be listed.
        let gone = || LocalAddress { ip, interface: String::new(), index: 0 };
        Ok(Self { io, binding, address: known.unwrap_or_else(gone) })
    }
}

/// The error for a socket that could not be opened.
fn refused(binding: &Binding, source: io::Error) -> BindError {
    let address = binding.address;
    match binding.encapsulation {
        Encapsulation::Udp => BindError::Socket { address, source },
        Encapsulation::Ip => BindError::Raw { address: address.ip(), source },
    }
}

impl SocketSet {
    /// How a socket for another address is to be opened: only if each address has its own, all of which this library has
    /// opened.
    pub(crate) fn pattern(&self) -> Option<Binding> {
        let first = self.sockets.first().filter(|socket| !socket.bound.is_unspecified())?;
        first.binding.clone().filter(|binding| binding.shard.is_none())
    }

    /// Takes a socket for one more address.
    pub(crate) fn add(&mut self, opened: OpenedSocket) {
        let OpenedSocket { io, binding, address: _ } = opened;
        if let Some(mark) = &self.mark {
            io.keep_apart(mark);
        }
        self.sockets.push(Socket::new(io, Some(binding), None));
    }

    /// Opens one socket for each local address, or one for each IP version if no addresses are
    /// given. All have the same UDP port, unless they use IP protocol 132.
    pub(crate) fn bind(runtime: &dyn Runtime, wanted: Wanted) -> Result<Self, BindError> {
        let Wanted { encapsulation, addresses, port, interface, traffic_class, opened, shard } =
            wanted;
        for (index, address) in addresses.iter().enumerate() {
            if addresses[..index].iter().any(|other| other.ip == address.ip) {
                return Err(BindError::DuplicateAddress(address.ip));
            }
        }
        let mut present = runtime.local_addresses().map_err(BindError::Interfaces)?;
        if let Some(name) = &interface {
            present.retain(|address| address.interface == *name);
            if present.is_empty() {
                return Err(BindError::NoInterface(name.clone()));
            }
        }
        let sockets = if opened.is_empty() {
            let mut plan = Plan::new(encapsulation, &addresses, interface.as_deref(), &present)?;
            for (binding, _) in &mut plan.bindings {
                (binding.traffic_class, binding.shard) = (traffic_class, shard);
            }
            plan.open(runtime, port)?
        } else {
            adopt(runtime, encapsulation, opened)?
        };
        // All sockets have the same port.
        let udp_port = sockets.first().map_or(0, |socket| socket.io.local_address().port());
        if encapsulation == Encapsulation::Ip && runtime.kernel_has_sctp() {
            tracing::warn!(
                "this kernel has SCTP loaded, which answers with ABORT what is meant for this \
                 program: unload it (modprobe -r sctp), or use SCTP over UDP"
            );
        }
        let mut set = Self {
            sockets,
            addresses: Vec::new(),
            interface,
            encapsulation,
            udp_port,
            mark: None,
            problems: Vec::new(),
            answers: Answers::default(),
            outlets: Outlets::default(),
            statistics: EndpointStatistics::default(),
        };
        set.addresses = set.usable(&present);
        if set.general_addresses().is_empty() {
            return Err(BindError::NoAddress);
        }
        Ok(set)
    }

    /// The addresses of this endpoint, given the current ones of the host. An address that a socket
    /// is bound to remains when the host loses it, with interface 0.
    pub(super) fn usable(&self, present: &[LocalAddress]) -> Vec<LocalAddress> {
        let here = |address: &&LocalAddress| {
            self.interface.as_ref().is_none_or(|name| *name == address.interface)
        };
        let mut usable: Vec<LocalAddress> = Vec::new();
        for socket in self.sockets.iter().filter(|socket| socket.outlet.is_none()) {
            let mut found = present.iter().filter(here);
            if !socket.bound.is_unspecified() {
                let link = socket.link.as_deref();
                let found = found.find(|address| is_meant(address, socket.bound, link)).cloned();
                let gone = || LocalAddress { ip: socket.bound, interface: String::new(), index: 0 };
                usable.push(found.unwrap_or_else(gone));
                continue;
            }
            for address in found.filter(|address| address.ip.is_ipv4() == socket.bound.is_ipv4()) {
                let means_something = self.interface.is_some() || has_one_link(address, present);
                if means_something && usable.iter().all(|other| other.ip != address.ip) {
                    usable.push(address.clone());
                }
            }
        }
        usable
    }
}

/// The bindings of an endpoint.
struct Plan {
    /// Each with the interface that has the address, if one was named.
    bindings: Vec<(Binding, Option<String>)>,
    /// All sockets must be opened; otherwise an IP version that the host lacks is ignored.
    all_needed: bool,
}

impl Plan {
    fn new(
        encapsulation: Encapsulation,
        addresses: &[WantedAddress],
        interface: Option<&str>,
        present: &[LocalAddress],
    ) -> Result<Self, BindError> {
        let wildcards = [IpAddr::from(Ipv4Addr::UNSPECIFIED), Ipv6Addr::UNSPECIFIED.into()]
            .map(|ip| WantedAddress { ip, link: None });
        let (wanted, all_needed) =
            if addresses.is_empty() { (&wildcards[..], false) } else { (addresses, true) };
        let mut bindings = Vec::with_capacity(wanted.len());
        for WantedAddress { ip, link } in wanted {
            let (ip, link) = (*ip, link.as_deref());
            if let Some(name) = link
                && present.iter().all(|other| other.interface != name)
            {
                return Err(BindError::NoInterface(name.to_owned()));
            }
            let mut address = SocketAddr::new(ip, 0);
            if let IpAddr::V6(v6) = ip
                && v6.is_unicast_link_local()
            {
                let mut scopes =
                    present.iter().filter(|other| is_meant(other, ip, link)).map(|a| a.index);
                let scope = scopes.next().unwrap_or(0);
                if scopes.next().is_some() {
                    return Err(BindError::AmbiguousLinkLocal(ip));
                }
                address = SocketAddrV6::new(v6, 0, 0, scope).into();
            }
            let interface = interface.map(str::to_owned);
            let binding =
                Binding { encapsulation, address, interface, traffic_class: 0, shard: None };
            bindings.push((binding, link.map(str::to_owned)));
        }
        Ok(Self { bindings, all_needed })
    }

    fn open(&self, runtime: &dyn Runtime, port: u16) -> Result<Vec<Socket>, BindError> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.open_all(runtime, port) {
                // The port was free on the first address, but is in use on another one.
                Err(BindError::Socket { source, .. })
                    if port == 0
                        && source.kind() == io::ErrorKind::AddrInUse
                        && attempt < PORT_ATTEMPTS => {}
                result => return result,
            }
        }
    }

    fn open_all(&self, runtime: &dyn Runtime, mut port: u16) -> Result<Vec<Socket>, BindError> {
        let mut sockets: Vec<Socket> = Vec::with_capacity(self.bindings.len());
        let mut first_error = None;
        for (binding, link) in &self.bindings {
            let mut binding = binding.clone();
            binding.address.set_port(port);
            match runtime.bind(&binding) {
                Ok(io) => {
                    port = io.local_address().port();
                    binding.address.set_port(port);
                    // If it is opened again, the others are bound already.
                    if let Some(shard) = &mut binding.shard {
                        shard.joins = true;
                    }
                    sockets.push(Socket::new(io, Some(binding), link.clone()));
                }
                Err(source) => {
                    let in_use = source.kind() == io::ErrorKind::AddrInUse;
                    let error = refused(&binding, source);
                    if self.all_needed || in_use {
                        return Err(error);
                    }
                    first_error.get_or_insert(error);
                }
            }
        }
        match first_error {
            Some(error) if sockets.is_empty() => Err(error),
            _ => Ok(sockets),
        }
    }
}

/// Wraps sockets that another process has opened.
fn adopt(
    runtime: &dyn Runtime,
    encapsulation: Encapsulation,
    opened: Vec<UdpSocket>,
) -> Result<Vec<Socket>, BindError> {
    let mut sockets: Vec<Socket> = Vec::with_capacity(opened.len());
    for socket in opened {
        let io = runtime.adopt(encapsulation, socket).map_err(BindError::Opened)?;
        let (ip, port) = (io.local_address().ip(), io.local_address().port());
        if let Some(first) = sockets.first()
            && first.io.local_address().port() != port
        {
            let different = "the sockets of an endpoint have one UDP port";
            return Err(BindError::Opened(io::Error::new(io::ErrorKind::InvalidInput, different)));
        }
        if sockets.iter().any(|socket| socket.bound == ip) {
            return Err(BindError::DuplicateAddress(ip));
        }
        sockets.push(Socket::new(io, None, None));
    }
    Ok(sockets)
}

impl Socket {
    pub(super) fn new(
        io: Box<dyn PacketSocket>,
        binding: Option<Binding>,
        link: Option<String>,
    ) -> Self {
        let bound = io.local_address().ip();
        Self {
            io,
            bound,
            link,
            binding,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            false_alarms: 0,
            outlet: None,
            stale: false,
        }
    }

    /// Whether it sends from this address.
    pub(super) fn serves(&self, local: IpAddr) -> bool {
        self.bound == local
            || (self.bound.is_unspecified() && self.bound.is_ipv4() == local.is_ipv4())
    }
}

/// Whether an address of the host matches `ip` and the interface `link`.
fn is_meant(present: &LocalAddress, ip: IpAddr, link: Option<&str>) -> bool {
    present.ip == ip && link.is_none_or(|name| name == present.interface)
}

/// Whether the address alone determines the link, as all globally valid addresses do.
fn has_one_link(address: &LocalAddress, present: &[LocalAddress]) -> bool {
    match address.ip {
        // An IPv4 link-local address has no scope, so it does not identify the link.
        IpAddr::V4(v4) => !v4.is_link_local(),
        IpAddr::V6(v6) if v6.is_unicast_link_local() => {
            let same = |other: &&LocalAddress| other.ip == address.ip;
            present.iter().filter(same).all(|other| other.index == address.index)
        }
        IpAddr::V6(_) => true,
    }
}
