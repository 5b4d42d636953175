//! Modules of the engine that import each other in a circle can only be understood together.
//!
//! Imports are read from the sources: whatever names another top-level module as `crate::module`, tests
//! left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

type Imports = BTreeMap<String, BTreeSet<String>>;

/// The part of a source file that is not for tests, without comments.
fn code(text: &str) -> String {
    let text = text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or(text);
    text.lines().map(|line| line.split("//").next().unwrap_or(line)).fold(
        String::new(),
        |mut all, line| {
            all.push_str(line);
            all.push('\n');
            all
        },
    )
}

/// The modules that are named as `crate::module`.
fn named(code: &str) -> impl Iterator<Item = &str> {
    code.split("crate::").skip(1).map(|rest| {
        rest.split(|c: char| !c.is_ascii_lowercase() && c != '_').next().unwrap_or(rest)
    })
}

fn read(folder: &Path, module: Option<&str>, imports: &mut Imports) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let module = module.unwrap_or(&stem);
        if path.is_dir() {
            read(&path, Some(module), imports);
        } else if !["lib", "tests", "invariants", "ring_model"].contains(&stem.as_str()) {
            let text = code(&fs::read_to_string(&path).unwrap());
            let others = named(&text).filter(|other| *other != module).map(str::to_owned);
            imports.entry(module.to_owned()).or_default().extend(others);
        }
    }
}

/// All modules that one leads to.
fn reached<'a>(from: &str, imports: &'a Imports) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut waiting = vec![from.to_owned()];
    while let Some(module) = waiting.pop() {
        for next in imports.get(&module).into_iter().flatten() {
            if found.insert(next.as_str()) {
                waiting.push(next.clone());
            }
        }
    }
    found
}

#[test]
fn no_modules_import_each_other_in_a_circle() {
    let mut imports = Imports::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), None, &mut imports);
    let modules: BTreeSet<String> = imports.keys().cloned().collect();
    for others in imports.values_mut() {
        others.retain(|other| modules.contains(other));
    }
    assert!(imports["association"].contains("send"), "imports are read: {imports:?}");
    let circle: Vec<&str> = (modules.iter().map(String::as_str))
        .filter(|module| reached(module, &imports).contains(module))
        .collect();
    assert!(circle.is_empty(), "modules in circles: {circle:?}; what they import: {imports:#?}");
}
