//! What the build script finds out: in a checkout, without git, in a package.

#[path = "../build/commit.rs"]
mod commit;
mod common;
#[path = "../build/sources.rs"]
mod sources;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A small tree with the places that the build script knows.
fn tree() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    let files = [
        "Cargo.lock",
        "crates/laboratory/lab/src/check/mod.rs",
        "crates/laboratory/lab/src/runner.rs",
        "crates/laboratory/lab/tests/all.rs",
        "crates/program/cli/src/main.rs",
        "crates/testing/swarm/src/lib.rs",
        "crates/testing/testnet/src/lib.rs",
        "crates/transport/proto/Cargo.toml",
        "crates/transport/proto/src/lib.rs",
        "docs/lab.md",
        "scenarios/a/1.toml",
    ];
    for file in files {
        let file = root.path().join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "one\n").unwrap();
    }
    root
}

fn git(root: &Path, arguments: &[&str]) -> String {
    let identity =
        ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"];
    let git =
        Command::new("git").current_dir(root).args(identity).args(arguments).output().unwrap();
    assert!(git.status.success(), "{git:?}");
    String::from_utf8(git.stdout).unwrap().trim().to_owned()
}

/// The commit of a tree without any help from the environment.
fn found(root: &Path) -> String {
    let files = sources::sources(root).unwrap();
    commit::commit("", &root.join("crates/program/cli"), Some(root), &files).unwrap()
}

#[test]
fn only_code_that_decides_results_changes_the_engine() {
    let root = tree();
    let engine = || sources::engine(root.path(), "rustc 1 for x").unwrap();
    let first = engine();
    let changes = |file: &str| {
        let file = root.path().join(file);
        let before = fs::read(&file).unwrap();
        fs::write(&file, "two\n").unwrap();
        let changes = engine() != first;
        fs::write(&file, before).unwrap();
        changes
    };
    let other = [
        "docs/lab.md",
        "scenarios/a/1.toml",
        "crates/program/cli/src/main.rs",
        "crates/laboratory/lab/src/check/mod.rs",
        "crates/laboratory/lab/tests/all.rs",
        "crates/testing/swarm/src/lib.rs",
    ];
    assert_eq!(other.map(changes), [false; 6]);
    let of_engine = [
        "Cargo.lock",
        "crates/laboratory/lab/src/runner.rs",
        "crates/testing/testnet/src/lib.rs",
        "crates/transport/proto/Cargo.toml",
        "crates/transport/proto/src/lib.rs",
    ];
    assert_eq!(of_engine.map(changes), [true; 5]);
    assert_ne!(sources::engine(root.path(), "rustc 2 for x").unwrap(), first);
    // The same files elsewhere are the same engine.
    assert_eq!(sources::engine(tree().path(), "rustc 1 for x").unwrap(), first);
}

/// Without the repository, the package, the compiler and the target tell.
#[test]
fn a_package_has_an_engine_of_its_own() {
    let root = tree();
    let package = root.path().join("crates/program/cli");
    let engine = |platform: &str| sources::package(&package, platform).unwrap();
    let first = engine("rustc 1 for x");
    assert_ne!(engine("rustc 2 for x"), first);
    fs::create_dir_all(package.join("tests")).unwrap();
    fs::write(package.join("tests/all.rs"), "").unwrap();
    assert_eq!(engine("rustc 1 for x"), first);
    for file in ["Cargo.toml", "src/main.rs", ".cargo_vcs_info.json"] {
        let before = engine("rustc 1 for x");
        fs::write(package.join(file), "two\n").unwrap();
        assert_ne!(engine("rustc 1 for x"), before, "{file}");
    }
}

#[test]
fn the_commit_comes_from_the_checkout() {
    if Command::new("git").arg("--version").output().is_err() {
        return common::skip("git");
    }
    let root = tree();
    let root = root.path();
    assert_eq!(found(root), commit::UNKNOWN);
    git(root, &["init", "-q"]);
    assert_eq!(found(root), commit::UNKNOWN, "there is no commit yet");
    git(root, &["add", "."]);
    git(root, &["commit", "-q", "-m", "x"]);
    let head = git(root, &["rev-parse", "HEAD"]);
    assert_eq!(found(root), head);
    // A document is not part of the program.
    fs::write(root.join("docs/lab.md"), "two\n").unwrap();
    assert_eq!(found(root), head);
    for file in
        ["crates/program/cli/src/main.rs", "crates/program/cli/src/new.rs", "scenarios/a/1.toml"]
    {
        fs::write(root.join(file), "two\n").unwrap();
        assert_eq!(found(root), format!("{head}-dirty"), "{file}");
        git(root, &["stash", "-q", "--include-untracked"]);
        assert_eq!(found(root), head);
    }
    // Cargo looks at these again after a commit.
    let watched = commit::watched(root);
    assert!(watched.iter().any(|path| path.ends_with("HEAD")), "{watched:?}");
    // Someone else's repository around a tree without git says nothing about it.
    let inner = root.join("inner");
    fs::create_dir(&inner).unwrap();
    let mut copy = Command::new("cp");
    copy.current_dir(root).args(["-r", "crates", "Cargo.lock", "inner"]);
    assert!(copy.status().unwrap().success());
    assert_eq!(found(&inner), commit::UNKNOWN);
}

#[test]
fn packages_archives_and_the_environment_tell_the_commit() {
    let root = tree();
    let package = root.path().join("crates/program/cli");
    let of = |told: &str| commit::commit(told, &package, None, &[] as &[PathBuf]);
    assert_eq!(of(""), Ok(commit::UNKNOWN.to_owned()));
    fs::write(package.join("commit"), "$Format:%H$\n").unwrap();
    assert_eq!(of(""), Ok(commit::UNKNOWN.to_owned()), "this is not an archive");
    fs::write(package.join("commit"), "a11ce\n").unwrap();
    assert_eq!(of(""), Ok("a11ce".to_owned()));
    let info = |more: &str| {
        let text = format!(
            "{{\n  \"git\": {{\n    \"sha1\": \"b0b\"{more}\n  }},\n  \"path_in_vcs\": \"x\"\n}}"
        );
        fs::write(package.join(".cargo_vcs_info.json"), text).unwrap();
        of("").unwrap()
    };
    assert_eq!(info(""), "b0b");
    assert_eq!(info(",\n    \"dirty\": true"), "b0b-dirty");
    assert_eq!(of(" c0ffee-dirty\n"), Ok("c0ffee-dirty".to_owned()));
    for wrong in ["a b", "a\nb", "$(x)", "a".repeat(81).as_str()] {
        assert!(of(wrong).unwrap_err().contains("ANABRANCH_COMMIT"), "{wrong}");
    }
}

/// The archive of this repository has the line that git replaces.
#[test]
fn archives_are_told_their_commit() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let told = fs::read_to_string(root.join("crates/program/cli/commit")).unwrap();
    assert!(told == "$Format:%H$\n" || told.trim().len() == 40, "{told}");
    let attributes = fs::read_to_string(root.join(".gitattributes")).unwrap();
    assert!(attributes.contains("/crates/program/cli/commit export-subst"), "{attributes}");
}
