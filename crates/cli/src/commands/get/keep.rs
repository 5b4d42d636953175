//! Writes what a server names below a directory, and nowhere else.
//!
//! The server chooses the names, so that nothing that is there may be replaced, nothing hidden made, and no link followed
//! out of the directory.

use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions};

use crate::failure::Failure;

/// A directory, and nothing outside of it.
pub(super) struct Below {
    directory: Dir,
    name: PathBuf,
}

impl Below {
    /// Opens a directory, or makes it.
    pub(super) fn open(directory: &Path) -> Result<Self, Failure> {
        let opened = std::fs::create_dir_all(directory)
            .and_then(|()| Dir::open_ambient_dir(directory, ambient_authority()));
        let name = directory.to_owned();
        match opened {
            Ok(directory) => Ok(Self { directory, name }),
            Err(error) => {
                let name = name.display();
                Err(Failure::failed(format!("the directory {name} cannot be used: {error}")))
            }
        }
    }

    /// Makes a file with this content. One that has it already is left alone.
    ///
    /// # Errors
    /// Half of a sentence that says why not.
    pub(super) fn write(&self, name: &Path, content: &[u8]) -> Result<(), String> {
        let path = self.name.join(name);
        let cannot = |error: io::Error| format!("{} cannot be made: {error}", path.display());
        if let Some(parent) = name.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            self.directory.create_dir_all(parent).map_err(cannot)?;
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        match self.directory.open_with(name, &options) {
            Ok(mut file) => file.write_all(content).map_err(|error| {
                // Half of it is of no use.
                let _ = self.directory.remove_file(name);
                cannot(error)
            }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if self.has(name, content) {
                    return Ok(());
                }
                let path = path.display();
                Err(format!("{path} is there already: remove it, or give another directory"))
            }
            Err(error) => Err(cannot(error)),
        }
    }

    /// Whether there is a file with this very content.
    fn has(&self, name: &Path, content: &[u8]) -> bool {
        let found = self.directory.symlink_metadata(name);
        if !found.is_ok_and(|found| found.is_file() && found.len() == content.len() as u64) {
            return false;
        }
        let mut there = Vec::new();
        let most = content.len() as u64 + 1;
        let read =
            self.directory.open(name).and_then(|file| file.take(most).read_to_end(&mut there));
        read.is_ok() && there == content
    }
}

/// The path below a directory for a target of a server: what leads out of it, is hidden, or is no plain name, has none.
pub(super) fn local_name(target: &str) -> Option<PathBuf> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let path = percent_encoding::percent_decode_str(path).decode_utf8().ok()?;
    let mut name = PathBuf::new();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        let plain = !part.starts_with('.')
            && !part.chars().any(|c| matches!(c, '\\' | ':') || c.is_control());
        if !plain {
            return None;
        }
        name.push(part);
    }
    if path.ends_with('/') {
        name.push("index.html");
    }
    if !query.is_empty() {
        // Different answers have different queries.
        let mut with_query = name.into_os_string();
        with_query.push(format!("-{:08x}", checksum(query)));
        name = with_query.into();
    }
    Some(name)
}

/// Tells queries apart (FNV-1a).
fn checksum(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_names_stays_below_the_directory() {
        for (target, name) in [
            ("/", Some("index.html")),
            ("/a/b.jpg", Some("a/b.jpg")),
            ("/a%20b/", Some("a b/index.html")),
            ("//a///b", Some("a/b")),
            ("/../x", None),
            ("/a/%2e%2e/%2e%2e/x", None),
            ("/.ssh/authorized_keys", None),
            ("/a/.git/hooks/x", None),
            ("/%2ebashrc", None),
            ("/a%5c..%5cx", None),
            ("/C:/x", None),
            ("/%00", None),
            ("/%ff", None),
        ] {
            assert_eq!(local_name(target), name.map(PathBuf::from), "{target}");
        }
        let names = ["/x?a=1", "/x?a=2", "/x"].map(|target| local_name(target).unwrap());
        assert!(names[0] != names[1] && names[0] != names[2]);
        assert!(names.iter().all(|name| name.components().count() == 1));
    }

    #[test]
    fn nothing_is_replaced_and_a_bad_name_costs_one_file() {
        let directory = tempfile::tempdir().unwrap();
        let below = Below::open(&directory.path().join("out")).unwrap();
        let write = |name: &str, content: &str| below.write(Path::new(name), content.as_bytes());
        assert_eq!(write("a", "one"), Ok(()));
        assert_eq!(write("a", "one"), Ok(()), "it is there already");
        assert!(write("a", "two").unwrap_err().contains("is there already"));
        assert!(write("a/b", "under a file").is_err());
        assert!(write(&"x".repeat(300), "a long name").is_err());
        assert_eq!(write("c/d/e", "three"), Ok(()));
        assert!(write("c/d", "over a directory").is_err());
        let content = std::fs::read_to_string(directory.path().join("out/a")).unwrap();
        assert_eq!(content, "one");
    }

    #[cfg(unix)]
    #[test]
    fn links_lead_nowhere_else() {
        use std::os::unix::fs::symlink;
        let directory = tempfile::tempdir().unwrap();
        let (out, outside) = (directory.path().join("out"), directory.path().join("outside"));
        std::fs::create_dir(&outside).unwrap();
        let below = Below::open(&out).unwrap();
        symlink("../outside", out.join("link")).unwrap();
        symlink("../outside/new", out.join("file")).unwrap();
        assert!(below.write(Path::new("link/x"), b"x").is_err());
        assert!(below.write(Path::new("file"), b"x").is_err());
        assert_eq!(std::fs::read_dir(outside).unwrap().count(), 0);
    }
}
