//! Chunk types by name.

use core::fmt;

macro_rules! kinds {
    ($($name:ident = $value:literal, $text:literal, $source:literal;)*) => {
        $(#[doc = concat!($text, " (", $source, ").")]
        pub const $name: u8 = $value;)*

        /// The name of a chunk type known here, as RFC 9260 writes it.
        #[must_use]
        pub const fn name(kind: u8) -> Option<&'static str> {
            match kind {
                $($value => Some($text),)*
                _ => None,
            }
        }
    };
}

kinds! {
    DATA = 0, "DATA", "RFC 9260 section 3.3.1";
    INIT = 1, "INIT", "RFC 9260 section 3.3.2";
    INIT_ACK = 2, "INIT ACK", "RFC 9260 section 3.3.3";
    SACK = 3, "SACK", "RFC 9260 section 3.3.4";
    HEARTBEAT = 4, "HEARTBEAT", "RFC 9260 section 3.3.5";
    HEARTBEAT_ACK = 5, "HEARTBEAT ACK", "RFC 9260 section 3.3.6";
    ABORT = 6, "ABORT", "RFC 9260 section 3.3.7";
    SHUTDOWN = 7, "SHUTDOWN", "RFC 9260 section 3.3.8";
    SHUTDOWN_ACK = 8, "SHUTDOWN ACK", "RFC 9260 section 3.3.9";
    ERROR = 9, "ERROR", "RFC 9260 section 3.3.10";
    COOKIE_ECHO = 10, "COOKIE ECHO", "RFC 9260 section 3.3.11";
    COOKIE_ACK = 11, "COOKIE ACK", "RFC 9260 section 3.3.12";
    ECNE = 12, "ECNE", "RFC 9260 appendix B";
    CWR = 13, "CWR", "RFC 9260 appendix B";
    SHUTDOWN_COMPLETE = 14, "SHUTDOWN COMPLETE", "RFC 9260 section 3.3.13";
    AUTH = 0x0f, "AUTH", "RFC 4895 section 4.1";
    NR_SACK = 0x10, "NR-SACK", "draft-natarajan-tsvwg-sctp-nrsack";
    I_DATA = 0x40, "I-DATA", "RFC 8260 section 2.1";
    ASCONF_ACK = 0x80, "ASCONF-ACK", "RFC 5061 section 4.1.2";
    RE_CONFIG = 0x82, "RE-CONFIG", "RFC 6525 section 3.1";
    PAD = 0x84, "PAD", "RFC 4820 section 3";
    TIMESTAMP = 0x9e, "TIMESTAMP", "caro 2.4.2; the number is not assigned by IANA";
    FORWARD_TSN = 0xc0, "FORWARD TSN", "RFC 3758 section 3.2";
    ASCONF = 0xc1, "ASCONF", "RFC 5061 section 4.1.1";
    I_FORWARD_TSN = 0xc2, "I-FORWARD-TSN", "RFC 8260 section 2.3.1";
}

/// Shows a chunk type by its name, or by its number when it has none here.
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
