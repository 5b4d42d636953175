//! Resolves the names of pattern files, which are relative to the scenario file.

use std::path::Path;

use crate::tree::{Node, Value};

/// Makes the names of pattern files in paths and links independent of the working directory.
pub(super) fn rebase(tree: &mut Node, base: &Path) {
    for section in ["path", "link"] {
        for entry in children(tree).filter(|(name, _)| name == section) {
            for (_, channel) in children(&mut entry.1) {
                for (key, file) in children(channel) {
                    if let ("pattern" | "pattern_back", Value::Text(name)) =
                        (key.as_str(), &mut file.value)
                    {
                        *name = base.join(&*name).display().to_string();
                    }
                }
            }
        }
    }
}

fn children(node: &mut Node) -> impl Iterator<Item = &mut (String, Node)> {
    match &mut node.value {
        Value::Table(entries) => entries.iter_mut(),
        _ => [].iter_mut(),
    }
}
