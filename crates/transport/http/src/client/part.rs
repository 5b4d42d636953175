//! Unfinished files. `NAME.part` has the content from the first byte on, and is locked while a fetch uses it.
//! `NAME.part-info` describes the complete file.
//!
//! Both names are derived only from the file's name, so the next fetch finds them however the last one ended.

use std::ffi::OsStr;
use std::fs::{File, Metadata, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::resume::{FileState, Kept, is_strong_tag};
use crate::error::FetchError;

/// Suffix of an unfinished file.
const PART: &str = ".part";

/// Suffix of the file's description.
const INFO: &str = ".part-info";

/// Length of a name that every file system supports.
const LONGEST_NAME: usize = 255;

/// First line of a description.
const MAGIC: &str = "anabranch part 1";

/// Maximum bytes of a description; a longer one was not written by this program.
const LONGEST_INFO: u64 = 256 << 10;

/// The part of a file that an earlier fetch has left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The name of the part.
    pub path: PathBuf,
    /// Its length in bytes, at least one.
    pub bytes: u64,
}

/// Whether a file with this name would be mistaken for an unfinished file or a description.
pub fn is_unfinished(path: &Path) -> bool {
    let name = path.file_name().map(OsStr::as_encoded_bytes).unwrap_or_default();
    [PART, INFO].iter().any(|ending| name.ends_with(ending.as_bytes()))
}

/// Returns the part of the file `path` that a fetch can continue, if there is one.
pub fn part_of(path: &Path) -> Option<Part> {
    let names = Names::of(path)?;
    let found = std::fs::symlink_metadata(&names.part).ok().filter(Metadata::is_file)?;
    let (_, state) = read_info(&names.info)?;
    let bytes = usable(found.len(), &state)?;
    Some(Part { path: names.part, bytes })
}

/// Number of bytes of a part that a fetch can continue after. If the part is the whole file, the last byte is
/// requested again, so that the server can confirm that it still has the same file.
fn usable(len: u64, state: &FileState) -> Option<u64> {
    state.validator()?;
    let most = match state.total {
        Some(total) if len > total => 0,
        Some(total) => total.saturating_sub(1),
        None => u64::MAX,
    };
    Some(len.min(most)).filter(|bytes| *bytes > 0)
}

/// The names of the files that belong to a fetched file.
#[derive(Clone, Debug)]
struct Names {
    part: PathBuf,
    info: PathBuf,
}

impl Names {
    fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?;
        let with = |suffix: &str| {
            let mut whole = name.to_owned();
            whole.push(suffix);
            if whole.len() <= LONGEST_NAME {
                return path.with_file_name(whole);
            }
            // The end of a long name is replaced by a checksum of the whole name.
            let text = name.to_string_lossy();
            let checksum = format!("-{:016x}", checksum(name.as_encoded_bytes()));
            let room = LONGEST_NAME - checksum.len() - INFO.len();
            let cut = text.char_indices().map(|(at, c)| at + c.len_utf8());
            let cut = cut.take_while(|end| *end <= room).last().unwrap_or(0);
            let text = text.get(..cut).unwrap_or_default();
            path.with_file_name(format!("{text}{checksum}{suffix}"))
        };
        Some(Self { part: with(PART), info: with(INFO) })
    }
}

/// A checksum that distinguishes names (FNV-1a).
fn checksum(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// The unfinished file of one fetch, locked against other fetches.
///
/// When dropped, the file is kept if a later fetch can continue it, and removed otherwise.
#[derive(Debug)]
pub(super) struct Claim {
    names: Names,
    target: PathBuf,
    /// The source that the user requested; a part from another source is useless.
    source: String,
    file: File,
    kept: Option<Kept>,
    /// The description on disk matches the content of the file.
    described: bool,
    finished: bool,
}

impl Claim {
    /// Locks the unfinished file of `target`, and creates it if necessary. The directory of `target` must exist.
    pub(super) fn take(target: &Path, source: &str) -> Result<Self, FetchError> {
        let no_name = || FetchError::file(target, io::ErrorKind::InvalidFilename.into());
        let names = Names::of(target).ok_or_else(no_name)?;
        // Its last owner may rename or remove the file after we open it and before we lock it.
        for _ in 0..ATTEMPTS {
            let failed = |error| FetchError::file(target, error);
            let file = open(&names.part).map_err(|error| match error {
                Open::NotOurs => FetchError::Taken { part: names.part.clone() },
                Open::Io(error) => failed(error),
            })?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(FetchError::Busy { path: target.to_owned(), part: names.part });
                }
                // Some file systems have no locks.
                Err(TryLockError::Error(_)) => {}
            }
            if !is_at(&file, &names.part) {
                continue;
            }
            let length = file.metadata().map_err(failed)?.len();
            let kept = read_info(&names.info).filter(|(of, _)| of == source);
            let kept =
                kept.and_then(|(_, state)| Some(Kept { bytes: usable(length, &state)?, state }));
            let (target, source) = (target.to_owned(), source.to_owned());
            let described = kept.is_some();
            return Ok(Self { names, target, source, file, kept, described, finished: false });
        }
        Err(FetchError::Busy { path: target.to_owned(), part: names.part })
    }

    /// The part that an earlier fetch of the same file has left.
    pub(super) fn kept(&self) -> Option<&Kept> {
        self.kept.as_ref()
    }

    /// Starts writing at the first byte; `state` describes the file.
    pub(super) fn begin(&mut self, state: &FileState) -> io::Result<()> {
        // In this order, so that a description never matches other bytes.
        self.file.set_len(0)?;
        self.described = false;
        self.kept = None;
        if state.validator().is_some() {
            write_info(&self.names.info, &self.source, state)?;
            self.described = true;
            return Ok(());
        }
        remove_if_there(&self.names.info)
    }

    /// Continues after the kept part of a file of `total` bytes.
    pub(super) fn go_on(&mut self, total: u64) -> io::Result<()> {
        let Some(kept) = &mut self.kept else { return Err(io::ErrorKind::InvalidInput.into()) };
        self.file.set_len(kept.bytes)?;
        if kept.state.total != Some(total) {
            kept.state.total = Some(total);
            write_info(&self.names.info, &self.source, &kept.state)?;
        }
        Ok(())
    }

    /// Discards the kept part.
    pub(super) fn discard(&mut self) -> io::Result<()> {
        self.described = false;
        self.kept = None;
        self.file.set_len(0)
    }

    /// The file to write to.
    pub(super) fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Gives the file its final name, if it has `length` bytes. Returns whether it replaced another file.
    pub(super) fn finish(mut self, length: u64, modified: Option<SystemTime>) -> io::Result<bool> {
        let found = self.file.metadata()?;
        if !is_at(&self.file, &self.names.part) || found.len() != length {
            return Err(io::Error::other("another program has changed the unfinished file"));
        }
        // Others may not be permitted to read the replaced file; keep its permissions.
        let old = std::fs::metadata(&self.target).ok();
        if let Some(old) = &old {
            let _ = self.file.set_permissions(old.permissions());
        }
        if let Some(modified) = modified {
            // A file system that cannot store this time keeps its own.
            let _ = self.file.set_modified(modified);
        }
        std::fs::rename(&self.names.part, &self.target)?;
        self.finished = true;
        if self.described {
            let _ = std::fs::remove_file(&self.names.info);
        }
        Ok(old.is_some())
    }

    /// Whether a later fetch can continue this file.
    pub(super) fn is_of_use(&self) -> bool {
        self.described && self.file.metadata().is_ok_and(|found| found.len() > 0)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.finished && !self.is_of_use() && is_at(&self.file, &self.names.part) {
            // Files that cannot be removed are overwritten by the next fetch. Remove the part last, because it holds
            // the lock.
            let _ = std::fs::remove_file(&self.names.info);
            let _ = std::fs::remove_file(&self.names.part);
        }
    }
}

/// Maximum attempts to lock a file that other fetches lock and release.
const ATTEMPTS: usize = 100;

enum Open {
    /// A link, a device, a directory, or a file with a second name.
    NotOurs,
    Io(io::Error),
}

/// Opens the unfinished file, or creates it, without following links.
fn open(part: &Path) -> Result<File, Open> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o666).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    }
    let file = match options.open(part) {
        Ok(file) => file,
        Err(error) => {
            let found = std::fs::symlink_metadata(part);
            let other = found.is_ok_and(|found| !found.is_file());
            return Err(if other { Open::NotOurs } else { Open::Io(error) });
        }
    };
    let found = file.metadata().map_err(Open::Io)?;
    if found.is_file() && has_one_name(&found) { Ok(file) } else { Err(Open::NotOurs) }
}

#[cfg(unix)]
fn has_one_name(found: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    // If there are no links, the file was removed meanwhile, which is detected later.
    found.nlink() <= 1
}

#[cfg(not(unix))]
fn has_one_name(_: &Metadata) -> bool {
    true
}

/// Whether this name refers to the open file.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let identity = |found: Metadata| (found.dev(), found.ino());
    let open = file.metadata().map(identity);
    let named = std::fs::symlink_metadata(path).map(identity);
    open.ok().zip(named.ok()).is_some_and(|(open, named)| open == named)
}

#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
}

/// Reads the description of a part: its source and state.
fn read_info(path: &Path) -> Option<(String, FileState)> {
    let found = std::fs::symlink_metadata(path).ok()?;
    if !found.is_file() || found.len() > LONGEST_INFO {
        return None;
    }
    let mut text = String::new();
    File::open(path).ok()?.take(LONGEST_INFO).read_to_string(&mut text).ok()?;
    parse_info(&text)
}

fn parse_info(text: &str) -> Option<(String, FileState)> {
    // The last line proves that the description is complete.
    let mut lines = text.strip_suffix("\nend\n")?.lines();
    let mut state = FileState::default();
    let mut source = None;
    if lines.next()? != MAGIC {
        return None;
    }
    for line in lines {
        let (name, value) = line.split_once(": ")?;
        match name {
            "source" => source = Some(value.to_owned()),
            "etag" => state.etag = Some(value.to_owned()),
            "modified" => state.modified = Some(value.to_owned()),
            "changed" => state.changed = Some(value.to_owned()),
            "total" => state.total = Some(value.parse().ok()?),
            _ => return None,
        }
    }
    // Values that become part of a request must be well formed.
    let date = |text: &str| httpdate::parse_http_date(text).is_ok() && !text.contains(['\r', '\n']);
    let fits = state.etag.as_deref().is_none_or(is_strong_tag)
        && state.modified.as_deref().is_none_or(date);
    Some((source?, state)).filter(|_| fits)
}

fn write_info(path: &Path, source: &str, state: &FileState) -> io::Result<()> {
    let mut text = format!("{MAGIC}\nsource: {source}\n");
    let total = state.total.map(|total| total.to_string());
    for (name, value) in [
        ("etag", state.etag.as_deref()),
        ("modified", state.modified.as_deref()),
        ("total", total.as_deref()),
        ("changed", state.changed.as_deref()),
    ] {
        if let Some(value) = value {
            text.push_str(&format!("{name}: {value}\n"));
        }
    }
    text.push_str("end\n");
    // Remove and create it, because writing would follow a link to another file.
    remove_if_there(path)?;
    File::options().write(true).create_new(true).open(path)?.write_all(text.as_bytes())
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(etag: &str, total: Option<u64>) -> FileState {
        FileState { etag: Some(etag.to_owned()), total, ..FileState::default() }
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Leaves a part with the content `text`, as a fetch does.
    fn leave(path: &Path, source: &str, state: &FileState, text: &[u8]) {
        let mut claim = Claim::take(path, source).unwrap();
        claim.begin(state).unwrap();
        claim.file().unwrap().write_all(text).unwrap();
    }

    #[test]
    fn a_part_is_found_again_whatever_its_name_and_tag() {
        let directory = tempfile::tempdir().unwrap();
        let long = "x".repeat(250);
        let wide = "\u{e9}".repeat(127);
        for name in ["f", "f.part", &long, &wide] {
            for tag in ["\"5-1a\"", "\"1732:abc.9/x+y=\"", &format!("\"{}\"", "a".repeat(5000))] {
                let path = directory.path().join(name);
                leave(&path, "http://h/f", &state(tag, Some(10)), b"12345");
                assert_eq!(part_of(&path).unwrap().bytes, 5);
                let claim = Claim::take(&path, "http://h/f").unwrap();
                assert_eq!(claim.kept().unwrap().state.etag.as_deref(), Some(tag));
                claim.finish(5, None).unwrap();
                assert_eq!(names(directory.path()), [name]);
                std::fs::remove_file(path).unwrap();
            }
        }
        let twins = ["y", "z"].map(|end| directory.path().join(format!("{long}{end}")));
        let twins = twins.map(|path| Names::of(&path).unwrap().part);
        assert_ne!(twins[0], twins[1]);
    }

    #[test]
    fn what_cannot_be_continued_is_not_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        leave(&path, "s", &FileState::default(), b"12345");
        assert!(names(directory.path()).is_empty(), "no validator");
        leave(&path, "s", &state("\"1\"", Some(10)), b"");
        assert!(names(directory.path()).is_empty(), "no byte");
        // With another source it is another file, whatever its tag.
        leave(&path, "s", &state("\"1\"", Some(10)), b"12345");
        assert_eq!(Claim::take(&path, "t").unwrap().kept(), None);
    }

    #[test]
    fn a_killed_fetch_leaves_what_the_next_one_takes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        let info = directory.path().join("f.part-info");
        let mut claim = Claim::take(&path, "s").unwrap();
        claim.begin(&state("\"1\"", None)).unwrap();
        claim.file().unwrap().write_all(b"12345").unwrap();
        let whole = std::fs::read_to_string(&info).unwrap();
        drop(claim);
        // If any byte of the description is missing, the part must not be used.
        for cut in 0..whole.len() {
            std::fs::write(&info, &whole[..cut]).unwrap();
            assert_eq!(part_of(&path), None, "{cut}");
        }
        std::fs::write(&info, whole.replace("\"1\"", "1\r\nHost: x")).unwrap();
        assert_eq!(part_of(&path), None);
        std::fs::write(&info, whole).unwrap();
        assert_eq!(part_of(&path).unwrap().bytes, 5);
        let claim = Claim::take(&path, "s").unwrap();
        claim.finish(5, None).unwrap();
        assert_eq!(names(directory.path()), ["f"]);
    }

    #[test]
    fn of_a_whole_part_the_last_byte_is_asked_for_and_a_longer_one_is_useless() {
        for (len, total, bytes) in [
            (5, Some(10), Some(5)),
            (10, Some(10), Some(9)),
            (11, Some(10), None),
            (1, Some(1), None),
            (0, None, None),
            (7, None, Some(7)),
        ] {
            assert_eq!(usable(len, &state("\"1\"", total)), bytes, "{len} of {total:?}");
        }
    }

    #[test]
    fn only_one_fetch_has_a_part() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        let first = Claim::take(&path, "s").unwrap();
        let second = Claim::take(&path, "s").unwrap_err();
        assert!(matches!(&second, FetchError::Busy { path: busy, .. } if *busy == path));
        // If another process changes the file meanwhile, it must not get its final name.
        std::fs::write(directory.path().join("f.part"), "rubbish").unwrap();
        assert!(first.finish(0, None).is_err());
        assert!(!path.exists());
        assert!(Claim::take(&path, "s").is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn no_other_file_is_written_through_the_name_of_a_part() {
        let directory = tempfile::tempdir().unwrap();
        let (path, mine) = (directory.path().join("f"), directory.path().join("mine"));
        std::fs::write(&mine, "mine").unwrap();
        let part = directory.path().join("f.part");
        std::os::unix::fs::symlink(&mine, &part).unwrap();
        assert!(matches!(Claim::take(&path, "s"), Err(FetchError::Taken { .. })));
        std::fs::remove_file(&part).unwrap();
        std::fs::hard_link(&mine, &part).unwrap();
        assert!(matches!(Claim::take(&path, "s"), Err(FetchError::Taken { .. })));
        std::fs::remove_file(&part).unwrap();
        std::os::unix::fs::symlink(&mine, directory.path().join("f.part-info")).unwrap();
        leave(&path, "s", &state("\"1\"", None), b"12345");
        assert_eq!(std::fs::read(&mine).unwrap(), b"mine");
        assert_eq!(part_of(&path).unwrap().bytes, 5);
    }

    #[cfg(unix)]
    #[test]
    fn a_replaced_file_keeps_its_permissions() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        Claim::take(&path, "s").unwrap().finish(0, None).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
