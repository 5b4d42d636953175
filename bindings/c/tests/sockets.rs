//! The socket calls, from a C program that makes them.

mod common;

use std::process::Command;

use common::{Installed, succeed};

#[test]
fn the_calls_do_what_the_standards_say() {
    let library = Installed::new();
    let program = library.compile("tests/c/sockets.c", &[]);
    succeed(&mut Command::new(program));
}
