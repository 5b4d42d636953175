//! The header declares exactly the functions that the library exports.

mod common;

use std::collections::BTreeSet;
use std::process::Command;

use common::{Installed, package, succeed};

/// Names of functions in a text: the names before a parenthesis that have our prefix.
fn functions(text: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut names = BTreeSet::new();
    for (at, _) in text.match_indices("anabranch_") {
        let rest = &text[at..];
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        if rest[end..].starts_with('(') {
            names.insert(rest[..end].to_owned());
        }
    }
    names
}

#[test]
fn the_header_declares_what_the_library_exports() {
    let library = Installed::new();
    let mut nm = Command::new("nm");
    nm.args(["--dynamic", "--defined-only"]).arg(library.path("lib/libanabranch.so"));
    let symbols = String::from_utf8(succeed(&mut nm).stdout).unwrap();
    let exported: BTreeSet<String> = symbols
        .lines()
        .filter_map(|line| line.split(" T ").nth(1))
        .filter(|name| name.starts_with("anabranch_"))
        .map(str::to_owned)
        .collect();
    let header = std::fs::read_to_string(package().join("include/anabranch.h")).unwrap();
    let code: String = header.split("*/").filter_map(|part| part.split("/*").next()).collect();
    assert_eq!(functions(&code), exported);
}

#[test]
fn the_shared_library_has_a_name_with_a_version() {
    let library = Installed::new();
    let program = library.compile("examples/echo_client.c", &[]);
    let mut readelf = Command::new("readelf");
    let needed = String::from_utf8(succeed(readelf.arg("-d").arg(program)).stdout).unwrap();
    assert!(needed.contains("[libanabranch.so.0]"), "{needed}");
}

#[test]
fn the_static_library_is_enough() {
    let library = Installed::new();
    for shared in ["libanabranch.so", "libanabranch.so.0"] {
        std::fs::remove_file(library.path("lib").join(shared)).unwrap();
    }
    library.compile("examples/echo_client.c", &["-ldl", "-lm"]);
}
