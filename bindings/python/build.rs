//! Tells the module which commit and which engine it is built from, by the same rules as the program: both take each
//! other's results.

#[path = "../../crates/program/cli/build/commit.rs"]
mod commit;
#[path = "../../crates/program/cli/build/sources.rs"]
#[allow(dead_code, reason = "the program is also built from packages")]
mod sources;

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../../crates/program/cli/build");
    println!("cargo::rerun-if-env-changed=ANABRANCH_COMMIT");
    let package = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let root = package.join("../..");
    let found =
        sources::sources(&root).and_then(|found| Ok((sources::engine(&root, &platform())?, found)));
    let (engine, made_from) = match found {
        Ok(found) => found,
        Err(error) => {
            println!("cargo::error=the sources cannot be read: {error}; build in the repository");
            return;
        }
    };
    for path in made_from.iter().map(|path| root.join(path)).chain(commit::watched(&root)) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    match commit::commit(&variable("ANABRANCH_COMMIT"), &package, Some(&root), &made_from) {
        Ok(commit) => println!("cargo::rustc-env=ANABRANCH_BUILT_FROM={commit}"),
        Err(error) => println!("cargo::error={error}"),
    }
    println!("cargo::rustc-env=ANABRANCH_ENGINE={engine}");
}

/// A variable of the environment; empty if it is not set.
fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// The target and the compiler, as for the program.
fn platform() -> String {
    let compiler = Command::new(variable("RUSTC")).arg("-vV").output();
    let compiler = compiler.map_or(Vec::new(), |output| output.stdout);
    let compiler = String::from_utf8_lossy(&compiler);
    let version = compiler.lines().filter(|line| !line.starts_with("host:"));
    let target = variable("TARGET");
    std::iter::once(target.as_str()).chain(version).collect::<Vec<_>>().join("\n")
}
