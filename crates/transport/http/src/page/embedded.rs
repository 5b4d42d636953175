//! Finds the embedded objects of an HTML document.

use std::collections::BTreeSet;

use html5gum::{DefaultEmitter, StartTag, Token, Tokenizer};

use super::reference::{Reference, resolve};

/// The embedded objects of a document, without duplicates, in order of appearance.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Embedded {
    /// Paths and queries on the same server.
    pub(super) targets: Vec<String>,
    /// Objects on other servers.
    pub(super) left_out: Vec<String>,
    /// Objects on the same server beyond the limit.
    pub(super) beyond: Vec<String>,
}

/// Parses the document at `target` on `host`; finds up to `most` objects.
pub(super) fn embedded(host: &str, target: &str, document: &[u8], most: usize) -> Embedded {
    let mut found = Embedded::default();
    let (mut base, mut seen) = (target.to_owned(), BTreeSet::new());
    let mut emitter = DefaultEmitter::default();
    // Otherwise, text in scripts that looks like a tag would be parsed as a tag.
    emitter.naively_switch_states(true);
    // HTML parsers recover from all errors, so this never fails.
    for token in Tokenizer::new_with_emitter(document, emitter).flatten() {
        let Token::StartTag(tag) = token else { continue };
        if tag.name.as_slice() == b"base" {
            if let Some(Reference::Here(path)) =
                attribute(&tag, "href").map(|href| resolve(host, &base, &href))
            {
                base = path;
            }
            continue;
        }
        let Some(reference) = reference(&tag) else { continue };
        match resolve(host, &base, &reference) {
            Reference::Here(path) if path == target || !seen.insert(path.clone()) => {}
            Reference::Here(path) if found.targets.len() < most => found.targets.push(path),
            Reference::Here(path) => found.beyond.push(path),
            Reference::Elsewhere(path) => found.left_out.push(path),
            Reference::Nowhere => {}
        }
    }
    found
}

/// The object that an element needs for display.
fn reference(tag: &StartTag<()>) -> Option<String> {
    let has = |name: &str, words: &[&str]| {
        let value = attribute(tag, name).unwrap_or_default().to_ascii_lowercase();
        value.split_ascii_whitespace().any(|word| words.contains(&word))
    };
    match tag.name.as_slice() {
        b"img" | b"script" | b"iframe" | b"embed" | b"frame" => attribute(tag, "src"),
        b"input" if has("type", &["image"]) => attribute(tag, "src"),
        b"link" if has("rel", &["stylesheet", "icon"]) => attribute(tag, "href"),
        b"object" => attribute(tag, "data"),
        b"video" => attribute(tag, "poster"),
        b"body" => attribute(tag, "background"),
        _ => None,
    }
}

pub(super) fn attribute(tag: &StartTag<()>, name: &str) -> Option<String> {
    let value = tag.attributes.get(name.as_bytes())?;
    Some(String::from_utf8_lossy(value).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_page_embeds_is_found() {
        let page = br#"<!doctype html><title>x</title><link rel="Icon shortcut" href=icon.png>
            <link rel=next href=next.html><LINK REL=stylesheet HREF="a.css?x=1&amp;y=2">
            <!-- <img src="comment.jpg"> --><script>"<img src='script.jpg'>"</script>
            <img src=1.jpg><img src='1.jpg#again'><img alt="<img src=alt.jpg>" src = "b/2.jpg">
            <a href="3.jpg">3</a><img src="//elsewhere/4.jpg"><img src="data:image/png;base64,AA">
            <input type=image src=5.png><input src=6.png><video poster=7.jpg></video><img src=8.jpg"#;
        let found = embedded("host", "/d/index.html", page, 100);
        let expected = ["icon.png", "a.css?x=1&y=2", "1.jpg", "b/2.jpg", "5.png", "7.jpg"];
        assert_eq!(found.targets, expected.map(|name| format!("/d/{name}")));
        assert_eq!(found.left_out, ["//elsewhere/4.jpg"]);
        let few = embedded("host", "/d/index.html", page, 2);
        assert_eq!((few.targets.len(), few.beyond.len(), few.left_out.len()), (2, 4, 1));
    }

    #[test]
    fn a_base_moves_what_follows() {
        let page = b"<img src=1><base href='/other/'><img src=2><base href='http://evil/'>";
        assert_eq!(embedded("host", "/d/", page, 9).targets, ["/d/1", "/other/2"]);
    }

    #[test]
    fn bytes_that_are_no_document_embed_nothing() {
        for bytes in [&b""[..], b"<", b"<img", b"<img src=", b"\xff\xfe<img src=\xff\x00", b"</"] {
            let _ = embedded("host", "/", bytes, 9);
        }
        assert_eq!(embedded("host", "/", b"<img src=a", 9), Embedded::default());
    }
}
