//! Tells the program which commit it is built from, and which engine it contains.

#[path = "build/commit.rs"]
mod commit;
#[path = "build/sources.rs"]
mod sources;

use std::path::{Path, PathBuf};
use std::process::Command;

/// The place of this package in the repository.
const HERE: &str = "crates/program/cli";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-env-changed=ANABRANCH_COMMIT");
    let package = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let root = repository(&package);
    let mut made_from = Vec::new();
    let mut engine = String::new();
    let found = match &root {
        Some(root) => sources::sources(root)
            .and_then(|found| Ok((found, sources::engine(root, &platform())?))),
        None => sources::package(&package, &platform()).map(|engine| (Vec::new(), engine)),
    };
    match found {
        Ok(found) => (made_from, engine) = found,
        Err(error) => println!("cargo::error=the sources cannot be read: {error}"),
    }
    if let Some(root) = &root {
        for path in made_from.iter().map(|path| root.join(path)).chain(commit::watched(root)) {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    match commit::commit(&variable("ANABRANCH_COMMIT"), &package, root.as_deref(), &made_from) {
        Ok(commit) => println!("cargo::rustc-env=ANABRANCH_BUILT_FROM={commit}"),
        Err(error) => println!("cargo::error={error}"),
    }
    println!("cargo::rustc-env=ANABRANCH_ENGINE={engine}");
}

/// A variable of the environment; empty if it is not set.
fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// The top of the repository, if this package is in it; a package of a registry is not.
fn repository(package: &Path) -> Option<PathBuf> {
    let root = package.join("../../..").canonicalize().ok()?;
    let there = root.join(HERE).canonicalize().ok()?;
    (there == package.canonicalize().ok()?).then_some(root)
}

/// The target, whose C library computes logarithms, the compiler, and whether the engine has the bug that a test
/// plants.
fn platform() -> String {
    let compiler = Command::new(variable("RUSTC")).arg("-vV").output();
    let compiler = compiler.map_or(Vec::new(), |output| output.stdout);
    let compiler = String::from_utf8_lossy(&compiler);
    // The same target gives the same results, wherever it was compiled.
    let version = compiler.lines().filter(|line| !line.starts_with("host:"));
    let canary = std::env::var_os("CARGO_FEATURE_CANARY").map(|_| "canary");
    let target = variable("TARGET");
    std::iter::once(target.as_str()).chain(version).chain(canary).collect::<Vec<_>>().join("\n")
}
