//! Secret keys in files that only their owner may read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::keys::SecretKey;
use crate::text::ParseError;

/// A key file has one line; a longer file is something else.
const MOST_BYTES: u64 = 4096;

/// Why a key file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The system refuses.
    #[error("cannot use the key file {path}: {source}{}", advice(source))]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Other users may read or change the file.
    #[error(
        "other users may read or change the key file {path}: run 'chmod 600 {path}', or make a new key"
    )]
    Open {
        /// The file.
        path: PathBuf,
    },
    /// The file has no key.
    #[error("the key file {path} has no key: {source}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: ParseError,
    },
}

/// What to do about an error of the system, if it does not say so itself.
pub(crate) fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            "; make room there, or name another file"
        }
        _ => "",
    }
}

impl SecretKey {
    /// Reads a key file.
    ///
    /// # Errors
    /// The file cannot be read, has no key, or other users may read or change it.
    pub fn load(path: &Path) -> Result<Self, KeyFileError> {
        let io = |source| KeyFileError::Io { path: path.to_owned(), source };
        let file = File::open(path).map_err(io)?;
        if is_open_to_others(&file).map_err(io)? {
            return Err(KeyFileError::Open { path: path.to_owned() });
        }
        let mut text = Zeroizing::new(String::new());
        file.take(MOST_BYTES).read_to_string(&mut text).map_err(io)?;
        Self::from_text(&text)
            .map_err(|source| KeyFileError::Content { path: path.to_owned(), source })
    }

    /// Writes a new key file that only its owner may read. The file is whole or missing, also after a power failure.
    ///
    /// # Errors
    /// The file exists, or the system refuses.
    pub fn save(&self, path: &Path) -> Result<(), KeyFileError> {
        let io = |source| KeyFileError::Io { path: path.to_owned(), source };
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.new", std::process::id()));
        let unfinished = path.with_file_name(name);
        let written = self.write(&unfinished).and_then(|()| {
            // Unlike a renaming, a hard link does not replace a file.
            fs::hard_link(&unfinished, path)
        });
        let _ = fs::remove_file(&unfinished);
        written.map_err(io)
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path)?;
        file.write_all(self.to_text().as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()
    }

    /// Reads a key file, or makes a key and its file if there is none.
    ///
    /// # Errors
    /// As for [`load`](Self::load) and [`save`](Self::save), or the system gives no random numbers.
    pub fn load_or_create(path: &Path) -> Result<Self, KeyFileError> {
        match Self::load(path) {
            Err(KeyFileError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            result => return result,
        }
        let io = |source| KeyFileError::Io { path: path.to_owned(), source };
        let key = Self::generate().map_err(io)?;
        match key.save(path) {
            // Another process was faster.
            Err(KeyFileError::Io { source, .. })
                if source.kind() == io::ErrorKind::AlreadyExists =>
            {
                Self::load(path)
            }
            result => result.map(|()| key),
        }
    }
}

#[cfg(unix)]
fn is_open_to_others(file: &File) -> io::Result<bool> {
    use std::os::unix::fs::PermissionsExt;

    Ok(file.metadata()?.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
fn is_open_to_others(_file: &File) -> io::Result<bool> {
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of its own for a test.
    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("anabranch-seal-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_key_is_made_once_and_kept() {
        let directory = Directory::new("once");
        let path = directory.0.join("far.key");
        let made = SecretKey::load_or_create(&path).unwrap();
        let read = SecretKey::load_or_create(&path).unwrap();
        assert_eq!(made.as_bytes(), read.as_bytes());
        let other = SecretKey::from_bytes([1; 32]);
        assert!(matches!(other.save(&path), Err(KeyFileError::Io { .. })));
        assert_eq!(SecretKey::load(&path).unwrap().public(), made.public());
        assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 1);
    }

    #[test]
    #[cfg(unix)]
    fn only_the_owner_may_read_a_key() {
        use std::os::unix::fs::PermissionsExt;

        let directory = Directory::new("owner");
        let path = directory.0.join("key");
        SecretKey::load_or_create(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        for mode in [0o640, 0o604, 0o660] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert!(matches!(SecretKey::load(&path), Err(KeyFileError::Open { .. })));
        }
    }

    #[test]
    fn a_file_without_a_key_is_never_replaced() {
        let directory = Directory::new("content");
        let path = directory.0.join("key");
        let options = || {
            let mut options = OpenOptions::new();
            options.write(true).create_new(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            options
        };
        for content in ["", "anbs:", "anbk:AAAA", "a shopping list\n"] {
            options().open(&path).unwrap().write_all(content.as_bytes()).unwrap();
            let error = SecretKey::load_or_create(&path).unwrap_err();
            assert!(matches!(error, KeyFileError::Content { .. }), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
            fs::remove_file(&path).unwrap();
        }
    }
}
