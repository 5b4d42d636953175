//! Scopes of IP addresses: which addresses may be listed to a peer, and which can reach it.

use std::net::{IpAddr, Ipv4Addr};

/// The range within which an address identifies one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Loopback,
    LinkLocal,
    /// Within one site or one provider's network: RFC 1918, RFC 4193 and RFC 6598.
    Private,
    Global,
    /// It does not identify a single host.
    None,
}

fn scope(address: IpAddr) -> Scope {
    match address {
        IpAddr::V4(v4) if v4.is_loopback() => Scope::Loopback,
        IpAddr::V4(v4) if v4.is_link_local() => Scope::LinkLocal,
        IpAddr::V4(v4) if v4.is_private() || is_shared(v4) => Scope::Private,
        IpAddr::V4(v4) if v4.is_unspecified() || v4.is_multicast() || v4.is_broadcast() => {
            Scope::None
        }
        IpAddr::V6(v6) if v6.is_loopback() => Scope::Loopback,
        IpAddr::V6(v6) if v6.is_unicast_link_local() => Scope::LinkLocal,
        IpAddr::V6(v6) if v6.is_unique_local() => Scope::Private,
        IpAddr::V6(v6)
            if v6.is_unspecified() || v6.is_multicast() || v6.to_ipv4_mapped().is_some() =>
        {
            Scope::None
        }
        IpAddr::V4(_) | IpAddr::V6(_) => Scope::Global,
    }
}

/// Whether a provider may share the address among many customers (100.64.0.0/10, RFC 6598).
fn is_shared(address: Ipv4Addr) -> bool {
    let [a, b, ..] = address.octets();
    a == 100 && b & 0xc0 == 64
}

/// The scope, with private and global ones joined: a NAT may connect them.
fn joined(scope: Scope) -> Scope {
    if scope == Scope::Private { Scope::Global } else { scope }
}

/// Whether a packet from `local` can reach `remote`, judging by IP version and scope.
pub(crate) fn same_scope(local: IpAddr, remote: IpAddr) -> bool {
    local.is_ipv4() == remote.is_ipv4()
        && joined(scope(local)) == joined(scope(remote))
        && scope(local) != Scope::None
}

/// Whether an address may be listed to a peer, or accepted from a peer, that is reached at
/// `remote`. Loopback, link-local and private addresses never leave their scope: elsewhere a
/// private address belongs to another host, or to none.
pub(crate) fn may_be_listed(address: IpAddr, remote: IpAddr) -> bool {
    match (scope(address), scope(remote)) {
        (Scope::None, _) => false,
        (Scope::Global, _) | (_, Scope::Loopback) => true,
        (Scope::Private, Scope::Private | Scope::LinkLocal) => true,
        (Scope::LinkLocal, Scope::LinkLocal) => true,
        (Scope::Loopback | Scope::LinkLocal | Scope::Private, _) => false,
    }
}

/// Whether an address is valid only on its own link.
pub(crate) fn is_link_local(address: IpAddr) -> bool {
    scope(address) == Scope::LinkLocal
}

/// Whether this can be the source or destination address of packets.
// req: rfc9260 8.4 "MUST silently discard the OOTB packet"
pub(crate) fn is_unicast(address: IpAddr) -> bool {
    scope(address) != Scope::None
}

/// Number of leading bits that two addresses of the same IP version have in common; more means
/// nearer.
pub(crate) fn common_prefix(a: IpAddr, b: IpAddr) -> u32 {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (u32::from(a) ^ u32::from(b)).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (u128::from(a) ^ u128::from(b)).leading_zeros(),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    // test: rfc9260 3.3.2.1.2 "A sender MUST NOT use an IPv4-mapped"
    fn scopes_do_not_mix() {
        assert!(same_scope(ip("127.0.0.1"), ip("127.0.0.2")));
        assert!(same_scope(ip("10.0.0.1"), ip("192.0.2.1")));
        assert!(!same_scope(ip("127.0.0.1"), ip("10.0.0.1")));
        assert!(!same_scope(ip("10.0.0.1"), ip("2001:db8::1")));
        assert!(!same_scope(ip("fe80::1"), ip("2001:db8::1")));
        assert!(!same_scope(ip("0.0.0.0"), ip("0.0.0.0")));
        assert!(may_be_listed(ip("10.0.0.1"), ip("127.0.0.1")));
        assert!(!may_be_listed(ip("127.0.0.1"), ip("10.0.0.1")));
        assert!(!may_be_listed(ip("fe80::1"), ip("10.0.0.1")));
        assert!(may_be_listed(ip("fe80::1"), ip("fe80::2")));
        assert!(!may_be_listed(ip("224.0.0.1"), ip("10.0.0.1")));
        for private in ["10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "fd00::1"] {
            assert!(!may_be_listed(ip(private), ip("192.0.2.1")), "{private}");
            assert!(!may_be_listed(ip(private), ip("2001:db8::1")), "{private}");
            assert!(may_be_listed(ip(private), ip("192.168.7.7")), "{private}");
            assert!(may_be_listed(ip(private), ip("fe80::1")), "{private}");
            assert!(may_be_listed(ip("192.0.2.1"), ip(private)), "{private}");
        }
        for global in ["172.32.0.1", "100.128.0.1", "11.0.0.1"] {
            assert!(may_be_listed(ip(global), ip("192.0.2.1")), "{global}");
        }
        assert!(!is_unicast(ip("::ffff:1.2.3.4")));
    }

    #[test]
    fn nearness_counts_bits() {
        assert_eq!(common_prefix(ip("10.1.0.1"), ip("10.1.0.2")), 30);
        assert_eq!(common_prefix(ip("10.1.0.1"), ip("10.2.0.1")), 14);
        assert_eq!(common_prefix(ip("::1"), ip("::1")), 128);
        assert_eq!(common_prefix(ip("::1"), ip("10.0.0.1")), 0);
    }
}
