//! Files that documents name are there: a path in backticks is one of the repository, whole or from
//! some folder on, as in `congestion/controller.rs`.

mod common;

use std::fs;

use common::{files, root};

/// Endings of names that refer to files of the repository.
const ENDINGS: &[&str] = &[".rs", ".pkt", ".sh"];

/// The paths in a text's backticks, with their lines; code blocks are left out.
fn named(text: &str) -> Vec<(usize, &str)> {
    let mut is_code = false;
    let mut all = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            // The text between the first and the second backtick, the third and the fourth, ...
            let spans = line.split('`').skip(1).step_by(2);
            all.extend(spans.map(|span| (number + 1, span)));
        }
    }
    let is_path = |span: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "/._-{},".contains(c);
        span.chars().all(plain) && ENDINGS.iter().any(|end| span.ends_with(end))
    };
    all.retain(|(_, span)| is_path(span));
    all
}

/// `a/{b,c}.rs` are two paths.
fn expanded(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else { return vec![path.to_owned()] };
    let Some((list, after)) = rest.split_once('}') else { return vec![path.to_owned()] };
    list.split(',').flat_map(|one| expanded(&format!("{before}{one}{after}"))).collect()
}

#[test]
fn documents_name_files_that_are_there() {
    let root = root();
    let all = files(&root);
    let is_page = |file: &&String| file.ends_with(".md") && !file.ends_with("CHANGELOG.md");
    let (mut missing, mut found) = (Vec::new(), 0);
    for page in all.iter().filter(is_page) {
        let text = fs::read_to_string(root.join(&page[1..])).unwrap();
        for (line, span) in named(&text) {
            for path in expanded(span) {
                let path = path.trim_start_matches("./").trim_start_matches("../");
                if all.iter().any(|file| file.ends_with(&format!("/{path}"))) {
                    found += 1;
                } else {
                    missing.push(format!("{}:{line}: `{path}`", &page[1..]));
                }
            }
        }
    }
    assert!(missing.is_empty(), "no such files:\n{}", missing.join("\n"));
    assert!(found > 100, "only {found} names were read");
}

#[test]
fn paths_are_read_out_of_backticks() {
    let text = "see `a/b.rs` and `cargo run`, `c/{d,e}.rs`\n```\n`f.rs`\n```\n`g.pkt` `*.rs`";
    assert_eq!(named(text), [(1, "a/b.rs"), (1, "c/{d,e}.rs"), (5, "g.pkt")]);
    assert_eq!(expanded("c/{d,e}.rs"), ["c/d.rs", "c/e.rs"]);
}
