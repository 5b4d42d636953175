//! The text of a scenario after the changes of the command line, which its hash is computed from.

use std::fmt::Write as _;
use std::path::Path;

use anabranch_impair::pattern::load;
use sha2::{Digest as _, Sha256};

use super::axis::Axis;
use super::pattern;
use crate::tree::{Node, Value};

/// One line for each value in the file, then the values of each axis that are run, and the SHA-256 of each pattern
/// file. Comments, spaces and the place of the file make no difference; every field does.
pub(super) fn text(tree: &Node, axes: &[Axis], base: &Path) -> String {
    let mut text = String::new();
    lines(&mut text, "", tree);
    // Writing to a string does not fail.
    for axis in axes {
        let values: Vec<String> = axis.values.iter().map(|value| quoted(&value.text)).collect();
        let _ = writeln!(text, "run {} = [{}]", key(&axis.name), values.join(", "));
    }
    for name in pattern::files(tree, axes) {
        let path = base.join(&name);
        // A pipe can be read only once. A file that is missing here is named by no point, or was refused before.
        let bytes = if path.is_file() { load(&path).ok() } else { None };
        let hash = bytes.map_or_else(|| "none".to_owned(), |bytes| sha256(&bytes));
        let _ = writeln!(text, "file {} = {hash}", quoted(&name));
    }
    text
}

/// SHA-256 in hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn lines(text: &mut String, path: &str, node: &Node) {
    match &node.value {
        Value::Table(entries) => {
            for (name, node) in entries {
                let dot = if path.is_empty() { "" } else { "." };
                lines(text, &format!("{path}{dot}{}", key(name)), node);
            }
        }
        Value::List(nodes) if nodes.iter().any(|node| matches!(node.value, Value::Table(_))) => {
            for (index, node) in nodes.iter().enumerate() {
                lines(text, &format!("{path}[{index}]"), node);
            }
        }
        _ => {
            let _ = writeln!(text, "{path} = {}", value(node));
        }
    }
}

fn value(node: &Node) -> String {
    match &node.value {
        Value::Text(text) => quoted(text),
        // 1.0 is not the same as 1: a field may take only one of them.
        Value::Float(number) => format!("{number:?}"),
        Value::List(nodes) => {
            format!("[{}]", nodes.iter().map(value).collect::<Vec<_>>().join(", "))
        }
        Value::Integer(_) | Value::Flag(_) | Value::Table(_) => node.text(),
    }
}

/// A name, in quotes if it is not a bare key of TOML.
fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if !name.is_empty() && name.chars().all(is_bare) { name.to_owned() } else { quoted(name) }
}

/// A text on one line.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use crate::scenario::tests::{read, text};

    #[test]
    fn only_what_changes_the_experiment_changes_its_text() {
        let of = |text: &str, changes: &[(&str, &str)]| read(text, changes).unwrap().resolved;
        let plain = of(&text(), &[]);
        assert!(plain.starts_with("title = \"A test\"\nrun.seeds = 10\n"), "{plain}");
        let axis = "axis.loss.values = [\"1 %\", \"3 %\"]\n";
        assert!(plain.contains(axis) && plain.ends_with("run policy = [\"Same\", \"Alt\"]\n"));
        let commented = format!("# A comment\n{}", text().replace("seeds = 10", "seeds  =  10"));
        assert_eq!(of(&commented, &[]), plain);
        // It does not matter whether the file or the command line says it.
        let eleven = text().replace("seeds = 10", "seeds = 11");
        assert_eq!(of(&text(), &[("run.seeds", "11")]), of(&eleven, &[]));
        let changed = [("run.seeds", "11"), ("loss", "3"), ("loss", "7 %"), ("policy", "Alt")];
        let all: std::collections::BTreeSet<String> =
            changed.iter().map(|change| of(&text(), &[*change])).chain([plain]).collect();
        assert_eq!(all.len(), 5, "{all:?}");
    }

    #[test]
    fn claims_and_texts_of_several_lines_have_lines_of_their_own() {
        let claim = "[[claim]]\nid = 'a'\nkind = 'value'\ntext = \"two\\nlines\"\nsource = 's'\n\
                     at_most = 1.0\nformula = '2'\n";
        let resolved = read(&format!("{}{claim}", text()), &[]).unwrap().resolved;
        assert!(resolved.contains("\nclaim[0].text = \"two\\nlines\"\n"), "{resolved}");
        assert!(resolved.contains("\nclaim[0].at_most = 1.0\n"), "{resolved}");
    }

    #[test]
    fn a_hash_is_that_of_the_text() {
        let scenario = read(&text(), &[]).unwrap();
        assert_eq!(scenario.sha256(), super::sha256(scenario.resolved.as_bytes()));
        let nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(super::sha256(b""), nothing);
    }
}
