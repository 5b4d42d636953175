//! Keys and invitations as text: a prefix that names the kind, then base64url of the content and a checksum.

use data_encoding::BASE64URL_NOPAD;
use ring::digest::{SHA256, digest};

/// Bytes of the checksum: a slip of the pen passes once in four billion times.
const CHECKSUM: usize = 4;

/// Why a key or an invitation cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// It does not begin with the prefix of its kind.
    #[error("this is not {expected}: it must begin with '{prefix}'")]
    Prefix {
        /// What was expected, with its article.
        expected: &'static str,
        /// How that begins.
        prefix: &'static str,
    },
    /// A character does not belong there, or one is missing or wrong.
    #[error("{expected} is damaged or incomplete: copy all of it, from '{prefix}' to the end")]
    Damaged {
        /// What was expected, with its article.
        expected: &'static str,
        /// How that begins.
        prefix: &'static str,
    },
    /// It is complete, but has a content that this version does not know.
    #[error("{0} was made by a newer version of this program: update this one")]
    Newer(&'static str),
}

/// A kind of text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// What it is, with its article.
    pub(crate) name: &'static str,
    /// How it begins.
    pub(crate) prefix: &'static str,
}

impl Kind {
    fn checksum(self, content: &[u8]) -> [u8; CHECKSUM] {
        let digest = digest(&SHA256, &[self.prefix.as_bytes(), content].concat());
        std::array::from_fn(|index| digest.as_ref()[index])
    }

    /// The text of `content`.
    pub(crate) fn format(self, content: &[u8]) -> String {
        let sum = self.checksum(content);
        format!("{}{}", self.prefix, BASE64URL_NOPAD.encode(&[content, &sum].concat()))
    }

    /// That the text is damaged.
    pub(crate) fn damaged(self) -> ParseError {
        ParseError::Damaged { expected: self.name, prefix: self.prefix }
    }

    /// The content of a text. Space, also within the text, is ignored: mail programs break long lines.
    pub(crate) fn parse(self, text: &str) -> Result<Vec<u8>, ParseError> {
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let Some(encoded) = text.strip_prefix(self.prefix) else {
            return Err(ParseError::Prefix { expected: self.name, prefix: self.prefix });
        };
        let mut bytes = BASE64URL_NOPAD.decode(encoded.as_bytes()).map_err(|_| self.damaged())?;
        let end = bytes.len().checked_sub(CHECKSUM).ok_or(self.damaged())?;
        let sum = bytes.split_off(end);
        if self.checksum(&bytes)[..] == sum[..] { Ok(bytes) } else { Err(self.damaged()) }
    }
}
