//! Runs a C program that authenticates chunks.

mod common;

use std::process::Command;

use common::{Installed, succeed};

#[test]
fn chunks_are_authenticated() {
    let library = Installed::new();
    let program = library.compile("tests/c/authentication.c", &[]);
    succeed(&mut Command::new(program));
}
