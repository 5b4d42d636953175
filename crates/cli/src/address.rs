//! Addresses as they stand on the command line.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use anabranch_http::{Authority, Host};

use crate::failure::Failure;

/// `ADDR[,ADDR...]:PORT` with IPv6 addresses in brackets: where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListenAddress {
    /// At least one.
    pub(crate) addresses: Vec<IpAddr>,
    /// SCTP or TCP port; 0 lets the system choose one.
    pub(crate) port: u16,
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "the form is ADDR[,ADDR...]:PORT";
        let (hosts, port) = text.rsplit_once(':').ok_or_else(|| format!("{form}: no port"))?;
        let port = port.parse().map_err(|_| format!("'{port}' is no port (0 to 65535)"))?;
        Ok(Self { addresses: hosts.split(',').map(address).collect::<Result<_, _>>()?, port })
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts = self.addresses.iter().copied().map(Host::Address).collect();
        Authority { hosts, port: self.port }.fmt(f)
    }
}

/// One IP address; IPv6 ones in brackets.
fn address(text: &str) -> Result<IpAddr, String> {
    match text.parse::<Host>().map_err(|error| error.to_string())? {
        Host::Address(address) => Ok(address),
        Host::Name(name) => Err(format!("'{name}' is not an IP address")),
    }
}

/// One IP address, where brackets are not needed because no port follows.
pub(crate) fn plain_address(text: &str) -> Result<IpAddr, String> {
    text.parse().or_else(|_| address(text))
}

/// `HOST[,HOST...]:PORT` with IPv6 addresses in brackets: where to connect to.
pub(crate) fn authority(text: &str) -> Result<Authority, String> {
    let (hosts, port) = text
        .rsplit_once(':')
        .ok_or_else(|| "the form is HOST[,HOST...]:PORT: no port".to_owned())?;
    let port = port.parse().ok().filter(|&port| port > 0);
    let port = port.ok_or_else(|| "a port is a number from 1 to 65535".to_owned())?;
    let hosts = hosts.split(',').map(|host| host.parse::<Host>().map_err(|e| e.to_string()));
    Ok(Authority { hosts: hosts.collect::<Result<_, _>>()?, port })
}

/// All addresses of an authority's hosts, each once, in the order given.
pub(crate) async fn resolve(authority: &Authority) -> Result<Vec<IpAddr>, Failure> {
    let mut addresses = Vec::new();
    let mut add = |address| {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    };
    for host in &authority.hosts {
        match host {
            Host::Address(address) => add(*address),
            Host::Name(name) => {
                let found = tokio::net::lookup_host((name.as_str(), authority.port))
                    .await
                    .map_err(|error| Failure::failed(format!("'{name}' is not known: {error}")))?;
                found.map(|address: SocketAddr| address.ip()).for_each(&mut add);
            }
        }
    }
    Ok(addresses)
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
        assert_eq!(plain_address("::1"), plain_address("[::1]"));
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
            ("127.0.0.1:http", "'http' is no port"),
            ("127.0.0.1:70000", "'70000' is no port"),
            ("localhost:80", "'localhost' is not an IP address"),
            (":80", "a host is missing"),
            ("127.0.0.1,:80", "a host is missing"),
            ("127.0.0:80", "'127.0.0' is neither"),
            ("::1:80", "IPv6 needs brackets"),
        ] {
            let error = text.parse::<ListenAddress>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
