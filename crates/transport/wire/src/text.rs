//! Parts of the trace format that several `Display` implementations share.

use core::fmt;

/// Bytes of unknown meaning: in quotes if they are text, otherwise hexadecimal; long values are cut and
/// followed by their length.
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

const SHOWN_TEXT: usize = 64;
const SHOWN_HEX: usize = 16;

impl fmt::Display for Bytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("empty");
        }
        match core::str::from_utf8(self.0) {
            Ok(text) if !text.chars().any(char::is_control) => {
                f.write_str("\"")?;
                for c in text.chars().take(SHOWN_TEXT) {
                    write!(f, "{}", c.escape_debug())?;
                }
                f.write_str("\"")?;
                if text.chars().nth(SHOWN_TEXT).is_some() {
                    write!(f, "... ({} bytes)", self.0.len())?;
                }
            }
            _ => {
                f.write_str("0x")?;
                for byte in self.0.iter().take(SHOWN_HEX) {
                    write!(f, "{byte:02x}")?;
                }
                if self.0.len() > SHOWN_HEX {
                    write!(f, "... ({} bytes)", self.0.len())?;
                }
            }
        }
        Ok(())
    }
}

/// Items with commas between them.
pub(crate) fn join<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    items: impl Iterator<Item = T>,
) -> fmt::Result {
    for (i, item) in items.enumerate() {
        if i > 0 {
            f.write_str(",")?;
        }
        item.fmt(f)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_quoted_and_the_rest_is_hexadecimal() {
        assert_eq!(Bytes(b"").to_string(), "empty");
        assert_eq!(Bytes(b"bye \"now\"").to_string(), "\"bye \\\"now\\\"\"");
        assert_eq!(Bytes(&[0xff, 0]).to_string(), "0xff00");
        assert_eq!(Bytes(&[0; 20]).to_string(), "0x00000000000000000000000000000000... (20 bytes)");
        assert!(Bytes(&[b'a'; 70]).to_string().ends_with("a\"... (70 bytes)"));
    }
}
