//! One C program against usrsctp and against this library, both in both roles.

mod common;

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Installed, succeed};

/// UDP ports that are free now.
fn ports() -> [String; 2] {
    let sockets = [(); 2].map(|()| UdpSocket::bind(("127.0.0.1", 0)).unwrap());
    sockets.map(|socket| socket.local_addr().unwrap().port().to_string())
}

fn meet(server: &Path, client: &Path) {
    let [near, far] = ports();
    let mut server =
        Command::new(server).args(["server", &far, "5000"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let output = succeed(Command::new(client).args(["client", &near, "5000", &far]));
    assert_eq!(output.stdout, b"64 messages came back\n");
    assert!(server.wait().unwrap().success());
}

#[test]
fn the_same_program_runs_on_both_libraries_in_both_roles() {
    let library = Installed::new();
    let ours: PathBuf = library.compile("tests/c/rfc6458.c", &[]);
    meet(&ours, &ours);
    if !Path::new("/usr/include/usrsctp.h").exists() {
        let required = std::env::var("ANABRANCH_REQUIRE_ALL").is_ok_and(|all| all == "1");
        assert!(!required, "missing: usrsctp");
        eprintln!("skipped, because missing: usrsctp");
        return;
    }
    let theirs = library.compile("tests/c/rfc6458.c", &["-DUSRSCTP", "-lusrsctp"]);
    meet(&theirs, &theirs);
    meet(&ours, &theirs);
    meet(&theirs, &ours);
}
