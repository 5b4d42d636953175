//! Modules that import each other in a circle can only be understood together.
//!
//! Imports are read from the sources of a crate: whatever a file names as `crate::module`, `super::module` or
//! `self::module`, tests left out. Modules of one folder are compared with each other, at every depth. A folder's own
//! file may name what is in the folder, and the other way round.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The place of a module in its crate: `["send", "outstanding"]`.
type Place = Vec<String>;

/// For each folder (by its place) the imports between the modules in it.
type Imports = BTreeMap<Place, BTreeMap<String, BTreeSet<String>>>;

/// Files that only tests use.
const FOR_TESTS: &[&str] = &["tests", "invariants", "ring_model"];

/// Checks that no modules of a crate import each other in a circle.
///
/// # Panics
/// If some do, with their names and what they import; if the sources of the crate in the folder `manifest` cannot
/// be read, or if nothing in them imports anything.
pub fn assert_none(manifest: &str) {
    let sources = Path::new(manifest).join("src");
    let mut files = Vec::new();
    read(&sources, &Vec::new(), &mut files);
    let imports = imports(&files);
    assert!(!imports.is_empty(), "no imports were found in {}", sources.display());
    let circles = circles(&imports);
    assert!(circles.is_empty(), "modules in circles:\n{}", circles.join("\n"));
}

/// The modules that are part of a circle, each with what it imports.
fn circles(imports: &Imports) -> Vec<String> {
    let mut found = Vec::new();
    for (folder, between) in imports {
        for (module, others) in between {
            let circle = reached(module, between);
            if circle.contains(module) {
                let others: Vec<&str> = others.iter().map(String::as_str).collect();
                let place: Vec<&str> = folder.iter().chain([module]).map(String::as_str).collect();
                found.push(format!("{} imports {}", place.join("::"), others.join(", ")));
            }
        }
    }
    found
}

/// All files below `folder` with their places.
fn read(folder: &Path, place: &Place, files: &mut Vec<(Place, String)>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for entry in entries {
        let path = entry.expect("an entry of a folder").path();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).expect("a file name in UTF-8");
        if FOR_TESTS.contains(&stem) || stem.ends_with("_tests") {
            continue;
        }
        let mut inner = place.clone();
        if !["lib", "main", "mod"].contains(&stem) {
            inner.push(stem.to_owned());
        }
        if path.is_dir() {
            read(&path, &inner, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a readable file");
            files.push((inner, code(&text)));
        }
    }
}

/// The part of a source file that is not for tests, without comments.
fn code(text: &str) -> String {
    let text = text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or(text);
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or(line));
    lines.flat_map(|line| [line, "\n"]).collect()
}

fn imports(files: &[(Place, String)]) -> Imports {
    let modules: BTreeSet<&[String]> = files.iter().map(|(place, _)| &place[..]).collect();
    let mut imports = Imports::new();
    for (place, code) in files {
        for target in named(place, code) {
            let shared = place.iter().zip(&target).take_while(|(a, b)| a == b).count();
            let (Some(from), Some(to)) = (place.get(shared), target.get(shared)) else { continue };
            // Other names are functions and the like of the folder's own file.
            if modules.contains(&target[..=shared]) {
                let between = imports.entry(place[..shared].to_vec()).or_default();
                between.entry(from.clone()).or_default().insert(to.clone());
            }
        }
    }
    imports
}

/// The places that a file names, as far as they may be modules.
fn named(place: &Place, code: &str) -> Vec<Place> {
    let mut all = Vec::new();
    let starts = ["crate::", "super::", "self::"];
    let mut rest = code;
    while let Some(at) = starts.iter().filter_map(|start| rest.find(start)).min() {
        let is_word = rest[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        rest = &rest[at..];
        let mut base = place.clone();
        if rest.starts_with("crate::") {
            base.clear();
        }
        let mut path = rest.split_once("::").map_or("", |(_, path)| path);
        if rest.starts_with("super::") {
            base.pop();
        }
        rest = path;
        while let Some(outer) = path.strip_prefix("super::") {
            base.pop();
            path = outer;
            rest = path;
        }
        if !is_word {
            expand(&base, path, &mut all);
        }
    }
    all
}

/// Adds the places that a path leads to: `a::b`, or `{a::b, c}`.
fn expand(base: &Place, path: &str, all: &mut Vec<Place>) {
    if let Some(group) = path.strip_prefix('{') {
        for item in items(group) {
            expand(base, item.trim_start(), all);
        }
        return;
    }
    let name: &str = path.split(|c: char| !c.is_ascii_lowercase() && c != '_').next().unwrap_or("");
    if name.is_empty() || name == "self" {
        all.push(base.clone());
        return;
    }
    let mut inner = base.clone();
    inner.push(name.to_owned());
    match path[name.len()..].strip_prefix("::") {
        Some(rest) => expand(&inner, rest, all),
        None => all.push(inner),
    }
}

/// The items of a group of imports, up to the brace that ends it.
fn items(group: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut items) = (0_usize, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                items.push(&group[begin..at]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                items.push(&group[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    items
}

/// All modules that one leads to.
fn reached<'a>(
    from: &str,
    between: &'a BTreeMap<String, BTreeSet<String>>,
) -> BTreeSet<&'a String> {
    let mut found = BTreeSet::new();
    let mut waiting = vec![from];
    while let Some(module) = waiting.pop() {
        for next in between.get(module).into_iter().flatten() {
            if found.insert(next) {
                waiting.push(next);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(path: &str) -> Place {
        path.split("::").map(str::to_owned).collect()
    }

    fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> = files.iter().map(|(at, text)| (place(at), code(text))).collect();
        circles(&imports(&files))
    }

    #[test]
    fn paths_are_read() {
        let code = "use crate::{a::b, c::{self, D}};\nuse super::super::e;\npub(crate) fn f() { self::g::h() }";
        let found: Vec<String> = named(&place("x::y"), code).iter().map(|p| p.join("::")).collect();
        assert_eq!(found, ["a::b", "c", "c", "e", "x::y::g::h"]);
    }

    #[test]
    fn a_circle_is_found_at_any_depth() {
        let files = [
            ("a", "use crate::b::X;"),
            ("b", "use crate::c::Y;"),
            ("c", "fn f() { crate::a::g() }"),
            ("d", "use crate::a::Z;"),
            ("e::f", "use super::g::X;"),
            ("e::g::h", "use super::super::{f, X};"),
            ("e::g", "mod h; use self::h::Y;"),
        ];
        assert_eq!(
            circles_of(&files),
            ["a imports b", "b imports c", "c imports a", "e::f imports g", "e::g imports f",]
        );
    }

    #[test]
    fn a_folder_and_what_is_in_it_are_no_circle() {
        let files = [
            ("a", "use self::b::X;"),
            ("a::b", "use super::Y; use crate::a::Z; use super::function;"),
            ("c", "// crate::a\nuse crate::a::X;\n#[cfg(test)]\nmod tests { use crate::d; }"),
            ("d", "use crate::c::X;"),
        ];
        assert_eq!(circles_of(&files), Vec::<String>::new());
    }
}
