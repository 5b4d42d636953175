//! `send` and `receive` as programs.
#![cfg(unix)]

mod common;

use std::fs;
use std::path::Path;

use common::{Server, run};
use serde_json::Value;

/// Starts a sender; its line.
fn send(folder: &Path, files: &[&str]) -> (Server, String) {
    let arguments = [&["--listen", "127.0.0.1:0"], files].concat();
    let sender = Server::start_command(&["send"], &arguments, folder);
    let line = sender.listening["invitation"].as_str().unwrap().to_owned();
    (sender, line)
}

/// The arguments of a receiver with two uplinks and a key in this folder.
fn receive<'a>(line: &'a str, key: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let arguments = [
        "receive",
        line,
        "--key",
        key,
        "--uplink",
        "127.0.0.2,127.0.0.3",
        "--json",
        "--patience",
        "1s",
    ];
    [&arguments[..], more].concat()
}

fn last(text: &str) -> Value {
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

#[test]
fn files_and_directories_are_sent_and_verified() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir(here.path().join("d")).unwrap();
    fs::write(here.path().join("d/a"), "abc").unwrap();
    fs::write(here.path().join("b"), vec![7; 2_000_000]).unwrap();
    let (mut sender, line) = send(here.path(), &["b", "d"]);
    assert_eq!(sender.listening["bytes"], 2_000_003);
    let received = run(&receive(&line, "key", &[]), there.path());
    assert_eq!(received.code, Some(0), "{} {}", received.stdout, received.stderr);
    let files: Vec<Value> =
        received.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let file = files.iter().find(|line| line["file"] == "d/a" && line["event"] == "file").unwrap();
    // That of 'abc', as FIPS 180-2 has it.
    let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(file["sha256"], sha256);
    let done = last(&received.stdout);
    assert_eq!(
        (&done["event"], &done["files"], &done["failed"]),
        (&"done".into(), &2.into(), &0.into())
    );
    let done = loop {
        let line = sender.line();
        if line["event"] == "done" {
            break line;
        }
    };
    assert_eq!(done["files"][1]["sha256"], sha256);
    assert_eq!(sender.wait(), Some(0));
    assert_eq!(fs::read(there.path().join("b")).unwrap(), vec![7; 2_000_000]);
    assert_eq!(fs::read(there.path().join("d/a")).unwrap(), b"abc");
}

#[test]
fn a_receiver_that_was_killed_goes_on() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let content: Vec<u8> = (0..60_000_000_u32).map(|at| (at / 7 + at) as u8).collect();
    fs::write(here.path().join("large"), &content).unwrap();
    let (sender, line) = send(here.path(), &["large"]);
    let arguments = receive(&line, "key", &["--directory", "."]);
    let mut first = common::anabranch(&arguments, there.path()).spawn().unwrap();
    // Kill it when a part is there.
    let part = || {
        let names = fs::read_dir(there.path()).unwrap().map(|entry| entry.unwrap());
        let mut parts =
            names.filter(|entry| entry.file_name().to_str().unwrap().ends_with(".part"));
        parts.next().map_or(0, |part| part.metadata().map_or(0, |found| found.len()))
    };
    while part() < 1_000_000 {
        assert!(first.try_wait().unwrap().is_none(), "it is done already");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    first.kill().unwrap();
    first.wait().unwrap();
    let second = run(&arguments, there.path());
    assert_eq!(second.code, Some(0), "{} {}", second.stdout, second.stderr);
    let file = second.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let file = file.into_iter().find(|line| line["event"] == "file").unwrap();
    assert!(file["resumed_bytes"].as_u64() >= Some(1_000_000), "{file}");
    assert!(fs::read(there.path().join("large")).unwrap() == content);
    assert_eq!(part(), 0);
    assert_eq!(sender.wait(), Some(0));
}

#[test]
fn mistakes_are_named() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    run(&["send", "missing"], here.path()).failed_with(1, "cannot read missing");
    run(&["receive", "anb1:AAAA"], there.path()).failed_with(2, "invitation");
    fs::write(here.path().join("f"), "abc").unwrap();
    let (sender, line) = send(here.path(), &["f"]);
    let wrong = ["receive", &line, "--directory", "missing", "--key", "key"];
    run(&wrong, there.path()).failed_with(1, "missing is not a directory");
    let wrong = ["receive", &line, "--uplink", "lo:backup", "--key", "key"];
    run(&wrong, there.path()).failed_with(2, "leave them out");
    // Another file is in the way.
    fs::write(there.path().join("f"), "xyz").unwrap();
    let refused = run(&receive(&line, "key", &[]), there.path());
    assert_eq!(refused.code, Some(1), "{}", refused.stdout);
    assert!(refused.stdout.contains("--overwrite"), "{}", refused.stdout);
    assert_eq!(fs::read(there.path().join("f")).unwrap(), b"xyz");
    // The line was used, so another key gets no answer.
    let stranger = receive(&line, "other", &["--connect-timeout", "1s"]);
    run(&stranger, there.path()).failed_with(1, "somebody else has used this line");
    let again = run(&receive(&line, "key", &["--overwrite"]), there.path());
    assert_eq!(again.code, Some(0), "{} {}", again.stdout, again.stderr);
    assert_eq!(fs::read(there.path().join("f")).unwrap(), b"abc");
    assert_eq!(sender.wait(), Some(0));
    // The sender is gone.
    let late = receive(&line, "key", &["--connect-timeout", "1s"]);
    run(&late, there.path()).failed_with(1, "no answer from the sender");
}
