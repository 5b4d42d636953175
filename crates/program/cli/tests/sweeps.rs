//! `anabranch lab` with several programs: shards, units of work, merging, and programs that are killed.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use common::{Ended, anabranch, run};
use tempfile::TempDir;

const SCENARIO: &str = r#"
title = "Small"
[run]
seeds = 6
[network]
shape = "dumbbells"
core_rate = "10 Mb/s"
core_delay = "25 ms"
edge_rate = "100 Mb/s"
edge_delay = "10 ms"
queue = "2 BDP"
[path.primary]
[path.alternate]
[association]
profile = "rfc9260"
[traffic.file]
size = "100 kB"
message = "1452 B"
[axis.loss]
set = "path.primary.loss"
values = ["0 %", "5 %"]
"#;

fn directory(scenario: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("my.toml"), scenario).unwrap();
    dir
}

fn lab(dir: &Path, arguments: &str) -> String {
    let arguments: Vec<_> = std::iter::once("lab").chain(arguments.split(' ')).collect();
    let ended = run(&arguments, dir);
    assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.stderr);
    ended.stdout
}

fn refused(dir: &Path, arguments: &str, part: &str) {
    let arguments: Vec<_> = std::iter::once("lab").chain(arguments.split(' ')).collect();
    run(&arguments, dir).failed_with(1, part);
}

/// A worker: what it prints, given this on standard input.
fn worker(input: &str) -> Ended {
    // It has no file of the scenario, and nothing of this directory.
    let nowhere = tempfile::tempdir().unwrap();
    let mut child = anabranch(&["lab", "unit"], nowhere.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap().into()
}

/// The files of a store.
fn files(store: &Path) -> BTreeMap<PathBuf, String> {
    let mut files = BTreeMap::new();
    for place in [store.to_owned(), store.join("my")] {
        for entry in fs::read_dir(place).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                let name = path.strip_prefix(store).unwrap().to_owned();
                files.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    files
}

#[test]
fn all_drivers_give_the_same_store() {
    let precise = SCENARIO.replace("seeds = 6", "seeds = 12\nmin_seeds = 4\nprecision = \"10 %\"");
    for scenario in [SCENARIO, &precise] {
        let dir = directory(scenario);
        let dir = dir.path();
        lab(dir, "run my.toml --jobs 1 --out one");
        lab(dir, "run my.toml --jobs 2 --out two");
        let said = lab(dir, "run my.toml --shard 1/2 --out shard-1");
        assert!(said.starts_with("my: ") && said.ends_with(", all of shard 1/2\n"), "{said}");
        lab(dir, "run my.toml --shard 2/2 --out shard-2");
        lab(dir, "merge --out merged shard-1 shard-2");
        // As long as there is something to do: in any order, one process for each unit.
        let mut rng = anabranch_impair::Rng::new(47);
        loop {
            let plan = lab(dir, "plan my.toml --runs 2 --out units");
            let mut units: Vec<&str> = plan.lines().collect();
            if units.is_empty() {
                break;
            }
            let mut results = String::new();
            while !units.is_empty() {
                let unit = units.swap_remove(rng.below(units.len() as u64) as usize);
                let ended = worker(unit);
                assert_eq!(ended.code, Some(0), "{}", ended.stderr);
                results += &ended.stdout;
            }
            fs::write(dir.join("results.jsonl"), results).unwrap();
            lab(dir, "merge --out units results.jsonl");
        }
        let one = files(&dir.join("one"));
        assert_eq!(one.len(), 3, "a lock and two points");
        for other in ["two", "merged", "units"] {
            assert!(files(&dir.join(other)) == one, "{other}");
        }
        let shown = |store: &str| lab(dir, &format!("run my.toml --quiet --json - --out {store}"));
        assert_eq!(shown("merged"), shown("one"));
    }
}

#[test]
fn a_program_that_is_killed_goes_on_where_it_was() {
    let dir = directory(&SCENARIO.replace("seeds = 6", "seeds = 200"));
    let dir = dir.path();
    let arguments = ["lab", "run", "my.toml", "--jobs", "2", "--quiet", "--out", "kept"];
    // What it leaves behind is removed with the directory.
    let mut command = anabranch(&arguments, dir);
    let mut child = command.env("TMPDIR", dir).stdout(Stdio::null()).spawn().unwrap();
    let has_parts = || {
        let entries = fs::read_dir(dir.join("kept/my")).into_iter().flatten().flatten();
        let mut parts = entries.filter(|e| e.path().extension().is_some_and(|e| e == "parts"));
        parts.any(|file| file.metadata().is_ok_and(|file| file.len() > 0))
    };
    while !has_parts() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let missing = lab(dir, "plan my.toml --runs 1 --out kept").lines().count();
    assert!(missing < 400, "something was finished");
    lab(dir, "run my.toml --jobs 2 --quiet --out kept");
    lab(dir, "run my.toml --jobs 2 --quiet --out whole");
    assert!(files(&dir.join("kept")) == files(&dir.join("whole")));
}

#[test]
fn what_cannot_be_equal_is_refused() {
    let dir = directory(SCENARIO);
    let real = SCENARIO.replace("[run]", "[run]\non = \"emulator\"");
    fs::write(dir.path().join("real.toml"), real).unwrap();
    let dir = dir.path();
    refused(dir, "plan real.toml", "real.toml runs on real packets (on = \"emulator\")");
    lab(dir, "run my.toml --seeds 1 --out kept");
    refused(dir, "merge --out all nowhere", "there are no results to merge in nowhere");
    fs::create_dir_all(dir.join("lines")).unwrap();
    fs::write(dir.join("lines/nonsense"), "Segmentation fault\n").unwrap();
    refused(dir, "merge --out all lines/nonsense", "line 1: the checksum is wrong");
    let unit = lab(dir, "plan my.toml --seeds 1 --runs 1").lines().next().unwrap().to_owned();
    for (input, reason) in [
        ("", "there is no unit of work on standard input"),
        ("run all\n", "this is no unit of work: "),
        (&unit.replace("\"build\":\"", "\"build\":\"0"), "install the same version everywhere"),
        (&unit.replace("loss=0 %", "loss=9 %"), "has no point 'loss=9 %'"),
        (&unit.replace("\"to\":1", "\"to\":100001"), "'to' is above 'from' and at most 100000"),
        (&unit.replace("25 ms", "26 ms"), "is another one here"),
        (&unit.replace("25 ms", "25 kB"), "my.toml:8: network.core_delay is"),
    ] {
        worker(input).failed_with(1, reason);
    }
}

#[test]
fn a_store_is_for_one_program_at_a_time() {
    let dir = directory(SCENARIO);
    let dir = dir.path();
    fs::create_dir(dir.join("kept")).unwrap();
    let lock = fs::File::create(dir.join("kept/lock")).unwrap();
    lock.lock().unwrap();
    refused(dir, "run my.toml --out kept", "another program is using the results in kept");
    drop(lock);
    lab(dir, "run my.toml --seeds 1 --out kept");
}
