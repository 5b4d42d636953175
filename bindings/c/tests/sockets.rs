//! Runs a C program that tests the socket calls.

mod common;

use std::process::Command;

use common::{Installed, succeed};

#[test]
fn the_calls_do_what_the_standards_say() {
    let library = Installed::new();
    let program = library.compile("tests/c/sockets.c", &[]);
    succeed(&mut Command::new(program));
}
