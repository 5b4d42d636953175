//! Runs a C program whose addresses change while an association is up.

mod common;

use std::process::Command;

use common::{Installed, succeed};

#[test]
fn addresses_leave_and_join_associations() {
    let library = Installed::new();
    let program = library.compile("tests/c/readdressing.c", &[]);
    succeed(&mut Command::new(program));
}
