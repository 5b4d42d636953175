//! URLs whose authority may list several addresses of one host.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use percent_encoding::percent_decode_str;

use crate::page::reference::{Reference, resolve};

/// The protocol of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    /// `http`: port 80 by default.
    Http,
    /// `sctp`: HTTP over an SCTP association, port 80 by default.
    Sctp,
    /// `https`: port 443 by default.
    Https,
}

impl Scheme {
    /// The default port of URLs.
    pub fn default_port(self) -> u16 {
        match self {
            Self::Http | Self::Sctp => 80,
            Self::Https => 443,
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http => "http",
            Self::Sctp => "sctp",
            Self::Https => "https",
        })
    }
}

/// A host in a URL.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// An address; an IPv6 address is in brackets.
    Address(IpAddr),
    /// A link-local address and its zone, the name or number of an interface of this host
    /// (RFC 4007 section 11): `[fe80::1%eth0]`, in a URL `[fe80::1%25eth0]` (RFC 6874).
    LinkLocal(Ipv6Addr, String),
    /// A name to look up.
    Name(String),
}

impl FromStr for Host {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or(UrlError::Bracket)?;
            let (address, zone) = match inner.split_once('%') {
                Some((address, zone)) => (address, Some(zone)),
                None => (inner, None),
            };
            let address: Ipv6Addr = address.parse().map_err(|_| UrlError::Host(text.to_owned()))?;
            return match zone {
                None => Ok(Self::Address(address.into())),
                Some(zone) if !is_zone(zone) => Err(UrlError::Zone(zone.to_owned())),
                Some(_) if !address.is_unicast_link_local() => Err(UrlError::NotLinkLocal(address)),
                Some(zone) => Ok(Self::LinkLocal(address, zone.to_owned())),
            };
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(Self::Address(address.into()));
        }
        let plausible = !text.is_empty()
            && text.len() <= 253
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'))
            // Digits and dots alone are a mistyped address, not a name.
            && text.bytes().any(|b| b.is_ascii_alphabetic());
        if plausible {
            Ok(Self::Name(text.to_ascii_lowercase()))
        } else {
            Err(UrlError::Host(text.to_owned()))
        }
    }
}

/// Whether this can be the name of an interface that needs no encoding in a URL (RFC 6874).
fn is_zone(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~');
    !text.is_empty() && text.bytes().all(allowed)
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Self::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::LinkLocal(address, zone) => write!(f, "[{address}%{zone}]"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// The addresses of one peer, and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Authority {
    /// The addresses, at least one.
    pub hosts: Vec<Host>,
    /// SCTP or TCP port, above 0.
    pub port: u16,
    /// UDP port that carries the SCTP packets (RFC 6951), if it is named: `host:80;udp=7000`.
    pub udp_port: Option<u16>,
    /// The server's public key as text, if it is named: `host:80;key=anbk:...`. This crate does not read it.
    pub key: Option<String>,
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, host) in self.hosts.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            host.fmt(f)?;
        }
        write!(f, ":{}", self.port)?;
        self.udp_port.map_or(Ok(()), |udp| write!(f, ";udp={udp}"))?;
        self.key.as_ref().map_or(Ok(()), |key| write!(f, ";key={key}"))
    }
}

/// Splits `HOSTS:PORT;udp=N` into hosts with SCTP port, and the UDP port, if there is one.
///
/// # Errors
/// The text after the semicolon is not a UDP port.
pub fn split_udp_port(text: &str) -> Result<(&str, Option<u16>), UrlError> {
    let Some((rest, parameter)) = text.split_once(';') else { return Ok((text, None)) };
    let port = parameter.strip_prefix("udp=").and_then(|port| port.parse::<u16>().ok());
    match port.filter(|&port| port > 0) {
        Some(port) => Ok((rest, Some(port))),
        None => Err(UrlError::Parameter(parameter.to_owned())),
    }
}

/// Splits `HOSTS:PORT;udp=N;key=TEXT` into hosts with SCTP port, UDP port and key.
fn split_parameters(text: &str) -> Result<(&str, Option<u16>, Option<String>), UrlError> {
    let Some((before, key)) = text.split_once(";key=") else {
        return split_udp_port(text).map(|(rest, udp_port)| (rest, udp_port, None));
    };
    // The order does not matter.
    let (key, after) = key.split_once(';').map_or((key, None), |(key, after)| (key, Some(after)));
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b':');
    if key.is_empty() || !key.bytes().all(allowed) {
        return Err(UrlError::Key(key.to_owned()));
    }
    let (rest, before_key) = split_udp_port(before)?;
    let after_key = match after {
        Some(after) => split_udp_port(&format!(";{after}"))?.1,
        None => None,
    };
    match (before_key, after_key) {
        (Some(_), Some(udp)) => Err(UrlError::Parameter(format!("udp={udp}"))),
        (before, after) => Ok((rest, before.or(after), Some(key.to_owned()))),
    }
}

/// `scheme://host[,host...][:port][;udp=port][;key=text][/path][?query]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// The scheme.
    pub scheme: Scheme,
    /// The server's addresses and ports.
    pub authority: Authority,
    /// Path and query in the form of a request line, beginning with `/`.
    pub target: String,
}

impl Url {
    /// The Host field of a request: the first host, and the port unless it is the scheme's default. A zone is
    /// meaningful only on this host and is omitted (RFC 6874 section 4).
    pub fn host_field(&self) -> String {
        let Authority { hosts, port, .. } = &self.authority;
        let host = match hosts.first() {
            Some(Host::LinkLocal(address, _)) => format!("[{address}]"),
            Some(host) => host.to_string(),
            None => String::new(),
        };
        if *port == self.scheme.default_port() { host } else { format!("{host}:{port}") }
    }

    /// The name for a file fetched from this URL: the path's last segment, decoded, or `index.html` for a
    /// directory. `None` if that is not a plain file name.
    pub fn file_name(&self) -> Option<String> {
        let path = self.target.split('?').next().unwrap_or_default();
        let segment = path.rsplit('/').next().unwrap_or_default();
        if segment.is_empty() {
            return Some("index.html".to_owned());
        }
        let name = percent_decode_str(segment).decode_utf8().ok()?;
        let plain = !matches!(name.as_ref(), "." | "..")
            && !name.chars().any(|c| matches!(c, '/' | '\\') || c.is_control());
        plain.then(|| name.into_owned())
    }
}

impl Url {
    /// The target of a reference in an answer (RFC 9110 section 10.2.2). A reference to this server stays on
    /// this connection, whether its scheme is `http` or `sctp`.
    ///
    /// # Errors
    /// The reference is not a supported URL.
    pub fn join(&self, reference: &str) -> Result<Self, UrlError> {
        match resolve(&self.host_field(), &self.target, reference) {
            Reference::Here(target) => Ok(Self { target, ..self.clone() }),
            Reference::Elsewhere(text) if text.starts_with("//") => {
                format!("{}:{text}", self.scheme).parse()
            }
            Reference::Elsewhere(text) => text.parse(),
            Reference::Nowhere => Err(UrlError::Scheme),
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Only zones contain this character.
        let authority = self.authority.to_string().replace('%', "%25");
        write!(f, "{}://{authority}{}", self.scheme, self.target)
    }
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let (scheme, rest) = text.split_once("://").ok_or(UrlError::Scheme)?;
        // Schemes are case-insensitive (RFC 3986 section 3.1).
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => Scheme::Http,
            "sctp" => Scheme::Sctp,
            "https" => Scheme::Https,
            _ => return Err(UrlError::Scheme),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        let target = target.split('#').next().unwrap_or_default();
        if let Some(bad) = target.chars().find(|c| !c.is_ascii_graphic()) {
            return Err(UrlError::Character(bad));
        }
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        let authority = parse_authority(authority, scheme.default_port())?;
        if let (Scheme::Http | Scheme::Https, Some(udp)) = (scheme, authority.udp_port) {
            return Err(UrlError::Parameter(format!("udp={udp}")));
        }
        if let (Scheme::Http | Scheme::Https, Some(key)) = (scheme, &authority.key) {
            return Err(UrlError::Key(key.clone()));
        }
        Ok(Self { scheme, authority, target })
    }
}

fn parse_authority(text: &str, default_port: u16) -> Result<Authority, UrlError> {
    let (text, udp_port, key) = split_parameters(text)?;
    if text.matches('[').count() != text.matches(']').count() {
        return Err(UrlError::Bracket);
    }
    // The colon after the last bracket separates hosts and port. Without brackets there is at most one colon,
    // because IPv6 addresses are in brackets.
    let after_bracket = text.rfind(']').map_or(0, |at| at + 1);
    let (hosts, port) = match text.get(after_bracket..).and_then(|tail| tail.find(':')) {
        Some(at) => {
            let (hosts, port) = text.split_at(after_bracket + at);
            let port = port.strip_prefix(':').unwrap_or_default();
            let number = port.parse::<u16>().ok().filter(|&number| number > 0);
            (hosts, number.ok_or_else(|| UrlError::Port(port.to_owned()))?)
        }
        None => (text, default_port),
    };
    // '%25' is an encoded percent sign; an unencoded one is also accepted, as people type it.
    let hosts = hosts.split(',').map(|host| host.replace("%25", "%").parse());
    Ok(Authority { hosts: hosts.collect::<Result<_, _>>()?, port, udp_port, key })
}

/// Why a text is not a supported URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UrlError {
    /// It does not begin with `http://`, `https://` or `sctp://`.
    Scheme,
    /// A bracket is not closed.
    Bracket,
    /// This is neither an address nor a name.
    Host(String),
    /// This is not a zone of a link-local address.
    Zone(String),
    /// This address has a zone and is not link-local.
    NotLinkLocal(Ipv6Addr),
    /// This is not a port number.
    Port(String),
    /// This follows a semicolon and is not the UDP port of an SCTP URL.
    Parameter(String),
    /// This is not the key of a sealed SCTP server.
    Key(String),
    /// This character must be percent-encoded.
    Character(char),
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scheme => {
                f.write_str("a URL begins with sctp:// or http:// (https:// for HTTP/3)")
            }
            Self::Bracket => f.write_str("a bracket of an IPv6 address is not closed"),
            Self::Host(host) if host.is_empty() => f.write_str("a host is missing"),
            Self::Host(host) => {
                write!(f, "'{host}' is neither an address nor a name (IPv6 needs brackets)")
            }
            Self::Zone(zone) => {
                write!(
                    f,
                    "'{zone}' is not an interface: the form is fe80::1%eth0, in a URL %25eth0"
                )
            }
            Self::NotLinkLocal(address) => {
                write!(f, "{address} is not link-local: only addresses fe80::... have an interface")
            }
            Self::Port(port) => write!(f, "'{port}' is not a port (1 to 65535)"),
            Self::Parameter(text) => {
                write!(
                    f,
                    "';{text}' is not a UDP port for SCTP: the form is sctp://HOST:PORT;udp=9899/"
                )
            }
            Self::Key(text) => write!(
                f,
                "';key={text}' is not the key of a sealed server: the form is sctp://HOST:PORT;key=anbk:.../"
            ),
            Self::Character(c) => write!(f, "{c:?} has to be percent-encoded"),
        }
    }
}

impl std::error::Error for UrlError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    #[test]
    fn references_lead_on() {
        let url: Url = "sctp://192.0.2.1,192.0.2.2:8080;udp=7000/a/b?c".parse().unwrap();
        for (reference, to) in [
            ("/dir/", "sctp://192.0.2.1,192.0.2.2:8080;udp=7000/dir/"),
            ("d", "sctp://192.0.2.1,192.0.2.2:8080;udp=7000/a/d"),
            ("http://192.0.2.1:8080/x", "sctp://192.0.2.1,192.0.2.2:8080;udp=7000/x"),
            ("//192.0.2.9/x", "sctp://192.0.2.9:80/x"),
            ("http://other/x?y", "http://other:80/x?y"),
            ("sctp://192.0.2.9:81;udp=9/x", "sctp://192.0.2.9:81;udp=9/x"),
        ] {
            assert_eq!(url.join(reference).unwrap().to_string(), to, "{reference}");
        }
        for reference in ["", "#x", "ftp://h/x", "javascript:1", "http://[::1/x"] {
            assert!(url.join(reference).is_err(), "{reference}");
        }
    }

    #[test]
    fn several_hosts_of_both_families() {
        let parsed = url("sctp://10.0.0.1,[2001:db8::1],Example.org:8080/a/b?c=d#e");
        assert_eq!(parsed.scheme, Scheme::Sctp);
        assert_eq!(parsed.authority.port, 8080);
        assert_eq!(parsed.authority.hosts.len(), 3);
        assert_eq!(parsed.authority.hosts[2], Host::Name("example.org".into()));
        assert_eq!(parsed.target, "/a/b?c=d");
        assert_eq!(parsed.to_string(), "sctp://10.0.0.1,[2001:db8::1],example.org:8080/a/b?c=d");
        assert_eq!(parsed.host_field(), "10.0.0.1:8080");
        assert_eq!(url("http://[::1]").host_field(), "[::1]");
        assert_eq!(url("http://[::1],10.0.0.1:81").authority.port, 81);
        assert_eq!(url("http://h?x").target, "/?x");
        assert_eq!(url("SCTP://H/A").to_string(), "sctp://h:80/A");
    }

    #[test]
    fn the_udp_port_stands_behind_the_port() {
        let text = "sctp://10.0.0.1,[::1]:8080;udp=7000/a;b";
        let parsed = url(text);
        assert_eq!((parsed.authority.port, parsed.authority.udp_port), (8080, Some(7000)));
        assert_eq!((parsed.target.as_str(), parsed.to_string().as_str()), ("/a;b", text));
        assert_eq!(parsed.host_field(), "10.0.0.1:8080");
        assert_eq!(url("sctp://h;udp=7000").authority.port, 80);
        for wrong in ["sctp://h;udp=0/", "sctp://h;udp=/", "sctp://h;tcp=1/", "sctp://h;/"] {
            assert!(matches!(wrong.parse::<Url>(), Err(UrlError::Parameter(_))), "{wrong}");
        }
        assert!("http://h;udp=7000/".parse::<Url>().is_err(), "TCP has none");
    }

    #[test]
    fn a_key_stands_behind_the_ports() {
        let text = "sctp://10.0.0.1,[::1]:8080;udp=7000;key=anbk:A-_9/a;b";
        let parsed = url(text);
        assert_eq!(parsed.authority.key.as_deref(), Some("anbk:A-_9"));
        assert_eq!((parsed.authority.port, parsed.authority.udp_port), (8080, Some(7000)));
        assert_eq!((parsed.target.as_str(), parsed.to_string().as_str()), ("/a;b", text));
        assert_eq!(url("sctp://10.0.0.1,[::1]:8080;key=anbk:A-_9;udp=7000/a;b"), parsed);
        assert_eq!(url("sctp://h;key=x").authority.port, 80);
        // Other files of the same server are fetched with the same key.
        assert_eq!(parsed.join("/c").unwrap().authority, parsed.authority);
        assert_eq!(parsed.join("sctp://10.0.0.9/c").unwrap().authority.key, None);
        for wrong in ["key=", "key=a b", "key=a;key=b", "udp=1;key=a;udp=2", "key=a;x", "key=a,b"] {
            let parsed = format!("sctp://h;{wrong}/").parse::<Url>();
            let refused = matches!(parsed, Err(UrlError::Parameter(_) | UrlError::Key(_)));
            assert!(refused, "{wrong}: {parsed:?}");
        }
        assert!("http://h;key=a/".parse::<Url>().is_err(), "only sealed paths have one");
    }

    #[test]
    fn link_local_addresses_have_a_zone() {
        for text in
            ["sctp://[fe80::1%25eth0.7],10.0.0.1:81/a", "sctp://[fe80::1%eth0.7],10.0.0.1:81/a"]
        {
            let parsed = url(text);
            let zoned = Host::LinkLocal("fe80::1".parse().unwrap(), "eth0.7".into());
            assert_eq!(parsed.authority.hosts[0], zoned);
            assert_eq!(parsed.host_field(), "[fe80::1]:81");
            assert_eq!(parsed.authority.to_string(), "[fe80::1%eth0.7],10.0.0.1:81");
            assert_eq!(parsed.to_string(), "sctp://[fe80::1%25eth0.7],10.0.0.1:81/a");
        }
        assert_eq!(url("http://[fe80::1%252]").authority.hosts[0].to_string(), "[fe80::1%2]");
        for (host, error) in [
            ("[fe80::1%]", UrlError::Zone(String::new())),
            ("[fe80::1%25]", UrlError::Zone(String::new())),
            ("[fe80::1%a b]", UrlError::Zone("a b".into())),
            ("[fe80::1%a%25b]", UrlError::Zone("a%b".into())),
            ("[2001:db8::1%eth0]", UrlError::NotLinkLocal("2001:db8::1".parse().unwrap())),
            ("10.0.0.1%eth0", UrlError::Host("10.0.0.1%eth0".into())),
        ] {
            assert_eq!(format!("http://{host}/").parse::<Url>(), Err(error));
        }
    }

    #[test]
    fn file_names_stay_in_their_directory() {
        let name = |text: &str| url(text).file_name();
        assert_eq!(name("http://h/a/b%20c.txt?q").as_deref(), Some("b c.txt"));
        assert_eq!(name("http://h").as_deref(), Some("index.html"));
        assert_eq!(name("http://h/dir/").as_deref(), Some("index.html"));
        assert_eq!(name("http://h/%2e%2e"), None);
        assert_eq!(name("http://h/..%2fetc"), None);
        assert_eq!(name("http://h/a%00b"), None);
        assert_eq!(name("http://h/%ff"), None);
    }

    #[test]
    fn each_mistake_has_its_sentence() {
        let error = |text: &str| text.parse::<Url>().unwrap_err();
        assert_eq!(error("ftp://h/"), UrlError::Scheme);
        assert_eq!(error("h:80/x"), UrlError::Scheme);
        assert_eq!(error("http://"), UrlError::Host(String::new()));
        assert_eq!(error("http://h,:80/"), UrlError::Host(String::new()));
        assert_eq!(error("http://[::1/"), UrlError::Bracket);
        assert_eq!(error("http://::1/"), UrlError::Port(":1".into()));
        assert_eq!(error("http://10.0.0/"), UrlError::Host("10.0.0".into()));
        assert_eq!(error("http://[10.0.0.1]/"), UrlError::Host("[10.0.0.1]".into()));
        assert_eq!(error("http://h:0/"), UrlError::Port("0".into()));
        assert_eq!(error("http://h:65536/"), UrlError::Port("65536".into()));
        assert_eq!(error("http://h/a b"), UrlError::Character(' '));
        for text in ["ftp://h/", "http://", "http://a b/", "http://h:x/", "http://h/ä"] {
            let sentence = error(text).to_string();
            assert!(!sentence.contains('\n') && sentence.len() > 10, "{sentence}");
        }
    }
}
