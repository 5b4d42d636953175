//! Files of keys when nothing can be written: a limit for the size of files stands for a full disk.
#![cfg(unix)]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anabranch_seal::{KnownServers, SecretKey};

/// Says to the test that it runs under a limit, and in which directory.
const LIMITED: &str = "ANABRANCH_TEST_LIMITED";

/// Runs the test with this name again, under a limit of `blocks` blocks for each file.
fn run_limited(name: &str, blocks: u32) {
    let directory = std::env::temp_dir().join(format!("anabranch-{name}-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    // A process that ignores the signal gets an error.
    let script = format!("ulimit -f {blocks} && trap '' XFSZ && exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).arg(std::env::current_exe().unwrap());
    let output = command.args(["--exact", name]).env(LIMITED, &directory).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    fs::remove_dir_all(&directory).unwrap();
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

fn limited() -> Option<PathBuf> {
    std::env::var_os(LIMITED).map(PathBuf::from)
}

fn names(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn no_key_file_without_a_key_is_left() {
    let Some(directory) = limited() else {
        return run_limited("no_key_file_without_a_key_is_left", 0);
    };
    let path = directory.join("serve.key");
    for _ in 0..2 {
        let error = SecretKey::load_or_create(&path).unwrap_err().to_string();
        let begin = format!("cannot use the key file {}: ", path.display());
        assert!(error.starts_with(&begin), "{error}");
        assert!(error.ends_with("; make room there, or name another file"), "{error}");
        assert_eq!(names(&directory), Vec::<PathBuf>::new());
    }
}

#[test]
fn no_part_of_a_line_is_left() {
    let Some(directory) = limited() else {
        return run_limited("no_part_of_a_line_is_left", 1);
    };
    let path = directory.join("known");
    // As many bytes as the limit allows.
    let mut file = fs::File::create(&path).unwrap();
    file.write_all(&[b'#'; 4096]).unwrap_err();
    let limit = fs::metadata(&path).unwrap().len();
    let text = format!("{:\u{23}<1$}\n", "# full", limit as usize - 21);
    fs::write(&path, &text).unwrap();
    let key = SecretKey::from_bytes([1; 32]).public();
    let mut known = KnownServers::load(&path).unwrap();
    let error = known.add("host:9899", key).unwrap_err().to_string();
    assert!(error.ends_with("; make room there, or name another file"), "{error}");
    assert_eq!(known.key_of("host:9899"), None);
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    KnownServers::load(&path).unwrap();
}
