//! Loads the library as packetdrill does, from a small C program.

mod common;

use std::process::Command;

use common::{Installed, succeed};

#[test]
fn the_symbol_is_exported() {
    let library = Installed::new();
    let mut nm = Command::new("nm");
    nm.args(["--dynamic", "--defined-only"]).arg(library.path("lib/libanabranch.so"));
    let symbols = String::from_utf8(succeed(&mut nm).stdout).unwrap();
    let exported = |name: &str| symbols.lines().any(|line| line.ends_with(&format!(" T {name}")));
    assert!(exported("packetdrill_interface_init"), "{symbols}");
    assert!(exported("anabranch_socket"));
}

#[test]
fn calls_and_packets_are_handled_to_completion() {
    let library = Installed::new();
    let driver = library.compile("tests/c/packetdrill.c", &[]);
    let settings = library.path("sysctl");
    std::fs::write(&settings, "net.inet.sctp.rto_initial=2000\nrto_min=500\n").unwrap();
    for version in ["4", "6"] {
        succeed(Command::new(&driver).arg(version).env("PD_SYSCTL_FILE", &settings));
    }
}
