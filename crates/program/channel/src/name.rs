//! Names in the abstract namespace of Unix sockets, and the environment variable that names the engine.
//!
//! A channel is recognised by the name of the program's end, so the kernel is the only place that knows which
//! descriptors are SCTP sockets. Names are visible to all users of the network namespace. They are no secret: calls
//! need the secret of the environment variable, and a handle cannot be guessed before its channel exists.

/// The environment variable by which programs find the engine: the secret in hexadecimal digits, `@`, and the name.
pub const VARIABLE: &str = "ANABRANCH_RUN";

/// Bytes of the secret.
pub const SECRET: usize = 16;

/// Begins the names of channels.
const CHANNEL: &[u8] = b"anabranch/socket/";
/// Begins the names of engines.
const ENGINE: &str = "anabranch/engine/";

/// Bytes of a channel's name: the prefix, the handle, and a letter for the style.
pub const CHANNEL_NAME: usize = CHANNEL.len() + 16 + 1;

/// What the name of a channel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// The number of the socket: random, so that no other engine has it.
    pub handle: u64,
    /// A one-to-many socket (SOCK_SEQPACKET).
    pub one_to_many: bool,
}

impl Channel {
    /// The name, without the null byte that begins abstract names.
    #[must_use]
    pub fn encode(&self) -> [u8; CHANNEL_NAME] {
        let mut name = [0; CHANNEL_NAME];
        let style = if self.one_to_many { b'm' } else { b'o' };
        let digits = (0..16).rev().map(|digit| hex((self.handle >> (4 * digit)) as u8 & 15));
        let bytes = CHANNEL.iter().copied().chain(digits).chain([style]);
        name.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
        name
    }

    /// Reads a name; `None` if it is not a channel's.
    #[must_use]
    pub fn decode(name: &[u8]) -> Option<Self> {
        let rest = name.strip_prefix(CHANNEL)?;
        let (digits, style) = rest.split_at_checked(16)?;
        let one_to_many = match style {
            b"m" => true,
            b"o" => false,
            _ => return None,
        };
        let handle = digits
            .iter()
            .try_fold(0, |number, digit| Some(number << 4 | u64::from(value(*digit)?)))?;
        Some(Self { handle, one_to_many })
    }
}

/// The abstract name of an engine with this number, without the null byte.
#[must_use]
pub fn engine(number: u64) -> String {
    format!("{ENGINE}{number:016x}")
}

/// The value of [`VARIABLE`].
#[must_use]
pub fn variable(secret: &[u8; SECRET], engine: &str) -> String {
    let digits =
        secret.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|digit| char::from(hex(digit)));
    digits.chain(['@']).chain(engine.chars()).collect()
}

/// Reads the value of [`VARIABLE`]: the secret, and the abstract name of the engine.
#[must_use]
pub fn parse_variable(text: &[u8]) -> Option<([u8; SECRET], &[u8])> {
    let (digits, rest) = text.split_at_checked(2 * SECRET)?;
    let name = rest.strip_prefix(b"@").filter(|name| !name.is_empty() && name.len() < 100)?;
    let mut secret = [0; SECRET];
    for (byte, digits) in secret.iter_mut().zip(digits.chunks_exact(2)) {
        let [high, low] = digits else { return None };
        *byte = value(*high)? << 4 | value(*low)?;
    }
    Some((secret, name))
}

fn hex(digit: u8) -> u8 {
    if digit < 10 { b'0' + digit } else { b'a' + digit - 10 }
}

fn value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn names_survive_the_way(handle in any::<u64>(), one_to_many in any::<bool>(), number in any::<u64>(),
                                 secret in any::<[u8; SECRET]>()) {
            let channel = Channel { handle, one_to_many };
            prop_assert_eq!(Channel::decode(&channel.encode()), Some(channel));
            prop_assert_eq!(Channel::decode(&channel.encode()[..CHANNEL_NAME - 1]), None);
            let engine = engine(number);
            let text = variable(&secret, &engine);
            prop_assert_eq!(parse_variable(text.as_bytes()), Some((secret, engine.as_bytes())));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in vec(any::<u8>(), 0..100)) {
            let _ = (Channel::decode(&bytes), parse_variable(&bytes));
            let _ = Channel::decode(&[CHANNEL, &bytes].concat());
        }
    }

    #[test]
    fn a_channel_reads_as_it_is_documented() {
        let name = Channel { handle: 0x0123_4567_89ab_cdef, one_to_many: true }.encode();
        assert_eq!(&name, b"anabranch/socket/0123456789abcdefm");
    }
}
