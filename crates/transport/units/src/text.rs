//! Text files with a limited size.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Maximum size of a file written by hand: far more than anyone writes.
pub const MOST_TEXT: u64 = 16 << 20;

/// Reads a file like `std::fs::read_to_string`, but no more than `most` bytes: a device or a pipe may never end.
///
/// # Errors
/// Fails if the file cannot be read, is longer, or is not UTF-8.
pub fn read_text(path: impl AsRef<Path>, most: u64) -> io::Result<String> {
    read_text_from(File::open(path)?, most)
}

/// Reads from another source in the same way.
///
/// # Errors
/// Fails like [`read_text`].
pub fn read_text_from(from: impl Read, most: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    let length = from.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if length as u64 > most {
        let reason = format!("it is longer than {most} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
    }
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not text in UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_a_bound() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let whole = std::fs::read_to_string(&file).unwrap();
        let length = whole.len() as u64;
        assert_eq!(read_text(&file, length).unwrap(), whole);
        let error = read_text(&file, length - 1).unwrap_err();
        assert_eq!(error.to_string(), format!("it is longer than {} bytes", length - 1));
        assert_eq!(read_text("no such file", 1).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(read_text_from(&b"\xff"[..], 1).unwrap_err().to_string().contains("UTF-8"));
        assert!(read_text_from(io::repeat(b'a'), 1000).is_err());
    }
}
