//! The protocol between near and far: what a byte stream begins with.
//!
//! Near opens a stream for each connection and sends a request. It may send bytes for the target right after it. Far
//! answers with a reply; if it says that the connection is established, the target's bytes follow. Either side ends
//! its direction with the mark of byte mode, and gives up with the other mark or STOP: see docs/gateway.md.
//!
//! UDP needs no request: see `udp.rs`.

use crate::status::{Refusal, Status};
use crate::target::{self, Malformed, Parsed, Target};

/// The version of this protocol.
const VERSION: u8 = 1;

/// What a stream carries, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Content {
    /// Bytes, as over TCP.
    Bytes = 1,
    /// Requests of HTTP/1.1 and their answers, which the far side may read.
    Http = 2,
}

/// What a stream asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// A TCP connection for this.
    Connect(Content, Target),
    /// A host or a port that cannot be.
    NoTarget,
    /// Something that this version does not know.
    Unknown,
}

/// Parses a request: the version, the command, and the target as SOCKS5 writes it.
pub(crate) fn parse_request(bytes: &[u8]) -> Result<Parsed<Request>, Malformed> {
    let [version, command, target @ ..] = bytes else { return Ok(Parsed::Needs(2)) };
    let content = match (*version, *command) {
        (VERSION, 1) => Content::Bytes,
        (VERSION, 2) => Content::Http,
        _ => return Ok(Parsed::Done(Request::Unknown)),
    };
    Ok(match target::parse(target)? {
        Parsed::Needs(more) => Parsed::Needs(2 + more),
        Parsed::Done(Some(target)) => Parsed::Done(Request::Connect(content, target)),
        Parsed::Done(None) => Parsed::Done(Request::NoTarget),
    })
}

/// The request for a connection to this target.
pub(crate) fn request(content: Content, target: &Target) -> Vec<u8> {
    let mut bytes = vec![VERSION, content as u8];
    target::encode(target, &mut bytes);
    bytes
}

/// Parses a reply: the version, the status, the length of a text, and the text. A text of another version is
/// skipped alike.
pub(crate) fn parse_reply(bytes: &[u8]) -> Result<Parsed<Result<(), Refusal>>, Malformed> {
    let [_, status, length, text @ ..] = bytes else { return Ok(Parsed::Needs(3)) };
    let length = usize::from(*length);
    let Some(text) = text.get(..length) else { return Ok(Parsed::Needs(3 + length)) };
    Ok(Parsed::Done(match Status::of_number(*status) {
        Status::Connected => Ok(()),
        status => Err(Refusal::new(status, printable(text))),
    }))
}

/// Text from the other side without characters that control terminals or break lines.
fn printable(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The reply with this result. A long text is cut.
pub(crate) fn reply(result: &Result<(), Refusal>) -> Vec<u8> {
    let (status, mut text) = match result {
        Ok(()) => (Status::Connected, ""),
        Err(refusal) => (refusal.status, &refusal.detail[..]),
    };
    text = cut(text, u8::MAX.into());
    let mut bytes = vec![VERSION, status.number(), u8::try_from(text.len()).unwrap_or(0)];
    bytes.extend(text.as_bytes());
    bytes
}

/// The beginning of a text, at most `most` bytes.
fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::target::tests::{feed, target};

    proptest! {
        #[test]
        fn requests_survive(target in target(), http in any::<bool>()) {
            let content = if http { Content::Http } else { Content::Bytes };
            let bytes = request(content, &target);
            let length = bytes.len();
            prop_assert_eq!(
                feed(&bytes, parse_request),
                Ok(Some((Request::Connect(content, target), length)))
            );
            for cut in 0..length {
                prop_assert_eq!(feed(&bytes[..cut], parse_request), Ok(None));
            }
        }

        #[test]
        fn replies_survive(number in 1..=10_u8, detail in "\\PC{0,300}") {
            let refusal = Refusal::new(Status::of_number(number), detail);
            let bytes = reply(&Err(refusal.clone()));
            let Ok(Some((Err(read), length))) = feed(&bytes, parse_reply) else {
                return Err(TestCaseError::fail("no refusal"));
            };
            prop_assert_eq!(length, bytes.len());
            prop_assert_eq!(read.status, refusal.status);
            prop_assert!(refusal.detail.starts_with(&read.detail));
            prop_assert!(read.detail.len() >= refusal.detail.len().min(250));
        }

        #[test]
        fn anything_is_parsed_or_refused(bytes in any::<Vec<u8>>()) {
            let _ = feed(&bytes, parse_request);
            if let Ok(Some((Err(refusal), _))) = feed(&bytes, parse_reply) {
                prop_assert!(!refusal.detail.contains(char::is_control));
            }
        }
    }

    #[test]
    fn other_versions_are_known_by_their_first_bytes() {
        assert_eq!(feed(&[2, 1], parse_request), Ok(Some((Request::Unknown, 2))));
        assert_eq!(feed(&[1, 9], parse_request), Ok(Some((Request::Unknown, 2))));
        assert_eq!(feed(&[1, 1, 9], parse_request), Err(Malformed));
        let no_port = [1, 1, 1, 10, 0, 0, 1, 0, 0];
        assert_eq!(feed(&no_port, parse_request), Ok(Some((Request::NoTarget, 9))));
        assert_eq!(feed(&reply(&Ok(())), parse_reply), Ok(Some((Ok(()), 3))));
    }
}
