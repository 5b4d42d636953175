//! Names of received files, which must lead nowhere else and deceive nobody.

use std::fmt;
use std::path::PathBuf;

/// Most bytes of the name of a file or directory; common file systems allow no more.
const LONGEST: usize = 255;

/// Most directories in each other.
const DEEPEST: usize = 64;

/// Why a file cannot be received under the name that the sender gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadName(String);

impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadName {}

/// The path below the receiver's directory for a sender's path. Characters that control terminals, are invisible or
/// change the direction of text become '_', as does the dot of a hidden file or directory at the top: a name that is
/// harmless elsewhere may mean something in a home directory.
///
/// # Errors
/// The name could lead out of the directory, or no file system has such names.
pub fn local_path(path: &str) -> Result<PathBuf, BadName> {
    let bad = |why: &str| BadName(format!("the name {:?} {why}", shortened(path)));
    let parts: Vec<_> = path.split('/').collect();
    if parts.len() > DEEPEST {
        return Err(bad("has too many directories in each other"));
    }
    let mut local = PathBuf::new();
    for (depth, part) in parts.into_iter().enumerate() {
        if ["", ".", ".."].contains(&part) {
            return Err(bad("could lead out of the directory"));
        }
        let mut name: String = part.chars().map(harmless).collect();
        if depth == 0 && name.starts_with('.') {
            name.replace_range(..1, "_");
        }
        if cfg!(windows) {
            name = for_windows(&name);
        }
        if name.len() > LONGEST {
            return Err(bad("is too long"));
        }
        local.push(name);
    }
    Ok(local)
}

/// The character, or '_' if it does not belong in a name.
fn harmless(c: char) -> char {
    let is_invisible = matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    );
    let is_of_windows = cfg!(windows) && r#"\:*?"<>|"#.contains(c);
    if c.is_control() || is_invisible || is_of_windows { '_' } else { c }
}

/// Windows drops dots and spaces at the end, and some names are devices.
fn for_windows(name: &str) -> String {
    let trimmed = name.trim_end_matches(['.', ' ']);
    let stem = trimmed.split('.').next().unwrap_or_default().trim_end().to_ascii_uppercase();
    let numbered = |device: &str| {
        stem.strip_prefix(device).is_some_and(|number| number.len() == 1 && number != "0")
    };
    let is_device = ["CON", "PRN", "AUX", "NUL"].contains(&&stem[..]);
    let kept = name.len() == trimmed.len();
    match is_device || numbered("COM") || numbered("LPT") || trimmed.is_empty() {
        true => format!("_{trimmed}"),
        false if kept => name.to_owned(),
        false => format!("{trimmed}_"),
    }
}

/// The beginning of a long name, for messages.
fn shortened(path: &str) -> String {
    path.chars().take(100).collect()
}

#[cfg(test)]
mod tests {
    use std::path::{Component, Path};

    use proptest::prelude::*;

    use super::*;

    fn local(path: &str) -> String {
        local_path(path).unwrap().to_str().unwrap().to_owned()
    }

    #[test]
    #[cfg(unix)]
    fn names_are_kept_or_made_harmless() {
        for name in ["a", "photos/1 2.jpg", "12:30.txt", "käse/日本.txt", "-rf", "a/.hidden", "..."]
        {
            let expected = if name == "..." { "_.." } else { name };
            assert_eq!(local(name), expected);
        }
        assert_eq!(local(".ssh/authorized_keys"), "_ssh/authorized_keys");
        assert_eq!(local("a\u{1b}[2J\nb"), "a_[2J_b");
        assert_eq!(local("photo\u{202e}gpj.exe"), "photo_gpj.exe");
        assert_eq!(local("a\u{200b}b\u{feff}"), "a_b_");
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for name in ["", "/", "/etc/passwd", "../a", "a/../../b", "a//b", "a/", ".", "..", "a/."] {
            let error = local_path(name).unwrap_err().to_string();
            assert!(error.contains("lead out"), "{name}: {error}");
        }
        assert!(local_path(&"x".repeat(256)).is_err() && local_path(&"x".repeat(255)).is_ok());
        assert!(local_path(&"a/".repeat(64)).is_err());
    }

    #[test]
    fn windows_has_names_of_its_own() {
        for (name, expected) in [
            ("con", "_con"),
            ("COM1.txt", "_COM1.txt"),
            ("console", "console"),
            ("a. ", "a_"),
            ("..", "_"),
        ] {
            assert_eq!(for_windows(name), expected);
        }
    }

    proptest! {
        #[test]
        fn no_name_leads_out(path in "[./\\\\a-c\\PC]{0,40}|\\PC{0,40}|.{0,20}") {
            if let Ok(local) = local_path(&path) {
                let is_name = |part| matches!(part, Component::Normal(_));
                prop_assert!(Path::new(&local).components().all(is_name), "{local:?}");
                prop_assert!(local.components().count() > 0);
                prop_assert!(!local.to_str().unwrap().contains(char::is_control));
            }
        }
    }
}
