//! Reads lines of files that may be damaged or endless.

use std::io::{self, BufRead, Read as _};

/// The next line without its line end, of at most `most` bytes; `None` after the last one.
///
/// # Errors
/// Fails if the source cannot be read, or the line is longer, is not UTF-8, or has no end.
pub fn next_line(reader: &mut impl BufRead, most: u64) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    let length = reader.take(most).read_until(b'\n', &mut bytes)?;
    match bytes.pop() {
        None => Ok(None),
        Some(b'\n') => match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(wrong("it is not text in UTF-8")),
        },
        Some(_) if length as u64 == most => Err(wrong("it is too long")),
        Some(_) => Err(wrong("it is cut off; without it, the file can be used")),
    }
}

fn wrong(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_and_bounded() {
        let all = |text: &[u8]| {
            let mut reader = text;
            let mut lines = Vec::new();
            loop {
                match next_line(&mut reader, 8) {
                    Ok(Some(line)) => lines.push(line),
                    Ok(None) => return Ok(lines),
                    Err(error) => return Err(error.to_string()),
                }
            }
        };
        assert_eq!(all(b""), Ok(vec![]));
        assert_eq!(all(b"a\n\n1234567\n"), Ok(["a", "", "1234567"].map(str::to_owned).to_vec()));
        assert!(all(b"12345678\n").unwrap_err().contains("too long"));
        assert!(all(b"a\nb").unwrap_err().contains("cut off"));
        assert!(all(b"\xff\n").unwrap_err().contains("UTF-8"));
        let endless = &mut io::BufReader::new(io::repeat(0));
        assert!(next_line(endless, 1 << 16).unwrap_err().to_string().contains("too long"));
    }
}
