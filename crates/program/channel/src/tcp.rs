//! Where the library leads the connections of TCP programs (`anabranch run --tcp`): the environment variable, and the
//! numbers by which the engine recognises sockets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The environment variable that says so: the [`Gate`].
pub const VARIABLE: &str = "ANABRANCH_TCP";

/// Set in the variable if only SCTP may carry connections.
const REQUIRED: &str = "required";

/// Where the engine waits for TCP sockets of programs: at a loopback address of its own, which shows that a
/// connection is the engine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// The address. Connections that the engine makes to programs come from it.
    pub ip: Ipv4Addr,
    /// The port.
    pub port: u16,
    /// The port at `::1`, for sockets that cannot use IPv4.
    pub port6: Option<u16>,
    /// Connections that SCTP does not carry must fail.
    pub required: bool,
}

impl Gate {
    /// The value of [`VARIABLE`]: the address, the port, the port for IPv6 or 0, and whether SCTP is required.
    #[must_use]
    pub fn variable(&self) -> String {
        let required = if self.required { REQUIRED } else { "" };
        format!("{}:{}:{}:{required}", self.ip, self.port, self.port6.unwrap_or(0))
    }

    /// Reads the value of [`VARIABLE`], without allocating memory.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut fields = str::from_utf8(text).ok()?.split(':');
        let ip = fields.next()?.parse().ok()?;
        let port = fields.next()?.parse().ok()?;
        let port6 = fields.next()?.parse().ok()?;
        let required = match fields.next()? {
            "" => false,
            REQUIRED => true,
            _ => return None,
        };
        let port6 = Some(port6).filter(|port| *port != 0);
        fields.next().is_none().then_some(Self { ip, port, port6, required })
    }

    /// The gate as sockets of this family see it. `None`: they cannot reach it.
    #[must_use]
    pub fn address(&self, ipv6: bool, only_ipv6: bool) -> Option<SocketAddr> {
        Some(match (ipv6, only_ipv6) {
            (false, _) => (self.ip, self.port).into(),
            (true, false) => (self.ip.to_ipv6_mapped(), self.port).into(),
            (true, true) => (Ipv6Addr::LOCALHOST, self.port6?).into(),
        })
    }

    /// Whether a socket whose peer has this address may be connected to the engine. `own` is the socket's own
    /// address: without an address of its own for IPv6, the engine is recognised by what only this host can do.
    #[must_use]
    pub fn may_be_peer(&self, peer: IpAddr, own: IpAddr) -> bool {
        match peer.to_canonical() {
            IpAddr::V4(peer) => peer == self.ip,
            IpAddr::V6(peer) => peer.is_loopback() || own == peer,
        }
    }
}

/// A 64-bit number in two arguments of a call.
#[must_use]
pub fn halves(number: u64) -> [i32; 2] {
    [(number as u32).cast_signed(), ((number >> 32) as u32).cast_signed()]
}

/// The number in two arguments of a call.
#[must_use]
pub fn whole(halves: [i32; 2]) -> u64 {
    let [low, high] = halves.map(|half| u64::from(half.cast_unsigned()));
    low | high << 32
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_variable_survives_the_way(ip in any::<u32>(), port in any::<u16>(), port6 in any::<u16>(),
                                         required in any::<bool>(), number in any::<u64>()) {
            let port6 = Some(port6).filter(|port| *port != 0);
            let gate = Gate { ip: ip.into(), port, port6, required };
            prop_assert_eq!(Gate::parse(gate.variable().as_bytes()), Some(gate));
            prop_assert_eq!(whole(halves(number)), number);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in vec(any::<u8>(), 0..60)) {
            let _ = Gate::parse(&bytes);
        }
    }

    #[test]
    fn the_engine_is_recognised_by_its_address() {
        let gate = Gate::parse(b"127.1.2.3:4000:0:").unwrap();
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let may = |peer, own| gate.may_be_peer(ip(peer), ip(own));
        assert!(may("127.1.2.3", "127.0.0.1") && may("::ffff:127.1.2.3", "::ffff:10.0.0.1"));
        assert!(!may("127.0.0.1", "127.0.0.1") && !may("2001:db8::1", "2001:db8::2"));
        assert!(may("::1", "::1") && may("2001:db8::1", "2001:db8::1"));
        assert_eq!(gate.address(true, true), None);
        assert_eq!(gate.address(true, false), Some("[::ffff:127.1.2.3]:4000".parse().unwrap()));
        for wrong in ["127.1.2.3:4000:0", "127.1.2.3:4000:0:x", "1:2:3::", "127.1.2.3:4000:0::"] {
            assert_eq!(Gate::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
