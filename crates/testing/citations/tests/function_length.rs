//! No function has more than 90 lines of code.
//!
//! Clippy refuses more than 70 (`clippy.toml`). A function that is longer for a good reason has an `#[expect]`
//! with that reason; this test sees to the reason and to the limit that holds for these functions, too. It also reads
//! what clippy does not see: code for other systems, and crates outside of the workspace.
//!
//! The sources are formatted, so a function ends with a brace that is indented like its first line.

mod common;

use std::fs;

use common::{files, root};

/// Lines of code, without blank lines and comments, between the braces of a function.
const MOST: usize = 90;

/// Words that may stand before `fn`.
const QUALIFIERS: &[&str] = &["pub", "const", "async", "unsafe", "extern", "default"];

#[derive(Debug, PartialEq, Eq)]
struct Function<'a> {
    /// Number of its first line.
    line: usize,
    name: &'a str,
    /// Lines of code of its body.
    length: usize,
}

/// The name of the function that begins on this line, if one does.
fn begun(line: &str) -> Option<&str> {
    let (before, rest) = line.trim_start().split_once("fn ")?;
    let is_qualifier = |word: &str| {
        let word = word.split('(').next().unwrap_or(word);
        QUALIFIERS.contains(&word) || word.starts_with('"') || word.ends_with(')')
    };
    let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    (!name.is_empty() && before.split_whitespace().all(is_qualifier)).then_some(name)
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Lines that are neither blank nor comments.
fn code_lines(lines: &[&str]) -> usize {
    let is_code = |line: &&&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    lines.iter().filter(is_code).count()
}

/// The functions that have a body of more than one line.
fn functions(text: &str) -> Vec<Function<'_>> {
    let lines: Vec<&str> = text.lines().collect();
    let mut all = Vec::new();
    for (first, line) in lines.iter().enumerate() {
        let Some(name) = begun(line) else { continue };
        let outer = indentation(line);
        // The line that ends the signature: it has the body, opens it, or there is none.
        let ends = |line: &&str| indentation(line) == outer && line.ends_with(['{', '}', ';']);
        let Some(signature) = lines[first..].iter().position(ends) else { continue };
        let body = first + signature + 1;
        if !lines[body - 1].ends_with('{') {
            continue;
        }
        let closes = |line: &&str| indentation(line) == outer && line.trim_start() == "}";
        let end = lines[body..].iter().position(closes);
        let end = end.unwrap_or_else(|| panic!("no end of {name}: {line}"));
        let length = code_lines(&lines[body..body + end]);
        all.push(Function { line: first + 1, name, length });
    }
    all
}

/// Attributes about the length of functions that are no `expect` with a reason, by the number of their line.
fn unexplained(text: &str) -> Vec<usize> {
    let lines: Vec<&str> = text.lines().collect();
    let mut all = Vec::new();
    for (first, line) in lines.iter().enumerate() {
        let line = line.trim_start();
        if !line.starts_with("#[") && !line.starts_with("#![") {
            continue;
        }
        let end = lines[first..].iter().position(|line| line.ends_with(']'));
        let attribute = lines[first..=first + end.unwrap_or(0)].join(" ");
        let is_explained = line.starts_with("#[expect(") && attribute.contains("reason = \"");
        if attribute.contains("clippy::too_many_lines") && !is_explained {
            all.push(first + 1);
        }
    }
    all
}

#[test]
fn no_function_is_too_long() {
    let root = root();
    let (mut complaints, mut found) = (Vec::new(), 0);
    for file in files(&root).iter().filter(|file| file.ends_with(".rs")) {
        let path = &file[1..];
        let text = fs::read_to_string(root.join(path)).unwrap();
        for Function { line, name, length } in functions(&text) {
            found += 1;
            if length > MOST {
                complaints.push(format!("{path}:{line}: {name} has {length} lines: split it"));
            }
        }
        let give_a_reason = |line| format!("{path}:{line}: write #[expect(.., reason = \"..\")]");
        complaints.extend(unexplained(&text).into_iter().map(give_a_reason));
    }
    assert!(complaints.is_empty(), "more than {MOST} lines:\n{}", complaints.join("\n"));
    assert!(found > 5000, "only {found} functions were read");
}

#[test]
fn lengths_are_counted_as_clippy_does() {
    let text = "\
impl A {
    pub(crate) const fn a(
        b: u8,
    ) -> u8
    where
        B: C,
    {
        // A comment.

        if b {
            c
        }
    }
    extern \"C\" fn one_line() { 7 }
    fn declared();
}
/// fn in_a_comment() {
async fn nested() {
    fn inner() {
        1
    }
    inner
}
";
    let of = |line, name, length| Function { line, name, length };
    assert_eq!(functions(text), [of(2, "a", 3), of(18, "nested", 4), of(19, "inner", 1)]);
}

#[test]
fn a_longer_function_needs_a_reason() {
    let text = "\
@[expect(clippy::too_many_lines, reason = \"a table\")]
@[expect(
    clippy::too_many_lines,
    reason = \"a longer reason\"
)]
@[expect(clippy::too_many_lines)]
@[allow(clippy::too_many_lines, reason = \"not checked when it is short\")]
@![allow(
    clippy::too_many_lines
)]
";
    // This file must not have such attributes itself.
    let text = text.replace('@', "#");
    assert_eq!(unexplained(&text), [6, 7, 8]);
}
