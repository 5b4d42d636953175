//! Packs the scenario files of this repository and lists them, so that the program contains them.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::ZlibEncoder;

fn main() {
    // Read this at run time: the checkout may have moved since this was compiled.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    let root = Path::new(&here).join("../../../scenarios");
    println!("cargo:rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    collect(&root, &mut files);
    files.sort();
    let mut index = String::from("&[\n");
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
    for file in &files {
        println!("cargo:rerun-if-changed={}", file.display());
        let Ok(name) = file.strip_prefix(&root) else { continue };
        let name = name.display().to_string().replace('\\', "/");
        let text = match fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) => panic!("the file {} cannot be read: {error}", file.display()),
        };
        let _ = writeln!(index, "    ({name:?}, {}),", text.len());
        if let Err(error) = packed.write_all(text.as_bytes()) {
            panic!("the scenarios cannot be packed: {error}");
        }
    }
    index.push_str("]\n");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let written = packed
        .finish()
        .and_then(|packed| fs::write(out.join("embedded.zlib"), packed))
        .and_then(|()| fs::write(out.join("embedded.rs"), index));
    if let Err(error) = written {
        panic!("the scenarios cannot be written: {error}");
    }
}

/// All files below a directory; none if the directory does not exist, as in a packaged crate.
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
