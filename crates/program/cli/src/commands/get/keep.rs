//! Writes files whose names a server chooses, only below a directory.
//!
//! Because the server chooses the names, writing must not replace an existing file, create a hidden one, or follow a
//! link out of the directory.

use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anabranch_http::{FetchError, is_unfinished};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions};
use tempfile::NamedTempFile;

use crate::failure::Failure;

/// Access to a directory, and to nothing outside of it.
pub(super) struct Below {
    directory: Dir,
    name: PathBuf,
}

impl Below {
    /// Opens a directory, or creates it.
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

    /// The path of a file below the directory, for messages.
    pub(super) fn path(&self, name: &Path) -> PathBuf {
        self.name.join(name)
    }

    /// Creates a file with this content. If a file with the same content exists, it does nothing.
    ///
    /// # Errors
    /// The reason, as the second half of a sentence.
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
                // An incomplete file is useless.
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

    /// Finds a place for a new file with this name, or for one that replaces an older file. Creates its parent
    /// directories.
    ///
    /// # Errors
    /// The reason, as the second half of a sentence.
    pub(super) fn place(&self, name: &Path) -> Result<Placed, String> {
        let path = self.name.join(name);
        let cannot = |error: io::Error| format!("{} cannot be made: {error}", path.display());
        let (Some(parent), Some(file)) = (name.parent(), name.file_name()) else {
            return Err(cannot(io::ErrorKind::InvalidFilename.into()));
        };
        if is_unfinished(name) {
            return Err("this ending is for files that are not whole yet".to_owned());
        }
        // Resolve links below the directory now, so that the returned path is the one that was checked.
        let mut directory = PathBuf::from(".");
        if !parent.as_os_str().is_empty() {
            self.directory.create_dir_all(parent).map_err(cannot)?;
            directory = self.directory.canonicalize(parent).map_err(cannot)?;
        }
        let (inside, taken) = (directory.join(file), |what| {
            let path = path.display();
            Err(format!("{path} is {what}: remove it, or name another directory"))
        });
        let there = match self.directory.symlink_metadata(&inside) {
            Ok(found) if found.is_symlink() => return taken("a link"),
            Ok(found) if found.is_dir() => return taken("a directory"),
            Ok(found) if !found.is_file() => return taken("not a file"),
            Ok(found) => found.modified().ok().map(cap_std::time::SystemTime::into_std),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(cannot(error)),
        };
        Ok(Placed { path: self.name.join(inside), there })
    }

    /// Writes a file that was last changed at `modified`, unless an existing one is at least as new. Returns whether it
    /// was written.
    ///
    /// # Errors
    /// The reason, as the second half of a sentence.
    pub(super) fn update(
        &self,
        name: &Path,
        content: &[u8],
        modified: Option<SystemTime>,
    ) -> Result<bool, String> {
        let Placed { path, there } = self.place(name)?;
        if self.has(name, content) {
            return Ok(false);
        }
        match (there, modified) {
            (None, _) => {}
            (Some(there), Some(modified)) if modified <= there => return Ok(false),
            (Some(_), Some(_)) => {}
            (Some(_), None) => return Err(FetchError::Undated.to_string()),
        }
        let cannot = |error: io::Error| format!("{} cannot be made: {error}", path.display());
        let mut unfinished = unfinished(&path).map_err(cannot)?;
        unfinished.write_all(content).map_err(cannot)?;
        if let Some(modified) = modified {
            // If the file system cannot store this time, the time of writing remains.
            let _ = unfinished.as_file().set_modified(modified);
        }
        let named = unfinished.persist(&path);
        named.map(|_| true).map_err(|error| cannot(error.error))
    }

    /// The first `most` bytes of a file.
    pub(super) fn read(&self, name: &Path, most: u64) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        self.directory.open(name)?.take(most).read_to_end(&mut content)?;
        Ok(content)
    }

    /// Whether a file exists with exactly this content.
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

/// A place for a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Placed {
    /// Its path, without links below the directory.
    pub(super) path: PathBuf,
    /// Modification time of the existing file, if there is one.
    pub(super) there: Option<SystemTime>,
}

/// A new file next to `path`, with the default permissions of new files.
fn unfinished(path: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".anabranch-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(path.parent().unwrap_or(Path::new(".")))
}

/// The path below a directory for a target on a server. `None` if the target leads out of the directory, is hidden, or
/// is not a plain name.
pub(super) fn local_name(target: &str) -> Option<PathBuf> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut name = PathBuf::new();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        let part = percent_encoding::percent_decode_str(part).decode_utf8().ok()?;
        let foreign = |c| matches!(c, '/' | '\\') || (cfg!(windows) && c == ':');
        if part.starts_with('.') || part.chars().any(|c| foreign(c) || c.is_control()) {
            return None;
        }
        name.push(&*part);
    }
    if path.ends_with('/') {
        name.push("index.html");
    }
    if !query.is_empty() {
        // Different queries have different answers.
        let mut with_query = name.into_os_string();
        with_query.push(format!("-{:08x}", checksum(query)));
        name = with_query.into();
    }
    Some(name)
}

/// A checksum that distinguishes queries (FNV-1a).
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
            ("/C:/x", if cfg!(windows) { None } else { Some("C:/x") }),
            ("/a%2fb", None),
            ("/a%2f..%2fb", None),
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
