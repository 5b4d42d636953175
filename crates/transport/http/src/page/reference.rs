//! Resolves references of a page to its embedded objects (RFC 3986 section 5).

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

/// Characters that must be encoded in a request line.
const ENCODED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// The target of a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reference {
    /// A path and query on the same server.
    Here(String),
    /// A URL with another server or scheme.
    Elsewhere(String),
    /// The reference contains the data itself, or is empty.
    Nowhere,
}

/// Resolves `reference` in a page with the path and query `base` on the server `host`.
pub(crate) fn resolve(host: &str, base: &str, reference: &str) -> Reference {
    let reference = reference.trim_matches([' ', '\t', '\n', '\r', '\x0c']);
    let reference = reference.split_once('#').map_or(reference, |(before, _)| before);
    if reference.is_empty() {
        return Reference::Nowhere;
    }
    if let Some((scheme, rest)) = scheme(reference) {
        return match rest.strip_prefix("//") {
            Some(rest) if ["http", "sctp"].contains(&scheme.to_ascii_lowercase().as_str()) => {
                authority(host, rest, reference)
            }
            Some(_) => Reference::Elsewhere(reference.to_owned()),
            None => Reference::Nowhere,
        };
    }
    if let Some(rest) = reference.strip_prefix("//") {
        return authority(host, rest, reference);
    }
    let base_path = base.split_once('?').map_or(base, |(path, _)| path);
    if let Some(query) = reference.strip_prefix('?') {
        return Reference::Here(encode(&format!("{base_path}?{query}")));
    }
    let (path, query) = match reference.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (reference, None),
    };
    let path = if path.starts_with('/') {
        without_dots(path)
    } else {
        let directory = base_path.rsplit_once('/').map_or("", |(directory, _)| directory);
        without_dots(&format!("{directory}/{path}"))
    };
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    Reference::Here(encode(&format!("{path}{query}")))
}

/// Resolves a reference that names a server.
fn authority(host: &str, rest: &str, whole: &str) -> Reference {
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (named, path) = rest.split_at(end);
    if !named.eq_ignore_ascii_case(host) {
        return Reference::Elsewhere(whole.to_owned());
    }
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let (path, query) = path.split_once('?').map_or((path.as_str(), None), |(p, q)| (p, Some(q)));
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    Reference::Here(encode(&format!("{}{query}", without_dots(path))))
}

/// Splits a reference into its scheme and the rest, if it has a scheme (RFC 3986 section 3.1).
fn scheme(reference: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = reference.split_once(':')?;
    let mut letters = scheme.chars();
    let first = letters.next()?.is_ascii_alphabetic();
    let others = letters.all(|c| c.is_ascii_alphanumeric() || ['+', '-', '.'].contains(&c));
    (first && others).then_some((scheme, rest))
}

/// Removes the segments "." and ".." of a path that begins with a slash (RFC 3986 section 5.2.4).
fn without_dots(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    let mut parts = path.split('/').skip(1).peekable();
    while let Some(part) = parts.next() {
        let last = parts.peek().is_none();
        match part {
            "." | ".." => {
                if part == ".." {
                    segments.pop();
                }
                if last {
                    segments.push("");
                }
            }
            part => segments.push(part),
        }
    }
    format!("/{}", segments.join("/"))
}

fn encode(target: &str) -> String {
    utf8_percent_encode(target, ENCODED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_resolved() {
        let here = |reference: &str, target: &str| {
            let found = resolve("host:80", "/a/b/index.html?q", reference);
            assert_eq!(found, Reference::Here(target.to_owned()), "{reference}");
        };
        here("1.jpg", "/a/b/1.jpg");
        here(" ../1.jpg#x\n", "/a/1.jpg");
        here("../../../../1.jpg", "/1.jpg");
        here("/./c/../1.jpg?a=../b", "/1.jpg?a=../b");
        here("?x", "/a/b/index.html?x");
        here("..", "/a/");
        here("http://HOST:80/x y\"\u{e9}", "/x%20y%22%C3%A9");
        here("//host:80", "/");
        here("sctp://host:80?q", "/?q");
        here("a\r\nHost: b", "/a/b/a%0D%0AHost:%20b");
        for elsewhere in ["http://other/", "//host/", "https://host:80/"] {
            let found = resolve("host:80", "/", elsewhere);
            assert_eq!(found, Reference::Elsewhere(elsewhere.to_owned()));
        }
        for nowhere in ["", "#top", "data:image/png;base64,AA", "javascript:1"] {
            assert_eq!(resolve("host:80", "/", nowhere), Reference::Nowhere, "{nowhere}");
        }
    }
}
