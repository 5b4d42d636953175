//! The one line that a server prints and a client pastes.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use crate::keys::PublicKey;
use crate::text::{Kind, ParseError};
use crate::token::Token;

const INVITATION: Kind = Kind { name: "an invitation", prefix: "anb1:" };

/// The maximum number of addresses in an invitation.
pub const MOST_ADDRESSES: usize = 16;

/// Fields after the key. Each begins with its kind.
const IPV4: u8 = 4;
const IPV6: u8 = 6;
const TOKEN: u8 = 1;

/// How to reach an endpoint: its public key, its real addresses, and perhaps a one-time token. As text it begins with
/// `anb1:`.
///
/// Without a token it is no secret. With one, whoever uses it first is admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    key: PublicKey,
    addresses: Vec<SocketAddr>,
    token: Option<Token>,
}

impl Invitation {
    /// An invitation to the endpoint with this key at the first [`MOST_ADDRESSES`] of these addresses.
    pub fn new(key: PublicKey, addresses: impl IntoIterator<Item = SocketAddr>) -> Self {
        let mut kept: Vec<SocketAddr> = Vec::new();
        // Scopes of link-local addresses mean nothing to another host.
        for address in addresses.into_iter().map(|a| SocketAddr::new(a.ip(), a.port())) {
            if kept.len() < MOST_ADDRESSES && !kept.contains(&address) {
                kept.push(address);
            }
        }
        Self { key, addresses: kept, token: None }
    }

    /// Adds a one-time token.
    #[must_use]
    pub fn with_token(mut self, token: Token) -> Self {
        self.token = Some(token);
        self
    }

    /// The key of the endpoint.
    pub fn key(&self) -> PublicKey {
        self.key
    }

    /// Its real addresses with UDP ports, the preferred one first.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The one-time token.
    pub fn token(&self) -> Option<&Token> {
        self.token.as_ref()
    }
}

impl fmt::Display for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut content = self.key.as_bytes().to_vec();
        for address in &self.addresses {
            match address.ip() {
                IpAddr::V4(v4) => {
                    content.push(IPV4);
                    content.extend(v4.octets());
                }
                IpAddr::V6(v6) => {
                    content.push(IPV6);
                    content.extend(v6.octets());
                }
            }
            content.extend(address.port().to_be_bytes());
        }
        if let Some(token) = &self.token {
            content.push(TOKEN);
            content.extend(token.as_bytes());
        }
        f.write_str(&INVITATION.format(&content))
    }
}

impl FromStr for Invitation {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let content = INVITATION.parse(text)?;
        let (key, mut rest) = take(&content)?;
        let mut invitation = Self::new(PublicKey::from_bytes(key), []);
        while let [kind, after @ ..] = rest {
            match *kind {
                IPV4 => {
                    let (ip, after) = take::<4>(after)?;
                    rest = invitation.add(ip.into(), after)?;
                }
                IPV6 => {
                    let (ip, after) = take::<16>(after)?;
                    rest = invitation.add(ip.into(), after)?;
                }
                TOKEN if invitation.token.is_none() => {
                    let (token, after) = take(after)?;
                    invitation.token = Some(Token::from_bytes(token));
                    rest = after;
                }
                TOKEN => return Err(INVITATION.damaged()),
                _ => return Err(ParseError::Newer(INVITATION.name)),
            }
        }
        Ok(invitation)
    }
}

impl Invitation {
    /// Adds an address whose port is the beginning of `rest`, and returns what follows.
    fn add<'a>(&mut self, ip: IpAddr, rest: &'a [u8]) -> Result<&'a [u8], ParseError> {
        let (port, rest) = take(rest)?;
        if self.addresses.len() == MOST_ADDRESSES {
            return Err(INVITATION.damaged());
        }
        self.addresses.push(SocketAddr::new(ip, u16::from_be_bytes(port)));
        Ok(rest)
    }
}

/// The first `N` bytes, and the others.
fn take<const N: usize>(bytes: &[u8]) -> Result<([u8; N], &[u8]), ParseError> {
    bytes.split_first_chunk().map(|(first, rest)| (*first, rest)).ok_or(INVITATION.damaged())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn invitations() -> impl Strategy<Value = Invitation> {
        let addresses = proptest::collection::vec(any::<SocketAddr>(), 0..20);
        (any::<[u8; 32]>(), addresses, any::<Option<[u8; 16]>>()).prop_map(
            |(key, addresses, token)| {
                let invitation = Invitation::new(PublicKey::from_bytes(key), addresses);
                Invitation { token: token.map(Token::from_bytes), ..invitation }
            },
        )
    }

    /// The vector of `docs/sealed.md`.
    #[test]
    fn the_format_stays() {
        let key = PublicKey::from_bytes(std::array::from_fn(|index| index as u8));
        let addresses = ["198.51.100.7:9899", "[2001:db8::7]:9899"];
        let addresses = addresses.map(|address| address.parse().unwrap());
        let invitation = Invitation::new(key, addresses).with_token(Token::from_bytes([9; 16]));
        let text = invitation.to_string();
        assert_eq!(text, VECTOR);
        assert_eq!(text.parse(), Ok(invitation));
    }

    const VECTOR: &str = "anb1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8ExjNkByarBiABDbgAAAAAAAAAAAAAAAcmqwEJCQkJCQkJCQkJCQkJCQkJewmPMA";

    proptest! {
        #[test]
        fn invitations_pass_through_text(invitation in invitations(), at in 0usize..90) {
            let text = invitation.to_string();
            prop_assert!(text.is_ascii() && !text.contains(char::is_whitespace));
            prop_assert_eq!(text.parse(), Ok(invitation.clone()));
            // Mail programs break lines.
            let mut broken = text.clone();
            broken.insert_str(at.min(text.len()), "\r\n  ");
            prop_assert_eq!(format!(" {broken}\n").parse(), Ok(invitation));
        }

        #[test]
        fn a_damaged_invitation_is_refused(
            invitation in invitations(),
            at: prop::sample::Index,
            with in "[A-Za-z0-9_-]",
        ) {
            let text = invitation.to_string();
            let at = at.index(text.len());
            prop_assert!(text[..at].parse::<Invitation>().is_err());
            let mut damaged = text.clone();
            damaged.replace_range(at..=at, &with);
            if damaged != text {
                prop_assert!(damaged.parse::<Invitation>().is_err());
            }
        }

        /// Whatever the content is, it is read or refused, and what is read is written the same way.
        #[test]
        fn any_content_is_read_or_refused(content: Vec<u8>, text: String) {
            let _ = text.parse::<Invitation>();
            if let Ok(invitation) = INVITATION.format(&content).parse::<Invitation>() {
                prop_assert_eq!(invitation.to_string().parse(), Ok(invitation));
            }
        }
    }
}
