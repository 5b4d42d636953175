//! Checks the Host field of requests.

use std::net::Ipv6Addr;

use http::header::HOST;
use http::{Request, Version};

/// Whether a request names its host exactly once and validly (RFC 9112 section 3.2); before HTTP/1.1 it need not.
/// With several values, a proxy between the client and this server may have used another one.
pub(crate) fn names_its_host<B>(request: &Request<B>) -> bool {
    let mut fields = request.headers().get_all(HOST).iter();
    match (fields.next(), fields.next()) {
        (None, _) => request.version() < Version::HTTP_11,
        (Some(field), None) => std::str::from_utf8(field.as_bytes()).is_ok_and(is_host),
        (Some(_), Some(_)) => false,
    }
}

/// Whether the field is `uri-host [ ":" port ]`, as in RFC 3986 section 3.2.2. The host may be empty.
fn is_host(field: &str) -> bool {
    if let Some(rest) = field.strip_prefix('[') {
        let Some((literal, rest)) = rest.split_once(']') else { return false };
        let port = rest.strip_prefix(':');
        return is_literal(literal) && (rest.is_empty() || port.is_some_and(is_port));
    }
    let (name, port) = field.split_once(':').unwrap_or((field, ""));
    is_name(name) && is_port(port)
}

/// Whether this is an IPv6 address, or an address of a future version.
fn is_literal(literal: &str) -> bool {
    let future = |rest: &str| {
        rest.split_once('.').is_some_and(|(version, address)| {
            let hex = |c: char| c.is_ascii_hexdigit();
            let part = |c: char| is_plain(c) || c == ':';
            !version.is_empty()
                && version.chars().all(hex)
                && !address.is_empty()
                && address.chars().all(part)
        })
    };
    match literal.strip_prefix(['v', 'V']) {
        Some(rest) => future(rest),
        None => literal.parse::<Ipv6Addr>().is_ok(),
    }
}

/// Whether this is a registered name or an IPv4 address: unreserved characters, sub-delimiters and escapes.
fn is_name(mut name: &str) -> bool {
    while let Some((before, escape)) = name.split_once('%') {
        let hex = |at| escape.as_bytes().get(at).is_some_and(u8::is_ascii_hexdigit);
        if !before.chars().all(is_plain) || !hex(0) || !hex(1) {
            return false;
        }
        name = &escape[2..];
    }
    name.chars().all(is_plain)
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=".contains(c)
}

/// Whether these are the digits of a valid port, or nothing.
fn is_port(port: &str) -> bool {
    port.bytes().all(|byte| byte.is_ascii_digit())
        && (port.is_empty() || port.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_valid_or_not() {
        for host in [
            "",
            "x",
            "x:",
            "example.org:8080",
            "10.0.0.1:80",
            "[::1]",
            "[::1]:80",
            "[v1.a:b]",
            "a%20b",
            "_a~!$&'()*+,;=",
        ] {
            assert!(is_host(host), "{host}");
        }
        for host in [
            "a b/../c@x:99999999",
            "a b",
            "a/b",
            "a@b",
            "a?b",
            "a#b",
            "a\\b",
            "a\"b",
            "x:y",
            "x:65536",
            "x:-1",
            "x:80:80",
            "[::1",
            "::1",
            "[::1]80",
            "[::1]:x",
            "[x]",
            "[]",
            "[fe80::1%eth0]",
            "[v.a]",
            "[v1.]",
            "a%2",
            "a%zz",
            "ä",
            "a,b c",
            "<script>",
        ] {
            assert!(!is_host(host), "{host}");
        }
    }

    #[test]
    fn one_host_is_enough_and_needed() {
        let with = |version, hosts: &[&str]| {
            let mut request = Request::get("/").version(version);
            for host in hosts {
                request = request.header(HOST, *host);
            }
            names_its_host(&request.body(()).unwrap())
        };
        assert!(with(Version::HTTP_11, &["x"]) && with(Version::HTTP_11, &[""]));
        assert!(!with(Version::HTTP_11, &[]) && with(Version::HTTP_10, &[]));
        assert!(!with(Version::HTTP_11, &["x", "x"]) && !with(Version::HTTP_10, &["x", "y"]));
        assert!(!with(Version::HTTP_10, &["a b"]));
    }
}
