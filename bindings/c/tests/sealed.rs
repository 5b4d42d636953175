//! Runs a C program with sealed paths.

mod common;

use std::process::Command;

use common::{Installed, succeed};

#[test]
fn endpoints_with_sealed_paths() {
    let library = Installed::new();
    let program = library.compile("tests/c/sealed.c", &[]);
    let folder = tempfile::tempdir().unwrap();
    succeed(Command::new(program).current_dir(folder.path()));
}
