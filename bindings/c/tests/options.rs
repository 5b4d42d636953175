//! Runs a C program that tests ancillary data and options.

mod common;

use std::process::Command;

use common::{Installed, succeed};

#[test]
fn options_are_of_what_they_name() {
    let library = Installed::new();
    let program = library.compile("tests/c/options.c", &[]);
    succeed(&mut Command::new(program));
}
