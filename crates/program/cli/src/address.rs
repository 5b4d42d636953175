//! Addresses as written on the command line.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};
use std::str::FromStr;

use anabranch_http::{Authority, Host, split_udp_port};

use crate::failure::Failure;
use crate::zone;

/// An address of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) ip: IpAddr,
    /// The interface that has this link-local address, by its name or number.
    pub(crate) zone: Option<String>,
}

impl Address {
    /// Adds a port, for a socket of the system.
    pub(crate) fn socket(&self, port: u16) -> Result<SocketAddr, Failure> {
        match (self.ip, &self.zone) {
            (IpAddr::V6(ip), Some(zone)) => {
                Ok(SocketAddrV6::new(ip, port, 0, zone::index(zone)?).into())
            }
            (ip, _) => Ok(SocketAddr::new(ip, port)),
        }
    }
}

impl From<&Address> for Host {
    fn from(address: &Address) -> Self {
        match (address.ip, &address.zone) {
            (IpAddr::V6(ip), Some(zone)) => Self::LinkLocal(ip, zone.clone()),
            (ip, _) => Self::Address(ip),
        }
    }
}

/// The address on which a server listens: `ADDR[,ADDR...]:PORT` with IPv6 addresses in brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListenAddress {
    /// The addresses, at least one.
    pub(crate) addresses: Vec<Address>,
    /// SCTP or TCP port; 0 lets the system choose one.
    pub(crate) port: u16,
    /// UDP port that carries SCTP, if the address names one.
    pub(crate) udp_port: Option<u16>,
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "the form is ADDR[,ADDR...]:PORT";
        let (text, udp_port) = split_udp_port(text).map_err(|error| error.to_string())?;
        let (hosts, port) = text.rsplit_once(':').ok_or_else(|| format!("{form}: no port"))?;
        let port = port.parse().map_err(|_| format!("'{port}' is not a port (0 to 65535)"))?;
        let addresses = hosts.split(',').map(address).collect::<Result<_, _>>()?;
        Ok(Self { addresses, port, udp_port })
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts = self.addresses.iter().map(Host::from).collect();
        Authority { hosts, port: self.port, udp_port: self.udp_port, key: None }.fmt(f)
    }
}

/// Whether a server with these addresses listens on all addresses of the host: `[::]` alone includes IPv4.
pub(crate) fn is_whole_host(addresses: &[Address]) -> bool {
    matches!(addresses, [Address { ip: IpAddr::V6(ip), .. }] if ip.is_unspecified())
}

/// Parses an IP address; IPv6 in brackets.
fn address(text: &str) -> Result<Address, String> {
    match text.parse::<Host>().map_err(|error| error.to_string())? {
        Host::Address(ip) if is_of_many(ip) => {
            Err(format!("'{text}' is the address of many hosts"))
        }
        Host::Address(ip) => Ok(Address { ip, zone: None }),
        Host::LinkLocal(ip, zone) => Ok(Address { ip: ip.into(), zone: Some(zone) }),
        Host::Name(name) => Err(format!("'{name}' is not an IP address")),
    }
}

/// Whether this is a multicast or broadcast address, which cannot belong to a single host.
fn is_of_many(ip: IpAddr) -> bool {
    ip.is_multicast() || ip == IpAddr::V4(Ipv4Addr::BROADCAST)
}

/// Parses an IP address. Brackets are not needed, because no port follows.
pub(crate) fn plain_address(text: &str) -> Result<Address, String> {
    if text.contains(':') && !text.starts_with('[') {
        return address(&format!("[{text}]"));
    }
    address(text)
}

/// Parses `ADDR:PORT` of a TCP socket.
pub(crate) fn socket(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "the form is ADDR:PORT, as in 127.0.0.1:9100 or [::1]:9100".to_owned())
}

/// Parses the peer to connect to: `HOST[,HOST...]:PORT` with IPv6 addresses in brackets.
pub(crate) fn authority(text: &str) -> Result<Authority, String> {
    let (text, udp_port) = split_udp_port(text).map_err(|error| error.to_string())?;
    let (hosts, port) = text
        .rsplit_once(':')
        .ok_or_else(|| "the form is HOST[,HOST...]:PORT: no port".to_owned())?;
    let port = port.parse().ok().filter(|&port| port > 0);
    let port = port.ok_or_else(|| "a port is a number from 1 to 65535".to_owned())?;
    let hosts = hosts.split(',').map(|host| host.parse::<Host>().map_err(|e| e.to_string()));
    let hosts = hosts.collect::<Result<_, _>>()?;
    Ok(Authority { hosts, port, udp_port, key: None })
}

/// Returns all addresses of an authority's hosts with its port, without duplicates, in the given order.
pub(crate) async fn resolve(authority: &Authority) -> Result<Vec<SocketAddr>, Failure> {
    let port = authority.port;
    let mut addresses = Vec::new();
    let mut add = |address| {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    };
    for host in &authority.hosts {
        match host {
            Host::Address(ip) => add(SocketAddr::new(*ip, port)),
            Host::LinkLocal(ip, zone) => {
                add(SocketAddrV6::new(*ip, port, 0, zone::index(zone)?).into());
            }
            Host::Name(name) => {
                let found = tokio::net::lookup_host((name.as_str(), port))
                    .await
                    .map_err(|error| Failure::failed(format!("'{name}' is not known: {error}")))?;
                found.for_each(&mut add);
            }
        }
    }
    Ok(addresses)
}

/// Returns the interface that an endpoint without local addresses must use to reach these hosts, according to
/// their zones. `None` if no host has a zone.
pub(crate) fn interface_of<'a>(
    hosts: impl Iterator<Item = &'a Host>,
) -> Result<Option<String>, Failure> {
    let mut interface = None;
    let mut elsewhere = false;
    for host in hosts {
        let Host::LinkLocal(_, zone) = host else {
            elsewhere = true;
            continue;
        };
        let name = zone::name(zone)?;
        elsewhere |= interface.as_ref().is_some_and(|other| *other != name);
        interface = Some(name);
    }
    match interface {
        Some(name) if elsewhere => Err(Failure::usage(format!(
            "not all of the peer's addresses are on {name}: name the addresses to connect from \
             with --local"
        ))),
        interface => Ok(interface),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_in_one_list() {
        let parsed: ListenAddress = "[::1],127.0.0.1:8080".parse().unwrap();
        assert_eq!(parsed.addresses.len(), 2);
        assert_eq!(parsed.port, 8080);
        assert_eq!(parsed.to_string(), "[::1],127.0.0.1:8080");
        assert_eq!("127.0.0.1:0".parse::<ListenAddress>().unwrap().port, 0);
        let with_udp: ListenAddress = "127.0.0.1:80;udp=7000".parse().unwrap();
        assert_eq!((with_udp.port, with_udp.udp_port), (80, Some(7000)));
        assert_eq!(with_udp.to_string(), "127.0.0.1:80;udp=7000");
        assert_eq!(authority("[::1]:80;udp=7000").unwrap().udp_port, Some(7000));
        assert_eq!(plain_address("::1"), plain_address("[::1]"));
        for of_many in ["224.0.0.1:80", "255.255.255.255:80", "[ff02::1]:80"] {
            let refused = of_many.parse::<ListenAddress>().unwrap_err();
            assert!(refused.ends_with("is the address of many hosts"), "{refused}");
        }
    }

    #[test]
    fn link_local_addresses_name_their_interface() {
        let text = "[fe80::1%eth0],[fe80::2%3]:8080";
        let parsed: ListenAddress = text.parse().unwrap();
        assert_eq!(parsed.addresses[0].zone.as_deref(), Some("eth0"));
        assert_eq!(parsed.to_string(), text);
        assert_eq!(authority(text).unwrap().to_string(), text);
        assert_eq!(plain_address("fe80::1%eth0"), plain_address("[fe80::1%eth0]"));
        assert_eq!(parsed.addresses[1].socket(80).unwrap(), "[fe80::2%3]:80".parse().unwrap());
    }

    #[test]
    fn an_endpoint_takes_the_one_interface_of_its_peers() {
        let of = |text: &str| {
            let authority = authority(text).unwrap();
            interface_of(authority.hosts.iter())
        };
        assert_eq!(of("10.0.0.1,[fe80::1]:7"), Ok(None));
        #[cfg(target_os = "linux")]
        {
            assert_eq!(of("[fe80::1%lo],[fe80::2%lo]:7"), Ok(Some("lo".into())));
            let mixed = of("[fe80::1%lo],10.0.0.1:7").unwrap_err();
            assert!(matches!(&mixed, Failure::Usage(s) if s.contains("on lo: name")), "{mixed:?}");
        }
        let unknown = of("[fe80::1%nowhere7]:7").unwrap_err();
        assert!(matches!(&unknown, Failure::Failed(s) if s.contains("'nowhere7'")), "{unknown:?}");
    }

    #[test]
    fn peers_have_names_or_addresses() {
        assert_eq!(authority("a.example,[::1]:7").unwrap().to_string(), "a.example,[::1]:7");
        for wrong in ["a", "a:", "a:0", "a:99999", ":7", "::1:7"] {
            assert!(authority(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("127.0.0.1", "no port"),
            ("127.0.0.1:http", "'http' is not a port"),
            ("127.0.0.1:70000", "'70000' is not a port"),
            ("localhost:80", "'localhost' is not an IP address"),
            (":80", "a host is missing"),
            ("127.0.0.1,:80", "a host is missing"),
            ("127.0.0:80", "'127.0.0' is neither"),
            ("::1:80", "IPv6 needs brackets"),
            ("[fe80::1%]:80", "'' is not an interface"),
            ("[2001:db8::1%eth0]:80", "2001:db8::1 is not link-local"),
        ] {
            let error = text.parse::<ListenAddress>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
