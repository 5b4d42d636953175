//! SOCKS version 5 (RFC 1928) without I/O: what a client sends, and the answers.

use std::net::SocketAddr;

use crate::status::Status;
use crate::target::{self, Malformed, Parsed, Target};

/// The first byte of every message.
pub(crate) const VERSION: u8 = 5;

/// The method of authentication that needs none.
const NO_AUTHENTICATION: u8 = 0;

/// None of the client's methods is accepted.
const NO_METHOD: u8 = 0xff;

/// The command for a TCP connection.
const CONNECT: u8 = 1;

/// The command for a UDP socket.
const UDP_ASSOCIATE: u8 = 3;

/// Whether a client can go without authentication.
pub(crate) fn parse_greeting(bytes: &[u8]) -> Result<Parsed<bool>, Malformed> {
    match bytes {
        [] | [VERSION] => Ok(Parsed::Needs(2)),
        [VERSION, count, methods @ ..] => {
            let count = usize::from(*count);
            Ok(match methods.get(..count) {
                Some(methods) => Parsed::Done(methods.contains(&NO_AUTHENTICATION)),
                None => Parsed::Needs(2 + count),
            })
        }
        _ => Err(Malformed),
    }
}

/// The answer to a greeting.
pub(crate) fn method(accepted: bool) -> [u8; 2] {
    [VERSION, if accepted { NO_AUTHENTICATION } else { NO_METHOD }]
}

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Connect(Target),
    /// A UDP socket, to which the client sends from this port; 0 if it does not know yet.
    Associate(u16),
    /// A host or a port that cannot be.
    NoTarget,
    /// Another command.
    Unsupported,
}

/// Parses a request.
pub(crate) fn parse_request(bytes: &[u8]) -> Result<Parsed<Request>, Malformed> {
    let [version, command, _reserved, target @ ..] = bytes else { return Ok(Parsed::Needs(3)) };
    if *version != VERSION {
        return Err(Malformed);
    }
    Ok(match target::parse(target)? {
        Parsed::Needs(more) => Parsed::Needs(3 + more),
        Parsed::Done(target) => Parsed::Done(match target {
            // The address of the client is usually not known either, and not needed.
            _ if *command == UDP_ASSOCIATE => Request::Associate(target_port(bytes)),
            _ if *command != CONNECT => Request::Unsupported,
            Some(target) => Request::Connect(target),
            None => Request::NoTarget,
        }),
    })
}

/// The port at the end of a whole request.
fn target_port(request: &[u8]) -> u16 {
    request.last_chunk().map_or(0, |port| u16::from_be_bytes(*port))
}

/// The answer to UDP ASSOCIATE: where the client is to send its datagrams.
pub(crate) fn associated(local: SocketAddr) -> Vec<u8> {
    let mut bytes = vec![VERSION, 0, 0];
    target::encode(&local.into(), &mut bytes);
    bytes
}

/// Parses a datagram of a client (RFC 1928 section 7): two reserved bytes, the number of a fragment, the target, and
/// the payload. `None` if it is malformed, or a fragment: reassembly is optional, and no known client needs it.
pub(crate) fn parse_datagram(bytes: &[u8]) -> Option<(Target, &[u8])> {
    let (_reserved, rest) = bytes.split_first_chunk::<2>()?;
    let (&0, rest) = rest.split_first()? else { return None };
    let (target, payload) = target::split(rest)?;
    Some((target?, payload))
}

/// A datagram for a client.
pub(crate) fn datagram(from: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 3];
    target::encode(&from.into(), &mut bytes);
    bytes.extend(payload);
    bytes
}

/// The answer to a request. The address that the far side connects from is not told.
pub(crate) fn reply(status: Status) -> [u8; 10] {
    [VERSION, status.socks5(), 0, 1, 0, 0, 0, 0, 0, 0]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::target::tests::{feed, target};

    proptest! {
        #[test]
        fn requests_of_clients_are_read(target in target()) {
            let mut bytes = vec![5, 1, 0];
            target::encode(&target, &mut bytes);
            let length = bytes.len();
            let expected = Ok(Some((Request::Connect(target), length)));
            prop_assert_eq!(feed(&bytes, parse_request), expected);
            for cut in 0..length {
                prop_assert_eq!(feed(&bytes[..cut], parse_request), Ok(None));
            }
            bytes[1] = 2;
            prop_assert_eq!(feed(&bytes, parse_request), Ok(Some((Request::Unsupported, length))));
            bytes[1] = 3;
            let port = u16::from_be_bytes([bytes[length - 2], bytes[length - 1]]);
            let expected = Ok(Some((Request::Associate(port), length)));
            prop_assert_eq!(feed(&bytes, parse_request), expected);
        }

        #[test]
        fn datagrams_of_clients_are_read(target in target(), payload in any::<Vec<u8>>()) {
            let mut bytes = vec![0; 3];
            target::encode(&target, &mut bytes);
            let head = bytes.len();
            bytes.extend(&payload);
            prop_assert_eq!(parse_datagram(&bytes), Some((target, &payload[..])));
            for cut in 0..head {
                prop_assert_eq!(parse_datagram(&bytes[..cut]), None);
            }
            // Fragments.
            bytes[2] = 1;
            prop_assert_eq!(parse_datagram(&bytes), None);
        }

        #[test]
        fn anything_is_parsed_or_refused(bytes in any::<Vec<u8>>()) {
            let _ = feed(&bytes, parse_greeting);
            let _ = feed(&bytes, parse_request);
            let _ = parse_datagram(&bytes);
        }
    }

    #[test]
    fn a_client_may_not_know_its_port() {
        let unknown = [5, 3, 0, 1, 0, 0, 0, 0, 0, 0];
        assert_eq!(feed(&unknown, parse_request), Ok(Some((Request::Associate(0), 10))));
        let local = "127.0.0.1:258".parse().unwrap();
        assert_eq!(associated(local), [5, 0, 0, 1, 127, 0, 0, 1, 1, 2]);
        assert_eq!(datagram(local, b"a"), [0, 0, 0, 1, 127, 0, 0, 1, 1, 2, b'a']);
        assert_eq!(parse_datagram(&[0, 0, 0, 1, 127, 0, 0, 1, 0, 0, b'a']), None, "port 0");
    }

    #[test]
    fn greetings_offer_methods() {
        assert_eq!(feed(&[5, 2, 2, 0], parse_greeting), Ok(Some((true, 4))));
        assert_eq!(feed(&[5, 1, 2, 0], parse_greeting), Ok(Some((false, 3))));
        assert_eq!(feed(&[5, 0], parse_greeting), Ok(Some((false, 2))));
        assert_eq!(feed(&[5, 3, 0], parse_greeting), Ok(None));
        assert_eq!(feed(&[4, 1, 0], parse_greeting), Err(Malformed));
        assert_eq!(feed(&[5, 1, 0, 9, 0, 0], parse_request), Err(Malformed));
        let wrong_name = [5, 1, 0, 3, 1, b' ', 0, 80];
        assert_eq!(feed(&wrong_name, parse_request), Ok(Some((Request::NoTarget, 8))));
        assert_eq!((method(true), method(false)), ([5, 0], [5, 255]));
        assert_eq!(reply(Status::Refused)[..2], [5, 5]);
    }
}
