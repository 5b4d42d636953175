//! Limits how many packets of strangers are looked at, before anything in them is checked.
//!
//! Answering a flood would take the time of connected clients. Each source address is counted in its own row of a table,
//! so a flood from one host does not block other hosts. A flood with forged addresses fills all rows: then new clients
//! get through by chance only, but connected clients keep working.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anabranch_units::Instant;

use crate::meter::{Meter, Rate};
use crate::random::Random;

/// Rows for hosts, and as many for hosts with their ports: neighbours behind one address translator differ by these.
const ROWS: usize = 256;

/// Packets of one row that are looked at: 50 a second, and 25,600 of all.
const RATE: Rate = Rate { interval: Duration::from_millis(20), burst: 32 };

/// The rows. They are made for the first stranger.
pub(crate) struct Strangers {
    /// Chooses the rows, so that nobody can aim at that of another host.
    secret: [u8; 16],
    rows: Vec<Meter>,
}

impl Strangers {
    pub(crate) fn new(random: &mut Random) -> Self {
        Self { secret: random.array(), rows: Vec::new() }
    }

    /// Whether a packet from this address is looked at. Packets with a proof of the address are counted separately, so
    /// that a flood without proofs does not block clients that have one.
    pub(crate) fn hears(&mut self, now: Instant, source: SocketAddr, proves: bool) -> bool {
        if self.rows.is_empty() {
            self.rows = vec![Meter::EMPTY; 2 * ROWS];
        }
        let host = host(source.ip());
        let with_port = ROWS + self.row((host, source.port(), proves));
        let of_host = self.row((host, proves));
        [with_port, of_host].into_iter().any(|row| self.rows[row].take(RATE, now))
    }

    fn row(&self, of: impl std::hash::Hash) -> usize {
        let mut hasher = DefaultHasher::new();
        self.secret.hash(&mut hasher);
        of.hash(&mut hasher);
        hasher.finish() as usize % ROWS
    }
}

/// The part of an address that one host can hardly change: an IPv4 address, or the network of an IPv6 address.
fn host(ip: IpAddr) -> u64 {
    match ip {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => (v6.to_bits() >> 64) as u64,
    }
}

impl std::fmt::Debug for Strangers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Strangers(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strangers() -> Strangers {
        Strangers::new(&mut Random::new([1; 32]))
    }

    /// How many of these are heard within a second.
    fn heard(
        strangers: &mut Strangers,
        of: impl Iterator<Item = SocketAddr>,
        proves: bool,
    ) -> usize {
        let of: Vec<_> = of.collect();
        let step = Duration::from_secs(1) / of.len() as u32;
        let at = |index| Instant::from_secs(1) + step * index as u32;
        of.iter().enumerate().filter(|(i, from)| strangers.hears(at(*i), **from, proves)).count()
    }

    fn from(host: u32, port: u16) -> SocketAddr {
        (std::net::Ipv4Addr::from_bits(host), port).into()
    }

    #[test]
    fn a_flood_blocks_no_other_host() {
        let mut strangers = strangers();
        let flood = std::iter::repeat_n(from(7, 7), 100_000);
        let most = 2 * (50 + RATE.burst as usize);
        assert!((most - 4..=most).contains(&heard(&mut strangers, flood, false)));
        let last = Instant::from_secs(2);
        while strangers.hears(last, from(7, 7), false) {}
        // Its neighbour behind a translator, others, and whoever proves its address.
        assert!(strangers.hears(last, from(7, 8), false));
        assert!((0..100).all(|host| host == 7 || strangers.hears(last, from(host, 7), false)));
        assert!(strangers.hears(last, from(7, 7), true));
        // After the flood it is heard again.
        assert!(strangers.hears(Instant::from_secs(3), from(7, 7), false));
    }

    #[test]
    fn many_ports_or_addresses_are_bounded_too() {
        let most = ROWS * (50 + RATE.burst as usize);
        let ports = (0..1_000_000).map(|n| from(7, n as u16));
        assert!(heard(&mut strangers(), ports, false) < most + 100);
        let mut flooded = strangers();
        let hosts = (0..1_000_000).map(|n| from(n, n as u16));
        assert!(heard(&mut flooded, hosts, false) < 2 * most);
        let network = |last: u64| {
            let ip = (0x2001_0db8_u128 << 96) | u128::from(last);
            SocketAddr::from((std::net::Ipv6Addr::from_bits(ip), 7))
        };
        assert_eq!(host(network(1).ip()), host(network(u64::MAX).ip()));
    }
}
