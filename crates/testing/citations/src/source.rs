//! Citations in sources and in the list of exemptions.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The meaning of a citation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The line after it implements the requirement.
    Required,
    /// The test after it shows that.
    Tested,
    /// This is not done, or not the software's business.
    Exempt,
}

/// One citation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Citation {
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) kind: Kind,
    pub(crate) document: String,
    pub(crate) section: String,
    pub(crate) quoted: String,
    /// Why, for an exemption.
    pub(crate) reason: String,
}

/// All citations of a text, or for each that is malformed its line number.
pub(crate) fn citations(file: &str, text: &str) -> Vec<Result<Citation, usize>> {
    let lines: Vec<&str> = text.lines().map(comment).collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let kinds =
            [("req: ", Kind::Required), ("test: ", Kind::Tested), ("exempt: ", Kind::Exempt)];
        let start = kinds.iter().find_map(|(mark, kind)| Some((*kind, line.strip_prefix(mark)?)));
        let Some((kind, rest)) = start.filter(|(_, rest)| rest.starts_with("rfc")) else {
            continue;
        };
        let citation = parse(kind, rest, &lines[index + 1..]);
        found.push(match citation {
            Some(citation) => Ok(Citation { file: file.to_owned(), line: index + 1, ..citation }),
            None => Err(index + 1),
        });
    }
    found
}

/// A line without its comment marks; empty if it is not a comment. In a list every line counts.
fn comment(line: &str) -> &str {
    let line = line.trim_start();
    ["///", "//!", "//", "- "].iter().find_map(|mark| line.strip_prefix(mark)).map_or("", str::trim)
}

/// `rest`: the line from the document on; a quotation or reason may go on in `following` lines.
fn parse(kind: Kind, rest: &str, following: &[&str]) -> Option<Citation> {
    let (document, rest) = rest.split_once(' ')?;
    let (section, rest) = rest.split_once(' ')?;
    let mut text = rest.strip_prefix('"')?.to_owned();
    for line in following {
        let ended = text.contains('"') && kind != Kind::Exempt;
        let next = ["req: ", "test: ", "exempt: "].iter().any(|mark| line.starts_with(mark));
        if ended || next || line.is_empty() {
            break;
        }
        text.push(' ');
        text.push_str(line);
    }
    let (quoted, reason) = text.split_once('"')?;
    let reason = reason.trim();
    if kind == Kind::Exempt && reason.is_empty() {
        return None;
    }
    Some(Citation {
        file: String::new(),
        line: 0,
        kind,
        document: document.to_owned(),
        section: section.to_owned(),
        quoted: quoted.to_owned(),
        reason: reason.to_owned(),
    })
}

/// The Rust sources and packet scripts below some folder, sorted.
pub(crate) fn sources(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                if path.file_name().is_none_or(|name| name != "target") {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|known| known == "rs" || known == "pkt") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_comments_of_every_form() {
        // The marks are put together here so that this file has no citations itself.
        let text = format!(
            "fn f() {{\n    // {r} rfc1 2.3 \"a b\n    // c\"\n    /// {t} rfc1 4 \"d\"\n\
             - {e} rfc1 A \"x y z\" not for\n  // us\n// {e} rfc1 5 \"no reason\"\n{r} rfc1 6 \"code\"\n",
            r = "req:",
            t = "test:",
            e = "exempt:"
        );
        let found = citations("f.rs", &text);
        let [Ok(a), Ok(b), Ok(c), Err(7)] = &found[..] else { panic!("{found:?}") };
        assert_eq!((a.kind, a.line, a.section.as_str()), (Kind::Required, 2, "2.3"));
        assert_eq!(a.quoted, "a b c");
        assert_eq!((b.kind, b.quoted.as_str()), (Kind::Tested, "d"));
        assert_eq!((c.kind, c.reason.as_str()), (Kind::Exempt, "not for us"));
        assert_eq!((c.document.as_str(), c.section.as_str()), ("rfc1", "A"));
    }
}
