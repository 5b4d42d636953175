//! Names in the abstract namespace of Unix sockets, and the environment variable that names the engine.
//!
//! An engine of one program is at an abstract name. One of several programs is at a file in a directory: who may use
//! the directory may use the engine.
//!
//! A channel is recognised by the name of the program's end, so the kernel is the only place that knows which
//! descriptors are SCTP sockets. Names are visible to all users of the network namespace. They are no secret: calls
//! need the secret of the environment variable or the engine's directory, and a handle cannot be guessed before its
//! channel exists.

/// The environment variable by which programs find the engine: the secret in hexadecimal digits, `@`, and the name; or
/// the absolute path of its directory.
pub const VARIABLE: &str = "ANABRANCH_RUN";

/// Bytes of the secret.
pub const SECRET: usize = 16;

/// The engine's socket in its directory.
pub const SOCKET: &str = "engine.sock";

/// Bytes of the longest path of a directory: a socket's address has 108 bytes, and ends with a null byte.
pub const MOST_DIRECTORY: usize = 108 - 1 - SOCKET.len() - 1;

/// Where programs find their engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// At an abstract name, if they know the secret.
    Abstract {
        /// The secret.
        secret: [u8; SECRET],
        /// The name, without the null byte that begins abstract names.
        name: &'a [u8],
    },
    /// In a directory: its absolute path.
    Directory(&'a [u8]),
}

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

/// Reads the value of [`VARIABLE`].
#[must_use]
pub fn parse_variable(text: &[u8]) -> Option<Place<'_>> {
    if text.starts_with(b"/") {
        return (text.len() <= MOST_DIRECTORY).then_some(Place::Directory(text));
    }
    let (digits, rest) = text.split_at_checked(2 * SECRET)?;
    let name = rest.strip_prefix(b"@").filter(|name| !name.is_empty() && name.len() < 100)?;
    let mut secret = [0; SECRET];
    for (byte, digits) in secret.iter_mut().zip(digits.chunks_exact(2)) {
        let [high, low] = digits else { return None };
        *byte = value(*high)? << 4 | value(*low)?;
    }
    Some(Place::Abstract { secret, name })
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
            let place = Place::Abstract { secret, name: engine.as_bytes() };
            prop_assert_eq!(parse_variable(text.as_bytes()), Some(place));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in vec(any::<u8>(), 0..100)) {
            let _ = (Channel::decode(&bytes), parse_variable(&bytes));
            let _ = Channel::decode(&[CHANNEL, &bytes].concat());
        }
    }

    #[test]
    fn a_directory_is_an_absolute_path() {
        assert_eq!(parse_variable(b"/run/x"), Some(Place::Directory(b"/run/x")));
        assert_eq!(parse_variable(b"run/x"), None);
        let longest = [b'/'; MOST_DIRECTORY];
        assert_eq!(parse_variable(&longest), Some(Place::Directory(&longest)));
        assert_eq!(parse_variable(&[b'/'; MOST_DIRECTORY + 1]), None);
    }

    #[test]
    fn a_channel_reads_as_it_is_documented() {
        let name = Channel { handle: 0x0123_4567_89ab_cdef, one_to_many: true }.encode();
        assert_eq!(&name, b"anabranch/socket/0123456789abcdefm");
    }
}
