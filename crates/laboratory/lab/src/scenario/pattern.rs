//! Resolves the names of pattern files, which are relative to the scenario file.

use std::collections::BTreeSet;
use std::path::Path;

use super::axis::Axis;
use crate::tree::{Node, Value};

/// Keys of paths and links whose values are names of pattern files.
const KEYS: [&str; 2] = ["pattern", "pattern_back"];

/// Makes the names of pattern files in paths and links independent of the working directory.
pub(super) fn rebase(tree: &mut Node, base: &Path) {
    for section in ["path", "link"] {
        for entry in children(tree).filter(|(name, _)| name == section) {
            for (_, channel) in children(&mut entry.1) {
                for (key, file) in children(channel) {
                    if let (true, Value::Text(name)) =
                        (KEYS.contains(&key.as_str()), &mut file.value)
                    {
                        *name = base.join(&*name).display().to_string();
                    }
                }
            }
        }
    }
}

/// The names of pattern files in a scenario, as it spells them: in its paths and links, and in the values of axes.
pub(super) fn files(tree: &Node, axes: &[Axis]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for section in ["path", "link"] {
        tree.get(section).into_iter().for_each(|node| named(section, node, &mut found));
    }
    for (path, node) in axes.iter().flat_map(|axis| &axis.values).flat_map(|value| &value.overlay) {
        named(path.rsplit('.').next().unwrap_or_default(), node, &mut found);
    }
    found
}

fn named(key: &str, node: &Node, found: &mut BTreeSet<String>) {
    match &node.value {
        Value::Table(entries) => entries.iter().for_each(|(key, node)| named(key, node, found)),
        Value::Text(name) if KEYS.contains(&key) => {
            found.insert(name.clone());
        }
        _ => {}
    }
}

fn children(node: &mut Node) -> impl Iterator<Item = &mut (String, Node)> {
    match &mut node.value {
        Value::Table(entries) => entries.iter_mut(),
        _ => [].iter_mut(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::scenario::Scenario;
    use crate::scenario::tests::text;

    #[test]
    fn the_contents_of_pattern_files_are_part_of_the_scenario() {
        let dir = tempfile::tempdir().unwrap();
        let pattern = |before: u32| {
            format!("anabranch pattern 1\npattern loss per packet\nvalues\n{before}*. x\n")
        };
        let resolved = |text: &str| {
            Scenario::read(text, &dir.path().join("a.toml"), "a", &[]).unwrap().resolved
        };
        let file = text().replace("[path.primary]", "[path.primary]\npattern = \"x.pattern\"");
        assert_ne!(file, text());
        std::fs::write(dir.path().join("x.pattern"), pattern(1)).unwrap();
        let first = resolved(&file);
        assert!(first.contains("\nfile \"x.pattern\" = ") && !first.ends_with("none\n"), "{first}");
        std::fs::write(dir.path().join("x.pattern"), pattern(2)).unwrap();
        assert_ne!(resolved(&file), first);
        // Only an axis names a file.
        let axis =
            "[axis.which.variants]\none = { path.primary.pattern = \"x.pattern\" }\nno = {}\n";
        let varied = resolved(&format!("{}{axis}", text()));
        assert!(varied.contains("\nfile \"x.pattern\" = "), "{varied}");
        assert!(!Path::new("x.pattern").exists(), "names are relative to the scenario");
    }
}
