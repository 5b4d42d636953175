//! Serves files in the page cache, which can be opened and read without waiting for a disk, and therefore without
//! another thread.

use std::fs::{File, Metadata};
use std::path::Path;

use bytes::Bytes;
use cap_std::fs::Dir;

/// Looks up a file below `root`, following links as `Dir::open` does, if its whole path is cached so that no disk
/// access is needed. `None` means: look it up in the usual way.
#[cfg(target_os = "linux")]
pub(super) fn look(root: &Dir, path: &Path) -> Option<Metadata> {
    // Do not open the path for reading yet: if it is a device, that has an effect.
    let seen = within(root, path, rustix::fs::OFlags::PATH)?.metadata().ok()?;
    seen.is_file().then_some(seen)
}

/// Opens a path that was a regular file when it was looked up. `None` means: open it in the usual way.
#[cfg(target_os = "linux")]
pub(super) fn open(root: &Dir, path: &Path) -> Option<File> {
    use rustix::fs::OFlags;
    // If it has become a pipe, do not wait for its other end.
    within(root, path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)
}

#[cfg(target_os = "linux")]
fn within(root: &Dir, path: &Path, flags: rustix::fs::OFlags) -> Option<File> {
    use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::CACHED;
    let opened = openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), within);
    opened.ok().map(File::from)
}

/// Why a piece cannot be read at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Elsewhere {
    /// It is not in memory, or there is an error.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "other systems never know"))]
    Absent,
    /// The file system cannot tell, such as the overlays of containers.
    Unknown,
}

/// Reads at most `most` bytes from `offset`, if they are in memory. An error means: read them in the usual way.
#[cfg(target_os = "linux")]
pub(super) fn read(file: &File, offset: u64, most: usize) -> Result<Bytes, Elsewhere> {
    use rustix::io::{Errno, IoSliceMut, ReadWriteFlags, preadv2};
    let mut piece = vec![0; most];
    let mut read = |flags| preadv2(file, &mut [IoSliceMut::new(&mut piece)], offset, flags);
    let count = match read(ReadWriteFlags::NOWAIT) {
        Err(Errno::OPNOTSUPP) if is_in_memory(file) => read(ReadWriteFlags::empty()),
        Err(Errno::OPNOTSUPP) => return Err(Elsewhere::Unknown),
        read => read,
    };
    let count = count.ok().filter(|count| *count > 0).ok_or(Elsewhere::Absent)?;
    piece.truncate(count);
    Ok(piece.into())
}

/// Whether the file's system is in memory as a whole: tmpfs or ramfs.
#[cfg(target_os = "linux")]
fn is_in_memory(file: &File) -> bool {
    const KINDS: [u32; 2] = [0x0102_1994, 0x8584_58f6];
    rustix::fs::fstatfs(file).is_ok_and(|system| KINDS.contains(&(system.f_type as u32)))
}

/// Not available on other systems.
#[cfg(not(target_os = "linux"))]
pub(super) fn look(_: &Dir, _: &Path) -> Option<Metadata> {
    None
}

/// Not available on other systems.
#[cfg(not(target_os = "linux"))]
pub(super) fn open(_: &Dir, _: &Path) -> Option<File> {
    None
}

/// Not available on other systems.
#[cfg(not(target_os = "linux"))]
pub(super) fn read(_: &File, _: u64, _: usize) -> Result<Bytes, Elsewhere> {
    Err(Elsewhere::Unknown)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::fs::symlink;

    use cap_std::ambient_authority;
    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    #[test]
    fn files_below_the_directory_are_opened_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::write(directory.path().join("secret"), "secret").unwrap();
        std::fs::write(root.join("sub/file"), "0123456789").unwrap();
        symlink("sub/file", root.join("inside")).unwrap();
        symlink("../secret", root.join("outside")).unwrap();
        symlink("/etc/passwd", root.join("absolute")).unwrap();
        mkfifoat(CWD, root.join("pipe"), Mode::RUSR).unwrap();
        let root = Dir::open_ambient_dir(&root, ambient_authority()).unwrap();
        for no in ["outside", "absolute", "pipe", "sub", "../secret", "/etc/passwd", "nothing"] {
            assert!(look(&root, Path::new(no)).is_none(), "{no}");
        }
        for name in ["sub/file", "inside"] {
            // If the kernel or the file system cannot do this, the usual way is used.
            let Some(seen) = look(&root, Path::new(name)) else { continue };
            assert_eq!(seen.len(), 10);
            let file = open(&root, Path::new(name)).unwrap();
            let Ok(piece) = read(&file, 0, 4) else { continue };
            assert_eq!(piece, "0123");
            assert_eq!(read(&file, 4, 100).unwrap(), "456789");
            let end = read(&file, 10, 100);
            assert_eq!(end, Err(Elsewhere::Absent), "the end is left to the usual way");
        }
    }

    #[test]
    fn files_in_memory_are_read() {
        let memory = Path::new("/dev/shm");
        let Ok(mut file) = tempfile::tempfile_in(memory) else { return };
        std::io::Write::write_all(&mut file, b"0123456789").unwrap();
        if is_in_memory(&file) {
            assert_eq!(read(&file, 4, 100).unwrap(), "456789");
        }
    }
}
