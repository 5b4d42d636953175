//! Where programs find an engine: at an abstract name, with a secret, or in a directory.

use std::fs::{DirBuilder, File, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anabranch_channel::name::{self, MOST_DIRECTORY, SECRET, SOCKET};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};
use rustix::rand::{GetRandomFlags, getrandom};

/// Locked by the engine that has the directory.
const LOCK: &str = "engine.lock";

/// The socket's file before it listens.
const UNFINISHED: &str = "engine.sock.new";

/// Calls that may wait to be accepted. More callers wait in `connect`.
const BACKLOG: i32 = 1024;

/// Where programs find an engine.
#[derive(Debug)]
pub(crate) enum Place {
    /// At an abstract name; only the engine's own programs know the secret.
    Abstract { secret: [u8; SECRET], name: String },
    /// In a directory, whose permissions say who may use it.
    Directory { path: PathBuf, _lock: File },
}

impl Place {
    /// A new abstract name, and the socket that listens there.
    pub(crate) fn anywhere() -> io::Result<(Self, OwnedFd)> {
        let mut secret = [0; SECRET];
        getrandom(&mut secret, GetRandomFlags::empty())?;
        let name = name::engine(random()?);
        let listener = socket()?;
        bind(&listener, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
        listen(&listener, BACKLOG)?;
        Ok((Self::Abstract { secret, name }, listener))
    }

    /// A directory, which is made for this user only if it is missing, and the socket that listens there. A socket that
    /// an engine has left behind is replaced.
    ///
    /// # Errors
    /// `ResourceBusy`: another engine is there. `InvalidFilename`: the path is too long for a socket.
    pub(crate) fn directory(path: &Path) -> io::Result<(Self, OwnedFd)> {
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let path = path.canonicalize()?;
        if path.as_os_str().as_bytes().len() > MOST_DIRECTORY {
            return Err(io::ErrorKind::InvalidFilename.into());
        }
        let lock = File::create(path.join(LOCK))?;
        lock.try_lock().map_err(|error| match error {
            std::fs::TryLockError::WouldBlock => io::ErrorKind::ResourceBusy.into(),
            std::fs::TryLockError::Error(error) => error,
        })?;
        // Programs find the socket when it listens and all may connect, not before.
        let unfinished = path.join(UNFINISHED);
        match std::fs::remove_file(&unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = socket()?;
        bind(&listener, &SocketAddrUnix::new(&unfinished)?)?;
        std::fs::set_permissions(&unfinished, Permissions::from_mode(0o666))?;
        listen(&listener, BACKLOG)?;
        std::fs::rename(&unfinished, path.join(SOCKET))?;
        Ok((Self::Directory { path, _lock: lock }, listener))
    }

    /// The value of the environment variable by which programs find the engine.
    pub(crate) fn variable(&self) -> String {
        match self {
            Self::Abstract { secret, name } => name::variable(secret, name),
            Self::Directory { path, .. } => path.display().to_string(),
        }
    }

    /// Whether a call with this secret is one of the engine's programs.
    pub(crate) fn admits(&self, given: &[u8; SECRET]) -> bool {
        match self {
            Self::Abstract { secret, .. } => secret == given,
            Self::Directory { .. } => true,
        }
    }

    /// No more programs find the engine.
    pub(crate) fn leave(&self) {
        if let Self::Directory { path, .. } = self {
            // As long as this engine has the lock, the socket is its own.
            let _ = std::fs::remove_file(path.join(SOCKET));
        }
    }
}

/// Checks that an engine listens in a directory.
///
/// # Errors
/// `NotFound`: there was none yet, or it has ended. `ConnectionRefused`: it was killed. Otherwise the system's.
pub fn check(directory: &Path) -> io::Result<()> {
    Ok(connect(socket()?, &SocketAddrUnix::new(directory.join(SOCKET))?)?)
}

fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

pub(crate) fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileTypeExt as _;

    use super::*;

    #[test]
    fn one_engine_has_a_directory_and_leaves_nothing_in_the_way() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("new");
        let (first, _listener) = Place::directory(&path).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&path.join(SOCKET))), (0o700, 0o666));
        let second = Place::directory(&path).err().unwrap();
        assert_eq!(second.kind(), io::ErrorKind::ResourceBusy);
        assert_eq!(first.variable(), path.canonicalize().unwrap().to_str().unwrap());
        // As after kill -9: the file is still there, the lock is not.
        check(&path).unwrap();
        drop(first);
        assert!(std::fs::metadata(path.join(SOCKET)).unwrap().file_type().is_socket());
        let (third, _listener) = Place::directory(&path).unwrap();
        third.leave();
        assert_eq!(check(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(!path.join(SOCKET).exists());
    }

    #[test]
    fn a_path_that_no_socket_can_have_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let long = Place::directory(&base.path().join("x".repeat(MOST_DIRECTORY))).err().unwrap();
        assert_eq!(long.kind(), io::ErrorKind::InvalidFilename);
    }
}
