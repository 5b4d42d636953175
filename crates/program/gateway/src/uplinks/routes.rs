//! The interfaces that have a route to the far side.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A route that may be used.
const UP: u32 = 1;

/// A route that refuses.
const REJECT: u32 = 0x200;

/// The routes of a host: interfaces by the metric of the best route to one of these addresses.
fn best(routes: impl Iterator<Item = (String, u32)>) -> Vec<String> {
    let mut metrics: BTreeMap<String, u32> = BTreeMap::new();
    for (interface, metric) in routes {
        let least = metrics.entry(interface).or_insert(metric);
        *least = metric.min(*least);
    }
    let mut names: Vec<_> = metrics.into_iter().collect();
    names.sort_by_key(|(_, metric)| *metric);
    names.into_iter().map(|(name, _)| name).collect()
}

/// Whether the first `bits` of two addresses are equal.
fn has_prefix(address: &[u8], network: &[u8], bits: u32) -> bool {
    let bit =
        |bytes: &[u8], at: u32| bytes.get(at as usize / 8).map(|byte| byte >> (7 - at % 8) & 1);
    (0..bits).all(|at| bit(address, at) == bit(network, at))
}

/// A line of `/proc/net/route`, if it is a route to this address: the interface and the metric.
fn of_ipv4(line: &str, to: Ipv4Addr) -> Option<(String, u32)> {
    let fields: Vec<_> = line.split_ascii_whitespace().collect();
    let [interface, destination, _, flags, _, _, metric, mask, ..] = fields[..] else {
        return None;
    };
    // The numbers are in the byte order of the processor.
    let bytes = |text: &str| Some(u32::from_str_radix(text, 16).ok()?.to_ne_bytes());
    let flags = u32::from_str_radix(flags, 16).ok()?;
    let bits = u32::from_be_bytes(bytes(mask)?).leading_ones();
    let leads = flags & (UP | REJECT) == UP && has_prefix(&to.octets(), &bytes(destination)?, bits);
    leads.then(|| Some((interface.to_owned(), metric.parse().ok()?)))?
}

/// A line of `/proc/net/ipv6_route`, if it is a route to this address.
fn of_ipv6(line: &str, to: Ipv6Addr) -> Option<(String, u32)> {
    let fields: Vec<_> = line.split_ascii_whitespace().collect();
    let [destination, bits, _, _, _, metric, _, _, flags, interface] = fields[..] else {
        return None;
    };
    let destination = u128::from_str_radix(destination, 16).ok()?.to_be_bytes();
    let number = |text: &str| u32::from_str_radix(text, 16).ok();
    let bits = number(bits).filter(|bits| *bits <= 128)?;
    let leads =
        number(flags)? & (UP | REJECT) == UP && has_prefix(&to.octets(), &destination, bits);
    leads.then(|| Some((interface.to_owned(), number(metric)?)))?
}

/// The interfaces with a route to one of these addresses, the best one first, from the content of the two files.
fn with_route(ipv4: &str, ipv6: &str, to: &[IpAddr]) -> Vec<String> {
    let routes = to.iter().flat_map(|to| {
        let found: Vec<_> = match to {
            IpAddr::V4(to) => ipv4.lines().filter_map(|line| of_ipv4(line, *to)).collect(),
            IpAddr::V6(to) => ipv6.lines().filter_map(|line| of_ipv6(line, *to)).collect(),
        };
        found
    });
    best(routes)
}

/// The interfaces of this host that have a route to one of these addresses, the best one first; empty on systems other
/// than Linux. Leaves out the loopback interface, and bridges unless there is nothing else: those of container runtimes
/// lead to the same uplinks.
pub(super) fn interfaces(to: &[IpAddr]) -> Vec<String> {
    let read = |name: &str| std::fs::read_to_string(name).unwrap_or_default();
    let mut found = with_route(&read("/proc/net/route"), &read("/proc/net/ipv6_route"), to);
    found.retain(|name| name != "lo");
    let system = |name: &str| std::path::Path::new("/sys/class/net").join(name);
    let is_bridge = |name: &String| system(name).join("bridge").exists();
    if !found.iter().all(is_bridge) {
        found.retain(|name| !is_bridge(name));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const IPV4: &str = "\
Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
wlan0	00000000	0100A8C0	0003	0	0	600	00000000	0	0	0
wwan0	00000000	01004064	0003	0	0	700	00000000	0	0	0
docker0	000011AC	00000000	0001	0	0	0	0000FFFF	0	0	0
eth0	0000000A	00000000	0001	0	0	100	000000FF	0	0	0
eth1	00000000	00000000	0002	0	0	0	00000000	0	0	0
dead0	00000000	00000000	0201	0	0	0	00000000	0	0	0
";

    const IPV6: &str = "\
20010db8000000000000000000000000 20 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003    wlan0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo
";

    fn found(to: &[&str]) -> Vec<String> {
        let to: Vec<_> = to.iter().map(|to| to.parse().unwrap()).collect();
        with_route(IPV4, IPV6, &to)
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn interfaces_with_a_route_the_best_first() {
        assert_eq!(found(&["198.51.100.7"]), ["wlan0", "wwan0"]);
        assert_eq!(found(&["10.1.2.3"]), ["eth0", "wlan0", "wwan0"]);
        assert_eq!(found(&["172.17.0.2"]), ["docker0", "wlan0", "wwan0"]);
        assert_eq!(found(&["2001:db8::1"]), ["eth0", "wlan0"]);
        assert_eq!(found(&["2001:db9::1"]), ["wlan0"]);
        assert_eq!(found(&[]), [""; 0]);
    }

    #[test]
    fn other_lines_are_no_routes() {
        for line in ["", "x", "a b c d e f g h i j", "wlan0 zz 0 0003 0 0 1 00000000"] {
            assert_eq!(
                with_route(line, line, &["192.0.2.1".parse().unwrap(), "::1".parse().unwrap()]),
                [""; 0]
            );
        }
    }
}
