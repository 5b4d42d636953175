//! Runs the project's scripts and those in SCTP_PKT_DIR.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anabranch_script::{Failure, Passed, Script, scripts};

fn run_all(folder: &Path, run: fn(&Script) -> Result<Passed, Failure>) {
    let files = scripts(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let (mut packets, mut time, mut failures) = (0, Duration::ZERO, Vec::new());
    for file in &files {
        match Script::load(file).and_then(|script| run(&script)) {
            Ok(passed) => {
                packets += passed.packets;
                time += passed.time;
            }
            Err(failure) => failures.push(failure.to_string()),
        }
    }
    println!(
        "{}: {} scripts, {} passed; {packets} packets, {time:?} of virtual time",
        folder.display(),
        files.len(),
        files.len() - failures.len()
    );
    assert!(!files.is_empty(), "no scripts in {}", folder.display());
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
}

fn conformance() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../conformance")
}

#[test]
fn all_scripts_pass() {
    run_all(&conformance(), Script::run);
}

/// The scripts in SCTP_PKT_DIR, or by default those of this project that use packetdrill's
/// language.
#[test]
fn scripts_of_another_suite_pass() {
    let folder = std::env::var_os("SCTP_PKT_DIR").map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| conformance().join("plain"));
    run_all(&folder, |script| script.run_leniently(true));
}

/// Each script says in its first lines what it shows, and cites a requirement.
#[test]
fn scripts_say_what_they_show() {
    for file in scripts(&conformance()).unwrap() {
        let text = std::fs::read_to_string(&file).unwrap();
        let first = text.lines().next().unwrap_or_default();
        assert!(first.starts_with("// "), "{} does not say what it shows", file.display());
        let cites = text
            .lines()
            .any(|line| line.starts_with("// test: rfc") || line.starts_with("// see: "));
        assert!(cites, "{} cites nothing", file.display());
    }
}
