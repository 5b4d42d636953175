//! An idle association stays small, and so does a stream.

use std::process::Command;

/// Maximum number of bytes of an idle end with two paths and 1,024 streams (`docs/performance.md`).
const MOST: usize = 4096;

/// Bytes of an idle end that has used this number of streams.
fn bytes(used: usize) -> usize {
    let program = env!("CARGO_BIN_EXE_idle-bytes");
    let output = Command::new(program).arg(used.to_string()).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().expect("it prints a number")
}

#[test]
fn an_idle_association_holds_no_more_than_a_page() {
    let bytes = bytes(16);
    assert!(bytes <= MOST, "{bytes} bytes");
}

/// The document has about 60 bytes for a pair of streams and 700 for a connection (nat 2.9.3). A pair that has never
/// carried anything takes nothing here, so the pairs have been used.
#[test]
fn a_pair_of_streams_takes_less_than_a_tenth_of_an_association() {
    let (few, many) = (bytes(16), bytes(1000));
    let pair = (many - few) as f64 / 984.0;
    assert!(pair > 0.0 && pair < few as f64 / 10.0, "{pair} bytes, and {few} for all");
    println!("{pair:.1} bytes a pair of streams, {few} an association");
}
