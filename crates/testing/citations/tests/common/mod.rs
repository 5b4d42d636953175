//! The files of the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// Outputs of builds, and files of others.
const PASSED_OVER: &[&str] = &[".git", "target", "node_modules", "corpus", "artifacts"];

/// The folder of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().unwrap()
}

/// All files below `root`, by their path from there, with `/` in front.
pub(crate) fn files(root: &Path) -> Vec<String> {
    let mut all = Vec::new();
    collect(root, root, &mut all);
    all
}

fn collect(folder: &Path, root: &Path, all: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if PASSED_OVER.contains(&name) {
            continue;
        }
        if path.is_dir() {
            collect(&path, root, all);
        } else {
            all.push(format!("/{}", path.strip_prefix(root).unwrap().display()));
        }
    }
}
