//! Finds the links of a document to its own server, in directory listings and in pages.

use html5gum::{DefaultEmitter, StartTag, Token, Tokenizer};

use super::embedded::attribute;
use super::reference::{Reference, resolve};
use crate::url::Url;

/// The targets on the same server (path and query) that the document at `url` refers to, in order of
/// appearance. Duplicates are included.
pub fn links<'a>(url: &'a Url, document: &'a [u8]) -> impl Iterator<Item = String> + 'a {
    let mut emitter = DefaultEmitter::default();
    // Otherwise, text in scripts that looks like a tag would be parsed as a tag.
    emitter.naively_switch_states(true);
    let host = url.host_field();
    let mut base = url.target.clone();
    let tokens = Tokenizer::new_with_emitter(document, emitter).flatten();
    tokens.filter_map(move |token| {
        let Token::StartTag(tag) = token else { return None };
        let Reference::Here(target) = resolve(&host, &base, &reference(&tag)?) else { return None };
        if tag.name.as_slice() == b"base" {
            base = target;
            return None;
        }
        Some(target)
    })
}

fn reference(tag: &StartTag<()>) -> Option<String> {
    match tag.name.as_slice() {
        b"a" | b"area" | b"link" | b"base" => attribute(tag, "href"),
        b"img" | b"script" | b"iframe" | b"frame" | b"embed" | b"audio" | b"video" | b"source"
        | b"track" => attribute(tag, "src"),
        b"object" => attribute(tag, "data"),
        _ => None,
    }
}

/// Whether a document is a generated directory listing, not a page that somebody wrote. Recognises the titles
/// of `anabranch serve`, nginx, Apache and Python.
pub fn is_listing(url: &Url, document: &[u8]) -> bool {
    let mut tokens = Tokenizer::new(document).flatten();
    let is_title =
        |token: &Token| matches!(token, Token::StartTag(tag) if tag.name.as_slice() == b"title");
    if !tokens.any(|token| is_title(&token)) {
        return false;
    }
    let Some(Token::String(title)) = tokens.next() else { return false };
    let title = String::from_utf8_lossy(&title.value);
    let path = percent_encoding::percent_decode_str(&url.target).decode_utf8_lossy();
    let bare = path.trim_end_matches('/');
    [&*title, title.strip_prefix("Index of ").unwrap_or_default()].contains(&&*path)
        || title.strip_prefix("Index of ") == Some(bare)
        || title.strip_prefix("Directory listing for ") == Some(&path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_and_listings_known() {
        let url: Url = "http://h/a%20b/".parse().unwrap();
        let document = b"<title>Index of /a b/</title><a href='../'>up</a><A HREF=\"./x%26y#z\">x</A>\
            <a name=here>no</a><!-- <a href=no> --><a href=http://e/f>e</a><a href='d/'>d</a>\
            <script>'<a href=no>'</script><img src=//h/i.png><a href=mailto:x@y>m</a><a href=%2e%2e/>u</a>\
            <base href=/other/><a href=?C=N>n</a><link href=s.css>";
        let found: Vec<_> = links(&url, document).collect();
        let expected = ["/", "/a%20b/x%26y", "/a%20b/d/", "/i.png", "/a%20b/%2e%2e/"];
        assert_eq!(found, [&expected[..], &["/other/?C=N", "/other/s.css"]].concat());
        assert!(is_listing(&url, document));
        for title in ["/a b/", "Directory listing for /a b/", "Index of /a b"] {
            assert!(is_listing(&url, format!("<title>{title}</title>").as_bytes()), "{title}");
        }
        for page in ["<title>Home</title>", "<title></title>", "", "<p>Index of /a b/"] {
            assert!(!is_listing(&url, page.as_bytes()), "{page}");
        }
    }

    #[test]
    fn bytes_that_are_no_document_link_to_nothing() {
        let url: Url = "http://h/".parse().unwrap();
        for bytes in [&b""[..], b"<", b"<a", b"<a href=", b"\xff\xfe<a href=\xff\x00", b"</"] {
            let _ = (links(&url, bytes).count(), is_listing(&url, bytes));
        }
    }
}
