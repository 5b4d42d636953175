//! Requirements of a document: found in its text once, kept as a table without the text.
//!
//! A line of the table has, separated by tabs: section, number within the section, keyword, a
//! few words around the keyword, and the fingerprints of all runs of three words of the
//! sentence, as six hexadecimal digits each.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::words::{fingerprints, words};

/// Words kept of a sentence, so that a reader finds it in the document.
const SHOWN: usize = 8;

/// One keyword of one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Requirement {
    pub(crate) section: String,
    /// Number within the section, from 1.
    pub(crate) number: usize,
    /// RFC 2119 keyword.
    pub(crate) keyword: String,
    /// A few words around it.
    pub(crate) about: String,
    pub(crate) fingerprints: BTreeSet<u32>,
}

impl Requirement {
    /// Whether a quotation's words are in this requirement's sentence. A quotation with a keyword
    /// itself means the requirements with that keyword.
    pub(crate) fn has(&self, quoted: &[&str]) -> bool {
        let runs = fingerprints(quoted);
        let found: Vec<String> = keywords(quoted).map(|(_, keyword)| keyword).collect();
        !runs.is_empty()
            && self.fingerprints.is_superset(&runs)
            && (found.is_empty()
                || found.contains(&self.keyword)
                // A quotation may stop before the NOT.
                || found.iter().any(|keyword| {
                    quoted.last() == Some(&keyword.as_str())
                        && self.keyword == format!("{keyword} NOT")
                }))
    }
}

/// The RFC 2119 keywords among some words, as (position, keyword).
fn keywords<'a>(words: &'a [&'a str]) -> impl Iterator<Item = (usize, String)> + 'a {
    words.iter().enumerate().filter_map(|(at, word)| {
        let negated = words.get(at + 1) == Some(&"NOT");
        match *word {
            "MUST" | "SHALL" | "SHOULD" if negated => Some((at, format!("{word} NOT"))),
            "RECOMMENDED" if at > 0 && words[at - 1] == "NOT" => {
                Some((at, "NOT RECOMMENDED".to_owned()))
            }
            "MUST" | "SHALL" | "SHOULD" | "REQUIRED" | "RECOMMENDED" | "MAY" | "OPTIONAL" => {
                Some((at, (*word).to_owned()))
            }
            _ => None,
        }
    })
}

/// Finds the requirements in the text of an RFC.
pub(crate) fn extract(text: &str) -> Vec<Requirement> {
    let mut found: Vec<Requirement> = Vec::new();
    let mut section = String::new();
    let mut number = 0;
    let mut contents = true;
    for paragraph in paragraphs(text) {
        if let Some(heading) = heading(&paragraph) {
            // The table of contents is indented; the first heading at the margin ends it.
            contents = false;
            section = heading;
            number = 0;
            continue;
        }
        if contents {
            continue;
        }
        for sentence in sentences(&paragraph) {
            let words = words(&sentence);
            for (at, keyword) in keywords(&words) {
                number += 1;
                let from = at.saturating_sub(3).min(words.len().saturating_sub(SHOWN));
                found.push(Requirement {
                    section: section.clone(),
                    number,
                    keyword,
                    about: words[from..words.len().min(from + SHOWN)].join(" "),
                    fingerprints: fingerprints(&words),
                });
            }
        }
    }
    found
}

/// The section's number if a paragraph is a heading.
fn heading(paragraph: &str) -> Option<String> {
    let first = paragraph.strip_prefix("Appendix ").unwrap_or(paragraph);
    let (number, rest) = first.split_once(". ")?;
    let letter = number.len() == 1 && number.chars().all(|c| c.is_ascii_uppercase());
    let digits = number.split('.').all(|part| {
        !part.is_empty() && part.len() <= 2 && part.chars().all(|c| c.is_ascii_digit())
    });
    let fits = (digits || (letter && paragraph.starts_with("Appendix")))
        && rest.starts_with(' ')
        && !paragraph.starts_with(' ');
    fits.then(|| number.to_owned())
}

/// Blocks of lines between empty ones, without the headers and footers of pages.
fn paragraphs(text: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    for line in text.lines() {
        let page = line.starts_with('\u{c}')
            || line.starts_with("RFC ")
            || (line.contains("[Page ") && line.ends_with(']'));
        if page || line.trim().is_empty() {
            if found.last().is_some_and(|last| !last.is_empty()) {
                found.push(String::new());
            }
        } else if let Some(last) = found.last_mut() {
            last.push_str(line);
            last.push('\n');
        }
    }
    found
}

/// Sentences end with a full stop before a capital letter.
fn sentences(paragraph: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut parts = paragraph.split_whitespace().peekable();
    while let Some(part) = parts.next() {
        let Some(last) = found.last_mut() else { break };
        last.push_str(part);
        last.push(' ');
        let stop = part.trim_end_matches([')', '"']).ends_with(['.', '?', '!']);
        let capital = parts.peek().is_some_and(|next| {
            next.trim_start_matches(['(', '"']).starts_with(|c: char| c.is_uppercase())
        });
        if stop && capital {
            found.push(String::new());
        }
    }
    found
}

/// The table as a file.
pub(crate) fn write(requirements: &[Requirement]) -> String {
    let mut out = String::new();
    for requirement in requirements {
        let Requirement { section, number, keyword, about, fingerprints } = requirement;
        let _ = write!(out, "{section}\t{number}\t{keyword}\t{about}\t");
        for fingerprint in fingerprints {
            let _ = write!(out, "{fingerprint:06x}");
        }
        out.push('\n');
    }
    out
}

/// Reads a table.
pub(crate) fn read(text: &str) -> Result<Vec<Requirement>, String> {
    let line = |(index, line): (usize, &str)| {
        parse(line).ok_or_else(|| format!("line {} is no requirement", index + 1))
    };
    text.lines().enumerate().map(line).collect()
}

fn parse(line: &str) -> Option<Requirement> {
    let mut fields = line.split('\t');
    let mut next = || fields.next();
    let (section, number, keyword, about) = (next()?, next()?, next()?, next()?);
    let digits = next()?.as_bytes().chunks(6);
    let fingerprint = |digits: &[u8]| u32::from_str_radix(str::from_utf8(digits).ok()?, 16).ok();
    Some(Requirement {
        section: section.to_owned(),
        number: number.parse().ok()?,
        keyword: keyword.to_owned(),
        about: about.to_owned(),
        fingerprints: digits.map(fingerprint).collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "Table of Contents\n\n   3.  Things\n\n3.  Things\n\n   \
        A thing MUST be round.  It\n   SHOULD NOT\n   be red, and MAY be green.\n\n   \
        Nothing here.\n\n3.1.  More\n\n   1)  It is NOT RECOMMENDED to (ever) stop.\n";

    #[test]
    fn finds_sentences_with_keywords() {
        let found = extract(DOCUMENT);
        let rows: Vec<_> =
            found.iter().map(|r| (r.section.as_str(), r.number, r.keyword.as_str())).collect();
        assert_eq!(
            rows,
            [
                ("3", 1, "MUST"),
                ("3", 2, "SHOULD NOT"),
                ("3", 3, "MAY"),
                ("3.1", 1, "NOT RECOMMENDED")
            ]
        );
        assert_eq!(found[0].about, "A thing MUST be round");
    }

    #[test]
    fn tables_are_read_as_written() {
        let found = extract(DOCUMENT);
        assert_eq!(read(&write(&found)).unwrap(), found);
        assert!(read("3\tx\tMUST\ta\t\n").is_err());
        assert!(read("3").is_err());
    }

    #[test]
    fn quotations_are_verified_word_by_word() {
        let found = extract(DOCUMENT);
        let matches = |quoted: &str| -> Vec<usize> {
            let quoted = words(quoted);
            found.iter().enumerate().filter(|(_, r)| r.has(&quoted)).map(|(i, _)| i).collect()
        };
        assert_eq!(matches("thing MUST be"), [0]);
        assert_eq!(matches("be red, and MAY"), [2]);
        assert_eq!(matches("It SHOULD NOT"), [1]);
        assert_eq!(matches("red and MAY be green"), [2]);
        assert_eq!(matches("be red and"), [1, 2]);
        assert_eq!(matches("thing must be"), [] as [usize; 0]);
        assert_eq!(matches("MUST be"), [] as [usize; 0]);
    }
}
