//! Finds scripts.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The scripts (`*.pkt`) at `path`: the file itself, or all scripts below a folder in order of
/// their names.
///
/// # Errors
/// Returns an error of the file system.
pub fn scripts(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !fs::metadata(path)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else if entry.path().extension().is_some_and(|extension| extension == "pkt") {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}
