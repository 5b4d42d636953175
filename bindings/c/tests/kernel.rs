//! Runs a C program that relies on behaviour of kernel sockets.

mod common;

use std::process::Command;

use common::{Installed, succeed};

#[test]
fn the_calls_do_what_those_of_a_kernel_do() {
    let library = Installed::new();
    let program = library.compile("tests/c/kernel.c", &[]);
    succeed(&mut Command::new(program));
}
