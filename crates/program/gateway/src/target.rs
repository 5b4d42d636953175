//! What to connect to.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Longest name of a host, in bytes (RFC 1035 section 2.3.4, without the final dot).
pub(crate) const LONGEST_NAME: usize = 253;

/// A host: a name that the far side resolves, or an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// A name in lower case without a final dot.
    Name(String),
    /// An address; IPv4 is never written as IPv6.
    Address(IpAddr),
}

impl Host {
    /// Parses a name or an address; IPv6 with or without brackets. `None` if it is neither.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(text) = text.strip_prefix('[') {
            let address: Ipv6Addr = text.strip_suffix(']')?.parse().ok()?;
            return Some(Self::Address(IpAddr::from(address).to_canonical()));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Some(Self::Address(address.to_canonical()));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        // Without its final dot it would be an address for whoever reads it next.
        if let Ok(address) = name.parse::<Ipv4Addr>() {
            return Some(Self::Address(address.into()));
        }
        is_name(name).then(|| Self::Name(name.to_ascii_lowercase()))
    }
}

/// Whether this is a host name of labels of letters, digits, hyphens and underscores.
fn is_name(name: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    (1..=LONGEST_NAME).contains(&name.len()) && name.split('.').all(label)
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// The host.
    pub host: Host,
    /// The port, never 0.
    pub port: u16,
}

impl Target {
    /// A target, unless the port is 0.
    pub fn new(host: Host, port: u16) -> Option<Self> {
        (port > 0).then_some(Self { host, port })
    }

    /// Parses `HOST:PORT`, or `HOST` if there is a default port.
    pub fn parse(text: &str, default_port: Option<u16>) -> Option<Self> {
        let colon = text.rfind(':').filter(|at| !text[*at..].contains(']'));
        let (host, port) = match colon {
            // Digits only: `parse` would also accept a plus sign.
            Some(at) if text[at + 1..].bytes().all(|b| b.is_ascii_digit()) => {
                (&text[..at], text[at + 1..].parse().ok()?)
            }
            Some(_) => return None,
            None => (text, default_port?),
        };
        // An IPv6 address needs brackets if a port may follow.
        if host.contains(':') && !host.starts_with('[') {
            return None;
        }
        Self::new(Host::parse(host)?, port)
    }
}

impl From<SocketAddr> for Target {
    fn from(address: SocketAddr) -> Self {
        Self { host: Host::Address(address.ip().to_canonical()), port: address.port() }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Kinds of addresses (RFC 1928 section 5); the protocol between near and far has the same.
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// What parsing the beginning of a byte stream led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Parsed<T> {
    /// At least this many bytes from the beginning are needed; always more than there were.
    Needs(usize),
    /// The value, which ends with the bytes that were given.
    Done(T),
}

/// The bytes are not of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Parses the kind, the address and the port of a target, as SOCKS5 writes them: at most 259 bytes.
pub(crate) fn parse(bytes: &[u8]) -> Result<Parsed<Option<Target>>, Malformed> {
    let [kind, rest @ ..] = bytes else { return Ok(Parsed::Needs(1)) };
    let before = match (*kind, rest) {
        (NAME, []) => return Ok(Parsed::Needs(2)),
        (NAME, [length, ..]) => 2 + usize::from(*length),
        (IPV4, _) => 5,
        (IPV6, _) => 17,
        _ => return Err(Malformed),
    };
    let Some((bytes, _)) = bytes.split_at_checked(before + 2) else {
        return Ok(Parsed::Needs(before + 2));
    };
    let (address, port) = bytes.split_at(before);
    let port = port.iter().fold(0, |port, byte| port << 8 | u16::from(*byte));
    let host = match *kind {
        IPV4 => <[u8; 4]>::try_from(&address[1..]).ok().map(|ip| Ipv4Addr::from(ip).into()),
        IPV6 => <[u8; 16]>::try_from(&address[1..]).ok().map(|ip| Ipv6Addr::from(ip).into()),
        _ => None,
    };
    let host = match host {
        Some(ip) => Some(Host::Address(IpAddr::to_canonical(&ip))),
        None => std::str::from_utf8(&address[2..]).ok().and_then(Host::parse),
    };
    Ok(Parsed::Done(host.and_then(|host| Target::new(host, port))))
}

/// Splits a target off the beginning of a whole message. `None` if the message is malformed; the target is `None` if
/// there cannot be such a host or port.
pub(crate) fn split(bytes: &[u8]) -> Option<(Option<Target>, &[u8])> {
    let mut length = 0;
    loop {
        match parse(bytes.get(..length)?) {
            Ok(Parsed::Needs(more)) => length = more,
            Ok(Parsed::Done(target)) => return Some((target, &bytes[length..])),
            Err(Malformed) => return None,
        }
    }
}

/// Appends a target as [`parse`] reads it.
pub(crate) fn encode(target: &Target, to: &mut Vec<u8>) {
    match &target.host {
        Host::Address(IpAddr::V4(address)) => {
            to.push(IPV4);
            to.extend(address.octets());
        }
        Host::Address(IpAddr::V6(address)) => {
            to.push(IPV6);
            to.extend(address.octets());
        }
        Host::Name(name) => {
            // A name in a `Host` that this crate made is never longer.
            let name = &name.as_bytes()[..name.len().min(LONGEST_NAME)];
            to.push(NAME);
            to.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
            to.extend(name);
        }
    }
    to.extend(target.port.to_be_bytes());
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Most bytes of an encoded target.
    const LONGEST: usize = 1 + 1 + 255 + 2;

    pub(crate) fn target() -> impl Strategy<Value = Target> {
        let host = prop_oneof![
            any::<[u8; 4]>().prop_map(|ip| Host::Address(IpAddr::from(ip))),
            any::<[u8; 16]>().prop_map(|ip| Host::Address(IpAddr::from(ip).to_canonical())),
            "[a-z_]([a-z0-9-]{0,61}[a-z])?(\\.[a-z]{1,60}){0,3}".prop_map(Host::Name),
        ];
        (host, 1..=u16::MAX).prop_map(|(host, port)| Target { host, port })
    }

    /// Feeds a parser as many bytes as it asks for.
    pub(crate) fn feed<T>(
        bytes: &[u8],
        parse: impl Fn(&[u8]) -> Result<Parsed<T>, Malformed>,
    ) -> Result<Option<(T, usize)>, Malformed> {
        let mut given = 0;
        loop {
            match parse(&bytes[..given])? {
                Parsed::Done(value) => return Ok(Some((value, given))),
                Parsed::Needs(more) => {
                    assert!(more > given, "no progress");
                    if more > bytes.len() {
                        return Ok(None);
                    }
                    given = more;
                }
            }
        }
    }

    #[test]
    fn an_address_with_a_final_dot_is_an_address() {
        for text in ["192.0.2.1", "192.0.2.1."] {
            let address = Host::Address(IpAddr::from([192, 0, 2, 1]));
            assert_eq!(Host::parse(text), Some(address), "{text}");
        }
        assert_eq!(Host::parse("192.0.2.1.."), None);
        assert_eq!(Host::parse("192.0.2."), Some(Host::Name("192.0.2".to_owned())));
    }

    proptest! {
        #[test]
        fn targets_survive(target in target(), rest in any::<Vec<u8>>()) {
            let mut bytes = Vec::new();
            encode(&target, &mut bytes);
            prop_assert!(bytes.len() <= LONGEST);
            let length = bytes.len();
            bytes.extend(&rest);
            prop_assert_eq!(feed(&bytes, parse), Ok(Some((Some(target.clone()), length))));
            prop_assert_eq!(split(&bytes), Some((Some(target.clone()), &rest[..])));
            prop_assert_eq!(Target::parse(&target.to_string(), None), Some(target));
        }

        #[test]
        fn anything_is_parsed_or_refused(bytes in any::<Vec<u8>>(), text in any::<String>()) {
            let _ = split(&bytes);
            if let Ok(Some((Some(target), length))) = feed(&bytes, parse) {
                prop_assert!(target.port > 0 && length <= LONGEST);
            }
            if let Some(target) = Target::parse(&text, Some(80)) {
                prop_assert_eq!(Target::parse(&target.to_string(), None), Some(target));
            }
        }
    }

    #[test]
    fn hosts_are_names_or_addresses() {
        let parsed = |text| Target::parse(text, Some(80)).map(|target| target.to_string());
        assert_eq!(parsed("Example.COM.").as_deref(), Some("example.com:80"));
        assert_eq!(parsed("[::1]:8080").as_deref(), Some("[::1]:8080"));
        assert_eq!(parsed("[::ffff:10.0.0.1]").as_deref(), Some("10.0.0.1:80"));
        assert_eq!(parsed("10.0.0.1:81").as_deref(), Some("10.0.0.1:81"));
        for wrong in [
            "",
            ":80",
            "a:",
            "a:0",
            "a:+80",
            "a:65536",
            "a b",
            "a..b",
            "::1",
            "[::1",
            "[::1]80",
            "a/b",
            "user@host",
            "exämple.com",
            "a\0b",
            "[fe80::1%eth0]:80",
        ] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
        assert_eq!(parsed(&"a".repeat(64)), None);
        assert_eq!(Target::parse("a", None), None);
    }
}
