//! Runs a C program that resets and adds streams.

mod common;

use std::process::Command;

use common::{Installed, succeed};

#[test]
fn streams_are_reset_and_added() {
    let library = Installed::new();
    let program = library.compile("tests/c/reconfiguration.c", &[]);
    succeed(&mut Command::new(program));
}
