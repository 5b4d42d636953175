//! The names that public items mention: how they are written down, and whether who has this crate
//! alone can name them.

use std::collections::BTreeSet;

/// Paths of types in other crates of the project that items of this API mention, and that it does
/// not re-export.
///
/// An item is a line, and a re-export `pub use library::Name`. That of a module, or of the crate
/// `anabranch_x` as `x`, names all that is in it. Re-exported items mention types as well: they are
/// in the API `engine`.
pub(crate) fn unnamed(api: &str, engine: &str) -> BTreeSet<String> {
    let mut named: BTreeSet<&str> = api.lines().filter_map(re_exported).collect();
    // The contents of a re-exported module, wherever else they may be.
    for path in engine.lines().filter_map(|line| paths(line).next()) {
        let mut parts = path.split("::").skip(1);
        if parts.next().is_some_and(|module| named.contains(module)) {
            named.extend(parts.next());
        }
    }
    let own = api.lines().filter(|line| re_exported(line).is_none());
    let is_re_exported = |line: &&str| {
        let subject = paths(line).find(|path| path.starts_with("anabranch_"));
        subject.is_some_and(|path| path.split("::").skip(1).any(|part| named.contains(part)))
    };
    let theirs = engine.lines().filter(is_re_exported);
    let foreign = own.chain(theirs).flat_map(paths).filter(|path| path.starts_with("anabranch_"));
    let library = library(api);
    foreign
        .filter(|path| path.split("::").next() != Some(library))
        .filter(|path| !path.split("::").any(|part| is_named(&named, part)))
        .map(str::to_owned)
        .collect()
}

/// The API with items of other crates by their last name: their paths do not matter.
pub(crate) fn shortened(api: &str) -> String {
    let library = library(api);
    let mut text = String::with_capacity(api.len());
    let mut rest = api;
    while let Some(begin) = rest.find(is_part) {
        let (before, path) = rest.split_at(begin);
        let (path, after) = path.split_at(path.find(|c| !is_part(c)).unwrap_or(path.len()));
        text.push_str(before);
        text.push_str(match path.split_once("::") {
            Some((first, _)) if first != library && !first.is_empty() => {
                path.rsplit("::").next().unwrap_or(path)
            }
            _ => path,
        });
        rest = after;
    }
    text.push_str(rest);
    text
}

/// The library that an API is of: it begins with its root.
fn library(api: &str) -> &str {
    api.lines().find_map(|line| line.strip_prefix("pub mod ")).unwrap_or_default()
}

fn is_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == ':'
}

fn is_named(named: &BTreeSet<&str>, part: &str) -> bool {
    named.contains(part.strip_prefix("anabranch_").unwrap_or(part))
}

fn re_exported(line: &str) -> Option<&str> {
    line.strip_prefix("pub use ")?.rsplit("::").next()
}

/// The paths in a line, as in `a::b::C`.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c| !is_part(c))
        .map(|path| path.trim_matches(':'))
        .filter(|path| path.contains("::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_re_exported_is_found() {
        let api = "pub mod anabranch\n\
                   pub use anabranch::Known\n\
                   pub use anabranch::config\n\
                   pub fn anabranch::g(a: anabranch_proto::config::Any)\n\
                   pub fn anabranch::f(a: &anabranch_proto::x::Known) -> core::result::Result<(), anabranch_proto::e::Lost>\n";
        let expected = BTreeSet::from(["anabranch_proto::e::Lost".to_owned()]);
        assert_eq!(unnamed(api, ""), expected);
        let other = "pub mod anabranch_proto\n\
                     pub anabranch_proto::x::Known::field: anabranch_proto::y::Hidden\n\
                     pub anabranch_proto::Private::field: anabranch_proto::y::Private\n";
        let expected = BTreeSet::from(["anabranch_proto::y::Hidden".to_owned()]);
        let api = "pub mod anabranch\npub use anabranch::Known\n";
        assert_eq!(unnamed(api, other), expected);
    }
    #[test]
    fn other_crates_keep_their_things_where_they_like() {
        let api = "pub mod lib\npub lib::S::f: core::option::Option<&'static lib::m::T>\n";
        assert_eq!(shortened(api), "pub mod lib\npub lib::S::f: Option<&'static lib::m::T>\n");
        let api = "pub mod lib\npub fn lib::f(u8, <alloc::vec::Vec<u8> as core::x::I>::Item)\n";
        assert_eq!(shortened(api), "pub mod lib\npub fn lib::f(u8, <Vec<u8> as I>::Item)\n");
    }
}
