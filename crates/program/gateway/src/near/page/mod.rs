//! The status page: what the uplinks carry, for whom, and a switch for each uplink.
//!
//! Only whoever has the token sees it. A page of another origin does not: it cannot know the token, no answer allows it
//! to read, and a name that was pointed at this address (DNS rebinding) is refused.

mod prometheus;
mod view;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::header::{HOST, HeaderName, HeaderValue, ORIGIN};
use http::{Method, Request, Response, StatusCode};
use subtle::ConstantTimeEq as _;

use super::Near;
use crate::uplinks::Uplinks;

/// What the paths of the page begin with.
pub(super) const PATH: &str = "/status";

/// The page. It has no external parts.
const HTML: &str = include_str!("page.html");

/// Allows the page its own style and script, and requests to where it came from. A test checks the hashes.
const POLICY: &str = "default-src 'none'; \
    style-src 'sha256-KNVh/34YY452rCgOOQGTYovAOP4gUCxZnYtHPzY5XPI='; \
    script-src 'sha256-dU0z5QMg2mj3G6iZJ3ceKm4mQ4GY6DL5/OFmhd/NMws='; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Fields of all answers.
const FIELDS: [(&str, &str); 5] = [
    ("cache-control", "no-store"),
    ("content-security-policy", POLICY),
    ("cross-origin-resource-policy", "same-origin"),
    // The token is part of the URL.
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
];

const TEXT: &str = "text/plain; charset=utf-8";

/// What the status page needs.
#[derive(Clone)]
pub struct Page {
    token: String,
    uplinks: Arc<Uplinks>,
    began: Instant,
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Page").field("uplinks", &self.uplinks).finish_non_exhaustive()
    }
}

impl Page {
    /// A page for whoever has this token: a secret of characters that URLs may have.
    pub fn new(token: String, uplinks: Arc<Uplinks>) -> Self {
        Self { token, uplinks, began: Instant::now() }
    }

    /// The path of the page, with its token.
    pub fn path(&self) -> String {
        format!("{PATH}?token={}", self.token)
    }

    fn is_token(&self, token: Option<&str>) -> bool {
        token.is_some_and(|token| token.as_bytes().ct_eq(self.token.as_bytes()).into())
    }
}

/// The answer to a request whose path begins with [`PATH`].
pub(super) fn answer<B>(near: &Near, request: &Request<B>) -> Option<Response<Bytes>> {
    let page = near.page.as_ref()?;
    let (status, kind, body) = match page.respond(near, request) {
        Ok((kind, body)) => (StatusCode::OK, kind, body),
        Err((status, sentence)) => (status, TEXT, format!("{sentence}\n")),
    };
    let mut answer = Response::new(Bytes::from(body));
    *answer.status_mut() = status;
    for (name, value) in FIELDS.into_iter().chain([("content-type", kind)]) {
        let field = (HeaderName::from_static(name), HeaderValue::from_static(value));
        answer.headers_mut().insert(field.0, field.1);
    }
    Some(answer)
}

/// The media type and the body of an answer, or why there is none.
type Body = Result<(&'static str, String), (StatusCode, &'static str)>;

impl Page {
    fn respond<B>(&self, near: &Near, request: &Request<B>) -> Body {
        if !is_direct(request) {
            let sentence = "open the status page by the address that the gateway printed";
            return Err((StatusCode::MISDIRECTED_REQUEST, sentence));
        }
        let query = request.uri().query().unwrap_or_default();
        if !self.is_token(parameter(query, "token")) {
            let sentence =
                "the token is missing or wrong: use the URL that the gateway printed at its start";
            return Err((StatusCode::FORBIDDEN, sentence));
        }
        let reads = [Method::GET, Method::HEAD].contains(request.method());
        match (request.uri().path(), reads) {
            ("/status", true) => Ok(("text/html; charset=utf-8", HTML.to_owned())),
            ("/status.json", true) => Ok(("application/json", view::json(self, near))),
            ("/status/metrics", true) => {
                let kind = "text/plain; version=0.0.4; charset=utf-8";
                Ok((kind, prometheus::text(self, near)))
            }
            ("/status/uplink", false) if request.method() == Method::POST => {
                if !is_same_origin(request) {
                    return Err((StatusCode::FORBIDDEN, "only the status page itself may do this"));
                }
                let number = parameter(query, "number").and_then(|number| number.parse().ok());
                let on = parameter(query, "on").and_then(|on| on.parse().ok());
                match (number, on) {
                    (Some(number), Some(on)) if self.uplinks.switch(number, on) => {
                        Ok(("application/json", view::json(self, near)))
                    }
                    (Some(_), Some(_)) => Err((StatusCode::NOT_FOUND, "there is no such uplink")),
                    _ => Err((
                        StatusCode::BAD_REQUEST,
                        "number=NUMBER and on=true or on=false are needed",
                    )),
                }
            }
            ("/status" | "/status.json" | "/status/metrics" | "/status/uplink", _) => {
                let sentence = "GET reads /status, and POST /status/uplink switches";
                Err((StatusCode::METHOD_NOT_ALLOWED, sentence))
            }
            _ => {
                Err((StatusCode::NOT_FOUND, "there are /status, /status.json and /status/metrics"))
            }
        }
    }
}

/// The value of a parameter of a query. Escapes are not needed here.
fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    let mut values = query.split('&').filter_map(|pair| pair.split_once('='));
    values.find_map(|(found, value)| (found == name).then_some(value))
}

/// Whether the client asked for an address of this host, or for localhost. Another name may have been pointed at this
/// address by a web page that wants to read from here.
fn is_direct<B>(request: &Request<B>) -> bool {
    let mut hosts = request.headers().get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    let Ok(authority) = host.to_str().unwrap_or_default().parse::<http::uri::Authority>() else {
        return false;
    };
    let host = authority.host();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok()
}

/// Whether no page of another origin has sent the request, as far as the browser says.
fn is_same_origin<B>(request: &Request<B>) -> bool {
    let field = |name: HeaderName| request.headers().get(name).map(HeaderValue::as_bytes);
    let own = [b"http://", field(HOST).unwrap_or_default()].concat();
    let site = field(HeaderName::from_static("sec-fetch-site"));
    field(ORIGIN).is_none_or(|origin| origin == own)
        && site.is_none_or(|site| [&b"same-origin"[..], b"none"].contains(&site))
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use sha2::Digest as _;

    use super::*;

    /// The content of the only element with this name.
    fn content(name: &str) -> &'static str {
        let (_, rest) = HTML.split_once(&format!("<{name}>")).unwrap();
        let (content, rest) = rest.split_once(&format!("</{name}>")).unwrap();
        assert!(!rest.contains(&format!("<{name}")));
        content
    }

    #[test]
    fn the_policy_allows_the_page_and_nothing_else() {
        for name in ["style", "script"] {
            let digest = sha2::Sha256::digest(content(name));
            let hash = base64::engine::general_purpose::STANDARD.encode(digest);
            let rule = format!("{name}-src 'sha256-{hash}'");
            assert!(POLICY.contains(&rule), "the policy must have {rule}");
        }
        for external in ["src=", "href=", "@import", "url(", "http:", "https:", "style="] {
            assert!(!HTML.contains(external), "{external}");
        }
        assert!(HTML.len() < 16_000, "{} bytes", HTML.len());
    }

    fn asked(host: &str) -> Request<()> {
        Request::get("/status").header(HOST, host).body(()).unwrap()
    }

    #[test]
    fn names_of_others_are_refused() {
        for host in ["127.0.0.1:1080", "[::1]:1080", "localhost:1080", "LocalHost", "192.0.2.1"] {
            assert!(is_direct(&asked(host)), "{host}");
        }
        for host in
            ["evil.example:1080", "127.0.0.1.evil.example", "", "localhost.evil", "a@b", "::1"]
        {
            assert!(!is_direct(&asked(host)), "{host}");
        }
        assert!(!is_direct(&Request::get("/status").body(()).unwrap()));
        let two = Request::get("/").header(HOST, "localhost").header(HOST, "localhost");
        assert!(!is_direct(&two.body(()).unwrap()));
    }

    #[test]
    fn other_origins_do_not_switch() {
        let from = |name: &str, value: &str| {
            let mut request = asked("127.0.0.1:1080");
            let name = HeaderName::try_from(name).unwrap();
            request.headers_mut().insert(name, HeaderValue::try_from(value).unwrap());
            is_same_origin(&request)
        };
        assert!(is_same_origin(&asked("127.0.0.1:1080")), "no browser");
        assert!(from("origin", "http://127.0.0.1:1080") && from("sec-fetch-site", "same-origin"));
        for origin in ["null", "http://127.0.0.1:1081", "http://evil.example", ""] {
            assert!(!from("origin", origin), "{origin}");
        }
        assert!(!from("sec-fetch-site", "same-site") && !from("sec-fetch-site", "cross-site"));
    }

    #[test]
    fn parameters_are_found_by_their_whole_name() {
        assert_eq!(parameter("a=1&token=x&token=y", "token"), Some("x"));
        assert_eq!(parameter("mytoken=x", "token"), None);
        assert_eq!(parameter("token", "token"), None);
    }
}
