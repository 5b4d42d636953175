//! The keys of servers that a client has seen, in a file: a server whose key has changed is noticed.

use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::key_file::advice;
use crate::keys::PublicKey;
use crate::text::ParseError;

/// A longer file is something else.
const MOST_BYTES: u64 = 16 << 20;

/// Why the file of known servers cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KnownServersError {
    /// The system refuses.
    #[error("cannot use the file of known servers {path}: {source}{}", advice(source))]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Other users may change the file, and so decide which servers are trusted.
    #[error("other users may change the file of known servers {path}: run 'chmod 600 {path}'")]
    Open {
        /// The file.
        path: PathBuf,
    },
    /// A line has no name or no key.
    #[error("{path}, line {line}: {source}; correct the line, or remove it")]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        source: ParseError,
    },
}

/// Servers by name, with their keys. Each line of the file has a name, such as `host:9899`, and a key; `#` begins a
/// comment.
#[derive(Clone, Debug)]
pub struct KnownServers {
    path: PathBuf,
    servers: Vec<(String, PublicKey)>,
}

impl KnownServers {
    /// Reads a file, which may be missing.
    ///
    /// # Errors
    /// The file cannot be read, others may change it, or a line is not understood.
    pub fn load(path: &Path) -> Result<Self, KnownServersError> {
        let io = |source| KnownServersError::Io { path: path.to_owned(), source };
        let mut known = Self { path: path.to_owned(), servers: Vec::new() };
        let file = match std::fs::File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(known),
            opened => opened.map_err(io)?,
        };
        if others_may_change(&file).map_err(io)? {
            return Err(KnownServersError::Open { path: path.to_owned() });
        }
        let mut text = String::new();
        file.take(MOST_BYTES).read_to_string(&mut text).map_err(io)?;
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let (name, key) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let wrong =
                |source| KnownServersError::Line { path: path.to_owned(), line: index + 1, source };
            known.servers.push((name.to_owned(), key.parse().map_err(wrong)?));
        }
        Ok(known)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The key of the server with this name.
    pub fn key_of(&self, name: &str) -> Option<PublicKey> {
        self.servers.iter().find(|(other, _)| other == name).map(|(_, key)| *key)
    }

    /// Adds a server, also to the file, which only its owner may read and write. A name that is known keeps its key.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&mut self, name: &str, key: PublicKey) -> Result<(), KnownServersError> {
        if self.key_of(name).is_some() {
            return Ok(());
        }
        let io = |source| KnownServersError::Io { path: self.path.clone(), source };
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&self.path).map_err(io)?;
        let before = file.metadata().map_err(io)?.len();
        // One call: lines of other processes do not get into this one.
        if let Err(error) = file.write_all(format!("{name} {key}\n").as_bytes()) {
            // With a part of a line, the whole file would be refused.
            let _ = file.set_len(before);
            return Err(io(error));
        }
        self.servers.push((name.to_owned(), key));
        Ok(())
    }
}

#[cfg(unix)]
fn others_may_change(file: &std::fs::File) -> io::Result<bool> {
    use std::os::unix::fs::PermissionsExt as _;

    Ok(file.metadata()?.permissions().mode() & 0o022 != 0)
}

#[cfg(not(unix))]
fn others_may_change(_file: &std::fs::File) -> io::Result<bool> {
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> PathBuf {
        let file = format!("anabranch-known-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(file);
        let _ = std::fs::remove_file(&path);
        path
    }

    #[test]
    fn a_server_is_added_once_and_keeps_its_key() {
        let path = file("once");
        let [first, second] = [1, 2].map(|byte| PublicKey::from_bytes([byte; 32]));
        let mut known = KnownServers::load(&path).unwrap();
        assert_eq!(known.key_of("a:9899"), None);
        for (name, key) in [("a:9899", first), ("a:9899", second), ("[::1]:9899", second)] {
            known.add(name, key).unwrap();
        }
        let read = KnownServers::load(&path).unwrap();
        for known in [known, read] {
            assert_eq!(known.key_of("a:9899"), Some(first));
            assert_eq!(known.key_of("[::1]:9899"), Some(second));
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = |mode| std::fs::Permissions::from_mode(mode);
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            std::fs::set_permissions(&path, mode(0o620)).unwrap();
            let refused = KnownServers::load(&path).unwrap_err();
            assert!(matches!(refused, KnownServersError::Open { .. }), "{refused}");
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn comments_are_skipped_and_mistakes_named() {
        let path = file("lines");
        let key = PublicKey::from_bytes([1; 32]);
        std::fs::write(&path, format!("# mine\n\na:1 {key} # since May\n")).unwrap();
        assert_eq!(KnownServers::load(&path).unwrap().key_of("a:1"), Some(key));
        for wrong in ["a:1", "a:1 anbk:AAAA", "a:1 shopping list"] {
            std::fs::write(&path, format!("# mine\n{wrong}\n")).unwrap();
            let error = KnownServers::load(&path).unwrap_err().to_string();
            assert!(error.contains(", line 2: "), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
    }
}
