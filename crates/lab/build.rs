//! Lists the scenario files of this repository, so that the program has them in it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    // Asked for at run time: the checkout may have been moved since this was compiled.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    let root = Path::new(&here).join("../../scenarios");
    println!("cargo:rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    collect(&root, &mut files);
    files.sort();
    let mut code = String::from("&[\n");
    for file in &files {
        println!("cargo:rerun-if-changed={}", file.display());
        if let Ok(name) = file.strip_prefix(&root) {
            let name = name.display().to_string().replace('\\', "/");
            let file = file.display().to_string();
            let _ = writeln!(code, "    ({name:?}, include_str!({file:?})),");
        }
    }
    code.push_str("]\n");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    if let Err(error) = fs::write(out.join("embedded.rs"), code) {
        panic!("the list of scenarios cannot be written: {error}");
    }
}

/// All files below a directory; none where there is no such directory, as in a packaged crate.
fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            println!("cargo:rerun-if-changed={}", path.display());
            collect(&path, files);
        } else if path
            .extension()
            .is_some_and(|e| e == "toml" || e == "csv" || e == "log" || e == "pattern")
        {
            files.push(path);
        }
    }
}
