//! Translates a request's path into a path below the served directory.

use std::path::PathBuf;

use percent_encoding::percent_decode_str;

/// The target of a request, decoded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The path relative to the served directory; `.` for the directory itself.
    pub(crate) path: PathBuf,
    /// The request's path ends with a slash.
    pub(crate) directory: bool,
}

/// Decodes the path of a request; `None` if a file cannot have this name.
///
/// This is the first of two defences: the directory handle also rejects paths that lead out of the
/// directory.
pub(crate) fn resolve(path: &str) -> Option<Target> {
    let mut resolved = PathBuf::from(".");
    for segment in path.split('/') {
        let bytes: Vec<u8> = percent_decode_str(segment).collect();
        match bytes.as_slice() {
            b"" | b"." => continue,
            b".." => return None,
            _ => {}
        }
        // An encoded slash would split one component into two.
        if bytes.iter().any(|b| matches!(b, b'/' | 0)) || (cfg!(windows) && bytes.contains(&b'\\'))
        {
            return None;
        }
        resolved.push(component(bytes)?);
    }
    Some(Target { path: resolved, directory: path.ends_with('/') })
}

/// File names are bytes on Unix and text elsewhere.
#[cfg(unix)]
fn component(bytes: Vec<u8>) -> Option<std::ffi::OsString> {
    Some(std::os::unix::ffi::OsStringExt::from_vec(bytes))
}

#[cfg(not(unix))]
fn component(bytes: Vec<u8>) -> Option<String> {
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_decoded_and_kept_inside() {
        let path = |text: &str| resolve(text).map(|target| target.path);
        assert_eq!(path("/"), Some(".".into()));
        assert_eq!(path("/a/b%20c"), Some("./a/b c".into()));
        assert_eq!(path("//a//./b"), Some("./a/b".into()));
        assert_eq!(path("/..."), Some("./...".into()));
        for escape in ["/..", "/a/../b", "/%2e%2e/x", "/.%2E", "/a%2f..%2f..", "/a%00"] {
            assert_eq!(path(escape), None, "{escape}");
        }
        assert!(resolve("/a/").is_some_and(|target| target.directory));
        assert!(resolve("/a").is_some_and(|target| !target.directory));
    }
}
