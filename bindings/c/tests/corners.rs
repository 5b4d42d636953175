//! Runs a C program that tests scarce resources and race conditions.

mod common;

use std::process::Command;

use common::{Installed, succeed};

#[test]
fn the_calls_do_what_they_say_in_corners_too() {
    let library = Installed::new();
    let program = library.compile("tests/c/corners.c", &[]);
    succeed(&mut Command::new(program));
}
