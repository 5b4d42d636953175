//! The uplinks of a client.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anabranch_seal::Families;

use crate::runtime::{Binding, LocalAddress};

/// One of a client's ways to the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uplink {
    address: Option<IpAddr>,
    interface: Option<String>,
}

impl Uplink {
    /// All of the host; its routes decide.
    pub fn any() -> Self {
        Self { address: None, interface: None }
    }

    /// None: a place for one that may come.
    pub(super) fn none() -> Self {
        // No interface has an empty name.
        Self::interface("")
    }

    /// The network that has this local address.
    pub fn address(address: IpAddr) -> Self {
        Self { address: Some(address), interface: None }
    }

    /// A network interface, whatever its addresses are. Available only on Linux.
    pub fn interface(name: impl Into<String>) -> Self {
        Self { address: None, interface: Some(name.into()) }
    }

    /// The addresses of the host that belong to the uplink.
    pub(super) fn present(&self, all: &[LocalAddress]) -> Vec<LocalAddress> {
        let belongs = |local: &&LocalAddress| {
            let link_local = match local.ip {
                IpAddr::V4(v4) => v4.is_link_local(),
                IpAddr::V6(v6) => v6.is_unicast_link_local(),
            };
            self.address.is_none_or(|ip| ip == local.ip)
                && self.interface.as_ref().is_none_or(|name| *name == local.interface)
                && !link_local
        };
        let mut present: Vec<_> = all.iter().filter(belongs).cloned().collect();
        // Every address of 127.0.0.0/8 exists without being listed.
        if let Some(ip) = self.address.filter(|ip| ip.is_loopback())
            && present.is_empty()
        {
            present.push(LocalAddress { ip, interface: String::new(), index: 1 });
        }
        present.sort();
        present
    }

    /// The versions of IP that the uplink has with these addresses.
    pub(super) fn families(present: &[LocalAddress]) -> Families {
        let has = |v4: bool| present.iter().any(|local| local.ip.is_ipv4() == v4);
        Families { ipv4: has(true), ipv6: has(false) }
    }

    /// The binding of the uplink's socket for one version of IP.
    pub(super) fn binding(&self, ipv6: bool, traffic_class: u8) -> Binding {
        let wildcard =
            if ipv6 { IpAddr::from(Ipv6Addr::UNSPECIFIED) } else { Ipv4Addr::UNSPECIFIED.into() };
        let mut binding = Binding::udp(SocketAddr::new(self.address.unwrap_or(wildcard), 0));
        binding.interface.clone_from(&self.interface);
        binding.traffic_class = traffic_class;
        binding
    }
}

/// The interface or the local address.
impl fmt::Display for Uplink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.interface, self.address) {
            (Some(name), None) => f.write_str(name),
            (Some(name), Some(address)) => write!(f, "{address} on {name}"),
            (None, Some(address)) => address.fmt(f),
            (None, None) => f.write_str("all routes"),
        }
    }
}
