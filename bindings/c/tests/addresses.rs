//! Runs a C program that tests socket addresses in its own network namespace.

mod common;

use std::process::Command;

use common::{Installed, succeed};

/// Creates two interfaces with addresses of both families, then runs the program.
const SCRIPT: &str = "
set -e
ip link set lo up
ip link add d1 type veth peer name d2
for device in d1 d2; do
    # No address but those that the program knows.
    echo 1 >/proc/sys/net/ipv6/conf/$device/addr_gen_mode
    ip link set $device up
done
for address in 192.0.2.1/24 192.0.2.2/24; do ip address add $address dev d1; done
for address in 2001:db8::1/64 fe80::1/64; do ip address add $address dev d1 nodad; done
ip address add fe80::2/64 dev d2 nodad
exec \"$0\" d1 d2
";

/// How this user can create network namespaces, if at all: as root, or with a user namespace.
fn namespace() -> Option<&'static str> {
    let works = |flags: &&str| {
        let ip = "ip link add d1 type veth peer name d2 && test -w /proc/sys/net/ipv6/conf/d1/addr_gen_mode";
        let tried = Command::new("unshare").args([*flags, "sh", "-c", ip]).output();
        tried.is_ok_and(|output| output.status.success())
    };
    let found = ["-n", "-Urn"].into_iter().find(works);
    if found.is_none() {
        let required = std::env::var("ANABRANCH_REQUIRE_ALL").is_ok_and(|all| all == "1");
        assert!(!required, "missing: network namespaces");
        eprintln!("skipped, because missing: network namespaces");
    }
    found
}

#[test]
fn addresses_are_of_their_family_and_link() {
    let Some(flags) = namespace() else { return };
    let library = Installed::new();
    let program = library.compile("tests/c/addresses.c", &[]);
    succeed(Command::new("unshare").args([flags, "sh", "-c", SCRIPT]).arg(program));
}
