//! Makes text from files, peers and command lines safe for a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Escapes every character that controls a terminal or is invisible, such as `\u{1b}`. Newlines and tabs are
/// kept.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |c| !matches!(c, '\n' | '\t') && is_unsafe(c))
}

/// Like [`printable`], but for a single line: newlines and tabs are escaped, too.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    escaped(text, is_unsafe)
}

/// Like [`one_line`], but sequences that set colours are kept.
pub(crate) fn coloured_line(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(at) = rest.find('\x1b') {
        safe.push_str(&one_line(&rest[..at]));
        let length = colour(&rest[at..]);
        match length {
            Some(length) => safe.push_str(&rest[at..at + length]),
            None => safe.push_str(&one_line("\x1b")),
        }
        rest = &rest[at + length.unwrap_or(1)..];
    }
    safe.push_str(&one_line(rest));
    Cow::Owned(safe)
}

/// The length of a colour sequence, such as `ESC [ 3 2 m`, at the beginning of a text.
fn colour(text: &str) -> Option<usize> {
    let numbers = text.strip_prefix("\x1b[")?;
    let end = numbers.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    numbers[end..].starts_with('m').then_some("\x1b[".len() + end + 1)
}

/// A JSON document with these characters as JSON escapes; they can occur only in its strings.
pub(crate) fn printable_json(document: &str) -> Cow<'_, str> {
    let obeyed = |c: char| !matches!(c, '\n' | '\t') && is_unsafe(c);
    if !document.contains(obeyed) {
        return Cow::Borrowed(document);
    }
    let mut text = String::with_capacity(document.len() + 16);
    for c in document.chars() {
        if obeyed(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string does not fail.
                let _ = write!(text, "\\u{unit:04x}");
            }
        } else {
            text.push(c);
        }
    }
    Cow::Owned(text)
}

fn escaped(text: &str, obeyed: impl Fn(char) -> bool + Copy) -> Cow<'_, str> {
    if !text.contains(obeyed) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if obeyed(c) { safe.extend(c.escape_default()) } else { safe.push(c) }
    }
    Cow::Owned(safe)
}

/// Control characters (C0, DEL, C1), and characters that change the direction of text, break lines or are
/// invisible.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}'
                | '\u{200b}'
                | '\u{200e}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_escaped() {
        let cases = [
            ("plain, é, 漢, 👩\u{200d}🚀", "plain, é, 漢, 👩\u{200d}🚀"),
            ("two\nlines\tand a tab", "two\nlines\tand a tab"),
            ("\x1b]0;title\x07", "\\u{1b}]0;title\\u{7}"),
            ("a\0b\rc\x7fd", "a\\u{0}b\\rc\\u{7f}d"),
            ("\u{9b}2J\u{85}", "\\u{9b}2J\\u{85}"),
            ("\u{202e}gpj.exe\u{2066}", "\\u{202e}gpj.exe\\u{2066}"),
            ("\u{feff}\u{200b}\u{2028}", "\\u{feff}\\u{200b}\\u{2028}"),
            ("\u{e0041}", "\\u{e0041}"),
        ];
        for (text, safe) in cases {
            assert_eq!(printable(text), safe);
            // Safe text stays unchanged.
            assert_eq!(printable(safe), safe);
        }
        assert_eq!(one_line("a\nb\tc"), "a\\nb\\tc");
    }

    #[test]
    fn every_control_character_is_escaped() {
        for c in (0..0x2_0000).filter_map(char::from_u32).filter(|c| c.is_control()) {
            let text = c.to_string();
            assert_eq!(printable(&text) == text, matches!(c, '\n' | '\t'), "{c:?}");
            assert!(one_line(&text).starts_with('\\'), "{c:?}");
        }
    }

    #[test]
    fn documents_mean_the_same() {
        let value = serde_json::json!({ "a\u{9b}": "\x1b\x7f\u{202e}\u{e0041}é\n" });
        let document = value.to_string();
        let safe = printable_json(&document);
        assert!(!safe.contains(is_unsafe), "{safe}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap(), value);
        assert!(matches!(printable_json("{\n  \"a\": 1\n}\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn colours_of_a_log_stay() {
        let cases = [
            ("\x1b[2m12:00\x1b[0m \x1b[38;5;1mpeer\x1b[0m", None),
            (
                "\x1b[32mname=a\0b\u{202e}\nc\x1b[0m",
                Some("\x1b[32mname=a\\u{0}b\\u{202e}\\nc\x1b[0m"),
            ),
            ("\x1b[2J\x1b]0;x\x07\x1b[", Some("\\u{1b}[2J\\u{1b}]0;x\\u{7}\\u{1b}[")),
        ];
        for (text, safe) in cases {
            assert_eq!(coloured_line(text), safe.unwrap_or(text));
        }
    }
}
