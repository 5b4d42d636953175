//! Answers questions about names (RFC 1035) with addresses that stand for them.

use std::net::IpAddr;

use super::names::Names;
use crate::target::Host;

/// Bytes of the header of a message.
const HEADER: usize = 12;

/// Bits of the flags: an answer, recursion desired and available.
const ANSWER: u16 = 0x8000;
const DESIRED: u16 = 0x0100;
const AVAILABLE: u16 = 0x0080;
const OPCODE: u16 = 0x7800;

/// Codes of answers (RFC 1035 section 4.1.1).
const NO_ERROR: u16 = 0;
const FORMAT_ERROR: u16 = 1;
const NO_SUCH_NAME: u16 = 3;
const NOT_IMPLEMENTED: u16 = 4;

/// Types of records (RFC 1035, RFC 3596, RFC 9460).
const A: u16 = 1;
const PTR: u16 = 12;
const AAAA: u16 = 28;
const SVCB: u16 = 64;
const HTTPS: u16 = 65;

const INTERNET: u16 = 1;

/// How long programs may keep an answer, in seconds. An address keeps its name much longer.
const LIFETIME: u32 = 60;

/// The question of a message: its bytes, the name, and the type.
struct Question<'a> {
    bytes: &'a [u8],
    name: String,
    kind: u16,
}

/// The answer to a question. `None` if it is not a question at all.
pub(super) fn answer(message: &[u8], names: &mut Names) -> Option<Vec<u8>> {
    let (header, _) = message.split_first_chunk::<HEADER>()?;
    let flags = u16::from_be_bytes([header[2], header[3]]);
    if flags & ANSWER != 0 {
        return None;
    }
    let count = u16::from_be_bytes([header[4], header[5]]);
    let question = question(message).filter(|_| count == 1 && flags & OPCODE == 0);
    let (code, data) = match &question {
        None if flags & OPCODE != 0 => (NOT_IMPLEMENTED, None),
        None => (FORMAT_ERROR, None),
        Some(question) => records(question, names),
    };
    let flags = ANSWER | AVAILABLE | (flags & (DESIRED | OPCODE)) | code;
    let answers = u16::from(data.is_some());
    let mut bytes = header[..2].to_vec();
    bytes.extend(flags.to_be_bytes());
    for count in [u16::from(question.is_some()), answers, 0, 0] {
        bytes.extend(count.to_be_bytes());
    }
    if let Some(question) = &question {
        bytes.extend(question.bytes);
        if let Some(data) = data {
            // The name is that of the question, at the end of the header.
            bytes.extend([0xc0, HEADER as u8]);
            bytes.extend(question.kind.to_be_bytes());
            bytes.extend(INTERNET.to_be_bytes());
            bytes.extend(LIFETIME.to_be_bytes());
            bytes.extend(u16::try_from(data.len()).unwrap_or(0).to_be_bytes());
            bytes.extend(data);
        }
    }
    Some(bytes)
}

/// The code of the answer, and the data of its record if there is one.
fn records(question: &Question<'_>, names: &mut Names) -> (u16, Option<Vec<u8>>) {
    let name = match Host::parse(&question.name) {
        Some(Host::Name(name)) => name,
        _ => return (NO_SUCH_NAME, None),
    };
    match question.kind {
        A => (NO_ERROR, Some(names.v4(&name).octets().to_vec())),
        AAAA => (NO_ERROR, Some(names.v6(&name).octets().to_vec())),
        // Programs do without.
        SVCB | HTTPS => (NO_ERROR, None),
        PTR => match reverse(&name).map(|address| names.host(address)) {
            Some(Some(Host::Name(name))) => (NO_ERROR, encoded(&name)),
            _ => (NO_SUCH_NAME, None),
        },
        // To say that there is none would be a lie.
        _ => (NOT_IMPLEMENTED, None),
    }
}

/// Reads the first question.
fn question(message: &[u8]) -> Option<Question<'_>> {
    let mut name = String::new();
    let mut at = HEADER;
    loop {
        let length = usize::from(*message.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        // Pointers have no place in a question.
        let label = message.get(at..at + length).filter(|_| length < 64)?;
        at += length;
        if !name.is_empty() {
            name.push('.');
        }
        // What is not a host name is refused later.
        name.push_str(std::str::from_utf8(label).ok()?);
        if name.len() > 255 {
            return None;
        }
    }
    let rest = message.get(at..at + 4)?;
    let kind = u16::from_be_bytes([rest[0], rest[1]]);
    let is_internet = u16::from_be_bytes([rest[2], rest[3]]) == INTERNET;
    is_internet.then_some(Question { bytes: &message[HEADER..at + 4], name, kind })
}

/// The address in a name for looking up addresses: of IPv4 only.
fn reverse(name: &str) -> Option<IpAddr> {
    let digits = name.strip_suffix(".in-addr.arpa")?;
    let mut bytes = [0; 4];
    let mut parts = digits.split('.').rev();
    for byte in &mut bytes {
        *byte = parts.next()?.parse().ok()?;
    }
    parts.next().is_none().then(|| bytes.into())
}

/// A name as messages have it.
fn encoded(name: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).ok()?);
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn asked(name: &str, kind: u16) -> Vec<u8> {
        let mut bytes = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        bytes.extend(encoded(name).unwrap());
        bytes.extend(kind.to_be_bytes());
        bytes.extend([0, 1]);
        bytes
    }

    #[test]
    fn questions_get_an_address_that_stands_for_the_name() {
        let mut names = Names::default();
        let question = asked("Web.Example", A);
        let reply = answer(&question, &mut names).unwrap();
        assert_eq!(reply[..12], [0xab, 0xcd, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
        assert_eq!(reply[12..question.len()], question[12..]);
        assert_eq!(
            reply[question.len()..],
            [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 198, 18, 0, 1]
        );
        let host = names.host([198, 18, 0, 1].into());
        assert_eq!(host, Some(Host::Name("web.example".into())));
        let reply = answer(&asked("web.example", AAAA), &mut names).unwrap();
        assert_eq!(reply[reply.len() - 2..], [0, 1]);
        let reply = answer(&asked("1.0.18.198.in-addr.arpa", PTR), &mut names).unwrap();
        assert!(reply.ends_with(b"\x03web\x07example\0"));
    }

    #[test]
    fn what_cannot_be_answered_is_refused() {
        let mut names = Names::default();
        let mut code =
            |message: &[u8]| answer(message, &mut names).map(|reply| (reply[3] & 15, reply[7]));
        assert_eq!(code(&asked("web.example", HTTPS)), Some((0, 0)));
        assert_eq!(code(&asked("web.example", 15)), Some((4, 0)));
        assert_eq!(code(&asked("no name!", A)), Some((3, 0)));
        assert_eq!(code(&asked("9.9.9.9.in-addr.arpa", PTR)), Some((3, 0)));
        assert_eq!(code(&asked("web.example", A)[..20]), Some((1, 0)));
        let mut answers = asked("web.example", A);
        answers[2] |= 0x80;
        assert_eq!(code(&answers), None);
        assert_eq!(code(&[0; 11]), None);
    }

    proptest! {
        #[test]
        fn anything_is_answered_or_dropped(bytes in any::<Vec<u8>>()) {
            let mut names = Names::default();
            let _ = answer(&bytes, &mut names);
            let head = [0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
            let _ = answer(&[&head[..], &bytes].concat(), &mut names);
        }
    }
}
