//! Resolves the name of an output to a file, a device, or a descriptor of this process.

use std::path::{Path, PathBuf};

/// Maximum length of a chain of links.
const MOST_LINKS: usize = 40;

/// The place that a name refers to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A file, or no file yet, of this name, which is not a link.
    File(PathBuf),
    /// A device, a pipe, or an open descriptor, which is written to and never replaced.
    Device,
    /// Standard output of this process.
    Stdout,
}

/// Follows the links at the end of `path`.
pub(super) fn of(path: &Path) -> Place {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        if let Some(place) = descriptor(&path) {
            return place;
        }
        let Ok(to) = std::fs::read_link(&path) else {
            return match std::fs::metadata(&path) {
                Ok(found) if !found.is_file() => Place::Device,
                _ => Place::File(path),
            };
        };
        let directory = path.parent().unwrap_or(Path::new(""));
        path = directory.join(to);
    }
    // Opening the name reports the error.
    Place::Device
}

/// What `path` refers to if it is in `/proc`: descriptors there have no name that could be given to another
/// file.
fn descriptor(path: &Path) -> Option<Place> {
    let directory = path.parent()?.canonicalize().ok()?;
    let below = directory.strip_prefix("/proc").ok()?;
    // A thread shares the descriptors of its process.
    let parts: Vec<_> = below.iter().map(|part| part.to_str().unwrap_or_default()).collect();
    let process = match parts[..] {
        [process, "fd"] | [process, "task", _, "fd"] => Some(process),
        _ => None,
    };
    let own = process == Some(std::process::id().to_string().as_str());
    let is_stdout = own && path.file_name()? == "1";
    Some(if is_stdout { Place::Stdout } else { Place::Device })
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_lead_to_files_and_keep_their_names() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("file"), "old").unwrap();
        std::fs::create_dir(at("sub")).unwrap();
        symlink("file", at("link")).unwrap();
        symlink(at("link"), at("sub/far")).unwrap();
        symlink("../new", at("sub/dangling")).unwrap();
        symlink("loop", at("loop")).unwrap();
        assert_eq!(of(&at("file")), Place::File(at("file")));
        assert_eq!(of(&at("none")), Place::File(at("none")));
        assert_eq!(of(&at("link")), Place::File(at("file")));
        assert_eq!(of(&at("sub/far")), Place::File(at("file")));
        assert_eq!(of(&at("sub/dangling")), Place::File(at("sub/../new")));
        assert_eq!(of(&at("loop")), Place::Device);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn descriptors_are_written_to() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        symlink("/dev/stdout", &link).unwrap();
        let own = format!("/proc/{}/fd/1", std::process::id());
        for name in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/proc/thread-self/fd/1", &own]
        {
            assert_eq!(of(Path::new(name)), Place::Stdout, "{name}");
        }
        assert_eq!(of(&link), Place::Stdout);
        for name in ["/dev/stderr", "/dev/fd/0", "/proc/self/fd/77", "/dev/null", "/dev/full"] {
            assert_eq!(of(Path::new(name)), Place::Device, "{name}");
        }
        // Another process may have a file open there. Writing to the name does not replace that file, but
        // renaming would.
        assert_eq!(of(Path::new("/proc/1/fd/1")), Place::Device);
    }
}
