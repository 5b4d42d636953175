//! Where a side with an invitation listens, and under which addresses others reach it.

use std::net::{IpAddr, SocketAddr};

use anabranch_gateway::is_public;

use crate::address::{Address, ListenAddress, is_whole_host};
use crate::failure::{Failure, complain};

/// The real addresses to listen on.
pub(crate) fn sockets(listen: &ListenAddress) -> Result<Vec<SocketAddr>, Failure> {
    let port = listen.port;
    if is_whole_host(&listen.addresses) {
        let v4 = SocketAddr::from(([0, 0, 0, 0], port));
        let v6 = SocketAddr::from(([0_u16; 8], port));
        // A host may have no IPv6.
        let has_v6 = std::net::UdpSocket::bind((std::net::Ipv6Addr::LOCALHOST, 0)).is_ok();
        return Ok([v4].into_iter().chain(has_v6.then_some(v6)).collect());
    }
    listen.addresses.iter().map(|address| address.socket(port)).collect()
}

/// The addresses for an invitation: those that the user names, or those of the host.
pub(crate) fn addresses(
    public: &[SocketAddr],
    listen: &ListenAddress,
    udp_port: u16,
) -> Vec<SocketAddr> {
    let known = known(public, listen, udp_port);
    if public.is_empty() && !known.iter().any(|address| is_public(address.ip())) {
        complain(
            "this host has no public address: if the other side is elsewhere, name the address and port under which \
             it reaches this host with --public",
        );
    }
    known
}

/// The same, without a warning when none of them is public.
pub(crate) fn known(
    public: &[SocketAddr],
    listen: &ListenAddress,
    udp_port: u16,
) -> Vec<SocketAddr> {
    if !public.is_empty() {
        return public.to_vec();
    }
    let host = match is_whole_host(&listen.addresses) {
        true => addresses_of_host(),
        false => listen.addresses.iter().map(|Address { ip, .. }| *ip).collect(),
    };
    host.into_iter().map(|ip| SocketAddr::new(ip, udp_port)).collect()
}

/// Most addresses in an invitation: it should fit in a line.
const MOST_ADDRESSES: usize = 4;

/// Addresses of this host under which others may reach it, the public ones first. If there are none, the loopback
/// address.
#[cfg(unix)]
fn addresses_of_host() -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    for interface in nix::ifaddrs::getifaddrs().into_iter().flatten() {
        let Some(address) = interface.address else { continue };
        let v4 = address.as_sockaddr_in().map(|address| IpAddr::from(address.ip()));
        let v6 = address.as_sockaddr_in6().map(|address| IpAddr::from(address.ip()));
        let usable = |ip: &IpAddr| match ip {
            IpAddr::V4(ip) => !ip.is_loopback() && !ip.is_link_local(),
            IpAddr::V6(ip) => !ip.is_loopback() && !ip.is_unicast_link_local(),
        };
        addresses.extend(v4.or(v6).filter(usable));
    }
    addresses.sort_by_key(|ip| (!is_public(*ip), ip.is_ipv6()));
    addresses.dedup();
    addresses.truncate(MOST_ADDRESSES);
    if addresses.is_empty() {
        addresses.push(IpAddr::from([127, 0, 0, 1]));
    }
    addresses
}

#[cfg(not(unix))]
fn addresses_of_host() -> Vec<IpAddr> {
    vec![IpAddr::from([127, 0, 0, 1])]
}
