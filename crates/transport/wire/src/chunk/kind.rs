//! Chunk types by name.

use core::fmt;

pub use super::kinds::*;

/// Displays a chunk type by its name, or if it is unknown, by its number.
#[derive(Clone, Copy, Debug)]
pub struct Name(
    /// The chunk type.
    pub u8,
);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match name(self.0) {
            Some(name) => f.write_str(name),
            None => write!(f, "chunk 0x{:02x}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(Name(COOKIE_ECHO).to_string(), "COOKIE ECHO");
        assert_eq!(Name(0x3f).to_string(), "chunk 0x3f");
    }
}
