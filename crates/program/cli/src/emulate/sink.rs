//! The destination of a run's output: a file, or standard output for `-`.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Whether this is standard output.
pub(crate) fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Opens it for writing; an existing file is truncated.
pub(super) fn open(path: &Path) -> io::Result<Box<dyn Write + Send>> {
    Ok(if is_stdout(path) { Box::new(io::stdout()) } else { Box::new(File::create(path)?) })
}
