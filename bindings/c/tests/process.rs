//! The library within a process: signals, forks, SO_LINGER, late accepts, the end of the program.

mod common;

use std::process::Command;

use common::{Installed, succeed};

#[test]
fn a_process_is_as_with_sockets_of_the_system() {
    let library = Installed::new();
    let program = library.compile("tests/c/process.c", &[]);
    for case in ["late", "interrupted", "forked", "lingered", "exit"] {
        // What hangs is to fail.
        let output = succeed(Command::new("timeout").arg("120").arg(&program).arg(case));
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.ends_with("passed\n"), "{case}: {said}");
        assert_eq!(said.contains("finish 0\n"), case == "exit", "{case}: {said}");
        let complaints = String::from_utf8(output.stderr).unwrap();
        assert_eq!(complaints, "", "{case}");
    }
}
