//! The library and its process: signals, forks, SO_LINGER, late accepts, exit.

mod common;

use std::process::Command;

use common::{Installed, succeed};

#[test]
fn a_process_is_as_with_sockets_of_the_system() {
    let library = Installed::new();
    let program = library.compile("tests/c/process.c", &[]);
    for case in ["late", "interrupted", "forked", "lingered", "exit", "child-ends"] {
        // Fail instead of hanging.
        let output = succeed(Command::new("timeout").arg("120").arg(&program).arg(case));
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains("passed\n"), "{case}: {said}");
        let ends = match case {
            "exit" => 1,
            "child-ends" => 2,
            _ => 0,
        };
        assert_eq!(said.matches("finish 0\n").count(), ends, "{case}: {said}");
        let complaints = String::from_utf8(output.stderr).unwrap();
        assert_eq!(complaints, "", "{case}");
    }
}
