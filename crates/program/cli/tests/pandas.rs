//! The rows of the laboratory in pandas, as a researcher reads them.

use std::path::Path;
use std::process::{Command, Output};

fn run(dir: &Path, program: &str, arguments: &[&str]) -> Output {
    Command::new(program).current_dir(dir).args(arguments).output().unwrap()
}

#[test]
fn a_study_of_three_paths_can_be_read_in_pandas() {
    let dir = tempfile::tempdir().unwrap();
    // The first Python in the PATH need not be the one with the distribution's packages.
    let has_pandas = |python: &&str| {
        let found = Command::new(python).args(["-c", "import pandas"]).output();
        found.is_ok_and(|output| output.status.success())
    };
    let Some(python) = ["python3", "/usr/bin/python3"].into_iter().find(has_pandas) else {
        assert_ne!(std::env::var("ANABRANCH_REQUIRE_ALL").as_deref(), Ok("1"), "no pandas");
        println!("skipped, because missing: python3 with pandas");
        return;
    };
    let lab = env!("CARGO_BIN_EXE_anabranch");
    let new = run(dir.path(), lab, &["lab", "new", "three"]);
    assert!(new.status.success(), "{new:?}");
    let small = ["--set", "traffic.file.size=1 MB", "--seeds", "3", "--csv", "runs.csv", "--quiet"];
    let runs = run(dir.path(), lab, &[&["lab", "run", "three.toml"], &small[..]].concat());
    assert!(runs.status.success(), "{runs:?}");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../scripts/three-paths.py");
    let read = run(dir.path(), python, &[script, "runs.csv"]);
    let table = String::from_utf8_lossy(&read.stdout);
    assert!(read.status.success(), "{read:?}");
    // A row for each of the three loss rates below the heading.
    assert!(table.contains("all-paths") && table.lines().count() == 5, "{table}");
}
