//! An idle association stays small.

use std::process::Command;

/// Maximum number of bytes of an idle end with two paths and 1,024 streams (`docs/performance.md`).
const MOST: usize = 4096;

#[test]
fn an_idle_association_holds_no_more_than_a_page() {
    let output = Command::new(env!("CARGO_BIN_EXE_idle-bytes")).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let bytes: usize = text.trim().parse().expect("it prints a number");
    assert!(bytes <= MOST, "{bytes} bytes");
}
