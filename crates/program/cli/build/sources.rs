//! The files that the program is made from, and a fingerprint of those that decide results.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Files and directories next to `crates` that go into the program.
const BESIDES: [&str; 4] = ["Cargo.lock", "Cargo.toml", "rust-toolchain.toml", "scenarios"];

/// Directories of crates that go into the program.
const GROUPS: [&str; 3] = ["crates/laboratory", "crates/program", "crates/transport"];

/// The other crates that do.
const MORE: [&str; 3] = ["crates/testing/script", "crates/testing/swarm", "crates/testing/testnet"];

/// The parts of a crate that go into the program: not its tests.
const PARTS: [&str; 4] = ["Cargo.toml", "build", "build.rs", "src"];

/// Where the code is that decides the result of a run, with the versions of its dependencies.
const ENGINE: [&str; 4] =
    ["Cargo.lock", "crates/laboratory", "crates/testing/testnet", "crates/transport"];

/// Parts of these that only show or judge results. A change of anything else makes stored runs invalid.
const ONLY_SHOW: [&str; 6] = [
    "crates/laboratory/chart",
    "crates/laboratory/lab/src/check",
    "crates/laboratory/lab/src/export",
    "crates/laboratory/lab/src/formula",
    "crates/laboratory/lab/src/report",
    "crates/laboratory/qlog-reader",
];

/// The existing files and directories that the program is made from, relative to `root` and sorted.
pub(crate) fn sources(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut crates: Vec<PathBuf> = MORE.iter().map(PathBuf::from).collect();
    for group in GROUPS {
        for entry in fs::read_dir(root.join(group))? {
            crates.push(Path::new(group).join(entry?.file_name()));
        }
    }
    let parts = crates.iter().flat_map(|name| PARTS.iter().map(|part| name.join(part)));
    let besides = BESIDES.iter().map(PathBuf::from);
    let mut all: Vec<PathBuf> =
        besides.chain(parts).filter(|path| root.join(path).exists()).collect();
    all.sort();
    Ok(all)
}

/// A fingerprint of everything that decides the result of a run besides its scenario and its seed: the sources in
/// `root`, and `platform`, which names the compiler and the target.
pub(crate) fn engine(root: &Path, platform: &str) -> io::Result<String> {
    let mut files = Vec::new();
    for path in sources(root)? {
        collect(root, &path, is_engine, &mut files)?;
    }
    hash(root, files, platform)
}

/// The same for a package that was taken from a registry. Its crates are there in the version that the package asks
/// for, whose number changes with each release; their files are not.
pub(crate) fn package(package: &Path, platform: &str) -> io::Result<String> {
    let mut files = Vec::new();
    for part in PARTS.iter().chain(&["Cargo.lock", ".cargo_vcs_info.json"]) {
        if package.join(part).exists() {
            collect(package, Path::new(part), |_| true, &mut files)?;
        }
    }
    hash(package, files, platform)
}

fn hash(root: &Path, mut files: Vec<PathBuf>, platform: &str) -> io::Result<String> {
    files.sort();
    let mut hash = fingerprint(0xcbf2_9ce4_8422_2325, platform.as_bytes());
    for file in files {
        let name = file.to_string_lossy().replace('\\', "/");
        let text = fs::read(root.join(&file))?;
        hash = fingerprint(hash, &[0]);
        hash = fingerprint(hash, name.as_bytes());
        hash = fingerprint(hash, &(text.len() as u64).to_le_bytes());
        hash = fingerprint(hash, &text);
    }
    Ok(format!("{hash:016x}"))
}

/// Whether a file belongs to the engine.
fn is_engine(path: &Path) -> bool {
    let is_in = |parts: &[&str]| parts.iter().any(|part| path.starts_with(part));
    is_in(&ENGINE) && !is_in(&ONLY_SHOW)
}

/// All files below `path` that are wanted.
fn collect(
    root: &Path,
    path: &Path,
    is_wanted: fn(&Path) -> bool,
    files: &mut Vec<PathBuf>,
) -> io::Result<()> {
    if root.join(path).is_dir() {
        for entry in fs::read_dir(root.join(path))? {
            collect(root, &path.join(entry?.file_name()), is_wanted, files)?;
        }
    } else if is_wanted(path) {
        files.push(path.to_owned());
    }
    Ok(())
}

/// FNV-1a, continued.
fn fingerprint(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
