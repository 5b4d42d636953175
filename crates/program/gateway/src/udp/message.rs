//! What a message about UDP says. docs/gateway.md has the tables.

use std::net::SocketAddr;

use bytes::Bytes;

use crate::status::Status;
use crate::target::{self, Host, LONGEST_NAME, Target};

/// The version of these messages.
const VERSION: u8 = 1;

/// Most bytes before the payload of a datagram.
#[cfg(test)]
const LONGEST_HEAD: usize = 6 + 1 + 16 + 2 + 1 + LONGEST_NAME;

const DATAGRAM: u8 = 1;
const ANSWER: u8 = 2;
const REFUSED: u8 = 3;
const CLOSE: u8 = 4;
const MIRROR: u8 = 5;

/// A message about a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// The flow's number.
    pub(crate) flow: u32,
    pub(crate) what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// From near: a datagram to this target.
    Datagram(Target, Bytes),
    /// From far: a datagram from this address, and the name that near gave it, if it did.
    Answer { from: SocketAddr, name: Option<String>, payload: Bytes },
    /// From far: datagrams to this target are dropped, for this reason.
    Refused(Target, Status),
    /// From near: the client has ended the flow.
    Close,
    /// From near, about all streams: messages of up to this many bytes are sent on two paths. The flow is 0.
    Mirror(u16),
}

impl Message {
    /// Parses a message. `None` if it is malformed or of another version.
    pub(crate) fn parse(bytes: &Bytes) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<6>()?;
        let [version, command, flow @ ..] = *head;
        if version != VERSION {
            return None;
        }
        let what = match command {
            DATAGRAM => {
                let (target, payload) = target::split(rest)?;
                What::Datagram(target?, bytes.slice_ref(payload))
            }
            ANSWER => {
                let (from, rest) = target::split(rest)?;
                let Target { host: Host::Address(ip), port } = from? else { return None };
                let (length, rest) = rest.split_first()?;
                let (name, payload) = rest.split_at_checked((*length).into())?;
                let from = SocketAddr::new(ip, port);
                What::Answer { from, name: self::name(name)?, payload: bytes.slice_ref(payload) }
            }
            REFUSED => {
                let (target, rest) = target::split(rest)?;
                What::Refused(target?, Status::of_number(*rest.first()?))
            }
            CLOSE => What::Close,
            MIRROR => What::Mirror(u16::from_be_bytes(*rest.first_chunk()?)),
            _ => return None,
        };
        Some(Self { flow: u32::from_be_bytes(flow), what })
    }

    /// The bytes of this message.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let command = match &self.what {
            What::Datagram(..) => DATAGRAM,
            What::Answer { .. } => ANSWER,
            What::Refused(..) => REFUSED,
            What::Close => CLOSE,
            What::Mirror(_) => MIRROR,
        };
        let mut bytes = vec![VERSION, command];
        bytes.extend(self.flow.to_be_bytes());
        match &self.what {
            What::Datagram(to, payload) => {
                target::encode(to, &mut bytes);
                bytes.extend(payload);
            }
            What::Answer { from, name, payload } => {
                target::encode(&(*from).into(), &mut bytes);
                let name = name.as_deref().unwrap_or_default().as_bytes();
                // A name in a `Host` that this crate made is never longer.
                let name = &name[..name.len().min(LONGEST_NAME)];
                bytes.push(u8::try_from(name.len()).unwrap_or(0));
                bytes.extend(name);
                bytes.extend(payload);
            }
            What::Refused(target, status) => {
                target::encode(target, &mut bytes);
                bytes.push(status.number());
            }
            What::Close => {}
            What::Mirror(most) => bytes.extend(most.to_be_bytes()),
        }
        bytes
    }
}

/// The name of an answer: the inner value is `None` if it has none, the outer one if it is not a name.
fn name(bytes: &[u8]) -> Option<Option<String>> {
    if bytes.is_empty() {
        return Some(None);
    }
    match Host::parse(std::str::from_utf8(bytes).ok()?)? {
        Host::Name(name) => Some(Some(name)),
        Host::Address(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::target::tests::target;

    fn payload() -> impl Strategy<Value = Bytes> {
        any::<Vec<u8>>().prop_map(Bytes::from)
    }

    fn answer() -> impl Strategy<Value = What> {
        let from = (any::<[u8; 16]>(), any::<[u8; 4]>(), any::<bool>(), 1..=u16::MAX).prop_map(
            |(v6, v4, is_v4, port)| match is_v4 {
                true => SocketAddr::from((v4, port)),
                false => SocketAddr::new(std::net::IpAddr::from(v6).to_canonical(), port),
            },
        );
        let name = proptest::option::of("[a-z_]([a-z0-9-]{0,61}[a-z])?(\\.[a-z]{1,60}){0,3}");
        (from, name, payload()).prop_map(|(from, name, payload)| What::Answer {
            from,
            name,
            payload,
        })
    }

    fn message() -> impl Strategy<Value = Message> {
        let what = prop_oneof![
            (target(), payload()).prop_map(|(target, payload)| What::Datagram(target, payload)),
            answer(),
            (target(), 0..=10_u8)
                .prop_map(|(target, status)| What::Refused(target, Status::of_number(status))),
            Just(What::Close),
            any::<u16>().prop_map(What::Mirror),
        ];
        (any::<u32>(), what).prop_map(|(flow, what)| Message { flow, what })
    }

    proptest! {
        #[test]
        fn messages_survive(message in message()) {
            let bytes = Bytes::from(message.encode());
            if let What::Datagram(_, payload) | What::Answer { payload, .. } = &message.what {
                prop_assert!(bytes.len() <= LONGEST_HEAD + payload.len());
            }
            prop_assert_eq!(Message::parse(&bytes), Some(message));
        }

        /// Whatever is cut off or changed, what is parsed is a message that this side could have written.
        #[test]
        fn altered_messages_are_parsed_or_dropped(
            message in message(),
            cut in any::<prop::sample::Index>(),
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let mut bytes = message.encode();
            let place = at.index(bytes.len());
            bytes[place] = byte;
            bytes.truncate(cut.index(bytes.len() + 1));
            if let Some(parsed) = Message::parse(&bytes.into()) {
                prop_assert_eq!(Message::parse(&parsed.encode().into()), Some(parsed));
            }
        }

        #[test]
        fn anything_is_parsed_or_dropped(bytes in payload()) {
            if let Some(parsed) = Message::parse(&bytes) {
                prop_assert_eq!(Message::parse(&parsed.encode().into()), Some(parsed));
            }
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_document() {
        let target = Target::parse("192.0.2.1:53", None).unwrap();
        let what = What::Datagram(target, Bytes::from_static(b"hi"));
        let bytes = Message { flow: 258, what }.encode();
        assert_eq!(bytes, [1, 1, 0, 0, 1, 2, 1, 192, 0, 2, 1, 0, 53, b'h', b'i']);
        let from = "[2001:db8::1]:7".parse().unwrap();
        let name = Some("a.example".to_owned());
        let what = What::Answer { from, name, payload: Bytes::from_static(b"!") };
        let bytes = Message { flow: 1, what }.encode();
        assert_eq!(bytes[..11], [1, 2, 0, 0, 0, 1, 4, 0x20, 1, 0xd, 0xb8]);
        assert_eq!(bytes[23..26], [0, 7, 9]);
        assert_eq!(&bytes[26..], b"a.example!");
        let close = Message { flow: 2, what: What::Close };
        assert_eq!(close.encode(), [1, 4, 0, 0, 0, 2]);
        for wrong in [&[2, 4, 0, 0, 0, 2][..], &[1, 9, 0, 0, 0, 2], &[1, 4, 0, 0, 0], &[]] {
            assert_eq!(Message::parse(&Bytes::copy_from_slice(wrong)), None);
        }
    }
}
