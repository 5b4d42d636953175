//! A translator of addresses before each uplink of the client.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anabranch_proto::Instant;

/// The first outer port.
const FIRST_PORT: u16 = 10_000;

/// Outer ports before the first one is used again.
const PORTS: u32 = 50_000;

/// Outer addresses that follow each other have this many ports.
const PORTS_OF_ONE: u32 = 3;

#[derive(Debug)]
struct Mapping {
    port: u16,
    /// The last packet from inside.
    used: Instant,
}

#[derive(Debug)]
pub(super) struct Translator {
    /// The address of each uplink, and its mapping.
    uplinks: Vec<(IpAddr, Mapping)>,
    /// The outer address and the uplink of each port.
    outside: BTreeMap<u16, (SocketAddr, usize)>,
    life: Option<Duration>,
    /// Mappings so far.
    pub(super) mappings: u32,
}

impl Translator {
    pub(super) fn new(uplinks: &[IpAddr], life: Option<Duration>) -> Self {
        let unused = |ip: &IpAddr| (*ip, Mapping { port: 0, used: Instant::ZERO });
        let mut translator = Self {
            uplinks: uplinks.iter().map(unused).collect(),
            outside: BTreeMap::new(),
            life,
            mappings: 0,
        };
        (0..uplinks.len()).for_each(|uplink| translator.renew(uplink));
        translator
    }

    /// Gives an uplink another outer address.
    pub(super) fn renew(&mut self, uplink: usize) {
        let Some((inner, mapping)) = self.uplinks.get_mut(uplink) else { return };
        let number = (self.mappings / PORTS_OF_ONE) as u8;
        let outer: IpAddr = match inner {
            IpAddr::V4(_) => Ipv4Addr::new(203, 0, 113, number).into(),
            IpAddr::V6(_) => {
                Ipv6Addr::new(0x2001, 0xdb8, 113, 0, 0, 0, 0, u16::from(number)).into()
            }
        };
        mapping.port = FIRST_PORT + (self.mappings % PORTS) as u16;
        self.outside.insert(mapping.port, ((outer, mapping.port).into(), uplink));
        self.mappings += 1;
    }

    /// The outer port of a packet from inside.
    pub(super) fn outward(&mut self, now: Instant, uplink: usize) -> Option<u16> {
        let (_, mapping) = self.uplinks.get(uplink)?;
        if self.life.is_some_and(|life| now.saturating_since(mapping.used) > life) {
            self.renew(uplink);
        }
        let (_, mapping) = self.uplinks.get_mut(uplink)?;
        mapping.used = now;
        Some(mapping.port)
    }

    /// Whether a packet to this outer port still reaches the uplink.
    pub(super) fn lets_in(&self, now: Instant, uplink: usize, port: u16) -> bool {
        self.uplinks.get(uplink).is_some_and(|(_, mapping)| {
            let forgotten = self.life.is_some_and(|life| now.saturating_since(mapping.used) > life);
            mapping.port == port && !forgotten
        })
    }

    /// The outer port of an uplink now.
    pub(super) fn port(&self, uplink: usize) -> u16 {
        self.uplinks.get(uplink).map_or(0, |(_, mapping)| mapping.port)
    }

    /// The outer address with this port, now or in the past.
    pub(super) fn address(&self, port: u16) -> Option<SocketAddr> {
        self.outside.get(&port).map(|(address, _)| *address)
    }

    /// The uplink that has or had this outer address.
    pub(super) fn uplink(&self, outer: SocketAddr) -> Option<usize> {
        let (address, uplink) = self.outside.get(&outer.port())?;
        (*address == outer).then_some(*uplink)
    }
}
