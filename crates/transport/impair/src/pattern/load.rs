//! Loads pattern files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Maximum size of a pattern file in bytes: a device or a pipe may never end.
const MOST: u64 = 256 << 20;

/// The contents of a pattern file of at most 256 MiB.
///
/// # Errors
/// Returns a message if the file cannot be read or is too long.
pub fn load(path: &Path) -> Result<Vec<u8>, String> {
    load_up_to(path, MOST)
}

fn load_up_to(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(most + 1).read_to_end(&mut bytes));
    match read {
        Ok(length) if length as u64 > most => Err(format!("is longer than {most} bytes")),
        Ok(_) => Ok(bytes),
        Err(error) => Err(format!("cannot be read: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_an_end() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let length = std::fs::metadata(&file).unwrap().len();
        assert_eq!(load_up_to(&file, length).unwrap().len() as u64, length);
        let error = load_up_to(&file, length - 1).unwrap_err();
        assert_eq!(error, format!("is longer than {} bytes", length - 1));
        assert!(load(Path::new("no such file")).unwrap_err().starts_with("cannot be read: "));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_device_without_an_end_is_refused() {
        assert!(load_up_to(Path::new("/dev/zero"), 1000).is_err());
    }
}
