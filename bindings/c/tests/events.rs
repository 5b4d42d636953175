//! Runs a C program that tests notifications and ancillary data.

mod common;

use std::process::Command;

use common::{Installed, succeed};

#[test]
fn events_tell_what_they_are_to_tell() {
    let library = Installed::new();
    let program = library.compile("tests/c/events.c", &[]);
    succeed(&mut Command::new(program));
}
