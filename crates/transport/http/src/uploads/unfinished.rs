//! The temporary file of an upload: in the directory of its final name, and locked while the upload is
//! in progress.

use std::fs::{File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use cap_std::fs::{Dir, OpenOptions};

/// Prefix of the names of temporary files.
const PREFIX: &str = ".anabranch-upload-";

/// Maximum number of names that are tried.
const ATTEMPTS: usize = 100;

/// Maximum depth of directories that are searched for old files.
const DEEPEST: usize = 64;

/// A temporary file, which is removed if it is dropped before it gets its final name.
#[derive(Debug)]
pub(super) struct Unfinished {
    root: Arc<Dir>,
    path: PathBuf,
    file: File,
    named: bool,
}

impl Unfinished {
    /// Creates a temporary file in a directory below `root`.
    pub(super) fn create(root: &Arc<Dir>, directory: &Path) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        for _ in 0..ATTEMPTS {
            let number = NEXT.fetch_add(1, Relaxed);
            let path = directory.join(format!("{PREFIX}{}-{number}", std::process::id()));
            let file = match root.open_with(&path, &options) {
                Ok(file) => file.into_std(),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            };
            let unfinished = Self { root: Arc::clone(root), path, file, named: false };
            match unfinished.file.try_lock() {
                // Another server that removes old files has just locked it.
                Err(TryLockError::WouldBlock) => {}
                // Some file systems have no locks.
                Ok(()) | Err(TryLockError::Error(_)) => return Ok(unfinished),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Appends to the file.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Waits until everything is on disk: some file systems report only then that they are full.
    pub(super) fn settle(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Renames the file, replacing an existing one if there is any. Returns its metadata.
    pub(super) fn name(mut self, path: &Path, replaces: bool) -> io::Result<std::fs::Metadata> {
        if replaces && let Ok(old) = self.root.metadata(path) {
            // Others may not be permitted to read the replaced file; keep its permissions.
            let _ = self.root.set_permissions(&self.path, old.permissions());
        }
        self.root.rename(&self.path, &self.root, path)?;
        self.named = true;
        self.file.metadata()
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.named {
            // If it cannot be removed now, the next start of a server removes it.
            let _ = self.root.remove_file(&self.path);
        }
    }
}

/// Removes the files of unfinished uploads to a killed server.
pub(super) fn remove_old(root: &Dir) {
    let mut open = vec![(PathBuf::from("."), 0)];
    while let Some((directory, depth)) = open.pop() {
        // A directory that cannot be read probably had no uploads.
        let Ok(entries) = root.read_dir(&directory) else { continue };
        for entry in entries.flatten() {
            let (name, Ok(kind)) = (entry.file_name(), entry.file_type()) else { continue };
            let path = directory.join(&name);
            if kind.is_dir() && depth < DEEPEST {
                open.push((path, depth + 1));
            } else if kind.is_file() && name.to_string_lossy().starts_with(PREFIX) {
                remove_if_old(root, &path);
            }
        }
    }
}

/// Removes a file unless an upload holds its lock.
fn remove_if_old(root: &Dir, path: &Path) {
    let Ok(file) = root.open_with(path, OpenOptions::new().read(true)) else { return };
    // A file that cannot be removed does no harm: it is hidden and occupies no useful name.
    if file.into_std().try_lock().is_ok() {
        let _ = root.remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use cap_std::ambient_authority;

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn what_has_no_name_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let root = Arc::new(Dir::open_ambient_dir(directory.path(), ambient_authority()).unwrap());
        let mut first = Unfinished::create(&root, Path::new(".")).unwrap();
        first.write(b"half").unwrap();
        assert_eq!(names(directory.path()).len(), 1);
        // Another server starts, after a previous one was killed.
        std::fs::create_dir(directory.path().join("sub")).unwrap();
        std::fs::write(directory.path().join("sub").join(format!("{PREFIX}1-1")), "x").unwrap();
        std::fs::write(directory.path().join("sub/.mine"), "x").unwrap();
        remove_old(&root);
        assert_eq!(names(&directory.path().join("sub")), [".mine"]);
        assert_eq!(names(directory.path()).len(), 2, "the one in progress is left alone");
        drop(first);
        assert_eq!(names(directory.path()), ["sub"]);
        let second = Unfinished::create(&root, Path::new("sub")).unwrap();
        assert_eq!(second.name(Path::new("sub/file"), false).unwrap().len(), 0);
        assert_eq!(names(&directory.path().join("sub")).len(), 2);
    }
}
