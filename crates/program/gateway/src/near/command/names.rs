//! Addresses that stand for names, so that the far side resolves them.
//!
//! The command asks for the address of a name and gets one from 198.18.0.0/15, the networks for benchmarks (RFC 2544),
//! which no host of the Internet has; or one of a private network of IPv6. When it connects there, the far side gets
//! the name. So no question leaves over another way, no round trip is needed for it, and the far side's rules see
//! names, as with SOCKS5.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::target::Host;

/// The network of addresses for names. The numbers of names are the last two bytes.
const NETWORK_4: u32 = 0xc612_0000;
const NETWORK_6: [u16; 6] = [0xfd61, 0x6e61, 0x6272, 0x616e, 0x6e61, 0x6d65];

/// The names to which an address was given. When there are 65,535 of them, the next ones take the addresses of the
/// oldest.
#[derive(Debug, Default)]
pub(super) struct Names {
    numbers: HashMap<String, u16>,
    /// The name with each number. Number 0 is not used.
    names: HashMap<u16, String>,
    last: u16,
}

impl Names {
    /// The number of a name.
    fn number(&mut self, name: &str) -> u16 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        self.last = self.last.checked_add(1).unwrap_or(1);
        if let Some(oldest) = self.names.insert(self.last, name.to_owned()) {
            self.numbers.remove(&oldest);
        }
        self.numbers.insert(name.to_owned(), self.last);
        self.last
    }

    /// The address of IPv4 that stands for a name.
    pub(super) fn v4(&mut self, name: &str) -> Ipv4Addr {
        v4(self.number(name))
    }

    /// The address of IPv6 that stands for a name.
    pub(super) fn v6(&mut self, name: &str) -> Ipv6Addr {
        v6(self.number(name))
    }

    /// The address that stands for a name already.
    pub(super) fn known(&self, name: &str, is_v6: bool) -> Option<IpAddr> {
        let number = *self.numbers.get(name)?;
        Some(if is_v6 { v6(number).into() } else { v4(number).into() })
    }

    /// What an address stands for: a name, or itself. `None` if it was for a name, but has none.
    pub(super) fn host(&self, address: IpAddr) -> Option<Host> {
        match number_of(address) {
            Some(number) => self.names.get(&number).cloned().map(Host::Name),
            None => Some(Host::Address(address.to_canonical())),
        }
    }
}

fn v4(number: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(NETWORK_4 | u32::from(number))
}

fn v6(number: u16) -> Ipv6Addr {
    let [a, b, c, d, e, f] = NETWORK_6;
    Ipv6Addr::new(a, b, c, d, e, f, 0, number)
}

/// The number in an address that stands for a name.
fn number_of(address: IpAddr) -> Option<u16> {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let bits = address.to_bits();
            (bits & 0xffff_0000 == NETWORK_4).then_some((bits & 0xffff) as u16)
        }
        IpAddr::V6(address) => {
            let segments = address.segments();
            (segments[..6] == NETWORK_6 && segments[6] == 0).then_some(segments[7])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_stand_for_names() {
        let mut names = Names::default();
        let first = names.v4("a.example");
        assert_eq!(first, Ipv4Addr::new(198, 18, 0, 1));
        assert_eq!(names.v4("b.example"), Ipv4Addr::new(198, 18, 0, 2));
        assert_eq!(names.v4("a.example"), first);
        let v6 = names.v6("b.example");
        assert_eq!(names.known("b.example", true), Some(v6.into()));
        assert_eq!(names.known("c.example", true), None);
        let name = |address: IpAddr| names.host(address).map(|host| host.to_string());
        assert_eq!(name(first.into()).as_deref(), Some("a.example"));
        assert_eq!(name(v6.into()).as_deref(), Some("b.example"));
        assert_eq!(name([198, 18, 0, 3].into()), None);
        assert_eq!(name([198, 18, 0, 0].into()), None);
        assert_eq!(name([1, 1, 1, 1].into()).as_deref(), Some("1.1.1.1"));
    }

    #[test]
    fn the_oldest_names_yield() {
        let mut names = Names::default();
        let first = names.v4("name0");
        for number in 1..u32::from(u16::MAX) {
            names.v4(&format!("name{number}"));
        }
        assert_eq!(names.host(first.into()), Some(Host::Name("name0".into())));
        assert_eq!(names.v4("new"), first);
        assert_eq!(names.host(first.into()), Some(Host::Name("new".into())));
        assert_eq!((names.numbers.len(), names.names.len()), (65_535, 65_535));
        assert_ne!(names.v4("name0"), first);
    }
}
