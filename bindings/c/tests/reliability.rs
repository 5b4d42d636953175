//! Runs a C program that tests partial reliability.

mod common;

use std::process::Command;

use common::{Installed, succeed};

#[test]
fn messages_are_given_up_as_they_say() {
    let library = Installed::new();
    let program = library.compile("tests/c/reliability.c", &[]);
    succeed(&mut Command::new(program));
}
