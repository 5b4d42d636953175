//! Compiles the examples as a user would, and runs them.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use common::{Installed, succeed};

#[test]
fn a_client_gets_back_from_a_server_what_it_sent() {
    let library = Installed::new();
    let server = library.compile("examples/echo_server.c", &[]);
    let client = library.compile("examples/echo_client.c", &[]);
    let mut server = Command::new(server)
        .args(["0", "0", "20", "127.0.0.1", "127.0.0.2"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let ports: Vec<&str> = line.split_whitespace().collect();
    // Each client exits as soon as the library allows it, and none leaves the server waiting.
    for _ in 0..20 {
        let output = succeed(Command::new(&client).args(&ports).args(["127.0.0.1"]));
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(said, "4 messages came back from a peer with 2 addresses\n");
    }
    assert!(server.wait().unwrap().success());
}
