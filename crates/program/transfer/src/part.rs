//! A file that is being received. It has a name of its own until it is whole and verified.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::digest::{Digest, Hasher};
use crate::list::Entry;

/// Most bytes of a file's name that its part has, too.
const KEPT: usize = 200;

/// Bytes that are read at a time.
const PIECE: usize = 128 << 10;

/// The part of a file that has arrived. Locked, so that no two processes write to it.
#[derive(Debug)]
pub(crate) struct Part {
    file: File,
    path: PathBuf,
    target: PathBuf,
    hasher: Hasher,
    length: u64,
}

/// What there is under the name of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    /// A file with this length and digest.
    File(u64, Digest),
    /// Something else.
    Other,
}

/// Looks whether there is a file of this name; it is read only if it has this length. Links are not followed.
pub(crate) fn find(target: &Path, size: u64) -> io::Result<Found> {
    let metadata = match fs::symlink_metadata(target) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(error),
    };
    if !metadata.is_file() || metadata.len() != size {
        return Ok(Found::Other);
    }
    let (length, hasher) = hash(&mut open(OpenOptions::new().read(true), target)?)?;
    Ok(Found::File(length, hasher.digest()))
}

/// Opens a file without following a link.
fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    {
        let no_links = nix::fcntl::OFlag::O_NOFOLLOW | nix::fcntl::OFlag::O_NONBLOCK;
        std::os::unix::fs::OpenOptionsExt::custom_flags(options, no_links.bits());
    }
    let file = options.open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a file")),
    }
}

fn hash(file: &mut File) -> io::Result<(u64, Hasher)> {
    let mut hasher = Hasher::default();
    let (mut length, mut buffer) = (0, vec![0; PIECE]);
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok((length, hasher));
        }
        hasher.add(&buffer[..count]);
        length += count as u64;
    }
}

/// Makes the directories of a file below `top`. None of them may be a link: it could lead elsewhere.
pub(crate) fn make_directories(top: &Path, local: &Path) -> io::Result<()> {
    let mut directory = top.to_owned();
    for name in local.parent().into_iter().flat_map(Path::components) {
        directory.push(name);
        match fs::create_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
        if !fs::symlink_metadata(&directory)?.is_dir() {
            let shown = directory.display();
            return Err(io::Error::other(format!(
                "{shown} is not a directory: move it away, or choose another --directory"
            )));
        }
    }
    Ok(())
}

/// The name of the part of a file. The version of the file is in it, so parts of other versions are never continued.
fn name(target: &Path, entry: &Entry) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let end = (0..=KEPT.min(name.len())).rev().find(|end| name.is_char_boundary(*end));
    target.with_file_name(format!(".{}.{}.part", &name[..end.unwrap_or(0)], entry.id()))
}

impl Part {
    /// Opens the part of a file, with what has arrived before, also in another process.
    pub(crate) fn open(target: &Path, entry: &Entry) -> io::Result<Self> {
        let path = name(target, entry);
        let mut options = OpenOptions::new();
        let mut file = open(options.read(true).append(true).create(true), &path)?;
        match file.try_lock() {
            Ok(()) => {}
            // Some file systems have no locks.
            Err(TryLockError::Error(_)) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::other("another process is receiving it"));
            }
        }
        let (length, hasher) = hash(&mut file)?;
        let target = target.to_owned();
        let mut part = Self { file, path, target, hasher, length };
        if part.length > entry.size {
            part.clear()?;
        }
        Ok(part)
    }

    /// Bytes that have arrived.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.hasher.add(bytes);
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// The digest of what has arrived.
    pub(crate) fn digest(&self) -> Digest {
        self.hasher.clone().digest()
    }

    /// Forgets what has arrived.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        (self.hasher, self.length) = (Hasher::default(), 0);
        Ok(())
    }

    /// Gives the file its name. Without `overwrite` the name must be free.
    pub(crate) fn finish(self, overwrite: bool) -> io::Result<()> {
        self.file.sync_all()?;
        if overwrite {
            if fs::symlink_metadata(&self.target).is_ok_and(|found| found.is_dir()) {
                return Err(io::Error::other("there is a directory of this name"));
            }
            return fs::rename(&self.path, &self.target);
        }
        // Unlike a renaming, a hard link replaces nothing.
        match fs::hard_link(&self.path, &self.target) {
            Ok(()) => fs::remove_file(&self.path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
            Err(_) => {
                // The file system has no hard links: take the name first.
                OpenOptions::new().write(true).create_new(true).open(&self.target)?;
                fs::rename(&self.path, &self.target)
            }
        }
    }

    /// Removes the part, which is not needed.
    pub(crate) fn remove(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(size: u64) -> Entry {
        Entry { path: "f".to_owned(), size, modified: 5 }
    }

    fn names(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).collect()
    }

    #[test]
    fn parts_go_on_and_become_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("f");
        let mut part = Part::open(&target, &entry(6)).unwrap();
        part.add(b"abc").unwrap();
        let busy = Part::open(&target, &entry(6)).unwrap_err();
        assert!(busy.to_string().contains("another process"), "{busy}");
        drop(part);
        let other = Entry { modified: 6, ..entry(6) };
        assert_eq!(Part::open(&target, &other).unwrap().length(), 0, "another version");
        Part::open(&target, &other).unwrap().remove().unwrap();
        let mut part = Part::open(&target, &entry(6)).unwrap();
        assert_eq!(part.length(), 3);
        part.add(b"def").unwrap();
        let digest = part.digest();
        part.finish(false).unwrap();
        assert_eq!(names(folder.path()), ["f"]);
        assert_eq!(find(&target, 6).unwrap(), Found::File(6, digest));
        assert_eq!(find(&target, 7).unwrap(), Found::Other);
        assert_eq!(fs::read(&target).unwrap(), b"abcdef");
    }

    #[test]
    fn nothing_is_overwritten_unless_asked() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("f");
        let part = || {
            let mut part = Part::open(&target, &entry(3)).unwrap();
            part.clear().unwrap();
            part.add(b"new").unwrap();
            part
        };
        fs::write(&target, "old").unwrap();
        assert_eq!(part().finish(false).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&target).unwrap(), b"old");
        part().finish(true).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"new");
        fs::remove_file(&target).unwrap();
        fs::create_dir(&target).unwrap();
        assert!(part().finish(true).unwrap_err().to_string().contains("directory"));
    }

    #[test]
    fn a_part_that_is_too_long_begins_again() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("f");
        Part::open(&target, &entry(2)).unwrap().add(b"abc").unwrap();
        let mut part = Part::open(&target, &entry(2)).unwrap();
        assert_eq!(part.length(), 0);
        part.add(b"xy").unwrap();
        part.finish(false).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"xy");
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_followed() {
        use std::os::unix::fs::symlink;
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let target = folder.path().join("f");
        fs::write(other.path().join("victim"), "kept").unwrap();
        symlink(other.path().join("victim"), name(&target, &entry(9))).unwrap();
        assert!(Part::open(&target, &entry(9)).is_err());
        symlink(other.path(), folder.path().join("d")).unwrap();
        let error = make_directories(folder.path(), Path::new("d/x")).unwrap_err();
        assert!(error.to_string().contains("not a directory"), "{error}");
        symlink(other.path().join("victim"), &target).unwrap();
        assert_eq!(find(&target, 4).unwrap(), Found::Other);
        let part = Part::open(&folder.path().join("g"), &entry(0)).unwrap();
        drop(part);
        make_directories(folder.path(), Path::new("a/b/c")).unwrap();
        make_directories(folder.path(), Path::new("a/b/c")).unwrap();
        assert_eq!(fs::read(other.path().join("victim")).unwrap(), b"kept");
    }

    #[test]
    fn long_names_have_parts() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("ä".repeat(127));
        Part::open(&target, &entry(0)).unwrap().finish(false).unwrap();
        assert!(target.exists());
    }
}
