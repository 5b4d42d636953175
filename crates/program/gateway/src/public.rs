//! Which addresses belong to the public Internet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Networks of IPv4 that are not globally reachable (IANA's registry of special-purpose addresses, RFC 6890), with
/// multicast.
const SPECIAL_4: [([u8; 4], u32); 15] = [
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
];

/// Networks within 2000::/3, the global unicast addresses of IPv6, that are not globally reachable, or whose
/// addresses contain one of IPv4 to which packets are sent: protocol assignments with Teredo, documentation, 6to4.
const SPECIAL_6: [([u16; 3], u32); 4] =
    [([0x2001, 0, 0], 23), ([0x2001, 0xdb8, 0], 32), ([0x2002, 0, 0], 16), ([0x3fff, 0, 0], 20)];

/// The prefix of addresses that a NAT64 translates to IPv4 (RFC 6052).
const NAT64: [u16; 6] = [0x64, 0xff9b, 0, 0, 0, 0];

/// Whether this is a globally reachable unicast address.
pub fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_4(address),
        IpAddr::V6(address) => is_public_6(address),
    }
}

fn is_public_4(address: Ipv4Addr) -> bool {
    let within = |(network, length): &([u8; 4], u32)| {
        let mask = u32::MAX << (32 - length);
        address.to_bits() & mask == Ipv4Addr::from(*network).to_bits()
    };
    !SPECIAL_4.iter().any(within)
}

fn is_public_6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    if segments[..6] == NAT64 {
        let [.., a, b, c, d] = address.octets();
        return is_public_4([a, b, c, d].into());
    }
    let within = |([a, b, c], length): &([u16; 3], u32)| {
        let mask = u128::MAX << (128 - length);
        address.to_bits() & mask == Ipv6Addr::new(*a, *b, *c, 0, 0, 0, 0, 0).to_bits()
    };
    segments[0] & 0xe000 == 0x2000 && !SPECIAL_6.iter().any(within)
}

/// Whether this is an address of this host. Services that a firewall hides from the network can often be reached
/// there.
pub(crate) fn is_own(address: IpAddr) -> bool {
    let binds = |address: IpAddr| UdpSocket::bind((address, 0)).is_ok();
    // Systems can allow sockets to have any address; then only the main address of each interface is recognised.
    if binds(address) && !binds(TEST_NET.into()) {
        return true;
    }
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // Connecting a UDP socket sends nothing. To reach itself, a host sends from the same address.
    let local = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(SocketAddr::new(address, 9))?;
        socket.local_addr()
    });
    local.is_ok_and(|local| local.ip() == address)
}

/// An address that no host has (RFC 5737).
const TEST_NET: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_and_special_addresses_are_not_public() {
        for address in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.170",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "203.0.113.9",
            "224.0.0.1",
            "239.255.255.250",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:192.168.0.1",
            "::127.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "3fff::1",
            "fc00::1",
            "fd00::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
        for address in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "193.0.0.1",
            "223.255.255.255",
            "::ffff:1.1.1.1",
            "64:ff9b::1.1.1.1",
            "2001:200::1",
            "2606:4700::1111",
            "2a00::1",
            "3ffe::1",
        ] {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn the_addresses_of_this_host_are_known() {
        assert!(is_own([127, 0, 0, 1].into()));
        assert!(is_own([127, 9, 9, 9].into()) || cfg!(not(target_os = "linux")));
        assert!(!is_own(TEST_NET.into()) && !is_own([198, 51, 100, 1].into()));
    }
}
