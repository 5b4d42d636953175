//! Compiles one C program with usrsctp and with this library, and runs each pairing as client and server.

mod common;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Installed, has_usrsctp, succeed, udp_ports};

fn meet(server: &Path, client: &Path) {
    let [near, far] = udp_ports();
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
    if !has_usrsctp() {
        return;
    }
    let theirs = library.compile("tests/c/rfc6458.c", &["-DUSRSCTP", "-lusrsctp"]);
    meet(&theirs, &theirs);
    meet(&ours, &theirs);
    meet(&theirs, &ours);
}

#[test]
fn options_are_the_same_in_both_libraries() {
    let library = Installed::new();
    succeed(&mut Command::new(library.compile("tests/c/rfc6458_options.c", &[])));
    if has_usrsctp() {
        let flags = ["-DUSRSCTP", "-lusrsctp"];
        succeed(&mut Command::new(library.compile("tests/c/rfc6458_options.c", &flags)));
    }
}
