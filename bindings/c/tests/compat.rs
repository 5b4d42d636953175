//! Programs that were written for the SCTP of a kernel, compiled as they are.

mod common;

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Command, Stdio};

use common::{Installed, succeed};

#[test]
fn programs_for_a_kernel_run_as_they_are() {
    let library = Installed::new();
    // A host without lksctp has the header from here.
    let includes = library.path("include/anabranch").display().to_string();
    let compat = ["-include", "anabranch_compat.h", "-I", &includes];
    let program = library.compile("tests/c/lksctp.c", &compat);
    for style in ["one-to-one", "one-to-many"] {
        let udp = UdpSocket::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let mut server = Command::new(&program)
            .args(["server", style, "5000"])
            .env("ANABRANCH_UDP_PORT", udp.to_string())
            .env("ANABRANCH_OPTIONS", "profile=rfc9260;nr_sack=on;")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let mut client = Command::new(&program);
        client.args(["client", style, "5000"]).env("ANABRANCH_REMOTE_UDP_PORT", udp.to_string());
        assert_eq!(succeed(&mut client).stdout, b"4 messages came back\n", "{style}");
        assert!(server.wait().unwrap().success(), "{style}");
    }
}

#[test]
fn options_that_there_are_not_are_told() {
    let library = Installed::new();
    let includes = library.path("include/anabranch").display().to_string();
    let compat = ["-include", "anabranch_compat.h", "-I", &includes];
    let program = library.compile("tests/c/lksctp.c", &compat);
    for (options, reason) in [
        ("rto_min=200 ms;no_such=1", "Protocol not available"),
        ("rto_min=soon", "Invalid argument"),
        ("rto_min", "Invalid argument"),
    ] {
        let mut client = Command::new(&program);
        client.args(["client", "one-to-one", "5000"]).env("ANABRANCH_OPTIONS", options);
        let output = client.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{options}");
        assert_eq!(said, format!("ANABRANCH_OPTIONS: {reason}\nsocket: {reason}\n"));
    }
}
