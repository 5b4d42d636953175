//! The header fields that a proxy changes (RFC 9110 sections 7.2, 7.6).

use http::header::{
    CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION,
    TE, TRAILER, TRANSFER_ENCODING, UPGRADE, VIA,
};

/// Fields that are about one connection only, even if the field Connection does not list them.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Removes what is about this connection, and names this proxy.
pub(crate) fn forward(fields: &mut HeaderMap) {
    let listed: Vec<HeaderName> = fields
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        // A client must not make the proxy remove the fields that frame the message or name its host.
        .filter(|name| *name != http::header::CONTENT_LENGTH && *name != HOST)
        .collect();
    for name in listed.iter().chain(&HOP_BY_HOP) {
        fields.remove(name);
    }
    fields.append(VIA, HeaderValue::from_static("1.1 anabranch"));
}

/// Whether a message has a transfer coding besides `chunked`, which this proxy cannot undo.
pub(crate) fn has_other_codings(fields: &HeaderMap) -> bool {
    let mut codings = fields.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => false,
        (Some(coding), None) => !coding.as_bytes().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_connection_are_removed() {
        let mut fields = HeaderMap::new();
        for (name, value) in [
            ("host", "x"),
            ("content-length", "5"),
            ("connection", "close, X-Own"),
            ("connection", "content-length, host"),
            ("x-own", "1"),
            ("proxy-authorization", "secret"),
            ("keep-alive", "5"),
            ("te", "trailers"),
            ("accept", "*/*"),
            ("via", "1.0 other"),
        ] {
            fields.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        forward(&mut fields);
        let mut left: Vec<_> =
            fields.iter().map(|(n, v)| (n.as_str(), v.to_str().unwrap())).collect();
        left.sort_unstable();
        let expected = [
            ("accept", "*/*"),
            ("content-length", "5"),
            ("host", "x"),
            ("via", "1.0 other"),
            ("via", "1.1 anabranch"),
        ];
        assert_eq!(left, expected);
    }

    #[test]
    fn only_chunked_is_undone() {
        let with = |values: &[&'static str]| {
            let mut fields = HeaderMap::new();
            for value in values {
                fields.append(TRANSFER_ENCODING, HeaderValue::from_static(value));
            }
            has_other_codings(&fields)
        };
        assert!(!with(&[]) && !with(&["Chunked"]));
        assert!(with(&["gzip, chunked"]) && with(&["chunked", "chunked"]) && with(&["x"]));
    }
}
