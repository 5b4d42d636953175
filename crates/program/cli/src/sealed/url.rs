//! URLs of sealed servers.

use std::str::FromStr;

use anabranch::seal::{Invitation, ParseError, PublicKey, Token};
use anabranch_http::{Authority, Scheme, Url};

/// How an invitation begins.
const INVITATION: &str = "anb1:";

/// The key of a server in a URL. It may come with a token that admits one user: the key is an invitation without
/// addresses then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerKey {
    pub(super) key: PublicKey,
    pub(super) token: Option<Token>,
}

/// Whether this is an invitation and not a key alone.
pub(super) fn is_invitation(text: &str) -> bool {
    text.starts_with(INVITATION)
}

impl FromStr for ServerKey {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        if is_invitation(text) {
            let line: Invitation = text.parse()?;
            return Ok(Self { key: line.key(), token: line.token().cloned() });
        }
        Ok(Self { key: text.parse()?, token: None })
    }
}

/// Parses a URL, whose key must be one, or a line `anb1:...[:PORT][/PATH]`.
pub(crate) fn url(text: &str) -> Result<Url, String> {
    let text = text.trim();
    if let Some(rest) = text.strip_prefix(INVITATION) {
        return of_invitation(rest);
    }
    let url: Url = text.parse().map_err(|error: anabranch_http::UrlError| error.to_string())?;
    if let Some(key) = &url.authority.key {
        key.parse::<ServerKey>().map_err(|error| format!("';key={key}': {error}"))?;
    }
    Ok(url)
}

/// Parses a server `HOST[,HOST...]:PORT`, or a line `anb1:...:PORT`.
pub(crate) fn authority(text: &str) -> Result<Authority, String> {
    let Some(rest) = text.trim().strip_prefix(INVITATION) else {
        return crate::address::authority(text);
    };
    match rest.contains(['/', '?']) || !rest.contains(':') {
        true => Err("the form of a line is anb1:...:PORT".to_owned()),
        false => Ok(of_invitation(rest)?.authority),
    }
}

/// The URL for a line without its beginning.
fn of_invitation(rest: &str) -> Result<Url, String> {
    let (line, target) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (line, port) = match line.split_once(':') {
        Some((line, port)) => {
            let port = port.parse::<u16>().ok().filter(|port| *port > 0);
            (line, port.ok_or("after the line, there may be :PORT and /PATH")?)
        }
        None => (line, Scheme::Sctp.default_port()),
    };
    let line: Invitation = format!("{INVITATION}{line}")
        .parse()
        .map_err(|error: anabranch::seal::ParseError| error.to_string())?;
    let addresses = line.addresses();
    let udp_port = addresses.first().ok_or("this line has no address")?.port();
    if addresses.iter().any(|address| address.port() != udp_port) {
        return Err("the addresses of this line have different UDP ports: name one of them as \
                    'sctp://HOST:PORT;udp=N;key=anbk:.../PATH'"
            .to_owned());
    }
    let hosts: Vec<_> = addresses
        .iter()
        .map(|address| match address.is_ipv6() {
            true => format!("[{}]", address.ip()),
            false => address.ip().to_string(),
        })
        .collect();
    let (hosts, key) = (hosts.join(","), line.key());
    let key = match line.token() {
        Some(token) => Invitation::new(key, []).with_token(token.clone()).to_string(),
        None => key.to_string(),
    };
    format!("sctp://{hosts}:{port};udp={udp_port};key={key}{target}")
        .parse()
        .map_err(|error: anabranch_http::UrlError| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use anabranch::seal::Token;

    use super::*;

    #[test]
    fn a_line_is_a_url() {
        let key = PublicKey::from_bytes([7; 32]);
        let addresses: [SocketAddr; 2] =
            ["198.51.100.7:7000", "[2001:db8::7]:7000"].map(|text| text.parse().unwrap());
        let line = Invitation::new(key, addresses);
        for (after, port, target) in
            [("", 80, "/"), ("/a?b", 80, "/a?b"), (":8080/a:b", 8080, "/a:b"), (":81", 81, "/")]
        {
            let url = url(&format!("{line}{after}")).unwrap();
            let expected =
                format!("sctp://198.51.100.7,[2001:db8::7]:{port};udp=7000;key={key}{target}");
            assert_eq!(url.to_string(), expected);
        }
        let server = authority(&format!("{line}:5201")).unwrap();
        assert_eq!(
            (server.port, server.udp_port, server.key),
            (5201, Some(7000), Some(key.to_string()))
        );
        assert_eq!(authority("[::1]:5201").unwrap().port, 5201);
        for wrong in [format!("{line}"), format!("{line}:5201/"), format!("{line}:0")] {
            assert!(authority(&wrong).unwrap_err().contains(":PORT"), "{wrong}");
        }
        let token = Token::from_bytes([1; 16]);
        let with_token = url(&format!("{}:81/a", line.clone().with_token(token.clone()))).unwrap();
        assert_eq!(with_token.authority.hosts, server.hosts);
        let found: ServerKey = with_token.authority.key.clone().unwrap().parse().unwrap();
        assert_eq!(found, ServerKey { key, token: Some(token) });
        assert_eq!(url(&with_token.to_string()).unwrap(), with_token);
        let ports = Invitation::new(key, [addresses[0], ([192, 0, 2, 1], 7001).into()]);
        for (wrong, part) in [
            (format!("{line}:0/"), ":PORT"),
            (format!("{line}x/"), "damaged"),
            ("anb1:".to_owned(), "damaged"),
            (Invitation::new(key, []).to_string(), "no address"),
            (ports.to_string(), "different UDP ports"),
            ("sctp://h;key=anbk:AAAA/".to_owned(), "damaged"),
            ("sctp://h;key=x/".to_owned(), "anbk:"),
            ("gopher://h/".to_owned(), "sctp://"),
        ] {
            let error = url(&wrong).unwrap_err();
            assert!(error.contains(part), "{wrong}: {error}");
        }
    }
}
